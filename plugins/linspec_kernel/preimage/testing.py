"""Cases of preimage CCA, and its residual computed independently.

The oracle evaluates kernels by their formulas on dense arrays, orthogonalizes variates one by one, and computes HSIC
from the n x n kernel matrices, the gradients by complex steps, f'(u) = Im f(u + ih)/h (Squire & Trapp 1998,
doi:10.1137/S003614459631241X), which lose no digits in any unit, and nearest points by bisection. No oracle knows the
best points, except by one theorem: with linear kernels and |u| = 1 alone, the pairs are those of a canonical
correlation analysis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.spatial.distance

from linspec import Needs
from linspec.arrays import HostArray
from linspec.kernels import RBF, Linear, Polynomial, linear, polynomial, rbf
from linspec.testing import (
    ROUNDING,
    Case,
    Law,
    ProblemTesting,
    Reading,
    as_host,
    orthonormal,
    precision,
    shift_of,
)

STEP = 1e-30
"""Imaginary step, relative to the radius of a set; its square does not change a sum."""

BLUR = 1e-7
"""Error that the bisection for nearest points leaves in the oracle's residual."""

ROWS = Needs(entries=True)
"""Needs of a case whose kernels use distances of rows, or take their scale from the rows.

The entries of the data must be readable: products with X are not enough."""


def function(kernel: Any, A: HostArray, u: HostArray) -> HostArray:
    """k(A, u) by definition."""
    if isinstance(kernel, Linear):
        return A @ u
    if isinstance(kernel, Polynomial):
        gamma = 1 / np.mean(np.sum(A**2, axis=1)) if isinstance(kernel.gamma, str) else kernel.gamma
        values: HostArray = (gamma * (A @ u) + kernel.offset) ** kernel.degree
        return values
    if not isinstance(kernel, RBF):
        raise TypeError(f"no such kernel here: {kernel}")
    scale = kernel.scale
    if isinstance(scale, str):
        scale = float(np.median(scipy.spatial.distance.pdist(A))) * kernel.factor
    found: HostArray = np.exp(-np.sum((A - u) ** 2, axis=1) / (2 * scale**2))
    return found


def length(c: HostArray) -> Any:
    """√(c·c), analytic for complex c too."""
    return np.sqrt(c @ c)


def correlation(c: HostArray, d: HostArray) -> Any:
    """Cosine of two variates."""
    sizes = length(c) * length(d)
    return c @ d / sizes if sizes.real > 0 else 0.0


def hsic(c: HostArray, d: HostArray) -> Any:
    """tr(KHLH)/(n − 1)² with Gaussian kernels of the variates, each divided by its root mean square."""
    n = len(c)
    K, L = (np.exp(-((z[:, None] - z) ** 2) / (2 * np.mean(z**2))) for z in (c, d))
    H = np.eye(n) - 1 / n
    return np.trace(K @ H @ L @ H) / (n - 1) ** 2


def nearest(bound: tuple[str, float], y: HostArray) -> HostArray:
    """The point w nearest to y in the set of a bound.

    A bound is a pair of a kind and a size s. For "l2" the set is |w|₂ ≤ s, and y is scaled. For "l1" the set is
    |w|₁ ≤ s, for "ratio" it is |w|₂ = 1 with |w|₁ ≤ s. In these two sets all |yᵢ| are reduced by a threshold, but not
    below 0. The threshold is found by bisection; for "ratio" the reduced y is scaled to length 1.
    """
    kind, size = bound
    a = np.abs(y)
    if kind == "l2":
        return y * min(1.0, size / max(float(np.linalg.norm(y)), 1e-300))

    def excess(t: float) -> float:
        w = np.maximum(a - t, 0.0)
        return float(w.sum() - size * (np.linalg.norm(w) if kind == "ratio" else 1.0))

    low, high = 0.0, float(a.max())
    if excess(0.0) > 0:
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    w = np.sign(y) * np.maximum(a - low, 0.0)
    found: HostArray = w / np.linalg.norm(w) if kind == "ratio" else w
    return found


class PreimageOracle:
    """Residual of an answer, and facts that are known about its pairs."""

    def __init__(self, case: Case, reading: Reading) -> None:
        given = case.parameters
        self.k = int(given["k"])
        self.center = bool(given.get("center", True))
        self.X, self.Y = (A.astype(np.float64) for A in case.arrays.values())
        self.kernels = given["kernel_x"], given.get("kernel_y") or given["kernel_x"]
        free = [("ratio", float(np.sqrt(A.shape[1]))) for A in (self.X, self.Y)]
        first = given.get("bound_x")
        self.bounds = first or free[0], given.get("bound_y") or first or free[1]
        self.objective: Callable[[HostArray, HostArray], Any] = (
            hsic if given.get("objective") == "hsic" else correlation
        )
        self.unit = precision(case)
        if self.center:
            self.unit *= max(shift_of(A) for A in (self.X, self.Y))
        linear_pair = all(isinstance(kernel, Linear) for kernel in self.kernels)
        self.is_cca = linear_pair and not first and self.objective is correlation
        self.count = self.k
        self.exact = np.zeros(0)
        if linear_pair:
            bases: list[HostArray] = []
            for A in (self.X, self.Y):
                A = A - A.mean(axis=0) if self.center else A
                U, s, _ = np.linalg.svd(A / max(float(np.abs(A).max()), 1e-300), full_matrices=False)
                bases.append(U[:, s > 100 * self.unit * max(float(s[0]), 1e-300)])
            self.count = min(self.k, bases[0].shape[1], bases[1].shape[1])
            self.exact = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)[: self.count]
            self.bases = bases

    @property
    def attainable(self) -> float:
        """Residual that rounding alone may leave."""
        return ROUNDING * self.unit

    def _points(self, solution: Any) -> tuple[HostArray, HostArray]:
        return as_host(solution.x_preimages), as_host(solution.y_preimages)

    def _variate(self, view: int, u: HostArray, Q: HostArray) -> HostArray:
        c = function(self.kernels[view], (self.X, self.Y)[view], u)
        c = c - c.mean() if self.center else c
        found: HostArray = c - Q @ (Q.T @ c)
        return found

    def _value(self, points: list[HostArray], before: list[HostArray]) -> Any:
        """Objective of two variates, times the shares of their functions that remain after `before` is removed."""
        c = [self._variate(i, u, Q) for i, (u, Q) in enumerate(zip(points, before, strict=True))]
        whole = [self._variate(i, u, Q[:, :0]) for i, (u, Q) in enumerate(zip(points, before, strict=True))]
        shares = [length(a) / (length(b) or 1.0) for a, b in zip(c, whole, strict=True)]
        return self.objective(c[0], c[1]) * shares[0] * shares[1]

    def variates(self, solution: Any) -> tuple[HostArray, HostArray]:
        """Orthonormal variates of the points, one after the other."""
        found = []
        for view, U in enumerate(self._points(solution)):
            Q = np.zeros((len(self.X), 0))
            for u in U.T:
                c = self._variate(view, u, Q)
                c = c - Q @ (Q.T @ c)
                Q = np.hstack([Q, (c / np.linalg.norm(c))[:, None]])
            found.append(Q)
        return found[0], found[1]

    def _shares(self, solution: Any) -> HostArray:
        """Return, for each pair, the smaller of the shares of its two functions.

        A share is the ratio of two lengths of the values at the rows: centred and made orthogonal to earlier variates,
        over only centred.
        """
        bases, points = self.variates(solution), self._points(solution)
        found = np.ones(points[0].shape[1])
        for view, (Q, U) in enumerate(zip(bases, points, strict=True)):
            for j, u in enumerate(U.T):
                rest, whole = (np.linalg.norm(self._variate(view, u, Q[:, :i])) for i in (j, 0))
                found[j] = min(found[j], float(rest / whole))
        return found

    def law(self, solution: Any) -> Law:
        """Largest |Proj(u + b²g) − u|/b, with complex steps for g."""
        points, bases, residual = self._points(solution), self.variates(solution), 0.0
        for j in range(points[0].shape[1]):
            before = [Q[:, :j] for Q in bases]
            pair = [points[i][:, j] for i in (0, 1)]
            for i in (0, 1):
                u, (kind, size) = points[i][:, j], self.bounds[i]
                b = 1.0 if kind == "ratio" else size
                gradient = np.zeros(len(u))
                for m, step in enumerate(1j * STEP * b * np.eye(len(u))):
                    moved = [w + step if i == side else w for side, w in enumerate(pair)]
                    gradient[m] = self._value(moved, before).imag / (STEP * b)
                residual = max(
                    residual, float(np.linalg.norm(nearest((kind, size), u + b * b * gradient) - u)) / b
                )
        return Law(residual, BLUR + 10 * self.attainable)

    def errors(self, solution: Any) -> list[str]:
        """Describe contradictions between the answer and its points, and with the theorem about linear kernels."""
        rounding, found = 100 * self.attainable + 1e-9, []
        U, V = self._points(solution)
        rho = as_host(solution.correlations)
        if self.exact.size or self.count == 0:
            if len(rho) != self.count:
                return [f"there are {self.count} pairs to return; got {len(rho)}"]
            if not self.count:
                return []
        for name, W, (kind, size) in (("x", U, self.bounds[0]), ("y", V, self.bounds[1])):
            sums, lengths = np.abs(W).sum(axis=0), np.linalg.norm(W, axis=0)
            inside = sums <= size * (1 + rounding) if kind != "l2" else lengths <= size * (1 + rounding)
            inside &= (np.abs(lengths - 1) <= rounding) | (kind != "ratio")
            if not inside.all():
                found.append(f"{name}_preimages must lie in their set {(kind, size)}; some do not")
        if not len(rho):
            return found
        P, Q = self.variates(solution)
        # The part of a function that is orthogonal to earlier variates keeps the rounding of the whole
        # function.
        explained = 1e-9 + 100 * self.attainable / self._shares(solution)
        off = np.abs(np.sum(P * Q, axis=0) - rho)
        if not (off <= explained).all():
            at = int(np.argmax(off / explained))
            found.append(
                f"a correlation of the points is wrong by {off[at]:.2g}; rounding explains {explained[at]:.2g}"
            )
        for name, A, view, Z in (("x", self.X, 0, P), ("y", self.Y, 1, Q)):
            W, mean = getattr(solution, f"{name}_weights"), getattr(solution, f"{name}_mean")
            K = np.stack([function(self.kernels[view], A, u) for u in (U, V)[view].T], axis=1)
            made = K @ as_host(W) - (0.0 if mean is None else as_host(mean))
            misfit = float(np.abs(made - Z).max(initial=0.0))
            size = float(np.abs(K).max(initial=1.0)) * float(np.abs(W).max(initial=1.0))
            if not misfit <= rounding * max(1.0, size):
                found.append(
                    f"{name}_weights must make the variates of the points; they differ by {misfit:.2g}"
                )
        if self.is_cca and solution.converged:
            # A Rayleigh quotient is off by the square of its residual over the gap, which planted cases have.
            # The residual here is the part of the slopes in the span of the columns, up to the tolerance.
            slopes = [B.T @ (V - U * rho) for B, U, V in zip(self.bases, (P, Q), (Q, P), strict=True)]
            square = max(float(np.square(slope).sum(axis=0).max()) for slope in slopes)
            within = max(solution.residual, min(square, getattr(solution, "tol", 0.0)))
            off, limit = float(np.abs(rho - self.exact).max()), rounding + 10 * within
            if not off <= limit:
                found.append(
                    f"a canonical correlation is wrong by {off:.2g}; the residual explains {limit:.2g}"
                )
        return found


def check_points(trial: Any) -> Iterator[str]:
    """Check that points lie in their sets and that variates belong to the points, even without convergence."""
    yield from trial.oracle.errors(replace(trial.solution, converged=False))


def planted(k: int, *, rank: int = 4, center: bool = True, name: str = "linear", n: int = 60) -> Case:
    """Views with planted canonical correlations."""
    rng = np.random.default_rng([5, rank])
    rho = np.array([0.95, 0.8, 0.5, 0.2])[:rank]
    Q = orthonormal(rng, n, 2 * rank, centered=center)
    U, V = Q[:, :rank], Q[:, :rank] * rho + Q[:, rank:] * np.sqrt(1 - rho**2)
    X = U @ np.linalg.qr(rng.standard_normal((5, 5)))[0][:rank] * 3
    Y = V @ np.linalg.qr(rng.standard_normal((4, 4)))[0][:rank] * 2
    return Case(
        name=name,
        problem="preimage-cca",
        arrays={"X": X + center * rng.standard_normal(5), "Y": Y + center * rng.standard_normal(4)},
        parameters={"k": k, "kernel_x": linear(), "center": center},
        truth={"correlations": rho[:k]},
    )


def algebraic(
    name: str, kernel: Any, *, f: Any = np.square, n: int = 60, shape: tuple[int, int] = (6, 5), **given: Any
) -> Case:
    """Case with Y₁ = f(X₁ + X₂) − Y₂ and some noise, as in Uurtio, Bhadra & Rousu 2019."""
    gentle, needs = given.pop("gentle", True), given.pop("needs", Needs())
    rng = np.random.default_rng([11, n, *shape])
    X, Y = rng.uniform(-1, 1, (n, shape[0])), rng.uniform(-1, 1, (n, shape[1]))
    Y[:, 0] = f(X[:, :2].sum(axis=1)) - Y[:, 1] + 0.05 * rng.standard_normal(n)
    arrays = {key: (A - A.mean(axis=0)) / A.std(axis=0) for key, A in (("X", X), ("Y", Y))}
    return Case(
        name=name,
        problem="preimage-cca",
        arrays=arrays,
        parameters={"k": 1, "kernel_x": kernel, **given},
        gentle=gentle,
        needs=needs,
    )


def cases() -> tuple[Case, ...]:
    """Cases of kernels, sets, objectives, numbers of pairs, dtypes and units."""
    usual, square, sparse = planted(2), polynomial(2, 0.0, 1.0), ("ratio", 1.5)
    quadratic = algebraic("quadratic", square, bound_x=sparse)
    single = planted(1, name="single")
    far = {name: A + 1e4 * A.std(axis=0) for name, A in single.arrays.items()}
    constant = {name: np.ones_like(A) for name, A in usual.arrays.items()}
    return (
        usual,
        quadratic,
        algebraic("sparse-linear", linear(), f=np.exp, bound_x=sparse, k=2),
        algebraic("one-column", linear(), f=np.exp, bound_x=("ratio", 1.0)),
        algebraic(
            "two-kernels", polynomial(3, 0.5, 0.5), kernel_y=linear(), bound_x=("ratio", 2.0), bound_y=sparse
        ),
        algebraic("ball-l1", linear(), f=np.exp, bound_x=("l1", 1.0)),
        algebraic("ball-l2", polynomial(2, 1.0, 1.0), bound_x=("l2", 0.5), gentle=False),
        algebraic("rbf", rbf(2.0), bound_x=sparse, gentle=False, needs=ROWS),
        algebraic(
            "scales-from-rows", polynomial(2, 1.0), kernel_y=rbf(), bound_x=sparse, gentle=False, needs=ROWS
        ),
        algebraic("hsic", linear(), objective="hsic", bound_x=sparse, gentle=False),
        algebraic("quadratic-pairs", square, k=3, gentle=False),
        planted(1, center=False, name="no-centring"),
        planted(3, rank=2, name="k-above-rank"),
        algebraic("wide", linear(), f=np.exp, bound_x=sparse, n=30, shape=(40, 50), gentle=False),
        replace(usual, arrays=constant, truth={}, name="nothing-varies", gentle=False),
        single.with_arrays(lambda A: A.astype(np.float32), "float32"),
        replace(single, arrays=far, name="offset", dense_offset=True),
        single.with_arrays(lambda A: np.rint(20 * A / np.abs(A).max()).astype(np.int8), "int8"),
        single.with_arrays(lambda A: A * 1e15, "large-units"),
        single.with_arrays(lambda A: A * 1e-15, "small-units"),
    )


def shapes(case: Case, solution: Any) -> dict[str, tuple[int, ...]]:
    """Expected shapes of points, of the triangular maps, and of values for each pair."""
    k, (p, q) = len(solution.correlations), (A.shape[1] for A in case.arrays.values())
    square = {"x_weights": (k, k), "y_weights": (k, k)}
    return {"x_preimages": (p, k), "y_preimages": (q, k), **square, "agreeing": (k,), "values": (k,)}


def moved(case: Case, factor: float, seed: int) -> Case:
    """Permute the rows and change the units; with linear kernels the points stay the same."""
    order = np.random.default_rng(seed).permutation(len(case.main))
    return replace(case, arrays={name: factor * A[order] for name, A in case.arrays.items()}, truth={})


TESTING = ProblemTesting(
    cases=cases,
    oracle=PreimageOracle,
    shapes=shapes,
    moved=moved,
    bounded_entries=False,
    start_case=lambda: algebraic(
        "many-rows", linear(), f=np.exp, n=300, shape=(20, 15), bound_x=("ratio", 2.0)
    ),
    answer_checks={"points": check_points},
)
"""Independent checks for solvers of preimage CCA."""
