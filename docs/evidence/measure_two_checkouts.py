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
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from checkouts import environment_of
from datasets import images, mnist_halves, newsgroups, titles_and_queries
from measure_readme import TASKS
from measure_small import problems
from showing import Report, arguments
from timing import timed

PAIRS, CALLS = 21, 100
LEAST, MOST = 6, 16
"""Places of the ordered ratios, of 21, between which the median lies in 97 of 100 cases."""


def tasks(given: Any) -> dict[str, Callable[[], Any]]:
    """Return the calls to be timed, on data that are read once."""
    import linspec as ls

    if given.readme:
        rows = {name: task for name, task in TASKS.items() if name != "mapped"}
        return {
            name: partial(row.methods["linspec"], row.make(given.quick, Path())) for name, row in rows.items()
        }
    if given.small:
        return {
            f"{solver}, {label}": partial(_repeated, small.make, name)
            for label, small in problems().items()
            for solver, name in (("by name", ls.select(small.make()).name), ("auto", "auto"))
        }
    X, Y = titles_and_queries(given)
    left, right = mnist_halves(given)
    words, groups = newsgroups(given)
    halves = ls.CCA(left[:20000], right[:20000], 20, ridge=300.0, center=False)
    ridge = ls.LeastSquares(words, groups, ridge=1.0)
    titles = ls.CCA(X, Y, 20, ridge=100.0, center=False)
    return {
        "gram, images": lambda: ls.solve(ls.CCA(left, right, 20, ridge=300.0, center=False), "gram", rng=0),
        "gram (SVD), images": lambda: ls.solve(ls.SVD(images(given)[:20000], 10), "gram", rng=0),
        "lobpcg, titles, held": lambda: ls.solve(titles, "lobpcg", rng=0),
        "lobpcg, titles, swept": lambda: ls.solve(titles, "lobpcg", rng=0, form="implicit", max_passes=6),
        "block-krylov, newsgroups": lambda: ls.solve(ls.SVD(words, 10), "block-krylov", rng=0, max_passes=12),
        "cg, newsgroups": lambda: ls.solve(ls.LeastSquares(words, groups, ridge=1.0), "cg", rng=0),
        "two-stage, newsgroups": lambda: ls.solve(
            ls.Discriminant(words, groups, 19, ridge=1.0), "two-stage", rng=0, max_passes=24
        ),
        **{
            f"{solver}, images": partial(ls.solve, halves, solver, rng=0, max_iterations=most)
            for solver, most in (("als", 6), ("appgrad", 40), ("d-cca", 20), ("nw-cca", 20))
        },
        "als, titles": lambda: ls.solve(titles, "als", rng=0, max_iterations=3),
        **{
            f"{solver}, newsgroups": partial(ls.solve, ridge, solver, rng=0, max_passes=30)
            for solver in ("gd", "lsqr", "svrg")
        },
    }


def _repeated(make: Callable[[], Any], name: str) -> None:
    """A small problem, stated and solved again and again."""
    import linspec as ls

    for _ in range(CALLS):
        ls.solve(make(), name)


def serve(given: Any) -> None:
    """Answer names with seconds of processor time, one a line."""
    import warnings

    warnings.simplefilter("ignore")
    known = {name: run for name, run in tasks(given).items() if given.only in name}
    for run in known.values():  # imports and first touches
        run()
    sys.stdout.write(json.dumps(list(known)) + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(f"{timed(known[line.strip()])[1].cpu}\n")
        sys.stdout.flush()


def main() -> int:
    """Start both, and let them take turns."""
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
    here = Path(__file__).parents[2]
    folders = [tempfile.TemporaryDirectory() for _ in range(2)]
    both = [
        _started(side, given, Path(declared.name))
        for side, declared in zip((Path(given.before), here), folders, strict=True)
    ]
    names, _ = (json.loads(process.stdout.readline()) for process in both)
    table = report.table("task", "ratio::.3f", "from::.3f", "to::.3f")
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
        low, high = (
            (ordered[LEAST - 1], ordered[MOST - 1]) if given.pairs == PAIRS else (ordered[0], ordered[-1])
        )
        table.row(name, float(np.median(ordered)), low, high)
    for process in both:
        process.stdin.close()
        process.wait()
    for declared in folders:
        declared.cleanup()
    return report.end()


def _started(folder: Path, given: Any, declared: Path) -> Any:
    command = [
        sys.executable,
        str(Path(__file__).resolve()),
        "--serve",
        f"--only={given.only}",
        *(["--quick"] if given.quick else []),
        *(["--small"] if given.small else []),
        *(["--readme"] if given.readme else []),
    ]
    data = ["--data", given.data] if given.data else []
    return subprocess.Popen(  # noqa: S603 (this Python, and this file)
        [*command, *data],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment_of(folder, declared),
    )


if __name__ == "__main__":
    sys.exit(main())
