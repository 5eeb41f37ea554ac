"""Problems whose data do something at the n-th time that they are asked: send a signal, raise, take their time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from planted import planted_case

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


def problem(name: str, tap: Callable[[], None] | None = None) -> Any:
    """A planted problem of a kind with a ridge, whose first matrix is tapped."""
    case = planted_case(name)
    (first, A), *_ = case.arrays.items()
    given = {**case.parameters, **({} if name == "svd" else {"ridge": 0.5})}
    return replace(case, parameters=given).state({**case.arrays, first: A if tap is None else Tapped(A, tap)})


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
