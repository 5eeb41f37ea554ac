"""Print how long CCA takes beside other libraries and a hand-written script, and what correlations each finds.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_cca_peers.py --data FOLDER`; `--quick` takes small generated
data, `--sets` some of images, titles, words.

- images: left 14 columns of 60,000 digits against right 14, k = 20: uncentred with ridge 0.005 n beside the bare cost
  of XᵀX, XᵀY, YᵀY by NumPy; centred with ridge 0.001 n; centred without a ridge, where scikit-learn can take part;
- titles: words of 74,067 titles and queries, sparse, uncentred, ridge 1;
- words: words and next words of 929,588, one-hot, sparse, uncentred, ridge 1.

"SciPy by hand" is what one writes without a library for CCA. Dense data: Gram matrices, Cholesky factors and `svds`
(ARPACK) of the whitened cross product. Sparse data: sparse Gram matrices, `splu`, and `eigsh` (ARPACK) on the pencil
[0 C; Cᵀ 0], diag(Sx, Sy). With `--dense` also the first on sparse data (titles: 6 GB). cca-zoo (`pip install
cca-zoo==4.0.1`) and scikit-learn are compared where they are installed. A refusal is printed as the library says it.

Each round runs every method once, so that all meet the same machine; figures are the median and the worst of the
rounds, and of the ratios to "auto" in the same round. The sum is that of the correlations in the span of the weights,
with the ridge, computed alike for all. Slow methods have rounds of their own number.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from datasets import bigrams, mnist_halves, titles_and_queries
from showing import Report, arguments
from timing import alternate

import linspec as ls

K = 20

Weights = tuple[Any, Any] | None
Method = Callable[[], Weights]


@dataclass
class Comparison:
    """One problem, and those who try it."""

    title: str
    problem: ls.CCA
    methods: dict[str, Method] = field(default_factory=dict)
    slow: dict[str, Method] = field(default_factory=dict)

    def total(self, weights: Weights) -> float:
        """The sum of the correlations in the span of weights; it is not timed."""
        if weights is None:
            return np.nan
        p = self.problem
        return ls.metrics.tcc(p.X, p.Y, *weights, ridge=p.ridge, center=p.center)


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="all three")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slow-rounds", type=int, default=1, help="rounds of what takes minutes")
    parser.add_argument("--dense", action="store_true", help="dense Gram matrices of sparse data, too")
    report = Report(parser)
    for name in report.given.sets:
        for comparison in SETS[name](report.given):
            show(report, comparison)
    return report.end()


def images(given: argparse.Namespace) -> list[Comparison]:
    """Dense views."""
    X, Y = mnist_halves(given)
    n = X.shape[0]
    bare = Comparison("images, uncentred, ridge 0.005 n", ls.CCA(X, Y, K, ridge=0.005 * n, center=False))
    bare.methods |= {**linspec(bare.problem), "SciPy by hand": by_hand(X, Y, 0.005 * n)}
    bare.methods["XᵀX, XᵀY, YᵀY by NumPy"] = lambda: bare_products(X, Y)
    ridged = Comparison("images, centred, ridge 0.001 n", ls.CCA(X, Y, K, ridge=0.001 * n))
    ridged.methods |= {**linspec(ridged.problem), "SciPy by hand": by_hand(X, Y, 0.001 * n, center=True)}
    plain = Comparison("images, centred, ridge 0", ls.CCA(X, Y, K))
    plain.methods |= linspec(plain.problem)
    add_cca_zoo(X, Y, ridged, plain, quick=given.quick)
    if importlib.util.find_spec("sklearn"):
        plain.slow["scikit-learn CCA"] = lambda: scikit_learn(X, Y)
    return [bare, ridged, plain]


def titles(given: argparse.Namespace) -> list[Comparison]:
    """Sparse views whose Gram matrices are sparse."""
    return [sparse("titles, uncentred, ridge 1", *titles_and_queries(given), given)]


def words(given: argparse.Namespace) -> list[Comparison]:
    """Sparse views whose Gram matrices are diagonal."""
    return [sparse("words, uncentred, ridge 1", *bigrams(given), given)]


SETS = {"images": images, "titles": titles, "words": words}


def sparse(title: str, X: Any, Y: Any, given: argparse.Namespace) -> Comparison:
    """All that take sparse views, and the refusals of those that do not."""
    one = Comparison(title, ls.CCA(X, Y, K, ridge=1.0, center=False))
    one.methods |= {**linspec(one.problem), "SciPy by hand": by_hand(X, Y, 1.0)}
    one.slow["linspec gram"] = one.methods.pop("linspec gram")
    if given.dense:
        one.slow["SciPy by hand, dense"] = by_hand(X, Y, 1.0, dense=True)
    if importlib.util.find_spec("sklearn"):
        one.slow["scikit-learn CCA"] = lambda: scikit_learn(X, Y)
    if importlib.util.find_spec("cca_zoo"):
        from cca_zoo.linear import RidgeCCA

        one.slow["cca-zoo RidgeCCA"] = lambda: RidgeCCA(K, center=False).fit([X, Y]).weights_
    return one


# ---- linspec ---------------------------------------------------------------------------------------


def linspec(problem: ls.CCA) -> dict[str, Method]:
    """Return linspec's methods: the choice of "auto", and solvers by name."""
    methods: dict[str, Method] = {}
    for name, options in (
        ("auto", {}), ("gram", {}), ("lobpcg", {}), ("lobpcg", {"tol": 1e-3}), ("lobpcg", {"form": "implicit"}),
    ):  # fmt: skip
        if name == "auto" or name in ls.solvers("cca"):
            told = ", ".join(f"{option} {value}" for option, value in options.items())
            methods[f"linspec {name}" + (f", {told}" if told else "")] = ours(problem, name, options)
    return methods


def ours(problem: ls.CCA, name: str, options: dict[str, Any]) -> Method:
    """One of linspec's solvers."""

    def run() -> Weights:
        solution = ls.solve(problem, name, rng=0, **options)
        return solution.x_weights, solution.y_weights

    return run


# ---- the rivals ------------------------------------------------------------------------------------


def bare_products(X: Any, Y: Any) -> None:
    """XᵀX, XᵀY and YᵀY, and nothing else."""
    _ = X.T @ X, X.T @ Y, Y.T @ Y


def by_hand(X: Any, Y: Any, ridge: float, *, center: bool = False, dense: bool = False) -> Method:
    """The script that fits the data."""

    def run() -> Weights:
        if scipy.sparse.issparse(X) and not dense:
            return pencil(X, Y, ridge)
        return whitened(X, Y, ridge, center)

    return run


def whitened(X: Any, Y: Any, ridge: float, center: bool) -> Weights:
    """Gram matrices, Cholesky factors, ARPACK on the whitened cross product."""
    if center:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    Sx, Sy, C = X.T @ X, Y.T @ Y, X.T @ Y
    if scipy.sparse.issparse(Sx):
        Sx, Sy, C = Sx.toarray(), Sy.toarray(), C.toarray()
    Sx[np.diag_indices_from(Sx)] += ridge
    Sy[np.diag_indices_from(Sy)] += ridge
    Lx, Ly = (scipy.linalg.cholesky(S, lower=True, overwrite_a=True) for S in (Sx, Sy))
    T = scipy.linalg.solve_triangular(Lx, C, lower=True, overwrite_b=True)
    T = scipy.linalg.solve_triangular(Ly, T.T, lower=True)
    V, _, Ut = scipy.sparse.linalg.svds(T, K, random_state=0)
    return tuple(scipy.linalg.solve_triangular(L, W, lower=True, trans="T") for L, W in ((Lx, Ut.T), (Ly, V)))  # type: ignore[return-value]


def pencil(X: Any, Y: Any, ridge: float) -> Weights:
    """Sparse Gram matrices, LU factors, ARPACK on the pencil."""
    (p, q), sp = (X.shape[1], Y.shape[1]), scipy.sparse
    C = (X.T @ Y).tocsr()
    A = sp.block_array([[None, C], [C.T, None]]).tocsr()
    grams = [(V.T @ V + ridge * sp.eye_array(V.shape[1])).tocsc() for V in (X, Y)]
    symmetric = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    factors = [sp.linalg.splu(S, **symmetric) for S in grams]

    def solve(b: Any) -> Any:
        return np.concatenate([factors[0].solve(b[:p]), factors[1].solve(b[p:])])

    inverse = sp.linalg.LinearOperator((p + q, p + q), matvec=solve)
    start = np.random.default_rng(0).standard_normal(p + q)
    W = sp.linalg.eigsh(A, K, M=sp.block_diag(grams).tocsr(), Minv=inverse, which="LA", v0=start, tol=1e-6)[1]
    return W[:p], W[p:]


def scikit_learn(X: Any, Y: Any) -> Weights:
    """NIPALS, without a ridge."""
    from sklearn import cross_decomposition

    model = cross_decomposition.CCA(K, max_iter=500).fit(X, Y)
    return model.x_rotations_, model.y_rotations_


def add_cca_zoo(X: Any, Y: Any, ridged: Comparison, plain: Comparison, *, quick: bool) -> None:
    """cca-zoo's exact and gradient models, where it is installed."""
    if not importlib.util.find_spec("cca_zoo"):
        return
    from cca_zoo.linear import CCA, CCAEY, RidgeCCA
    from cca_zoo.stochastic import StochasticCCAEY

    # Theirs is (1 − c) XᵀX/(n − 1) + c I, which is proportional to ours.
    penalty = ridged.problem.ridge[0] / (X.shape[0] - 1)
    share = penalty / (1 + penalty)
    often, epochs = (50, 2) if quick else (1000, 50)
    ridged.methods["cca-zoo RidgeCCA"] = lambda: RidgeCCA(K, shrinkage=share).fit([X, Y]).weights_
    ridged.slow["cca-zoo CCAEY"] = lambda: (
        CCAEY(K, shrinkage=share, max_iter=often, random_state=0).fit([X, Y]).weights_
    )
    ridged.slow["cca-zoo StochasticCCAEY"] = lambda: (
        StochasticCCAEY(K, shrinkage=share, batch_size=500, max_iter=epochs, random_state=0)
        .fit([X, Y])
        .weights_
    )
    plain.methods["cca-zoo CCA"] = lambda: CCA(K).fit([X, Y]).weights_


# ---- timing ----------------------------------------------------------------------------------------


def show(report: Report, comparison: Comparison) -> None:
    """Time all methods round by round and print a table."""
    given = report.given
    rounds = dict.fromkeys(comparison.methods, given.rounds) | dict.fromkeys(
        comparison.slow, given.slow_rounds
    )
    found = alternate({**comparison.methods, **comparison.slow}, rounds)
    own = found["linspec auto"]
    table = report.table(
        "", "CPU s, median::.3f", "worst::.3f", "runs", "clock s, median::.3f", "over auto, median::.2f", "worst::.2f",
        "sum of the correlations::.8f", title=comparison.title,
    )  # fmt: skip
    for name, turns in found.items():
        if turns.said:
            table.row(name, "", "", "", "", "", "", turns.said)
            continue
        clock, runs = float(np.median(turns.clock)), len(turns.cpu)
        total = comparison.total(turns.answer)
        table.row(name, turns.median, max(turns.cpu), runs, clock, *turns.over(own), total)


if __name__ == "__main__":
    sys.exit(main())
