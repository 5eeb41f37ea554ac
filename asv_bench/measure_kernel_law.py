"""Print how far the residual of kernel CCA is above the exact norm, and whether its bounds hold, on drawn problems.

Run `python asv_bench/measure_kernel_law.py --problems 1000`; `--quick` draws twenty.

Rows, columns, the kernel of each view, its scale, the ridge and the rank of the data are drawn. Each problem is solved
by `nystrom-lobpcg` that is cut short, by `nystrom-kcca`, and by `kcca`, whose answer is spoiled by noise of a drawn
size. The exact norm and the exact correlations come from eigendecompositions in float64. Printed are the least, the
median and the largest quotient of residual and exact norm, where the residual is above rounding, and how many
correlations had no exact one within their bound or were above the exact one, by more than the rounding of their
coefficients explains.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

import linspec as ls

KERNELS = ("rbf", "laplacian", "polynomial", "linear")
ROUNDING = 1e-18
"""A residual below this share of what rounding makes of the kernel is not compared."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    quotients: dict[str, list[float]] = {}
    judged, outside, above = 0, 0, 0
    for seed in range(given.first, given.first + (20 if given.quick else given.problems)):
        problem = drawn(np.random.default_rng(seed))
        oracle = Exact(problem)
        for name, found in answers(problem, seed):
            judged += len(found.correlations)
            outside += oracle.outside(found)
            above += oracle.above(found)
            quotient = oracle.quotient(found)
            if quotient is not None:
                quotients.setdefault(name, []).append(quotient)
    print(
        f"{judged} correlations: {outside} without an exact one within their bound, {above} above the exact one"
    )
    for name, values in quotients.items():
        share = np.mean(np.asarray(values) <= 1.5)
        print(
            f"{name}: residual over the exact norm least {min(values):.6f}, median {np.median(values):.3f}, largest "
            f"{max(values):.3f}, at most 1.5 in {share:.1%} of {len(values)}"
        )


def drawn(rng: np.random.Generator) -> Any:
    """A problem."""
    n, p, q = int(rng.integers(40, 400)), int(rng.integers(1, 12)), int(rng.integers(1, 12))
    shared = rng.standard_normal((n, int(rng.integers(1, 4))))
    mixed = [np.tanh(shared @ rng.standard_normal((shared.shape[1], width))) for width in (p, q)]
    X, Y = (A + 10 ** rng.uniform(-3, 0.5) * rng.standard_normal(A.shape) for A in mixed)
    kernels = [kernel(rng) for _ in range(2)]
    ridge = float(n * 10 ** rng.uniform(-6, 0))
    problem = ls.get_problem("kernel-cca")
    return problem(X, Y, int(rng.integers(1, 5)), *kernels, ridge=ridge, center=bool(rng.integers(2)))


def kernel(rng: np.random.Generator) -> Any:
    """A kernel with a drawn scale."""
    name = str(rng.choice(KERNELS))
    factor = float(10 ** rng.uniform(-0.7, 0.7))
    if name == "rbf":
        return ls.kernels.rbf(factor=factor)
    if name == "laplacian":
        return ls.kernels.laplacian(factor=factor)
    return ls.kernels.polynomial(int(rng.integers(2, 4))) if name == "polynomial" else ls.kernels.linear()


def answers(problem: Any, seed: int) -> list[tuple[str, Any]]:
    """Answers of three solvers, exact to a drawn degree."""
    rng = np.random.default_rng(seed + 10**6)
    m = int(rng.integers(10, 40))
    found = [
        (
            "nystrom-lobpcg",
            ls.solve(
                problem,
                "nystrom-lobpcg",
                rng=seed,
                landmarks=m,
                extra=int(rng.integers(0, 8)),
                max_iterations=int(rng.integers(1, 8)),
                tol=1e-12,
            ),
        ),
        ("nystrom-kcca", ls.solve(problem, "nystrom-kcca", rng=seed, landmarks=m)),
    ]
    best = ls.solve(problem, "kcca", rng=seed)
    size = 10 ** rng.uniform(-6, -1)
    moments = problem.moments("auto", (1, 1))
    moments.settle(np.random.default_rng(seed), (best.kernel_x, best.kernel_y))
    a, b = (
        W + size * np.linalg.norm(W, axis=0) * rng.standard_normal(W.shape) / np.sqrt(len(W))
        for W in (best.x_weights, best.y_weights)
    )
    conclusion = problem.conclude(moments, x_weights=a, y_weights=b)
    return [*found, ("kcca, spoiled", Judged(conclusion))]


class Judged:
    """What the law says of arrays."""

    def __init__(self, conclusion: Any) -> None:
        self.__dict__ |= conclusion.fields
        self.residual = conclusion.residual


class Exact:
    """Eigendecompositions of both kernel matrices, and the exact correlations."""

    def __init__(self, problem: Any) -> None:
        self.problem = problem
        moments = problem.moments("held", (1, 1))
        moments.settle(np.random.default_rng(0))
        self.K = [np.asarray(op.dense(), dtype=np.float64) for op in moments.views]
        eigen = [np.linalg.eigh((K + K.T) / 2) for K in self.K]
        # [P^(1/2)] of both views, and its factors.
        self.U = [U for _, U in eigen]
        self.w = [np.maximum(w, 0.0) for w, _ in eigen]
        self.shares = [w / (w + r) for w, r in zip(self.w, problem.ridge, strict=True)]
        half = [np.sqrt(s)[:, None] * U.T for s, U in zip(self.shares, self.U, strict=True)]
        self.rho = np.append(np.linalg.svd(half[0] @ half[1].T, compute_uv=False), 0.0)
        self.unit = np.finfo(np.float64).eps * max(
            w[-1] / r for w, r in zip(self.w, problem.ridge, strict=True)
        )

    def outside(self, found: Any) -> int:
        """How many correlations have no exact one within their bound."""
        gap = np.abs(self.rho[:, None] - found.correlations[None, :]).min(axis=0)
        return int(np.sum(gap > found.bounds + self.rounding(found)))

    def above(self, found: Any) -> int:
        """How many correlations are above the exact one of their rank."""
        return int(np.sum(found.correlations > self.rho[: len(found.correlations)] + self.rounding(found)))

    def rounding(self, found: Any) -> float:
        """What rounding makes of a correlation: of the kernels, and of r aᵀK a with the coefficients found."""
        eps, both = float(np.finfo(np.float64).eps), 0.0
        for W, J, K, r in (
            (found.x_weights, found.x_landmarks, self.K[0], self.problem.ridge[0]),
            (found.y_weights, found.y_landmarks, self.K[1], self.problem.ridge[1]),
        ):
            squares = np.sum(self.dual(W, J) ** 2, axis=0)
            both = max(both, eps * r * float(np.trace(K)) * float(squares.max(initial=0.0)))
        return 10 * both + 1e3 * self.unit

    def quotient(self, found: Any) -> float | None:
        """The residual over the exact norm, where it is more than rounding."""
        a, b = (
            self.dual(W, J)
            for W, J in ((found.x_weights, found.x_landmarks), (found.y_weights, found.y_landmarks))
        )
        rho, (Kx, Ky), (rx, ry) = found.correlations, self.K, self.problem.ridge
        gaps = (Ky @ b - rho * (Kx @ a + rx * a), Kx @ a - rho * (Ky @ b + ry * b))
        total = sum(
            float(np.sum(s[:, None] * (U.T @ R) ** 2))
            for s, U, R in zip(self.shares, self.U, gaps, strict=True)
        )
        size = sum(float(np.sum(R**2)) for R in gaps)
        if not len(rho) or total <= max(ROUNDING, 1e3 * self.unit**2, 1e6 * self.unit * size):
            return None
        return float(found.residual) * float(rho.sum()) / total

    def dual(self, W: Any, J: Any) -> np.ndarray:
        """Coefficients of all rows."""
        weights = np.asarray(W, dtype=np.float64)
        weights = weights - weights.mean(axis=0) * self.problem.center
        if J is None:
            return weights
        whole = np.zeros((len(self.K[0]), weights.shape[1]))
        whole[J] = weights
        return whole


if __name__ == "__main__":
    main()
