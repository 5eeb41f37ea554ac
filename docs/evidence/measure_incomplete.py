"""Print the passes of EM and of linspec with missing entries, and the seconds beside an imputer.

    OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_incomplete.py passes|seconds --data FOLDER [--seeds N] [--quick]

passes: until minus twice the log-likelihood is within 1e-6 of its size from the lowest that either ends at. `steps` are
those of `ls.IncompletePCA` over all rows, with its samples as the shares of rows that they are; `passes` are those over
the data, if 2**22 known entries are held, and `streamed` if a tenth of the rows is. `plain` is EM from the same start,
and `random` EM from random weights and the variance, as in R's pcaMethods; both get 2000 steps at most, and `above` is
by how much plain EM is above the lowest then. 30 % of the entries of each table are removed at random; of the counts
of words those that are stored are known.

seconds: CPU seconds of `ls.IncompletePCA` and of scikit-learn's `IterativeImputer` in turn, one after the other, on
columns of variance 1, after a first call of both; by its default of ten rounds at most, and by the number of rounds
that has the smallest error. The tolerance of ours is 0.1: errors hardly fall then. k is the least of a list with which
the removed entries are met no worse than by the imputer, or the best of the list if none is.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import scipy.sparse
from showing import Claim, Report, arguments

import linspec as ls
from linspec.rows import Passes
from linspec_svd.incomplete import em

REMOVED, CLOSE, MOST, TOL = 0.3, 1e-6, 2000, 0.1
KS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 25, 30, 40, 50, 60, 70, 80)
# Rounds of the imputer with the smallest errors: two on the wide tables, one on wine, which no component meets.
FEW = {"wine": (1,), "satimage": (2,), "usps": (2,)}
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


def course(problem: Any, seed: int, held: int) -> list[tuple[float, float, float]]:
    """Passes, steps and minus twice the log-likelihood after each step over all rows."""
    passes, seen, steps = Passes(), list[tuple[float, float, float]](), [0.0]
    with mock.patch.object(em, "HELD", held):
        moments = problem.moments_of_its_own(passes)
        context = ls.Context(1e-9, np.random.default_rng(seed), passes)
        step = moments.step

        def watched(theta: Any, stride: int) -> Any:
            made = step(theta, stride)
            steps[0] += len(range(0, problem.X.shape[0], max(stride, 1))) / problem.X.shape[0]
            if stride == moments.every:
                seen.append((passes.count, steps[0], float(made.loss)))
            return made

        moments.step = watched
        for iterate in ls.get_solver("em", problem.name)().iterate(problem, moments, context, None):
            if iterate.residual < 1e-8 or len(seen) > MOST:
                break
    return seen


def plain(problem: Any, seed: int, *, random: bool, least: float) -> tuple[int, float]:
    """Steps of EM until minus twice the log-likelihood is as low as `least`, and what it is at the end."""
    passes, rng = Passes(), np.random.default_rng(seed)
    moments = problem.moments_of_its_own(passes)
    theta = em._begun(problem.k, moments, ls.Context(1e-9, rng, passes), None, 1)
    if random:
        W = rng.standard_normal((problem.X.shape[1], problem.k))
        theta = np.append(np.log(moments.variance), np.column_stack([moments.means, W]))
    count, step = 1, moments.step(theta, 1)
    while step.loss > least and count < MOST:
        V = step.theta[1:].reshape(step.D.shape) + step.D
        count, step = count + 1, moments.step(np.append(np.log(step.next_noise), V), 1)
    return count, float(step.loss)


def passes(folder: str | None, seeds: int, *, quick: bool) -> Iterator[tuple[Any, ...]]:
    """Steps and passes of both on each table."""
    names = ("wine", "satimage", "usps", "mnist", *(() if quick or folder is None else ("words",)))
    for name in names:
        for seed in range(seeds):
            X = words(folder) if name == "words" else table(folder, name, quick=quick)
            if name != "words":
                X = np.where(np.random.default_rng(seed).random(X.shape) < REMOVED, np.nan, X)
            k = 5 if name == "words" else TABLES.get(name, ("", 0, 20))[2]
            problem = ls.IncompletePCA(X, k)
            ours = course(problem, seed, em.HELD)
            best = min(loss for _, _, loss in ours)
            least = best + CLOSE * abs(best)
            count, steps, _ = next(each for each in ours if each[2] <= least)
            streamed = course(problem, seed, problem.X.nnz // 10)
            lowest = min(loss for _, _, loss in streamed)
            of_stream = next(each[0] for each in streamed if each[2] <= lowest + CLOSE * abs(lowest))
            same, end = plain(problem, seed, random=False, least=least)
            usual, _ = plain(problem, seed, random=True, least=least)
            yield name, k, seed, count, of_stream, steps, same, usual, (end - best) / abs(best)


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
            ours = [imputed(holed, k, seed, X, gaps) for k in KS if k < X.shape[1] - 1]
            for rounds in (10, *FEW[name]):
                began = time.process_time()
                filled = IterativeImputer(random_state=seed, max_iter=rounds).fit_transform(holed)
                theirs = time.process_time() - began
                error = float(np.sqrt(np.mean((filled - X)[gaps] ** 2)))
                met = [each for each in ours if each[1] <= error]
                k, mine, took = met[0] if met else min(ours, key=lambda each: each[1])
                yield name, seed, rounds, error, k, mine, theirs, took, theirs / took


def imputed(holed: Any, k: int, seed: int, X: Any, gaps: Any) -> tuple[int, float, float]:
    """k, the error of removed entries by so many components, and the seconds that they take."""
    began = time.process_time()
    filled = ls.solve(ls.IncompletePCA(holed, k), rng=seed, tol=TOL).impute(holed)
    took = time.process_time() - began
    return k, float(np.sqrt(np.mean((filled - X)[gaps] ** 2))), took


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("part", choices=["passes", "seconds"])
    parser.add_argument("--seeds", type=int, default=3)
    report = Report(parser)
    given = report.given
    warnings.simplefilter("ignore")
    if given.part == "passes":
        head = "table k seed passes streamed steps::.1f plain random above::.1e"
        rows = report.rows("passes to 1e-6", head, passes(given.data, given.seeds, quick=given.quick))
        for other in ("plain", "random"):
            shares = [row[other] / row["steps"] for row in rows]
            text = f"steps over all rows are at most a fifth of those of EM, {other} start"
            report.say([Claim(text, min(shares) >= 5, f"{min(shares):.1f} to {max(shares):.1f} times fewer")])
    else:
        head = "table seed rounds imputer's::.3f k linspec's::.3f imputer_s::.2f linspec_s::.3f times::.1f"
        rows = report.rows(
            "seconds at equal errors", head, seconds(given.data, given.seeds, quick=given.quick)
        )
        for usual in (True, False):
            times = [row["times"] for row in rows if (row["rounds"] == 10) == usual]
            text = f"twenty times faster than the imputer with {'ten rounds' if usual else 'its best rounds'}"
            report.say(
                [Claim(text, min(times) >= 20, f"median {np.median(times):.1f}, least {min(times):.1f}")]
            )
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
