"""Print what lazy-spca takes beside the products that it cannot avoid, and beside spca, as k grows.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_lazy.py --data FOLDER`; `--quick` takes small generated data. The
data are 11314 posts x 75878 words, tf-idf, sparse, not centred.

With ℓ = k + 10 columns of a Gaussian Ω: the products are AΩ, Aᵀ(AΩ), the Gram matrix of that p x ℓ block, and its
product with an ℓ x k matrix, each made alone by the kernels that the solver uses, its result in new memory. Drawing Ω
and the certificate, which is one sweep with k columns, are measured by themselves and taken out of the solver's time
for the ratio; the time as the user meets it stands beside. Seconds of the clock and of the processors are each the
least of some rounds, in which all tasks take turns.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy
from datasets import arguments, newsgroups
from least_squares_law import print_head, print_row

import linspec as ls
from linspec.registry import get_part

EXTRA = 10
"""Columns of the sketch beyond the triplets wanted: the default of the solvers."""

PRODUCTS = ("AΩ", "Aᵀ(AΩ)", "Gram of p x ℓ", "p x ℓ x k")
"""What the method cannot do without."""

SOLVERS: dict[str, tuple[str, dict[str, Any]]] = {
    "lazy-spca": ("lazy-spca", {}),
    "spca, Cholesky QR": ("spca", {"normalizer": "cholesky-qr"}),
    "spca, Householder QR": ("spca", {"normalizer": "qr"}),
}


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--k", nargs="+", type=int, help="triplets")
    parser.add_argument("--rounds", type=int, default=3, help="times that every task is made")
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=list(SOLVERS), help="which to time")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    A, _ = newsgroups(given)
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "as many as it likes")
    print(
        f"linspec {ls.__version__}, NumPy {np.__version__}, SciPy {scipy.__version__}; BLAS threads: {threads}"
    )
    print_head("k", "what", "clock s", "CPU s")
    for k in given.k or ((10, 20) if given.quick else (100, 500, 1000, 2000)):
        least = measured(tasks(A, k, given.solvers), given.rounds)
        for what, seconds in least.items():
            print_row((k, what, *(f"{t:.2f}" for t in seconds)))
        report(k, least)


def tasks(A: Any, k: int, solvers: list[str]) -> dict[str, Callable[[], Any]]:
    """The solvers, the products that lazy-spca is made of, and what is taken out of its time."""
    operator, rng = ls.as_operator(A), np.random.default_rng(0)
    draw = get_part("test-matrix", "gaussian")().draw
    Omega = draw(A.shape[1], k + EXTRA, rng)
    Y = operator.matmat(Omega)
    Bt = operator.rmatmat(Y)
    W = rng.standard_normal((k + EXTRA, k))
    moments = ls.Moments(A, form="implicit")
    made: dict[str, Callable[[], Any]] = {
        name: partial(ls.solve, ls.SVD(A, k), SOLVERS[name][0], rng=0, **SOLVERS[name][1]) for name in solvers
    }
    return {
        **made,
        "AΩ": lambda: operator.matmat(Omega),
        "Aᵀ(AΩ)": lambda: operator.rmatmat(Y),
        "Gram of p x ℓ": lambda: Bt.T @ Bt,
        "p x ℓ x k": lambda: Bt @ W,
        "drawing Ω": lambda: draw(A.shape[1], k + EXTRA, np.random.default_rng(0)),
        "certificate": lambda: moments.gram_matmat(Omega[:, :k]),
    }


def measured(made: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, float]]:
    """Least seconds of the clock and of the processors, by task."""
    found: dict[str, list[tuple[float, float]]] = {what: [] for what in made}
    for _ in range(rounds):
        for what, task in made.items():
            clock, processor = time.perf_counter(), time.process_time()
            task()
            found[what].append((time.perf_counter() - clock, time.process_time() - processor))
    return {what: (min(t for t, _ in all_), min(c for _, c in all_)) for what, all_ in found.items()}


def report(k: int, least: dict[str, tuple[float, float]]) -> None:
    """The sum of the products, and the solvers' times as multiples of it."""
    total = [sum(least[what][i] for what in PRODUCTS) for i in (0, 1)]
    print_row((k, "sum of the four products", *(f"{t:.2f}" for t in total)))
    for what in (name for name in SOLVERS if name in least):
        for label, taken in (
            ("without certificate and Ω, / sum", ("certificate", "drawing Ω")),
            ("as it is, / sum", ()),
        ):
            ratios = [(least[what][i] - sum(least[t][i] for t in taken)) / total[i] for i in (0, 1)]
            print_row((k, f"{what}: {label}", *(f"{r:.2f}" for r in ratios)))


if __name__ == "__main__":
    main()
