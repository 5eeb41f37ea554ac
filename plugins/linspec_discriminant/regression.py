"""Stage 1 of the two-stage approach: the targets regressed on the data, all in one block.

Problem: W₁ = argmin ‖XW₁ − H‖² + γ‖W₁‖² for many targets at once, by whatever least-squares solver is named, as exactly
as the second stage needs it.
Method: a solver that can be made ready for one matrix is, on the moments that the method has anyway, held or swept, and
goes on from its answer where that was not good enough; any other is run once, on the accounts of the run.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846, equations (10) and (27), there by LSQR target by target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from linspec import LeastSquares, Moments, Run, Solver, Status, get_solver
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.block_algebra import EPS
from linspec.operators import CountedOperator, DenseOperator, LinearOperator, ProductOperator, uncounted
from linspec_discriminant.row_basis import RowBasis

SPREAD = 1e8
"""Ratio of squared column norms from which stage 1 works on columns of equal length, where it may."""

LOOSEST = 0.1
"""Relative residual that stage 1 is asked for, at most."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """What stage 1 is to solve, and what its iterates mean for the problem.

    Attributes
    ----------
    X : LinearOperator of shape (n, p)
    B : ProductOperator of shape (n, r)
        The targets; multiplied only where a solver asks for it.
    XtB : array of shape (p, r)
    ridge : float
    power : int
        A relative residual of stage 1, to this power, is about that of the law of the problem.
    weights : callable
        The weights that follow from an iterate of stage 1, without a sweep.
    scale : array of shape (p,), optional
        Lengths to divide the columns of X by, at ridge 0 and where these are independent: the solution is the same.
    """

    X: LinearOperator
    B: ProductOperator
    XtB: Array
    ridge: float
    power: int
    weights: Callable[[Array], Mapping[str, Array]]
    scale: Array = None


class Regression:
    """Stage 1: any least-squares solver on all targets, gone on with as long as that helps.

    Attributes
    ----------
    exacting : bool
        Whether it goes on to rounding, because what it leaves is judged in the norm of M⁻¹.
    """

    def __init__(self, lstsq: Solver, task: Task, moments: Moments, run: Run) -> None:
        self.lstsq: Any = lstsq
        self.task, self.moments, self.run = task, moments, run
        self._product: Array = None
        self._seen = math.inf
        self.exacting = False
        self._once_for_all = not (hasattr(lstsq, "prepare") and hasattr(lstsq, "tol"))

    def answers(self, tol: float) -> Iterator[Array]:
        """The solution W₁ to a relative residual, or that of the part, and better ones while `proceed` says yes."""
        own = getattr(self.lstsq, "tol", None)  # whoever gives one to the part means it
        task, inner = self.task, min(tol, LOOSEST) if own is None else own
        if self._once_for_all:
            yield self._once(inner)
            return
        with self._reserving():
            solve = self._prepared(self.moments.view(0) if task.scale is None else self._of_rows())
            W = solve(task.B, None, inner, task.XtB)
        again = self.moments.held and task.scale is None
        while True:
            yield W
            if own is None:  # what is left is small in the norm of stage 1, and may be large in that of M⁻¹
                inner = (
                    EPS if self.exacting else inner * min(1.0, self.run.tol / self._seen) ** (1 / task.power)
                )
            with self._reserving():
                if self.exacting and again:  # a Gram matrix that is held has squared the condition
                    solve, again = self._prepared(self._of_rows()), False
                W = solve(task.B, W, inner, task.XtB, self._product)

    def _prepared(self, data: Moments) -> Callable[..., Array]:
        """The solver made ready, for coefficients of X itself."""
        state = self.lstsq.prepare(data, self.task.ridge, self.run)
        state.watch = self._watch
        scale = self.task.scale
        return state.solve if scale is None else partial(_solve_scaled, state, scale)

    def _reserving(self) -> AbstractContextManager[None]:
        """Keep the sweep back that judges what stage 1 finds."""
        return self.run.reserving(self.moments.sweep_cost)

    def _watch(self, residual: float, W: Callable[[], Array]) -> bool:
        """Enter an iteration of stage 1 into the accounts of the run."""
        task = self.task
        return self.run.proceed(
            residual=residual**task.power, current=lambda: task.weights(self._unscaled(W())), judged=False
        )

    def _unscaled(self, W: Array) -> Array:
        """Coefficients of X from those of scaled columns."""
        return W if self.task.scale is None else W / self.task.scale[:, None]

    def _of_rows(self) -> Moments:
        """The moments of X, its columns scaled or not, by products with its rows on the accounts of the run."""
        bare, ledger = uncounted(self.task.X)
        scale = self.task.scale
        X = CountedOperator(bare if scale is None else bare.scaled_columns(1 / scale), ledger)
        return Moments(X, center=self.moments.center, form="implicit")

    def stuck(self, residual: float) -> bool:
        """Whether a residual is above the tolerance and going on does not help: it did not, or nothing can go on."""
        return residual > self.run.tol and (self._once_for_all or residual > self._seen / 2)

    def proceed(self, residual: float, product: Array, **weights: Array) -> bool:
        """Whether to go on, at an answer with a residual, its product by XᵀX and the weights that follow from it."""
        if self.run.ended:  # within stage 1
            return False
        if self.stuck(residual):
            self.run.end(Status.INACCURATE if self._once_for_all else Status.STAGNATED)
        self._seen, self._product = residual, product
        with self._reserving():
            return self.run.proceed(residual=residual, current=lambda: weights)

    def _once(self, tol: float) -> Array:
        """The answer of a solver that factorises, or that cannot be made ready for one matrix."""
        task = self.task
        bare, _ = uncounted(task.X)
        bare = bare if task.scale is None else bare.scaled_columns(1 / task.scale)
        X = bare.centered(self._scaled_means()) if self.moments.center else bare
        lstsq = self.lstsq
        lstsq = replace(lstsq, tol=tol) if getattr(lstsq, "tol", tol) is None else lstsq
        with self._reserving():
            accounts = {"A": "X", "B": next(label for label in self.run.problem.matrices if label != "X")}
            found = self.run.within(LeastSquares(X, _uncounted(task.B), task.ridge), lstsq, accounts)
        return self._unscaled(self.moments.home.place(found["x"]))

    def _scaled_means(self) -> Array:
        mean = self.moments.column_means()[0]
        return mean if self.task.scale is None else mean / self.task.scale


def _solve_scaled(
    state: Any,
    scale: Array,
    B: LinearOperator,
    x0: Array | None,
    tol: float,
    XtB: Array,
    product: Array | None = None,
) -> Array:
    """The coefficients of X by a state that is ready for X with columns divided by `scale`."""
    d = scale[:, None]
    start = None if x0 is None else x0 * d
    return state.solve(B, start, tol, XtB / d, None if product is None else product / d) / d


def column_scale(moments: Moments, ridge: float, basis: RowBasis | None) -> Array | None:
    """The lengths of the columns of X where dividing by them helps stage 1 and changes no solution.

    That is at ridge 0 and for independent columns that differ so much in length that no iteration gets over it.
    """
    if basis is None or basis.rank < moments.shape[1] or not unequal(moments, ridge):
        return None
    return moments.home.xp.sqrt(moments.diagonal()[0])


def unequal(moments: Moments, ridge: float) -> bool:
    """Whether columns differ much in length, and their lengths are known exactly."""
    n, p, _ = moments.shape
    if ridge > 0 or p >= n or not moments.exact_diagonal:
        return False
    d = to_host(moments.diagonal()[0])
    return bool(0 < d.min() * SPREAD < d.max())


def chosen(lstsq: Solver | None, X: LinearOperator) -> Any:
    """The solver that was asked for, or the one that takes the least time.

    The spectrum of dense data falls, and a sketch of its head saves most of the iterations; that of counts of words
    falls so slowly that the sketch and the algebra with it cost more than they save (measured).
    """
    if lstsq is not None:
        return lstsq
    n, p = X.shape
    return get_solver("cg" if X.nnz < n * p else "nystrom-pcg", "least-squares")()


def setup(lstsq: Solver, moments: Moments) -> float:
    """Passes before the first answer can be judged, at least."""
    return moments.setup_cost + (2.0 + lstsq.preparation) * moments.sweep_cost


def told_apart(C: Array, cut: float, least: float, home: Home) -> HostArray:
    """An orthonormal T, t x r, over the combinations of targets of which C = XᵀH is more than rounding.

    Rounding is a share `cut` of the longest, and `least`.
    """
    if C.shape[0] > C.shape[1]:
        C = home.xp.linalg.qr(C, mode="reduced")[1]
    _, s, Vt = np.linalg.svd(to_host(C), full_matrices=False)
    turn: HostArray = Vt[s > max(cut * s[0], least)].T
    return turn


def product(labels: LinearOperator, factor: Array | None, turn: Array, moments: Moments) -> ProductOperator:
    """Labels times factor times turn, as an operator that is multiplied only if someone asks for it.

    Centred where X is: it changes nothing in exact arithmetic, but what X annihilates would be carried along by solvers
    that work on targets and not on their products with X.
    """
    labels = labels.centered(moments.column_means()[1]) if moments.center else labels
    block = turn if factor is None else factor @ turn
    return ProductOperator(labels, DenseOperator(labels.home.place(block, labels.dtype)))


def _uncounted(B: ProductOperator) -> ProductOperator:
    return ProductOperator(uncounted(B.parts[0])[0], B.parts[1])
