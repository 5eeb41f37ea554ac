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
    if solution.path:  # its table has a row for each ridge
        return []
    (_, norm), *intercept = _norm_and_intercept(solution)
    return [("coefficients", f"{' x '.join(map(str, solution.x.shape))}, norm {norm}"), *intercept]


def _of_ridge(solution: Any) -> list[tuple[str, str]]:
    """The norm for one ridge of a path, and the intercept of a single right-hand side; several would not fit."""
    norm, *intercept = _norm_and_intercept(solution)
    return [norm, *(intercept if len(solution.target_names) == 1 else ())]


def _norm_and_intercept(solution: Any) -> list[tuple[str, str]]:
    from linspec.arrays import to_host

    norm = float((to_host(solution.x).astype(float) ** 2).sum()) ** 0.5
    found = [("norm of coefficients", f"{norm:.6g}")]
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
    along_path=_of_ridge,
    centring=("with an intercept", "without an intercept"),
    varied=("ridge",),
    scored=True,
)
"""The description of the problem for the command line."""
