"""The command-line options of canonical correlations, and the output of their solution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from linspec.cli.kinds import (
    Kind,
    Score,
    center_option,
    count_option,
    first_numbers,
    ridge_option,
    row_options,
    with_ridge_pair,
)
from linspec.cli.tables import percent


def _cca_parameters() -> list[click.Parameter]:
    return [
        count_option("canonical pairs"),
        ridge_option("Added to the diagonals of XᵀX and YᵀY, which are not divided by the number of rows."),
        click.Option(
            ["--ridge-y"], type=float, metavar="NUMBER", help="The ridge of Y, if it differs from X's."
        ),
        center_option(True),
        *row_options(),
    ]


def _correlations(solution: Any) -> list[tuple[str, str]]:
    rho = solution.correlations
    return [("correlations", first_numbers(rho, ".4f")), ("sum", f"{float(rho.sum()):.6f}")]


def _sum_of_correlations(fields: Mapping[str, Any]) -> float:
    return float(fields["correlations"].sum())


def _explained(solution: Any, matrices: Sequence[Any], confounds: Any) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of a table of the variance that each pair of variates explains in each view.

    For each view there are two shares of the variance of its columns, both averaged over the columns: the share that
    the variate of this view explains, and the share that the variate of the other view explains.
    """
    import numpy as np

    from linspec.arrays import to_host

    loadings = solution.loadings(*matrices, confounds=confounds)
    shares = [np.mean(np.asarray(to_host(part), dtype=np.float64) ** 2, axis=0) for part in loadings]
    found = solution.score(*matrices, confounds=confounds).correlations
    head = ["pair", "of X by its variate", "of X by that of Y", "of Y by its variate", "of Y by that of X"]
    rows = [
        [str(i + 1), *(percent(float(share[i]) * factor) for share in shares for factor in (1.0, r**2))]
        for i, r in enumerate(found.tolist())
    ]
    return head, rows


COMMAND = Kind(
    name="cca",
    matrices=("X", "Y"),
    parameters=_cca_parameters,
    answer=_correlations,
    score=Score("sum of correlations", "sum", _sum_of_correlations),
    arrange=with_ridge_pair,
    share="PCC",
    explained=_explained,
    varied=("ridge", "ridge_y"),
    scored=True,
    variates=True,
    loadings=True,
    proves_completeness=True,
)
"""The description of the problem for the command line."""
