"""The program: its commands, and every failure as one line with an exit status for scripts.

Problem: a traceback does not help a user of a command; a script wants to know whether the request was wrong; and a
command that loads an array library before it prints its help feels broken.
Method: every error that linspec raises on purpose, and every error of the operating system, becomes one line on
standard error and exit status 2, as do click's own errors. ``--debug`` adds the traceback. An interrupt ends
with status 130, even if there is an answer. If the reader of the output has left, the status is 141.
Warnings are one line each, too. Commands that read data are loaded when they run.
Source: click's exceptions; the exit statuses are those of POSIX shells.

Problem: a first plugin needs a dozen names in seven files, and a misspelt one is found only when it is installed.
Method: `linspec new` copies packages. The folders of `linspec/templates` are packages that pass the conformance tests.
A copy has the user's names in place of the template's in every text and every path. The template's own name is that of
its package.
"""

from __future__ import annotations

import errno
import keyword
import os
import platform
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

import linspec
from linspec import registry
from linspec.cli.commands import Command, ProblemGroup, later
from linspec.cli.output import (
    INTERRUPTED,
    OUTPUT,
    Failure,
    echo,
    in_one_line,
    missing_package,
    refuse,
    show_facts,
    show_table,
)
from linspec.errors import AccuracyWarning, ConvergenceWarning, LinspecError, NonFiniteData, PluginWarning
from linspec.process.files import is_there
from linspec.process.plurals import count_of
from linspec.registry.options import counterparts

UNREAD, DEFECT = 141, 70
"""Exit status if the reader of the output has left, as after ``| head`` (128 + SIGPIPE), and for an error of the
program itself (EX_SOFTWARE of sysexits.h)."""

PACKAGES = """numpy scipy array-api-compat pluggy threadpoolctl click rich matplotlib scikit-learn narwhals pandas
polars pyarrow torch cupy cupy-cuda12x cupy-cuda13x"""


class Program(click.Group):
    """The command `linspec`: commands in the order of their definition, and every error as one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, in order of definition."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; turn errors into a Failure, and each warning into one line."""
        try:
            with _warnings_in_one_line():
                super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            if ctx.meta.get("linspec.debug"):
                echo(traceback.format_exc(), err=True)
            raise _as_failure(error) from error
        if failure := ctx.meta.get(OUTPUT):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more
            if failure.errno == errno.EPIPE:
                ctx.exit(UNREAD)
            raise Failure(f"standard output cannot be written: {failure.strerror}.")

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the program as click does, but show errors as one line."""
        run: Any = super().main
        if not standalone_mode:
            return run(*args, standalone_mode=False, **extra)
        for name in ("stdout", "stderr"):  # one that is closed from the start becomes the null device
            stream: Any = getattr(sys, name) or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
            getattr(stream, "reconfigure", dict)(errors="backslashreplace")
            setattr(sys, name, stream)
        try:
            code = run(*args, standalone_mode=False, **extra) or 0
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            code = 0
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            help_ = f" See: {context.command_path} --help" if context is not None else ""
            if isinstance(error, click.NoSuchOption) and context is not None:
                vars(error)["possibilities"] = _meant(context, error.option_name) or error.possibilities
            click.echo(f"Error: {in_one_line(error.format_message())}{help_}", err=True)
            code = error.exit_code
        except (click.Abort, KeyboardInterrupt) as error:
            click.echo(in_one_line(f"Interrupted. {error.__cause__ or ''}"), err=True)
            code = INTERRUPTED
        sys.exit(code)


def _meant(context: click.Context, foreign: str) -> list[str]:
    """Return the options of a command that an option of other programs may stand for."""
    parameters = context.command.get_params(context)
    options = {option.name: option.opts[0] for option in parameters if isinstance(option, click.Option)}
    names = counterparts(foreign.strip("-").replace("-", "_"))
    return [options[name] for name in names if name in options]


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Collect warnings and print each once at the end, not into a progress bar or a table."""
    with warnings.catch_warnings(record=True) as heard:
        for category in (AccuracyWarning, ConvergenceWarning, PluginWarning):
            warnings.simplefilter("always", category)
        try:
            yield
        finally:
            for text in dict.fromkeys(str(warning.message) for warning in heard):
                echo(f"Warning: {in_one_line(text)}", err=True)


def _as_failure(error: Exception) -> Failure:
    """Return the failure that tells of an error, with the notes of it."""
    text = str(error)
    if isinstance(error, NonFiniteData) and not re.search(r"got -?inf\b|in any row|--drop-missing", text):
        text += " --drop-missing leaves rows with missing values out."
    elif isinstance(error, MemoryError):
        text = f"out of memory. {error} Use a .npy file, which is read in blocks, or sparse data."
    elif isinstance(error, OSError):
        text = f"{f'{error.filename}: ' * bool(error.filename)}{error.strerror or error}."
    elif not isinstance(error, LinspecError):
        text = (
            f"unexpected {type(error).__name__}: {error}. This is a defect of linspec or of a plugin; run again with "
            "--debug and report the traceback."
        )
    failure = Failure(" ".join([text, *getattr(error, "__notes__", ())]))
    vars(failure)["exit_code"] = 2 if isinstance(error, LinspecError | MemoryError | OSError) else DEFECT
    return failure


def _show_versions(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    """Print the versions of linspec, of Python and of packages, one on each line, and exit."""
    if not value or ctx.resilient_parsing:
        return
    rows = {"linspec": linspec.__version__, "Python": f"{platform.python_version()} ({platform.platform()})"}
    for name in PACKAGES.split():
        with suppress(PackageNotFoundError):
            rows[name] = version(name)
    show_facts(rows.items())
    ctx.exit()


@click.group(
    cls=Program,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_versions,
    help="Show the version, and those of what linspec stands on.",
)
def main() -> None:
    """Linear structure in large data: least squares, SVD, canonical correlations and discriminants.

    Begin with `linspec demo`.
    """


# ---- what is registered -------------------------------------------------------------------------


@click.command(cls=Command)
@click.argument("problem", required=False)
def solvers(problem: str | None) -> None:
    """List the solvers, all or those of one PROBLEM."""
    rows = []
    for name in registry.solvers(problem):
        spec = registry.get_spec("solver", name, problem)
        rows.append({"solver": name, "traits": ", ".join(spec.traits), "what it does": spec.summary})
    show_table(rows)
    echo(
        f"\n{count_of(len(rows), 'solver')}. `linspec describe NAME` shows the options and the source of one."
    )


@click.command(cls=Command, short_help="Describe a solver, its source, needs and options; or a problem.")
@click.argument("name")
def describe(name: str) -> None:
    """Describe a solver, normalizer, test matrix, adapter or problem.

    Every description has a summary, and names the plugin that provides the record. For solvers, normalizers and test
    matrices the source and the options follow; for solvers also the problem, and the access to the data that the solver
    needs; for problems the constructor and the solvers.

    NAME is a bare name, or cca/gram, normalizer/qr, DISTRIBUTION:NAME.
    """
    echo(str(registry.describe(name)))


@click.command(cls=Command)
def plugins() -> None:
    """List the plugins found, loaded or not, and what they provide."""
    names, rows = ("name", "distribution", "version", "status"), registry.plugins()
    show_table([{n: getattr(row, n) for n in names} | {"provides": ", ".join(row.provides)} for row in rows])
    show_facts([(row.identity, f"error: {row.error}") for row in rows if row.error])


@click.command(
    cls=Command, short_help="Hold a solver, or whatever else a plugin provides, to the conformance tests."
)
@click.argument("name")
@click.option(
    "--backend", "backends", multiple=True, metavar="NAME", help="A kind of data to test on, or all."
)
@click.option("--time-limit", type=float, metavar="SECONDS", help="CPU time that each test may take.")
@click.option("--expected", multiple=True, metavar="NAME=REASON", help="A test that may fail, and why.")
def check(name: str, expected: tuple[str, ...], **settings: Any) -> None:
    """Hold one solver, normalizer, test matrix, adapter or problem to the conformance tests.

    NAME is a bare name where it means one thing, else cca/gram, normalizer/qr, test-matrix/srht, operator/dask,
    problem/pls. The exit status is 1 when it fails one of the tests.
    """
    try:
        from linspec import testing
    except ImportError as error:
        raise missing_package(f"check needs {error.name}", "testing") from error
    settings["expected_failures"] = dict(text.partition("=")[::2] for text in expected)
    report = testing.run_checks(name, **{key: value for key, value in settings.items() if value})
    echo(str(report))
    if not report.ok:
        click.get_current_context().exit(1)


# ---- new ----------------------------------------------------------------------------------------

TEMPLATES = Path(linspec.__file__).parent / "templates"

SUFFIXES = {".md", ".py", ".toml", ".typed"}
"""Suffixes of the files of a template that are copied."""


@click.command(
    cls=Command, short_help="Write a package for a solver, a problem or a kind of data of your own."
)
@click.argument("kind", type=click.Choice(["solver", "problem", "data"]))
@click.argument("name")
@click.option("--folder", default=".", metavar="DIR", help="Where to write linspec-NAME.  [default: here]")
def new(kind: str, name: str, folder: str) -> None:
    """Write a package for a solver, a problem or a kind of data of your own.

    The folder linspec-NAME has a working example under your name, which can be installed and passes the conformance
    tests: replace the example by your method. NAME is lower-case words joined by hyphens, such as two-step.
    """
    template = TEMPLATES / kind
    paths = [path for path in sorted(template.rglob("*")) if path.suffix in SUFFIXES and path.is_file()]
    files = {path.relative_to(template).as_posix(): path.read_text("utf-8") for path in paths}
    (example,) = {
        path.partition("/")[0].removeprefix("linspec_") for path in files if path.startswith("linspec_")
    }
    _check_name(name, example, files)
    target = Path(folder) / f"linspec-{name}"
    refuse(is_there(target), f"{target} exists already. Choose another name or --folder, or remove it.")
    for path, text in files.items():
        copy = target / _renamed(path, example, name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(_renamed(text, example, name), "utf-8")
    echo(f"Wrote {count_of(len(files), 'file')} to {target}. Its README.md says what to do next.")


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in re.split("[-_]", name))


def _renamed(text: str, example: str, name: str) -> str:
    """Replace the example's name, its module and its class, all in one pass."""
    record = example.replace("_", "-")
    module = name.replace("-", "_")
    forms = {
        f"_{example}": f"_{module}",
        example: module,
        record: name,  # a single word means the record, except behind an underscore
        _class_name(example): _class_name(name),
        record.upper(): _class_name(name),  # the class of the example may be an abbreviation
    }
    return re.sub("|".join(map(re.escape, forms)), lambda match: forms[match[0]], text)


def _check_name(name: str, example: str, files: dict[str, str]) -> None:
    """Refuse a name that no record or module can have, that is taken, or is that of another file of the template."""
    refuse(
        not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name),
        "NAME must be lower-case words of letters and digits joined by hyphens, such as two-step, and begin with a "
        f"letter; got {name!r}.",
    )
    module = name.replace("-", "_")
    paths = {_renamed(path, example, name) for path in files}
    keywords = {module, _class_name(name)} & {*keyword.kwlist}
    refuse(
        keywords or len(paths) < len(files) or find_spec(f"linspec_{module}") is not None,
        f"the name {name!r} is taken: by Python, by a package linspec_{module} that is here, or by the "
        f"template itself. Choose another one, such as {f'my-{name}'!r}.",
    )


for command in (
    later(
        "demo", "linspec.families.cca.demo", "Solve CCA of handwritten digits by three solvers, and draw it."
    ),
    ProblemGroup("solve", "Solve a problem with data from files."),
    later("transform", "linspec.cli.transform", "What a saved answer makes of new rows."),
    later("rotate", "linspec.cli.tables", "Rotated loadings of a saved answer."),
    ProblemGroup("compare", "Run several solvers on the same data, side by side."),
    ProblemGroup("cross-validate", "Choose ridge and k by rows that were not fitted."),
    ProblemGroup("permute", "Test by permutations which components are more than chance."),
    ProblemGroup("bootstrap", "Intervals of values and weights, by drawn rows."),
    later("similarity", "linspec.cli.tables", "Compare layers of networks in pairs."),
    *(solvers, describe, plugins, check, new),
):
    main.add_command(command)
