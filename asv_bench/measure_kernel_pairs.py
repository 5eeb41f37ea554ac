"""Print what linear, kernel and deep CCA capture on new rows of two other pairs of views, each with its best numbers.

Run `python asv_bench/measure_kernel_pairs.py --data FOLDER`; `--quick` takes small generated views.

The pairs: words and tags of bookmarked pages (delicious, 500 + 983 binary columns, 12,920 training rows), and left
and right halves of postal digits (usps, 128 + 128 grey values, 7,291). Ridge and scale of each method are those that
capture most on a fifth of the training rows, which the solver did not see, with the first seed; then it learns from
all training rows, for each seed, and the test rows that come with the data are scored. TCC10 is the sum of ten
canonical correlations of the variates, without a ridge. Seconds are CPU seconds of one solve: give it one BLAS thread.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse
from datasets import arguments, find

import linspec as ls

K = 10
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
FACTORS = (0.5, 1.0, 2.0)
LANDMARKS = 1000


def main() -> None:
    """Measure and print."""
    parser = arguments(main.__doc__ or "")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--exact", action="store_true", help="the exact kernel answer, too")
    parser.add_argument("--deep", action="store_true", help="deep CCA, too; it needs torch")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, train, test in pairs(given):
        print(f"{name}: {train[0].shape[0]} rows, {train[0].shape[1]} + {train[1].shape[1]} columns")
        order = np.random.default_rng(0).permutation(train[0].shape[0])
        cut = len(order) // 5
        inner, outer = ([A[some] for A in train] for some in (order[cut:], order[:cut]))
        for method, choices, solve in methods(given):
            tried = [(captured(solve(*inner, choice, 0), outer), choice) for choice in choices]
            _, best = max(tried, key=lambda pair: pair[0])
            totals, spent = [], []
            for seed in range(given.seeds):
                began = time.process_time()
                found = solve(*train, best, seed)
                spent.append(time.process_time() - began)
                totals.append(captured(found, test))
            print(
                f"  {method}, {best}: test TCC10 median {np.median(totals):.4f}, worst {min(totals):.4f}; CPU "
                f"{np.median(spent):.1f} s",
                flush=True,
            )


def captured(found: Any, rows: Any) -> float:
    """The sum of the correlations of the variates of new rows."""
    return float(found.score(*rows).total)


def methods(given: Any) -> Iterator[tuple[str, list[Any], Callable[..., Any]]]:
    """Name, what is chosen from, and how the method solves."""
    grid = list(itertools.product(PENALTIES, FACTORS))
    yield "linear CCA", [(penalty, None) for penalty in (1e-6, *PENALTIES, 1e-1)], linear
    yield "nystrom-kcca", grid, with_kernel("nystrom-kcca", landmarks=LANDMARKS)
    yield "rff-kcca", grid, with_kernel("rff-kcca", features=2 * LANDMARKS)
    if given.exact:
        yield "nystrom-lobpcg", grid, with_kernel("nystrom-lobpcg", tol=1e-5)
    if given.deep:
        yield "deep-cca", [(decay, None) for decay in (1e-4, 1e-2, 1e-1)], deep


def linear(X: Any, Y: Any, choice: Any, seed: int) -> Any:
    """Linear CCA; a ridge of a penalty times the rows times a mean square of the entries."""
    return ls.solve(ls.CCA(X, Y, K, ridge=tuple(choice[0] * mean_square(A) for A in (X, Y))), rng=seed)


def mean_square(A: Any) -> float:
    """Of the entries, less the means of their columns, times the rows and the columns: |A|² centred."""
    if scipy.sparse.issparse(A):
        return float(A.multiply(A).sum() - A.shape[0] * np.sum(np.asarray(A.mean(axis=0)) ** 2))
    return float(np.sum((A - A.mean(axis=0)) ** 2))


def with_kernel(solver: str, **options: Any) -> Callable[..., Any]:
    """A solver with a Gaussian kernel."""

    def solve(X: Any, Y: Any, choice: Any, seed: int) -> Any:
        penalty, factor = choice
        kernel, n = ls.kernels.rbf(factor=factor), X.shape[0]
        options_now = {
            name: min(value, n) if name == "landmarks" else value for name, value in options.items()
        }
        problem = ls.get_problem("kernel-cca")(X, Y, K, kernel, ridge=penalty * n)
        return ls.solve(problem, solver, rng=seed, **options_now)

    return solve


def deep(X: Any, Y: Any, choice: Any, seed: int) -> Any:
    """Nets; the decay of their weights is chosen."""
    X, Y = (A.toarray() if scipy.sparse.issparse(A) else A for A in (X, Y))
    return ls.solve(ls.get_problem("deep-cca")(X, Y, k=K), "dcca", rng=seed, decay=choice[0])


def pairs(given: Any) -> Iterator[tuple[str, Any, Any]]:
    """Name, training views and test views."""
    if given.quick:
        rng = np.random.default_rng(0)
        Z = rng.standard_normal((900, 12))
        X, Y = np.hstack([Z, rng.standard_normal((900, 6))]), np.hstack([Z**2, rng.standard_normal((900, 6))])
        views = [A.astype(np.float32) for A in (X, Y)]
        yield "generated", [A[:600] for A in views], [A[600:] for A in views]
        return
    folder = "delicious"
    words, tags, new_words, new_tags = (
        scipy.sparse.load_npz(find(given, f"{folder}/{name}.npz")).astype(np.float32)
        for name in ("X_train", "Y_train", "X_test", "Y_test")
    )
    yield "words and tags", [words, tags], [new_words, new_tags]
    file = np.load(find(given, "usps/usps.npz"))
    halves = []
    for name in ("X_train_x1000", "X_test_x1000"):
        images = file[name].reshape(-1, 16, 16).astype(np.float32) / 1000
        halves.append([np.ascontiguousarray(h.reshape(len(h), -1)) for h in np.split(images, 2, axis=2)])
    yield "halves of postal digits", halves[0], halves[1]


if __name__ == "__main__":
    main()
