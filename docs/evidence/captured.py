"""How much correlation solvers capture, after how much work."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import linspec as ls
from linspec.linalg import whitening


class Judge:
    """The canonical correlations of blocks of weights on given rows, by an exact small CCA of the variates.

    The Gram matrices are held, so that a look at an iterate costs little.
    """

    def __init__(self, X: Any, Y: Any, ridge: float, form: str) -> None:
        self.moments = ls.Moments(X, Y, form=form)
        self.ridge = ridge

    def correlations(self, x: Any, y: Any) -> np.ndarray:
        """All of them, in decreasing order."""
        x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            return np.zeros(x.shape[1])
        Sx, C, _, Sy = self.moments.products(x, y)
        Ux, Uy = (whitening(V.T @ SV + self.ridge * (V.T @ V)) for V, SV in ((x, Sx), (y, Sy)))
        found = np.clip(np.linalg.svd(Ux.T @ (x.T @ C) @ Uy, compute_uv=False), 0.0, 1.0)
        return np.concatenate([found, np.zeros(x.shape[1] - len(found))])

    def total(self, x: Any, y: Any) -> float:
        """Their sum."""
        return float(self.correlations(x, y).sum())


@dataclass(frozen=True)
class Look:
    """The state of a run at one iterate: its cost, and the captured totals."""

    iteration: int
    passes: float
    flops: float
    cpu: float
    seconds: float
    totals: tuple[float, ...]


@dataclass(frozen=True)
class Followed:
    """A run, and what it had on the way."""

    solution: Any
    looks: list[Look]
    cpu: float
    seconds: float


def follow(
    problem: Any,
    solver: str,
    judges: tuple[Judge, ...] = (),
    *,
    due: Callable[[int], bool] | None = None,
    cpu: float = np.inf,
    enough: float = np.inf,
    **options: Any,
) -> Followed:
    """Run a solver, judge the iterates that are due, and stop where seconds are used up or the first total is enough.

    All are due where judges are given and nothing is said. What judging takes counts for nothing. The answer itself is
    the last look.
    """
    spent = [0.0, 0.0]
    seen: dict[int, tuple[float, float, tuple[float, ...]]] = {}

    def clock() -> tuple[float, float]:
        return time.process_time() - begin[0] - spent[0], time.perf_counter() - begin[1] - spent[1]

    def look(progress: Any) -> bool:
        used, totals = clock(), ()
        if judges and (due is None or due(progress.iteration)):
            weights = progress.current()
            totals = tuple(judge.total(weights["x_weights"], weights["y_weights"]) for judge in judges)
            seen[progress.iteration] = (*used, totals)
            after = clock()
            spent[0] += after[0] - used[0]
            spent[1] += after[1] - used[1]
        return used[0] >= cpu or bool(totals and totals[0] >= enough)

    begin = time.process_time(), time.perf_counter()
    found = ls.solve(problem, solver, callback=look, **options)
    used = clock()
    rows = {int(row["iteration"]): row for row in found.history}
    looks = [
        Look(at, float(rows[at]["passes"]), float(rows[at]["flops"]), *seen[at]) for at in seen if at in rows
    ]
    totals = tuple(judge.total(found.x_weights, found.y_weights) for judge in judges)
    looks.append(Look(found.iterations, found.passes, found.flops, *used, totals))
    return Followed(found, looks, *used)


def installed(solver: str) -> bool:
    """Whether there is such a solver."""
    return solver in ls.solvers("cca")
