"""The failures of the command line: one line that says what, got and remedy, and an exit status for scripts.

Problem: a traceback does not help a user of a command; a script wants to know whether the request was wrong.
Method: every error that linspec raises on purpose, and every error of the operating system, becomes one line
on standard error and exit status 2, as do click's own errors. ``--debug``, which every command takes, adds the
traceback. An interrupt ends with status 130, as in a shell, even if there is an answer. If the reader of the output has
left, the status is 141, without a message. If standard output fails in another way, the command goes on, as it may have
files to write, and reports the failure at the end. Warnings are one line each, too.
Source: click's exceptions; the exit statuses are those of POSIX shells.
Where we differ: click prints the usage before the error; one line is easier to read, and to log.
"""

from __future__ import annotations

import errno
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from linspec.cli.interrupts import INTERRUPTED, quitting
from linspec.cli.streams import lasting_output
from linspec.errors import AccuracyWarning, ConvergenceWarning, LinspecError, NonFiniteData, PluginWarning

__all__ = [
    "Command",
    "Failure",
    "Program",
    "check_no_method",
    "in_one_line",
    "install_hint",
    "printable",
    "shortened",
    "with_remedy",
]

UNREAD = 141
"""Exit status if standard output is a pipe whose reading end is closed, as after ``| head``: 128 + SIGPIPE."""

MOST = 4000
"""Largest number of characters of a message: it may quote an argument with thousands of names."""

_DEBUG = "linspec.cli.debug"


class Failure(click.ClickException):
    """An error of the request or of the data; its message is the one line that is shown."""

    exit_code = 2


class Defect(click.ClickException):
    """An error of the program itself."""

    exit_code = 70  # EX_SOFTWARE of sysexits.h


class Command(click.Command):
    """A command that takes ``--debug``."""

    def __init__(self, *args: Any, **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.params.append(
            click.Option(
                ["--debug"],
                is_flag=True,
                expose_value=False,
                callback=_remember,
                help="Show the traceback of an error.",
            )
        )


class Program(click.Group):
    """The command `linspec`: commands in the order of their definition, and every error as one line."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, in order of definition."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the arguments; the name of a method that has none is refused with the command to use."""
        if args and args[0] not in self.commands:
            check_no_method(args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; turn errors into a Failure, and each warning into one line."""
        try:
            with _warnings_in_one_line():
                return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            if ctx.meta.get(_DEBUG):
                for line in traceback.format_exc().splitlines():
                    click.echo(printable(line), err=True)
            raise _as_failure(error) from error

    def main(self, *args: Any, standalone_mode: bool = True, own_process: bool = False, **extra: Any) -> Any:
        """Run the program as click does, but show errors as one line.

        Parameters
        ----------
        own_process : bool, default False
            Whether nothing else runs in this process, before or after: then Ctrl-C may end it at once.
        """
        run: Any = super().main
        if not standalone_mode:
            return run(*args, standalone_mode=False, **extra)
        with quitting(own_process), lasting_output() as out:
            code = _code_of(lambda: run(*args, standalone_mode=False, **extra))
            sys.stdout.flush()
            failure = None if out is None else out.failure
            if failure is not None and failure.errno == errno.EPIPE:
                code = code or UNREAD
            elif failure is not None:
                click.echo(f"Error: standard output cannot be written: {failure.strerror}.", err=True)
                code = code or Failure.exit_code
        sys.exit(code)


def _code_of(run: Callable[[], Any]) -> int:
    """Run a program, show its error, and return its exit status."""
    try:
        outcome = run()
    except click.ClickException as error:
        said = shortened(in_one_line(error.format_message()), MOST)
        click.echo(f"Error: {said}{_where_to_read(error)}", err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        said = "" if isinstance(error, click.Abort) else str(error)
        click.echo(in_one_line(with_notes(f"Interrupted. {said}", error)), err=True)
        return INTERRUPTED
    return outcome if isinstance(outcome, int) else 0


def in_one_line(text: str) -> str:
    """Return the text on one line, with single blanks and with unprintable characters spelled out."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    r"""Return the text with control characters and other invisible ones spelled out, as in ``\x1b``.

    Names of files, and names inside them, may hold control sequences of terminals, and bytes that are not UTF-8.
    """
    return (
        text
        if text.isprintable()
        else "".join(mark if mark.isprintable() else _spelled(mark) for mark in text)
    )


def shortened(text: str, most: int = 200) -> str:
    """Return the text, or its beginning and its end if it is longer than the limit."""
    return text if len(text) <= most else f"{text[: 3 * most // 4]}...{text[-most // 4 :]}"


def _spelled(mark: str) -> str:
    # Python keeps a byte of a file name that is no UTF-8 as one of these 128 code points.
    byte = ord(mark) - 0xDC00
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else mark.encode("unicode_escape").decode("ascii")


def check_no_method(name: str) -> None:
    """Refuse "pca", which is no problem here but the svd of centred data, with the command that solves it."""
    if name.lower() == "pca":
        raise Failure(
            f"{name!r} is no problem here: principal components are those of `linspec solve svd FILE -k K --center`."
        )


def install_hint(what: str, extra: str) -> Failure:
    """Return the failure for a missing package that an extra of the distribution provides.

    Parameters
    ----------
    what : str
        The need in words: ``"--plot needs matplotlib"``.
    extra : str
        The extra that installs it.
    """
    return Failure(f"{what}, which is not installed. Install it with: pip install 'linspec[{extra}]'")


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
                click.echo(f"Warning: {in_one_line(text)}", err=True)


def with_remedy(error: LinspecError) -> str:
    """Return the message of an error; for missing values, add the option that leaves their rows out."""
    infinite = re.search(r"got -?inf\b", str(error))
    unsaid = isinstance(error, NonFiniteData) and not infinite and "--drop-missing" not in str(error)
    remedy = " --drop-missing leaves rows with missing values out." if unsaid else ""
    return f"{error}{remedy}"


def with_notes(message: str, error: BaseException) -> str:
    """Return a message with the notes of its error; where they name an argument of `solve`, with the option."""
    return " ".join([message, *getattr(error, "__notes__", ())]).replace("Pass start=", "Pass --start ")


def _as_failure(error: Exception) -> click.ClickException:
    if isinstance(error, LinspecError):
        return Failure(with_notes(with_remedy(error), error))
    if isinstance(error, MemoryError):
        said = f": {str(error).rstrip('.')}" if str(error) else ""
        return Failure(f"out of memory{said}. Use a .npy file, which is read in blocks, or sparse data.")
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return Failure(with_notes(f"{where}{error.strerror or error}.", error))
    said = (
        f"unexpected {type(error).__name__}: {error}. This is a defect of linspec or of a plugin; run again with "
        "--debug and report the traceback."
    )
    return Defect(with_notes(said, error))


def _where_to_read(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return f" See: {context.command_path} --help" if context is not None else ""


def _remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[_DEBUG] = True
