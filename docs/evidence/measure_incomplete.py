"""Print the passes of plain and of accelerated EM with missing entries, and the seconds beside an imputer.

    OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_incomplete.py passes|seconds --data FOLDER [--seeds N] [--quick]

passes: until minus twice the log-likelihood is within 1e-6 of its size from that at which mixed steps end, of `em` with
`depth` 5 and 0, plain EM, from the same start. 30 % of the entries of each table are removed at random; of the counts
of words those that are stored are known. Plain EM gets 2000 passes; `behind` is where it ends.

seconds: CPU seconds of `ls.IncompletePCA` and of scikit-learn's `IterativeImputer` in turn, one after the other, on
columns of variance 1, after a first call of both. The tolerance of ours is 0.1: errors hardly fall then. k is the
least of a list with which the removed entries are met no worse than by the imputer.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from showing import Claim, Report, arguments

import linspec as ls
from linspec.rows import Passes

REMOVED, CLOSE, MOST, TOL = 0.3, 1e-6, 2000, 0.1
KS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 25, 30, 40, 50, 60, 80)
TABLES = {"wine": ("X", 178, 3), "satimage": ("X_train", 4435, 8), "usps": ("X_train_x1000", 2000, 20)}


def table(folder: str | None, name: str, *, quick: bool) -> np.ndarray[Any, Any]:
    """Rows of a table, whose columns vary."""
    key, rows, k = TABLES.get(name, ("X_train", 2000, 20))
    if quick or folder is None:
        rng = np.random.default_rng(0)
        return rng.standard_normal((200, k)) @ rng.standard_normal((k, 30)) + rng.standard_normal((200, 30))
    X = np.load(Path(folder) / name / f"{name}.npz")[key][:rows].astype(float)
    X = X[:, X.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def words(folder: str | None) -> Any:
    """Logarithms of the counts of 3000 words in 4000 posts; absent words are missing entries."""
    counts = scipy.sparse.load_npz(Path(str(folder)) / "newsgroups20" / "X.npz").tocsr()[:4000]
    frequent = np.argsort(-counts.getnnz(axis=0))[:3000]
    return scipy.sparse.csr_array(counts[:, frequent].astype(float).log1p())


def course(problem: Any, depth: int, seed: int, least: float) -> list[tuple[float, float]]:
    """Passes, and minus twice the log-likelihood after each, until it is as low as `least`."""
    passes, solver = Passes(), ls.get_solver("em", problem.name)(depth=depth)
    moments, context = (
        problem.moments_of_its_own(passes),
        ls.Context(1e-9, np.random.default_rng(seed), passes),
    )
    seen: list[tuple[float, float]] = []
    step = moments.step

    def watched(theta: Any) -> Any:
        made = step(theta)
        seen.append((passes.count, float(made.loss)))
        return made

    moments.step = watched
    for iterate in solver.iterate(problem, moments, context, None):
        if iterate.residual < 1e-8 or seen[-1][1] <= least or passes.count > MOST:
            break
    return seen


def passes(folder: str | None, seeds: int, *, quick: bool) -> Iterator[tuple[Any, ...]]:
    """Passes of both solvers on each table."""
    names = ("wine", "satimage", "usps", "mnist", *(() if quick or folder is None else ("words",)))
    for name in names:
        for seed in range(seeds):
            X = words(folder) if name == "words" else table(folder, name, quick=quick)
            if name != "words":
                X = np.where(np.random.default_rng(seed).random(X.shape) < REMOVED, np.nan, X)
            k = 5 if name == "words" else TABLES.get(name, ("", 0, 20))[2]
            problem = ls.IncompletePCA(X, k)
            fast = course(problem, 5, seed, -np.inf)
            best = fast[-1][1]
            least = best + CLOSE * abs(best)
            slow = course(problem, 0, seed, least)
            few = next(count for count, loss in fast if loss <= least)
            yield name, k, seed, few, slow[-1][0], (slow[-1][1] - best) / abs(best)


def seconds(folder: str | None, seeds: int, *, quick: bool) -> Iterator[tuple[Any, ...]]:
    """CPU seconds of both, and the errors of removed entries."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    first = np.where(np.arange(60) % 7, np.arange(60.0), np.nan).reshape(10, 6) ** 2
    ls.solve(ls.IncompletePCA(first, 1), rng=0, tol=TOL)  # imports
    IterativeImputer(max_iter=1).fit_transform(first)
    for name in TABLES:
        for seed in range(seeds):
            X = table(folder, name, quick=quick)
            gaps = np.random.default_rng(seed).random(X.shape) < REMOVED
            holed = np.where(gaps, np.nan, X)
            began = time.process_time()
            filled = IterativeImputer(random_state=seed, max_iter=2 if name == "usps" else 10).fit_transform(
                holed
            )
            theirs = time.process_time() - began
            error = float(np.sqrt(np.mean((filled - X)[gaps] ** 2)))
            for k in KS:
                began = time.process_time()
                answer = ls.solve(ls.IncompletePCA(holed, k), rng=seed, tol=TOL)
                filled = answer.impute(holed)
                ours = time.process_time() - began
                mine = float(np.sqrt(np.mean((filled - X)[gaps] ** 2)))
                if mine <= error or k + 1 >= X.shape[1] - 1:
                    break
            yield name, seed, k, error, mine, theirs, ours, theirs / ours


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("part", choices=["passes", "seconds"])
    parser.add_argument("--seeds", type=int, default=3)
    report = Report(parser)
    given = report.given
    warnings.simplefilter("ignore")
    if given.part == "passes":
        head = "table k seed mixed plain behind::.1e"
        rows = report.rows("passes to 1e-6", head, passes(given.data, given.seeds, quick=given.quick))
        shares = [row["plain"] / row["mixed"] for row in rows]
        text = "mixed steps take at most a fifth of the passes of plain EM"
        report.say([Claim(text, min(shares) >= 5, f"{min(shares):.1f} to {max(shares):.1f} times fewer")])
    else:
        head = "table seed k imputer's::.3f linspec's::.3f imputer_s::.2f linspec_s::.3f times::.1f"
        rows = report.rows(
            "seconds at equal errors", head, seconds(given.data, given.seeds, quick=given.quick)
        )
        times = rows.of("times")
        text = "twenty times faster than the imputer"
        report.say([Claim(text, min(times) >= 20, f"median {np.median(times):.1f}, least {min(times):.1f}")])
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
