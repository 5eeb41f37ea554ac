"""Print how near HSIC by features comes to that of the kernel matrices, and which columns `scca-hsic` finds.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_hsic.py`; it needs no data, `--quick` takes fewer rows and seeds.

The criterion: pairs of variates with n rows (a square with noise, a sine, a product of heavy tails), each value against
that of the two n x n matrices; CPU seconds of a value, and of a value with both derivatives, as the least of some
repetitions.

The columns: X, Y uniform on (-1, 1), Y1 = (X1 + X2)^2 - Y2 + .05 noise, n rows, two thirds to learn from, standardised
after the split, ("ratio", 1.5) in both views. F1 of entries above .05 of the largest, and AUC, means of both views,
median and worst of the seeds; HSIC on the rows left out; CPU seconds and sweeps of each view, medians.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import linspec as ls
from linspec.arrays import HOST
from linspec_kernel.preimage.nystrom_hsic import NystromHSIC
from linspec_kernel.preimage.objectives import HSIC

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "scca-hsic": ("scca-hsic", {}),
    "scca-hsic, 128 features": ("scca-hsic", {"size": 128}),
    "scca-hsic, 16 features": ("scca-hsic", {"size": 16}),
    "scca-hsic, nystrom": ("scca-hsic", {"features": "nystrom"}),
    "scca-hsic, 64 starts": ("scca-hsic", {"repeats": 64}),
    "scca-hsic, uniform starts": ("scca-hsic", {"starts": "uniform"}),
    "gradkcca, quadratic": ("gradkcca", {}),
}


def exact(p: np.ndarray, q: np.ndarray) -> float:
    """The criterion from the kernel matrices."""
    K, L = (gaussian(v / np.sqrt(np.mean(v**2))) for v in (p, q))
    return float(np.sum(centred(K) * L)) / (len(p) - 1) ** 2


def with_derivatives(p: np.ndarray, q: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The criterion from the kernel matrices, and its derivatives by the variates over their root mean squares."""
    z, w = (v / np.sqrt(np.mean(v**2)) for v in (p, q))
    K, L = gaussian(z), gaussian(w)
    HKH, HLH = centred(K), centred(L)
    value = float(np.sum(HKH * L))
    K *= HLH
    L *= HKH
    found = [-2 * (v * V.sum(axis=1) - V @ v) / (len(p) - 1) ** 2 for v, V in ((z, K), (w, L))]
    return value / (len(p) - 1) ** 2, found[0], found[1]


def gaussian(z: np.ndarray) -> np.ndarray:
    """The kernel matrix."""
    K = z[:, None] - z[None, :]
    K *= K
    K *= -0.5
    return np.exp(K, out=K)


def centred(K: np.ndarray) -> np.ndarray:
    """HKH."""
    means = K.mean(axis=0)
    K = K - means[None, :]
    K -= (means - means.mean())[:, None]
    return K


def least(what: Callable[[], Any], repetitions: int) -> float:
    """CPU seconds of the fastest of some runs."""
    spent = []
    for _ in range(repetitions):
        began = time.process_time()
        what()
        spent.append(time.process_time() - began)
    return min(spent)


def criterion(n: int) -> None:
    """Errors and seconds of the criterion."""
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal(n), rng.standard_normal(n), rng.standard_t(3, n)
    noise = 0.3 * rng.standard_normal((n, 3))
    P = np.column_stack([a, b, c])
    Q = np.column_stack([a**2, np.sin(3 * b), np.abs(c)]) + noise
    P, Q = P - P.mean(axis=0), Q - Q.mean(axis=0)
    truth = np.array([exact(p, q) for p, q in zip(P.T, Q.T, strict=True)])
    slow = least(lambda: exact(P[:, 0], Q[:, 0]), 3)
    slow_both = least(lambda: with_derivatives(P[:, 0], Q[:, 0]), 3)
    print(
        f"criterion, n = {n}: the matrices take {slow:.3f} CPU s a value, {slow_both:.3f} with both derivatives"
    )
    print(
        "| features | largest relative error | CPU s, value | with derivatives | times less, value | with derivatives |"
    )
    print("|---|---|---|---|---|---|")
    index = np.sort(rng.choice(n, 64, replace=False))
    named = [(f"quadrature, {D}", HSIC(D)) for D in (8, 16, 32, 56, 128)] + [
        ("Nyström, 64 rows", NystromHSIC(index))
    ]
    for name, objective in named:
        error = float(np.abs(objective.values(P, Q, HOST) / truth - 1).max())
        value, both = seconds(objective, P[:, :1], Q[:, :1])
        print(
            f"| {name} | {error:.1e} | {value:.4f} | {both:.4f} | {slow / value:.0f} | {slow_both / both:.0f} |"
        )


def seconds(objective: HSIC, p: np.ndarray, q: np.ndarray) -> tuple[float, float]:
    """CPU seconds of a value, and with derivatives."""
    value = least(lambda: objective.values(p, q, HOST), 20)
    return value, value + least(lambda: objective.slopes(p, q, HOST), 20)


def views(n: int, p: int, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Rows to learn from, and rows left out, of both views."""
    rng = np.random.default_rng(seed)
    X, Y = rng.uniform(-1, 1, (n, p)), rng.uniform(-1, 1, (n, p))
    Y[:, 0] = (X[:, 0] + X[:, 1]) ** 2 - Y[:, 1] + 0.05 * rng.standard_normal(n)
    m = 2 * n // 3
    scaled = [(A - A[:m].mean(axis=0)) / A[:m].std(axis=0) for A in (X, Y)]
    return [A[:m] for A in scaled], [A[m:] for A in scaled]


def columns(n: int, p: int, seeds: int, methods: list[str]) -> None:
    """What the solvers find, and what it takes."""
    PreimageCCA = ls.get_problem("preimage-cca")
    for name in methods:
        solver, options = METHODS[name]
        hsic = solver == "scca-hsic"
        kernel = ls.kernels.linear() if hsic else ls.kernels.polynomial(2, 0.0)
        rows = []
        for seed in range(seeds):
            (X, Y), left = views(n, p, seed)
            problem = PreimageCCA(
                X, Y, 1, kernel, bound_x=("ratio", 1.5), objective="hsic" if hsic else "correlation"
            )
            began = time.process_time()
            found = ls.solve(problem, solver, rng=seed, **options)
            spent = time.process_time() - began
            points = (found.x_preimages, found.y_preimages)
            f1, auc = (
                np.mean([score(U, [0, 1]) for U in points]) for score in (ls.metrics.f1, ls.metrics.auc)
            )
            p_, q_ = found.transform(*left)
            value = exact(p_[:, 0] - p_.mean(), q_[:, 0] - q_.mean())
            rows.append([f1, auc, value, found.agreeing[0], spent, found.passes])
        f1, auc, value, agreeing, spent, passes = np.array(rows).T
        print(
            f"| {p} | {name} | {np.median(f1):.2f} ({f1.min():.2f}) | {f1.mean():.3f} "
            f"| {np.median(auc):.2f} ({auc.min():.2f}) | {np.median(value):.3f} ({value.min():.3f}) "
            f"| {np.median(agreeing):.0f} ({agreeing.min():.0f}) | {np.median(spent):.2f} | {np.median(passes):.0f} |",
            flush=True,
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rows and seeds")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--columns", type=int, nargs="*", default=[10, 50, 100])
    parser.add_argument("--methods", nargs="*", choices=list(METHODS), default=list(METHODS))
    parser.add_argument(
        "--parts", nargs="*", choices=["criterion", "columns"], default=["criterion", "columns"]
    )
    given = parser.parse_args()
    warnings.simplefilter("ignore", ls.errors.ConvergenceWarning)
    if "criterion" in given.parts:
        criterion(1000 if given.quick else 4000)
    if "columns" in given.parts:
        print("| columns | method | F1 | mean F1 | AUC | HSIC, test | starts that agree | CPU s | sweeps |")
        print("|---|---|---|---|---|---|---|---|---|")
        for p in given.columns:
            columns(given.rows, p, 2 if given.quick else given.seeds, given.methods)


if __name__ == "__main__":
    main()
