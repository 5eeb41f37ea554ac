"""Planted test cases of least squares, and an independent computation of the exact solutions and the law."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec.testing.oracle import (
    ROUNDING,
    Law,
    Reading,
    as_host,
    precision,
    ratio,
)
from linspec.testing.problems import (
    Case,
    Values,
    as_integers,
    geometric,
    offset,
    orthonormal,
    zeroed_columns,
)


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
    """Construct min ‖A x − B‖² + ridge ‖x‖² with known singular values of A and known x.

    Parameters
    ----------
    n, p : int
        Shape of A.
    values : sequence of float
        The nonzero singular values, at most min(n, p).
    columns : int, default 2
        The number of right-hand sides; 0 makes B one-dimensional.
    ridge : float, default 0.0
    seed : int, default 0
        The seed of the random matrices.
    name : str, default "planted"
        The name of the case.
    gentle : bool, default True
        Whether an iterative solver must reach its tolerance on the case: see `Case`.

    Returns
    -------
    Case
        ``truth["x"]`` is the solution; if several x are optimal (ridge 0), the one of least norm.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.testing import planted_least_squares
    >>> case = planted_least_squares(30, 4, [3.0, 2.0, 1.0, 0.5])
    >>> solution = ls.solve(ls.LeastSquares(**case.arrays, **case.parameters), "direct")
    >>> np.allclose(solution.x, case.truth["x"])
    True
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


def least_squares_cases() -> list[Case]:
    """The planted cases on which every least-squares solver is tested."""
    make = planted_least_squares
    tall = make(60, 8, geometric(3, 1, 8), name="tall")
    zero_rhs = replace(
        tall, name="zero-rhs", arrays={**tall.arrays, "B": np.zeros((60, 2))}, truth={"x": np.zeros((8, 2))}
    )
    one_zero = np.array([1.0, 0.0])
    return [
        tall,
        make(12, 30, geometric(3, 1, 12), name="wide"),
        make(12, 30, geometric(3, 1, 12), ridge=0.7, name="wide-ridge"),
        make(15, 15, geometric(3, 1, 15), name="square"),
        make(80, 10, geometric(1e3, 1, 10), name="decaying", gentle=False),
        make(80, 10, geometric(1e3, 1, 10), ridge=1e5, name="decaying-ridge"),
        make(80, 10, geometric(1e6, 1, 10), name="ill-conditioned", gentle=False),
        make(50, 7, np.ones(7), name="flat"),
        make(50, 10, geometric(3, 1, 6), name="rank-deficient"),
        make(50, 10, geometric(3, 1, 6), ridge=0.5, name="rank-deficient-ridge"),
        make(50, 8, [3, 3, 3, 2, 2, 1, 1, 1], name="repeated"),
        zeroed_columns(make(40, 6, geometric(3, 1, 6)), "zero-columns", "A"),
        zero_rhs,
        replace(
            tall,
            name="one-zero-rhs",
            arrays={**tall.arrays, "B": tall.arrays["B"] * one_zero},
            truth={"x": tall.truth["x"] * one_zero},
        ),
        make(40, 6, geometric(3, 1, 6), columns=0, name="vector"),
        make(40, 1, [2.0], name="one-column"),
        make(1, 4, [2.0], name="one-row"),
        make(60, 8, geometric(3, 1, 8), ridge=2.0, name="ridge"),
        replace(offset(make(60, 5, geometric(3, 1, 5)), "A"), name="offset", truth={}, gentle=False),
        make(60, 8, geometric(3, 1, 8)).with_arrays(lambda x: x.astype(np.float32), "float32"),
        make(12, 30, geometric(3, 1, 12)).with_arrays(lambda x: x.astype(np.float32), "float32-wide"),
        as_integers(make(60, 8, geometric(3, 1, 8)), "int8", "int8"),
        as_integers(make(60, 8, geometric(3, 1, 8)), "int64", "int64"),
        as_integers(make(60, 8, geometric(3, 1, 8)), "bool", "bool"),
        # Squares of these entries come near the ends of the range of float32, but not of float64.
        make(40, 6, geometric(3e15, 1e15, 6), name="large-units"),
        make(40, 6, geometric(3e-15, 1e-15, 6), name="small-units"),
    ]


class LeastSquaresOracle:
    """The exact least-norm solution of a case, and its law."""

    def __init__(self, case: Case, reading: Reading) -> None:
        self.unit = precision(case)
        self.A = case.arrays["A"].astype(np.float64)
        self.B = case.arrays["B"].astype(np.float64)
        self.vector = self.B.ndim == 1
        self.B = self.B[:, None] if self.vector else self.B
        self.ridge = float(case.parameters.get("ridge", 0.0))
        U, s, Vt = np.linalg.svd(self.A, full_matrices=False)
        keep = s > max(self.A.shape) * self.unit * s[0]
        self.rank = int(keep.sum())
        self.s, self.V = s[keep], Vt[keep].T
        self.x = self.V @ ((self.s / (self.s**2 + self.ridge))[:, None] * (U[:, keep].T @ self.B))
        self.least = float(self.s[-1] ** 2 + self.ridge) if self.rank else 1.0
        self.AtB = np.linalg.norm(self.A.T @ self.B, axis=0)

    @property
    def condition(self) -> float:
        """Condition number of AᵀA + ridge on its range."""
        return float(self.s[0] ** 2 + self.ridge) / self.least

    @property
    def attainable(self) -> float:
        """The residual that rounding alone may leave."""
        return self._floor(self.x)

    def _floor(self, x: HostArray) -> float:
        size = self.s[0] ** 2 * np.linalg.norm(x, axis=0) + self.s[0] * np.linalg.norm(self.B, axis=0)
        live = self.AtB > 0
        return ROUNDING * self.unit * float((size[live] / self.AtB[live]).max(initial=0.0))

    def law(self, solution: Any) -> Law:
        """The residual of the normal equations, column by column."""
        x = as_host(solution.x).reshape(self.A.shape[1], -1)
        gap = np.linalg.norm(self.A.T @ (self.B - self.A @ x) - self.ridge * x, axis=0)
        worst = max((ratio(float(a), float(b)) for a, b in zip(gap, self.AtB, strict=True)), default=0.0)
        return Law(worst, self._floor(x))

    def errors(self, solution: Any) -> list[str]:
        """Messages about columns of x whose error is larger than the residual of the solution explains."""
        x = as_host(solution.x).reshape(self.A.shape[1], -1)
        law = self.law(solution)
        gap = np.linalg.norm(x - self.x, axis=0)
        allowed = (law.residual + law.floor) * self.AtB / self.least
        # Rounding brings in components outside the row space.
        allowed += ROUNDING * self.unit * self.condition * np.linalg.norm(self.x, axis=0)
        bad = np.flatnonzero(~(gap <= allowed))
        return [
            f"x[:, {j}] differs from the exact answer by {gap[j]:.2g}; its residual explains {allowed[j]:.2g}"
            for j in bad
        ]
