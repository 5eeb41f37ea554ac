"""The program: its commands, and every failure as one line with an exit status for scripts.

Problem: a traceback does not help a user of a command; a script wants to know whether the request was wrong.
Method: every error that linspec raises on purpose, and every error of the operating system, becomes one line on standard
error and exit status 2, as do click's own errors. ``--debug``, which every command takes, adds the traceback. An
interrupt ends with status 130, even if there is an answer. If the reader of the output has left, the status is 141.
Warnings are one line each, too.
Source: click's exceptions; the exit statuses are those of POSIX shells.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

import linspec
from linspec import registry
from linspec.cli.demo import demo
from linspec.cli.new import new
from linspec.cli.output import INTERRUPTED, OUTPUT, Failure, echo, in_one_line, missing_package, show_facts, show_table
from linspec.cli.problems import Command, check_no_method
from linspec.cli.solving import compare, solve
from linspec.cli.studies import bootstrap, cross_validate, permute
from linspec.cli.transform import transform
from linspec.errors import AccuracyWarning, ConvergenceWarning, LinspecError, NonFiniteData, PluginWarning
from linspec.process.plurals import count_of

UNREAD = 141
"""Exit status if standard output is a pipe whose reading end is closed, as after ``| head``: 128 + SIGPIPE."""

PACKAGES = (
    *("numpy", "scipy", "array-api-compat", "pluggy", "threadpoolctl", "click", "rich", "matplotlib"),
    *("scikit-learn", "narwhals", "pandas", "polars", "pyarrow", "torch", "cupy", "cupy-cuda12x", "cupy-cuda13x"),
)


class Defect(click.ClickException):
    """An error of the program itself."""

    exit_code = 70  # EX_SOFTWARE of sysexits.h


class Program(click.Group):
    """The command `linspec`: commands in the order of their definition, and every error as one line."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, in order of definition."""
        return list(self.commands)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Find a command; the name of a method that has none is refused with the command to use."""
        check_no_method(name)
        return super().get_command(ctx, name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; turn errors into a Failure, and each warning into one line."""
        try:
            with _warnings_in_one_line():
                result = super().invoke(ctx)
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
        return result

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the program as click does, but show errors as one line."""
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **extra)
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        try:
            code = super().main(*args, standalone_mode=False, **extra)
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            help_ = f" See: {context.command_path} --help" if context is not None else ""
            click.echo(f"Error: {in_one_line(error.format_message())}{help_}", err=True)
            code = error.exit_code
        except (click.Abort, KeyboardInterrupt) as error:
            click.echo(in_one_line(f"Interrupted. {error.__cause__ or ''}"), err=True)
            code = INTERRUPTED
        sys.exit(code if isinstance(code, int) else 0)


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


def _as_failure(error: Exception) -> click.ClickException:
    """Return the failure that tells of an error, with the notes of it."""
    notes = " ".join(["", *getattr(error, "__notes__", ())])
    if isinstance(error, LinspecError):
        infinite = re.search(r"got -?inf\b", str(error))
        unsaid = isinstance(error, NonFiniteData) and not infinite and "--drop-missing" not in str(error)
        remedy = " --drop-missing leaves rows with missing values out." * unsaid
        return Failure(f"{error}{remedy}{notes}")
    if isinstance(error, MemoryError):
        return Failure(f"out of memory. {error} Use a .npy file, which is read in blocks, or sparse data.")
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return Failure(f"{where}{error.strerror or error}.{notes}")
    return Defect(
        f"unexpected {type(error).__name__}: {error}. This is a defect of linspec or of a plugin; run again with "
        f"--debug and report the traceback.{notes}"
    )


def _show_versions(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the versions of linspec, of Python, of packages and of the BLAS, one on each line, and exit."""
    if not asked or ctx.resilient_parsing:
        return
    rows = [("linspec", linspec.__version__)]
    rows += [("Python", f"{platform.python_version()} ({platform.system()} {platform.machine()})")]
    for name in PACKAGES:
        try:
            rows.append((name, version(name)))
        except PackageNotFoundError:
            rows += [(name, "missing")] * (name in PACKAGES[:6])
    try:
        import scipy.linalg  # noqa: F401  # it loads its BLAS
        import threadpoolctl
    except ImportError as error:  # users report versions mostly when an installation is broken
        rows.append(("BLAS", f"unknown: {error}"))
    else:
        pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
        rows += [("BLAS", f"{pool['internal_api']} {pool['version']}") for pool in pools]
    show_facts(dict.fromkeys(rows))
    ctx.exit()


@click.group(
    cls=Program,
    invoke_without_command=True,
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
@click.pass_context
def main(ctx: click.Context) -> None:
    """Linear structure in large data: least squares, SVD, canonical correlations and discriminants.

    Begin with `linspec demo`.
    """
    if ctx.invoked_subcommand is None:
        echo(ctx.get_help())


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
    echo(f"\n{count_of(len(rows), 'solver')}. `linspec describe NAME` shows the options and the source of one.")


@click.command(cls=Command, short_help="Describe a solver, its source, needs and options; or a problem.")
@click.argument("name")
def describe(name: str) -> None:
    """Describe a solver, normalizer, test matrix, adapter or problem.

    Every description has a summary, and names the plugin that provides the record. For solvers, normalizers and test
    matrices the source and the options follow; for solvers also the problem, and the access to the data that the solver
    needs; for problems the constructor and the solvers.

    NAME is a bare name, or cca/gram, normalizer/qr, DISTRIBUTION:NAME. If several records have the bare name, their
    full names are listed.
    """
    echo(str(registry.describe(name)))


@click.command(cls=Command)
def plugins() -> None:
    """List the plugins found, loaded or not, and what they provide."""
    names = ("name", "distribution", "version", "status", "provides")
    rows = [{name: getattr(plugin, name) for name in names} for plugin in registry.plugins()]
    show_table([{**row, "provides": ", ".join(row["provides"])} for row in rows])
    show_facts([(plugin.identity, f"error: {plugin.error}") for plugin in registry.plugins() if plugin.error])


@click.command(
    cls=Command, short_help="Hold a solver, or whatever else a plugin provides, to the conformance tests."
)
@click.argument("name")
@click.option("--backend", "backends", multiple=True, metavar="NAME", help="A kind of data to test on, or all.")
@click.option("--time-limit", type=float, metavar="SECONDS", help="CPU time that each test may take.")
@click.option("--expected", multiple=True, metavar="NAME=REASON", help="A check that may fail, and why.")
def check(name: str, backends: tuple[str, ...], time_limit: float | None, expected: tuple[str, ...]) -> None:
    """Hold one solver, normalizer, test matrix, adapter or problem to the conformance tests.

    NAME is a bare name where it means one thing, else cca/gram, normalizer/qr, test-matrix/srht, operator/dask,
    problem/pls. The exit status is 1 when it fails one of the tests.
    """
    try:
        from linspec import testing
    except ImportError as error:
        raise missing_package(f"check needs {error.name}", "testing") from error
    settings: dict[str, Any] = {"backends": backends or None, "time_limit": time_limit}
    if expected:
        settings["expected_failures"] = dict(text.partition("=")[::2] for text in expected)
    report = testing.run_checks(name, **{key: value for key, value in settings.items() if value is not None})
    echo(str(report))
    if not report.ok:
        click.get_current_context().exit(1)


for command in (
    *(demo, solve, transform, compare, cross_validate, permute, bootstrap),
    *(solvers, describe, plugins, check, new),
):
    main.add_command(command)
