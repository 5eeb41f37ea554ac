"""Print how near the leading singular triplets each method comes, with how many sweeps and in how long.

Run `python asv_bench/measure_svd.py --data FOLDER`; `--quick` takes small generated data. `--sets` chooses among

- newsgroups: 11314 posts x 75878 words, tf-idf, sparse, not centred;
- homedepot: 74067 titles x 18608 words, counts, sparse, not centred;
- mnist: left halves of 60000 images, 392 pixels, dense, centred.

σ: the largest relative error of the singular values; space: sine of the largest angle between the spans of the right
vectors. Both are against SciPy's ARPACK at machine precision. passes: as linspec counts its own; of randomized_svd by
its formula. seconds: the median of three runs, of one where it takes over ten seconds.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse.linalg
from datasets import arguments, mnist_halves, newsgroups, titles_and_queries
from least_squares_law import print_head, print_row
from sklearn.utils.extmath import randomized_svd

import linspec as ls

K = 50


@dataclass(frozen=True)
class Case:
    """A matrix and its leading triplets."""

    name: str
    A: Any
    center: bool
    S: np.ndarray
    Vh: np.ndarray

    @property
    def plain(self) -> Any:
        """What the others are given: centred entries where the data are dense."""
        return self.A - self.A.mean(axis=0) if self.center else self.A


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--sets", nargs="+", default=["newsgroups", "homedepot", "mnist"])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print_head("set", "method", "σ", "space", "passes", "seconds", "status")
    for case in cases(given):
        for name, run in (*own(case), *rivals(case)):
            print_row((case.name, name, *judged(case, run)))


def cases(given: argparse.Namespace) -> Iterator[Case]:
    """The matrices, one at a time."""
    readers = {
        "newsgroups": lambda: newsgroups(given)[0],
        "homedepot": lambda: titles_and_queries(given)[0],
        "mnist": lambda: mnist_halves(given)[0],
    }
    for name in given.sets:
        A, center = readers[name](), name == "mnist"
        plain = A - A.mean(axis=0) if center else A
        k = 10 if given.quick else K
        _, S, Vh = scipy.sparse.linalg.svds(plain, k=k, tol=0, random_state=0)
        yield Case(name, A, center, S[::-1], Vh[::-1])


def judged(case: Case, run: Callable[[], tuple[Any, Any, str, str]]) -> tuple[str, ...]:
    """Errors, sweeps and seconds of a method."""
    seconds: list[float] = []
    while not seconds or (len(seconds) < 3 and seconds[0] < 10):
        begin = time.perf_counter()
        S, Vh, passes, status = run()
        seconds.append(time.perf_counter() - begin)
    order = np.argsort(-S)
    S, Vh = S[order], Vh[order]
    if len(S) < len(case.S):
        return "-", "-", passes, f"{statistics.median(seconds):.2f}", status
    error = float(np.max(np.abs(S - case.S) / case.S))
    Q = np.linalg.qr(Vh.T)[0]
    sine = float(np.linalg.norm(case.Vh.T - Q @ (Q.T @ case.Vh.T), 2))
    return f"{error:.1e}", f"{sine:.1e}", passes, f"{statistics.median(seconds):.2f}", status


def own(case: Case) -> Iterator[tuple[str, Callable[[], Any]]]:
    """linspec's solvers, block-krylov at several tolerances."""
    settings: list[tuple[str, dict[str, Any]]] = [
        ("block-krylov", {"tol": tol}) for tol in (1e-2, 1e-4, 1e-6)
    ]
    settings += [("spca", {"power_iterations": q}) for q in (0, 2, 5, 10)]
    settings += [("lazy-spca", {}), ("lanczos", {})]
    settings += [("gram", {})] if min(case.A.shape) < 5000 else []
    for name, options in settings:
        label = name + "".join(f", {key} {value:g}" for key, value in options.items())
        yield f"linspec {label}", partial(by_linspec, case, name, options)


def by_linspec(case: Case, name: str, options: dict[str, Any]) -> tuple[Any, Any, str, str]:
    """One of ours."""
    s = ls.solve(ls.SVD(case.A, len(case.S), center=case.center), name, rng=0, **options)
    return s.S, s.Vh, f"{s.passes:g}", s.status.name


def rivals(case: Case) -> Iterator[tuple[str, Callable[[], Any]]]:
    """scikit-learn and SciPy, which are given centred entries."""
    for powers in (2, 5, 10, 20):
        yield f"scikit-learn randomized_svd, n_iter {powers}", partial(by_scikit_learn, case, powers)
    for solver, tol in (("arpack", 1e-3), ("arpack", 0.0), ("propack", 1e-3), ("lobpcg", 1e-3)):
        yield f"SciPy svds, {solver}, tol {tol:g}", partial(by_scipy, case, solver, tol)


def by_scikit_learn(case: Case, powers: int) -> tuple[Any, Any, str, str]:
    """Two sweeps a power, and two for the basis and its products."""
    _, S, Vh = randomized_svd(case.plain, len(case.S), n_iter=powers, random_state=0)
    return S, Vh, f"{2 + 2 * powers}", ""


def by_scipy(case: Case, solver: str, tol: float) -> tuple[Any, Any, str, str]:
    """Products with one column each."""
    _, S, Vh = scipy.sparse.linalg.svds(case.plain, len(case.S), solver=solver, tol=tol, random_state=0)
    return S, Vh, "", ""


if __name__ == "__main__":
    main()
