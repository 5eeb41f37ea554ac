"""Partial least squares on the command line: the parameters of both problems and the display of their answers.

Both would follow from the declared fields; this module does not load the classes, so that help loads no array library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from linspec.cli import Kind, Score, center_option, count_option, first_numbers, row_options


def _singular_values(solution: Any) -> list[tuple[str, str]]:
    values = solution.singular_values
    return [
        ("singular values", first_numbers(values, ".5g") or "none"),
        ("sum", f"{float(values.sum()):.6g}"),
    ]


def _total(fields: Mapping[str, Any]) -> float:
    return float(fields["singular_values"].sum())


def _covariances(solution: Any) -> list[tuple[str, str]]:
    return [("covariances", first_numbers(solution.covariances, ".5g") or "none")]


PAIRS = Kind(
    name="pls",
    matrices=("X", "Y"),
    parameters=lambda: [count_option("singular triplets"), center_option(True), *row_options()],
    answer=_singular_values,
    score=Score("sum of singular values", "sum", _total),
    variates=True,
    loadings=True,
)
"""The description of `pls` for the command line."""

REGRESSION = Kind(
    name="pls-regression",
    matrices=("X", "Y"),
    parameters=lambda: [
        count_option("components"),
        center_option(True, "Fit an intercept; sparse data stay sparse."),
        *row_options(),
    ],
    answer=_covariances,
    score=None,
    scored=True,
    loadings=True,
)
"""The description of `pls-regression` for the command line."""
