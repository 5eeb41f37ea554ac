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
import io
import json
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import IO, Any

import click

from linspec.errors import printable
from linspec.process.interrupts import Request, first_interrupt
from linspec.process.whole_files import check_replaceable, replaced

INTERRUPTED = 130
"""Exit status of a command that Ctrl-C has ended: 128 + SIGINT."""

OUTPUT = "linspec.output"
"""The key of the failure of standard output in the context of click."""

SHOWN = 10
"""Largest number of rows of an answer that a table shows; files have all."""

LONGEST = 200

PICTURES, SOLUTIONS, TABLES = (".png", ".pdf", ".svg"), (".npz", ".json"), (".csv", ".json")
"""Suffixes of the files that commands write."""

NOTHING = "–"
"""The text in place of a missing figure."""


class Failure(click.ClickException):
    """An error of the request or of the data; its message is the one line that is shown."""

    exit_code = 2


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


def in_one_line(text: str, longest: int = 20 * LONGEST) -> str:
    """Return a text on one line, without its middle if it is longer than the limit."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= longest else f"{line[: 3 * longest // 4]}...{line[-longest // 4 :]}"


def show_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print labels and texts; those without a text are left out."""
    facts = [(label, text) for label, text in facts if text]
    width = max((len(label) for label, _ in facts), default=0)
    for label, text in facts:
        echo(f"{label.ljust(width)}  {in_one_line(text)}")


def show_table(rows: Sequence[Mapping[str, Any]], most: int | None = None) -> None:
    """Print rows with the same keys as a table below an empty line, numbers flush right; at most so many rows."""
    if not rows:
        return
    head, some = list(rows[0]), rows[:most]
    cells = [[printable(figure(row[name])) for name in head] for row in some]
    numbers = [not any(isinstance(row[name], str) for row in some) for name in head]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    for line in (head, ["-" * width for width in widths], *cells):
        aligned = zip(line, widths, numbers, strict=True)
        texts = (text.rjust(width) if right else text.ljust(width) for text, width, right in aligned)
        echo("  ".join(texts).rstrip())
    if len(some) < len(rows):
        echo(f"… ({len(rows)} in all)")


def figure(value: Any) -> str:
    """Return a value of a table as text."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NOTHING
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# ---- files --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Target:
    """A file to write: the option that names it, its name, and its path without symbolic links."""

    option: str
    name: str
    path: Path

    @property
    def suffix(self) -> str:
        """The suffix, in lower case, which stands for the format."""
        return Path(self.name).suffix.lower()


def check_target(
    option: str, name: str | None, suffixes: Sequence[str], inputs: Iterable[str] = (), other: Any = None
) -> Target | None:
    """Return the file to write, after a check that it can be written, and is neither read nor written twice."""
    if name is None:
        return None
    if Path(name).suffix.lower() not in suffixes:
        raise Failure(f"{option} must end in {' or '.join(suffixes)}; got {name!r}.")
    try:
        target = Target(option, name, Path(os.path.realpath(name)))
        _check_writable(target)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no file can have this name"
        raise Failure(
            f"{option}: {name!r} cannot be written: {why}. Name a file in a folder of yours."
        ) from error
    for text in inputs:
        parts = text.split(":")
        for front in (":".join(parts[:i]) for i in range(1, len(parts) + 1)):
            with suppress(OSError, ValueError):
                if front and target.path.samefile(front):
                    raise Failure(f"{option}: {name!r} is read by this command. Name another file.")
    if other is not None and other.path == target.path:
        raise Failure(f"{option} and {other.option} name the same file; got {name!r}. Name two files.")
    return target


def _check_writable(target: Target) -> None:
    """Raise an error if the file cannot be written."""
    check_replaceable(target.path)
    folder = target.path.parent
    if target.name.endswith(os.sep):
        raise IsADirectoryError(0, "it is the name of a folder")
    if not folder.is_dir():
        raise FileNotFoundError(0, f"there is no folder {str(folder)!r}")
    trial = folder / f".linspec-{secrets.token_hex(4)}.part"
    trial.open("xb").close()
    trial.unlink()
    check_room(target, 1)


def check_room(target: Target | None, count: float) -> None:
    """Refuse a file whose disk has fewer than `count` bytes free, if the system reports them."""
    if target is None:
        return
    disk = shutil.disk_usage(target.path.parent)
    if disk.total and disk.free < count:
        raise Failure(
            f"{target.option}: the disk of {target.name!r} has {disk.free} bytes free, and at least {count:.0f} "
            "are to be written. Make room, or name a file on another disk."
        )


def write_all(files: Iterable[tuple[Target | None, Callable[[IO[bytes], str], None]]]) -> None:
    """Write files by functions of a stream and a suffix; a failure does not stop the other files."""
    failures = []
    for target, write in files:
        if target is None:
            continue
        try:
            with replaced(target.path) as stream:
                write(stream, target.suffix)
            echo(f"written: {target.name}")
        except (OSError, MemoryError) as error:
            why = getattr(error, "strerror", None) or str(error) or "out of memory"
            failures.append(
                f"{target.option}: {target.name!r} could not be written: {why}. What stood there before, if "
                "anything, is as it was."
            )
    if failures:
        raise Failure(" ".join(failures))


def write_rows(
    content: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], stream: IO[bytes], suffix: str
) -> None:
    """Write rows with the same keys as delimited text; or as JSON together with further content."""
    if suffix == ".json":
        text = json.dumps(plain({**content, "rows": rows}), indent=1, allow_nan=False) + "\n"
    else:
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        text = buffer.getvalue()
    stream.write(text.encode())


def write_solution(solution: Any, about: Mapping[str, Any], stream: IO[bytes], suffix: str) -> None:
    """Write a solution and the request: as `Solution.save` does, or as JSON for other languages."""
    if suffix == ".json":
        fields = {each.name: getattr(solution, each.name) for each in dataclasses.fields(solution)}
        fields = {
            name: value
            for name, value in fields.items()
            if value is not None and name not in ("problem", "options")  # which the request has
        }
        text = json.dumps({**plain(fields), "about": plain(about)}, indent=1, allow_nan=False)
        stream.write(text.encode() + b"\n")
        return
    import numpy as np

    from linspec.solving import archive
    from linspec.solving.solution import packed

    archive.write(stream, *packed(solution, {"about": np.asarray(json.dumps(plain(about)))}))


def plain(value: Any) -> Any:
    """Convert a value to lists, dicts, numbers and texts; a number that JSON does not have becomes None."""
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, Enum):
        return value.name
    if hasattr(value, "dtype"):
        names = value.dtype.names
        return plain({name: value[name] for name in names} if names else value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


# ---- pictures -----------------------------------------------------------------------------------


def check_plot(name: str | None, inputs: Iterable[str], other: Target | None = None) -> Target | None:
    """Return the picture to draw, after a check that matplotlib is installed."""
    target = check_target("--plot", name, PICTURES, inputs, other)
    if target is not None and not can_draw():
        raise missing_package("--plot needs matplotlib", "cli")
    return target


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def draw(panels: Sequence[Callable[[Any], Any]], stream: IO[bytes], suffix: str) -> None:
    """Draw panels side by side, each by a function of the axes, which makes a figure of None."""
    first = panels[0](None)
    canvas = first.figure
    grid = canvas.add_gridspec(1, len(panels))
    first.set_subplotspec(grid[0])
    for number, panel in enumerate(panels[1:], 1):
        panel(canvas.add_subplot(grid[number]))
    canvas.set_size_inches(5 * len(panels), 4)
    picture = io.BytesIO()
    canvas.savefig(picture, format=suffix.removeprefix("."))
    stream.write(picture.getvalue())  # here a full disk raises an error of the system


@contextmanager
def finishing(result: Any) -> Iterator[None]:
    """Show and write a result whatever happens: the first Ctrl-C waits; then leave with the status of an interrupt."""
    request = Request()
    with first_interrupt(request.make):
        yield
    ended = getattr(result, "interrupted", False) or getattr(
        getattr(result, "status", None), "name", ""
    ) == "INTERRUPTED"
    if request.made or ended:
        click.get_current_context().exit(INTERRUPTED)
