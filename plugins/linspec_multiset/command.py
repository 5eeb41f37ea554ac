"""Multiset CCA and SUMCOR on the command line: their parameters, and the display of their answers.

All would follow from the declared fields; this module does not load the class, so that help loads no array library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from linspec.cli import (
    Kind,
    Score,
    center_option,
    count_option,
    first_numbers,
    numbers_option,
    ridge_option,
    row_options,
)


def _eigenvalues(solution: Any) -> list[tuple[str, str]]:
    values = solution.eigenvalues
    rows = [("eigenvalues", first_numbers(values, ".5g") or "none"), ("sum", f"{float(values.sum()):.6g}")]
    for i, own in enumerate(solution.agreement if len(values) else ()):
        rows.append((f"agreement of X{i + 1}", first_numbers(own, ".3f")))
    return rows


def _weights_of_views(values: Mapping[str, Any]) -> list[str]:
    weights = values.get("view_weights")
    return [] if weights is None else ["view weights " + ", ".join(f"{weight:g}" for weight in weights)]


def _total(fields: Mapping[str, Any]) -> float:
    return float(fields["eigenvalues"].sum())


def _parameters(*more: Any) -> list[Any]:
    """The options of both problems; `more` stand before those of rows."""
    return [
        count_option("components"),
        ridge_option("Added to the diagonal of the Gram matrix of every view."),
        center_option(True),
        *more,
        *row_options(),
    ]


COMMAND = Kind(
    name="multiset-cca",
    matrices=("views",),
    several=True,
    parameters=lambda: _parameters(
        numbers_option("view_weights", "How much each view counts, 1 by default.")
    ),
    answer=_eigenvalues,
    words=_weights_of_views,
    score=Score("sum of eigenvalues", "sum", _total),
    varied=("ridge",),
    loadings=True,
)
"""The description of `multiset-cca` for the command line."""


def _sums(solution: Any) -> list[tuple[str, str]]:
    def shown(values: Any) -> str:
        return first_numbers(values, ".5g") or "none"

    return [
        ("sums of correlations", shown(solution.sums)),
        ("upper bounds", shown(solution.bounds)),
        (f"starts that led to it, of {solution.starts}", shown(solution.agreeing)),
    ]


def _sum_of_sums(fields: Mapping[str, Any]) -> float:
    return float(fields["sums"].sum())


SUMCOR = Kind(
    name="sumcor-cca",
    matrices=("views",),
    several=True,
    parameters=_parameters,
    answer=_sums,
    score=Score("sum of all sums", "sum", _sum_of_sums),
    varied=("ridge",),
    loadings=True,
)
"""The description of `sumcor-cca` for the command line."""
