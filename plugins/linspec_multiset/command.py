"""Multiset CCA on the command line: its parameters, and the display of its answer.

Both would follow from the declared fields; this module does not load the class, so that help loads no array library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from linspec.cli import Kind, Score, center_option, count_option, first_numbers, ridge_option, row_options


def _eigenvalues(solution: Any) -> list[tuple[str, str]]:
    values = solution.eigenvalues
    return [("eigenvalues", first_numbers(values, ".5g") or "none"), ("sum", f"{float(values.sum()):.6g}")]


def _total(fields: Mapping[str, Any]) -> float:
    return float(fields["eigenvalues"].sum())


COMMAND = Kind(
    name="multiset-cca",
    matrices=("views",),
    several=True,
    parameters=lambda: [
        count_option("components"),
        ridge_option("Added to the diagonal of the Gram matrix of every view."),
        center_option(True),
        *row_options(),
    ],
    answer=_eigenvalues,
    score=Score("sum of eigenvalues", "sum", _total),
    varied=("ridge",),
    loadings=True,
)
"""The description of the problem for the command line."""
