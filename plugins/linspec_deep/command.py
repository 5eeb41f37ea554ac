"""Deep CCA on the command line: its parameters and the display of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from linspec.cli import Kind, Score, count_option, first_numbers

OF_NETS = (
    ("width", "Columns of each hidden layer; 256 by default."),
    ("depth", "Hidden layers of each net; 2 by default."),
    ("batch", "Rows of a minibatch; 1000 by default."),
    ("epochs", "Times that all rows are read; by default 10, or more until there are 200 steps."),
)
"""Solver options that the command line offers under their own names (`--width`), with their help texts."""


def _parameters() -> list[click.Parameter]:
    return [count_option("features of each net, and canonical pairs")]


def _of_nets() -> list[click.Parameter]:
    return [click.Option([f"--{name}"], type=int, metavar="NUMBER", help=help_) for name, help_ in OF_NETS]


def _answer(solution: Any) -> list[tuple[str, str]]:
    rho = solution.correlations
    return [
        ("correlations", first_numbers(rho, ".4f")),
        ("sum", f"{float(rho.sum()):.6f}"),
        ("nets", f"{solution.x_net} and {solution.y_net}"),
    ]


def _sum(fields: Mapping[str, Any]) -> float:
    return float(fields["correlations"].sum())


COMMAND = Kind(
    name="deep-cca",
    matrices=("X", "Y"),
    parameters=_parameters,
    answer=_answer,
    score=Score("sum of correlations", "sum", _sum),
    solver="dcca",
    solver_parameters=_of_nets,
    varied=tuple(name for name, _ in OF_NETS),
    scored=True,
    variates=True,
    loadings=True,
)
"""Declaration of deep CCA for the command line."""
