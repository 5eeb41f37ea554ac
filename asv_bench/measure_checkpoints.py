"""Kill runs at random moments, let them go on from their checkpoints, and count those that end with other bits.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_checkpoints.py`; `--kills 50` kills so many processes in all,
`--quick` six. `cg`, `lobpcg` and `block-krylov` are taken by turns, on rows in a mapped file. A run writes after every
iteration, into memory where the machine has a file system there. It is ended by SIGKILL or, every fourth time, by
Ctrl-C, at a moment drawn evenly from as long as a whole run takes after its first checkpoint was written; what is left
goes on and may be ended again, three times at most, and then to its end. What is compared: the arrays of the answer,
the history but for seconds, passes, columns, operations and the residual.

Then the cost: seconds of a run without checkpoints and with one after every iteration, and the size of the file.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import linspec as ls

ROWS, COLUMNS, MOST = 30_000, 120, 3
ARRAYS = ("S", "Vh", "x_weights", "y_weights", "correlations", "x")
NUMBERS = ("passes", "columns", "flops", "iterations", "residual")

RUNS: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "block-krylov": (
        lambda A: ls.SVD(A, k=6, center=True),
        {"form": "implicit", "block": 2, "tol": 1e-12, "max_iterations": 60},
    ),
    "lobpcg": (
        lambda A: ls.CCA(A[:, :70], A[:, 70:], k=4, ridge=1.0),
        {"form": "implicit", "oversample": 2, "tol": 1e-10, "max_iterations": 60},
    ),
    "cg": (
        lambda A: ls.LeastSquares(A[:, :-2], A[:, -2:], ridge=1e-3, center=True),
        {"form": "implicit", "tol": 1e-12, "max_iterations": 120},
    ),
}


def main() -> None:
    """Measure and print."""
    from datasets import arguments

    parser = arguments(__doc__ or "")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--child", nargs=4, metavar=("SOLVER", "FOLDER", "START", "OUT"))
    given = parser.parse_args()
    if given.child:
        child(*given.child)
        return
    shared = Path("/dev/shm")  # noqa: S108  # a file system in memory
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        rng = np.random.default_rng(0)
        scales = np.geomspace(10, 0.1, COLUMNS)
        np.save(Path(folder) / "rows.npy", rng.standard_normal((ROWS, COLUMNS)) * scales)
        killed(Path(folder), 6 if given.quick else given.kills, rng)
        costs(Path(folder))


def solved(name: str, folder: Path, **more: Any) -> Any:
    """One run."""
    problem, options = RUNS[name]
    A = np.load(folder / "rows.npy", mmap_mode="r")
    return ls.solve(problem(A), name, rng=0, **options, **more)


def child(name: str, folder: str, start: str, out: str) -> None:
    """A run that may be killed; its answer is saved where nobody has ended it."""
    place = Path(folder)
    found = solved(name, place, checkpoint=ls.Checkpoint(place / "run.ckpt", seconds=0), start=start or None)
    if found.status.name != "INTERRUPTED":
        found.save(out)


def bits(solution: Any) -> list[Any]:
    """What must be the same."""
    names = [name for name in solution.history.dtype.names if name != "seconds"]
    arrays = [getattr(solution, name).tobytes() for name in ARRAYS if hasattr(solution, name)]
    return [*arrays, solution.history[names].tolist(), *(getattr(solution, name) for name in NUMBERS)]


def killed(folder: Path, kills: int, rng: np.random.Generator) -> None:
    """Kill so many, and count."""
    made, trials, wrong, interrupted = 0, 0, 0, 0
    out, path = folder / "out.npz", folder / "run.ckpt"
    whole = {name: bits(solved(name, folder)) for name in RUNS}
    seconds: dict[str, float] = {}
    for name in RUNS:
        began = time.perf_counter()
        solved(name, folder)
        seconds[name] = time.perf_counter() - began
    while made < kills:
        name = list(RUNS)[trials % len(RUNS)]
        path.unlink(missing_ok=True)
        out.unlink(missing_ok=True)
        trials += 1
        for _ in range(MOST):
            before = stamp(path)
            process = started(name, folder, str(path) if path.exists() else "", out)
            while process.poll() is None and stamp(path) == before:
                time.sleep(1e-3)
            try:
                process.wait(timeout=rng.uniform(0.0, 1.0) * seconds[name])
                break  # it was done before
            except subprocess.TimeoutExpired:
                gentle = made % 4 == 3
                process.send_signal(signal.SIGINT if gentle else signal.SIGKILL)
                process.wait()
                made, interrupted = made + 1, interrupted + gentle
        if not out.exists():
            assert started(name, folder, str(path) if path.exists() else "", out).wait() == 0, name
        wrong += bits(ls.load_solution(out)) != whole[name]
    names = ", ".join(RUNS)
    print(f"{made} kills ({interrupted} of them Ctrl-C) of {trials} runs, by turns of {names}")
    print(f"{wrong} runs ended with other bits")


def stamp(path: Path) -> int:
    """When a file was written; 0 where there is none."""
    return path.stat().st_mtime_ns if path.exists() else 0


def started(name: str, folder: Path, start: str, out: Path) -> subprocess.Popen[bytes]:
    """A process of its own that runs."""
    command = [sys.executable, "-W", "ignore", __file__, "--child", name, str(folder), start, str(out)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)  # noqa: S603  # this file


def costs(folder: Path) -> None:
    """Seconds with checkpoints and without."""
    for name in RUNS:
        path = folder / "cost.ckpt"
        told = []
        for more in ({}, {"checkpoint": ls.Checkpoint(path, seconds=0)}):
            began = time.process_time()
            found = solved(name, folder, **more)
            told.append(time.process_time() - began)
        print(
            f"{name}: {found.iterations} iterations, {told[0]:.2f} CPU s without checkpoints, {told[1]:.2f} with one "
            f"after each, {path.stat().st_size / 1e6:.2f} MB"
        )


if __name__ == "__main__":
    main()
