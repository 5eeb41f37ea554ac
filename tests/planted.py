"""Small data with answers known beforehand, a case or more for each problem.

Data are made from their factors: A = U diag(s) Vᵀ, targets A x + noise orthogonal to A, and views U diag(s) Vᵀ and
W diag(t) Zᵀ with UᵀW = diag(ρ), whose canonical correlations are ρᵢ sᵢ/√(sᵢ² + r) tᵢ/√(tᵢ² + r) with a ridge r. As in
the latms family of LAPACK's test generators (Demmel & McKenney 1989).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import linspec as ls


@dataclass(frozen=True, eq=False)
class Case:
    """Host arrays, the other arguments of a problem, and what is known of its answer, by the fields of a solution."""

    problem: str
    arrays: Mapping[str, Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    truth: Mapping[str, Any] = field(default_factory=dict)

    def state(self, data: Mapping[str, Any] | None = None) -> Any:
        """Make the problem, on its arrays or on these."""
        data = self.arrays if data is None else data
        cls: Any = ls.get_problem(self.problem)
        several = self.problem in ("multiset-cca", "sumcor-cca")
        return cls(list(data.values()), **self.parameters) if several else cls(**data, **self.parameters)


def orthonormal(rng: np.random.Generator, n: int, k: int, *, centered: bool = False) -> Any:
    """Make an n x k matrix with orthonormal columns, orthogonal to the constant if `centered`."""
    columns = rng.standard_normal((n, k + centered))
    if centered:
        columns[:, 0] = 1.0
    return np.linalg.qr(columns)[0][:, int(centered) :]


def factored(n: int, p: int, values: Sequence[float], seed: int = 0) -> tuple[Any, Any, Any]:
    """A matrix with these singular values, and its left and right singular vectors."""
    rng = np.random.default_rng([seed, n, p])
    s = np.asarray(values, float)
    U, V = orthonormal(rng, n, len(s)), orthonormal(rng, p, len(s))
    return (U * s) @ V.T, U, V


def planted_svd(n: int, p: int, values: Sequence[float], k: int, *, seed: int = 0) -> Case:
    """A matrix with these singular values."""
    A, _, _ = factored(n, p, values, seed)
    return Case("svd", {"A": A}, {"k": k}, {"S": np.asarray(values, float)[:k]})


def planted_least_squares(
    n: int, p: int, values: Sequence[float], *, columns: int = 2, ridge: float = 0.0, seed: int = 0
) -> Case:
    """A matrix with these singular values, and targets with a part that it does not explain."""
    rng = np.random.default_rng([seed, n, p])
    s, r = np.asarray(values, float), len(values)
    U, V = orthonormal(rng, n, r), orthonormal(rng, p, r)
    inside, rest = rng.standard_normal((r, columns)), rng.standard_normal((n, columns))
    B = U @ inside + rest - U @ (U.T @ rest)
    x = V @ ((s / (s**2 + ridge))[:, None] * inside)
    return Case("least-squares", {"A": (U * s) @ V.T, "B": B}, {"ridge": ridge}, {"x": x})


def planted_cca(
    n: int, p: int, q: int, correlations: Sequence[float], k: int, *, values_x: Any = None, values_y: Any = None,
    ridge: Any = 0.0, center: bool = True, seed: int = 0,
) -> Case:  # fmt: skip
    """Views with these singular values, by default ones, and these correlations before the ridges."""
    rng = np.random.default_rng([seed, n, p, q])
    s = np.ones(p) if values_x is None else np.asarray(values_x, float)
    t = np.ones(q) if values_y is None else np.asarray(values_y, float)
    rho = np.zeros(min(len(s), len(t)))
    rho[: len(correlations)] = correlations
    Q = orthonormal(rng, n, len(s) + len(t), centered=center)
    U, W = Q[:, : len(s)], Q[:, len(s) :].copy()
    W[:, : len(rho)] = U[:, : len(rho)] * rho + W[:, : len(rho)] * np.sqrt(1 - rho**2)
    X, Y = (U * s) @ orthonormal(rng, p, len(s)).T, (W * t) @ orthonormal(rng, q, len(t)).T
    for values, r in zip((s, t), ridge if isinstance(ridge, tuple) else (ridge, ridge), strict=True):
        rho = rho * (values / np.sqrt(values**2 + r))[: len(rho)]
    views = {"X": X + center * rng.standard_normal(p), "Y": Y + center * rng.standard_normal(q)}
    given = {"k": k, "ridge": ridge, "center": center}
    return Case("cca", views, given, {"correlations": np.sort(rho)[::-1][:k]})


def planted_discriminant(n: int, p: int, eigenvalues: Sequence[float], k: int, *, seed: int = 0) -> Case:
    """Rows of unit variance whose directions have these shares of the squares of the targets."""
    rng = np.random.default_rng([seed, n, p])
    m = len(eigenvalues)
    Q = orthonormal(rng, n, p + m, centered=True)
    share = np.asarray(eigenvalues, float)
    H = (Q[:, :m] * np.sqrt(share) + Q[:, p:] * np.sqrt(1 - share)) @ orthonormal(rng, m, m)
    X = Q[:, :p] @ orthonormal(rng, p, p) + rng.standard_normal(p)
    return Case("discriminant", {"X": X, "H": H}, {"k": k}, {"eigenvalues": np.sort(share)[::-1][:k]})


def common_views(
    n: int, columns: Sequence[int], strengths: Sequence[float], *, own: int = 2, seed: int = 0
) -> list[Any]:
    """Views with variables in common: any two have these singular values of XᵀY, after centring."""
    rng = np.random.default_rng([seed, n, *columns])
    s = np.sort(np.asarray(strengths, float))[::-1]
    Q = orthonormal(rng, n, len(s) + own * len(columns), centered=True)
    size = np.sqrt(s.max(initial=0.0)) or 1.0
    views = []
    for i, p in enumerate(columns):
        common = (Q[:, : len(s)] * np.sqrt(s)) @ orthonormal(rng, p, len(s)).T
        alone = Q[:, len(s) + i * own : len(s) + (i + 1) * own] @ orthonormal(rng, p, own).T
        views.append(common + size * alone + rng.standard_normal(p))
    return views


def correlated(
    rng: np.random.Generator, n: int = 200, p: int = 5, q: int = 4, rho: Sequence[float] = (0.8, 0.5)
) -> tuple[Any, Any]:
    """Draw normal columns, of which the first of both views have these correlations in the population."""
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, q))
    for i, r in enumerate(rho):
        Y[:, i] = r * X[:, i] + np.sqrt(1 - r**2) * Y[:, i]
    return X, Y


def sharing(
    n: int, widths: Sequence[int], factors: int = 3, *, noise: float = 1.0, mean: float = 0.0, seed: int = 0
) -> list[Any]:
    """Draw views with normal variables in common, of falling size."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n, factors)) * np.linspace(2.0, 0.7, factors)
    return [
        common @ rng.standard_normal((factors, p)) + noise * rng.standard_normal((n, p)) + mean
        for p in widths
    ]


def planted_kernels(correlations: Sequence[float], k: int, *, n: int = 40, ridge: float = 0.5) -> Case:
    """Kernel matrices U diag(w) Uᵀ and V diag(w) Vᵀ with UᵀV = diag(ρ): the correlations are ρᵢ wᵢ/(wᵢ + ridge)."""
    rng = np.random.default_rng([7, n])
    rho, m = np.asarray(correlations), len(correlations)
    Q = orthonormal(rng, n, 2 * m, centered=True)
    U, V = Q[:, :m], Q[:, :m] * rho + Q[:, m:] * np.sqrt(1 - rho**2)
    w = np.geomspace(8.0, 2.0, m)
    given = {"k": k, "kernel_x": ls.kernels.precomputed(), "ridge": ridge}
    shared = np.sort(rho * w / (w + ridge))[::-1]
    arrays = {"X": (U * w) @ U.T, "Y": (V * w) @ V.T}
    return Case("kernel-cca", arrays, given, {"correlations": shared[:k]})


def related(n: int, p: int, q: int, seed: int = 0) -> tuple[Any, Any]:
    """Two views; columns of the second are a sine, a square and a tangent of columns of the first, with noise."""
    rng = np.random.default_rng([seed, n, p, q])
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, q))
    for j, relation in zip(range(min(p, q)), (np.sin, np.square, np.tanh), strict=False):
        Y[:, j] = relation(2 * X[:, j]) + 0.2 * Y[:, j]
    return X, Y


def curved(n: int, p: int, m: int, seed: int = 0) -> tuple[Any, Any]:
    """Rows, and targets that are functions of their first columns, with noise."""
    rng = np.random.default_rng([seed, n, p, m])
    X, relations = rng.standard_normal((n, p)), (np.sin, np.square, np.tanh)
    Y = [relations[j % 3](X[:, j % p]) + 0.1 * rng.standard_normal(n) for j in range(m)]
    return X, np.column_stack(Y)


def planted_nets(n: int = 100, p: int = 6, q: int = 5, k: int = 2, *, seed: int = 0) -> Case:
    """Views that have z and z² + 0.3 z in common, so that nets with correlations of 1 exist."""
    rng = np.random.default_rng([seed, n, p, q])
    z = rng.standard_normal((n, k))
    X = np.hstack([z, 0.5 * rng.standard_normal((n, p - k))]) @ orthonormal(rng, p, p)
    Y = np.hstack([z**2 + 0.3 * z, 0.5 * rng.standard_normal((n, q - k))]) @ orthonormal(rng, q, q)
    arrays = {"X": X + rng.standard_normal(p), "Y": Y + rng.standard_normal(q)}
    return Case("deep-cca", arrays, {"k": k})


RHO = (0.95, 0.8, 0.6, 0.3, 0.1)
MILD = {"values_x": np.geomspace(3, 1, 8), "values_y": np.geomspace(1, 3, 6)}


def _regression(problem: str, **parameters: Any) -> Case:
    A, B = planted_least_squares(60, 6, np.geomspace(3, 1, 6), columns=4).arrays.values()
    return Case(problem, {"X": A + 1.0, "Y": B - 2.0}, parameters)


def _views(problem: str, count: int, **parameters: Any) -> Case:
    views = common_views(60, (6, 5, 4)[:count], (3.0, 2.0, 1.0))
    names = "XY" if count == len("XY") else (f"X{i + 1}" for i in range(count))
    return Case(problem, dict(zip(names, views, strict=True)), parameters)


def _linear_preimages() -> Case:
    views = planted_cca(60, 5, 4, (0.95, 0.8, 0.5, 0.2), 2)
    return Case("preimage-cca", views.arrays, {"k": 2, "kernel_x": ls.kernels.linear()}, views.truth)


def _ridge() -> Case:
    X, Y = curved(60, 4, 2)
    return Case("kernel-ridge", {"X": X, "Y": Y}, {"kernel": ls.kernels.rbf(), "ridge": 0.5})


MADE: dict[str, Callable[[], Case]] = {
    "cca": lambda: planted_cca(60, 8, 6, RHO, 3, **MILD),
    "svd": lambda: planted_svd(60, 8, np.geomspace(8, 1, 8), 3),
    "least-squares": lambda: planted_least_squares(60, 8, np.geomspace(3, 1, 8)),
    "discriminant": lambda: planted_discriminant(60, 8, (0.9, 0.6, 0.3), 2),
    "kernel-cca": lambda: planted_kernels((0.95, 0.8, 0.6, 0.3), 2),
    "preimage-cca": _linear_preimages,
    "kernel-ridge": _ridge,
    "deep-cca": planted_nets,
    "multiset-cca": lambda: _views("multiset-cca", 3, k=3, ridge=0.5),
    "sumcor-cca": lambda: _views("sumcor-cca", 3, k=2, ridge=0.5),
    "pls": lambda: _views("pls", 2, k=3),
    "pls-regression": lambda: _regression("pls-regression", k=3),
    "reduced-rank-regression": lambda: _regression("reduced-rank-regression", k=2, ridge=0.5),
    "ridge-many-targets": lambda: _regression("ridge-many-targets"),
    "incomplete-pca": lambda: Case(
        "incomplete-pca", {"X": planted_svd(60, 8, np.geomspace(8, 1, 8), 3).arrays["A"]}, {"k": 3}
    ),
    "sparse-cca": lambda: Case("sparse-cca", planted_cca(60, 6, 5, RHO, 2).arrays, {"k": 2}),
    "sparse-pca": lambda: replace(planted_svd(60, 8, np.geomspace(8, 1, 8), 3), problem="sparse-pca"),
    "sparse-pls": lambda: _views("sparse-pls", 2, k=3),
}


def planted_case(problem: str) -> Case:
    """A mild case of a problem."""
    return MADE[problem]()
