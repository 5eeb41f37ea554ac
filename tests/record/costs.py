"""What linspec takes, beside the passes of its answers: memory, threads, and the time of its import.

Memory is the peak of the resident set while a solve runs, beyond what it was before, in a process of its own that has
solved a small problem of the kind. Files and streams repeat one block of rows. Transfers to and from a device have
budgets: `tests/doubles/transfers.py`. Processor time of the README's table is a comparison of its own:
`docs/evidence/measure_two_checkouts.py --readme --before FOLDER`.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import linspec as ls
from record import quick, wanted

COLUMNS, ROWS = 50, 5000
MIB = {"npy": 200, "csv": 40, "stream": 200}
PROBLEMS = ("svd", "cca", "least-squares")
IMPORT = "import time; t = time.perf_counter(); import linspec; print(time.perf_counter() - t)"


def record(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """All costs."""
    if wanted("import"):
        seconds = [float(_output("-c", IMPORT)) for _ in range(7)]
        yield "import", {"seconds": statistics.median(seconds)}
    for source in MIB:
        if any(wanted(f"{source}, {problem}") for problem in PROBLEMS):
            path = _write(folder, source)
            for problem in PROBLEMS:
                name = f"{source}, {problem}"
                yield name, json.loads(_output("-m", "record.costs", source, problem, str(path)))
            path.unlink(missing_ok=True)


def _output(*arguments: str) -> str:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True).stdout


def _write(folder: Path, source: str) -> Path:
    """The file of a source: one block of rows, again and again."""
    path = folder / f"rows.{source}"
    if source == "npy":
        np.save(path, np.tile(_block(), (_times(source), 1)))
    elif source == "csv":
        text = "\n".join(",".join(f"{entry:.5f}" for entry in row) for row in _block())
        header = ",".join(f"x{i}" for i in range(COLUMNS))
        path.write_text("\n".join([header, *[text] * _times(source)]), encoding="utf-8")
    return path


def _times(source: str) -> int:
    size = ROWS * COLUMNS * (9 if source == "csv" else 8) / 2**20
    return round(MIB[source] / size / (10 if quick() else 1))


def _block() -> Any:
    rng = np.random.default_rng(0)
    common = rng.standard_normal((ROWS, 5))
    return common @ rng.standard_normal((5, COLUMNS)) + rng.standard_normal((ROWS, COLUMNS))


def _measured(source: str, problem: str, path: Path) -> dict[str, Any]:
    """Peak and threads of a solve; this is the whole work of a process."""
    warnings.simplefilter("ignore")
    block = _block()
    ls.solve(_problem(problem, block[:99, :30], block[:99, 30:]))
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins here
    if source == "stream":
        times = _times(source)
        X, Y = ls.paired(lambda: ((block[:, :30], block[:, 30:]) for _ in range(times)))
    else:
        X, Y = (ls.open_rows(path, columns=[*part]) for part in (range(30), range(30, COLUMNS)))
    solution = ls.solve(_problem(problem, X, Y), rng=0)
    return {
        "MiB": (_status("VmHWM") - before) / 1024,
        "threads": threading.active_count(),
        "tasks": _status("Threads"),
        "passes": solution.passes,
        "status": solution.status.name,
    }


def _problem(problem: str, X: Any, Y: Any) -> Any:
    if problem == "svd":
        return ls.SVD(X, 5, center=True)
    return ls.CCA(X, Y, 3, ridge=1.0) if problem == "cca" else ls.LeastSquares(X, Y, ridge=1.0, center=True)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


if __name__ == "__main__":
    try:
        answer = _measured(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    except Exception as error:  # noqa: BLE001 (a refusal is an answer)
        answer = {"refused": type(error).__name__}
    print(json.dumps(answer))
