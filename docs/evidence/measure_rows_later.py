"""Print what rows that come in batches cost, and how near the answer for all of them is.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_rows_later.py`; `--quick` takes small data. All data are
generated, with means a million times the spread in one part.

- 10,000 batches of 20 rows and 64 columns, once with means of 0 and once of 1e6: `HeldMoments` and one solve, a solve
  on all rows together, and `IncrementalPCA` with all components, where it is exact;
- 200 batches of 500 rows, an answer after each: `PCA.partial_fit`, `IncrementalPCA` with all components and with ten,
  and `fit` on all rows so far after each batch;
- a rank: 100 batches of 100 rows and 4,000 columns with 10 strong directions: `HeldMoments(rank=20)` and
  `IncrementalPCA` with 20 components.

error: the largest relative error of ten variances, beside sums in extended precision of the same rows (beside NumPy's
singular values of all rows for the rank). CPU s: processor seconds, the median of `--rounds` rounds, in each of which
every method has one turn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from showing import Claim, Report, arguments, at_most
from sklearn.decomposition import IncrementalPCA
from timing import alternate

import linspec as ls
from linspec.estimators import PCA

K = 10


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    report = Report(parser, "scikit-learn")
    quick = report.given.quick
    rounds = 1 if quick else report.given.rounds
    count = 50 if quick else 10_000
    for mean in (0.0, 1e6):
        methods = {
            "linspec HeldMoments": held,
            "linspec on all rows": at_once,
            "scikit-learn IncrementalPCA": incremental,
        }
        show(report, f"{count:,} batches, mean {mean:g}", methods, rows(20 * count, 64, mean), count, rounds)
    count = 10 if quick else 200
    each = {
        "linspec PCA.partial_fit": partial_fit,
        "scikit-learn IncrementalPCA": incremental,
        f"scikit-learn IncrementalPCA, {K} components": partial(incremental, k=K),
        "linspec PCA.fit on all rows so far": fit_each,
    }
    show(report, f"{count} answers", each, rows(500 * count, 64, 10.0), count, rounds)
    count = 5 if quick else 100
    ranked = {
        "linspec HeldMoments, rank 20": partial(held, rank=20),
        "scikit-learn IncrementalPCA, 20 components": partial(incremental, k=20),
    }
    wide = rows(100 * count, 400 if quick else 4000, 0.0, strong=100.0)
    show(report, f"{count} wide batches", ranked, wide, count, rounds, exact=numpy_variances)
    return report.end()


def rows(n: int, p: int, mean: float, strong: float = 10.0) -> np.ndarray:
    """Rows with ten strong directions, noise, and means of about `mean`."""
    rng = np.random.default_rng(0)
    causes = rng.standard_normal((n, K)) * np.geomspace(strong, strong / 10, K)
    return causes @ rng.standard_normal((K, p)) + rng.standard_normal((n, p)) + mean * (1 + rng.random(p))


def show(
    report: Report,
    title: str,
    methods: dict[str, Callable[..., Any]],
    A: np.ndarray,
    count: int,
    rounds: int,
    exact: Callable[[np.ndarray], np.ndarray] | None = None,
) -> None:
    """Time methods in turns, and print their errors."""
    right = (exact or extended_variances)(A)
    batches = np.array_split(A, count)
    turns = alternate(
        {name: partial(method, batches) for name, method in methods.items()}, rounds, enough=120.0
    )
    table = report.table("method", "error::.1e", "CPU s::.2f", "said", title=title)
    errors = {}
    for name, taken in turns.items():
        found, said = taken.answer
        errors[name] = float(np.abs(found / right - 1).max())
        table.row(name, errors[name], taken.median, said)
    first, rivals = next(iter(methods)), list(methods)[1:]
    claims = [] if exact else [at_most(f"{first} is exact", errors[first], 1e-12, own=True)]
    for rival in rivals:
        median, worst = turns[first].over(turns[rival])
        figures = f"{median:.2f} of its processor seconds in the median, {worst:.2f} at worst"
        claims.append(Claim(f"{first} takes less time than {rival}", median < 1, figures, own=True))
    report.say(claims, title)


def held(batches: list[np.ndarray], rank: int | None = None) -> tuple[np.ndarray, str]:
    """Variances by held moments, and one solve at the end."""
    moments = ls.HeldMoments(ls.SVD, center=True, k=K, rank=rank)
    for batch in batches:
        moments.add(batch)
    solution = ls.solve(moments.problem(), "direct")
    return solution.explained_variance, f"{solution.status.name}, residual {solution.residual:.1e}"


def at_once(batches: list[np.ndarray]) -> tuple[np.ndarray, str]:
    """Variances by one solve on all rows."""
    solution = ls.solve(ls.SVD(np.vstack(batches), K, center=True))
    return solution.explained_variance, f"{solution.status.name}, residual {solution.residual:.1e}"


def partial_fit(batches: list[np.ndarray]) -> tuple[np.ndarray, str]:
    """Variances by `partial_fit`, which solves after each batch."""
    pca = PCA(K)
    for batch in batches:
        pca.partial_fit(batch)
    return pca.explained_variance_, pca.solution_.status.name


def fit_each(batches: list[np.ndarray]) -> tuple[np.ndarray, str]:
    """Variances by a fit on all rows so far, after each batch."""
    for i in range(1, len(batches) + 1):
        pca = PCA(K).fit(np.vstack(batches[:i]))
    return pca.explained_variance_, pca.solution_.status.name


def incremental(batches: list[np.ndarray], k: int | None = None) -> tuple[np.ndarray, str]:
    """Variances by scikit-learn; without `k` with all components. Batches with fewer rows are joined for it."""
    needed = batches[0].shape[1] if k is None else k
    step = -(-needed // len(batches[0]))
    pca = IncrementalPCA(k)
    for i in range(0, len(batches), step):
        pca.partial_fit(np.vstack(batches[i : i + step]) if step > 1 else batches[i])
    return pca.explained_variance_[:K], ""


def extended_variances(A: np.ndarray) -> np.ndarray:
    """Variances from the Gram matrix about the means in extended precision."""
    mean = A.mean(axis=0, dtype=np.longdouble)
    G = sum((some - mean).T @ (some - mean) for some in np.array_split(A, -(-len(A) // 20_000)))
    return np.linalg.eigvalsh(np.asarray(G, dtype=np.float64))[::-1][:K] / (len(A) - 1)


def numpy_variances(A: np.ndarray) -> np.ndarray:
    """Variances by NumPy's singular values."""
    return np.linalg.eigvalsh((C := A - A.mean(axis=0)).T @ C)[::-1][:K] / (len(A) - 1)


if __name__ == "__main__":
    raise SystemExit(main())
