"""Commands whose parameters and actions are loaded when they are needed, and the options that several of them share."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

from linspec import registry
from linspec.cli.output import Failure

AUTO = "auto"
"""The solver that `linspec.select` chooses."""

FILES = """Files: .npy (read in blocks, never loaded whole), .npz (dense: FILE.npz:NAME picks an array; or of
scipy.sparse), .mtx, .svm (FILE.svm:labels and FILE.svm:classes for the labels), .zarr, .h5, .h5ad (read in slices;
FILE.h5ad:layers/counts picks a part), .parquet, .csv, .tsv, .txt (FILE:a,b..d picks columns by name, FILE:~a all
others). The files of a pattern in quotes, such as 'day*.h5ad', are one matrix."""

Loaded = tuple[list[click.Parameter], Callable[..., None], str]
"""The parameters of a command, its function, and its help."""


class Command(click.Command):
    """A command that takes ``--debug``; its other parameters, its function and its help may be loaded later.

    Parameters
    ----------
    *args, **more
        As for `click.Command`.
    load : callable, optional
        Returns the parameters, the function and the help.
    """

    def __init__(self, *args: Any, load: Callable[[], Loaded] | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self._load = load
        self.params.append(DEBUG)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters."""
        if self._load is not None:
            parameters, self.callback, self.help = self._load()
            self.params = [*parameters, DEBUG]
            self._load = None
        return super().get_params(ctx)


def later(name: str, module: str, short_help: str) -> Command:
    """Make a command that a module defines by its name in capitals."""
    return Command(name, load=lambda: vars(import_module(module))[name.upper()], short_help=short_help)


class ProblemGroup(click.Group):
    """A command with one subcommand for each problem.

    Parameters
    ----------
    name : str
        The name of the command. `linspec.cli.solving` has, by the name, parameters after those of the problem, a
        function of the `Request`, and the help.
    help_ : str
    """

    def __init__(self, name: str, help_: str) -> None:
        super().__init__(
            name, help=help_, subcommand_metavar="PROBLEM FILE... [OPTIONS]", no_args_is_help=True
        )

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the problems that can be stated."""
        return offered()

    def get_command(self, ctx: click.Context, name: str) -> Command:
        """Make the subcommand of a problem."""
        if name not in offered():
            registry.solvers(name)  # raises with a suggestion if there is no such problem
            raise Failure(f"no package here solves {name!r}. Problems here: {', '.join(offered())}.")
        title = str(registry.get_spec("problem", name).summary)

        def load() -> Loaded:
            problems = import_module("linspec.cli.problems")
            parameters, run, about = import_module("linspec.cli.solving").COMMANDS[self.name]
            cls = registry.get_problem(name)

            def command(**arguments: Any) -> None:
                run(problems.Request(name, cls, arguments))

            return problems.parameters_of(cls, parameters), command, f"{title}\n\n{about}\n\n{FILES}"

        return Command(name, load=load, short_help=title)


def offered() -> list[str]:
    """Return the problems that some solver solves."""
    solved = {name.partition("/")[0] for name in registry.solvers()}
    return [name for name in registry.problems() if name in solved]


# ---- options ------------------------------------------------------------------------------------


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    ctx.meta[f"linspec.{param.name}"] = value


def option(*names: str, **settings: Any) -> click.Option:
    """Make an option, whose default is shown; without any setting but the help it is the name of a file."""
    plain = {"metavar": "FILE"} if settings.keys() == {"help"} else {}
    return click.Option(names, **{"show_default": settings.get("default") is not None, **plain, **settings})


DEBUG = option(
    "--debug", is_flag=True, expose_value=False, callback=_remember, help="Show the traceback of an error."
)
HEADER = option(
    "--header/--no-header",
    default=None,
    expose_value=False,
    callback=_remember,
    help="Whether the first line of delimited text holds names of columns. By default the lines below tell.",
)
ROWS = [
    option(
        "--ids",
        metavar="COLUMN",
        help="A column with an id for each row, which is none of the numbers. All files that have it must have the "
        "same ids in the same order.",
    ),
    option(
        "--drop-missing",
        is_flag=True,
        help="Leave rows that lack a value in any of the files out of all of them, and say how many.",
    ),
    option(
        "--rows",
        metavar="FIRST:END",
        help="Only these rows of every file, from 0 and without the last number: 0:900, then 900: for the rest, or "
        "-100: for the last 100.",
    ),
]
SOLVER = option("--solver", default=AUTO, help="As `linspec solvers` lists.")
SOLVERS = option(
    "--solvers",
    metavar="NAME,NAME,...",
    help="Which solvers. By default all but demonstrations of failure, with a minute each.",
)
HELD_OUT = option(
    "--held-out",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="FRACTION",
    help="Leave out this fraction of the rows, drawn at random, and score the answer on them.",
)
SETTINGS = [
    option(
        *("--option", "-o", "options"),
        multiple=True,
        metavar="NAME=VALUE",
        help="An option of the solver, as `linspec describe SOLVER` lists them; of a part: lstsq.tol=1e-3. May be "
        "repeated.",
    ),
    option("--tol", type=float, help="Residual to stop at."),
    option("--seed", type=click.IntRange(min=0), default=0, help="Of everything random."),
]
BUDGETS = [
    option("--max-passes", type=float, help="Passes over the data at most."),
    option("--max-seconds", type=float, help="Time after which no pass is begun."),
    option(
        "--progress/--no-progress",
        default=None,
        help="Show how far the run has come. By default on a terminal.",
    ),
]
GROUPS = option("--groups", help="A file with a label for each row; rows of one group stay together.")
