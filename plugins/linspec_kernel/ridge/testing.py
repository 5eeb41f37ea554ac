"""Cases of kernel ridge regression, with exact answers and residuals computed by NumPy alone.

The oracle evaluates kernels by their definitions, pair by pair of rows in float64, and solves by an eigendecomposition.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import linspec as ls
from linspec.arrays import HostArray
from linspec.errors import ConvergenceWarning
from linspec.kernels import laplacian, linear, polynomial, precomputed, rbf
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
from linspec_kernel.testing import values

RIDGES = (2.0, 0.5, 30.0)
"""The ridges of a path."""


class RidgeOracle:
    """The exact answer of a case, and the law."""

    def __init__(self, case: Case, reading: Reading) -> None:
        given = case.parameters
        X, Y = (A.astype(np.float64) for A in case.arrays.values())
        self.kernel, self.ridge = given["kernel"], float(given["ridge"])
        self.center = bool(given.get("center", False))
        self.vector = Y.ndim == 1
        Y = Y.reshape(len(Y), -1)
        w = np.asarray(given.get("sample_weight", np.ones(len(Y))), dtype=np.float64)
        self.roots = np.sqrt(w)
        K = values(self.kernel, X)
        self.trace = float(np.trace(K))
        self.means = w @ Y / w.sum() if self.center else np.zeros(Y.shape[1])
        H = np.eye(len(Y)) - self.center * np.outer(np.ones(len(Y)), w / w.sum())
        self.M = self.roots[:, None] * (H @ K @ H.T) * self.roots
        self.T = self.roots[:, None] * (Y - self.means)
        unit, shift = precision(case), shift_of(X) if case.dense_offset else 1.0
        self.unit = reading.rounding(unit, shift) if reading.readable else max(unit, unit * shift**2)
        self.lengths = np.linalg.norm(self.T, axis=0)
        rounding = 100 * unit * np.linalg.norm(self.roots[:, None] * Y, axis=0) * self.center
        self.lengths[self.lengths <= rounding] = 0.0
        self.T[:, self.lengths == 0] = 0.0
        values_, U = np.linalg.eigh((self.M + self.M.T) / 2)
        self.b = U @ ((U.T @ self.T) / (np.maximum(values_, 0.0) + self.ridge)[:, None])

    @property
    def attainable(self) -> float:
        """The residual that rounding alone may leave."""
        live = self.lengths > 0
        size = self.trace * np.linalg.norm(self.b, axis=0)[live] / self.lengths[live]
        return float(ROUNDING * self.unit * (1.0 + size.max(initial=0.0)))

    def weighted(self, solution: Any) -> HostArray:
        """The solution b of the system that belongs to the returned coefficients."""
        a = as_host(solution.dual).reshape(len(self.M), -1)
        found: HostArray = np.divide(
            a, self.roots[:, None], out=np.zeros_like(a), where=self.roots[:, None] > 0
        )
        return found

    def gaps(self, solution: Any) -> HostArray:
        """Lengths of the residuals T − (M + r) b."""
        b = self.weighted(solution)
        found: HostArray = np.linalg.norm(self.T - self.M @ b - self.ridge * b, axis=0)
        return found

    def law(self, solution: Any) -> Law:
        """The largest residual of a target, relative to its length."""
        live = self.lengths > 0
        return Law(float((self.gaps(solution)[live] / self.lengths[live]).max(initial=0.0)), self.attainable)

    def errors(self, solution: Any) -> list[str]:
        """Describe errors of fitted values and of functions that are larger than the residuals explain."""
        b, gaps, found = self.weighted(solution), self.gaps(solution), []
        room = self.attainable * self.lengths
        off = b - self.b
        for what, errors, allowed in (
            ("fitted values", np.linalg.norm(self.M @ off, axis=0), gaps + room),
            (
                "a function",
                np.sqrt(np.maximum(np.sum(off * (self.M @ off), axis=0), 0.0)),
                (gaps + room) / (2 * np.sqrt(self.ridge)),
            ),
        ):
            if not np.all(errors <= allowed):
                worst = int(np.argmax(errors - allowed))
                found.append(
                    f"{what} differ by {errors[worst]:.2g}; the residual explains {allowed[worst]:.2g}"
                )
        bounds = np.reshape(solution.bounds, -1)
        if not np.all(gaps / (2 * np.sqrt(self.ridge)) <= bounds + room / (2 * np.sqrt(self.ridge))):
            found.append(f"bounds must be at least the residuals over 2√ridge; got {bounds}")
        if self.center == (solution.intercept is None):
            found.append(
                f"intercept must be {'an array' if self.center else 'None'}; got {solution.intercept}"
            )
        return found


def curved(n: int, p: int, m: int, seed: int = 0) -> dict[str, HostArray]:
    """Targets that are functions of the first columns of X, with noise."""
    rng = np.random.default_rng([seed, n, p, m])
    X = rng.standard_normal((n, p))
    columns = [
        relation(X[:, j % p]) + 0.1 * rng.standard_normal(n)
        for j, relation in zip(range(m), (np.sin, np.square, np.tanh) * m, strict=False)
    ]
    return {"X": X, "Y": np.column_stack(columns)}


def _case(name: str, kernel: Any, *, ridge: float = 0.5, n: int = 60, m: int = 2, **more: Any) -> Case:
    p, gentle = more.pop("p", 4), more.pop("gentle", True)
    return Case(
        name=name,
        problem="kernel-ridge",
        arrays=curved(n, p, m),
        parameters={"kernel": kernel, "ridge": ridge, **more},
        gentle=gentle,
    )


def planted() -> Case:
    """A precomputed kernel U diag(w) Uᵀ with targets in the span of U, whose coefficients are known."""
    rng = np.random.default_rng(11)
    U, w, ridge = orthonormal(rng, 40, 6), np.geomspace(8.0, 0.5, 6), 0.25
    c = rng.standard_normal((6, 2))
    return Case(
        name="precomputed",
        problem="kernel-ridge",
        arrays={"X": (U * w) @ U.T, "Y": U @ c},
        parameters={"kernel": precomputed(), "ridge": ridge},
        truth={"dual": U @ (c / (w + ridge)[:, None])},
    )


def cases() -> tuple[Case, ...]:
    """Cases of kernels, sizes, ridges, weights, dtypes and units."""
    usual = _case("rbf", rbf())
    weights = np.random.default_rng(5).integers(0, 4, 60).astype(np.float64)
    far = {"X": usual.arrays["X"] + 1e4, "Y": usual.arrays["Y"]}
    zeros = {"X": np.where(np.abs(usual.arrays["X"]) < 0.8, 0.0, usual.arrays["X"]), "Y": usual.arrays["Y"]}
    still = {"X": usual.arrays["X"], "Y": np.column_stack([np.full(60, 0.1), usual.arrays["Y"][:, 0]])}
    centred = {"kernel": rbf(), "ridge": 0.5, "center": True}
    return (
        usual,
        _case("narrow", rbf(factor=0.3), ridge=0.01),
        _case("laplacian", laplacian()),
        _case("polynomial", polynomial(2, 1.0, 0.2), ridge=5.0),
        _case("linear", linear(), ridge=0.3),
        planted(),
        _case("constant", rbf(), center=True),
        _case("linear-constant", linear(), center=True),
        _case("weights", rbf(2.5), sample_weight=weights),
        _case("weights-constant", rbf(2.5), sample_weight=weights + 0.5, center=True),
        replace(usual, name="still-target", arrays=still, parameters=centred),
        replace(usual, name="zero-target", arrays={**usual.arrays, "Y": usual.arrays["Y"] * [1.0, 0.0]}),
        replace(usual, name="vector", arrays={**usual.arrays, "Y": usual.arrays["Y"][:, 0]}),
        _case("many-targets", rbf(), m=30),
        _case("one-column", rbf(1.0), p=1),
        _case("one-row", rbf(1.0), n=1),
        _case("small-ridge", rbf(), ridge=1e-8, gentle=False),
        replace(
            usual, arrays={name: np.repeat(A, 2, axis=0) for name, A in usual.arrays.items()}, name="twins"
        ),
        replace(usual, arrays=zeros, name="zeros"),
        usual.with_arrays(lambda A: A.astype(np.float32), "float32"),
        replace(usual, arrays=far, name="offset", dense_offset=True),
        usual.with_arrays(lambda A: np.rint(20 * A).astype(np.int8), "int8"),
        usual.with_arrays(lambda A: A * 1e15, "large-units"),
        usual.with_arrays(lambda A: A * 1e-15, "small-units"),
    )


def shapes(case: Case, _: Any) -> dict[str, tuple[int, ...]]:
    """The shape of the coefficients: that of the targets."""
    return {"dual": tuple(case.arrays["Y"].shape), "bounds": tuple(case.arrays["Y"].shape[1:])}


def moved(case: Case, factor: float, _: int) -> Case:
    """The case with Y multiplied by a factor: its functions are multiplied by it."""
    return replace(case, arrays={**case.arrays, "Y": case.arrays["Y"] * factor}, truth={})


def check_path(subject: Any) -> Iterator[str]:
    """Each of several ridges has its own solution, from solvers with the trait "path"."""
    for case in cases() if subject.trait("path") else ():
        if case.main.dtype != np.float64 or not case.gentle or case.dense_offset:
            continue
        several = replace(case, parameters={**case.parameters, "ridge": list(RIDGES)})
        found = ls.solve(several.state(dict(case.arrays)), subject.for_case(case), rng=0)
        for ridge, one in zip(RIDGES, found.along_path(), strict=True):
            oracle = RidgeOracle(replace(case, parameters={**case.parameters, "ridge": ridge}), Reading())
            if oracle.law(one).contradicts(one.residual):
                law = oracle.law(one).residual
                yield f"{case.name}, ridge {ridge:g}: the solution claims residual {one.residual:.3g}; it has {law:.3g}"
            yield from (f"{case.name}, ridge {ridge:g}: {issue}" for issue in oracle.errors(one))


def check_repeated_rows(subject: Any) -> Iterator[str]:
    """A row of weight 3 counts as three rows, a row of weight 0 not at all: predictions of new rows are the same."""
    case, new = cases()[0], curved(9, 4, 2, seed=3)["X"]
    counts = np.random.default_rng(4).integers(0, 4, len(case.main))
    for center in (False, True):
        given = {"kernel": rbf(), "ridge": 0.5, "center": center}
        weighted = replace(case, parameters={**given, "sample_weight": counts.astype(np.float64)})
        repeated = replace(
            case,
            parameters=given,
            arrays={name: np.repeat(A, counts, axis=0) for name, A in case.arrays.items()},
        )
        with warnings.catch_warnings():  # predictions decide, not the status
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = [
                ls.solve(each.state(dict(each.arrays)), subject.for_case(each), rng=0)
                for each in (weighted, repeated)
            ]
        first, second = (as_host(solution.predict(new)) for solution in found)
        reach = sum(float(np.max(solution.bounds)) for solution in found)
        off = float(np.abs(first - second).max())
        if not off <= 2 * reach + 1e-10:
            yield f"center={center}: predictions with weights and with repeated rows differ by {off:.2g}"


TESTING = ProblemTesting(
    cases=cases,
    oracle=RidgeOracle,
    shapes=shapes,
    moved=moved,
    bounded_entries=False,
    companions=frozenset({"Y"}),
    start_case=lambda: _case("many-rows", rbf(factor=0.3), n=900, ridge=1e-3),
    behaviour_checks={"path": check_path, "repeated-rows": check_repeated_rows},
)
"""Independent checks for solvers of kernel ridge regression."""
