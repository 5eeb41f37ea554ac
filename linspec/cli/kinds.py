"""The problems that can be stated on the command line, and the words for their answers.

Problem: each problem has matrices, numbers and an answer of its own, and the code for solvers, tables, plots and files
should not depend on which problem it is.
Method: one record for each problem, which the family's own record names (`linspec.ProblemSpec`): its matrices, the
parameters of its constructor that a command line can pass, and the rows of the table with its answer. A problem is
offered if it has such a record and a solver; others can be solved from Python.
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

__all__ = [
    "Kind",
    "Score",
    "center_option",
    "count_option",
    "first_numbers",
    "numbers_option",
    "of_rows",
    "ridge_option",
    "row_options",
]


SHOWN = 10
"""Largest number of values of an answer that a table shows; `--out` writes all."""


@dataclass(frozen=True)
class Score:
    """One number by which the answers of several solvers to one problem are compared; the larger the better.

    Parameters
    ----------
    name : str
        The name of the score in a sentence, such as "sum of correlations".
    short : str
        The name of the score at the head of a column, such as "sum".
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
    """The record of a problem for the command line, which `linspec.ProblemSpec` may name as `command`.

    Without it the record follows from the declared fields of the problem.

    Parameters
    ----------
    name : str
        The name of the problem in the registry.
    matrices : tuple of str
        The names of its matrices, in the order of the arguments.
    parameters : callable
        Makes the click options of its parameters.
    answer : callable
        Takes a solution, returns the rows (label, text) of its table.
    score : Score or None
        The number that a comparison shows beside residuals.
    arrange : callable, optional
        Takes the list of matrices and the dict of parameters, without the parameters that are None. Returns the list
        of positional arguments and the dict of keyword arguments of the problem's constructor. It may replace the
        parameters "ridge" and "ridge_y" by a pair "ridge". By default the matrices and parameters are the arguments.
    words : callable, optional
        Takes the dict of parameters, returns a list of short texts for the description of the problem in a table, such
        as ["kernel rbf"]. Texts for k, ridges, centring, scaling, weights and confounds are added without it.
    share : str, default "of best"
        The head of the column with the score of each run divided by the best score.
    second_columns : str, optional
        The option that picks columns for the second matrix; by default ``--y-columns``.
    labels : tuple of str, default ()
        The names of the matrices whose file may be a column of texts, such as names of classes.
    path : bool, default False
        Whether the constructor takes a tuple of ridges, and one solve gives an answer for each of them. If False,
        ``--ridge 1,10`` makes a problem for each ridge, and each problem is solved.
    along_path : callable, optional
        Takes the solution for one ridge of a path, returns the rows (label, text) that its line of the table shows; by
        default those of `answer`.
    explained : callable, optional
        Takes a solution, the matrices and the confounds. Returns the head and the rows of a table with the share of
        each matrix that the answer explains.
    explained_by_rows : bool, default True
        Whether `explained` reads the matrices, and counts every row once.
    advice : callable, optional
        Takes a solution and the values of the parameters, returns a warning with its remedy, or "".
    centring : tuple of (str, str), default ("centred", "not centred")
        The words for a problem with centring, and for one without.
    solver : str, default "auto"
        The solver of `solve` without ``--solver``.
    solver_parameters : callable, optional
        Makes click options that stand for options of solvers: ``--width 64`` for ``--option width=64``.
    varied : tuple of str, default ()
        The parameters, or options of solvers, that may have several values in `compare`.
    unused : callable, optional
        Takes the values of the parameters, returns the names of those that the others make meaningless, such as the
        degree of a kernel that has none. `compare` runs combinations that differ only in these once; where no
        combination uses one that was passed, the command refuses it.
    scored : bool, default False
        Whether solutions have a method `score`. The option ``--held-out`` needs it to score the answer on rows that
        were not fitted.
    variates : bool, default False
        Whether ``solution.transform(X, Y)`` returns two blocks of variates, P for X and Q for Y. Plots show column i of
        P against column i of Q, as for canonical correlations.
    loadings : bool, default False
        Whether solutions have a method `loadings_table`, which the option ``--loadings`` needs.
    proves_completeness : bool, default False
        Whether `linspec.solve` takes ``complete=True`` for the problem.
    several : bool, default False
        Whether the problem takes any number of matrices in one list. Then every file is a matrix, named X1, X2 and so
        on, and the constructor's first argument is the list. If False, there is one file for each of `matrices`.

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
    along_path: Callable[[Any], list[tuple[str, str]]] | None = None
    explained: Callable[[Any, Sequence[Any], Any], tuple[list[str], list[list[str]]]] | None = None
    explained_by_rows: bool = True
    advice: Callable[[Any, Mapping[str, Any]], str] | None = None
    centring: tuple[str, str] = ("centred", "not centred")
    solver: str = "auto"
    solver_parameters: Callable[[], list[click.Parameter]] | None = None
    varied: tuple[str, ...] = ()
    unused: Callable[[Mapping[str, Any]], Collection[str]] | None = None
    scored: bool = False
    variates: bool = False
    loadings: bool = False
    proves_completeness: bool = False
    several: bool = False

    @property
    def title(self) -> str:
        """The summary of the problem's record, for help and headings."""
        return str(registry.get_spec("problem", self.name).summary)

    def own_parameters(self) -> list[click.Parameter]:
        """Return the parameters of the problem, and those that stand for options of solvers."""
        return [*self.parameters(), *(self.solver_parameters() if self.solver_parameters else ())]

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of the problem, by name, from all options of the command."""
        return {parameter.name: given[parameter.name] for parameter in self.parameters() if parameter.name}

    def check_used(self, *combinations: Mapping[str, Any]) -> None:
        """Refuse a parameter that was passed, if the others make it meaningless: see `Kind.unused`.

        Parameters
        ----------
        *combinations : mapping of str
            The values of the parameters; several where the command varies some. One that uses a parameter is enough.

        Raises
        ------
        click.ClickException
            No combination uses a parameter that was passed.
        """
        if self.unused is None:
            return
        idle = set.intersection(*({*self.unused(values)} for values in combinations))
        for name in self.varied:
            if name in idle and any(values.get(name) is not None for values in combinations):
                others = {
                    f"{_option(other)} {values[other]}"
                    for values in combinations
                    for other in self.varied
                    if isinstance(values.get(other), str)
                }
                raise Failure(
                    f"{_option(name)} has no effect with {' and '.join(sorted(others))}. Leave it out."
                )

    def files(self, given: Mapping[str, Any]) -> dict[str, str]:
        """Return the files of the matrices, by their names, from all arguments of the command."""
        if self.several:
            return {f"X{i + 1}": file for i, file in enumerate(given["files"])}
        return {matrix: given[matrix.lower()] for matrix in self.matrices}

    def inputs(self, given: Mapping[str, Any]) -> list[str]:
        """Return every file that the command reads, from all its arguments; the command must not overwrite them."""
        beside = (given.get(name) for name in (*ROW_FILES, "groups", "start"))
        return [*self.files(given).values(), *(text for text in beside if text is not None)]

    def option_texts(self, given: Mapping[str, Any]) -> list[str]:
        """Return the options of `solver_parameters` that were passed, as texts for ``--option``.

        ``--width 64`` becomes ``width=64``.
        """
        names = [parameter.name for parameter in (self.solver_parameters() if self.solver_parameters else ())]
        return [f"{name}={given[name]}" for name in names if name and given[name] is not None]

    def construct(
        self,
        matrices: Sequence[Any],
        values: Mapping[str, Any],
        rows: Mapping[str, NamedMatrix] = MappingProxyType({}),
    ) -> Any:
        """Construct the problem from matrices and the values of its parameters.

        Parameters
        ----------
        matrices : sequence of data
            The matrices, in the order of `matrices` of the record.
        values : mapping of str
            The parameters, as `Kind.values` returns them. A parameter that is None is not passed on, so that the
            constructor uses its default.
        rows : mapping of str, optional
            The weights ("sample_weight") and confounds ("confounds"), if `values` names files of them.

        Returns
        -------
        Problem

        Raises
        ------
        InvalidProblem
            The constructor refuses the matrices or the values.
        click.ClickException
            A matrix holds texts but must hold numbers, or there are several ridges but the problem takes one.
        """
        read = [given if isinstance(given, NamedMatrix) else NamedMatrix(given) for given in matrices]
        known = [f"X{i + 1}" for i in range(len(read))] if self.several else self.matrices
        names = {name: matrix.names for name, matrix in zip(known, read, strict=True) if matrix.names}
        arranged: list[Any] = [matrix.values for matrix in read]
        arranged = [arranged] if self.several else arranged
        if not self.path and isinstance(values.get("ridge"), tuple | list):
            raise Failure(f"--ridge must be one number here; got {_in_words(values['ridge'])}.")
        given = {name: value for name, value in values.items() if value is not None}
        given |= {name: of_rows(data) for name, data in rows.items()}
        names |= {name: data.names for name, data in rows.items() if data.names}
        if self.arrange is not None:
            arranged, given = self.arrange(arranged, given)
        problem = registry.get_problem(self.name)(*arranged, **given)
        from linspec.solving.stating import name_columns  # here: help loads no array library

        name_columns(problem, names)
        return problem

    def has_ridge(self, values: Mapping[str, Any]) -> bool:
        """Whether a ridge among the values of the parameters is above 0."""
        ridges = [values[name] for name in ("ridge", "ridge_y") if values.get(name) is not None]
        return any(any(ridge) if isinstance(ridge, tuple | list) else ridge for ridge in ridges)

    def stated(self, values: Mapping[str, Any]) -> str:
        """Return the parameters in words, such as "k = 10, ridge 1"."""
        words = [] if self.words is None else self.words(values)
        if "k" in values:
            words.append("k by rank" if values["k"] is None else f"k = {values['k']}")
        ridges = [values[name] for name in ("ridge", "ridge_y") if values.get(name) is not None]
        if any(ridges):
            words.append("ridge " + " and ".join(map(_in_words, ridges)))
        if "center" in values:
            words.append(self.centring[0] if values["center"] else self.centring[1])
        words += ["scaled"] if values.get("scale") else []
        words += [
            f"{ROW_FILES[name]} {shortened(values[name])}"
            for name in ROW_FILES
            if values.get(name) is not None
        ]
        return ", ".join(words)


def count_option(what: str, *, by_default: str = "") -> click.Option:
    """Make the option ``-k``, which is required unless `by_default` is set.

    Parameters
    ----------
    what : str
        The name of the counted things, in the plural, for the help.
    by_default : str, default ""
        The default in words, for the help.

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


class _Numbers(click.ParamType):  # type: ignore[type-arg]  # of older releases it is not generic
    """A number, or several with commas between them, which become a tuple; with `always` one becomes a tuple, too."""

    name = "float"

    def __init__(self, *, always: bool = False) -> None:
        self.always = always

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert to a float, or to a tuple of several."""
        if isinstance(value, float | int | tuple):
            return value
        one: click.ParamType[Any] = click.FLOAT  # its own type wants a number already
        found = tuple(float(one.convert(text.strip(), param, ctx)) for text in str(value).split(","))
        return found[0] if len(found) == 1 and not self.always else found


def ridge_option(help_: str, *, required: bool = False) -> click.Option:
    """Make the option ``--ridge``, 0 by default unless it is required; several with commas between them become a tuple.

    Parameters
    ----------
    help_ : str
        A sentence that says to which matrix the ridge is added.
    required : bool, default False
        Whether a ridge must be passed.

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
    given: dict[str, Any] = {"required": True} if required else {"default": 0.0, "show_default": True}
    return click.Option(["--ridge"], type=_Numbers(), metavar="NUMBER", help=text, **given)


def numbers_option(name: str, help_: str) -> click.Option:
    """Make an option of several numbers with commas between them, which become a tuple; none by default.

    Parameters
    ----------
    name : str
        The name of the parameter: "view_weights" for ``--view-weights``.
    help_ : str
        A sentence that says what the numbers are.

    Returns
    -------
    click.Option

    Examples
    --------
    >>> from linspec.cli import numbers_option
    >>> option = numbers_option("view_weights", "How much each view counts.")
    >>> option.opts, option.type.convert("1,2,1", option, None)
    (['--view-weights'], (1.0, 2.0, 1.0))
    """
    return click.Option(
        [_option(name)],
        type=_Numbers(always=True),
        metavar="NUMBERS",
        help=f"{help_} As in 1,2,1.",
    )


def with_ridge_pair(matrices: list[Any], values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the matrices, and the values in which a pair (ridge, ridge_y) replaces "ridge" if --ridge-y was passed."""
    if "ridge_y" in values:
        values["ridge"] = (values.get("ridge", 0.0), values.pop("ridge_y"))
    return matrices, values


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _in_words(ridge: Any) -> str:
    return ", ".join(f"{value:g}" for value in ridge) if isinstance(ridge, tuple | list) else f"{ridge:g}"


def center_option(
    default: bool, text: str = "Take the column means out; sparse data stay sparse."
) -> click.Option:
    """Make the option ``--center/--no-center``: whether column means are subtracted.

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
"""Parameters that are files with a row for each row of the data, and their names in words."""


def row_options() -> list[click.Parameter]:
    """Make the options ``--scale``, ``--sample-weight`` and ``--confounds``, for problems with these parameters.

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


def of_rows(found: NamedMatrix) -> Any:
    """Return weights, confounds or groups as an array; a single column becomes a vector."""
    matrix: Any = found.values
    matrix = matrix.dense() if hasattr(matrix, "dense") else matrix
    matrix = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    return matrix.reshape(-1) if matrix.ndim == 2 and matrix.shape[1] == 1 else matrix


def first_numbers(values: Any, form: str) -> str:
    """Return the first numbers of an answer as text, and their count, for a row of its table.

    Parameters
    ----------
    values : sequence of numbers
    form : str
        The format of each, as `format` takes it.

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
