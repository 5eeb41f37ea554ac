"""Cases that once had a wrong answer, by name.

Each entry makes a case and names the solvers to try (None: all of its family). These cases come first in
every run. With ``--corpus`` they are the only ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec_fuzz.problems import Case, Matrix

__all__ = ["CORPUS"]

Entry = tuple[Case, tuple[str, ...] | None]


def _case(
    family: str, data: Mapping[str, Any], solvers: tuple[str, ...] | None = None, **parameters: Any
) -> Entry:
    matrices = {
        name: value if isinstance(value, Matrix) else Matrix(np.asarray(value))
        for name, value in data.items()
    }
    return Case(family, matrices, parameters), solvers


def _orthonormal(rng: np.random.Generator, n: int, k: int) -> HostArray:
    Q: HostArray = np.linalg.qr(rng.standard_normal((n, k)))[0]
    return Q


# ---- a residual that means the loss -----------------------------------------------------------


def nearly_duplicate_columns(small: float = 1e-7, seed: int = 0) -> Entry:
    """A column of Y is a copy of another plus a little of X; their difference carries the correlation."""
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((200, 5)), rng.standard_normal((200, 3))
    noisy = X[:, :1] + 0.1 * rng.standard_normal((200, 1))
    return _case("cca", {"X": X, "Y": np.hstack([Z, Z[:, :1] + small * noisy])}, k=1)


def shortest_direction(kappa: float = 1e5, seed: int = 0) -> Entry:
    """The only correlation is in the shortest direction of X."""
    rng = np.random.default_rng(seed)
    Q = _orthonormal(rng, 300, 16)
    U, noise = Q[:, :8], Q[:, 8:12]
    X = (U * np.geomspace(1, 1 / kappa, 8)) @ _orthonormal(rng, 8, 8).T
    Y = noise.copy()
    Y[:, 0] = 0.877 * U[:, -1] + np.sqrt(1 - 0.877**2) * noise[:, 0]
    return _case("cca", {"X": X * 17, "Y": Y @ _orthonormal(rng, 4, 4).T * 17}, k=1, center=False)


def many_close_correlations(step: float = 3e-3, seed: int = 0) -> Entry:
    """Fifty correlations just below the k-th, in orthonormal columns: a small residual proves little."""
    rng = np.random.default_rng(seed)
    Q = _orthonormal(rng, 150, 2 * 55)
    rho = np.concatenate([np.linspace(0.9, 0.8, 5), np.full(50, 0.8 - step)])
    X = Q[:, :55]
    Y = X * rho + Q[:, 55:] * np.sqrt(1 - rho**2)
    return _case(
        "cca", {"X": X @ _orthonormal(rng, 55, 55), "Y": Y @ _orthonormal(rng, 55, 55)}, k=5, center=False
    )


def huge_ridge(seed: int = 0) -> Entry:
    """A ridge far above the squares of the data: all correlations are small, and so is every residual."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((120, 4))
    X, Y = (Z @ rng.standard_normal((4, p)) + rng.standard_normal((120, p)) for p in (9, 7))
    return _case("cca", {"X": X, "Y": Y}, k=3, ridge=1e7)


# ---- extremes ---------------------------------------------------------------------------------


def scaled_matrix(power: int = -82, ridge: float = 0.0, targets: int = 0) -> Entry:
    """The squares of products with A overflow or underflow."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 5)) * 10.0**power
    return _case("least-squares", {"A": A, "B": rng.standard_normal(60) * 10.0**targets}, ridge=ridge)


def scaled_view(power: int = 78) -> Entry:
    """The squares of the entries of one view overflow or underflow."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((80, 2))
    X, Y = (Z @ rng.standard_normal((2, p)) + rng.standard_normal((80, p)) for p in (5, 4))
    return _case("cca", {"X": X * 10.0**power, "Y": Y}, k=2)


def large_means(ratio: float = 1e6, kind: str = "csr") -> Entry:
    """Means that are large compared with the spread, in sparse data."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((150, 6)) * np.geomspace(10, 1, 6) + ratio * rng.uniform(1, 2, 6)
    return _case("svd", {"A": Matrix(A, kind)}, k=3, center=True)


def ill_conditioned_targets(kappa: float = 1e11) -> Entry:
    """One direction of X is short. The targets lie along it and along two others."""
    rng = np.random.default_rng(0)
    U, s = _orthonormal(rng, 150, 8), np.ones(8)
    s[-1] = 1 / kappa
    X = (U * s) @ _orthonormal(rng, 8, 8).T
    H = U[:, -3:] + 0.05 * rng.standard_normal((150, 3))
    return _case("discriminant", {"X": X, "H": H}, k=3, center=False)


def one_by_one() -> Entry:
    """One row and one column, which centring makes zero."""
    return _case("cca", {"X": np.ones((1, 1)), "Y": np.ones((1, 1))}, k=1)


def narrow_labels(dtype: str = "bool") -> Entry:
    """Targets in a narrow dtype, for a float64 matrix whose columns have standard deviations from 1e3 down to 1."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((600, 20)) * np.geomspace(1e3, 1, 20)
    b = A @ (rng.standard_normal(20) / np.geomspace(1e3, 1, 20)) + rng.standard_normal(600) > 0
    return _case("least-squares", {"A": A, "B": b.astype(dtype)})


def integer_targets() -> Entry:
    """Targets in int8, for a float64 matrix."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 7)) * np.geomspace(1e3, 1, 7)
    H = np.eye(4, dtype=np.int8)[rng.integers(0, 4, 120)] * np.int8(100)
    return _case("discriminant", {"X": X, "H": H}, k=3)


def badly_scaled_columns(family: str = "discriminant") -> Entry:
    """Column scales from 1e-8 to 1e8."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 150)
    X = (rng.standard_normal((150, 9)) + rng.standard_normal((4, 9))[labels]) * np.geomspace(1e-8, 1e8, 9)
    H = np.eye(4)[labels]
    if family == "cca":
        return _case("cca", {"X": X, "Y": H[:, :3]}, k=2)
    return _case("discriminant", {"X": X, "H": H}, k=3)


def near_copy(small: float = 1e-8, kind: str = "ndarray", seed: int = 0) -> Entry:
    """A column is nearly a copy of another; Gram matrices lose the length of the difference."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((120, 6))
    X[:, 5] = X[:, 4] + small * rng.standard_normal(120)
    H = rng.standard_normal((120, 3))
    return _case("discriminant", {"X": Matrix(X, kind), "H": H}, k=3)


def dependent_columns(dtype: str = "float32") -> Entry:
    """A constant column, which is only rounding after centring."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 6))
    X[:, 2] = 1 / 3
    H = np.eye(3)[rng.integers(0, 3, 120)]
    return _case("discriminant", {"X": X.astype(dtype), "H": H.astype(dtype)}, k=2)


def rank_one_in_float32(kind: str = "ndarray", rows: int = 60, columns: int = 140) -> Entry:
    """A float32 matrix that has rank one after its means are subtracted.

    In float32, products with AᵀA give only rounding errors for the second and third singular values.
    """
    rng = np.random.default_rng(0)
    A = np.outer(rng.standard_normal(rows), rng.standard_normal(columns)) + rng.standard_normal(columns)
    return _case("svd", {"A": Matrix(A.astype(np.float32), kind)}, k=3, center=True)


CORPUS: Mapping[str, Callable[[], Entry]] = {
    **{f"nearly duplicate columns {small:g}": partial(nearly_duplicate_columns, small)
       for small in (1e-7, 1e-8, 1e-9, 1e-11)},
    "shortest direction 1e5": shortest_direction,
    "shortest direction 1e8": partial(shortest_direction, 1e8),
    "close correlations 3e-3": many_close_correlations,
    "close correlations 3e-4": partial(many_close_correlations, 3e-4),
    "huge ridge": huge_ridge,
    **{f"A times 1e{power}": partial(scaled_matrix, power) for power in (-82, -162, -200, 82, 160)},
    "A and B times 1e-82": partial(scaled_matrix, -82, targets=-82),
    "A times 1e-82, a ridge": partial(scaled_matrix, -82, 1e-160),
    **{f"a view times 1e{power}": partial(scaled_view, power) for power in (-78, 78, -160, 160, -200, 200)},
    **{f"means {ratio:g} times the spread, {kind}": partial(large_means, ratio, kind)
       for ratio in (1e6, 1e8) for kind in ("csr", "csc", "ndarray", "slices")},
    **{f"targets in short directions {kappa:g}": partial(ill_conditioned_targets, kappa)
       for kappa in (1e8, 1e11, 1e13)},
    "one by one": one_by_one,
    **{f"labels in {dtype}": partial(narrow_labels, dtype) for dtype in ("bool", "uint8", "float32", "float64")},
    "targets in int8": integer_targets,
    **{f"nearly a copy {small:g}, {kind}": partial(near_copy, small, kind)
       for small, kind in ((1e-8, "ndarray"), (1e-10, "slices"), (1e-10, "products"))},
    **{f"a constant column in {dtype}": partial(dependent_columns, dtype) for dtype in ("float32", "float64")},
    **{f"rank one in float32, {kind}": partial(rank_one_in_float32, kind) for kind in ("ndarray", "products")},
    "badly scaled columns": badly_scaled_columns,
    "badly scaled columns, CCA": partial(badly_scaled_columns, "cca"),
}  # fmt: skip
"""Functions that make the cases, by name."""
