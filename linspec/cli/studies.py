"""The arguments that `cross-validate`, `permute` and `bootstrap` share, and the problem that they state.

Problem: each of the three studies one problem on the data of files, with the options of `solve` for the data.
Method: the options, the files and the problem are those of `solve`; `--groups` is one more file with a row for each row
of the data. A study has its own options and its own table.
"""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

import click

from linspec import registry
from linspec.cli.failures import Command, Failure
from linspec.cli.ids import ids_option
from linspec.cli.interrupts import INTERRUPTED, held, raising
from linspec.cli.kinds import Kind, of_rows
from linspec.cli.missing import drop_option, read_inputs
from linspec.cli.outputs import Target, check_target, write_all
from linspec.cli.results import plain
from linspec.cli.settings import problem_command, setting_parameters, solver_option, solver_options
from linspec.cli.solve import FILES, files_in_words
from linspec.cli.tables import short

__all__ = [
    "Study",
    "check_components",
    "groups_option",
    "run_study",
    "solve_line",
    "stated_study",
    "study_command",
    "write_rows",
]

FORMATS = (".csv", ".json")


@dataclass(frozen=True)
class Study:
    """A stated problem, and how it is solved.

    Attributes
    ----------
    kind : Kind
    given : mapping
        All arguments of the command.
    values : mapping
        The parameters of the problem.
    problem : Problem
    options : mapping
        The options of the solver.
    asked : mapping
        The parameters of the problem and the options of the study, as requested.
    groups : numpy.ndarray of shape (n,) or None
    out : Target or None
    facts : list of (str, str)
        The problem and its files in words.
    """

    kind: Kind
    given: Mapping[str, Any]
    values: Mapping[str, Any]
    problem: Any
    options: Mapping[str, Any]
    asked: Mapping[str, Any]
    groups: Any
    out: Target | None
    facts: list[tuple[str, str]]

    @property
    def about(self) -> dict[str, Any]:
        """The request, for a file."""
        import linspec

        return {
            "problem": self.kind.name,
            "files": self.kind.files(self.given),
            **self.asked,
            **{name: self.given[name] for name in ("ids", "drop_missing", "solver", "seed")},
            "options": self.options,
            "linspec": linspec.__version__,
        }


def study_command(
    kind: Kind,
    action: Callable[[Kind, Mapping[str, Any]], None],
    summary: str,
    own: Sequence[click.Parameter],
    stated: Sequence[click.Parameter] | None = None,
    *,
    what: str,
) -> Command:
    """Make the command of a study for one problem.

    Parameters
    ----------
    kind : Kind
    action : callable
        Takes the record of the problem and the arguments.
    summary : str
        The help, before that on files.
    own : sequence of click.Parameter
        The options of the study.
    stated : sequence of click.Parameter, optional
        The options of the problem, by default those of `solve`.
    what : str
        The contents of the file of ``--out``, in words.
    """
    parameters = [
        *(kind.own_parameters() if stated is None else stated),
        *own,
        solver_option(kind),
        ids_option(),
        drop_option(),
        *setting_parameters(),
        click.Option(["--out"], metavar="FILE", help=f"Write {what} to FILE.csv or FILE.json."),
    ]
    return problem_command(kind, lambda **given: action(kind, given), f"{summary}\n\n{FILES}", parameters)


def groups_option(text: str) -> click.Option:
    """Make the option ``--groups``."""
    return click.Option(["--groups"], metavar="FILE", help=f"{text} A file with a label for each row.")


def stated_study(
    kind: Kind,
    given: Mapping[str, Any],
    own: Mapping[str, Any],
    changed: Mapping[str, Any] | None = None,
) -> Study:
    """Check the arguments of a study, read its files, and state its problem.

    Parameters
    ----------
    kind : Kind
    given : mapping
        All arguments.
    own : mapping
        The options of the study by name, for a file.
    changed : mapping, optional
        Values that replace parameters of the problem, and are not shown or written with it.
    """
    files = kind.files(given)
    beside = {} if given.get("groups") is None else {"groups": given["groups"]}
    out = check_target("--out", given["out"], FORMATS, inputs=kind.inputs(given))
    texts = [*kind.option_texts(given), *given["options"]]
    options = solver_options(kind.name, given["solver"], texts, given["tol"])
    values = {**kind.values(given), **(changed or {})}
    kind.check_used(values)
    matrices, rows, told = read_inputs(
        {**files, **beside},
        values,
        [*kind.labels, *beside],
        drop=given["drop_missing"],
        ids=given["ids"],
    )
    if told:
        click.echo(told, err=True)
    groups = of_rows(matrices.pop("groups")) if beside else None
    problem = kind.construct(list(matrices.values()), values, rows)
    shown = {name: value for name, value in values.items() if name not in (changed or {})}
    facts = [
        ("problem", ", ".join(filter(None, [kind.name, kind.stated(shown)]))),
        *files_in_words(files, matrices),
    ]
    return Study(kind, given, values, problem, options, {**shown, **own}, groups, out, facts)


def run_study(compute: Callable[[], Any], report: Callable[[Any], None]) -> None:
    """Compute a study, and report it, also after an interrupt; leave with the status of an interrupt then."""
    with held() as interrupts:
        with raising():
            found = compute()
        report(found)
    if interrupts.came or getattr(found, "interrupted", False):
        click.get_current_context().exit(INTERRUPTED)


def check_components(kind: Kind, command: str) -> None:
    """Refuse a problem whose answers have no values of components."""
    if not registry.get_problem(kind.name).solution.layout.value:
        raise Failure(
            f"{command} is about the values of components, such as correlations, and answers to {kind.name} have "
            "none; `linspec cross-validate` scores them on rows that were not fitted."
        )


def write_rows(
    study: Study, rows: Sequence[Mapping[str, Any]], more: Mapping[str, Any] | None = None
) -> None:
    """Write the rows of a study, if ``--out`` names a file: delimited text, or JSON with the request and `more`.

    Parameters
    ----------
    study : Study
    rows : sequence of mappings
        They have the same keys.
    more : mapping, optional
        Further results, for JSON alone.
    """
    content = {**(more or {}), "rows": list(rows), "about": study.about}
    write_all([(study.out, partial(_write, content))])


def _write(content: Mapping[str, Any], stream: IO[bytes], suffix: str) -> None:
    if suffix == ".json":
        stream.write(json.dumps(plain(content), indent=1, allow_nan=False).encode() + b"\n")
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, list(content["rows"][0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(content["rows"])
    stream.write(text.getvalue().encode())


def solve_line(kind: Kind, own: Sequence[str], changed: Mapping[str, Any]) -> str:
    """Return the command line of `linspec solve` for the problem of the current command.

    Parameters
    ----------
    kind : Kind
    own : sequence of str
        The options that `solve` does not have.
    changed : mapping of str
        Parameters with other values than those of the command; None leaves one out.
    """
    context = click.get_current_context()
    words, others = ["linspec", "solve", kind.name], []
    for parameter in context.command.params:
        name = str(parameter.name)
        kept = context.params.get(name, context.meta.get(f"linspec.cli.{name}"))  # as --header is
        value = changed.get(name, kept)
        if isinstance(parameter, click.Argument):
            words += list(value) if isinstance(value, tuple) else filter(None, [value])
            continue
        source = context.get_parameter_source(name)
        typed = name in changed or source is click.core.ParameterSource.COMMANDLINE
        if typed and name not in own and value is not None:
            others += _option_words(parameter, value)
    return shlex.join([*words, *others])


def _option_words(option: click.Parameter, value: Any) -> list[str]:
    """Return an option and its value as words of a command line."""
    if isinstance(value, bool):
        return option.opts[:1] if value else option.secondary_opts[:1]
    values = value if isinstance(value, tuple) else (value,)
    return [word for each in values for word in (option.opts[0], short(each))]
