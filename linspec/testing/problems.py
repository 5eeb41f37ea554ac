"""Small problems with known answers, on which the conformance kit tests solvers.

Problem: a check that compares two solvers finds where they disagree, but not where both are wrong.
Method: data are built from their factors, so the answer is known before anything is computed. A least-squares
matrix is U diag(s) Vᵀ, and its right-hand sides are images of a chosen x plus a part orthogonal to U. Two
views are Ux diag(sx) Vxᵀ and Uy diag(sy) Vyᵀ with UxᵀUy = diag(ρ). Then ρᵢ sxᵢ/√(sxᵢ² + rx) syᵢ/√(syᵢ² + ry)
are the canonical correlations, for any shape, rank and ridge. Targets are H = UB plus noise orthogonal to X,
with B = D⁻¹ P diag(√λ) Qᵀ and D = diag(s/√(s² + ridge)). Then λ are the eigenvalues of (XᵀX + ridge)⁻¹XᵀHHᵀX.
Source: the latms family of LAPACK's test generators (Demmel & McKenney 1989).
Where we differ: every case has at most 120 rows, because nobody runs a slow kit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from linspec import registry
from linspec.arrays import HostArray
from linspec.registry.spec import Needs

Values = Sequence[float] | HostArray


OFFSET = 1e4
"""Column means in units of the standard deviation, in the cases that test centring."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """A problem for solvers: host arrays, parameters, and the planted answer.

    Attributes
    ----------
    name : str
        Part of a test's id.
    problem : str
        The problem's name.
    arrays : mapping of str to numpy.ndarray
        The data, by the names of the problem's fields: ``{"A": ..., "B": ...}``.
    parameters : mapping
        The other arguments of the problem: ridge, k, center, and for an SVD left (compute left singular vectors).
    truth : mapping of str to numpy.ndarray
        The planted answer: ``x``, ``S``, ``correlations`` or ``eigenvalues``. Empty if rounding to another
        dtype has changed it.
    gentle : bool
        Whether an iterative solver must reach its tolerance: the condition numbers are at most about ten.
    dense_offset : bool
        Whether the column means are so large that centring is accurate only if the entries can be read.
    needs : Needs
        The needs of the problem itself, with any solver: data that do not meet them may be refused.

    Examples
    --------
    >>> from linspec.testing import planted_svd
    >>> case = planted_svd(20, 5, [4.0, 2.0, 1.0], k=2)
    >>> case.problem, case.arrays["A"].shape, case.parameters["k"], case.truth["S"]
    ('svd', (20, 5), 2, array([4., 2.]))
    """

    name: str
    problem: str
    arrays: Mapping[str, HostArray]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    truth: Mapping[str, HostArray] = field(default_factory=dict)
    gentle: bool = True
    dense_offset: bool = False
    needs: Needs = Needs()  # noqa: RUF009 (records do not change)

    @property
    def main(self) -> HostArray:
        """The first matrix, which determines library, device and dtype of the answer."""
        return next(iter(self.arrays.values()))

    def with_arrays(self, change: Callable[[HostArray], HostArray], name: str) -> Case:
        """Return the problem with changed arrays, without the planted answer."""
        arrays = {key: change(value) for key, value in self.arrays.items()}
        return replace(self, arrays=arrays, name=name, truth={})

    def in_single(self) -> Case:
        """Return the problem with float64 arrays rounded to float32."""
        return _in_single(self)

    def state(self, data: Mapping[str, Any]) -> Any:
        """Construct the problem on given data, such as the case's arrays in another library."""
        return stated(self.problem, data, self.parameters)


def in_units(case: Case, units: Mapping[str, float]) -> Case:
    """Return a case with each matrix multiplied by a factor, and its ridge by the square of the factor.

    The ridge of a problem that does not adjust rows, such as that of a kernel, stays unchanged.

    Parameters
    ----------
    case : Case
    units : mapping of str to float
        The factors by matrix; 1 for others.
    """
    cls: Any = registry.get_problem(case.problem)
    arrays = {name: array * units.get(name, 1.0) for name, array in case.arrays.items()}
    parameters, ridge = dict(case.parameters), cls.stated.ridge
    if (
        ridge and parameters.get(ridge) and cls.stated.adjusts_rows
    ):  # others, as kernels, have units of their own
        declared, given = cls.stated.fields[ridge], parameters[ridge]
        penalised = [name for name in arrays if not declared.of or cls.stated.field_of(name) in declared.of]
        squares = [units.get(name, 1.0) ** 2 for name in penalised]
        if declared.each:
            several = given if isinstance(given, tuple | list) else (given,) * len(squares)
            parameters[ridge] = tuple(r * square for r, square in zip(several, squares, strict=True))
        else:
            parameters[ridge] = given * squares[0]
    return replace(case, arrays=arrays, parameters=parameters, truth={})


def stated(problem: str, data: Mapping[str, Any], parameters: Mapping[str, Any]) -> Any:
    """Construct a problem from its matrices by name, where X1, X2 and so on are the views of one field.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.testing import stated
    >>> stated("svd", {"A": np.eye(2)}, {"k": 1}).k
    1
    """
    cls: Any = registry.get_problem(problem)
    fields = cls.stated.matrices
    if any(declared.several for declared in fields.values()):
        (field,) = fields
        return cls(**{field: list(data.values())}, **parameters)
    return cls(**data, **parameters)


@lru_cache(1000)
def _in_single(case: Case) -> Case:
    """Return the case rounded to float32, made once."""
    return case.with_arrays(lambda x: single(x) if x.dtype == np.float64 else x, case.name)


def orthonormal(rng: np.random.Generator, n: int, k: int, *, centered: bool = False) -> HostArray:
    """Make an n x k matrix with orthonormal columns, orthogonal to the constant vector if `centered`.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.testing import orthonormal
    >>> Q = orthonormal(np.random.default_rng(0), 6, 2, centered=True)
    >>> np.allclose(Q.T @ Q, np.eye(2)), np.allclose(Q.sum(axis=0), 0)
    (True, True)
    """
    columns = rng.standard_normal((n, k + centered))
    if centered:
        columns[:, 0] = 1.0
    Q: HostArray = np.linalg.qr(columns)[0][:, int(centered) :]
    return Q


def geometric(first: float, last: float, count: int) -> HostArray:
    """Return a geometric sequence from the first number to the last."""
    return np.geomspace(first, last, count)


def offset(case: Case, *names: str) -> Case:
    """Return the case with 1e4 standard deviations added to the columns of some matrices."""
    arrays = {
        key: value + OFFSET * value.std(axis=0) if key in names else value
        for key, value in case.arrays.items()
    }
    return replace(case, arrays=arrays, dense_offset=True)


def as_integers(case: Case, name: str, dtype: str) -> Case:
    """Return the case with data rounded to integers of a dtype, or compared with their medians for bool."""

    def rounded(x: HostArray) -> HostArray:
        unit = np.abs(x).max() / 100
        return x > np.median(x, axis=0) if dtype == "bool" else np.rint(x / unit).astype(dtype)

    return case.with_arrays(rounded, name)


def zeroed_columns(case: Case, name: str, *keys: str) -> Case:
    """Return the case with zero columns between the others; the planted values stay the same."""
    arrays = dict(case.arrays)
    for key in keys:
        arrays[key] = np.insert(arrays[key], [1, 3], 0.0, axis=1)
    truth = {
        key: np.insert(value, [1, 3], 0.0, axis=0) if key == "x" else value
        for key, value in case.truth.items()
    }
    return replace(case, arrays=arrays, name=name, truth=truth)


def constant_columns(case: Case, name: str) -> Case:
    """Return the case with two constant columns; the number in one of them has no exact binary fraction."""
    arrays = {key: np.insert(value, [1, 3], [3.0, 0.1], axis=1) for key, value in case.arrays.items()}
    return replace(case, arrays=arrays, name=name)


def single(x: HostArray) -> HostArray:
    """Return the array rounded to float32."""
    return x.astype(np.float32)


def zeroed(case: Case, key: str) -> Case:
    """Return the case with one matrix set to zero."""
    return replace(case, arrays={**case.arrays, key: np.zeros_like(case.arrays[key])})


def unrelated(case: Case) -> Case:
    """Return the case with targets orthogonal to the columns of X: XᵀH is only rounding."""
    X, H = (A - A.mean(axis=0) for A in (case.arrays["X"], case.arrays["H"]))
    return replace(case, arrays={**case.arrays, "H": H - X @ np.linalg.lstsq(X, H, rcond=None)[0]})


def in_other_coordinates(case: Case, factor: float, seed: int, rotated: Sequence[str] = ()) -> Case:
    """Return the case with each matrix X replaced by `factor` X Q D: rotated, then stretched in some directions.

    Q is a random orthogonal matrix, and D a diagonal matrix with numbers from 0.7 to 1.4. For the matrices named in
    `rotated`, D is the identity.
    """
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, X in case.arrays.items():
        Q = np.linalg.qr(rng.standard_normal((X.shape[1], X.shape[1])))[0]
        stretch = 1.0 if name in rotated else np.linspace(0.7, 1.4, X.shape[1])
        arrays[name] = X @ (Q * stretch) * factor
    return replace(case, arrays=arrays, truth={})
