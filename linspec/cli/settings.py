"""The solver, its options and its limits: the arguments that `solve` and `compare` share.

Problem: a solver's options are declared on its class, and its parts (the least-squares solver of an outer
method, say) have options of their own.
Method: ``--option name=value`` is read by the declaration of that option, ``--option lstsq.rank=100`` by that of
the part; a part whose options are set becomes an instance, any other stays a name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from linspec import registry
from linspec.cli.columns import column_options, with_columns
from linspec.cli.data import header_option
from linspec.cli.failures import Command, Failure
from linspec.cli.kinds import Kind
from linspec.cli.offered import kind_named, offered
from linspec.errors import UnknownOption
from linspec.registry import options

__all__ = [
    "AUTO",
    "FileName",
    "ProblemGroup",
    "complete_solver",
    "declared_names",
    "flat",
    "held_out_options",
    "only_declared",
    "problem_command",
    "run_parameters",
    "setting_parameters",
    "solver_option",
    "solver_options",
    "split_option",
    "taking_several",
]

AUTO = "auto"
"""The solver that `linspec.select` chooses."""

TOL = options.Option(name="tol", default=None, help="residual to stop at", kind=float, optional=True, above=0)
"""The declaration of the option `tol`, the only option that the solver "auto" takes."""

T = TypeVar("T")


def _positive(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Check that a number is above 0 and finite."""
    if value is not None and not 0 < value < math.inf:
        raise click.BadParameter(f"{value} is not a finite number above 0.", ctx, param)
    return value


def _fraction(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Check that a number is between 0 and 1."""
    if value is not None and not 0 < value < 1:
        raise click.BadParameter(f"{value} is not a fraction between 0 and 1.", ctx, param)
    return value


class FileName(click.Path):
    """A path, perhaps with columns behind it; a name that no file can have is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text, after a check that a file can have this name: a zero byte in it is refused."""
        try:
            return super().convert(value, param, ctx)
        except ValueError:  # of the system: a zero byte
            self.fail(f"{value!r} is no name that a file can have.", param, ctx)


class _Several(click.ParamType):  # type: ignore[type-arg]  # of older releases it is not generic
    """Values of another type with commas between them."""

    def __init__(self, one: click.ParamType[Any]) -> None:
        self.one, self.name = one, one.name

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        """Convert each value."""
        if isinstance(value, tuple):
            return value
        texts = [text.strip() for text in str(value).split(",")]
        return tuple(self.one.convert(text, param, ctx) for text in texts)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return the metavar of the type of one value."""
        return self.one.get_metavar(param, ctx)


def taking_several(option: click.Parameter, *also: str) -> click.Option:
    """Return a copy of an option; the copy takes several values with commas between them, and may be repeated.

    The value of the copy is a tuple of tuples, one tuple of values for each time that the user passed the option;
    `flat` joins them. `also` holds further names of the option, such as "--ridges".
    """
    if not isinstance(option, click.Option):
        raise TypeError(f"{option.name} is no option and cannot take several values.")
    return click.Option(
        [*option.opts, *also, str(option.name)],
        type=_Several(option.type),
        multiple=True,
        default=[str(option.default)] if isinstance(option.default, str | int | float) else None,
        show_default=option.show_default,
        required=option.required,
        metavar=None if option.metavar is None else f"{option.metavar},…",
        help=f"{str(option.help).partition(' Several')[0]} Several may be given, with commas between them.",
    )


def flat(given: Any) -> list[Any]:
    """Return the values of a parameter as a list, each value once.

    For an option of `taking_several`, `given` is a tuple of tuples: one tuple of values for each time that the user
    passed the option. Otherwise `given` is one value, or None without a value.
    """
    if not isinstance(given, tuple):
        return [] if given is None else [given]
    return list(dict.fromkeys(value for values in given for value in values))


def complete_solver(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return completions for the shell: the typed text, completed to names of solvers of the command's problem.

    In a list with commas the name after the last comma is completed.
    """
    problem = ctx.info_name if ctx.info_name in offered() else None
    before, comma, begun = incomplete.rpartition(",")
    return [
        CompletionItem(before + comma + name) for name in registry.solvers(problem) if name.startswith(begun)
    ]


class ProblemGroup(click.Group):
    """A command with one subcommand for each problem.

    A subcommand is made from the `Kind` of its problem each time that click asks for the subcommand.

    Parameters
    ----------
    name, help_ : str
        Name and help of the command.
    make : callable
        Takes a `Kind`, returns the subcommand.
    """

    def __init__(self, name: str, help_: str, make: Callable[[Kind], click.Command]) -> None:
        super().__init__(
            name,
            help=help_,
            options_metavar="",
            subcommand_metavar="PROBLEM FILE... [OPTIONS]",
            invoke_without_command=True,
            callback=_help_alone,
        )
        self._make = make

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the problems that can be stated."""
        return list(offered())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Make the subcommand of a problem."""
        return self._make(kind_named(name))


def _help_alone() -> None:
    """Show the help if no problem is named."""
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def problem_command(
    kind: Kind, action: Callable[..., Any], summary: str, parameters: Iterable[click.Parameter]
) -> Command:
    """Make a command that takes the files of a problem's matrices, and parameters."""
    if kind.several:
        file = FileName(path_type=str)
        files: list[click.Parameter] = [
            click.Argument(["files"], metavar="FILE...", type=file, nargs=-1, required=True)
        ]
        columns: list[click.Parameter] = []
    else:
        files = [
            click.Argument(
                [name.lower()], metavar=f"{name}-FILE", type=FileName(path_type=str), required=number == 0
            )
            for number, name in enumerate(kind.matrices)
        ]
        columns = column_options(kind.matrices, kind.second_columns)

    def picked(**given: Any) -> Any:
        return action(**given) if kind.several else action(**with_columns(kind.matrices, given))

    return Command(
        kind.name,
        callback=picked,
        params=[*files, *columns, header_option(), *parameters],
        help=f"{kind.title}\n\n{summary}",
        short_help=kind.title,
    )


def held_out_options(kind: Kind) -> list[click.Parameter]:
    """Make the option ``--held-out`` for problems whose answers can be scored on rows."""
    text = "Leave out this fraction of the rows, drawn at random, and score the answer on them."
    option = click.Option(["--held-out"], type=float, callback=_fraction, metavar="FRACTION", help=text)
    return [option] if kind.scored else []


def solver_option(kind: Kind) -> click.Option:
    """Make the option ``--solver``."""
    return click.Option(
        ["--solver"],
        shell_complete=complete_solver,
        default=kind.solver,
        show_default=True,
        help="As `linspec solvers` lists.",
    )


def run_parameters() -> list[click.Parameter]:
    """Make the options of a run that do not depend on the problem."""
    return [
        *setting_parameters(),
        click.Option(["--max-passes"], type=float, metavar="NUMBER", help="Sweeps over the data at most."),
        click.Option(
            ["--max-seconds"], type=float, metavar="NUMBER", help="Time after which no sweep is begun."
        ),
        click.Option(
            ["--progress/--no-progress"],
            default=None,
            help="Show how far the run has come. By default on a terminal.",
        ),
    ]


def setting_parameters() -> list[click.Parameter]:
    """Make the options that set a solver and its random numbers."""
    return [
        click.Option(
            ["--option", "-o", "options"],
            multiple=True,
            metavar="NAME=VALUE",
            help="An option of the solver, as `linspec describe SOLVER` lists them; of a part: lstsq.tol=1e-3. "
            "May be repeated.",
        ),
        click.Option(
            ["--tol"], type=float, callback=_positive, metavar="NUMBER", help="Residual to stop at."
        ),
        click.Option(
            ["--seed"], type=click.IntRange(min=0), default=0, show_default=True, help="Of everything random."
        ),
    ]


def solver_options(problem: str, solver: str, texts: Sequence[str], tol: float | None) -> dict[str, Any]:
    """Convert the texts of ``--option`` to keyword arguments of a solver.

    Parameters
    ----------
    problem, solver : str
        The names of the problem and the solver. The solver may be "auto", whose only option is `tol`.
    texts : sequence of str
        ``name=value`` sets an option. ``part=name`` chooses a part: a component with options of its own, such as the
        least-squares solver of an outer method. ``part.name=value`` sets an option of the part.
    tol : float or None
        The tolerance, if ``--tol`` was passed.

    Returns
    -------
    dict
        Keyword arguments of the solver. A part with an option set is an instance, otherwise the name of the part.

    Raises
    ------
    Failure, LinspecError
        A text does not have that form; there is no such solver, option or part; a value is out of range.
    """
    pairs = [_pair(text) for text in texts]
    if tol is not None:
        pairs.append(("tol", repr(tol)))
    if solver == AUTO:
        other = [name for name, _ in pairs if name != "tol"]
        if other:
            raise Failure(
                f'"auto" takes only tol; got {", ".join(other)}. Name a --solver to set its options.'
            )
        return {name: options.parse(TOL, text) for name, text in pairs}
    return _values(registry.get_solver(solver, problem), pairs)


def declared_names(problem: str, solver: str) -> set[str]:
    """Return the names of a solver's options."""
    return {option.name for option in options.options_of(registry.get_solver(solver, problem))}


def split_option(text: str) -> tuple[str, str]:
    """Split ``lstsq.tol=1e-3`` into (``lstsq``, ``tol=1e-3``); the first is empty without a dot before ``=``."""
    name = text.partition("=")[0]
    front, dot, _ = name.partition(".")
    return (front, text[len(front) + 1 :]) if dot else ("", text)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise Failure(f"--option must be NAME=VALUE; got {text!r}.")
    return name.strip().replace("-", "_"), value.strip()


def _values(cls: type[Any], pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Convert pairs (name, text) to keyword arguments of the class `cls`, a solver or a part of one.

    From ``lstsq.rank=100`` the keyword argument `lstsq` becomes an instance of the chosen least-squares solver, which
    has the rank 100.
    """
    declared = {option.name: option for option in options.options_of(cls)}
    values: dict[str, Any] = {}
    nested: dict[str, list[tuple[str, str]]] = {}
    for name, text in pairs:
        front, dot, rest = name.partition(".")
        if front not in declared:
            options.build(cls, {front: text})  # raises with a suggestion
            raise UnknownOption(f"{cls.__name__} has no option {front!r}.")
        if dot and declared[front].part_kind is None:
            raise Failure(f"the option {front!r} of {cls.__name__} is no part and has no option {rest!r}.")
        if dot:
            nested.setdefault(front, []).append((rest, text))
        else:
            values[front] = options.parse(declared[front], text)
    for name, inner in nested.items():
        values[name] = _part(declared[name], values.get(name, declared[name].default), inner)
    return values


def _part(option: options.Option, chosen: Any, pairs: list[tuple[str, str]]) -> Any:
    """Make an instance of a part with some of its options set."""
    if not isinstance(chosen, str):
        raise Failure(f"say which {option.name} first, as in --option {option.name}=NAME.")
    cls: type[Any] = registry.get_part(str(option.part_kind), chosen, option.part_problem)
    return options.build(cls, _values(cls, pairs))


def only_declared(problem: str, solver: str, values: Mapping[str, T]) -> dict[str, T]:
    """Return `values` without the entries whose names are not options of the solver."""
    names = declared_names(problem, solver)
    return {name: value for name, value in values.items() if name in names}
