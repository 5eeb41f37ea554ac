"""Print by how much "auto" misses the best solver by name: the ratio of their processor times at one tolerance.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_regret.py`; `--quick` takes the smallest shapes, once. No data
are needed: dense rows have a spectrum that falls like 1/j and noise, sparse ones are counts with skewed columns.
Solvers take turns. Each runs three times (once where a run takes seconds), and its least time counts. The best is
sought among all solvers but demonstrations, those with an approximate answer, and those that state more than 20 times
the time of the chosen one (a factorisation cannot be cut short), and only a converged answer takes part. A solver by
name has `--most` seconds of the clock. The regret of a shape is the time of the solver that "auto" chooses, called by
its name, over that of the best.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from showing import Claim, Report, arguments
from timing import alternate

import linspec as ls
from linspec.solving.select import estimated

HOPELESS = 20.0
"""A solver that states more than this many times the time of the chosen one is left out."""

LIMITS = 1.1, 2.0
"""Median and worst regret that are allowed."""

LONG = 1.0
"""Seconds from which a run is not repeated."""


def dense(n: int, p: int, seed: int = 0) -> np.ndarray:
    """Rows with a falling spectrum, and noise."""
    rng = np.random.default_rng(seed)
    r = min(n, p, 50)
    return (rng.standard_normal((n, r)) / np.arange(1, r + 1)) @ rng.standard_normal(
        (r, p)
    ) + 0.1 * rng.standard_normal((n, p))


def counts(n: int, p: int, each: int, seed: int = 0) -> Any:
    """Sparse rows of `each` entries, most of them in the first columns, with some topics."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, 10, n).repeat(each)
    columns = np.minimum(rng.zipf(1.3, n * each) - 1, p - 1)
    columns = np.where(rng.random(n * each) < 0.5, (columns + topic * (p // 10)) % p, columns)
    A = sparse.csr_array((np.ones(n * each), columns, np.arange(0, n * each + 1, each)), shape=(n, p))
    A.sum_duplicates()
    A.data = np.log1p(A.data)
    return A


def one_hot(n: int, p: int, q: int) -> tuple[Any, Any]:
    """Two categories of each row, of which the second follows the first half of the time."""
    rng = np.random.default_rng(4)
    first = (p * rng.random(n) ** 2).astype(int)
    second = np.where(rng.random(n) < 0.5, first * q // p, (q * rng.random(n) ** 2).astype(int))
    rows, ones = np.arange(n + 1), np.ones(n)
    X, Y = (
        sparse.csr_array((ones, codes, rows), shape=(n, size)) for codes, size in ((first, p), (second, q))
    )
    return X, Y


def _pca(A: Any, k: int) -> Any:
    return ls.SVD(A, k, center=True)


def _ridge(A: Any) -> Any:
    b = A @ np.random.default_rng(1).standard_normal((A.shape[1], 1)) / np.sqrt(A.shape[1])
    return ls.LeastSquares(A, b + np.random.default_rng(2).standard_normal(b.shape), ridge=1.0)


def _cca(X: Any, Y: Any, k: int) -> Any:
    ridge = 1e-3 * X.shape[0]
    return ls.CCA(X, Y, k, ridge=ridge)


def _views(n: int, p: int, q: int, k: int) -> Any:
    both = dense(n, p + q)
    return _cca(np.ascontiguousarray(both[:, :p]), np.ascontiguousarray(both[:, p:]), k)


def _lda(X: Any, classes: int) -> Any:
    rng = np.random.default_rng(3)
    score = X @ rng.standard_normal((X.shape[1], classes))
    return ls.Discriminant(X, ls.targets.lda(np.argmax(score, axis=1)), ridge=1.0)


def shapes() -> dict[str, Callable[[], Any]]:
    """Return functions that make each problem, the smallest first within a family."""
    return {
        "SVD, 200 x 10, k = 3": lambda: _pca(dense(200, 10), 3),
        "SVD, 2,000 x 200, k = 10": lambda: _pca(dense(2000, 200), 10),
        "SVD, 20,000 x 100, k = 10": lambda: _pca(dense(20000, 100), 10),
        "SVD, 1,000 x 1,000, k = 5": lambda: _pca(dense(1000, 1000), 5),
        "SVD, 300 x 5,000, k = 5": lambda: _pca(dense(300, 5000), 5),
        "SVD, 3,000 x 1,500, k = 10": lambda: _pca(dense(3000, 1500), 10),
        "SVD, sparse 20,000 x 2,000, k = 10": lambda: _pca(counts(20000, 2000, 10), 10),
        "SVD, sparse 5,000 x 20,000, k = 10": lambda: _pca(counts(5000, 20000, 40), 10),
        "SVD, sparse 50,000 x 300, k = 5": lambda: _pca(counts(50000, 300, 5), 5),
        "ridge, 200 x 10": lambda: _ridge(dense(200, 10)),
        "ridge, 20,000 x 100": lambda: _ridge(dense(20000, 100)),
        "ridge, 3,000 x 1,500": lambda: _ridge(dense(3000, 1500)),
        "ridge, 500 x 5,000": lambda: _ridge(dense(500, 5000)),
        "ridge, sparse 20,000 x 2,000": lambda: _ridge(counts(20000, 2000, 10)),
        "ridge, sparse 5,000 x 20,000": lambda: _ridge(counts(5000, 20000, 40)),
        "ridge, sparse 50,000 x 300": lambda: _ridge(counts(50000, 300, 5)),
        "CCA, 200 x 10 + 8, k = 3": lambda: _views(200, 10, 8, 3),
        "CCA, 5,000 x 200 + 150, k = 10": lambda: _views(5000, 200, 150, 10),
        "CCA, 3,000 x 600 + 500, k = 5": lambda: _views(3000, 600, 500, 5),
        "CCA, 20,000 x 300 + 10, k = 5": lambda: _views(20000, 300, 10, 5),
        "CCA, sparse 20,000 x 2,000 + 1,500, k = 5": lambda: _cca(
            counts(20000, 2000, 10), counts(20000, 1500, 5, 1), 5
        ),
        "CCA, sparse 10,000 x 6,000 + 5,000, k = 5": lambda: _cca(
            counts(10000, 6000, 10), counts(10000, 5000, 5, 1), 5
        ),
        "LDA, 200 x 10, 3 classes": lambda: _lda(dense(200, 10), 3),
        "LDA, 5,000 x 300, 10 classes": lambda: _lda(dense(5000, 300), 10),
        "LDA, 500 x 5,000, 5 classes": lambda: _lda(dense(500, 5000), 5),
        "LDA, 3,000 x 1,500, 10 classes": lambda: _lda(dense(3000, 1500), 10),
        "LDA, sparse 10,000 x 5,000, 20 classes": lambda: _lda(counts(10000, 5000, 20), 20),
        # shapes that no choice was fitted to
        "SVD, 100,000 x 50, k = 4": lambda: _pca(dense(100_000, 50), 4),
        "SVD, sparse 2,000 x 50,000, k = 30": lambda: _pca(counts(2000, 50_000, 60), 30),
        "ridge, sparse 100,000 x 8,000": lambda: _ridge(counts(100_000, 8000, 12)),
        "CCA, one-hot 100,000 x 3,000 + 2,000, k = 8": lambda: _cca(*one_hot(100_000, 3000, 2000), 8),
        "LDA, sparse 3,000 x 30,000, 6 classes": lambda: _lda(counts(3000, 30_000, 50), 6),
    }


def candidates(problem: Any) -> list[str]:
    """The solvers that aim at the answer itself, in a time that they can state."""
    found, sizes = [], problem.sizes()
    least = estimated(problem, "auto", sizes)[1]
    for name in ls.solvers(problem):
        traits = ls.describe(f"{problem.name}/{name}").traits
        stated = estimated(problem, name, sizes)[1]
        hopeless = stated is not None and least is not None and stated.seconds > HOPELESS * least.seconds
        if not {"approximate", "demonstration"} & set(traits) and not (hopeless and stated.seconds > LONG):
            found.append(name)
    return found


def solved(problem: Any, name: str, most: float) -> Any:
    """The answer of a solver, which has to converge."""
    limits: dict[str, Any] = {"rng": 0, "max_seconds": most}
    try:
        answer = ls.solve(problem, name, tol=problem.default_tol, **limits)
    except TypeError:  # it has no tolerance
        answer = ls.solve(problem, name, **limits)
    if not answer.converged:
        raise ValueError(answer.status.name)
    return answer


def least(problem: Any, names: list[str], most: float, rounds: int) -> dict[str, float]:
    """Least seconds of the processor of each solver that converges."""
    calls = {name: partial(solved, problem, name, most) for name in names}
    turns = alternate(calls, rounds, enough=LONG)
    return {name: min(taken.cpu) for name, taken in turns.items() if not taken.said}


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--only", default="", help="shapes whose name contains this")
    parser.add_argument("--most", type=float, default=10.0, help="seconds of the clock for a solver by name")
    report = Report(parser)
    given = report.given
    head = ("seconds::.3g", "best by name", "seconds::.3g", "regret::.2f", "the others")
    table, regrets = report.table("problem", '"auto"', *head), []
    for label, make in shapes().items():
        small = ", 200 x 10" in label
        if (given.quick and not small) or given.only not in label:
            continue
        problem = make()
        chosen = ls.select(problem).name
        ls.solve(problem, chosen, rng=0)  # imports and first touches
        found = least(problem, candidates(problem), given.most, 1 if given.quick else (20 if small else 3))
        others = ", ".join(
            f"{name} {seconds:.3g}" for name, seconds in sorted(found.items(), key=lambda item: item[1])
        )
        if chosen not in found:
            table.row(label, chosen, "does not converge", "", "", "", others)
            continue
        best = min(found, key=lambda name: found[name])
        regrets.append(found[chosen] / found[best])
        table.row(label, chosen, found[chosen], best, found[best], regrets[-1], others)
    if regrets:
        worst, middle = max(regrets), statistics.median(regrets)
        figures = f"{middle:.2f} and {worst:.2f} on {len(regrets)} shapes"
        held = middle <= LIMITS[0] and worst <= LIMITS[1]
        report.say(
            [
                Claim(
                    'the regret of "auto" is at most 1.1 in the median and 2 at worst',
                    held,
                    figures,
                    own=True,
                )
            ]
        )
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
