"""Problems whose data do something at the n-th time that they are asked: send a signal, raise, take their time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import linspec as ls

SOLVERS = tuple(
    (problem, solver)
    for problem in ("least-squares", "svd", "cca", "discriminant")
    for solver in ls.solvers(problem)
)
"""Every registered solver, with the problem that it solves."""


class Tapped(ls.LinearOperator):
    """An array as an operator that calls `tap` before each product, each choice of rows and each look at entries."""

    access, readable = "rows", True

    def __init__(self, array: Any, tap: Callable[[], None]) -> None:
        self.inner, self.tap = ls.as_operator(array), tap
        self.shape, self.dtype = self.inner.shape, self.inner.dtype

    def _matmat(self, V: Any) -> Any:
        self.tap()
        return self.inner.matmat(V)

    def _rmatmat(self, U: Any) -> Any:
        self.tap()
        return self.inner.rmatmat(U)

    def _rows(self, selection: Any) -> Any:
        self.tap()
        return self.inner.rows(selection)

    def _dense(self) -> Any:
        self.tap()
        return self.inner.dense()


class At:
    """A tap that acts at one call, counted from 1 on; at call 0 it never does, and counts the calls."""

    def __init__(self, call: int, act: Callable[[], Any]) -> None:
        self.call, self.act, self.calls = call, act, 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == self.call:
            self.act()


def problem(name: str, tap: Callable[[], None] | None = None, n: int = 200) -> Any:
    """A small problem of a kind, with linear structure and noise; its first matrix is tapped."""
    rng = np.random.default_rng(3)
    Z = rng.standard_normal((n, 3))
    X = Z @ rng.standard_normal((3, 9)) + rng.standard_normal((n, 9))
    Y = Z @ rng.standard_normal((3, 7)) + rng.standard_normal((n, 7))
    A = X if tap is None else Tapped(X, tap)
    if name == "least-squares":
        return ls.LeastSquares(A, Y[:, :2], ridge=0.5)
    if name == "svd":
        return ls.SVD(A, 3)
    if name == "cca":
        return ls.CCA(A, Y, 3, ridge=0.5)
    return ls.Discriminant(A, np.eye(3)[rng.integers(0, 3, n)], 2, ridge=0.5)


def options(kind: str, solver: str) -> dict[str, Any]:
    """Options by which a solver passes the data at every product, and not for long."""
    fields = {field.name for field in dataclasses.fields(ls.get_solver(solver, kind))}
    wanted: dict[str, Any] = {"form": "implicit", "max_iterations": 40}
    return {name: value for name, value in wanted.items() if name in fields}


def arrays(solution: Any) -> list[Any]:
    """The arrays of an answer."""
    names = ("x", "Vh", "S", "x_weights", "y_weights", "weights")
    return [getattr(solution, name) for name in names if hasattr(solution, name)]


def moments(count: int) -> list[int]:
    """Some of `count` calls: the first, the last, and some between."""
    return sorted({1, count // 3, 2 * count // 3, count} - {0})
