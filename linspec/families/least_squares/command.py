"""The command-line options of least squares, and the output of its solution."""

from __future__ import annotations

from typing import Any

import click

from linspec.cli.kinds import Kind, center_option, first_numbers, ridge_option, row_options


def _least_squares_parameters() -> list[click.Parameter]:
    ridge = ridge_option("Added to the diagonal of AᵀA, which is not divided by the number of rows.")
    center = "Fit an intercept, which no ridge shrinks; sparse data stay sparse."
    return [ridge, center_option(True, center), *row_options()]


def _coefficients(solution: Any) -> list[tuple[str, str]]:
    from linspec.arrays import to_host

    if solution.path:  # its table has a row for each ridge
        return []
    x = to_host(solution.x)
    shape = " x ".join(map(str, x.shape))
    found = [("coefficients", f"{shape}, norm {float((x.astype(float) ** 2).sum()) ** 0.5:.6g}")]
    if solution.intercept is not None:
        found.append(("intercept", first_numbers(to_host(solution.intercept).reshape(-1), ".6g")))
    return found


COMMAND = Kind(
    name="least-squares",
    matrices=("A", "B"),
    parameters=_least_squares_parameters,
    answer=_coefficients,
    score=None,
    second_columns="--target-column",
    path=True,
    centring=("with an intercept", "without an intercept"),
    varied=("ridge",),
    scored=True,
)
"""The description of the problem for the command line."""
