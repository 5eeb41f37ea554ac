"""Compare the processor time of a few solves in two checkouts, pair by pair.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_two_checkouts.py --before FOLDER --data FOLDER`: each checkout
has a process of its own that reads the data once, and the two take turns, the first to go changing from pair to pair.
Printed is the median of the ratios, after over before, with the interval that contains the true median in 97 of 100
cases (the order statistics of the sign test). With `--small` the solves are those of `measure_small.py`, a hundred a
time, and no data are read; with `--readme` they are those of the README's table, but for the file of 2 GB.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from datasets import images, newsgroups, split_halves, titles_and_queries
from measure_readme import TASKS
from measure_small import problems
from showing import Report, arguments
from timing import environment_of, timed

import linspec as ls

PAIRS, CALLS = 21, 100
# Places of the ordered ratios, of 21, between which the median lies in 97 of 100 cases.
LEAST, MOST = 6, 16


def tasks(given: Any) -> dict[str, Callable[[], Any]]:
    """Return the calls to be timed, on data that are read once."""
    if given.readme:
        rows = {name: task for name, task in TASKS.items() if name != "mapped"}
        return {name: partial(row.methods["linspec"], row.make(given)) for name, row in rows.items()}
    if given.small:
        found = {}
        for label, small in problems().items():
            found[f"by name, {label}"] = partial(_repeated, small.make, ls.select(small.make()).name)
            found[f"auto, {label}"] = partial(_repeated, small.make, "auto")
        return found
    X, Y = titles_and_queries(given)
    left, right, _ = split_halves(given)
    words, groups = newsgroups(given)
    pixels = images(given)[:20000]
    halves = ls.CCA(left[:20000], right[:20000], 20, ridge=300.0, center=False)
    ridge = ls.LeastSquares(words, groups, ridge=1.0)
    titles = ls.CCA(X, Y, 20, ridge=100.0, center=False)
    stated: dict[str, tuple[Callable[[], Any], str, dict[str, Any]]] = {
        "gram, images": (lambda: ls.CCA(left, right, 20, ridge=300.0, center=False), "gram", {}),
        "gram (SVD), images": (lambda: ls.SVD(pixels, 10), "gram", {}),
        "lobpcg, titles, held": (lambda: titles, "lobpcg", {}),
        "lobpcg, titles, swept": (lambda: titles, "lobpcg", {"form": "implicit", "max_passes": 6}),
        "block-krylov, newsgroups": (lambda: ls.SVD(words, 10), "block-krylov", {"max_passes": 12}),
        "cg, newsgroups": (lambda: ls.LeastSquares(words, groups, ridge=1.0), "cg", {}),
        "two-stage, newsgroups": (
            lambda: ls.Discriminant(words, groups, 19, ridge=1.0),
            "two-stage",
            {"max_passes": 24},
        ),
        "als, titles": (lambda: titles, "als", {"max_iterations": 3}),
    }
    for solver, most in (("als", 6), ("appgrad", 40), ("d-cca", 20), ("nw-cca", 20)):
        stated[f"{solver}, images"] = lambda: halves, solver, {"max_iterations": most}
    for solver in ("gd", "lsqr", "svrg"):
        stated[f"{solver}, newsgroups"] = lambda: ridge, solver, {"max_passes": 30}
    return {name: partial(_solved, *task) for name, task in stated.items()}


def _solved(make: Callable[[], Any], solver: str, options: dict[str, Any]) -> None:
    ls.solve(make(), solver, rng=0, **options)


def _repeated(make: Callable[[], Any], name: str) -> None:
    """A small problem, stated and solved again and again."""
    for _ in range(CALLS):
        ls.solve(make(), name)


def serve(given: Any) -> None:
    """Answer names with seconds of processor time, one a line."""
    warnings.simplefilter("ignore")
    known = {name: run for name, run in tasks(given).items() if given.only in name}
    for run in known.values():  # imports and first touches
        run()
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        print(timed(known[line.strip()])[1].cpu, flush=True)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--before", help="the other checkout")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    parser.add_argument("--small", action="store_true", help="small problems, many times")
    parser.add_argument("--readme", action="store_true", help="the tasks of the README's table")
    parser.add_argument("--serve", action="store_true", help="be one of the two processes")
    if "--serve" in sys.argv:
        serve(parser.parse_args())
        return 0
    report = Report(parser)
    given = report.given
    if not given.before:
        parser.error("name the other checkout with --before")
    table = report.table("task", "ratio::.3f", "from::.3f", "to::.3f")
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        sides = (Path(given.before), Path(one)), (Path(__file__).parents[2], Path(other))
        both = [_started(folder, given, declared) for folder, declared in sides]
        names, _ = (json.loads(process.stdout.readline()) for process in both)
        for name in names:
            ratios = []
            for pair in range(given.pairs):
                seconds = [0.0, 0.0]
                for side in (0, 1) if pair % 2 else (1, 0):
                    both[side].stdin.write(f"{name}\n")
                    both[side].stdin.flush()
                    seconds[side] = float(both[side].stdout.readline())
                ratios.append(seconds[1] / seconds[0])
            ordered = np.sort(ratios)
            places = (LEAST - 1, MOST - 1) if given.pairs == PAIRS else (0, -1)
            table.row(name, float(np.median(ordered)), *(ordered[at] for at in places))
        for process in both:
            process.stdin.close()
            process.wait()
    return report.end()


def _started(folder: Path, given: Any, declared: Path) -> Any:
    command = [sys.executable, str(Path(__file__).resolve()), "--serve", f"--only={given.only}"]
    command += [f"--{name}" for name in ("quick", "small", "readme") if getattr(given, name)]
    command += ["--data", given.data] if given.data else []
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **pipes, env=environment_of(folder, declared))  # noqa: S603 (this Python, this file)


if __name__ == "__main__":
    sys.exit(main())
