"""Print what linspec takes beside the quickest code for one kind of data: peers, or NumPy and SciPy by hand.

    OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_rivals.py [ROW ...] --data FOLDER [--quick] [--rounds 11]

Methods take turns; a first round does not count. Seconds of the processor and of the clock are those of a whole call of
`linspec.solve`, its certificate included, or of all that a rival does from the data to the answer. Printed are medians,
the worst, linspec's over the rival's round by round, and the error relative to the largest exact figure. A row names
the share of the quickest rival with an equal error that linspec may take.

- small-*: two hundred rows or the digits, by `linspec.solve` and scikit-learn.
- ridge-*: sparse rows, one or twenty targets, no intercept, to 1e-6; folds: 11 ridges on 5 folds.
- words: one-hot pairs of words, XᵀY scaled by the roots of the diagonals and PROPACK by hand; images: Gram matrices by
  hand; stories, text: 50 triplets by PROPACK and ARPACK.
- pls: XᵀY and an SVD by hand; reduced: the definition by hand; batches: `partial_fit` of PCA.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import datasets
import measure_peers
import measure_small
import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.sparse.linalg import LinearOperator, svds
from showing import Claim, Report, arguments
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.linear_model import Ridge
from timing import alternate

import linspec as ls
from linspec import estimators

PAIRS, TRIPLETS = 20, 50


@dataclass(frozen=True)
class Row:
    """linspec's call and its rivals, which return figures; the exact figures; the share that linspec may take."""

    ours: Callable[[], Any]
    rivals: Mapping[str, Callable[[], Any]]
    exact: Callable[[], Any]
    limit: float
    calls: int = 1


# ---- small data ---------------------------------------------------------------------------------------------


def small(label: str, given: argparse.Namespace) -> Row:
    """A problem of 200 rows."""
    case = measure_small.problems()[label]
    return Row(
        lambda: case.ours(ls.solve(case.make())),
        {"scikit-learn": lambda: case.theirs(case.rival())},
        lambda: case.exact,
        1.0,
        10 if given.quick else 100,
    )


def digits_pca(given: argparse.Namespace) -> Row:
    """Ten components of the digits."""
    A = load_digits().data
    return Row(
        lambda: ls.solve(ls.SVD(A, 10, center=True)).S,
        {"scikit-learn": lambda: PCA(10).fit(A).singular_values_},
        lambda: np.linalg.svd(A - A.mean(axis=0), compute_uv=False)[:10],
        1.0,
        2 if given.quick else 20,
    )


def digits_ridge(given: argparse.Namespace) -> Row:
    """The number that a digit shows, by ridge regression with an intercept."""
    A, b = load_digits(return_X_y=True)
    b, centred = b.astype(float), A - A.mean(axis=0)
    return Row(
        lambda: ls.solve(ls.LeastSquares(A, b, ridge=1.0, center=True)).x,
        {"scikit-learn": lambda: Ridge(1.0).fit(A, b).coef_},
        lambda: np.linalg.solve(centred.T @ centred + np.eye(64), centred.T @ b),
        1.0,
        2 if given.quick else 20,
    )


# ---- sparse ridge -------------------------------------------------------------------------------------------


def ridge(n: int, p: int, targets: int, given: argparse.Namespace) -> Row:
    """Sparse rows with 30 entries each."""
    n, p = (n // 10, p // 10) if given.quick else (n, p)
    A, b = datasets.generated("ridge", 0, n, p, 30)
    rng = np.random.default_rng(2)
    B = np.hstack([b, A @ rng.standard_normal((p, targets - 1)) + rng.standard_normal((n, targets - 1))])
    C = A.tocsr()
    fits = {
        f"scikit-learn, {name}, {tol:g}": partial(sklearn_ridge, C, B, name, tol)
        for name, tol in (("sparse_cg", 1e-4), ("sparse_cg", 1e-6), ("lsqr", 1e-6), ("auto", 1e-4))
    }
    return Row(
        lambda: ls.solve(ls.LeastSquares(C, B, ridge=1.0), rng=0).x,
        fits,
        lambda: ls.solve(ls.LeastSquares(C, B, ridge=1.0), "cg", tol=1e-13).x,
        1.0,
        max(1, 20_000 // (n * targets)),
    )


def sklearn_ridge(A: Any, B: np.ndarray, solver: str, tol: float) -> np.ndarray:
    return Ridge(1.0, fit_intercept=False, solver=solver, tol=tol).fit(A, B).coef_.T


def folds(n: int, p: int, given: argparse.Namespace) -> Row:
    """Eleven ridges on five folds."""
    n, p = (n // 10, p // 10) if given.quick else (n, p)
    data = measure_peers.sparse_rows(given)
    data.A, b = datasets.generated("ridge", 0, n, p, 30)
    data.b = b.ravel()
    return Row(
        lambda: measure_peers.folds_linspec(data),
        {"scikit-learn": lambda: measure_peers.folds_sklearn(data)},
        lambda: measure_peers.folds_sklearn(data),
        1.0,
    )


# ---- canonical correlations ---------------------------------------------------------------------------------


def images(given: argparse.Namespace) -> Row:
    """Dense halves of digits."""
    X, Y, _ = datasets.split_halves(given)
    strength = 300.0 * len(X) / 60000
    problem = ls.CCA(X, Y, PAIRS, ridge=strength)
    return Row(
        lambda: ls.solve(ls.CCA(X, Y, PAIRS, ridge=strength), rng=0).correlations,
        {"NumPy: Gram matrices, Cholesky factors, SVD": partial(gram_matrices, X, Y, strength)},
        lambda: ls.solve(problem, "direct").correlations,
        1.0,
    )


def gram_matrices(X: np.ndarray, Y: np.ndarray, strength: float) -> np.ndarray:
    """Gram matrices less those of the means, Cholesky factors and an SVD."""
    Sx, C, Sy = X.T @ X, X.T @ Y, Y.T @ Y
    x, y, n = X.mean(axis=0), Y.mean(axis=0), len(X)
    Sx, C, Sy = Sx - n * np.outer(x, x), C - n * np.outer(x, y), Sy - n * np.outer(y, y)
    Lx, Ly = (np.linalg.cholesky(S + strength * np.eye(len(S))) for S in (Sx, Sy))
    T = scipy.linalg.solve_triangular(Lx, C, lower=True)
    T = scipy.linalg.solve_triangular(Ly, T.T, lower=True).T
    U, rho, Vt = np.linalg.svd(T, full_matrices=False)
    for L, W in ((Lx, U[:, :PAIRS]), (Ly, Vt[:PAIRS].T)):
        scipy.linalg.solve_triangular(L, W, lower=True, trans="T")
    return rho[:PAIRS]


def words(given: argparse.Namespace, *, center: bool) -> Row:
    """One-hot pairs of words."""
    X, Y, _ = datasets.next_words(given, 10_000)
    problem = ls.CCA(X, Y, PAIRS, ridge=1.0, center=center)
    options = {"rng": 1, "tol": 1e-13, "oversample": 30, "max_iterations": 1500}
    return Row(
        lambda: ls.solve(ls.CCA(X, Y, PAIRS, ridge=1.0, center=center), rng=0).correlations,
        {"SciPy: a scaling and PROPACK": partial(one_hot, X, Y, 1.0, center=center)},
        lambda: ls.solve(problem, "lobpcg", **options).correlations,
        1.3,
    )


def one_hot(X: Any, Y: Any, strength: float, *, center: bool) -> np.ndarray:
    """Scaling and PROPACK. Centring subtracts n μμᵀ from a diagonal: its inverse root is known, too."""
    counts = [np.bincount(A.indices, A.data**2, minlength=A.shape[1]) for A in (X, Y)]
    roots = [1 / np.sqrt(count + strength) for count in counts]
    left, right = (scipy.sparse.diags_array(root) for root in roots)
    T = scipy.sparse.csr_array(left @ (X.T @ Y) @ right)
    whole: Any = T
    if center:
        u, v = (root * count / np.sqrt(X.shape[0]) for root, count in zip(roots, counts, strict=True))
        a, b = (((1 - w @ w) ** -0.5 - 1) / (w @ w) for w in (u, v))

        def forward(y: np.ndarray) -> np.ndarray:
            z = y + b * v * (v @ y)
            z = T @ z - u * (v @ z)
            return z + a * u * (u @ z)

        def backward(x: np.ndarray) -> np.ndarray:
            z = x + a * u * (u @ x)
            z = T.T @ z - v * (u @ z)
            return z + b * v * (v @ z)

        whole = LinearOperator(T.shape, matvec=forward, rmatvec=backward, dtype=np.float64)
    U, rho, Vt = svds(whole, PAIRS, solver="propack", random_state=0)
    for root, W in zip(roots, (U, Vt.T), strict=True):
        W *= root[:, None]
    return np.sort(rho)[::-1]


# ---- singular values and partial least squares --------------------------------------------------------------


def triplets(read: Callable[[argparse.Namespace], Any], given: argparse.Namespace) -> Row:
    """Sparse text, and SciPy's solvers at the tolerance that comes nearest to ours."""
    A, k = read(given), 10 if given.quick else TRIPLETS
    values = lambda solver, tol: np.sort(svds(A, k, solver=solver, tol=tol, random_state=0)[1])[::-1]  # noqa: E731
    rivals = {
        f"SciPy: {solver}, tolerance {tol:g}": partial(values, solver, tol)
        for solver, tol in (("propack", 1e-4), ("arpack", 1e-2), ("arpack", 0.0))
    }
    return Row(lambda: ls.solve(ls.SVD(A, k), rng=0).S, rivals, partial(values, "arpack", 0.0), 1.0)


def generated_text(given: argparse.Namespace) -> Any:
    """Tf-idf of 25,000 generated texts of 48,000 words, with the frequencies of text, on 200 topics."""
    n, p, topics = (2500, 4800, 20) if given.quick else (25_000, 48_000, 200)
    rng = np.random.default_rng(0)
    topic, lengths = rng.integers(topics, size=n), rng.poisson(80, n) + 5
    word = (np.exp(rng.random(lengths.sum()) * np.log(p)) - 1).astype(np.int64)
    of_topic = rng.random(word.size) < 0.25
    shifted = (word + 7919 * np.repeat(topic, lengths)) % p
    columns = np.where(of_topic, shifted, word)
    counts = scipy.sparse.csr_matrix(
        (np.ones(word.size), columns, np.concatenate([[0], lengths.cumsum()])), (n, p)
    )
    counts.sum_duplicates()
    return datasets.tf_idf(counts)


def pls(given: argparse.Namespace) -> Row:
    """Ten pairs of dense views."""
    data = measure_peers.dense(given)

    def by_hand() -> Any:
        C = data.X.T @ data.Y - len(data.X) * np.outer(data.X.mean(axis=0), data.Y.mean(axis=0))
        return np.linalg.svd(C)[1][:10]

    return Row(
        lambda: ls.solve(ls.PLS(data.X, data.Y, k=10), rng=0).singular_values,
        {"NumPy": by_hand},
        by_hand,
        1.05,
    )


def reduced(given: argparse.Namespace) -> Row:
    """Rank five of thirty targets with intercepts."""
    data = measure_peers.low_rank(given)
    by_hand = partial(measure_peers.reduced_scipy, data)
    return Row(partial(measure_peers.REDUCED["linspec"], data), {"NumPy": by_hand}, by_hand, 1.05)


def batches(given: argparse.Namespace) -> Row:
    """Twenty components by `partial_fit` of batches of 1000 rows."""
    n, p = (4000, 50) if given.quick else (40_000, 200)
    A = datasets.generated("SVD", 0, n, p)[0]

    def fitted(model: Any) -> np.ndarray:
        for start in range(0, n, 1000):
            model.partial_fit(A[start : start + 1000])
        return model.singular_values_

    return Row(
        lambda: fitted(estimators.PCA(20)),
        {"IncrementalPCA": lambda: fitted(IncrementalPCA(20))},
        lambda: np.linalg.svd(A - A.mean(axis=0), compute_uv=False)[:20],
        0.8,
    )


SIZES = ((1200, 800), (3000, 2000), (10_000, 5000), (50_000, 10_000))

ROWS: dict[str, Callable[[argparse.Namespace], Row]] = {
    **{
        f"small-{label.partition(',')[0]}": partial(small, label)
        for label in ("CCA, 200 x 10 + 8", "PCA, 200 x 10", "ridge, 200 x 10", "LDA, 200 x 10")
    },
    "digits-PCA": digits_pca,
    "digits-ridge": digits_ridge,
    **{f"ridge-{n}x{p}x{m}": partial(ridge, n, p, m) for n, p in SIZES for m in (1, 20)},
    **{f"folds-{n}x{p}": partial(folds, n, p) for n, p in SIZES[:3]},
    "words": partial(words, center=False),
    "words-centred": partial(words, center=True),
    "images": images,
    "stories": partial(triplets, datasets.news_stories),
    "text": partial(triplets, generated_text),
    "pls": pls,
    "reduced": reduced,
    "batches": batches,
}


def measured(report: Report, name: str) -> Claim | None:
    """Print one row, and return the claim that it makes."""
    row = ROWS[name](report.given)
    exact = np.ravel(row.exact())

    def repeated(call: Callable[[], Any]) -> Any:
        for _ in range(row.calls - 1):
            call()
        return call()

    calls = {way: partial(repeated, call) for way, call in {"linspec": row.ours, **row.rivals}.items()}
    turns = alternate(calls, report.given.rounds + 1, enough=60.0, warm=True)
    head = "CPU ms::.2f", "worst::.2f", "clock ms::.2f", "linspec over it::.2f", "worst::.2f", "error::.0e"
    table, ours, equal = report.table("method", *head, title=name), turns["linspec"], []
    error = {
        way: float(np.abs(np.ravel(taken.answer) - exact).max() / np.abs(exact).max())
        for way, taken in turns.items()
    }
    for way, taken in turns.items():
        cpu, clock = (1e3 * np.asarray(seconds) / row.calls for seconds in (taken.cpu, taken.clock))
        table.row(way, np.median(cpu), cpu.max(), np.median(clock), *ours.over(taken), error[way])
        if way != "linspec" and error[way] <= 10 * max(error["linspec"], 1e-10):
            equal.append(way)
    if not equal:
        return None
    best = min(equal, key=lambda way: turns[way].median)
    ratio, worst = ours.over(turns[best])
    told = f"{ratio:.2f} in the median, {worst:.2f} at worst, beside {best}"
    return Claim(
        f"{name}: at most {row.limit} times the quickest rival that is as exact", ratio <= row.limit, told
    )


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--rounds", type=int, default=11)
    report = Report(parser)
    warnings.simplefilter("ignore")
    report.say([claim for name in report.given.rows or ROWS if (claim := measured(report, name))])
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
