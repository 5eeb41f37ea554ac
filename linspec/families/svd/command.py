"""The command-line options of a truncated SVD, and the output of its solution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from linspec.cli.columns import without_columns
from linspec.cli.kinds import SHOWN, Kind, Score, center_option, count_option, first_numbers, row_options
from linspec.cli.tables import percent
from linspec.errors import shown

DOMINANT, FEW_COLUMNS = 0.99, 2
"""Squared weight of a column in the first component that is a warning, where there are more than this many columns."""


def _svd_parameters() -> list[click.Parameter]:
    left = click.Option(["--left"], is_flag=True, help="Compute the left singular vectors too.")
    return [count_option("singular triplets"), center_option(False), *row_options(), left]


def _singular_values(solution: Any) -> list[tuple[str, str]]:
    return [("singular values", first_numbers(solution.S, ".5g")), *_explained(solution)]


def _explained(solution: Any) -> list[tuple[str, str]]:
    """The share of the variance in each component; without centring, the share of the squares about zero."""
    shares = solution.explained_variance_ratio
    if shares is None or not len(shares):
        return []
    label = _whole(solution)
    first = "  ".join(percent(float(share)) for share in shares[:SHOWN])
    return [(label, f"{first}, together {percent(float(shares.sum()))}")]


def _whole(solution: Any) -> str:
    return "of the squares" if solution.mean is None else "of the variance"


def _table_of_shares(solution: Any, *_: Any) -> tuple[list[str], list[list[str]]]:
    """Table of the share of each component, and of the components up to it."""
    shares = solution.explained_variance_ratio
    head = ["component", _whole(solution), "cumulative"]
    if shares is None:
        return head, []
    together = shares.cumsum()
    rows = [
        [str(i + 1), percent(float(share)), percent(float(together[i]))] for i, share in enumerate(shares)
    ]
    return head, rows


def _unscaled(solution: Any, values: Mapping[str, Any]) -> str:
    """Warn of a column that makes up the first component, because its unit is large."""
    from linspec.arrays import to_host

    if values.get("scale") or not values.get("center") or not len(solution.S):
        return ""
    shares = to_host(solution.Vh[0]).astype(float) ** 2
    column = int(shares.argmax())
    if len(shares) <= FEW_COLUMNS or shares[column] < DOMINANT:
        return ""
    names = solution.column_names.get("A")
    name = shown(names[column]) if names else f"number {column}, from 0,"
    left_out = f", {without_columns(names[column])} leaves it out" if names else ""
    return (
        f"the column {name} has {percent(float(shares[column]))} of the first component, as columns are not scaled. "
        f"--scale divides each by its standard deviation{left_out}."
    )


def _captured(fields: Mapping[str, Any]) -> float:
    from linspec.families.svd.solution import SVDSolution  # here: help loads no array library

    return SVDSolution.objective(fields)


COMMAND = Kind(
    name="svd",
    matrices=("A",),
    parameters=_svd_parameters,
    answer=_singular_values,
    score=Score("sum of squared singular values", "sum of S²", _captured),
    explained=_table_of_shares,
    explained_by_rows=False,
    advice=_unscaled,
    loadings=True,
)
"""The description of the problem for the command line."""
