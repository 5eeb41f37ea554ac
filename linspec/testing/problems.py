"""Small problems with known answers: what the conformance kit gives to solvers.

Problem: a check that compares a solver with another solver finds what they disagree on and never what both
get wrong.
Method: data are built from their factors, so the answer is known before anything is computed. A least-squares
matrix is U diag(s) Vᵀ and its right-hand sides are images of a chosen x plus something orthogonal to U. Two
views are Ux diag(sx) Vxᵀ and Uy diag(sy) Vyᵀ with UxᵀUy = diag(ρ): then ρᵢ sxᵢ/√(sxᵢ² + rx) syᵢ/√(syᵢ² + ry)
are the canonical correlations, for any shape, rank and ridge. Targets are H = UB + noise that X does not see, with
B = D⁻¹ P diag(√λ) Qᵀ and D = diag(s/√(s² + ridge)): then λ are the eigenvalues of (XᵀX + ridge)⁻¹XᵀHHᵀX.
Source: the latms family of LAPACK's test generators (Demmel & McKenney 1989).
Where we differ: everything is at most 120 rows, because a kit that is slow is not run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from linspec.arrays import HostArray

__all__ = ["Case", "cases", "planted_cca", "planted_discriminant", "planted_least_squares", "planted_svd"]

Values = Sequence[float] | HostArray

OFFSET = 1e4
"""Column means in units of the standard deviation where centring is put to the test."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """A problem for solvers: host arrays, parameters, and what was planted.

    Attributes
    ----------
    name : str
        Part of a test's id.
    problem : str
        The problem's name: "least-squares", "svd", "cca" or "discriminant".
    arrays : mapping of str to numpy.ndarray
        The data by the problem's own names, ``{"A": ..., "B": ...}``.
    parameters : mapping
        The problem's numbers: ridge, k, center, left.
    truth : mapping of str to numpy.ndarray
        What was planted: ``x``; ``S``; ``correlations``; ``eigenvalues``. Empty where rounding to another dtype
        has moved it.
    gentle : bool
        Whether an iterative solver must reach its tolerance here: condition numbers of at most about ten.
    dense_offset : bool
        Whether the column means are so large that only entries which can be read are centred safely.
    """

    name: str
    problem: str
    arrays: Mapping[str, HostArray]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    truth: Mapping[str, HostArray] = field(default_factory=dict)
    gentle: bool = True
    dense_offset: bool = False

    @property
    def main(self) -> HostArray:
        """The first matrix, whose home and dtype the answer takes."""
        return next(iter(self.arrays.values()))

    def with_arrays(self, change: Callable[[HostArray], HostArray], name: str) -> Case:
        """The same problem on changed arrays, without the planted answer."""
        arrays = {key: change(value) for key, value in self.arrays.items()}
        return replace(self, arrays=arrays, name=name, truth={})

    def in_single(self) -> Case:
        """The same problem with float64 arrays rounded to float32."""

        def rounded(x: HostArray) -> HostArray:
            return x.astype(np.float32) if x.dtype == np.float64 else x

        return self.with_arrays(rounded, self.name)

    def state(self, data: Mapping[str, Any]) -> Any:
        """The problem on given data (the case's arrays in some library, say)."""
        import linspec

        classes = {
            "least-squares": linspec.LeastSquares,
            "svd": linspec.SVD,
            "cca": linspec.CCA,
            "discriminant": linspec.Discriminant,
        }
        return classes[self.problem](**data, **self.parameters)


def orthonormal(rng: np.random.Generator, n: int, k: int, *, centered: bool = False) -> HostArray:
    """An n x k matrix with orthonormal columns, orthogonal to the constant vector where asked."""
    columns = rng.standard_normal((n, k + centered))
    if centered:
        columns[:, 0] = 1.0
    Q: HostArray = np.linalg.qr(columns)[0][:, int(centered) :]
    return Q


def planted_least_squares(
    n: int,
    p: int,
    values: Values,
    *,
    columns: int = 2,
    ridge: float = 0.0,
    seed: int = 0,
    name: str = "planted",
    gentle: bool = True,
) -> Case:
    """min ‖A x − B‖² + ridge ‖x‖² with known singular values of A and known x.

    Parameters
    ----------
    n, p : int
        Shape of A.
    values : sequence of float
        Singular values that are not zero, at most min(n, p).
    columns : int, default 2
        Right-hand sides; 0 makes B one-dimensional.
    ridge : float, default 0.0
    seed : int, default 0
    name : str, default "planted"
    gentle : bool, default True

    Returns
    -------
    Case
        ``truth["x"]`` is the solution of least norm.
    """
    rng = np.random.default_rng([seed, n, p])
    s = np.asarray(values, dtype=np.float64)
    U, V = orthonormal(rng, n, len(s)), orthonormal(rng, p, len(s))
    c = rng.standard_normal((len(s), max(columns, 1)))
    noise = rng.standard_normal((n, max(columns, 1)))
    noise -= U @ (U.T @ noise)
    A, B = (U * s) @ V.T, U @ (s[:, None] * c) + s.mean() * 0.5 * noise
    x = V @ ((s**2 / (s**2 + ridge))[:, None] * c)
    if columns == 0:
        B, x = B[:, 0], x[:, 0]
    return Case(
        name=name,
        problem="least-squares",
        arrays={"A": A, "B": B},
        parameters={"ridge": ridge},
        truth={"x": x},
        gentle=gentle,
    )


def planted_svd(  # noqa: PLR0913
    n: int,
    p: int,
    values: Values,
    k: int,
    *,
    center: bool = False,
    left: bool = True,
    seed: int = 0,
    name: str = "planted",
    gentle: bool = True,
) -> Case:
    """A matrix with known singular triplets.

    Parameters
    ----------
    n, p : int
    values : sequence of float
        Singular values that are not zero.
    k : int
        Triplets wanted.
    center : bool, default False
        Add column means, which the problem then takes out.
    left : bool, default True
    seed : int, default 0
    name : str, default "planted"
    gentle : bool, default True

    Returns
    -------
    Case
        ``truth["S"]`` holds the k leading singular values (fewer where the rank is lower).
    """
    rng = np.random.default_rng([seed, n, p])
    s = np.sort(np.asarray(values, dtype=np.float64))[::-1]
    U, V = orthonormal(rng, n, len(s), centered=center), orthonormal(rng, p, len(s))
    A = (U * s) @ V.T
    if center:
        A = A + rng.standard_normal(p)
    return Case(
        name=name,
        problem="svd",
        arrays={"A": A},
        parameters={"k": k, "center": center, "left": left},
        truth={"S": s[:k]},
        gentle=gentle,
    )


def planted_cca(  # noqa: PLR0913
    n: int,
    p: int,
    q: int,
    correlations: Values,
    k: int,
    *,
    values_x: Values | None = None,
    values_y: Values | None = None,
    ridge: float | tuple[float, float] = 0.0,
    center: bool = True,
    seed: int = 0,
    name: str = "planted",
    gentle: bool = True,
) -> Case:
    """Two views with known canonical correlations.

    Parameters
    ----------
    n, p, q : int
        Rows, columns of X, columns of Y.
    correlations : sequence of float
        Of the planted directions, before the ridge; the others are uncorrelated.
    k : int
        Pairs wanted.
    values_x, values_y : sequence of float, optional
        Singular values of the (centred) views that are not zero; by default p (q) of them, all one.
    ridge : float or pair of floats, default 0.0
    center : bool, default True
        Whether the problem centres; if so the views get column means.
    seed : int, default 0
    name : str, default "planted"
    gentle : bool, default True

    Returns
    -------
    Case
        ``truth["correlations"]``: the k largest with the ridge, fewer where the ranks are lower.
    """
    rng = np.random.default_rng([seed, n, p, q])
    sx = np.ones(p) if values_x is None else np.asarray(values_x, dtype=np.float64)
    sy = np.ones(q) if values_y is None else np.asarray(values_y, dtype=np.float64)
    rho, a, b = np.asarray(correlations, dtype=np.float64), len(sx), len(sy)
    Q = orthonormal(rng, n, a + b, centered=center)
    Ux, Uy = Q[:, :a], Q[:, a:].copy()
    Uy[:, : len(rho)] = Ux[:, : len(rho)] * rho + Uy[:, : len(rho)] * np.sqrt(1 - rho**2)
    X, Y = (Ux * sx) @ orthonormal(rng, p, a).T, (Uy * sy) @ orthonormal(rng, q, b).T
    rx, ry = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    full = np.zeros(min(a, b))
    full[: len(rho)] = rho
    full *= (sx / np.sqrt(sx**2 + rx))[: len(full)] * (sy / np.sqrt(sy**2 + ry))[: len(full)]
    if center:
        X, Y = X + rng.standard_normal(p), Y + rng.standard_normal(q)
    return Case(
        name=name,
        problem="cca",
        arrays={"X": X, "Y": Y},
        parameters={"k": k, "ridge": ridge, "center": center},
        truth={"correlations": np.sort(full)[::-1][:k]},
        gentle=gentle,
    )


def planted_discriminant(  # noqa: PLR0913
    n: int,
    p: int,
    t: int,
    eigenvalues: Values,
    k: int | None,
    *,
    values: Values | None = None,
    ridge: float = 0.0,
    center: bool = True,
    seed: int = 0,
    name: str = "planted",
    gentle: bool = True,
) -> Case:
    """Data and targets with known discriminant eigenvalues.

    Parameters
    ----------
    n, p, t : int
        Rows, columns of X, columns of H.
    eigenvalues : sequence of float
        Those that are not zero, with the ridge of the problem; at most t, and as many as X has singular values.
    k : int or None
        Directions wanted.
    values : sequence of float, optional
        Singular values of the (centred) X that are not zero; by default p of them, all one.
    ridge : float, default 0.0
    center : bool, default True
        Whether the problem centres; if so X and H get column means.
    seed : int, default 0
    name : str, default "planted"
    gentle : bool, default True

    Returns
    -------
    Case
        ``truth["eigenvalues"]``: the k largest, fewer where there are fewer.
    """
    rng = np.random.default_rng([seed, n, p, t])
    s = np.ones(p) if values is None else np.asarray(values, dtype=np.float64)
    found = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1]
    U, V = orthonormal(rng, n, len(s), centered=center), orthonormal(rng, p, len(s))
    P, Q = orthonormal(rng, len(s), len(found)), orthonormal(rng, t, len(found))
    # Columns that X sees nothing of, about as large as those that it sees.
    unseen = rng.standard_normal((n, t)) * np.sqrt(found.sum() / (n * t))
    unseen -= U @ (U.T @ unseen) + center * unseen.mean(axis=0)
    X, H = (U * s) @ V.T, U @ ((np.sqrt(s**2 + ridge) / s)[:, None] * P * np.sqrt(found)) @ Q.T + unseen
    if center:
        X, H = X + rng.standard_normal(p), H + rng.standard_normal(t)
    return Case(
        name=name,
        problem="discriminant",
        arrays={"X": X, "H": H},
        parameters={"k": k, "ridge": ridge, "center": center},
        truth={"eigenvalues": found[:k]},
        gentle=gentle,
    )


def cases(problem: str) -> tuple[Case, ...]:
    """The problems that every solver of one kind is given.

    Parameters
    ----------
    problem : str
        "least-squares", "svd", "cca" or "discriminant".

    Returns
    -------
    tuple of Case
        Empty for a problem that the kit does not know.
    """
    makers = {
        "least-squares": _least_squares_cases,
        "svd": _svd_cases,
        "cca": _cca_cases,
        "discriminant": _discriminant_cases,
    }
    return tuple(makers[problem]()) if problem in makers else ()


def _geometric(first: float, last: float, count: int) -> HostArray:
    return np.geomspace(first, last, count)


def _offset(case: Case, *names: str) -> Case:
    """Column means of 1e4 standard deviations."""
    arrays = {
        key: value + OFFSET * value.std(axis=0) if key in names else value
        for key, value in case.arrays.items()
    }
    return replace(case, arrays=arrays, dense_offset=True)


def _as_integers(case: Case, name: str, dtype: str) -> Case:
    """The data rounded to integers of a type (or to the signs, for bool)."""

    def rounded(x: HostArray) -> HostArray:
        unit = np.abs(x).max() / 100
        return x > np.median(x, axis=0) if dtype == "bool" else np.rint(x / unit).astype(dtype)

    return case.with_arrays(rounded, name)


def _zeroed_columns(case: Case, name: str, *keys: str) -> Case:
    """Zero columns put between the others; the planted answer keeps its numbers."""
    arrays = dict(case.arrays)
    for key in keys:
        arrays[key] = np.insert(arrays[key], [1, 3], 0.0, axis=1)
    truth = {
        key: np.insert(value, [1, 3], 0.0, axis=0) if key == "x" else value
        for key, value in case.truth.items()
    }
    return replace(case, arrays=arrays, name=name, truth=truth)


def _constant_columns(case: Case, name: str) -> Case:
    """Columns that are zero once the means are taken out, of numbers that binary fractions only approach."""
    arrays = {key: np.insert(value, [1, 3], [3.0, 0.1], axis=1) for key, value in case.arrays.items()}
    return replace(case, arrays=arrays, name=name)


def _least_squares_cases() -> list[Case]:
    make = planted_least_squares
    tall = make(60, 8, _geometric(3, 1, 8), name="tall")
    zero_rhs = replace(
        tall, name="zero-rhs", arrays={**tall.arrays, "B": np.zeros((60, 2))}, truth={"x": np.zeros((8, 2))}
    )
    one_zero = np.array([1.0, 0.0])
    return [
        tall,
        make(12, 30, _geometric(3, 1, 12), name="wide"),
        make(12, 30, _geometric(3, 1, 12), ridge=0.7, name="wide-ridge"),
        make(15, 15, _geometric(3, 1, 15), name="square"),
        make(80, 10, _geometric(1e3, 1, 10), name="decaying", gentle=False),
        make(80, 10, _geometric(1e3, 1, 10), ridge=1e5, name="decaying-ridge"),
        make(80, 10, _geometric(1e6, 1, 10), name="ill-conditioned", gentle=False),
        make(50, 7, np.ones(7), name="flat"),
        make(50, 10, _geometric(3, 1, 6), name="rank-deficient"),
        make(50, 10, _geometric(3, 1, 6), ridge=0.5, name="rank-deficient-ridge"),
        make(50, 8, [3, 3, 3, 2, 2, 1, 1, 1], name="repeated"),
        _zeroed_columns(make(40, 6, _geometric(3, 1, 6)), "zero-columns", "A"),
        zero_rhs,
        replace(
            tall,
            name="one-zero-rhs",
            arrays={**tall.arrays, "B": tall.arrays["B"] * one_zero},
            truth={"x": tall.truth["x"] * one_zero},
        ),
        make(40, 6, _geometric(3, 1, 6), columns=0, name="vector"),
        make(40, 1, [2.0], name="one-column"),
        make(1, 4, [2.0], name="one-row"),
        make(60, 8, _geometric(3, 1, 8), ridge=2.0, name="ridge"),
        replace(_offset(make(60, 5, _geometric(3, 1, 5)), "A"), name="offset", truth={}, gentle=False),
        make(60, 8, _geometric(3, 1, 8)).with_arrays(lambda x: x.astype(np.float32), "float32"),
        make(12, 30, _geometric(3, 1, 12)).with_arrays(lambda x: x.astype(np.float32), "float32-wide"),
        _as_integers(make(60, 8, _geometric(3, 1, 8)), "int8", "int8"),
        _as_integers(make(60, 8, _geometric(3, 1, 8)), "int64", "int64"),
        _as_integers(make(60, 8, _geometric(3, 1, 8)), "bool", "bool"),
        # Units in which squares of entries come near the ends of the float32 range, not of the float64 one.
        make(40, 6, _geometric(3e15, 1e15, 6), name="large-units"),
        make(40, 6, _geometric(3e-15, 1e-15, 6), name="small-units"),
    ]


def _svd_cases() -> list[Case]:
    make = planted_svd
    zero = replace(
        make(20, 6, [1.0], 2, name="zero"), arrays={"A": np.zeros((20, 6))}, truth={"S": np.zeros(0)}
    )
    return [
        make(60, 12, _geometric(10, 0.1, 12), 3, name="tall"),
        make(15, 40, _geometric(10, 0.1, 15), 3, name="wide"),
        make(15, 15, _geometric(10, 0.1, 15), 3, name="square"),
        make(80, 12, _geometric(1e3, 1e-3, 12), 4, name="decaying"),
        make(50, 8, np.linspace(1.3, 1, 8), 3, name="slow", gentle=False),
        make(50, 8, np.ones(8), 3, name="flat"),
        make(50, 12, [5, 4, 3, 2], 3, name="rank-deficient"),
        make(50, 12, [5, 4, 3, 2], 4, name="k-equals-rank"),
        make(50, 12, [5, 4, 3, 2], 6, name="k-above-rank"),
        make(50, 10, [4, 4, 4, 1, 1, 0.5], 3, name="repeated"),
        _zeroed_columns(make(40, 8, _geometric(8, 0.5, 8), 3), "zero-columns", "A"),
        make(50, 10, _geometric(8, 0.5, 10), 1, name="k-one"),
        make(30, 6, _geometric(8, 0.5, 6), 6, name="k-all"),
        make(50, 10, _geometric(8, 0.5, 10), 3, left=False, name="no-left"),
        make(50, 10, _geometric(8, 0.5, 10), 3, center=True, name="centred"),
        replace(_offset(make(60, 8, _geometric(8, 0.5, 8), 3, center=True), "A"), name="offset"),
        _constant_columns(make(40, 8, _geometric(8, 0.5, 8), 3, center=True), "constant-columns"),
        make(60, 12, _geometric(10, 0.1, 12), 3).with_arrays(lambda x: x.astype(np.float32), "float32"),
        _as_integers(make(60, 12, _geometric(10, 0.1, 12), 3), "int8", "int8"),
        _as_integers(make(60, 12, _geometric(10, 0.1, 12), 3), "bool", "bool"),
        make(60, 12, _geometric(1e16, 1e14, 12), 3, name="large-units"),
        make(60, 12, _geometric(1e-14, 1e-16, 12), 3, name="small-units"),
        make(1, 6, [2.0], 1, name="one-row"),
        make(20, 1, [2.0], 1, name="one-column"),
        zero,
        # Enough columns that a basis of a few times k of them does not hold the whole space.
        make(110, 90, _geometric(10, 1, 90), 2, name="many-columns"),
        make(60, 100, _geometric(10, 2, 50), 2, center=True, name="many-columns-wide"),
        make(100, 12, _geometric(1, 1e-4, 12), 12, name="small-values"),
    ]


def _cca_cases() -> list[Case]:
    make = planted_cca
    rho = (0.95, 0.8, 0.6, 0.3, 0.1)
    mild_x, mild_y = _geometric(3, 1, 8), _geometric(1, 3, 6)
    mild: dict[str, Any] = {"values_x": mild_x, "values_y": mild_y}
    tall = make(60, 8, 6, rho, 3, **mild, name="tall")
    wide: dict[str, Any] = {"values_x": np.full(9, 3.0), "values_y": np.full(8, 2.0), "ridge": 1.0}
    low: dict[str, Any] = {"values_x": _geometric(3, 1, 4), "values_y": _geometric(1, 3, 5)}
    return [
        tall,
        make(60, 6, 6, rho, 3, name="square"),
        make(20, 30, 25, (0.9, 0.7, 0.5), 3, **wide, name="wide-ridge"),
        make(
            90,
            8,
            6,
            rho,
            3,
            values_x=_geometric(300, 1, 8),
            values_y=_geometric(1, 300, 6),
            name="decaying",
            gentle=False,
        ),
        make(60, 8, 6, rho, 3, name="flat"),
        make(60, 9, 8, rho[:4], 3, **low, name="rank-deficient"),
        make(60, 9, 8, rho[:4], 3, **low, ridge=0.5, name="rank-deficient-ridge"),
        make(60, 9, 8, rho[:4], 4, **low, name="k-equals-rank"),
        make(60, 9, 8, rho[:4], 6, **low, name="k-above-rank"),
        make(60, 8, 6, (0.8, 0.8, 0.8, 0.3), 3, name="repeated"),
        make(60, 8, 6, (0.9, 0.7, 0.7, 0.3), 2, name="repeated-at-k", gentle=False),
        _zeroed_columns(make(60, 6, 5, rho[:4], 2), "zero-columns", "X", "Y"),
        _constant_columns(make(60, 6, 5, rho[:4], 2), "constant-columns"),
        make(60, 8, 6, rho, 1, **mild, name="k-one"),
        make(60, 8, 5, rho, 5, name="k-all"),
        make(40, 1, 3, (0.7,), 1, name="one-column"),
        make(60, 8, 6, (), 2, name="uncorrelated", gentle=False),
        make(60, 8, 6, (1.0, 1.0, 0.5), 3, name="shared-directions"),
        make(60, 8, 6, rho, 3, **mild, ridge=2.0, name="ridge"),
        make(60, 8, 6, rho, 3, **mild, ridge=(0.0, 3.0), name="ridge-pair"),
        make(60, 8, 6, rho, 3, **mild, center=False, name="no-centring"),
        replace(_offset(tall, "X", "Y"), name="offset"),
        tall.with_arrays(lambda x: x.astype(np.float32), "float32"),
        replace(_offset(tall, "X", "Y"), name="float32-offset").with_arrays(
            lambda x: x.astype(np.float32), "float32-offset"
        ),
        make(60, 8, 6, rho, 3, **mild, ridge=2.0).with_arrays(
            lambda x: x.astype(np.float32), "float32-ridge"
        ),
        _as_integers(tall, "int8", "int8"),
        _as_integers(tall, "int64", "int64"),
        _as_integers(tall, "bool", "bool"),
        tall.with_arrays(lambda x: x * 1e15, "large-units"),
        tall.with_arrays(lambda x: x * 1e-15, "small-units"),
    ]


def _unrelated(case: Case) -> Case:
    """Targets of which the columns of X say nothing: XᵀH is rounding."""
    X, H = (A - A.mean(axis=0) for A in (case.arrays["X"], case.arrays["H"]))
    return replace(case, arrays={**case.arrays, "H": H - X @ np.linalg.lstsq(X, H, rcond=None)[0]})


def _discriminant_cases() -> list[Case]:
    make = planted_discriminant
    found = (5.0, 2.0, 1.0, 0.4)
    mild: dict[str, Any] = {"values": _geometric(3, 1, 8)}
    low: dict[str, Any] = {"values": _geometric(3, 1, 6)}
    steep: dict[str, Any] = {"values": _geometric(300, 1, 8)}
    tall = make(60, 8, 6, found, 3, **mild, name="tall")
    none = {"eigenvalues": np.zeros(0)}
    return [
        tall,
        make(20, 30, 5, found, 3, values=_geometric(3, 1, 19), name="wide"),
        make(20, 30, 5, found, 3, values=_geometric(3, 1, 19), ridge=0.7, name="wide-ridge"),
        make(15, 15, 5, found, 3, values=_geometric(3, 1, 15), center=False, name="square"),
        make(90, 8, 5, found, 3, **steep, name="decaying", gentle=False),
        make(90, 8, 5, found, 3, **steep, ridge=1e4, name="decaying-ridge"),
        make(90, 8, 5, found, 3, values=_geometric(1e6, 1, 8), name="ill-conditioned", gentle=False),
        make(60, 8, 5, found, 3, name="flat"),
        make(50, 10, 5, found, 3, **low, name="rank-deficient"),
        make(50, 10, 5, found, 3, **low, ridge=0.5, name="rank-deficient-ridge"),
        make(50, 10, 5, found[:3], 3, **low, name="k-equals-rank"),
        make(50, 10, 5, found[:3], 5, **low, name="k-above-rank"),
        make(50, 10, 5, found[:3], 5, **low, ridge=0.5, name="k-above-rank-ridge"),
        make(50, 10, 5, found[:3], None, **low, name="k-by-rank"),
        make(50, 8, 6, found[:3], None, **mild, ridge=0.5, name="k-by-rank-ridge"),
        make(50, 8, 5, (4, 4, 4, 1), 3, **mild, name="repeated"),
        make(50, 8, 5, (4, 2, 2, 1), 2, **mild, name="repeated-at-k"),
        _zeroed_columns(make(40, 6, 5, found, 2), "zero-columns", "X", "H"),
        _constant_columns(make(40, 6, 5, found, 2), "constant-columns"),
        make(60, 8, 5, found, 1, **mild, name="k-one"),
        make(60, 8, 4, found, 4, **mild, name="k-all"),
        make(40, 1, 3, (2.0,), 1, name="one-column"),
        make(60, 8, 1, (2.0,), 1, **mild, name="one-target"),
        make(1, 4, 2, (2.0,), 1, values=[2.0], center=False, name="one-row"),
        replace(_zeroed(tall, "H"), name="zero-targets", truth=none),
        replace(
            tall,
            arrays={**tall.arrays, "H": np.tile([3.0, 0.1, 7.0], (60, 1))},
            name="constant-targets",
            truth=none,
        ),
        replace(_unrelated(tall), name="unrelated", truth=none),
        replace(_zeroed(tall, "X"), name="zero-data", truth=none),
        make(2, 4, 3, (2.0,), 1, values=[2.0], name="two-rows"),
        replace(
            make(60, 8, 5, found, 3, **mild, name="badly-scaled", gentle=False),
            arrays={**tall.arrays, "X": tall.main * _geometric(1e-3, 1e3, 8)},
        ),
        make(60, 8, 6, found, 3, **mild, center=False, name="no-centring"),
        make(60, 8, 6, found, 3, **mild, ridge=2.0, name="ridge"),
        replace(_offset(tall, "X"), name="offset"),
        replace(_offset(tall, "H"), name="offset-targets"),
        tall.with_arrays(_single, "float32"),
        replace(_offset(tall, "X"), name="float32-offset").with_arrays(_single, "float32-offset"),
        make(60, 8, 6, found, 3, **mild, ridge=2.0).with_arrays(_single, "float32-ridge"),
        replace(tall, name="float32-data", arrays={**tall.arrays, "X": _single(tall.main)}, truth={}),
        _as_integers(tall, "int8", "int8"),
        _as_integers(tall, "int64", "int64"),
        _as_integers(tall, "bool", "bool"),
        _classes(3, "classes"),
        _classes(4, "classes-all"),
        _classes(None, "classes-by-rank"),
        _labels(),
        tall.with_arrays(lambda x: x * 1e15, "large-units"),
        tall.with_arrays(lambda x: x * 1e-15, "small-units"),
        # Enough columns and targets that a basis of a few times k of them does not hold the whole space.
        make(110, 90, 40, _geometric(9, 0.1, 40), 2, values=_geometric(3, 1, 90), name="many-columns"),
        make(60, 100, 40, _geometric(9, 0.1, 40), 2, values=_geometric(3, 1, 50), name="many-columns-wide"),
    ]


def _single(x: HostArray) -> HostArray:
    return x.astype(np.float32)


def _zeroed(case: Case, key: str) -> Case:
    """Nothing but zeros in one of the matrices."""
    return replace(case, arrays={**case.arrays, key: np.zeros_like(case.arrays[key])})


def _classes(k: int | None, name: str) -> Case:
    """Four classes of unequal size as targets of linear discriminant analysis: of rank three, X being centred."""
    case = planted_discriminant(60, 8, 4, (3.0, 2.0, 1.0), k, values=_geometric(3, 1, 8), name=name)
    members = np.repeat(np.eye(4), (30, 15, 10, 5), axis=0)
    return replace(case, arrays={**case.arrays, "H": members / np.sqrt(members.sum(axis=0))}, truth={})


def _labels() -> Case:
    """A matrix of zeros and ones, several labels a row or none, one of them on no row."""
    case = planted_discriminant(60, 8, 5, (3.0, 1.0), 3, values=_geometric(3, 1, 8), ridge=1.0, name="labels")
    labels = np.random.default_rng(1).random((60, 5)) < (0.5, 0.4, 0.3, 0.1, 0.0)
    return replace(case, arrays={**case.arrays, "H": labels.astype(np.int8)}, truth={})
