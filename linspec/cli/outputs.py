"""Files that a command writes: refused before the run, and written whole or not at all.

Problem: a name that cannot be written must be refused before hours of work, not after; and a full disk, a vanished
folder or an interrupt must not destroy an existing file.
Method: before the run, the name is checked, an empty file is made in the folder, and the free space of its disk is
checked. A symbolic link is followed: its target is written, whole or not at all (`linspec.process.whole_files`). No
file that the same command reads is overwritten.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import click

from linspec.cli.failures import Failure, printable
from linspec.cli.interrupts import held
from linspec.process.whole_files import check_replaceable, replaced

__all__ = ["Target", "Writer", "check_room", "check_target", "write_all"]

Writer = Callable[[IO[bytes], str], None]
"""Function that writes to a stream, in the format of a suffix."""


@dataclass(frozen=True)
class Target:
    """A file to write.

    Attributes
    ----------
    option : str
        The option that names it, such as ``"--out"``.
    name : str
        The name as the user typed it.
    path : Path
        The absolute path, without symbolic links.
    """

    option: str
    name: str
    path: Path

    @property
    def suffix(self) -> str:
        """The suffix of the name, in lower case, which stands for the format."""
        return Path(self.name).suffix.lower()

    def __str__(self) -> str:
        return self.name if self.name.isprintable() else repr(self.name)


def check_target(
    option: str,
    name: str | None,
    suffixes: tuple[str, ...],
    *,
    inputs: Iterable[str] = (),
    others: Iterable[Target | None] = (),
) -> Target | None:
    """Return the file to write, after a check that it can be written and that its format is known.

    None if `name` is None.

    Parameters
    ----------
    option : str
        The option with which the user names the file, such as ``"--out"``.
    name : str or None
        The name as the user typed it.
    suffixes : tuple of str
        The suffixes of the known formats.
    inputs : iterable of str, default ()
        The files that are read, as arguments of `linspec.cli.data.read_named`.
    others : iterable of Target or None, default ()
        Other files that are written.
    """
    if name is None:
        return None
    if Path(name).suffix.lower() not in suffixes:
        raise Failure(f"{option} must end in {' or '.join(suffixes)}; got {name!r}.")
    try:
        target = Target(option, name, Path(os.path.realpath(name)))
        _check_file(target)
    except OSError as error:  # also of a relative name where the working folder is gone
        raise _unwritable(option, name, error.strerror or str(error)) from error
    except ValueError as error:  # NUL, or characters that the file system's encoding lacks
        raise Failure(f"{option}: {name!r} is no name that a file can have. Name another.") from error
    for text in inputs:
        if _is_read(text, target):
            raise Failure(f"{option}: {name!r} is read by this command. Name another file.")
    for other in others:
        if other is not None and other.path == target.path:
            raise Failure(f"{option} and {other.option} name the same file; got {name!r}. Name two files.")
    check_room(target, 1)
    return target


def check_room(target: Target, count: float) -> None:
    """Refuse a target whose disk has fewer than `count` bytes free, if the system reports them."""
    try:
        disk = shutil.disk_usage(target.path.parent)
    except (AttributeError, OSError):  # the system does not report it
        return
    if disk.total and disk.free < count:
        raise Failure(
            f"{target.option}: the disk of {target.name!r} has {disk.free} bytes free, and at least {count:.0f} "
            "are to be written. Make room, or name a file on another disk."
        )


def write_all(files: Iterable[tuple[Target | None, Writer]]) -> None:
    """Write files and print the name of each; a failure does not stop the other files.

    Parameters
    ----------
    files : iterable of (Target or None, Writer)

    Raises
    ------
    Failure
        At the end, if a file could not be written: which, and why.
    """
    failures = []
    for target, write in files:
        if target is None:
            continue
        try:
            with replaced(target.path) as stream:
                write(stream, target.suffix)
        except OSError as error:
            failures.append(_unwritten(target, error.strerror or str(error)))
        except MemoryError as error:
            failures.append(_unwritten(target, str(error) or "out of memory"))
        else:
            click.echo(f"written: {printable(str(target))}")
    if failures:
        raise Failure(" ".join(failures))


def _check_file(target: Target) -> None:
    """Raise an error if the file cannot be written.

    This is so if its name or path is that of a folder; if the path leads to something that is not a regular file, or
    to a file that is write-protected; if its folder does not exist; or if no new file can be made in its folder.
    """
    path, folder = target.path, target.path.parent
    if target.name.endswith(tuple(filter(None, (os.sep, os.altsep)))):
        raise _unwritable(target.option, target.name, "it is the name of a folder")
    check_replaceable(path)
    if not folder.is_dir():
        raise Failure(f"{target.option}: there is no folder {str(folder)!r}. Make it first.")
    trial = folder / f".linspec-{secrets.token_hex(4)}.part"
    with held() as interrupts:
        try:
            trial.open("xb").close()
        finally:
            trial.unlink(missing_ok=True)
    if interrupts.came:
        raise KeyboardInterrupt


def _is_read(text: str, target: Target) -> bool:
    """Whether the argument `text` reads the target file, as a whole (``FILE``) or a part of it (``FILE:NAME``)."""
    parts = text.split(":")
    for path in {":".join(parts[:i]) for i in range(1, len(parts) + 1)} - {""}:
        with suppress(OSError, ValueError):
            if target.path.samefile(path):
                return True
    return False


def _unwritable(option: str, name: str, why: str) -> Failure:
    return Failure(f"{option}: {name!r} cannot be written: {why}. Name a file in a folder of yours.")


def _unwritten(target: Target, why: str) -> str:
    return (
        f"{target.option}: {target.name!r} could not be written: {why}. What stood there before, if anything, is "
        "as it was."
    )
