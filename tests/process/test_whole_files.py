"""Files take the place of files alone, and nothing is left beside them if a writer fails."""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidOption
from linspec.process import files

ANSWER = ls.solve(ls.SVD(np.diag([3.0, 2.0, 1.0]), k=2))

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="pipes, sockets and locks of POSIX")


def device(folder: Path) -> Path:
    path = folder / "device"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except (OSError, AttributeError):
        return Path(os.devnull)
    return path


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def bound(folder: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(folder / "socket"))
    return folder / "socket"


def read_only(folder: Path) -> Path:
    path = folder / "read-only"
    path.write_bytes(b"kept")
    path.chmod(0o444)
    return path


def linked(folder: Path) -> Path:
    (folder / "link").symlink_to(pipe(folder))
    return folder / "link"


@pytest.fixture(params=[device, pipe, bound, read_only, linked], ids=lambda make: make.__name__)
def no_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Something that no file is to take the place of."""
    path = request.param(tmp_path)
    before, names = path.stat(), sorted(tmp_path.iterdir())
    yield path
    after = path.stat()
    assert (before.st_ino, before.st_mode, before.st_size) == (after.st_ino, after.st_mode, after.st_size)
    assert sorted(tmp_path.iterdir()) == names


@POSIX
def test_an_answer_takes_the_place_of_files_alone(no_place: Path) -> None:
    with pytest.raises(OSError, match=r"it is no regular file|Permission denied"):
        ANSWER.save(no_place)
    with pytest.raises(InvalidOption, match=r"may be written; got .*(no regular file|Permission denied)"):
        ls.Checkpoint(no_place)


@pytest.mark.parametrize("path", [3, None, "", b"a", "a\0b", "x" * 11_000, "\ud800"])
def test_what_is_no_name_of_a_file_is_refused(path: Any) -> None:
    for call in (ANSWER.save, ls.load_solution, ls.Checkpoint):
        with pytest.raises(InvalidOption, match="must be that of a file") as told:
            call(path)
        assert len(str(told.value)) < 300


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: .*nowhere"):
        ANSWER.save(tmp_path / "nowhere" / "a.npz")
    with pytest.raises(OSError, match="no regular file that may be written"):
        ANSWER.save(tmp_path)


def test_permissions_and_links_stay_and_errors_leave_nothing(tmp_path: Path) -> None:
    path, link = tmp_path / "a.npz", tmp_path / "link"
    path.write_bytes(b"before")
    path.chmod(0o640)
    link.symlink_to(path)
    with pytest.raises(TypeError), files.replaced(link) as stream:
        stream.write("a text, where bytes are written")  # type: ignore[arg-type]  # on purpose
    assert path.read_bytes() == b"before"
    with files.replaced(link) as stream:
        stream.write(b"after")
    assert path.read_bytes() == b"after"
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == [path, link]
