"""Print what linspec takes beside code that one writes with NumPy and SciPy for one kind of data.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_by_hand.py --data FOLDER`; `--quick` takes small generated
data, `--rows` some of the rows. Methods take turns. Seconds of the processor and of the clock are those of a whole call
of `linspec.solve`, its certificate included, or of all that is done by hand, from the data to the vectors: medians, and
ratios round by round.

- images: CCA of the left and the right halves of digits, dense, centred, k = 20, ridge 300. By hand: Gram matrices less
  those of the means, Cholesky factors and an SVD.
- words, centred words: CCA of word and next word, one-hot and sparse, k = 20, ridge 1. By hand: XᵀY, a scaling by the
  roots of the diagonals, and PROPACK; centred as an operator of two more vectors.
- stories: 50 singular triplets of tf-idf of news stories, beside PROPACK and ARPACK of SciPy.
- text: 50 singular triplets of generated tf-idf, 25,000 x 48,000 with the word frequencies of text, beside the same.

error: the largest error of the correlations or singular values, relative to the largest value.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from datasets import bigrams, generated_text, mnist_halves, news_stories
from scipy.sparse.linalg import LinearOperator, svds
from showing import Claim, Report, arguments
from timing import alternate, ratios

import linspec as ls

PAIRS, TRIPLETS = 20, 50


@dataclass(frozen=True)
class Row:
    """One kind of data: linspec's call, the rivals and the exact figures, correlations or singular values."""

    ours: Callable[[], np.ndarray]
    rivals: dict[str, Callable[[], np.ndarray]]
    exact: Callable[[], np.ndarray]
    limit: float


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS), metavar="ROW")
    parser.add_argument("--rounds", type=int, default=11)
    report = Report(parser)
    given = report.given
    head = (
        "CPU s::.3f",
        "worst::.3f",
        "seconds::.3f",
        "linspec over it, CPU::.2f",
        "worst::.2f",
        "clock::.2f",
        "error::.0e",
    )
    table, claims = report.table("row", "method", *head), []
    for name in given.rows:
        row = ROWS[name](given)
        exact = row.exact()
        turns = alternate({"linspec": row.ours, **row.rivals}, given.rounds + 1, warm=True)
        own = turns["linspec"]
        error = {way: float(np.abs(taken.answer - exact).max() / exact[0]) for way, taken in turns.items()}
        for way, taken in turns.items():
            clock = ratios(own.clock, taken.clock)[0]
            seconds = float(np.median(taken.clock))
            table.row(name, way, taken.median, max(taken.cpu), seconds, *own.over(taken), clock, error[way])
        equal = [way for way in row.rivals if error[way] <= 10 * max(error["linspec"], 1e-10)]
        if equal:
            best = min(equal, key=lambda way: turns[way].median)
            middle, worst = own.over(turns[best])
            figures = f"{middle:.2f} in the median, {worst:.2f} at worst, beside {best}"
            text = f"{name}: at most {row.limit} times the CPU of the quickest rival that is as exact"
            claims.append(Claim(text, middle <= row.limit, figures, own=True))
    report.say(claims)
    return report.end()


# ---- canonical correlations ------------------------------------------------------------------------


def images(given: argparse.Namespace) -> Row:
    """Return dense halves of digits."""
    X, Y = mnist_halves(given)
    ridge = 300.0 * len(X) / 60000
    problem = ls.CCA(X, Y, PAIRS, ridge=ridge)
    return Row(
        lambda: ls.solve(ls.CCA(X, Y, PAIRS, ridge=ridge), rng=0).correlations,
        {"NumPy: Gram matrices, Cholesky factors, SVD": partial(gram_matrices, X, Y, ridge)},
        lambda: ls.solve(problem, "direct").correlations,
        1.1,
    )


def words(given: argparse.Namespace, *, center: bool = False) -> Row:
    """Return one-hot pairs of words."""
    X, Y = bigrams(given)
    problem = ls.CCA(X, Y, PAIRS, ridge=1.0, center=center)
    return Row(
        lambda: ls.solve(ls.CCA(X, Y, PAIRS, ridge=1.0, center=center), rng=0).correlations,
        {"SciPy: a scaling and PROPACK": partial(one_hot, X, Y, 1.0, center=center)},
        lambda: (
            ls.solve(problem, "lobpcg", rng=1, tol=1e-13, oversample=30, max_iterations=1500).correlations
        ),
        1.5,
    )


def gram_matrices(X: np.ndarray, Y: np.ndarray, ridge: float) -> np.ndarray:
    """Gram matrices less those of the means, Cholesky factors and an SVD."""
    Sx, C, Sy = X.T @ X, X.T @ Y, Y.T @ Y
    x, y, n = X.mean(axis=0), Y.mean(axis=0), len(X)
    Sx, C, Sy = Sx - n * np.outer(x, x), C - n * np.outer(x, y), Sy - n * np.outer(y, y)
    Lx, Ly = (np.linalg.cholesky(S + ridge * np.eye(len(S))) for S in (Sx, Sy))
    T = scipy.linalg.solve_triangular(Lx, C, lower=True)
    T = scipy.linalg.solve_triangular(Ly, T.T, lower=True).T
    U, rho, Vt = np.linalg.svd(T, full_matrices=False)
    for L, W in ((Lx, U[:, :PAIRS]), (Ly, Vt[:PAIRS].T)):
        scipy.linalg.solve_triangular(L, W, lower=True, trans="T")
    return rho[:PAIRS]


def one_hot(X: Any, Y: Any, ridge: float, *, center: bool) -> np.ndarray:
    """Scaling and PROPACK. Centring subtracts n μμᵀ from a diagonal: its inverse root is known, too."""
    counts = [np.bincount(A.indices, A.data**2, minlength=A.shape[1]) for A in (X, Y)]
    roots = [1 / np.sqrt(count + ridge) for count in counts]
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


# ---- singular values -------------------------------------------------------------------------------


def triplets(read: Callable[[argparse.Namespace], Any], given: argparse.Namespace) -> Row:
    """Return sparse text, and SciPy's solvers at the tolerance that comes nearest to ours."""
    A, k = read(given), 10 if given.quick else TRIPLETS
    values = lambda solver, tol: np.sort(svds(A, k, solver=solver, tol=tol, random_state=0)[1])[::-1]  # noqa: E731
    rivals = {
        f"SciPy: {solver}, tolerance {tol:g}": partial(values, solver, tol)
        for solver, tol in (("propack", 1e-4), ("arpack", 1e-2), ("arpack", 0.0))
    }
    return Row(lambda: ls.solve(ls.SVD(A, k), rng=0).S, rivals, partial(values, "arpack", 0.0), 1.2)


ROWS: dict[str, Callable[[argparse.Namespace], Row]] = {
    "images": images,
    "words": words,
    "centred words": partial(words, center=True),
    "stories": partial(triplets, news_stories),
    "text": partial(triplets, generated_text),
}


if __name__ == "__main__":
    sys.exit(main())
