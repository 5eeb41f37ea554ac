"""The command-line options of discriminants, and the output of their solution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from linspec.cli.failures import Failure
from linspec.cli.kinds import (
    SHOWN,
    Kind,
    Score,
    center_option,
    count_option,
    first_numbers,
    ridge_option,
    row_options,
)

NO_TARGET = "none"
"""The value of --target for a file that holds the target matrix itself, and not labels."""

TARGETS: dict[str, tuple[str, dict[str, Any]]] = {
    "lda": ("lda", {}),
    "opls": ("opls", {}),
    "cca": ("cca", {}),
    "hsl-zhou": ("hsl", {"laplacian": "zhou"}),
    "hsl-clique": ("hsl", {"laplacian": "clique"}),
    "hsl-star": ("hsl", {"laplacian": "star"}),
}
"""By value of --target, the function of `linspec.targets` that makes targets from labels, and its arguments."""


WEIGHTED = ("lda", "cca", "hsl")
"""The functions of `linspec.targets` that take row weights, because the scaling of their targets counts rows."""


def _discriminant_parameters() -> list[click.Parameter]:
    target = click.Option(
        ["--target"],
        type=click.Choice([*TARGETS, NO_TARGET]),
        default="lda",
        show_default=True,
        help="The targets to make of the labels in Y-FILE. One column holds the class of each row; several columns "
        "hold a label each. none: Y-FILE holds the targets themselves.",
    )
    return [
        target,
        count_option("directions", by_default="as many as the labels and the data distinguish."),
        ridge_option("Added to the diagonal of XᵀX, which is not divided by the number of rows."),
        center_option(True),
        *row_options(),
    ]


def _with_targets(matrices: list[Any], values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Replace the matrix of labels by targets made from them."""
    data, labels = matrices
    name = values.pop("target", NO_TARGET)
    if name == NO_TARGET:
        if getattr(getattr(labels, "dtype", None), "kind", "") == "U":
            raise Failure(
                "--target none takes targets that are numbers; Y-FILE holds text. Choose another target."
            )
        return matrices, values
    from linspec import targets

    function, arguments = TARGETS[name]
    if function in WEIGHTED and "sample_weight" in values:
        arguments = {**arguments, "sample_weight": values["sample_weight"]}
    return [data, getattr(targets, function)(_as_labels(labels), **arguments)], values


def _target(values: Mapping[str, Any]) -> list[str]:
    """The name of the targets made from labels, as a list; empty if the file holds the targets."""
    name = values.get("target", NO_TARGET)
    return [] if name == NO_TARGET else [str(name)]


def _as_labels(matrix: Any) -> Any:
    """Return a single column as a class vector, and any other matrix unchanged."""
    if len(matrix.shape) == 1 or matrix.shape[1] > 1:
        return matrix
    if hasattr(matrix, "dense"):  # rows of files that are read in slices
        matrix = matrix.dense()
    return (matrix.toarray() if hasattr(matrix, "toarray") else matrix).reshape(-1)


def _eigenvalues(solution: Any) -> list[tuple[str, str]]:
    values = solution.eigenvalues
    found = [("eigenvalues", first_numbers(values, ".5g") or "none"), ("sum", f"{float(values.sum()):.6g}")]
    if solution.classes is not None and solution.classes.dtype.kind in "UO":
        sizes = zip(solution.classes.tolist(), solution.class_sizes.tolist(), strict=True)
        named = [f"{name} ({size:g} rows)" for name, size in sizes]
        more = f" … ({len(named)} in all)" if len(named) > SHOWN else ""
        found.append(("classes", ", ".join(named[:SHOWN]) + more))
    return found


def _sum_of_eigenvalues(fields: Mapping[str, Any]) -> float:
    return float(fields["eigenvalues"].sum())


COMMAND = Kind(
    name="discriminant",
    matrices=("X", "Y"),
    parameters=_discriminant_parameters,
    answer=_eigenvalues,
    score=Score("sum of eigenvalues", "sum", _sum_of_eigenvalues),
    arrange=_with_targets,
    words=_target,
    second_columns="--target-column",
    labels=("Y",),
    varied=("target", "ridge"),
    scored=True,
    loadings=True,
)
"""The description of the problem for the command line."""
