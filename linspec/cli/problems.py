"""The command of a problem, from the declared fields of its class.

Problem: a class of problems has said what its matrices and numbers are; a command should follow from that, also for
the problem of a plugin.
Method: matrices become files, or with `linspec.views` any number of files; k, ridges, yes or no, and settings become
options. An option may have several values with commas between them where a command varies it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import click

import linspec
from linspec import registry
from linspec.cli import data
from linspec.cli.commands import AUTO, HEADER, option
from linspec.cli.output import Failure, Values, refuse
from linspec.registry import options as solver_options
from linspec.registry.options import Option
from linspec.solving.fields import KEY, Count, Flag, Matrix, Ridge, Setting

ROW_FILES = {
    "sample_weight": "How often each row counts: a file with one number for each row of the data.",
    "confounds": "Take the linear effect of these variables out of every column: a file with a row for each.",
}
"""Fields whose values are files with a row for each row of the data, and their help."""

FLAGS = {
    "center": "Take the column means out; sparse data stay sparse.",
    "scale": "Divide columns by what is left of them: with centring, by their standard deviations.",
}
"""The help of flags that a class declares without one."""

TOL = Option(name="tol", default=None, help="residual to stop at", kind=float, optional=True, above=0)
"""The declaration of the only option that "auto" takes."""


# ---- the parameters -----------------------------------------------------------------------------


class Several(click.ParamType):  # type: ignore[type-arg]  # of older releases it is not generic
    """Values with commas between them, as a tuple."""

    name = "values"

    def __init__(self, kind: Any) -> None:
        self._one: Any = click.types.convert_type(kind)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert each value."""
        if isinstance(value, tuple):
            return value
        texts = re.split(r",(?![^(]*\))", value)  # not within brackets
        return tuple(self._one.convert(text.strip(), param, ctx) for text in texts)


def declared_in(cls: Any) -> dict[str, Any]:
    """Return the declarations of the options of a problem by name."""
    declared = {}
    for name, field in {**cls.__dataclass_fields__, **cls.command}.items():
        declared[name] = field.metadata.get(KEY)
        if name == cls.stated.ridge and declared[name].each and len(cls.stated.matrix_names) == len("XY"):
            text = "The ridge of the second matrix, if it differs from the first."
            declared["ridge_y"] = Setting(help=text)
    return {name: part for name, part in declared.items() if part and not isinstance(part, Matrix)}


def _count_or_share(text: str) -> float:
    """An integer, or a number with a point or an exponent."""
    return int(text) if text.isdigit() else float(text)


def _option_of(name: str, declared: Any) -> click.Option:
    """Make the option of a declared field."""
    flag = f"--{name.replace('_', '-')}"
    text = getattr(declared, "help", "") or FLAGS.get(name, "")
    if isinstance(declared, Flag):
        yes = declared.default if declared.in_commands is None else declared.in_commands
        return option(f"{flag}/--no-{flag[2:]}", default=yes, help=text)
    if isinstance(declared, Count):
        text = f"How many {declared.things}.{' By default as many as there are.' * declared.optional}"
        text += " Or a share of all squares, such as 0.9: as few as hold it." * declared.share
        values = Several(_count_or_share if declared.share else int)
        return option("-k", "--ks", "k", type=values, required=not declared.optional, help=text)
    if isinstance(declared, Ridge):
        least = {"required": True} if declared.positive else {"default": "0.0"}
        return option(flag, "--ridges", name, type=Several(float), help=text, **least)
    kind = click.Choice(declared.choices) if declared.choices else declared.kind
    usual = str(declared.default) if isinstance(declared.default, str | int) else ""
    words = dict.fromkeys([flag.removesuffix("-x"), flag])  # -x: of the first of two matrices
    return option(*words, name, type=Several(kind), help=text, default=usual or None)


def parameters_of(cls: Any, more: Sequence[click.Option]) -> list[click.Parameter]:
    """Make the parameters of a command of a problem; of `more` those that its answers can serve."""
    served = {
        "held_out": hasattr(cls.solution, "score"),
        "loadings": hasattr(cls.solution, "loadings_table"),
        "complete": cls.proves_completeness,
    }
    return [*files_of(cls), *options_of(cls), *(item for item in more if served.get(str(item.name), True))]


def options_of(cls: Any) -> list[click.Parameter]:
    """Make the options of a problem, from its declared fields and the further settings of its commands."""
    files = [
        option(typed(name), help=text) for name, text in ROW_FILES.items() if name in cls.__dataclass_fields__
    ]
    return [*(_option_of(name, field) for name, field in declared_in(cls).items()), *files]


def files_of(cls: Any) -> list[click.Parameter]:
    """Make the arguments for the files of the matrices, and the options that pick their columns."""
    if is_several(cls):
        return [click.Argument(["files"], metavar="FILE...", nargs=-1, required=True), HEADER]
    first, *rest = matrices_of(cls)
    text = "Columns of {0}-FILE by name: a,b or a range a..c, in delimited text with names and in .parquet."
    more = " Without {0}-FILE, of the first file, whose matrix has the other columns then."
    parameters: list[click.Parameter] = [click.Argument([first.lower()], metavar=f"{first}-FILE")]
    parameters += [click.Argument([name.lower()], metavar=f"{name}-FILE", required=False) for name in rest]
    parameters += [option("--columns", metavar="NAMES", help=text.format(first))]
    for name in rest[:1]:
        words = (f"--{name.lower()}-columns", "--target-column", "second_columns")
        parameters.append(option(*words, metavar="NAMES", help=(text + more).format(name)))
    return [*parameters, HEADER]


def matrices_of(cls: Any) -> list[str]:
    """Return the names of the matrices, as their files are called."""
    return [declared.labels or name for name, declared in cls.stated.matrices.items()]


def is_several(cls: Any) -> bool:
    """Whether the problem takes any number of matrices."""
    return any(declared.several for declared in cls.stated.matrices.values())


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

    def some(self, *names: str) -> dict[str, Any]:
        """Return some arguments by name."""
        return {name: self[name] for name in names}

    @cached_property
    def files(self) -> dict[str, str]:
        """The file of each matrix by its name, with the columns that options name behind it."""
        if is_several(self.cls):
            return {f"X{i + 1}": file for i, file in enumerate(self["files"])}
        names, columns, second_columns = matrices_of(self.cls), self["columns"], self["second_columns"]
        files = [self[name.lower()] for name in names]
        if second_columns and files[1] is None:
            files[:2] = data.two_of_one_file(files[0], columns, second_columns)
            columns = second_columns = None
        if None in files:
            hint = f"'{names[files.index(None)]}-FILE'"
            raise click.MissingParameter(param_hint=hint, param_type="argument")
        files[:2] = map(data.with_columns, files, (columns, second_columns))
        return dict(zip(names, files, strict=True))

    @property
    def inputs(self) -> list[str]:
        """Every file that the command reads, which it must not overwrite."""
        return [
            *self.files.values(),
            *filter(None, self.some(*ROW_FILES, "groups", "blocks", "start").values()),
        ]

    def values(self, *varied: str) -> list[dict[str, Any]]:
        """Return the values of the problem's options by name: of options with several values, each combination.

        Parameters
        ----------
        *varied : str
            The options that may have several values; "*" for all.
        """
        declared = declared_in(self.cls)
        grids = {str(option.name): [self[str(option.name)]] for option in options_of(self.cls)}
        for name, (value,) in grids.items():
            if isinstance(value, tuple) and not getattr(declared[name], "several", False):
                grids[name] = list(dict.fromkeys(value))
            refuse(
                len(grids[name]) > 1 and not {name, "*"} & {*varied},
                f"{typed(name)} must be one value here; got {in_words(value)}.",
            )
        return [dict(zip(grids, chosen, strict=True)) for chosen in product(*grids.values())]

    def read(self, *more: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Read the matrices, and the files with a row for each of their rows, whose options are named."""
        row_files = {name: self[name] for name in (*ROW_FILES, *more) if self[name] is not None}
        labels = [declared.labels for declared in self.cls.stated.matrices.values()]
        settings = {
            "drop": self["drop_missing"],
            "ids": self["ids"],
            "span": self["rows"],
            "problem": self.cls,
        }
        rows, _ = data.read_all({**self.files, **row_files}, [*labels, *more], **settings)
        return {name: rows.pop(name) for name in self.files}, rows

    def state(self, values: Values, matrices: Values, rows: Values) -> Any:
        """Construct the problem from the values of its options, its matrices, and its weights and confounds."""
        chosen = {name: value for name, value in {**values, **rows}.items() if value is not None}
        if "ridge_y" in chosen:
            chosen["ridge"] = (chosen.get("ridge", 0.0), chosen.pop("ridge_y"))
        if "sample_weight" in rows:
            chosen["sample_weight"] = data.as_array(rows["sample_weight"])
        return self.cls.from_command(list(matrices.values()), chosen)

    def facts(self, problem: Any) -> list[tuple[str, str]]:
        """Return the problem, and the files of its matrices."""
        return [("problem", repr(problem)), *self.files.items()]

    def about(self, values: Values, *names: str, **more: Any) -> dict[str, Any]:
        """Return the request for a file: the values, the named arguments, and more."""
        chosen = {**values, **self.some(*names), **more}
        return {"problem": self.name, "files": self.files, **chosen, "linspec": linspec.__version__}

    @cached_property
    def solver(self) -> str:
        """The solver: where the user names none and there is one, this one."""
        names = registry.solvers(self.name)
        return names[0] if self["solver"] == AUTO and len(names) == 1 else str(self["solver"])

    def options(self, solver: str, texts: Sequence[str]) -> dict[str, Any]:
        """Return the options of a solver as keyword arguments, from texts ``name=value`` and ``part.name=value``."""
        pairs, tol = [pair_of(text) for text in texts], self["tol"]
        refuse(
            tol is not None and not 0 < tol < math.inf, f"--tol must be a finite number above 0; got {tol}."
        )
        excess = [name for name, _ in pairs if name != "tol" and solver == AUTO]
        refuse(excess, f'"auto" takes only tol; got {", ".join(excess)}. Name a --solver to set its options.')
        cls = None if solver == AUTO else registry.get_solver(solver, self.name)
        if tol is not None and (cls is None or "tol" in cls.__dataclass_fields__):
            pairs.append(("tol", repr(tol)))
        return _parsed(cls, pairs)


def pair_of(text: str) -> tuple[str, str]:
    """Split ``name=value``."""
    name, equals, value = text.partition("=")
    refuse(not equals or not name.strip(), f"--option must be NAME=VALUE; got {text!r}.")
    return name.strip().replace("-", "_"), value.strip()


def _parsed(cls: Any, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Convert pairs (name, text) to keyword arguments of a class: of a solver, of a part of one, or of "auto"."""
    declared = {
        setting.name: setting for setting in ([TOL] if cls is None else solver_options.options_of(cls))
    }
    values: dict[str, Any] = {}
    inner: dict[str, list[tuple[str, str]]] = {}
    for name, text in pairs:
        front, dot, rest = name.partition(".")
        if front not in declared:
            solver_options.build(cls, {front: text})  # raises with a suggestion
        if dot:
            inner.setdefault(front, []).append((rest, text))
        else:
            values[front] = solver_options.parse(declared[front], text)
    for name, of_part in inner.items():
        chosen, option_ = values.get(name, declared[name].default), declared[name]
        if option_.part_kind is None or not isinstance(chosen, str):
            raise Failure(
                f"{name} is no part with options of its own, or is not chosen yet: --option {name}=NAME."
            )
        part: Any = registry.get_part(option_.part_kind, chosen, option_.part_problem)
        values[name] = solver_options.build(part, _parsed(part, of_part))
    return values


def typed(name: str) -> str:
    """Return the option of a field as a user types it."""
    return f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"


def in_words(value: Any) -> str:
    """Return a value in words: numbers in six digits, several with commas between them."""
    if isinstance(value, tuple | list):
        return ", ".join(map(in_words, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
