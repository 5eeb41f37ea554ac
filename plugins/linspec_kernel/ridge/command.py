"""Kernel ridge regression on the command line: its parameters and the display of its answer."""

from __future__ import annotations

from typing import Any

import click

from linspec.cli import Kind, center_option, ridge_option, row_options
from linspec_kernel.command import KERNELS, OF_KERNEL, kernel_of, kernel_options, of_other_kernels


def _parameters() -> list[click.Parameter]:
    return [
        ridge_option(
            "Above 0; added to the diagonal of the kernel matrix. Begin with 1e-4 times the rows.",
            required=True,
        ),
        *kernel_options(KERNELS, "rbf", views=1),
        center_option(False, "Fit a constant, which no ridge shrinks."),
        *(option for option in row_options() if option.name == "sample_weight"),
    ]


def _with_kernel(matrices: list[Any], values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Replace the parameters of the kernel by the kernel."""
    given = {name: value for name, value in values.items() if name not in OF_KERNEL}
    given["kernel"] = kernel_of(values.get("kernel", "rbf"), values)
    return matrices, given


def _answer(solution: Any) -> list[tuple[str, str]]:
    shape = " x ".join(map(str, solution.dual.shape))
    return [("kernel", str(solution.kernel)), ("coefficients", shape), *_of_ridge(solution)]


def _of_ridge(solution: Any) -> list[tuple[str, str]]:
    """The bound of all errors of the functions, also for one ridge of a path."""
    return [("error of a function, at most", f"{float(solution.bounds.max()):.2g}")]


COMMAND = Kind(
    name="kernel-ridge",
    matrices=("X", "Y"),
    parameters=_parameters,
    answer=_answer,
    score=None,
    arrange=_with_kernel,
    second_columns="--target-column",
    path=True,
    along_path=_of_ridge,
    centring=("with a constant", "without a constant"),
    varied=(*OF_KERNEL, "ridge"),
    unused=of_other_kernels,
    scored=True,
)
"""Declaration of kernel ridge regression for the command line."""
