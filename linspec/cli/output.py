"""What commands write: lines and tables on standard output, and files that are written whole or not at all.

Problem: a name that cannot be written must be refused before hours of work, not after; a full disk or an interrupt must
not destroy an existing file; and a reader that has seen enough (``| head``) must not end a command that has files to
write yet.
Method: names are checked before the run, by an empty file in the same folder. A failure of standard output is kept and
reported at the end. No file that the same command reads is overwritten.
"""

from __future__ import annotations

import csv
import dataclasses
import glob
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import click

from linspec.errors import printable
from linspec.process.files import check_replaceable, replaced
from linspec.process.interrupts import Request, first_interrupt

INTERRUPTED = 130
"""Exit status of a command that Ctrl-C has ended: 128 + SIGINT."""

OUTPUT = "linspec.output"
"""The key of the failure of standard output in the context of click."""

SHOWN, LONGEST = 10, 4000
"""Largest number of rows of an answer that a table shows, and of characters of a line; files have all."""

Values = Mapping[str, Any]
"""What belongs to names: rows of a table, arguments, matrices."""

NOTHING = "–"
"""The text in place of a missing figure."""


class Failure(click.ClickException):
    """An error of the request or of the data; its message is the one line that is shown."""

    exit_code = 2


def refuse(wrong: Any, text: str) -> None:
    """Raise a failure with this text if something is wrong."""
    if wrong:
        raise Failure(text)


def missing_package(what: str, extra: str) -> Failure:
    """Return the failure for a package that an extra of the distribution provides."""
    return Failure(f"{what}, which is not installed. Install it with: pip install 'linspec[{extra}]'")


# ---- lines and tables ---------------------------------------------------------------------------


def echo(text: str = "", *, err: bool = False) -> None:
    """Print lines, with control characters of each spelled out; once standard output has failed, print nothing."""
    meta = click.get_current_context().meta
    lines = text.replace("Pass start=", "Pass --start ").split("\n")
    try:
        if err or OUTPUT not in meta:
            click.echo("\n".join(map(printable, lines)), err=err)
    except OSError as error:
        meta[OUTPUT] = error


def in_one_line(text: str) -> str:
    """Return a text on one line, without its middle if it is long."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= LONGEST else f"{line[: 3 * LONGEST // 4]}...{line[-LONGEST // 4 :]}"


def show_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print labels and texts; those without a text are left out."""
    facts = [(label, text) for label, text in facts if text]
    width = max((len(label) for label, _ in facts), default=0)
    for label, text in facts:
        echo(f"{label.ljust(width)}  {in_one_line(text)}")


def show_table(rows: Sequence[Values], most: int | None = None) -> None:
    """Print rows with the same keys below an empty line, numbers flush right; at most so many rows."""
    head = list(rows[0]) if rows else []
    cells = [[printable(_cell(row[name])) for name in head] for row in rows[:most]]
    texts = [isinstance(rows[0][name], str) for name in head]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    echo()
    for line in (head, ["-" * width for width in widths], *cells) if rows else ():
        aligned = zip(line, widths, texts, strict=True)
        echo("  ".join(cell.ljust(n) if text else cell.rjust(n) for cell, n, text in aligned).rstrip())
    if len(cells) < len(rows):
        echo(f"… ({len(rows)} in all)")


def _cell(value: Any) -> str:
    """Return a value of a table as text, floats in five digits."""
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return NOTHING if text in ("None", "nan") else text


# ---- files --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Target:
    """A file to write: the option that names it, its name, and its path without symbolic links."""

    option: str
    name: str
    path: Path


def check_target(
    option: str, name: str | None, suffixes: Sequence[str], inputs: Iterable[str] = ()
) -> Target | None:
    """Return the file to write, after a check that it can be written, and is none that is read."""
    if name is None:
        return None
    suffix = os.path.splitext(name)[1].lower()  # noqa: PTH122  # of a folder it is empty
    refuse(suffix not in suffixes, f"{option} must end in {' or '.join(suffixes)}; got {name!r}.")
    try:
        path = Path(os.path.realpath(name))
        check_replaceable(path)
        TemporaryFile(dir=path.parent).close()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no file can have this name"
        raise Failure(
            f"{option}: {name!r} cannot be written: {why}. Name a file in a folder of yours."
        ) from error
    fronts = (
        text[:end] for text in inputs for end in range(1, len(text) + 1) if text[end : end + 1] in ("", ":")
    )
    patterns = {front: glob.glob(front, recursive=True) for front in fronts}  # noqa: PTH207  # as inputs are found
    for source in {*patterns, *chain(*patterns.values())}:
        with suppress(OSError, ValueError):
            refuse(path.samefile(source), f"{option}: {name!r} is read by this command. Name another file.")
    return Target(option, name, path)


def write_all(*files: tuple[Target | None, Callable[[IO[bytes], str], None]]) -> None:
    """Write files by functions of a stream and a suffix."""
    for target, write in files:
        if target is None:
            continue
        try:
            with replaced(target.path) as stream:
                write(stream, Path(target.name).suffix.lower())
        except (OSError, MemoryError) as error:
            why = getattr(error, "strerror", None) or str(error) or "out of memory"
            raise Failure(
                f"{target.option}: {target.name!r} could not be written: {why}. What stood there is as it was."
            ) from error
        echo(f"written: {target.name}")


def write_rows(content: Values, rows: Sequence[Values], stream: IO[bytes], suffix: str) -> None:
    """Write rows with the same keys as delimited text; or as JSON together with further content."""
    if suffix == ".json":
        stream.write(as_json({**content, "rows": rows}, indent=1).encode() + b"\n")
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    stream.write(text.getvalue().encode())


def write_solution(solution: Any, about: Values, stream: IO[bytes], suffix: str) -> None:
    """Write a solution and the request: as `Solution.save` does, or as JSON for other languages."""
    import numpy as np

    from linspec.solving.solution import write_solution as write

    if suffix == ".npz":
        write(stream, solution, {"about": np.asarray(as_json(about))})
        return
    fields = {field.name: getattr(solution, field.name) for field in dataclasses.fields(solution)}
    fields |= {"problem": None, "options": None, "about": about}
    values = {name: value for name, value in fields.items() if value is not None}
    stream.write(as_json(values, indent=1).encode() + b"\n")


def as_json(content: Values, indent: int | None = None) -> str:
    """Return a mapping as JSON; a number that JSON does not have becomes null."""
    exact = json.dumps(content, default=_plain)
    return json.dumps(json.loads(exact, parse_constant=lambda _: None), indent=indent)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    if names := getattr(getattr(value, "dtype", None), "names", None):
        return {name: value[name] for name in names}
    return value.tolist() if hasattr(value, "tolist") else repr(value)


def draw(panels: Callable[[], Sequence[Callable[..., Any]]], stream: IO[bytes], suffix: str) -> None:
    """Draw panels side by side, each by a function that takes the axes as `ax`, and returns them."""
    first, *rest = panels()
    axes = first()
    grid = axes.figure.add_gridspec(1, 1 + len(rest))
    axes.set_subplotspec(grid[0])
    for number, panel in enumerate(rest, 1):
        panel(ax=axes.figure.add_subplot(grid[number]))
    axes.figure.set_size_inches(5 * (1 + len(rest)), 4)
    axes.figure.savefig(stream, format=suffix.removeprefix("."))


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def check_plot(name: str | None, inputs: Iterable[str] = ()) -> Target | None:
    """Return the picture to draw, after a check that matplotlib is installed."""
    if name is not None and not can_draw():
        raise missing_package("--plot needs matplotlib", "cli")
    return check_target("--plot", name, (".png", ".pdf", ".svg"), inputs)


@contextmanager
def finishing(result: Any) -> Iterator[None]:
    """Show and write a result: the first Ctrl-C waits, and then the exit status is that of an interrupt."""
    request = Request()
    with first_interrupt(request.make):
        yield
    status = getattr(getattr(result, "status", None), "name", "")
    if request.made or status == "INTERRUPTED" or getattr(result, "interrupted", False):
        click.get_current_context().exit(INTERRUPTED)
