"""The problems that can be stated on the command line, and the words for their answers.

Problem: each problem has matrices, numbers and an answer of its own, and solvers, tables, plots and files should
not ask each time which problem it is.
Method: one record a problem, which the family's own record names (`linspec.ProblemSpec`): its matrices, the parameters
of its constructor that a command line can give, and how its answer is told in a table. A problem is offered when it has
one, and a solver; any other can be solved from Python.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import click

from linspec import registry
from linspec.cli.columns import NamedMatrix
from linspec.cli.failures import Failure, shortened
from linspec.registry.kinds import resolve

__all__ = [
    "Kind",
    "Score",
    "center_option",
    "count_option",
    "first_numbers",
    "kind_named",
    "offered",
    "ridge_option",
    "row_options",
]


SHOWN = 10
"""Numbers of an answer that a table shows; `--out` writes all."""


@dataclass(frozen=True)
class Score:
    """One number that says how much of the answer was found; the larger the better.

    Parameters
    ----------
    name : str
        In a sentence.
    short : str
        At the head of a column.
    of : callable
        Takes the fields of a solution by name, returns a float.

    Examples
    --------
    >>> from linspec.cli import Score
    >>> score = Score("sum of the correlations", "sum ρ", lambda fields: float(sum(fields["correlations"])))
    >>> score.of({"correlations": [0.75, 0.5]})
    1.25
    """

    name: str
    short: str
    of: Callable[[Mapping[str, Any]], float]


@dataclass(frozen=True)
class Kind:
    """A problem as the command line knows it: what `linspec.ProblemSpec` names as its `command`.

    Parameters
    ----------
    name : str
        As in the registry.
    matrices : tuple of str
        Its matrices, in the order of the arguments.
    parameters : callable
        Makes the click options of its numbers.
    answer : callable
        Takes a solution, returns the rows (label, text) of its table.
    score : Score or None
        What a comparison compares beside residuals.
    arrange : callable, optional
        Takes the matrices of the files and the values of the parameters, and returns both as the constructor takes
        them. By default they are.
    words : callable, optional
        Takes the values of the parameters, returns what is said of them beside k, ridge and centring.
    share : str, default "of best"
        At the head of a column: the score over the best one.
    second_columns : str, optional
        The option that picks columns for the second matrix; by default ``--y-columns``.
    labels : tuple of str, default ()
        The matrices that may be a column of texts.
    path : bool, default False
        Whether the problem takes several ridges at once. Others are solved once for each.
    explained : callable, optional
        Takes a solution, the matrices and the confounds, and reads the matrices again. Returns the head and the rows of
        a table that says how much of the matrices the answer explains.
    solver : str, default "auto"
        What `solve` takes without ``--solver``.
    solver_parameters : callable, optional
        Makes click options that stand for options of solvers: ``--width 64`` for ``--option width=64``.
    varied : tuple of str, default ()
        The parameters, or options of solvers, of which `compare` takes several values.
    unused : callable, optional
        Takes the values of the parameters, returns the names of those that the others make meaningless, such as the
        degree of a kernel that has none. `compare` runs combinations that differ in these only once.
    scored : bool, default False
        Whether solutions have `score`, so that rows can be held out.
    variates : bool, default False
        Whether `solution.transform` of the matrices gives two blocks whose columns belong in pairs: they are drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.cli import Kind, center_option, count_option, first_numbers
    >>> kind = Kind(
    ...     name="svd",
    ...     matrices=("A",),
    ...     parameters=lambda: [count_option("singular triplets"), center_option(False)],
    ...     answer=lambda solution: [("singular values", first_numbers(solution.S, ".5g"))],
    ...     score=None,
    ... )
    >>> kind.stated({"k": 2, "center": True})
    'k = 2, centred'
    >>> kind.construct([np.eye(3)], {"k": 2, "center": True}).k
    2
    """

    name: str
    matrices: tuple[str, ...]
    parameters: Callable[[], list[click.Parameter]]
    answer: Callable[[Any], list[tuple[str, str]]]
    score: Score | None
    arrange: Callable[[list[Any], dict[str, Any]], tuple[list[Any], dict[str, Any]]] | None = None
    words: Callable[[Mapping[str, Any]], list[str]] | None = None
    share: str = "of best"
    second_columns: str = "--y-columns"
    labels: tuple[str, ...] = ()
    path: bool = False
    explained: Callable[[Any, Sequence[Any], Any], tuple[list[str], list[list[str]]]] | None = None
    solver: str = "auto"
    solver_parameters: Callable[[], list[click.Parameter]] | None = None
    varied: tuple[str, ...] = ()
    unused: Callable[[Mapping[str, Any]], Collection[str]] | None = None
    scored: bool = False
    variates: bool = False

    @property
    def title(self) -> str:
        """What it is, for help and headings: the summary of its record."""
        return str(registry.get_spec("problem", self.name).summary)

    def own_parameters(self) -> list[click.Parameter]:
        """The parameters of the problem, and those that stand for options of solvers."""
        return [*self.parameters(), *(self.solver_parameters() if self.solver_parameters else ())]

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the problem, by name, among all options that were given."""
        return {parameter.name: given[parameter.name] for parameter in self.parameters() if parameter.name}

    def option_texts(self, given: Mapping[str, Any]) -> list[str]:
        """The options of solvers that were given by their own names, as ``--option`` takes them."""
        names = [parameter.name for parameter in (self.solver_parameters() if self.solver_parameters else ())]
        return [f"{name}={given[name]}" for name in names if name and given[name] is not None]

    def construct(
        self,
        matrices: Sequence[Any],
        values: Mapping[str, Any],
        rows: Mapping[str, NamedMatrix] = MappingProxyType({}),
    ) -> Any:
        """The problem with these matrices and the values of its parameters.

        Parameters
        ----------
        matrices : sequence of data
            In the order of `matrices` of the record.
        values : mapping of str
            As `values` gives them; None is left to the constructor.
        rows : mapping of str, optional
            Weights and confounds whose files have been read, by parameter; other files are read here.

        Returns
        -------
        Problem

        Raises
        ------
        InvalidProblem
            The constructor refuses the matrices or the values.
        click.ClickException
            A matrix holds texts where the problem takes numbers, or there are several ridges where it takes one.
        """
        read = [given if isinstance(given, NamedMatrix) else NamedMatrix(given) for given in matrices]
        names = {name: matrix.names for name, matrix in zip(self.matrices, read, strict=True) if matrix.names}
        arranged = [matrix.values for matrix in read]
        if not self.path and isinstance(values.get("ridge"), tuple | list):
            raise Failure(f"--ridge must be one number here; got {_in_words(values['ridge'])}.")
        given = {name: value for name, value in values.items() if value is not None}
        from linspec.cli.data import read_named

        for name in ROW_FILES:
            if name in given:
                given[name] = _of_rows(rows[name] if name in rows else read_named(given[name]))
        if self.arrange is not None:
            arranged, given = self.arrange(arranged, given)
        problem = registry.get_problem(self.name)(*arranged, **given)
        problem.name_columns(names)
        return problem

    def stated(self, values: Mapping[str, Any]) -> str:
        """The parameters in words, such as "k = 10, ridge 1"."""
        words = [] if self.words is None else self.words(values)
        if "k" in values:
            words.append("k by rank" if values["k"] is None else f"k = {values['k']}")
        ridges = [values[name] for name in ("ridge", "ridge_y") if values.get(name) is not None]
        if any(ridges):
            words.append("ridge " + " and ".join(map(_in_words, ridges)))
        if "center" in values:
            words.append("centred" if values["center"] else "not centred")
        words += ["scaled"] if values.get("scale") else []
        words += [
            f"{ROW_FILES[name]} {shortened(values[name])}"
            for name in ROW_FILES
            if values.get(name) is not None
        ]
        return ", ".join(words)


def kind_named(name: str) -> Kind:
    """The record of a problem; a Failure with a suggestion where there is none."""
    if name in offered():
        found = resolve(registry.get_spec("problem", name).command)
        if isinstance(found, Kind):
            return found
        raise Failure(
            f"the record of the problem {name!r} must name a linspec.cli.kinds.Kind as its command."
        )
    registry.solvers(name)  # says what there is, and what was perhaps meant
    raise Failure(
        f"the problem {name!r} cannot be stated on the command line; solve it from Python with linspec.solve. "
        f"Problems here: {', '.join(offered())}."
    )


def offered() -> tuple[str, ...]:
    """The problems that can be stated here and that some solver solves."""
    solved = {name.partition("/")[0] for name in registry.solvers()}
    known = registry.problems()
    return tuple(name for name in known if name in solved and registry.get_spec("problem", name).command)


def count_option(what: str, *, by_default: str = "") -> click.Option:
    """The option ``-k``, required unless something is said of its default.

    Parameters
    ----------
    what : str
        What is counted, in the plural, for the help.
    by_default : str, default ""
        What is taken where the option is not given, for the help.

    Returns
    -------
    click.Option

    Examples
    --------
    >>> from linspec.cli import count_option
    >>> option = count_option("singular triplets")
    >>> option.name, option.required, option.help
    ('k', True, 'How many singular triplets.')
    """
    text = f"How many {what}.{' By default ' if by_default else ''}{by_default}"
    return click.Option(["-k"], type=int, required=not by_default, metavar="K", help=text)


class _Ridges(click.ParamType):  # type: ignore[type-arg]  # of older releases it is not generic
    """A number, or several with commas between them."""

    name = "float"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A float, or a tuple of several."""
        if isinstance(value, float | int | tuple):
            return value
        one: click.ParamType[Any] = click.FLOAT  # its own type wants a number already
        found = tuple(float(one.convert(text.strip(), param, ctx)) for text in str(value).split(","))
        return found[0] if len(found) == 1 else found


def ridge_option(help_: str) -> click.Option:
    """The option ``--ridge``, 0 by default; several with commas between them become a tuple.

    Parameters
    ----------
    help_ : str
        To what the ridge is added, a sentence.

    Returns
    -------
    click.Option

    Examples
    --------
    >>> from linspec.cli import ridge_option
    >>> option = ridge_option("Added to the diagonal of AᵀA.")
    >>> option.default, option.type.convert("1,10", option, None)
    (0.0, (1.0, 10.0))
    """
    text = f"{help_} Several, as in 1,10,100: `solve` shows an answer for each."
    return click.Option(
        ["--ridge"], type=_Ridges(), default=0.0, show_default=True, metavar="NUMBER", help=text
    )


def _in_words(ridge: Any) -> str:
    return ", ".join(f"{value:g}" for value in ridge) if isinstance(ridge, tuple | list) else f"{ridge:g}"


def center_option(
    default: bool, text: str = "Take the column means out; sparse data stay sparse."
) -> click.Option:
    """The option ``--center/--no-center``: whether column means are subtracted.

    Parameters
    ----------
    default : bool
    text : str, optional
        The help.

    Returns
    -------
    click.Option

    Examples
    --------
    >>> from linspec.cli import center_option
    >>> option = center_option(False)
    >>> option.opts, option.secondary_opts, option.default
    (['--center'], ['--no-center'], False)
    """
    return click.Option(["--center/--no-center"], default=default, show_default=True, help=text)


ROW_FILES = {"sample_weight": "weights", "confounds": "confounds"}
"""Parameters that are files with a row for each row of the data, and what they are called in words."""


def row_options() -> list[click.Parameter]:
    """The options ``--scale``, ``--sample-weight`` and ``--confounds``, for problems that have these parameters.

    Returns
    -------
    list of click.Parameter

    Examples
    --------
    >>> from linspec.cli import row_options
    >>> [option.name for option in row_options()]
    ['scale', 'sample_weight', 'confounds']
    """
    scale = "Divide columns by what is left of them: with centring, by their standard deviations."
    weights = "How often each row counts: a file with one number for each row of the data."
    confounds = "Take the linear effect of these variables out of every column: a file with a row for each."
    return [
        click.Option(["--scale/--no-scale"], default=False, show_default=True, help=scale),
        click.Option(["--sample-weight"], metavar="FILE", help=weights),
        click.Option(["--confounds"], metavar="FILE", help=confounds),
    ]


def _of_rows(found: NamedMatrix) -> Any:
    """Numbers for each row of the data: a single column as a vector."""
    matrix: Any = found.values
    matrix = matrix.dense() if hasattr(matrix, "dense") else matrix
    matrix = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    return matrix.reshape(-1) if matrix.ndim == 2 and matrix.shape[1] == 1 else matrix


def first_numbers(values: Any, form: str) -> str:
    """The first numbers of an answer, and how many there are, for a row of its table.

    Parameters
    ----------
    values : sequence of numbers
    form : str
        The format of one, as `format` takes it.

    Returns
    -------
    str
        At most ten numbers.

    Examples
    --------
    >>> from linspec.cli import first_numbers
    >>> first_numbers([0.912, 0.5], ".2f")
    '0.91  0.50'
    >>> first_numbers(range(12), ".0f")
    '0  1  2  3  4  5  6  7  8  9  … (12 in all)'
    """
    shown = "  ".join(format(float(value), form) for value in values[:SHOWN])
    return shown + (f"  … ({len(values)} in all)" if len(values) > SHOWN else "")
