"""Print how near two published randomized SVDs and two solvers of linspec come after equal numbers of passes.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_published_svd.py --data FOLDER`; `--quick` takes small
generated data. `--sets` chooses among the data of `measure_svd.py`, the dense ones centred beforehand.

A pass is a product with A and one with Aᵀ, each of a block of k + 10 columns. All products of a method count: the last
ones of the rivals, and those of linspec's certificate, which the rivals do not have. In P passes

- the windows of PCAone make P epochs, with 64 windows, or 2^(P-1) if these are fewer;
- dashSVD makes P - 1 powers, once with 10 and once with k/2 columns beyond the triplets; the latter is its authors'
  choice, and costs a quarter more;
- `spca`, the subspace iteration, makes P - 2 powers;
- `block-krylov`, with blocks of k + 10 columns, makes P - 1 steps, or P - 2 with AAᵀ, where sparse data have fewer rows
  than columns. It sweeps; left to itself it would make one pass over the dense data, and hold AᵀA.

columns: products of A or Aᵀ with one column; those of the rivals are counted as they are made, those of linspec as its
answer says. vectors: how many the method holds beside its answer, of the length of the shorter side of A and of the
longer one; copies that an orthonormalisation makes do not count. σ: the largest relative error of the singular values.
space: sine of the largest principal angle between the spans of right vectors. Both are against SciPy's ARPACK at
machine precision, the median and the worst of `--seeds` seeds.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from measure_svd import SETS, Case, cases, errors
from published_svd import dash_svd, window_svd
from showing import Claim, Report, arguments

import linspec as ls

K, MORE = 50, 10
"""Triplets wanted, and columns of a block beyond them."""

PASSES = 4, 8, 12
ENOUGH = 8
"""Passes from which on linspec claims to come nearest; with fewer its space is too small."""

SEEDS = 5


class Counted:
    """A matrix whose products are counted: columns, and for some of its rows that share of them."""

    def __init__(self, A: Any, counts: list[float], share: float = 1.0) -> None:
        self.A, self.counts, self.share = A, counts, share
        self.shape = A.shape

    def __matmul__(self, V: np.ndarray) -> Any:
        self.counts.append(self.share * V.shape[1])
        return self.A @ V

    def __getitem__(self, rows: np.ndarray) -> Counted:
        return Counted(self.A[rows], self.counts, self.share * len(rows) / self.shape[0])

    @property
    def T(self) -> Counted:
        """The transpose."""
        return Counted(self.A.T, self.counts, self.share)


Found = tuple[np.ndarray, np.ndarray, float]
"""S, Vh, and columns of products."""


@dataclass(frozen=True)
class Method:
    """One way to the triplets: by case, passes and seed; blocks held on the shorter side, and on the longer one."""

    name: str
    solve: Callable[[Case, int, int], Found]
    short: Callable[[int], int]
    long: int
    more: int = MORE


def by_windows(case: Case, passes: int, seed: int) -> Found:
    """Windows of PCAone."""
    return _counted(case, window_svd, seed, more=MORE, epochs=passes)


def by_dash(case: Case, passes: int, seed: int, more: int = MORE) -> Found:
    """Power iterations with dynamic shifts."""
    return _counted(case, dash_svd, seed, more=more, powers=passes - 1)


def _counted(case: Case, published: Callable[..., Any], seed: int, **options: int) -> Found:
    counts: list[float] = []
    rng = np.random.default_rng(seed)
    _, S, Vh = published(Counted(case.plain, counts), len(case.S), rng=rng, **options)
    return S, Vh, sum(counts)


def by_spca(case: Case, passes: int, seed: int) -> Found:
    """linspec's subspace iteration."""
    return _by_linspec(case, "spca", seed, power_iterations=passes - 2, oversampling=MORE)


def by_krylov(case: Case, passes: int, seed: int) -> Found:
    """linspec's block Krylov iteration."""
    options = {"block": len(case.S) + MORE, "max_passes": passes, "tol": 1e-15, "form": "implicit"}
    return _by_linspec(case, "block-krylov", seed, **options)


def _by_linspec(case: Case, solver: str, seed: int, **options: Any) -> Found:
    s = ls.solve(ls.SVD(case.plain, len(case.S)), solver, rng=seed, **options)
    return s.S, s.Vh, s.columns


def methods(k: int) -> list[Method]:
    """All of them; the rivals come first."""
    wide = k // 2
    return [
        Method("PCAone's windows", by_windows, lambda _: 3, 1),
        Method("dashSVD", by_dash, lambda _: 2, 1),
        Method(f"dashSVD, {k + wide} columns", lambda c, p, s: by_dash(c, p, s, wide), lambda _: 2, 1, wide),
        Method("linspec spca", by_spca, lambda _: 1, 1),
        Method("linspec block-krylov", by_krylov, lambda passes: passes, 0),
    ]


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", default=["reuters", "mnist"], choices=list(SETS))
    parser.add_argument("--passes", nargs="+", type=int, default=list(PASSES), help="at least 2")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--k", type=int, default=K, help="triplets wanted")
    report = Report(parser)
    given = report.given
    for case in cases(given):
        table = report.table(
            "passes", "method", "columns::.0f", "vectors", "σ::.1e", "worst::.1e", "space::.1e", "worst::.1e",
            title=case.name,
        )  # fmt: skip
        for passes in given.passes:
            middle = {}
            for method in methods(len(case.S)):
                runs = [method.solve(case, passes, seed) for seed in range(given.seeds)]
                off, angles = zip(*(errors(case, S, Vh) for S, Vh, _ in runs), strict=True)
                middle[method.name] = statistics.median(off), statistics.median(angles)
                width = len(case.S) + method.more
                held = f"{method.short(passes) * width} + {method.long * width}"
                (off_middle, angle), columns = middle[method.name], max(run[2] for run in runs)
                table.row(passes, method.name, columns, held, off_middle, max(off), angle, max(angles))
            if passes >= ENOUGH:
                report.say([nearer(middle)], f"{case.name}, {passes} passes")
    return report.end()


def nearer(middle: dict[str, tuple[float, float]]) -> Claim:
    """Whether both errors of block Krylov are below those of all others."""
    *others, (_, own) = middle.items()
    least = [min(errors_of[i] for _, errors_of in others) for i in (0, 1)]
    figures = f"{own[0]:.1e} for {least[0]:.1e}, {own[1]:.1e} for {least[1]:.1e}"
    text = "block-krylov comes nearer than the others, in values and in space"
    return Claim(text, own[0] < least[0] and own[1] < least[1], figures, own=True)


if __name__ == "__main__":
    sys.exit(main())
