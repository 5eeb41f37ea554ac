"""The command-line options of least squares, and the output of its solution."""

from __future__ import annotations

from typing import Any

import click

from linspec.cli.kinds import Kind, center_option, ridge_option, row_options


def _least_squares_parameters() -> list[click.Parameter]:
    ridge = ridge_option("Added to the diagonal of AᵀA, which is not divided by the number of rows.")
    center = "Fit an intercept, which no ridge shrinks; sparse data stay sparse."
    return [ridge, center_option(False, center), *row_options()]


def _coefficients(solution: Any) -> list[tuple[str, str]]:
    from linspec.arrays import to_host

    x = to_host(solution.x)
    shape = " x ".join(map(str, x.shape))
    return [("coefficients", f"{shape}, norm {float((x.astype(float) ** 2).sum()) ** 0.5:.6g}")]


COMMAND = Kind(
    name="least-squares",
    matrices=("A", "B"),
    parameters=_least_squares_parameters,
    answer=_coefficients,
    score=None,
    second_columns="--target-column",
    path=True,
    varied=("ridge",),
)
"""The description of the problem for the command line."""
