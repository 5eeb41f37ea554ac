"""Files that a command writes, its standard output, its children, and Ctrl-C at any moment."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.testing
import pytest

pytest.importorskip("click")

from click.testing import CliRunner
from hostile.outcomes import SECONDS, Crash, Defect, Hang, Leak, Raw, Silent, command, holds

import linspec
from linspec.cli import main

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits, links and signals of POSIX")

HOSTILE = int(os.environ.get("LINSPEC_HOSTILE", "1"))
SLOW = pytest.mark.slow
OLD = b"what stood there before"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """Two views on disk, in the working directory."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    np.savez(tmp_path / "X.npz", X)
    np.save(tmp_path / "Y.npy", X @ rng.standard_normal((6, 5)) + rng.standard_normal((60, 5)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: object, code: int) -> SimpleNamespace:
    """A command in this process; how it ends is named as `hostile.outcomes.command` does."""
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    said = result.stderr.strip()
    if result.exit_code == 70:
        raise Defect(said)
    if "Traceback" in said:
        raise Raw(said.splitlines()[-1])
    if result.exit_code != code:
        raise (Silent if result.exit_code == 0 else Raw)(
            f"exit code {result.exit_code} instead of {code}: {said}"
        )
    return SimpleNamespace(out=result.stdout, err=result.stderr)


def refused_before_the_run(*args: object, words: str = "") -> None:
    """One line on standard error, and no answer: nothing was computed in vain."""
    done = run(*args, code=2)
    if done.out:
        raise Raw(f"only after the run: {done.err.strip()}")
    if done.err.count("\n") != 1 or not done.err.strip().isprintable() or words not in done.err:
        raise Raw(done.err)


def no_draft(folder: Path) -> None:
    """Nothing is left of what was not finished."""
    left = [path.name for path in folder.rglob("*") if path.name.startswith(".")]
    if left:
        raise Leak(f"left behind: {left}")


VIEWS = ("cca", "X.npz", "Y.npy", "-k", "2", "--ridge", "1")
SOLVE = ("solve", *VIEWS, "--solver", "gram")

# ---- names ------------------------------------------------------------------------------------


def a_folder(folder: Path, name: str) -> str:
    (folder / name).mkdir()
    return name


def a_fifo(folder: Path, name: str) -> str:
    os.mkfifo(folder / name)
    return name


def a_socket(folder: Path, name: str) -> str:
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind(name)
    return name


def a_device(folder: Path, name: str) -> str:
    (folder / name).symlink_to("/dev/full")
    return name


def links_in_a_circle(folder: Path, name: str) -> str:
    (folder / name).symlink_to(name)
    return name


def a_link_to_nowhere(folder: Path, name: str) -> str:
    (folder / name).symlink_to("no/such/folder/" + name)
    return name


def a_link_to_an_input(folder: Path, name: str) -> str:
    (folder / name).symlink_to("X.npz")
    return name


def another_name_of_an_input(folder: Path, name: str) -> str:
    (folder / name).hardlink_to("Y.npy")
    return name


def below_a_file(folder: Path, name: str) -> str:
    (folder / "file").write_bytes(OLD)
    return "file/" + name


def where_nothing_can_be_made(folder: Path, name: str) -> str:
    return "/proc/" + name


NAMES = {
    **{
        make.__name__: make
        for make in (
            a_folder, a_fifo, a_socket, a_device, links_in_a_circle, a_link_to_nowhere, a_link_to_an_input,
            another_name_of_an_input, below_a_file, where_nothing_can_be_made,
        )
    },
    "a trailing slash": lambda folder, name: name + "/",
    "an absent folder": lambda folder, name: "absent/" + name,
    "too long": lambda folder, name: "x" * 300 + name,
    "a path too long": lambda folder, name: "x/" * 3000 + name,
    "NUL": lambda folder, name: "r\0" + name,
    "empty": lambda folder, name: "",
    "no suffix": lambda folder, name: "result",
    "another suffix": lambda folder, name: name + ".bak",
}  # fmt: skip


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("option", ["--out", "--plot"])
def test_a_name_that_cannot_be_written_is_refused_before_the_run(option: str, kind: str, folder: Path):
    if option == "--plot":
        pytest.importorskip("matplotlib")
    name = NAMES[kind](folder, "r.npz" if option == "--out" else "r.png")
    before = {path: path.read_bytes() for path in (folder / "X.npz", folder / "Y.npy")}
    try:
        refused_before_the_run(*SOLVE, option, name)
    finally:
        holds(all(path.read_bytes() == data for path, data in before.items()), "an input was written over")
        no_draft(folder)


@pytest.mark.parametrize("option", ["--out", "--plot"])
def test_an_input_is_never_written_over(option: str, folder: Path):
    suffix = ".npz" if option == "--out" else ".png"
    data = (folder / "X.npz").read_bytes()
    if suffix != ".npz":
        pytest.importorskip("matplotlib")
        (folder / f"X{suffix}").symlink_to("X.npz")
    for given in ("X.npz", "X.npz:arr_0", folder / "X.npz"):
        with suppress(Silent):  # the next line checks the file
            refused_before_the_run("solve", "cca", given, "Y.npy", "-k", 2, option, f"./X{suffix}")
        holds((folder / "X.npz").read_bytes() == data, f"{given} was written over by {option}")


def test_a_file_that_may_not_be_written_is_refused(folder: Path):
    target = folder / "r.npz"
    target.write_bytes(OLD)
    target.chmod(0o444)
    if os.access(target, os.W_OK):
        pytest.skip("this user may write everything")
    refused_before_the_run(*SOLVE, "--out", "r.npz")
    holds(target.read_bytes() == OLD, "written over")


def test_compare_and_demo_look_before_they_run(folder: Path):
    pytest.importorskip("matplotlib")
    (folder / "p.png").symlink_to("X.npz")
    refused_before_the_run("compare", *VIEWS, "--solvers", "gram", "--plot", "p.png", words="read by")
    pytest.importorskip("sklearn")
    (folder / "right.npy").mkdir()
    refused_before_the_run("demo", "--quick", "--save", words="folder")


def test_a_link_is_written_through(folder: Path):
    (folder / "elsewhere").mkdir()
    for name in ("r.npz", "r.json"):
        (folder / name).symlink_to(f"elsewhere/{name}")
        run(*SOLVE, "--out", name, code=0)
        holds((folder / name).is_symlink(), "the link was replaced by a file")
        holds((folder / "elsewhere" / name).stat().st_size > 0, "what the link points to was not written")
    no_draft(folder)


def test_permissions_are_those_of_the_file_before_or_of_a_new_one(folder: Path):
    pytest.importorskip("matplotlib")
    for name in ("old.npz", "old.png"):
        (folder / name).write_bytes(OLD)
        (folder / name).chmod(0o640)
    umask = os.umask(0o027)
    try:
        run(*SOLVE, "--out", "old.npz", "--plot", "old.png", code=0)
        run(*SOLVE, "--out", "new.json", "--plot", "new.svg", code=0)
    finally:
        os.umask(umask)
    for path in (folder / name for name in ("old.npz", "old.png", "new.json", "new.svg")):
        holds(stat.S_IMODE(path.stat().st_mode) == 0o640, f"{path.name}: {path.stat().st_mode:o}")


# ---- room -------------------------------------------------------------------------------------

TARGETS = {"--out": ("r.npz", "r.json"), "--plot": ("p.png", "p.pdf", "p.svg")}
PAIRS = [(option, name) for option, names in TARGETS.items() for name in names]


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


def kept(path: Path) -> None:
    """The file from before is there, and nothing else."""
    holds(path.read_bytes() == OLD, f"{path.name} is not what it was: {path.stat().st_size} bytes")
    no_draft(path.parent)


@pytest.mark.parametrize(("option", "name", "count"), [(*pair, 700) for pair in PAIRS] + [(*PAIRS[0], 0)])
@pytest.mark.slow(keep=2)
def test_a_full_disk_keeps_the_old_file_and_the_answer_is_shown(
    option: str, name: str, count: int, folder: Path
):
    if option == "--plot":
        pytest.importorskip("matplotlib.figure")
    (folder / name).write_bytes(OLD)
    with files_of_at_most(count):
        done = run(*SOLVE, option, name, code=2)
    holds("correlations" in done.out, "the answer is lost")
    kept(folder / name)
    if done.err.count("Error: ") != 1 or name not in done.err:
        raise Raw(done.err)


def test_one_file_that_fails_does_not_take_the_other_with_it(folder: Path):
    pytest.importorskip("matplotlib.figure")
    (folder / "p.png").write_bytes(OLD)
    with files_of_at_most(15_000):  # enough for the solution
        run(*SOLVE, "--out", "r.npz", "--plot", "p.png", code=2)
    kept(folder / "p.png")
    with np.load(folder / "r.npz") as saved:
        holds(saved["correlations"].shape == (2,), "the solution is lost")


def test_a_comparison_and_the_demo_on_a_full_disk(folder: Path):
    pytest.importorskip("matplotlib.figure")
    pytest.importorskip("sklearn")
    for name in ("p.png", "left.npy", "right.npy"):
        (folder / name).write_bytes(OLD)
    with files_of_at_most(700):
        compared = run("compare", *VIEWS, "--solvers", "gram", "--plot", "p.png", code=2)
        shown = run("demo", "--quick", "--save", code=2)
    holds("gram" in compared.out and "PCC" in shown.out, "the answer is lost")
    for name in ("p.png", "left.npy", "right.npy"):
        kept(folder / name)


def test_a_file_system_that_is_full(folder: Path):
    place = folder / "small"
    place.mkdir()
    line = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)]
    try:
        if subprocess.run(line, capture_output=True, check=False).returncode:
            pytest.skip("no file system can be mounted here")
    except OSError:
        pytest.skip("no mount")
    try:
        (place / "r.npz").write_bytes(OLD)
        with suppress(OSError), (place / "ballast").open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(4096))
        for option, name in (("--out", "r.npz"), ("--plot", "p.png")):
            run(*SOLVE, option, f"small/{name}", code=2)
        kept(place / "r.npz")
        holds(not (place / "p.png").exists(), "half a picture")
    finally:
        subprocess.run(["umount", str(place)], check=True)


# ---- during the run ---------------------------------------------------------------------------


def meanwhile(monkeypatch, happening) -> None:
    """Let something happen while a solver runs."""
    solve = linspec.solve

    def solving(*args, **options):
        happening()
        return solve(*args, **options)

    monkeypatch.setattr("linspec.studies.comparison.solve", solving)


@pytest.mark.parametrize("becomes", ["nothing", "a file", "a folder in its place"])
@pytest.mark.parametrize(("option", "name"), PAIRS[::2][:2])
def test_a_folder_that_goes_away_during_the_run(
    option: str, name: str, becomes: str, folder: Path, monkeypatch
):
    if option == "--plot":
        pytest.importorskip("matplotlib.figure")
    place = folder / "place"
    place.mkdir()

    def vanish() -> None:
        place.rmdir()
        if becomes == "a file":
            place.write_bytes(OLD)
        elif becomes != "nothing":
            (place / name).mkdir(parents=True)

    meanwhile(monkeypatch, vanish)
    done = run(*SOLVE, option, place / name, code=2)
    holds("correlations" in done.out, "the answer is lost")
    no_draft(folder)


def interrupting(function, signum: int, times: int):
    """A function that signals come before."""

    def called(*args, **options):
        for _ in range(times):
            signal.raise_signal(signum)
        return function(*args, **options)

    return called


@pytest.fixture
def heeded():
    """Interrupts count, also where the tests run in the background of a script, which ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("option", "name"), [("--out", "r.json"), ("--plot", "p.png")])
def test_an_interrupt_while_a_file_is_written(option: str, name: str, times: int, folder: Path, monkeypatch):
    """One is too late to matter; two end the command, and the file is what it was."""
    place, attribute = json, "loads"
    if option == "--plot":
        place, attribute = pytest.importorskip("matplotlib.figure").Figure, "savefig"
    monkeypatch.setattr(place, attribute, interrupting(getattr(place, attribute), signal.SIGINT, times))
    (folder / name).write_bytes(OLD)
    done = run(*SOLVE, option, name, code=130)
    holds("correlations" in done.out, "the answer is lost")
    if times == 2:
        kept(folder / name)
    else:
        holds((folder / name).stat().st_size > 1000, "the file was not written")
        no_draft(folder)


@pytest.mark.parametrize("signum", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=SLOW)])
def test_a_process_that_is_ended_while_it_writes_leaves_the_old_file(signum: signal.Signals, folder: Path):
    (folder / "r.json").write_bytes(OLD)
    program = (
        f"import json, signal\nsignal.signal({int(signum)}, signal.SIG_DFL)\n"  # nohup hands on that it is ignored
        "from linspec.cli import main\n"
        f"json.dumps = lambda *args, **options: signal.raise_signal({int(signum)})\n"
        f"main({[*SOLVE, '--out', 'r.json']!r})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=SECONDS, check=False)
    holds(done.returncode == -signum, f"exit code {done.returncode}: {done.stderr!r}")
    holds(b"correlations" in done.stdout, "the answer is lost")
    holds((folder / "r.json").read_bytes() == OLD, "the old file is lost")


# ---- standard output --------------------------------------------------------------------------


def nobody_reads() -> int:
    """The end of a pipe whose other end is closed."""
    read, write = os.pipe()
    os.close(read)
    return write


def a_full_disk() -> int:
    """Return a file that cannot be written to for lack of space."""
    return os.open("/dev/full", os.O_WRONLY)


@pytest.mark.parametrize(
    "args",
    [
        ("solvers",),
        (*SOLVE, "--out", "r.npz"),
        pytest.param(("compare", *VIEWS, "--solvers", "gram"), marks=SLOW),
    ],
    ids=lambda a: a[0],
)
@pytest.mark.parametrize("standard_output", [nobody_reads, a_full_disk])
def test_a_standard_output_that_cannot_be_written(standard_output, args: tuple[str, ...], folder: Path):
    """Files are still written; a full disk is reported, and a reader that has left is not."""
    if standard_output is a_full_disk and not Path("/dev/full").exists():
        pytest.skip("no such device")
    code, lines = (141, 0) if standard_output is nobody_reads else (2, 1)
    for unbuffered in ("", "1") if args == ("solvers",) else ("",):
        out = standard_output()
        try:
            done = command(*args, codes=(code,), stdout=out, env={"PYTHONUNBUFFERED": unbuffered})
        finally:
            os.close(out)
        said = [line for line in done.stderr.splitlines() if line]
        if len(said) != lines:
            raise Raw(" ".join(said))
    if "--out" in args:
        holds((folder / "r.npz").exists(), "the solution was not written")


@pytest.mark.parametrize(
    "streams", [">&-", "2>&-", pytest.param(">&- 2>&-", marks=SLOW), pytest.param("2>/dev/full", marks=SLOW)]
)
def test_a_stream_that_is_closed(streams: str, folder: Path):
    line = f'exec "$@" {streams}'
    args = [sys.executable, "-m", "linspec", *SOLVE, "--out", "r.npz"]
    done = subprocess.run(["sh", "-c", line, "sh", *args], capture_output=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise Raw(f"exit code {done.returncode}: {done.stderr!r}")
    holds((folder / "r.npz").exists(), "the solution was not written")


# ---- a solver that does not look ---------------------------------------------------------------


def until(fact, what: str, seconds: float = SECONDS):
    """Wait for a fact."""
    deadline = time.monotonic() + seconds
    while not (found := fact()):
        if time.monotonic() > deadline:
            raise Hang(what)
        time.sleep(0.01)
    return found


def default_signals() -> None:
    """Reset the signal as a shell does before it starts a program in the foreground."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


SLEEPER = """
import time
from dataclasses import dataclass
from pathlib import Path
import linspec
from linspec.solving import Solver

@linspec.hookimpl
def linspec_solvers():
    return [linspec.SolverSpec(name="sleeper", problem="cca", target="sleeping:Sleeper", summary="Sleeps.",
                               reference="N 2000")]

@dataclass(frozen=True, kw_only=True)
class Sleeper(Solver):
    def iterate(self, problem, moments, context, start):
        Path("begun").touch()
        time.sleep(60)
"""


@pytest.fixture
def sleeper(folder: Path, monkeypatch) -> Path:
    """An installed solver that looks at nothing for a long time; the file that it makes when it begins."""
    record = folder / "sleeping-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: sleeping\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text("[linspec]\nsleeping = sleeping\n")
    (folder / "sleeping.py").write_text(SLEEPER)
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    return folder / "begun"


def test_a_second_interrupt_ends_a_solver_that_does_not_look(folder: Path, sleeper: Path):
    """The results of earlier solvers are shown."""
    process = subprocess.Popen(
        [sys.executable, "-m", "linspec", "compare", *VIEWS, "--solvers", "gram,sleeper"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=default_signals,  # noqa: PLW1509  # no threads here
    )  # fmt: skip
    try:
        until(sleeper.exists, "the solver was not run")
        again = itertools.count()

        def ended() -> bool:
            """Two that come at once may count as one: who waits in vain presses again."""
            if next(again) % 100 in (0, 10):
                process.send_signal(signal.SIGINT)
            return process.poll() is not None

        until(ended, "the command does not end")
        out, err = process.communicate()
    finally:
        process.kill()
        process.wait()
    ended_well("two interrupts", process.returncode, out, err)
    holds("CONVERGED" in out, f"the answers are lost: {out}{err}")


# ---- Ctrl-C at any moment ---------------------------------------------------------------------

INTERRUPTED = {
    "solve": ("solve", *VIEWS, "--solver", "als", "-o", "form=implicit", "--tol", "1e-300", "--max-seconds", "0.5",
              "--out", "r.json", "--plot", "r.svg"),
    "compare": ("compare", *VIEWS, "--solvers", "gram,als", "--plot", "r.svg"),
    "demo": ("demo", "--quick", "--save", "--plot", "r.svg"),
}  # fmt: skip


@pytest.fixture(scope="module")
def seconds() -> dict[str, float]:
    """How long each command takes, uninterrupted; about, where few trials are made."""
    return dict.fromkeys(INTERRUPTED, 1.5) if HOSTILE == 1 else {}


@pytest.mark.parametrize("trial", range(HOSTILE))
@pytest.mark.parametrize("name", INTERRUPTED)
@pytest.mark.slow(keep=1)
def test_an_interrupt_at_any_moment(name: str, trial: int, folder: Path, seconds: dict[str, float]):
    """An answer with its status or one clear sentence, and whole files; from the first step of linspec on."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("sklearn")
    line = [sys.executable, "-m", "linspec", *INTERRUPTED[name]]
    if name not in seconds:
        begun = time.monotonic()
        subprocess.run(line, capture_output=True, timeout=SECONDS, check=False)
        seconds[name] = time.monotonic() - begun
    for path in folder.glob("r.*"):
        path.unlink()
    moment = seconds[name] * random.Random(f"{name} {trial}").uniform(0.02, 1.05)
    process = subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=default_signals,  # noqa: PLW1509  # no threads here
    )  # fmt: skip
    time.sleep(moment)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Hang(f"no end after an interrupt at {moment:.3f} s") from None
    when = f"{name} at {moment:.3f} s"
    in_python = "linspec/cli" not in err and "linspec/__main__" not in err
    if not out and in_python and ("Traceback" in err or process.returncode == -signal.SIGINT):
        return  # Python was about to start, and has its own words for it
    ended_well(when, process.returncode, out, err)
    if process.returncode == 0:
        holds((folder / "r.svg").exists(), f"{when}: the picture is missing")
    for path in folder.glob("r.*"):
        ending = {".json": "}", ".svg": "</svg>"}[path.suffix]
        holds(path.read_text().rstrip().endswith(ending), f"{when}: {path.name} is half there")
    for path in folder.glob("[lr]*t.npy"):
        np.load(path)
    no_draft(folder)


def ended_well(when: str, code: int, out: str, err: str) -> None:
    """An answer, or a word."""
    if "Traceback" in err:
        raise Raw(f"{when}: {err}")
    if code == 70:
        raise Defect(f"{when}: {err}")
    if code < 0:
        raise Crash(f"{when}: signal {-code}")
    holds(code in {0, 130}, f"{when}: exit code {code}: {err}")
    if code == 130 and "Interrupted." not in err:
        holds("status" in out or "correlations" in out, f"{when}: neither an answer nor a word: {out}{err}")
