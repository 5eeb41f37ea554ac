"""Planted cases of kernel canonical correlations, with exact answers and residuals computed independently.

The oracle evaluates kernels by their definitions, pair by pair of rows in float64, and takes the singular values of
Px^½ Py^½ with P = K(K + r)⁻¹ from two eigendecompositions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.spatial.distance

from linspec.arrays import HostArray
from linspec.features import KernelMap
from linspec.kernels import (
    RBF,
    Laplacian,
    Linear,
    Polynomial,
    laplacian,
    linear,
    polynomial,
    precomputed,
    rbf,
)
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

KINDS = frozenset({"recomputed", "bound", "unavailable"})
"""Possible values of `residual_kind`."""


@dataclass(frozen=True)
class KernelLaw(Law):
    """A recomputed residual; unavailable for functions outside the spaces of the kernels."""

    available: bool = True

    def contradicts(self, claimed: float, kind: str = "exact") -> bool:
        """Whether a claimed residual disagrees with the recomputed one, or is claimed although none is available."""
        if not self.available:
            return kind != "unavailable" or not math.isnan(claimed)
        return super().contradicts(claimed)


def values(kernel: Any, A: HostArray) -> HostArray:
    """Kernel values of all pairs of rows, by definition."""
    found: HostArray
    if isinstance(kernel, Linear):
        return A @ A.T
    if isinstance(kernel, Polynomial):
        gamma = 1 / np.mean(np.sum(A**2, axis=1)) if isinstance(kernel.gamma, str) else kernel.gamma
        found = (gamma * (A @ A.T) + kernel.offset) ** kernel.degree
        return found
    if isinstance(kernel, RBF | Laplacian):
        name = "euclidean" if isinstance(kernel, RBF) else "cityblock"
        D = scipy.spatial.distance.squareform(scipy.spatial.distance.pdist(A, name))
        scale = kernel.scale
        if isinstance(scale, str):
            scale = float(np.median(D[np.triu_indices(len(D), 1)])) * kernel.factor
        found = np.exp(-(D**2) / (2 * scale**2)) if isinstance(kernel, RBF) else np.exp(-D / scale)
        return found
    return A  # precomputed


class ViewOracle:
    """Centred kernel matrix of one view, with its eigendecomposition."""

    def __init__(self, A: HostArray, kernel: Any, ridge: float, center: bool, unit: float) -> None:
        K = values(kernel, A)
        self.trace = float(np.trace(K))
        if center:
            K = K - K.mean(axis=0)
            K = K - K.mean(axis=1)[:, None]
        self.K, self.ridge, self.center = (K + K.T) / 2, ridge, center
        w, self.U = np.linalg.eigh(self.K)
        self.w = np.maximum(w, 0.0)
        self.rank = int(np.sum(self.w > 10 * len(K) * unit * self.trace / len(K)))
        self.condition = 1.0 + self.trace / ridge

    @property
    def root(self) -> HostArray:
        """P^½ = (K(K + r)⁻¹)^½."""
        found: HostArray = (self.U * np.sqrt(self.w / (self.w + self.ridge))) @ self.U.T
        return found

    def dual(self, W: HostArray, landmarks: HostArray | None) -> HostArray:
        """Coefficients of all rows, centred; before centring, rows that are no landmarks have coefficient 0."""
        if landmarks is not None:
            scattered = np.zeros((len(self.K), W.shape[1]))
            scattered[landmarks] = W
            W = scattered
        return W - W.mean(axis=0) if self.center else W


class KernelOracle:
    """Exact canonical correlations, and the residual of an answer."""

    def __init__(self, case: Case, reading: Reading) -> None:
        given = case.parameters
        self.k = int(given["k"])
        ridge, center = given["ridge"], bool(given.get("center", True))
        rx, ry = ridge if isinstance(ridge, tuple) else (ridge, ridge)
        kernel_x = given["kernel_x"]
        kernel_y = given.get("kernel_y") or kernel_x
        X, Y = (A.astype(np.float64) for A in case.arrays.values())
        unit = precision(case)
        shift = max(shift_of(A) for A in (X, Y)) if case.dense_offset else 1.0
        # Dense rows are centred before distances are taken; sparse ones are not, and squares of means cancel.
        self.unit = reading.rounding(unit, shift) if reading.readable else max(unit, unit * shift**2)
        self.x = ViewOracle(X, kernel_x, float(rx), center, self.unit)
        self.y = ViewOracle(Y, kernel_y, float(ry), center, self.unit)
        self.left, rho, _ = np.linalg.svd(self.x.root @ self.y.root)
        self.all = np.clip(rho, 0.0, 1.0)
        self.count = min(self.k, self.x.rank, self.y.rank)
        padded = np.append(self.all, 0.0)
        self.correlations = padded[: self.count]
        self.gap = float(padded[self.count - 1] - padded[self.count]) if self.count else 0.0
        self.condition = max(self.x.condition, self.y.condition)

    @property
    def rounding(self) -> float:
        """Error of a correlation by rounding."""
        return float(ROUNDING * self.unit * self.condition)

    @property
    def attainable(self) -> float:
        """Residual that rounding alone may leave."""
        total = float(self.correlations.sum())
        return self.rounding**2 * 4 * self.count / total if total > 0 else 0.0

    def _pairs(self, solution: Any) -> tuple[HostArray, HostArray, HostArray]:
        a = self.x.dual(as_host(solution.x_weights), solution.x_landmarks)
        b = self.y.dual(as_host(solution.y_weights), solution.y_landmarks)
        return a, b, as_host(solution.correlations)

    def law(self, solution: Any) -> Law:
        """Compute the least and the largest residual that a solution may report.

        R is the residual vector of a pair in one view at the rows, ρ the correlation of the pair and r the ridge. The
        least residual is the exact one, ΣRᵀK(K + r)⁻¹R / Σρ, over pairs and views. The largest is Σ ts/(s + rt) / Σρ
        with t = RᵀR and s = RᵀKR, or Σt / Σρ for functions of landmarks.
        """
        if not isinstance(solution.x_map.map, KernelMap):
            return KernelLaw(math.nan, 0.0, available=False)
        a, b, rho = self._pairs(solution)
        some = solution.x_landmarks is not None and len(solution.x_landmarks) < len(self.x.K)
        total, most, vague = float(rho.sum()), 0.0, 0.0
        for view, other, v, w in ((self.x, self.y, a, b), (self.y, self.x, b, a)):
            R = other.K @ w - rho * (view.K @ v + view.ridge * v)
            t, s = np.sum(R * R, axis=0), np.maximum(np.sum(R * (view.K @ R), axis=0), 0.0)
            whole = s + view.ridge * t
            law = np.divide(t * s, whole, out=np.zeros(len(t)), where=whole > 0)
            most += float((t if some else law).sum())
            # Parts of R that K annihilates are in t; their share of s is rounding.
            vague += float(ROUNDING * self.unit * view.condition * t.sum())
        if total <= 0:
            return KernelLaw(0.0, self.attainable)
        return KernelLaw(self.exact_law(solution), self.attainable + vague / total, most / total)

    def exact_law(self, solution: Any) -> float:
        """Exact residual ΣRᵀK(K + r)⁻¹R / Σρ, which a claimed residual bounds from above."""
        a, b, rho = self._pairs(solution)
        found = 0.0
        for view, other, v, w in ((self.x, self.y, a, b), (self.y, self.x, b, a)):
            R = other.K @ w - rho * (view.K @ v + view.ridge * v)
            found += float(np.sum((view.root @ R) ** 2))
        return found / float(rho.sum())

    def nearest(self, rho: HostArray) -> HostArray:
        """Distance of each number to the nearest exact correlation."""
        found: HostArray = np.abs(np.append(self.all, 0.0)[:, None] - rho[None, :]).min(axis=0)
        return found

    def errors(self, solution: Any) -> list[str]:
        """Describe errors of the answer that are larger than its own residual explains."""
        a, b, rho = self._pairs(solution)
        if len(rho) != self.count:
            return [f"there are {self.count} canonical pairs to return; got {len(rho)}"]
        if not self.count:
            return []
        law = self.law(solution)
        off = math.sqrt((law.residual + law.floor) * float(rho.sum()))
        limit = self.rounding + math.sqrt(2) * off
        found = []
        error = float(np.abs(rho - self.correlations).max())
        if not error <= limit:
            found.append(f"a correlation is wrong by {error:.2g}; the residual explains {limit:.2g}")
        for name, view, v in (("x", self.x, a), ("y", self.y, b)):
            misfit = float(np.abs(v.T @ (view.K @ (view.K @ v + view.ridge * v)) - np.eye(len(rho))).max())
            if not misfit <= 10 * self.rounding:
                found.append(
                    f"{name}_weights must be orthonormal in their metric; the Gram matrix differs from I by "
                    f"{misfit:.2g}"
                )
        if self.gap > 1e-6 and off < self.gap:
            x = self.x
            turned = (x.U * np.sqrt(x.w * (x.w + x.ridge))) @ (x.U.T @ a)
            exact = self.left[:, : self.count]
            Q = np.linalg.qr(turned)[0]
            angle, limit = (
                float(np.linalg.norm(Q - exact @ (exact.T @ Q), 2)),
                (2 * off + self.rounding) / self.gap,
            )
            if not angle <= limit:
                found.append(
                    f"x_weights must span the leading space; the sine of the angle is {angle:.2g}, and the residual "
                    f"explains {limit:.2g}"
                )
        return found


def check_bounds(trial: Any) -> Iterator[str]:
    """Check that the i-th correlation is at most the i-th exact one, and that an exact one is within each bound."""
    solution, oracle = trial.solution, trial.oracle
    if solution.bounds is None:
        return
    rho, bounds = as_host(solution.correlations), as_host(solution.bounds)
    for i in np.flatnonzero(~(oracle.nearest(rho) <= bounds + oracle.rounding)):
        yield f"bounds[{i}] must hold; no exact correlation is within {bounds[i]:.2g} of the returned {rho[i]:.6g}"
    above = rho - np.append(oracle.all, np.zeros(len(rho)))[: len(rho)]
    if not np.all(above <= oracle.rounding):
        yield f"a correlation must not exceed the exact one; one does by {above.max():.2g}"


def related(n: int, p: int, q: int, seed: int = 0) -> dict[str, HostArray]:
    """Two views; some columns of the second are functions of columns of the first, with noise."""
    rng = np.random.default_rng([seed, n, p, q])
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, q))
    for j, relation in zip(range(min(p, q)), (np.sin, np.square, np.tanh), strict=False):
        Y[:, j] = relation(2 * X[:, j]) + 0.2 * Y[:, j]
    return {"X": X, "Y": Y}


def planted_kernels(
    n: int, correlations: tuple[float, ...], k: int, *, ridge: float, center: bool = True
) -> Case:
    """Precomputed kernel matrices U diag(w) Uᵀ whose eigenvectors have known inner products.

    ``correlations[i]`` is the inner product ρᵢ of eigenvector i of X and eigenvector i of Y. Both kernel matrices have
    the same eigenvalues wᵢ. With the ridge r, the canonical correlations are ρᵢ wᵢ/(wᵢ + r).
    """
    rng = np.random.default_rng([7, n])
    m = len(correlations)
    Q = orthonormal(rng, n, 2 * m, centered=center)
    U, V = Q[:, :m], Q[:, m:]
    rho = np.asarray(correlations)
    V = U * rho + V * np.sqrt(1 - rho**2)
    w = np.geomspace(8.0, 2.0, m)
    shared = np.sort(rho * w / (w + ridge))[::-1]
    return Case(
        name="precomputed",
        problem="kernel-cca",
        arrays={"X": (U * w) @ U.T, "Y": (V * w) @ V.T},
        parameters={"k": k, "kernel_x": precomputed(), "ridge": ridge, "center": center},
        truth={"correlations": shared[:k]},
    )


def planted_linear(k: int, name: str, *, rank: int = 5, center: bool = True) -> Case:
    """Linear kernels of views with planted canonical correlations."""
    rng = np.random.default_rng([3, rank])
    n, rho, ridge = 50, np.array([0.95, 0.8, 0.6, 0.3, 0.1])[:rank], 0.5
    Q = orthonormal(rng, n, 2 * rank, centered=center)
    U, V = Q[:, :rank], Q[:, :rank] * rho + Q[:, rank:] * np.sqrt(1 - rho**2)
    s, t = np.geomspace(3, 1, rank), np.geomspace(1, 3, rank)
    X, Y = (U * s) @ orthonormal(rng, 7, rank).T, (V * t) @ orthonormal(rng, 6, rank).T
    shrunk = np.sort(rho * s / np.sqrt(s**2 + ridge) * t / np.sqrt(t**2 + ridge))[::-1]
    return Case(
        name=name,
        problem="kernel-cca",
        arrays={"X": X + center * rng.standard_normal(7), "Y": Y + center * rng.standard_normal(6)},
        parameters={"k": k, "kernel_x": linear(), "ridge": ridge, "center": center},
        truth={"correlations": shrunk[:k]},
    )


def _case(name: str, kernel: Any, *, k: int = 3, ridge: Any = 0.6, n: int = 60, **more: Any) -> Case:
    gentle = more.pop("gentle", True)
    shape = more.pop("shape", (6, 5))
    return Case(
        name=name,
        problem="kernel-cca",
        arrays=related(n, *shape),
        parameters={"k": k, "kernel_x": kernel, "ridge": ridge, **more},
        gentle=gentle,
    )


def cases() -> tuple[Case, ...]:
    """Cases of kernels, sizes, ridges, dtypes and units."""
    usual = _case("rbf", rbf())
    single = usual.with_arrays(lambda A: A.astype(np.float32), "float32")
    far = {name: A + 1e4 * A.std(axis=0) for name, A in usual.arrays.items()}
    with_zeros = {name: np.where(np.abs(A) < 0.8, 0.0, A) for name, A in usual.arrays.items()}
    return (
        usual,
        _case("rbf-narrow", rbf(factor=0.5), ridge=0.06),
        _case("rbf-wide", rbf(3.0), ridge=(0.1, 2.0)),
        _case("laplacian", laplacian()),
        _case("polynomial", polynomial(2, 1.0, 0.2), ridge=50.0),
        _case("cubic", polynomial(3, 0.5), ridge=2.0),
        _case("two-kernels", rbf(), kernel_y=polynomial(2), ridge=1.0),
        planted_linear(3, "linear"),
        planted_linear(5, "linear-all"),
        planted_linear(4, "linear-k-above-rank", rank=3),
        planted_linear(2, "linear-no-centring", center=False),
        planted_kernels(40, (0.95, 0.8, 0.6, 0.3), 2, ridge=0.5),
        _case("no-centring", rbf(), center=False),
        _case("k-one", rbf(), k=1),
        _case("one-column", rbf(1.0), k=2, shape=(1, 3)),
        _case("small-ridge", rbf(), ridge=1e-3, gentle=False),
        replace(usual, arrays=with_zeros, name="zeros"),
        single,
        replace(usual, arrays=far, name="offset", dense_offset=True),
        usual.with_arrays(lambda A: np.rint(20 * A).astype(np.int8), "int8"),
        usual.with_arrays(lambda A: A * 1e15, "large-units"),
        usual.with_arrays(lambda A: A * 1e-15, "small-units"),
    )


def shapes(case: Case, solution: Any) -> dict[str, tuple[int, ...]]:
    """Expected shapes of the weights: for all rows, the landmarks, or the features."""
    k = len(solution.correlations)
    found: dict[str, tuple[int, ...]] = {}
    for view in ("x", "y"):
        landmarks, fitted = getattr(solution, f"{view}_landmarks"), getattr(solution, f"{view}_map").map
        rows = len(case.main) if landmarks is None else len(landmarks)
        found[f"{view}_weights"] = (rows if isinstance(fitted, KernelMap) else fitted.columns, k)
    return found


def moved(case: Case, factor: float, seed: int) -> Case:
    """Rotate and scale the columns and permute the rows; a kernel with a median scale is invariant to this."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(case.main))
    arrays = {
        name: factor * A[order] @ np.linalg.qr(rng.standard_normal((A.shape[1], A.shape[1])))[0]
        for name, A in case.arrays.items()
    }
    return replace(case, arrays=arrays, truth={})


TESTING = ProblemTesting(
    cases=cases,
    oracle=KernelOracle,
    shapes=shapes,
    moved=moved,
    bounded_entries=False,
    residual_kinds=KINDS,
    start_case=lambda: _case("many-rows", rbf(factor=0.5), n=300, k=3, ridge=0.3),
    answer_checks={"bounds": check_bounds},
)
"""Independent checks for solvers of kernel CCA."""
