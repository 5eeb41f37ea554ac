"""Print what a solve of a small problem takes: by "auto", by the name of the solver that it chooses, and elsewhere.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_small.py`; `--quick` makes few calls. No data are needed. The
calls alternate, so that a slow spell of the machine falls on all of them; the figures are milliseconds of the
processor, the median and, in brackets, the worst median of five rounds. scikit-learn fits the same data. The errors are
the largest relative difference from NumPy: of singular values, of coefficients, of correlations, and for LDA of the
ratios of the scatter between classes to that within them.

Beside them stands a step of conjugate gradients on sparse rows, 6000 x 2000 with one target, and a step of SciPy's
lsqr: the difference of two runs of many and of few steps, by the number of steps between.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from showing import Claim, Report, arguments
from timing import Turns, alternate

import linspec as ls

# Rounds, and times the processor time of a rival that a small solve may take.
ROUNDS, LIMIT = 5, 1.5
FEW, MANY, STEP_ROUNDS = 10, 40, 11
"""Steps of two runs whose difference is measured, and how often."""


class Small(NamedTuple):
    """A problem, its rival, and the figures that both are to give."""

    make: Callable[[], Any]
    rival: Callable[[], Any]
    exact: np.ndarray
    ours: Callable[[Any], Any]
    theirs: Callable[[Any], Any]

    def errors(self) -> list[float]:
        """The largest relative differences of both."""
        found = self.ours(ls.solve(self.make())), self.theirs(self.rival())
        return [float(np.max(np.abs(np.asarray(figures) / self.exact - 1))) for figures in found]


def problems() -> dict[str, Small]:
    """Return functions that make each problem, and the call of scikit-learn for it."""
    from sklearn.cross_decomposition import CCA
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import Ridge

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
        pairs = zip(*(Z.T for Z in model.transform(X, Y)), strict=True)
        return np.sort(np.abs([np.corrcoef(u, v)[0, 1] for u, v in pairs]))[::-1]

    return {
        "CCA, 200 x 10 + 8": Small(
            lambda: ls.CCA(X, Y, k=3),
            lambda: CCA(n_components=3).fit(X, Y),
            np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)[:3],
            lambda s: s.correlations,
            correlated,
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


def step() -> list[Turns]:
    """Processor seconds of a step of cg, and of SciPy's lsqr."""
    rng = np.random.default_rng(0)
    A = scipy.sparse.random_array((6000, 2000), density=0.02, format="csr", rng=rng)
    b = A @ rng.standard_normal(2000) + rng.standard_normal(6000)

    def ours(steps: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ls.errors.ConvergenceWarning)
            ls.solve(ls.LeastSquares(A, b), "cg", max_iterations=steps, tol=1e-15, form="implicit")

    def theirs(steps: int) -> None:
        scipy.sparse.linalg.lsqr(A, b, atol=0, btol=0, conlim=0, iter_lim=steps)

    calls = {(call, steps): partial(call, steps) for call in (ours, theirs) for steps in (FEW, MANY)}
    turns, found = alternate(calls, STEP_ROUNDS), []
    for call in (ours, theirs):
        pairs = zip(turns[call, FEW].cpu, turns[call, MANY].cpu, strict=True)
        found.append(Turns([(many - few) / (MANY - FEW) for few, many in pairs]))
    return found


def main() -> int:
    report = Report(arguments(__doc__))
    count = 5 if report.given.quick else 100
    ways = "stated", "by name", 'by "auto"', "scikit-learn"
    columns = (name for way in ways for name in (f"{way}, ms::.2f", "worst::.2f"))
    head = ("ratio::.2f", "worst::.2f", "errors::.0e", "scikit-learn's::.0e")
    table, claims = report.table("problem", "solver", *columns, *head), []
    for label, small in problems().items():
        name = ls.select(small.make()).name
        own = [partial(lambda make, way: ls.solve(make(), way), small.make, way) for way in (name, "auto")]
        calls = dict(zip(ways, (small.make, *own, small.rival), strict=True))
        alternate(calls, 3)
        rounds = [alternate(calls, count) for _ in range(ROUNDS)]
        medians = {way: Turns([one[way].median for one in rounds]) for way in ways}
        times = (1e3 * t for turns in medians.values() for t in (turns.median, max(turns.cpu)))
        ratio, worst = medians['by "auto"'].over(medians["scikit-learn"])
        table.row(label, name, *times, ratio, worst, *small.errors())
        text = f"{label}: a solve takes at most {LIMIT} times the time of scikit-learn"
        told = f"{ratio:.2f} in the median, {worst:.2f} at worst"
        claims.append(Claim(text, ratio <= LIMIT, told, own=True))
    ours, theirs = step()
    ratio, worst = ours.over(theirs)
    times = f"{1e3 * ours.median:.2f} ms and {1e3 * theirs.median:.2f} ms"
    text = f"a step of cg on sparse 6000 x 2000 takes at most {LIMIT} times the time of SciPy's lsqr"
    told = f"{times}, {ratio:.2f} in the median, {worst:.2f} at worst"
    report.say([*claims, Claim(text, ratio <= LIMIT, told, own=True)])
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
