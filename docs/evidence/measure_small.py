"""Print what a solve of a small problem takes: by "auto", by the name of the solver that it chooses, and elsewhere.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_small.py`; `--quick` makes few calls. No data are needed. The
calls alternate, so that a slow spell of the machine falls on all of them; the figures are milliseconds of the
processor, the median and, in brackets, the worst median of five rounds. scikit-learn fits the same data. The errors are
the largest relative difference from NumPy: of singular values, of coefficients, of correlations, and for LDA of the
ratios of the scatter between classes to that within them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.cross_decomposition import CCA
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge

import linspec as ls

ROUNDS = 5


@dataclass(frozen=True)
class Small:
    """A problem, its rival, and the figures that both are to give."""

    make: Callable[[], Any]
    rival: Callable[[], Any]
    exact: np.ndarray
    ours: Callable[[Any], Any]
    theirs: Callable[[Any], Any]

    def error(self, found: Any) -> float:
        """The largest relative difference."""
        return float(np.max(np.abs(np.asarray(found) / self.exact - 1)))


def problems() -> dict[str, Small]:
    """What makes each problem, and what scikit-learn does."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 10))
    Y = X[:, :8] + rng.standard_normal((200, 8))
    y = rng.integers(0, 3, 200)
    Z = X + rng.standard_normal((3, 10))[y]
    Xc, Yc, Zc = (A - A.mean(axis=0) for A in (X, Y, Z))
    bases = [np.linalg.qr(A)[0] for A in (Xc, Yc)]
    means = np.stack([Zc[y == c].mean(axis=0) for c in range(3)])[y]
    ratios = scipy.linalg.eigh(means.T @ means, (Zc - means).T @ (Zc - means), eigvals_only=True)[:-3:-1]

    def correlated(model: Any) -> Any:
        return np.sort(np.abs([np.corrcoef(u, v)[0, 1] for u, v in zip(*(Z.T for Z in model), strict=True)]))[
            ::-1
        ]

    return {
        "CCA, 200 x 10 + 8": Small(
            lambda: ls.CCA(X, Y, k=3),
            lambda: CCA(n_components=3).fit(X, Y),
            np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)[:3],
            lambda s: s.correlations,
            lambda m: correlated(m.transform(X, Y)),
        ),
        "PCA, 200 x 10": Small(
            lambda: ls.SVD(X, k=3, center=True),
            lambda: PCA(n_components=3).fit(X),
            np.linalg.svd(Xc, compute_uv=False)[:3],
            lambda s: s.S,
            lambda m: m.singular_values_,
        ),
        "ridge, 200 x 10": Small(
            lambda: ls.LeastSquares(X, Y[:, 0], ridge=1.0, center=True),
            lambda: Ridge(alpha=1.0).fit(X, Y[:, 0]),
            np.linalg.solve(Xc.T @ Xc + np.eye(10), Xc.T @ Y[:, 0]),
            lambda s: s.x.ravel(),
            lambda m: m.coef_,
        ),
        "LDA, 200 x 10": Small(
            lambda: ls.Discriminant(Z, ls.targets.lda(y), k=2),
            lambda: LinearDiscriminantAnalysis(n_components=2).fit(Z, y),
            ratios,
            lambda s: s.eigenvalues / (1 - s.eigenvalues),
            lambda m: m.explained_variance_ratio_ * ratios.sum(),
        ),
    }


def medians(calls: list[Callable[[], Any]], count: int) -> list[float]:
    """Median milliseconds of the processor of alternating calls."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(count):
        for call, taken in zip(calls, times, strict=True):
            began = time.process_time_ns()
            call()
            taken.append((time.process_time_ns() - began) / 1e6)
    return [statistics.median(taken) for taken in times]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few calls")
    given = parser.parse_args()
    count = 5 if given.quick else 100
    print('| problem | solver | stated, ms | by name | by "auto" | scikit-learn | ratio | errors |')
    print("|---|---|---|---|---|---|---|---|")
    for label, small in problems().items():
        make = small.make
        name = ls.select(make()).name
        calls = [make, lambda: ls.solve(make(), name), lambda: ls.solve(make()), small.rival]  # noqa: B023
        medians(calls, 3)
        rounds = list(zip(*(medians(calls, count) for _ in range(ROUNDS)), strict=True))
        typical = [statistics.median(times) for times in rounds]
        figures = " | ".join(f"{t:.2f} ({max(times):.2f})" for t, times in zip(typical, rounds, strict=True))
        ours, theirs = small.error(small.ours(ls.solve(make()))), small.error(small.theirs(small.rival()))
        print(
            f"| {label} | {name} | {figures} | {typical[2] / typical[3]:.2f} | {ours:.0e}, {theirs:.0e} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
