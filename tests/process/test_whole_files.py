"""Files take the place of files alone, and nothing is left beside them, however a writer ends."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import linspec as ls
from linspec.cli import main
from linspec.errors import InvalidOption
from linspec.process import whole_files

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


@POSIX
def test_a_checkpoint_takes_the_place_of_files_alone(no_place: Path) -> None:
    with pytest.raises(
        InvalidOption, match=r"may be written; got .*(it is no regular file|Permission denied)"
    ):
        ls.Checkpoint(no_place)


@POSIX
def test_the_command_takes_the_place_of_files_alone(no_place: Path, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("data")
    np.save(folder / "a.npy", np.eye(3))
    (folder / "out.npz").symlink_to(no_place)
    found = CliRunner().invoke(
        main, ["solve", "svd", str(folder / "a.npy"), "-k", "1", "--out", str(folder / "out.npz")]
    )
    assert found.exit_code == 2
    assert "cannot be written: " in found.output


@POSIX
def test_a_checkpoint_that_cannot_be_written_any_more_costs_a_warning(tmp_path: Path) -> None:
    path, A = tmp_path / "run.ckpt", np.random.default_rng(0).standard_normal((200, 30))
    where = ls.Checkpoint(path, seconds=0)
    os.mkfifo(path)
    with pytest.warns(UserWarning, match="cannot be written: it is no regular file"):
        assert ls.solve(ls.SVD(A, k=3), "block-krylov", checkpoint=where, rng=0).converged
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("path", [3, None, "", b"a", "a\0b", "x" * 11_000, "\ud800"])
def test_what_is_no_name_of_a_file_is_refused(path: Any) -> None:
    for call in (ANSWER.save, ls.load_solution, ls.Checkpoint):
        with pytest.raises(InvalidOption, match="must be that of a file") as told:
            call(path)
        assert len(str(told.value)) < 300


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such folder: .*nowhere'"):
        ANSWER.save(tmp_path / "nowhere" / "a.npz")
    with pytest.raises(OSError, match="it is a folder"):
        ANSWER.save(tmp_path)


@pytest.fixture(params=["nameless", "named"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With drafts that have no name, and as on systems where each has one."""
    if request.param == "named":
        monkeypatch.setattr(whole_files, "_nameless", lambda _: None)
    return str(request.param)


@pytest.mark.usefixtures("kind")
def test_permissions_and_links_stay_and_errors_leave_nothing(tmp_path: Path) -> None:
    path, link = tmp_path / "a.npz", tmp_path / "link"
    path.write_bytes(b"before")
    path.chmod(0o640)
    link.symlink_to(path)
    with pytest.raises(TypeError), whole_files.replaced(link) as stream:
        stream.write("a text, where bytes are written")  # type: ignore[arg-type]  # on purpose
    assert path.read_bytes() == b"before"
    with whole_files.replaced(link) as stream:
        stream.write(b"after")
    assert path.read_bytes() == b"after"
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == [path, link]


@POSIX
@pytest.mark.usefixtures("kind")
def test_drafts_of_the_dead_are_removed_and_those_of_the_living_stay(tmp_path: Path) -> None:
    left = [tmp_path / f".linspec-{i:08x}.part" for i in range(5)]
    for draft in left:
        draft.write_bytes(b"left behind")
    others = [tmp_path / ".linspec-notes.part", tmp_path / "linspec-00000000.part"]
    for other in others:
        other.write_bytes(b"of somebody else")
    os.mkfifo(tmp_path / ".linspec-0000000f.part")
    with whole_files._locked(tmp_path / ".linspec-0000000a.part") as living:
        living.write(b"on its way")
        ANSWER.save(tmp_path / "a.npz")
        assert (tmp_path / ".linspec-0000000a.part").exists()
        assert not any(draft.exists() for draft in left)
        assert all(other.read_bytes() == b"of somebody else" for other in others)
        assert (tmp_path / ".linspec-0000000f.part").exists()
    ANSWER.save(tmp_path / "a.npz")
    assert not (tmp_path / ".linspec-0000000a.part").exists()


WRITER = """
    import sys, threading
    from pathlib import Path
    from linspec.process import whole_files
    if sys.argv[2] == "named":
        whole_files._nameless = lambda folder: None

    def write():
        with whole_files.replaced(Path(sys.argv[1])) as stream:
            stream.write(b"half of it")
            stream.flush()
            print("begun", flush=True)
            threading.Event().wait()

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
"""


@POSIX
@pytest.mark.parametrize("drafts", ["nameless", "named"])
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_writer_that_is_killed_leaves_nothing_for_long(name: str, drafts: str, tmp_path: Path) -> None:
    """In a thread, whose signals nobody can handle: nothing at all, or until the next one writes there."""
    path = tmp_path / "a.npz"
    path.write_bytes(b"before")
    if drafts == "nameless" and whole_files._nameless(tmp_path) is None:
        pytest.skip("the file system has no files without a name")
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(path), drafts]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(getattr(signal, name))
    assert path.read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == (1 if drafts == "nameless" else 2)
    ANSWER.save(tmp_path / "b.npz")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.npz", "b.npz"]
