"""Files that a command or a method writes, standard output, and Ctrl-C at any moment of a command.

A file is written beside its place and then moved there: what stood there before, or the whole new file, is there.
"""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("click")

from cli.running import refusal, run
from hostile.outcomes import SECONDS, put

import linspec as ls
from linspec.errors import InvalidOption

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits, links and signals of POSIX")

HOSTILE = int(os.environ.get("LINSPEC_HOSTILE", "1"))
OLD = b"what stood there before"
ANSWER = ls.solve(ls.SVD(np.diag([3.0, 2.0, 1.0]), k=2))
VIEWS = ("cca", "X.npz", "Y.npy", "-k", "2", "--ridge", "1")
SOLVE = ("solve", *VIEWS, "--solver", "gram")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two views on disk, in the working directory, which are as they were at the end, and no draft beside them."""
    pytest.importorskip("matplotlib")
    X = np.random.default_rng(0).standard_normal((60, 6))
    np.savez(tmp_path / "X.npz", X)
    np.save(tmp_path / "Y.npy", X @ np.random.default_rng(1).standard_normal((6, 5)))
    monkeypatch.chdir(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    yield tmp_path
    assert all(path.read_bytes() == data for path, data in before.items()), "an input was written over"
    assert not list(tmp_path.rglob(".*")), "a draft was left behind"


# ---- names ------------------------------------------------------------------------------------


NO_PLACES = [
    "a folder",
    "a pipe",
    "a socket",
    "/dev/full",
    "a circle",
    "no/such/folder/r",
    "a file to be read only",
]


@pytest.mark.parametrize("kind", NO_PLACES)
def test_files_take_the_place_of_files_alone(kind: str, folder: Path) -> None:
    """Refused before the run by commands, and by the methods that write."""
    for option, name in (("--out", "r.npz"), ("--plot", "r.png")):
        path = folder / name
        if kind == "a file to be read only":
            path.write_bytes(OLD)
            path.chmod(0o444)
        else:
            put(kind, path)
        before = path.lstat()
        refusal((*SOLVE, option, path))
        with pytest.raises(OSError, match=r"regular file|denied|No such file|levels of symbolic links"):
            ANSWER.save(path)
        with pytest.raises(InvalidOption, match="may be written"):
            ls.Checkpoint(path)
        after = path.lstat()
        assert (before.st_ino, before.st_mode, before.st_size) == (after.st_ino, after.st_mode, after.st_size)


@pytest.mark.parametrize("path", [3, None, "", b"a", "a\0b", "x" * 11_000, "\ud800"])
def test_what_is_no_name_of_a_file_is_refused(path: Any) -> None:
    for call in (ANSWER.save, ls.load_solution, ls.Checkpoint):
        with pytest.raises(InvalidOption, match="must be that of a file") as told:
            call(path)
        assert len(str(told.value)) < 300


def test_a_folder_in_the_place_of_a_file_is_refused_before_the_demo(folder: Path) -> None:
    pytest.importorskip("sklearn")
    (folder / "right.npy").mkdir()
    assert "folder" in refusal("demo --quick --save")


def test_permissions_and_links_stay(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    for name in ("r.npz", "r.png"):
        (folder / "elsewhere" / name).write_bytes(OLD)
        (folder / "elsewhere" / name).chmod(0o604)
        (folder / name).symlink_to(f"elsewhere/{name}")
    umask = os.umask(0o027)
    try:
        run((*SOLVE, "--out", "r.npz", "--plot", "r.png"))
        run((*SOLVE, "--out", "new.json", "--plot", "new.svg"))
    finally:
        os.umask(umask)
    assert all((folder / name).is_symlink() for name in ("r.npz", "r.png"))
    for name in ("elsewhere/r.npz", "elsewhere/r.png", "new.json", "new.svg"):
        assert (folder / name).stat().st_size > 1000
        assert stat.S_IMODE((folder / name).stat().st_mode) == (0o604 if "/" in name else 0o640)


# ---- room -------------------------------------------------------------------------------------


@contextmanager
def files_of_at_most(count: int) -> Iterator[None]:
    """Act like a disk that is full after `count` bytes."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize(
    ("option", "name", "count"),
    [("--out", "r.npz", 0), ("--out", "r.npz", 700), ("--out", "r.json", 700), ("--plot", "p.png", 700),
     ("--plot", "p.pdf", 700), ("--plot", "p.svg", 700)],
)  # fmt: skip
@pytest.mark.slow(keep=3)
def test_a_full_disk_keeps_the_old_file_and_the_answer_is_shown(
    option: str, name: str, count: int, folder: Path
) -> None:
    (folder / name).write_bytes(OLD)
    with files_of_at_most(count):
        out, err = run((*SOLVE, option, name), 2)
    assert "correlations" in out
    assert err.count("Error: ") == 1
    assert name in err
    assert (folder / name).read_bytes() == OLD


def test_one_file_that_fails_does_not_take_the_other_with_it(folder: Path) -> None:
    (folder / "p.png").write_bytes(OLD)
    with files_of_at_most(15_000):  # enough for the solution
        run((*SOLVE, "--out", "r.npz", "--plot", "p.png"), 2)
    assert (folder / "p.png").read_bytes() == OLD
    assert ls.load_solution(folder / "r.npz").correlations.shape == (2,)


# ---- during the run ---------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("option", "name"), [("--out", "r.json"), ("--plot", "p.png")])
def test_an_interrupt_while_a_file_is_written(option, name, times, folder, monkeypatch, ctrl_c) -> None:
    """One is too late to matter; two end the command, and the file is what it was."""
    place: Any = json
    if option == "--plot":
        from matplotlib.figure import Figure as place  # noqa: N813
    attribute = "loads" if place is json else "savefig"
    usual = getattr(place, attribute)

    def interrupted(*args: Any, **options: Any) -> Any:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        return usual(*args, **options)

    monkeypatch.setattr(place, attribute, interrupted)
    (folder / name).write_bytes(OLD)
    assert "correlations" in run((*SOLVE, option, name), 130)[0]
    assert ((folder / name).read_bytes() == OLD) == (times == 2)


# ---- Ctrl-C at any moment -------------------------------------------------------------------


INTERRUPTED = {
    "solve": ("solve", *VIEWS, "--solver", "als", "-o", "form=implicit", "--tol", "1e-300", "--max-seconds", "0.5",
              "--out", "r.json", "--plot", "r.svg"),
    "compare": ("compare", *VIEWS, "--solvers", "gram,als", "--plot", "r.svg"),
    "demo": ("demo", "--quick", "--save", "--plot", "r.svg"),
}  # fmt: skip


@pytest.mark.parametrize("trial", range(HOSTILE))
@pytest.mark.parametrize("name", INTERRUPTED)
@pytest.mark.slow(keep=1)
def test_an_interrupt_at_any_moment(name: str, trial: int, folder: Path) -> None:
    """An answer with its status or one clear sentence, and whole files; from the first step of linspec on."""
    pytest.importorskip("sklearn")
    dice = random.Random(f"{name} {trial}")
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "linspec", *INTERRUPTED[name]],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # no threads here
    )  # fmt: skip
    imports = dice.randrange(200, 800)
    for line in process.stderr or ():  # a place in the start of linspec, however slow the machine is
        imports -= "import time:" in line
        if imports < 0:
            break
    time.sleep(dice.uniform(0.0, 0.7))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS)
    assert "Traceback" not in err
    assert process.returncode in {0, 130, -signal.SIGINT}, err  # which a shell shows as 130
    assert process.returncode == 0 or "Interrupted." in err or "status" in out or "correlations" in out
    for path in folder.glob("r.*"):
        assert path.read_text().rstrip().endswith({".json": "}", ".svg": "</svg>"}[path.suffix])
    for path in folder.glob("[lr]*t.npy"):
        np.load(path)
