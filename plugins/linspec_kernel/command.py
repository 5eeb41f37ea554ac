"""Kernel CCA on the command line: its parameters and the display of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from linspec.cli import Kind, Score, center_option, count_option, first_numbers

if TYPE_CHECKING:
    from linspec.kernels import Kernel

KERNELS = ("rbf", "laplacian", "polynomial", "linear", "precomputed")

OF_KERNEL = ("kernel", "kernel_scale", "scale_factor", "degree", "offset")
"""Command-line parameters that describe a kernel."""

OF_KERNELS = (*OF_KERNEL, "kernel_y")
"""Command-line parameters that describe the kernels of two views."""


def _parameters() -> list[click.Parameter]:
    return [
        count_option("canonical pairs"),
        click.Option(
            ["--ridge"],
            type=float,
            required=True,
            metavar="NUMBER",
            help="Above 0; added to the Gram matrices of the features. Begin with 1e-4 times the rows.",
        ),
        click.Option(
            ["--ridge-y"], type=float, metavar="NUMBER", help="The ridge of Y, if it differs from X's."
        ),
        *kernel_options(KERNELS, "rbf"),
        center_option(True, "Centre the features."),
    ]


def kernel_options(names: tuple[str, ...], usual: str, views: int = 2) -> list[click.Parameter]:
    """Options for the kernel of each view, and for the parameters of these kernels."""
    scaled = " or ".join(name for name in ("rbf", "laplacian") if name in names)
    median = "By default the median distance between rows."
    second = click.Option(
        ["--kernel-y"], type=click.Choice(names), help="The kernel of Y, if it differs from X's."
    )
    return [
        click.Option(
            ["--kernel"], type=click.Choice(names), default=usual, show_default=True, help="The kernel."
        ),
        *([second] if views > 1 else []),
        click.Option(
            ["--kernel-scale"], type=float, metavar="NUMBER", help=f"The scale of {scaled}. {median}"
        ),
        click.Option(
            ["--scale-factor"], type=float, metavar="NUMBER", help="By which that median is multiplied."
        ),
        click.Option(
            ["--degree"], type=int, metavar="NUMBER", help="The degree of polynomial; 2 by default."
        ),
        click.Option(
            ["--offset"], type=float, metavar="NUMBER", help="The constant of polynomial; 1 by default."
        ),
    ]


def kernel_of(name: str, values: Mapping[str, Any]) -> Kernel:
    """Kernel with this name and the parameters given on the command line."""
    from linspec import kernels  # here: help and listings load no array library

    if name in ("rbf", "laplacian"):
        make: Any = kernels.rbf if name == "rbf" else kernels.laplacian
        scale = values.get("kernel_scale")
        return make(  # type: ignore[no-any-return]
            "median" if scale is None else scale, factor=values.get("scale_factor") or 1.0
        )
    if name == "polynomial":
        return kernels.polynomial(values.get("degree", 2), values.get("offset", 1.0))
    return kernels.linear() if name == "linear" else kernels.precomputed()


def _with_kernels(matrices: list[Any], values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Replace the parameters of kernels by kernels, and `ridge_y` by a pair of ridges."""
    given = {name: value for name, value in values.items() if name not in (*OF_KERNELS, "ridge_y")}
    if "ridge_y" in values:
        given["ridge"] = (values["ridge"], values["ridge_y"])
    name = values.get("kernel", "rbf")
    given["kernel_x"] = kernel_of(name, values)
    given["kernel_y"] = kernel_of(values.get("kernel_y", name), values)
    return matrices, given


def of_other_kernels(values: Mapping[str, Any], usual: str = "rbf") -> list[str]:
    """Names of the given parameters that belong to other kernels than the chosen ones."""
    chosen = {values.get("kernel") or usual, values.get("kernel_y")}
    scales = [] if chosen & {"rbf", "laplacian"} else ["kernel_scale", "scale_factor"]
    return scales + ([] if "polynomial" in chosen else ["degree", "offset"])


def _words(values: Mapping[str, Any]) -> list[str]:
    names = [name for name in (values.get("kernel"), values.get("kernel_y")) if name]
    return ["kernel " + " and ".join(names)] if names else []


def _answer(solution: Any) -> list[tuple[str, str]]:
    rho = solution.correlations
    kernels = [str(solution.kernel_x), str(solution.kernel_y)]
    return [
        ("correlations", first_numbers(rho, ".4f")),
        ("sum", f"{float(rho.sum()):.6f}"),
        ("kernels", " and ".join(dict.fromkeys(kernels))),
    ]


def _sum(fields: Mapping[str, Any]) -> float:
    return float(fields["correlations"].sum())


COMMAND = Kind(
    name="kernel-cca",
    matrices=("X", "Y"),
    parameters=_parameters,
    answer=_answer,
    score=Score("sum of correlations", "sum", _sum),
    arrange=_with_kernels,
    words=_words,
    share="PCC",
    varied=(*OF_KERNELS, "ridge", "ridge_y"),
    unused=of_other_kernels,
    scored=True,
    variates=True,
    loadings=True,
)
"""Declaration of kernel CCA for the command line."""
