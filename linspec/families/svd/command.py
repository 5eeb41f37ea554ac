"""The command-line options of a truncated SVD, and the output of its solution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from linspec.cli.kinds import SHOWN, Kind, Score, center_option, count_option, first_numbers, row_options
from linspec.cli.tables import percent


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
    label = "of the squares" if solution.mean is None else "of the variance"
    first = "  ".join(percent(float(share)) for share in shares[:SHOWN])
    return [(label, f"{first}, together {percent(float(shares.sum()))}")]


def _captured(fields: Mapping[str, Any]) -> float:
    from linspec.families.svd.solution import SVDSolution  # here: help loads no array library

    return SVDSolution.objective(fields)


COMMAND = Kind(
    name="svd",
    matrices=("A",),
    parameters=_svd_parameters,
    answer=_singular_values,
    score=Score("sum of squared singular values", "sum of S²", _captured),
)
"""The description of the problem for the command line."""
