"""The exact answer and the law of a regression on components, by explicit deflation of X and by NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec.testing import (
    ROUNDING,
    Case,
    Law,
    ProblemTesting,
    Reading,
    as_host,
    common_views,
    precision,
    shift_of,
)


def case(name: str, n: int, columns: tuple[int, int], strengths: Any, k: int, **more: Any) -> Case:
    """Make a case from two views with common variables. The second view has the right-hand sides."""
    own, center, gentle = more.pop("own", 2), more.pop("center", True), more.pop("gentle", True)
    X, Y = common_views(n, columns, strengths, own=own, center=center, **more)
    return Case(
        name=name,
        problem="pls-regression",
        arrays={"X": X, "Y": Y},
        parameters={"k": k, "center": center},
        gentle=gentle,
    )


def cases() -> Sequence[Case]:
    """Make the cases on which every solver is tested."""
    falling = np.geomspace(10, 1, 6)
    tall = case("tall", 60, (9, 7), falling, 3)
    moved = {name: A + 1e4 * A.std(axis=0) for name, A in tall.arrays.items()}
    return (
        tall,
        case("wide", 20, (40, 5), np.geomspace(10, 1, 4), 3, own=1),
        case("one-right-hand-side", 60, (9, 1), (3.0,), 1, own=1),
        case("many-right-hand-sides", 60, (5, 20), np.geomspace(10, 2, 4), 2, own=1),
        case("k-one", 60, (9, 7), falling, 1),
        case("k-above-rank", 60, (9, 7), (4, 3, 2), 5),
        case("unrelated", 60, (9, 7), (), 2),
        case("no-centring", 60, (9, 7), falling, 3, center=False),
        replace(tall, name="offset", arrays=moved, dense_offset=True),
        tall.with_arrays(lambda A: A.astype(np.float32), "float32"),
        tall.with_arrays(lambda A: np.rint(100 * A / np.abs(A).max()).astype(np.int8), "int8"),
        replace(tall, name="large-units", arrays={name: 1e12 * A for name, A in tall.arrays.items()}),
        replace(tall, name="small-units", arrays={name: 1e-12 * A for name, A in tall.arrays.items()}),
    )


def deflated_by(X: HostArray, Y: HostArray, weights: Any) -> list[Any]:
    """Deflate X and Y by weights, or by the exact ones, and return the arrays of each component.

    `weights` has the weights in its columns; an integer is a number of exact components.
    """
    found, size = [], np.linalg.norm(X.T @ Y, 2)
    exact = isinstance(weights, int)
    for a in range(weights if exact else weights.shape[1]):
        C = X.T @ Y
        U, s, _ = np.linalg.svd(C, full_matrices=False)
        w = U[:, 0] if exact else weights[:, a]
        if exact and s[0] <= 1e-12 * size:
            break
        t = X @ w
        p, q = X.T @ t / (t @ t), Y.T @ t / (t @ t)
        found.append({"C": C, "s": s, "w": w, "t": t, "p": p, "q": q})
        X, Y = X - np.outer(t, p), Y - np.outer(t, q)
    return found


class RegressionOracle:
    """The exact components of a case, and the law of given ones."""

    def __init__(self, case: Case, reading: Reading) -> None:
        arrays = [A.astype(np.float64) for A in case.arrays.values()]
        center, given = bool(case.parameters["center"]), precision(case)
        self.unit = reading.rounding(given, max(map(shift_of, arrays)) if center else 1.0)
        self.X, self.Y = (A - A.mean(axis=0) if center else A for A in arrays)
        self.k = int(case.parameters["k"])
        C = self.X.T @ self.Y
        self.size = float(np.linalg.norm(C, 2))
        self.scale = float(np.linalg.norm(self.X, 2) * np.linalg.norm(self.Y, 2))
        real = self.size > 100 * given * self.scale
        self.exact = deflated_by(self.X, self.Y, self.k) if real else []
        self.exact = [each for each in self.exact if each["s"][0] > 100 * given * self.scale]
        self.count = len(self.exact)

    @property
    def attainable(self) -> float:
        """The residual that rounding alone may leave."""
        return ROUNDING * self.unit * self.scale / self.size if self.count else 0.0

    def law(self, solution: Any) -> Law:
        """The largest ‖Cₐ Cₐᵀw − σ² w‖ / σ over ‖XᵀY‖ by explicit deflation; 1 if any are missing."""
        components = deflated_by(self.X, self.Y, as_host(solution.x_weights))
        gaps = [self.size * (len(components) < self.count)]
        for each in components:
            C, w, first = each["C"], each["w"], each["s"][0]
            gaps.append(float(np.linalg.norm(C @ (C.T @ w) / first - first * w)))
        return Law(max(gaps) / self.size if self.count else 0.0, self.attainable)

    def errors(self, solution: Any) -> list[str]:
        """Describe errors of the answer that are larger than its own residual explains."""
        W = as_host(solution.x_weights)
        if W.shape[1] != self.count:
            return [f"there are {self.count} components to return; got {W.shape[1]}"]
        if not self.count:
            return []
        own, found = deflated_by(self.X, self.Y, W), []
        R = as_host(solution.x_rotations)
        T, Q = np.column_stack([each["t"] for each in own]), np.column_stack([each["q"] for each in own])
        P = np.column_stack([each["p"] for each in own])
        room = 10 * ROUNDING * self.unit * self._growth(own)
        for name, given, true in (
            ("the scores X times x_rotations", self.X @ R, T),
            ("x_loadings", as_host(solution.x_loadings), P),
            ("y_loadings", as_host(solution.y_loadings), Q),
        ):
            off = np.linalg.norm(given - true, 2) / np.linalg.norm(true, 2)
            if not off <= room:
                found.append(f"{name} do not belong to the weights: a relative error of {off:.2g}")
        law = self.law(solution)
        error = (np.sqrt(self.count) * law.residual + law.floor) * self.size
        gap = min(self._gap(each["s"]) for each in self.exact)
        if error < gap:
            exact = np.column_stack([each["w"] for each in self.exact])
            angle = np.linalg.norm(W - exact * np.sign(np.sum(W * exact, axis=0)), 2)
            allowed = self._growth(own) * (2 * error / gap + ROUNDING * self.unit)
            if not angle <= allowed:
                found.append(f"x_weights are wrong by {angle:.2g}; the residual explains {allowed:.2g}")
        return found

    @staticmethod
    def _gap(s: HostArray) -> float:
        """The distance of the largest singular value from the next."""
        return float(s[0] - (s[1] if len(s) > 1 else 0.0))

    def _growth(self, components: Sequence[Mapping[str, Any]]) -> float:
        """The factor by which later components may multiply an error of earlier ones."""
        sizes = [each["s"][0] for each in components]
        lengths = [float(np.linalg.norm(each["t"])) for each in components]
        return float(self.scale / min(sizes) * max(lengths) / min(lengths)) ** 2


def shapes(case: Case, solution: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays of an answer."""
    (_, p), (_, q) = (A.shape for A in case.arrays.values())
    k = len(solution.covariances)
    return {"x_rotations": (p, k), "x_weights": (p, k), "x_loadings": (p, k), "y_loadings": (q, k)}


TESTING = ProblemTesting(
    cases=cases,
    oracle=RegressionOracle,
    shapes=shapes,
    companions=frozenset({"Y"}),
    start_case=lambda: cases()[0],
)
"""The conformance tests of solvers of PLS regression."""
