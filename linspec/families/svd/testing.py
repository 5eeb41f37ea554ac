"""Planted test cases of truncated SVD, and an independent computation of the exact solutions and the law."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec.solving.solution import Status
from linspec.sweeps.blocks import brought_here
from linspec.testing.family import ProblemTesting
from linspec.testing.oracle import (
    ROUNDING,
    Law,
    Reading,
    as_host,
    precision,
    ratio,
    shift_of,
)
from linspec.testing.problems import (
    Case,
    Values,
    as_integers,
    constant_columns,
    geometric,
    offset,
    orthonormal,
    zeroed_columns,
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
    """Construct a matrix with known singular triplets.

    Parameters
    ----------
    n, p : int
        The numbers of rows and columns of the matrix.
    values : sequence of float
        The nonzero singular values.
    k : int
        The number of triplets to compute.
    center : bool, default False
        Add column means; the problem then centres the columns.
    left : bool, default True
        Whether the problem asks for left singular vectors.
    seed : int, default 0
        The seed of the random matrices.
    name : str, default "planted"
        The name of the case.
    gentle : bool, default True
        Whether an iterative solver must reach its tolerance on the case: see `Case`.

    Returns
    -------
    Case
        ``truth["S"]`` holds the k leading singular values (fewer if the rank is lower).

    Examples
    --------
    >>> import linspec as ls
    >>> from linspec.testing import planted_svd
    >>> case = planted_svd(30, 6, [3.0, 2.0, 1.0], k=2)
    >>> ls.solve(ls.SVD(**case.arrays, **case.parameters), "direct").S.round(6)
    array([3., 2.])
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


COPIES = [*[4.0] * 12, *geometric(1, 0.1, 20)]
"""Singular values of a test matrix: twelve copies of 4, and twenty smaller values.

A solver must find all twelve copies. In exact arithmetic a Krylov space of one vector contains one copy; rounding
errors bring in further copies, but fewer than twelve."""


def _svd_cases() -> list[Case]:
    make = planted_svd
    zero = replace(
        make(20, 6, [1.0], 2, name="zero"), arrays={"A": np.zeros((20, 6))}, truth={"S": np.zeros(0)}
    )
    return [
        make(60, 12, geometric(10, 0.1, 12), 3, name="tall"),
        make(15, 40, geometric(10, 0.1, 15), 3, name="wide"),
        make(15, 15, geometric(10, 0.1, 15), 3, name="square"),
        make(80, 12, geometric(1e3, 1e-3, 12), 4, name="decaying"),
        make(50, 8, np.linspace(1.3, 1, 8), 3, name="slow", gentle=False),
        make(50, 8, np.ones(8), 3, name="flat"),
        make(50, 12, [5, 4, 3, 2], 3, name="rank-deficient"),
        make(50, 12, [5, 4, 3, 2], 4, name="k-equals-rank"),
        make(50, 12, [5, 4, 3, 2], 6, name="k-above-rank"),
        make(50, 10, [4, 4, 4, 1, 1, 0.5], 3, name="repeated"),
        # A Krylov space of one vector contains one copy of a value, and no residual shows that others are missing.
        make(100, 60, COPIES, 12, name="many-copies"),
        make(100, 60, COPIES, 12, center=True, name="many-copies-centred"),
        zeroed_columns(make(40, 8, geometric(8, 0.5, 8), 3), "zero-columns", "A"),
        make(50, 10, geometric(8, 0.5, 10), 1, name="k-one"),
        make(30, 6, geometric(8, 0.5, 6), 6, name="k-all"),
        make(50, 10, geometric(8, 0.5, 10), 3, left=False, name="no-left"),
        make(50, 10, geometric(8, 0.5, 10), 3, center=True, name="centred"),
        replace(offset(make(60, 8, geometric(8, 0.5, 8), 3, center=True), "A"), name="offset"),
        constant_columns(make(40, 8, geometric(8, 0.5, 8), 3, center=True), "constant-columns"),
        make(60, 12, geometric(10, 0.1, 12), 3).with_arrays(lambda x: x.astype(np.float32), "float32"),
        as_integers(make(60, 12, geometric(10, 0.1, 12), 3), "int8", "int8"),
        as_integers(make(60, 12, geometric(10, 0.1, 12), 3), "bool", "bool"),
        make(60, 12, geometric(1e16, 1e14, 12), 3, name="large-units"),
        make(60, 12, geometric(1e-14, 1e-16, 12), 3, name="small-units"),
        make(1, 6, [2.0], 1, name="one-row"),
        make(20, 1, [2.0], 1, name="one-column"),
        zero,
        # With this many columns a basis of a few times k vectors does not span the whole space.
        make(110, 90, geometric(10, 1, 90), 2, name="many-columns"),
        make(60, 100, geometric(10, 2, 50), 2, center=True, name="many-columns-wide"),
        make(100, 12, geometric(1, 1e-4, 12), 12, name="small-values"),
    ]


class SVDOracle:
    """The exact leading triplets of a case, and its law."""

    def __init__(self, case: Case, reading: Reading) -> None:
        A = case.arrays["A"].astype(np.float64)
        self.center = bool(case.parameters.get("center", False))
        self.unit = reading.rounding(precision(case), shift_of(A) if self.center else 1.0)
        self.k = int(case.parameters["k"])
        self.mean = A.mean(axis=0)
        self.A = A - self.mean if self.center else A
        _, s, Vt = np.linalg.svd(self.A, full_matrices=False)
        self.rank = int(np.sum(s > max(A.shape) * precision(case) * s[0]))
        self.count = min(self.k, self.rank)
        self.S, self.V = s[: self.count], Vt[: self.count].T
        after = s[self.count] if self.count < len(s) else 0.0
        self.gap = float(self.S[-1] ** 2 - after**2) / float(s[0] ** 2) if self.count else 0.0
        self.condition = 1.0

    @property
    def attainable(self) -> float:
        """The residual that rounding alone may leave."""
        return ROUNDING * self.unit

    def law(self, solution: Any) -> Law:
        """The residual max ‖AᵀAv − σ²v‖ / σ₁², and its rounding."""
        V, S = as_host(solution.Vh).T, as_host(solution.S)
        gap = np.linalg.norm(self.A.T @ (self.A @ V) - V * S**2, axis=0)
        residual = max((ratio(float(g), float(S.max() ** 2)) for g in gap), default=0.0)
        return Law(residual, ROUNDING * self.unit)

    def _errors_of_fewer(self, S: HostArray, V: HostArray) -> list[str]:
        """Messages about wrong singular values of a solution with fewer than k triplets.

        For orthonormal V, each σ² may be wrong by the largest ‖AᵀAv − σ²v‖ of the triplets, plus rounding.
        """
        left = np.linalg.norm(self.A.T @ (self.A @ V) - V * S**2, axis=0).max(initial=0.0)
        off = np.abs(S**2 - self.S[: len(S)] ** 2).max(initial=0.0)
        allowed = left + ROUNDING * self.unit * self.S[0] ** 2
        return [] if off <= allowed else [f"σ² is wrong by {off:.2g}; the residual explains {allowed:.2g}"]

    def _errors_of_left(self, U: HostArray, V: HostArray, S: HostArray, error: float) -> list[str]:
        """Messages about wrong left vectors: U must be A V / σ and orthonormal; errors in V grow by σ₁/σ."""
        spread = float(self.S[0] / self.S[-1])
        found = []
        misfit = float(np.linalg.norm(self.A @ V - U * S, axis=0).max() / self.S[0])
        if not misfit <= 10 * error * spread:
            found.append(
                f"AV must be US; the difference is {misfit:.2g} σ₁, and the residual explains "
                f"{10 * error * spread:.2g}"
            )
        crooked = float(np.abs(U.T @ U - np.eye(len(S))).max())
        if not crooked <= 10 * error * spread**2:
            found.append(
                f"U must be orthonormal; UᵀU differs from I by {crooked:.2g}, and the residual explains "
                f"{10 * error * spread**2:.2g}"
            )
        return found

    def errors(self, solution: Any) -> list[str]:
        """Messages about errors of the solution that are larger than its residual explains."""
        order = np.argsort(-as_host(solution.S), kind="stable")
        S, V = as_host(solution.S)[order], as_host(solution.Vh).T[:, order]
        # A solver that reports lost digits may return fewer triplets; those must be right.
        fewer = getattr(solution, "status", None) is Status.ILL_CONDITIONED and len(S) < self.count
        if len(S) != self.count and not fewer:
            return [f"there are {self.count} singular values to return; got {len(S)}"]
        if fewer:
            return self._errors_of_fewer(S, V)
        if self.count == 0:
            return []
        law = self.law(solution)
        error = math.sqrt(self.count) * law.residual + law.floor
        squares = np.abs(S**2 - self.S**2).max() / self.S[0] ** 2
        found = []
        if not squares <= error:
            found.append(f"σ² is wrong by {squares:.2g} σ₁²; the residual explains {error:.2g}")
        if not np.abs(V.T @ V - np.eye(self.count)).max() <= ROUNDING * self.unit + 10 * law.residual:
            found.append("the rows of Vh must be orthonormal; they are not")
        if self.gap > 1e-6 and error < self.gap:
            angle = float(np.linalg.norm(V - self.V @ (self.V.T @ V), 2))
            if not angle <= 2 * error / self.gap:
                found.append(
                    f"Vh must span the leading space; the sine of the angle is {angle:.2g}, and the residual "
                    f"explains {2 * error / self.gap:.2g}"
                )
        if getattr(solution, "U", None) is not None:
            found += self._errors_of_left(as_host(brought_here(solution.U))[:, order], V, S, error)
        return found


def _shapes(case: Case, solution: Any) -> dict[str, tuple[int, ...]]:
    k = len(solution.S)
    left = {"U": (case.main.shape[0], k)} if case.parameters["left"] else {}
    return {"Vh": (k, case.main.shape[1]), **left}


def _moved(case: Case, factor: float, _: int) -> Case:
    """The case with A multiplied by c: S(cA) = |c| S(A)."""
    return replace(case, arrays={"A": case.main * factor}, truth={})


def _start_case() -> Case:
    """A case that takes about ten sweeps: many singular values without a large gap."""
    return planted_svd(400, 300, np.arange(1, 301.0) ** -0.5, 4, left=False, name="many-columns")


TESTING = ProblemTesting(
    cases=lambda: tuple(_svd_cases()),
    oracle=SVDOracle,
    shapes=_shapes,
    moved=_moved,
    start_case=_start_case,
)
"""The conformance tests of SVD solvers."""
