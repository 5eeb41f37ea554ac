"""The command of a problem, from the declared fields of its class.

Problem: a class of problems has said what its matrices and numbers are; a command should follow from that, also for
the problem of a plugin.
Method: matrices become files, or with `linspec.views` any number of files; k, ridges, yes or no, and settings become
options. An option may have several values with commas between them where a command varies it. The class is loaded when
its command is used, not when problems are listed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import fields as fields_of
from functools import cached_property
from itertools import product
from typing import Any

import click
from click.shell_completion import CompletionItem

from linspec import registry
from linspec.cli import data
from linspec.cli.output import Failure, in_one_line
from linspec.registry import options as solver_options
from linspec.registry.options import Option

AUTO = "auto"
"""The solver that `linspec.select` chooses."""

ROW_FILES = {
    "sample_weight": "How often each row counts: a file with one number for each row of the data.",
    "confounds": "Take the linear effect of these variables out of every column: a file with a row for each.",
}
"""Fields whose values are files with a row for each row of the data, and their help."""

FLAGS = {
    "center": "Take the column means out; sparse data stay sparse.",
    "scale": "Divide columns by what is left of them: with centring, by their standard deviations.",
}
"""The help of flags that the class declares without one."""

FILES = """Files: .npy (read in blocks, never loaded whole), .npz (dense: FILE.npz:NAME picks an array; or of
scipy.sparse), .mtx, .svm (FILE.svm:labels and FILE.svm:classes for the labels), .zarr, .h5, .h5ad (read in slices;
FILE.h5ad:layers/counts picks a part), .parquet, .csv, .tsv, .txt (FILE:a,b..d picks columns by name, FILE:~a all
others). The files of a pattern in quotes, such as 'day*.h5ad', are one matrix."""


def offered() -> list[str]:
    """Return the problems that some solver solves."""
    solved = {name.partition("/")[0] for name in registry.solvers()}
    return [name for name in registry.problems() if name in solved]


def check_no_method(name: str) -> None:
    """Refuse "pca", which is no problem here but the svd of centred data, with the command that solves it."""
    if name.lower() == "pca":
        raise Failure(
            f"{name!r} is no problem here: principal components are those of `linspec solve svd FILE -k K --center`."
        )


# ---- the options --------------------------------------------------------------------------------


class Command(click.Command):
    """A command that takes ``--debug``; with `make`, its other parameters are made when they are needed."""

    def __init__(self, *args: Any, make: Callable[[], list[click.Parameter]] | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self._make = make
        text = "Show the traceback of an error."
        self.params.append(
            click.Option(["--debug"], is_flag=True, expose_value=False, callback=_remember, help=text)
        )

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters."""
        if self._make is not None:
            self.params, self._make = [*self._make(), *self.params], None
        return super().get_params(ctx)


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value is not None:
        ctx.meta[f"linspec.{param.name}"] = value


class Several(click.ParamType):  # type: ignore[type-arg]  # of older releases it is not generic
    """Values with commas between them, as a tuple."""

    name = "values"

    def __init__(self, kind: Any) -> None:
        self._one: Any = click.types.convert_type(kind)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert each value."""
        texts = value if isinstance(value, tuple) else str(value).split(",")
        return tuple(self._one.convert(str(text).strip(), param, ctx) for text in texts)


def option_of(name: str, declared: Any) -> click.Option:
    """Make the option of a declared field."""
    from linspec.solving.fields import Count, Flag, Ridge

    flag, named = f"--{name.replace('_', '-')}", {"help": getattr(declared, "help", "") or FLAGS.get(name)}
    if isinstance(declared, Flag):
        default = declared.default if declared.in_commands is None else declared.in_commands
        return click.Option([f"{flag}/--no-{flag[2:]}"], default=default, show_default=True, **named)
    kind, words, default, required = float, [flag], None, False
    if isinstance(declared, Count):
        kind, words, required = int, ["-k", "--ks", "k"], not declared.optional
        named["help"] = f"How many {declared.things}.{' By default as many as there are.' * declared.optional}"
    elif isinstance(declared, Ridge):
        words, required = [flag, "--ridges", name], bool(declared.positive)
        default = None if required else "0.0"
    else:
        kind = click.Choice(declared.choices) if declared.choices else declared.kind
        default = declared.default if isinstance(declared.default, str | int) else None
    return click.Option(
        words, type=Several(kind), required=required, default=default, show_default=True, metavar="VALUE", **named
    )


def declared_in(cls: Any) -> dict[str, Any]:
    """Return the declarations of the options of a problem by name."""
    from linspec.solving.fields import KEY, Matrix, Setting

    stated, declared = cls.stated, {}
    settings = {name: setting.metadata[KEY] for name, setting in cls.command.items()}
    for name, each in {**stated.fields, **settings}.items():
        if not isinstance(each, Matrix):
            declared[name] = each
        if name == stated.ridge and each.each and len(stated.matrix_names) == len("XY"):
            declared["ridge_y"] = Setting(help="The ridge of the second matrix, if it differs from the first.")
    return declared


def options_of(cls: Any) -> list[click.Parameter]:
    """Make the options of a problem, from its declared fields and the further settings of its commands."""
    fields = {field.name for field in fields_of(cls)}
    return [
        *(option_of(name, declared) for name, declared in declared_in(cls).items()),
        *(
            click.Option([f"--{name.replace('_', '-')}"], metavar="FILE", help=text)
            for name, text in ROW_FILES.items()
            if name in fields
        ),
    ]


def files_of(cls: Any) -> list[click.Parameter]:
    """Make the arguments for the files of the matrices, and the options that pick their columns."""
    names = matrices_of(cls)
    if is_several(cls):
        return [click.Argument(["files"], metavar="FILE...", nargs=-1, required=True), header_option()]
    files: list[click.Parameter] = [
        click.Argument([name.lower()], metavar=f"{name}-FILE", required=number == 0)
        for number, name in enumerate(names)
    ]
    text = "Columns of {}-FILE by name: a,b or a range a..c, in delimited text with names and in .parquet."
    files.append(click.Option(["--columns"], metavar="NAMES", help=text.format(names[0])))
    if len(names) > 1:
        more = f" Without {names[1]}-FILE, of {names[0]}-FILE: {names[0]} has the other columns then."
        words = [f"--{names[1].lower()}-columns", "--target-column", "second_columns"]
        files.append(click.Option(words, metavar="NAMES", help=text.format(names[1]) + more))
    return [*files, header_option()]


def matrices_of(cls: Any) -> list[str]:
    """Return the names of the matrices, as their files are called."""
    return [declared.labels or name for name, declared in cls.stated.matrices.items()]


def is_several(cls: Any) -> bool:
    """Whether the problem takes any number of matrices."""
    return any(declared.several for declared in cls.stated.matrices.values())


def header_option() -> click.Option:
    """Make the option ``--header/--no-header``, which holds for all files of delimited text."""
    text = "Whether the first line of delimited text holds names of columns. By default the lines below tell."
    return click.Option(
        ["--header/--no-header"], default=None, expose_value=False, callback=_remember, help=text
    )


def row_options() -> list[click.Parameter]:
    """Make the options that say which rows belong together, and which are left out."""
    ids = (
        "A column with an id for each row, which is none of the numbers. All files that have it must have the same ids "
        "in the same order."
    )
    drop = "Leave rows that lack a value in any of the files out of all of them, and say how many."
    return [
        click.Option(["--ids"], metavar="COLUMN", help=ids),
        click.Option(["--drop-missing"], is_flag=True, help=drop),
    ]


def solver_parameters(*, budgets: bool = True) -> list[click.Parameter]:
    """Make the options that set a solver, its random numbers, and with `budgets` the limits of a run."""
    text = (
        "An option of the solver, as `linspec describe SOLVER` lists them; of a part: lstsq.tol=1e-3. May be repeated."
    )
    limits = [
        click.Option(["--max-passes"], type=float, metavar="NUMBER", help="Passes over the data at most."),
        click.Option(["--max-seconds"], type=float, metavar="NUMBER", help="Time after which no pass is begun."),
        click.Option(
            ["--progress/--no-progress"], default=None, help="Show how far the run has come. By default on a terminal."
        ),
    ]
    positive = click.FloatRange(min=0, min_open=True)
    return [
        click.Option(["--option", "-o", "options"], multiple=True, metavar="NAME=VALUE", help=text),
        click.Option(["--tol"], type=positive, metavar="NUMBER", help="Residual to stop at."),
        click.Option(
            ["--seed"], type=click.IntRange(min=0), default=0, show_default=True, help="Of everything random."
        ),
        *(limits if budgets else []),
    ]


def solver_option() -> click.Option:
    """Make the option ``--solver``."""
    return click.Option(
        ["--solver"],
        default=AUTO,
        show_default=True,
        shell_complete=complete_solver,
        help="As `linspec solvers` lists.",
    )


def held_out_option(cls: Any) -> list[click.Parameter]:
    """Make the option ``--held-out``, if answers can be scored on rows."""
    text = "Leave out this fraction of the rows, drawn at random, and score the answer on them."
    fraction = click.FloatRange(0, 1, min_open=True, max_open=True)
    option = click.Option(["--held-out"], type=fraction, metavar="FRACTION", help=text)
    return [option] if hasattr(cls.solution, "score") else []


def complete_solver(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the last of some names of solvers of the command's problem."""
    before, comma, begun = incomplete.rpartition(",")
    names = registry.solvers(ctx.info_name if ctx.info_name in offered() else None)
    return [CompletionItem(before + comma + name) for name in names if name.startswith(begun)]


class ProblemGroup(click.Group):
    """A command with one subcommand for each problem.

    Parameters
    ----------
    name, help_, about : str
        Name and help of the command, and the help of each subcommand.
    parameters : callable
        Takes the class of a problem, returns the parameters of its subcommand but the files.
    action : callable
        Takes the class of the problem, and the parsed arguments as a `Request`.
    """

    def __init__(
        self,
        name: str,
        help_: str,
        about: str,
        parameters: Callable[[Any], list[click.Parameter]],
        action: Callable[[Request], None],
    ) -> None:
        super().__init__(
            name,
            help=help_,
            options_metavar="",
            subcommand_metavar="PROBLEM FILE... [OPTIONS]",
            no_args_is_help=False,
            invoke_without_command=True,
            callback=_help_alone,
        )
        self._about, self._parameters, self._action = about, parameters, action

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the problems that can be stated."""
        return offered()

    def get_command(self, ctx: click.Context, name: str) -> click.Command:
        """Make the subcommand of a problem."""
        if name not in offered():
            check_no_method(name)
            registry.solvers(name)  # raises with a suggestion if there is no such problem
            raise Failure(f"no package here solves {name!r}. Problems here: {', '.join(offered())}.")
        title = str(registry.get_spec("problem", name).summary)

        def make() -> list[click.Parameter]:
            cls = registry.get_problem(name)
            return [*files_of(cls), *options_of(cls), *self._parameters(cls)]

        def act(**arguments: Any) -> None:
            self._action(Request(name, registry.get_problem(name), arguments))

        return Command(
            name, callback=act, make=make, help=f"{title}\n\n{self._about}\n\n{FILES}", short_help=title
        )


def _help_alone() -> None:
    """Show the help if no problem is named."""
    context = click.get_current_context()
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


# ---- the request --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Request:
    """The parsed arguments of a command for one problem.

    Attributes
    ----------
    name : str
        The problem.
    cls : type
        Its class.
    arguments : dict from str
        All arguments of the command.
    """

    name: str
    cls: Any
    arguments: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.arguments.get(name)

    @cached_property
    def files(self) -> dict[str, str]:
        """The file of each matrix by its name, with the columns that options name behind it."""
        if is_several(self.cls):
            return {f"X{i + 1}": file for i, file in enumerate(self["files"])}
        names = matrices_of(self.cls)
        files = {name: self[name.lower()] for name in names}
        first, second = self["columns"], self["second_columns"]
        if second and files[names[1]] is None:
            pair = data.two_of_one_file(files[names[0]], first, second)
            files |= dict(zip(names, pair, strict=False))
        else:
            files[names[0]] = data.with_columns(files[names[0]], first)
            if second:
                files[names[1]] = data.with_columns(files[names[1]], second)
        for name, file in files.items():
            if file is None:
                raise click.MissingParameter(param_hint=f"'{name}-FILE'", param_type="argument")
        return files

    @property
    def inputs(self) -> list[str]:
        """Every file that the command reads, which it must not overwrite."""
        others = [self[name] for name in (*ROW_FILES, "groups", "start")]
        return [*self.files.values(), *filter(None, others)]

    def values(self, *varied: str) -> list[dict[str, Any]]:
        """Return the values of the problem's options by name: of options with several values, each combination.

        Parameters
        ----------
        *varied : str
            The options that may have several values; "*" for all.
        """
        declared, grids = declared_in(self.cls), {}
        for name in [str(parameter.name) for parameter in options_of(self.cls)]:
            value = self[name]
            if not isinstance(value, tuple) or getattr(declared[name], "several", False):
                grids[name] = [value]
            elif len(set(value)) > 1 and not {name, "*"} & set(varied):
                raise Failure(f"{option_words(name)} must be one value here; got {in_words(value)}.")
            else:
                grids[name] = list(dict.fromkeys(value))
        combinations: list[dict[str, Any]] = []
        for chosen in product(*grids.values()):
            words = set(map(str, chosen))
            values = {
                name: value if not only or words & {*only} else None
                for name, value, only in (
                    (name, value, getattr(declared.get(name), "only_with", ()))
                    for name, value in zip(grids, chosen, strict=True)
                )
            }
            combinations += [values] * (values not in combinations)
        for name, grid in grids.items():
            if grid[0] is not None and all(values[name] is None for values in combinations):
                others = " or ".join(declared[name].only_with)
                raise Failure(f"{option_words(name)} has no effect without {others}. Leave it out.")
        return combinations

    def read(self, *more: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Read the matrices, and the files with a row for each of their rows, whose options are named."""
        others = {name: self[name] for name in (*ROW_FILES, *more) if self[name] is not None}
        labels = [declared.labels for declared in self.cls.stated.matrices.values() if declared.labels]
        rows, _ = data.read_all(
            {**self.files, **others}, [*labels, *more], drop=self["drop_missing"], ids=self["ids"]
        )
        return {name: rows[name] for name in self.files}, {name: rows[name] for name in others}

    def state(self, values: Mapping[str, Any], matrices: Mapping[str, Any], rows: Mapping[str, Any]) -> Any:
        """Construct the problem from the values of its options, its matrices, and its weights and confounds."""
        chosen = {name: value for name, value in values.items() if value is not None and name not in ROW_FILES}
        if "ridge_y" in chosen:
            chosen["ridge"] = (chosen.get("ridge", 0.0), chosen.pop("ridge_y"))
        if "sample_weight" in rows:
            chosen["sample_weight"] = data.as_array(rows["sample_weight"])
        if "confounds" in rows:
            chosen["confounds"] = rows["confounds"]
        return self.cls.from_command(list(matrices.values()), chosen)

    def words(self, values: Mapping[str, Any]) -> str:
        """Return the problem and the values of its options in words, such as "cca, k = 2, ridge 1, center"."""
        words = [self.name]
        for name, value in values.items():
            if name == "k":
                words.append("k by rank" if value is None else f"k = {value}")
            elif name == "center":
                words.append("centred" if value else "not centred")
            elif value is not None and value is not False and value != 0.0:
                words.append(name.replace("_", " ") + f" {in_words(value)}" * (value is not True))
        return ", ".join(words)

    def facts(self, values: Mapping[str, Any], matrices: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return the problem and its files in words."""
        files = {name: f"{in_one_line(self.files[name], 200)} ({data.described(matrices[name])})" for name in self.files}
        return [("problem", self.words(values)), *files.items()]

    def about(self, values: Mapping[str, Any], *names: str, **more: Any) -> dict[str, Any]:
        """Return the request for a file: the values, the named arguments, and more."""
        import linspec

        return {
            "problem": self.name,
            "files": self.files,
            **values,
            **{name: self[name] for name in names},
            **more,
            "linspec": linspec.__version__,
        }

    @cached_property
    def solver(self) -> str:
        """The solver: the only one, if there is one, where the user names none."""
        names = registry.solvers(self.name)
        return names[0] if self["solver"] == AUTO and len(names) == 1 else str(self["solver"])

    def options(self, solver: str, texts: Sequence[str], *, tol: bool = True) -> dict[str, Any]:
        """Return the options of a solver as keyword arguments, from texts ``name=value`` and ``part.name=value``."""
        pairs = [pair_of(text) for text in texts]
        if others := [name for name, _ in pairs if solver == AUTO and name != "tol"]:
            raise Failure(
                f'"auto" takes only tol; got {", ".join(others)}. Name a --solver to set its options.'
            )
        if tol and self["tol"] is not None:
            pairs.append(("tol", repr(self["tol"])))
        return _parsed(registry.get_solver(solver, self.name), pairs) if solver != AUTO else _tol(pairs)


def option_words(name: str) -> str:
    """Return the option of a field as a user types it."""
    return f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"


def in_words(value: Any) -> str:
    """Return a value as a user would type it: numbers in six digits, several with commas between them."""
    if isinstance(value, tuple | list):
        return ", ".join(map(in_words, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def pair_of(text: str) -> tuple[str, str]:
    """Split ``name=value``."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise Failure(f"--option must be NAME=VALUE; got {text!r}.")
    return name.strip().replace("-", "_"), value.strip()


def declared_names(problem: str, solver: str) -> set[str]:
    """Return the names of a solver's options."""
    return {option.name for option in solver_options.options_of(registry.get_solver(solver, problem))}


def _tol(pairs: Collection[tuple[str, str]]) -> dict[str, Any]:
    """Return the only option that "auto" takes."""
    declared = Option(name="tol", default=None, help="", kind=float, optional=True, above=0)
    return {name: solver_options.parse(declared, text) for name, text in pairs}


def _parsed(cls: type[Any], pairs: Collection[tuple[str, str]]) -> dict[str, Any]:
    """Convert pairs (name, text) to keyword arguments of a class: of a solver, or of a part of one."""
    declared: dict[str, Option] = {option.name: option for option in solver_options.options_of(cls)}
    values: dict[str, Any] = {}
    inner: dict[str, list[tuple[str, str]]] = {}
    for name, text in pairs:
        front, dot, rest = name.partition(".")
        if front not in declared:
            solver_options.build(cls, {front: text})  # raises with a suggestion
        if dot and declared[front].part_kind is None:
            raise Failure(f"the option {front!r} of {cls.__name__} is no part and has no option {rest!r}.")
        if dot:
            inner.setdefault(front, []).append((rest, text))
        else:
            values[front] = solver_options.parse(declared[front], text)
    for name, texts in inner.items():
        chosen, option = values.get(name, declared[name].default), declared[name]
        if not isinstance(chosen, str):
            raise Failure(f"say which {name} first, as in --option {name}=NAME.")
        part: Any = registry.get_part(str(option.part_kind), chosen, option.part_problem)
        values[name] = solver_options.build(part, _parsed(part, texts))
    return values


def solve_line(request: Request, values: Mapping[str, Any]) -> str:
    """Return the line of `linspec solve` for values of the problem's options."""
    words = ["linspec", "solve", request.name, *request.files.values()]
    for name, value in [*values.items(), ("ids", request["ids"]), ("drop_missing", request["drop_missing"])]:
        if isinstance(value, bool):
            words += [option_words(name)] if value else [f"--no-{name}"] * (name in FLAGS)
        elif value is not None:
            words += [option_words(name), in_words(value).replace(" ", "")]
    return shlex.join(words)
