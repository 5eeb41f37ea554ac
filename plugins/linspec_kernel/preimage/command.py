"""Preimage CCA on the command line: its parameters and the display of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from linspec.cli import Kind, Score, center_option, count_option, first_numbers
from linspec_kernel.command import OF_KERNELS, kernel_of, kernel_options, of_other_kernels

KERNELS = ("linear", "polynomial", "rbf")

OF_BOUNDS = ("bound", "bound_y", "bound_kind")
"""Command-line parameters that describe bounds."""


def _parameters() -> list[click.Parameter]:
    return [
        count_option("pairs of points"),
        *kernel_options(KERNELS, "linear"),
        click.Option(
            ["--bound"],
            type=float,
            metavar="NUMBER",
            help="Makes points sparse: |u|1 is at most so many times |u|2; from 1 (one column) on.",
        ),
        click.Option(["--bound-y"], type=float, metavar="NUMBER", help="That of Y, if it differs from X's."),
        click.Option(
            ["--bound-kind"],
            type=click.Choice(("ratio", "l1", "l2")),
            help="Or the radius of a ball, as published; ratio by default.",
        ),
        click.Option(
            ["--objective"],
            type=click.Choice(("correlation", "hsic")),
            default="correlation",
            show_default=True,
            help="What is maximised.",
        ),
        center_option(True, "Centre the values of the functions."),
    ]


def _with_kernels(matrices: list[Any], values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Replace the parameters of kernels by kernels, and the parameters of bounds by pairs (kind, number)."""
    given = {name: value for name, value in values.items() if name not in (*OF_KERNELS, *OF_BOUNDS)}
    name = values.get("kernel", "linear")
    given["kernel_x"] = kernel_of(name, values)
    given["kernel_y"] = kernel_of(values.get("kernel_y", name), values)
    kind = values.get("bound_kind", "ratio")
    for option, field in (("bound", "bound_x"), ("bound_y", "bound_y")):
        if option in values:
            given[field] = (kind, values[option])
    return matrices, given


def _words(values: Mapping[str, Any]) -> list[str]:
    names = [values.get("kernel", "linear"), values.get("kernel_y")]
    words = ["kernel " + " and ".join(name for name in names if name)]
    if values.get("bound") is not None:
        words.append(f"{values.get('bound_kind') or 'ratio'} {values['bound']:g}")
    return [*words, "HSIC"] if values.get("objective") == "hsic" else words


def _answer(solution: Any) -> list[tuple[str, str]]:
    rho = solution.correlations
    x, y = solution.supports()
    rows = [("correlations", first_numbers(rho, ".4f")), ("sum", f"{float(rho.sum()):.6f}")]
    if abs(solution.values - rho).max(initial=0.0) > 5e-5:
        rows.append(("objective", first_numbers(solution.values, ".4f")))
    rows += [
        (
            "columns of X, of Y",
            "  ".join(f"{a}, {b}" for a, b in zip(x.sum(axis=0), y.sum(axis=0), strict=True)),
        ),
        ("starts that agree", f"{first_numbers(solution.agreeing, '.0f')} of {solution.starts}"),
    ]
    kernels = [str(solution.kernel_x), str(solution.kernel_y)]
    return [*rows, ("kernels", " and ".join(dict.fromkeys(kernels)))]


def _sum(fields: Mapping[str, Any]) -> float:
    return float(fields["values"].sum())


COMMAND = Kind(
    name="preimage-cca",
    matrices=("X", "Y"),
    parameters=_parameters,
    answer=_answer,
    score=Score("sum of the objective", "sum", _sum),
    arrange=_with_kernels,
    words=_words,
    varied=(*OF_KERNELS, *OF_BOUNDS),
    unused=partial(of_other_kernels, usual="linear"),
    scored=True,
    variates=True,
    loadings=True,
)
"""Declaration of preimage CCA for the command line."""
