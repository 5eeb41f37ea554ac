"""The problems that can be stated on the command line, and the words for their answers.

Problem: each problem has matrices, numbers and an answer of its own, and solvers, tables, plots and files should
not ask each time which problem it is.
Method: one record a problem: its matrices, the parameters of its constructor that a command line can give, and
how its answer is told in a table. A problem is offered when it has a record here and a solver in the
registry; any other can be solved from Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from linspec import registry
from linspec.cli.failures import Failure

__all__ = ["KINDS", "Kind", "Score", "kind_named", "offered"]

SHOWN = 10
"""Numbers of an answer that a table shows; `--out` writes all."""

NO_TARGET = "none"
"""The file of labels is the target matrix itself."""

TARGETS: dict[str, tuple[str, dict[str, Any]]] = {
    "lda": ("lda", {}),
    "opls": ("opls", {}),
    "cca": ("cca", {}),
    "hsl-zhou": ("hsl", {"laplacian": "zhou"}),
    "hsl-clique": ("hsl", {"laplacian": "clique"}),
    "hsl-star": ("hsl", {"laplacian": "star"}),
}
"""What makes targets of labels: a function of `linspec.targets` and its arguments."""


@dataclass(frozen=True)
class Score:
    """One number that says how much of the answer was found; the larger the better.

    Attributes
    ----------
    name, short : str
        In a sentence, and at the head of a column.
    of : callable
        Takes the fields of a solution by name.
    """

    name: str
    short: str
    of: Callable[[Mapping[str, Any]], float]


@dataclass(frozen=True)
class Kind:
    """A problem as the command line knows it.

    Attributes
    ----------
    name : str
        As in the registry.
    constructor : str
        Its class among linspec's public names.
    title : str
        What it is, for help and headings.
    matrices : tuple of str
        Its matrices, in the order of the arguments.
    parameters : callable
        Makes the click options of its numbers.
    answer : callable
        Takes a solution, returns the rows (label, text) of its table.
    score : Score or None
        What a comparison compares beside residuals.
    arrange : callable or None
        Takes the matrices of the files and the values of the parameters, and returns both as the constructor takes
        them. None: they are.
    """

    name: str
    constructor: str
    title: str
    matrices: tuple[str, ...]
    parameters: Callable[[], list[click.Parameter]]
    answer: Callable[[Any], list[tuple[str, str]]]
    score: Score | None
    arrange: Callable[[list[Any], dict[str, Any]], tuple[list[Any], dict[str, Any]]] | None = None

    def construct(self, matrices: Sequence[Any], values: Mapping[str, Any]) -> Any:
        """The problem with these matrices and the values of its parameters."""
        import linspec

        arranged = list(matrices)
        given = {name: value for name, value in values.items() if value is not None}
        if self.arrange is not None:
            arranged, given = self.arrange(arranged, given)
        return getattr(linspec, self.constructor)(*arranged, **given)

    def stated(self, values: Mapping[str, Any]) -> str:
        """The parameters in words, such as "k = 10, ridge 1"."""
        words = [str(values["target"])] if values.get("target", NO_TARGET) != NO_TARGET else []
        if "k" in values:
            words.append("k by rank" if values["k"] is None else f"k = {values['k']}")
        ridges = [values[name] for name in ("ridge", "ridge_y") if values.get(name) is not None]
        if any(ridges):
            words.append("ridge " + " and ".join(f"{ridge:g}" for ridge in ridges))
        if "center" in values:
            words.append("centred" if values["center"] else "not centred")
        return ", ".join(words)


def kind_named(name: str) -> Kind:
    """The record of a problem; a Failure with a suggestion where there is none."""
    if name in offered():
        return KINDS[name]
    registry.solvers(name)  # says what there is, and what was perhaps meant
    raise Failure(
        f"the problem {name!r} cannot be stated on the command line; solve it from Python with linspec.solve. "
        f"Problems here: {', '.join(offered())}."
    )


def offered() -> tuple[str, ...]:
    """The problems that can be stated here and that some solver solves."""
    solved = {name.partition("/")[0] for name in registry.solvers()}
    return tuple(name for name in KINDS if name in solved)


# ---- parameters -------------------------------------------------------------------------------


def _count(what: str, *, by_default: str = "") -> click.Option:
    text = f"How many {what}.{' By default ' if by_default else ''}{by_default}"
    return click.Option(["-k"], type=int, required=not by_default, metavar="K", help=text)


def _ridge(help_: str) -> click.Option:
    return click.Option(["--ridge"], type=float, default=0.0, show_default=True, metavar="NUMBER", help=help_)


def _center(default: bool) -> click.Option:
    text = "Take the column means out; sparse data stay sparse."
    return click.Option(["--center/--no-center"], default=default, show_default=True, help=text)


def _cca_parameters() -> list[click.Parameter]:
    return [
        _count("canonical pairs"),
        _ridge("Added to the diagonals of XᵀX and YᵀY, which are not divided by the number of rows."),
        click.Option(
            ["--ridge-y"], type=float, metavar="NUMBER", help="The ridge of Y, where it is another than X's."
        ),
        _center(True),
    ]


def _least_squares_parameters() -> list[click.Parameter]:
    return [_ridge("Added to the diagonal of AᵀA, which is not divided by the number of rows.")]


def _svd_parameters() -> list[click.Parameter]:
    left = click.Option(["--left"], is_flag=True, help="Compute the left singular vectors too.")
    return [_count("singular triplets"), _center(False), left]


def _discriminant_parameters() -> list[click.Parameter]:
    target = click.Option(
        ["--target"],
        type=click.Choice([*TARGETS, NO_TARGET]),
        default="lda",
        show_default=True,
        help="What is made of the labels in Y-FILE: one column holds the class of each row, several hold a label each. "
        "none: they are the targets themselves.",
    )
    return [
        target,
        _count("directions", by_default="as many as the labels and the data tell apart."),
        _ridge("Added to the diagonal of XᵀX, which is not divided by the number of rows."),
        _center(True),
    ]


# ---- matrices ---------------------------------------------------------------------------------


def _with_ridge_pair(matrices: list[Any], values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """One ridge, or a pair of them."""
    if "ridge_y" in values:
        values["ridge"] = (values.get("ridge", 0.0), values.pop("ridge_y"))
    return matrices, values


def _with_targets(matrices: list[Any], values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Targets in place of labels."""
    data, labels = matrices
    name = values.pop("target", NO_TARGET)
    if name == NO_TARGET:
        return matrices, values
    from linspec import targets

    function, arguments = TARGETS[name]
    return [data, getattr(targets, function)(_as_labels(labels), **arguments)], values


def _as_labels(matrix: Any) -> Any:
    """A class vector of a single column; anything else as it is."""
    if matrix.ndim == 1 or matrix.shape[1] > 1:
        return matrix
    dense = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    return dense.reshape(-1)


# ---- answers ----------------------------------------------------------------------------------


def _some(values: Any, form: str) -> str:
    shown = "  ".join(format(float(value), form) for value in values[:SHOWN])
    return shown + (f"  … ({len(values)} in all)" if len(values) > SHOWN else "")


def _correlations(solution: Any) -> list[tuple[str, str]]:
    rho = solution.correlations
    return [("correlations", _some(rho, ".4f")), ("sum", f"{float(rho.sum()):.6f}")]


def _singular_values(solution: Any) -> list[tuple[str, str]]:
    return [("singular values", _some(solution.S, ".5g"))]


def _coefficients(solution: Any) -> list[tuple[str, str]]:
    from linspec.arrays import to_host

    x = to_host(solution.x)
    shape = " x ".join(map(str, x.shape))
    return [("coefficients", f"{shape}, norm {float((x.astype(float) ** 2).sum()) ** 0.5:.6g}")]


def _eigenvalues(solution: Any) -> list[tuple[str, str]]:
    values = solution.eigenvalues
    return [("eigenvalues", _some(values, ".5g") or "none"), ("sum", f"{float(values.sum()):.6g}")]


def _sum_of_eigenvalues(fields: Mapping[str, Any]) -> float:
    return float(fields["eigenvalues"].sum())


def _sum_of_correlations(fields: Mapping[str, Any]) -> float:
    return float(fields["correlations"].sum())


def _captured(fields: Mapping[str, Any]) -> float:
    return float((fields["S"] ** 2).sum())


#: By name, in the order in which help lists them.
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="cca",
            constructor="CCA",
            title="Canonical correlations of two views.",
            matrices=("X", "Y"),
            parameters=_cca_parameters,
            answer=_correlations,
            score=Score("sum of correlations", "sum", _sum_of_correlations),
            arrange=_with_ridge_pair,
        ),
        Kind(
            name="discriminant",
            constructor="Discriminant",
            title="Directions that tell labels apart: LDA, OPLS, CCA with labels, hypergraphs.",
            matrices=("X", "Y"),
            parameters=_discriminant_parameters,
            answer=_eigenvalues,
            score=Score("sum of eigenvalues", "sum", _sum_of_eigenvalues),
            arrange=_with_targets,
        ),
        Kind(
            name="least-squares",
            constructor="LeastSquares",
            title="Least squares and ridge regression.",
            matrices=("A", "B"),
            parameters=_least_squares_parameters,
            answer=_coefficients,
            score=None,
        ),
        Kind(
            name="svd",
            constructor="SVD",
            title="Leading singular values and vectors; with --center principal components.",
            matrices=("A",),
            parameters=_svd_parameters,
            answer=_singular_values,
            score=Score("sum of squared singular values", "sum of S²", _captured),
        ),
    )
}
