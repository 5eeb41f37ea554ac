"""Stage 1 of the two-stage approach: the targets regressed on the data, all in one block.

Problem: W₁ = argmin ‖XW₁ − H‖² + γ‖W₁‖² for many targets at once, by any least-squares solver, given by name, with the
accuracy that the second stage needs.
Method: if a solver has `prepare`, it is prepared on the moments of the method, held or swept, and continues from its
answer as long as that is not accurate enough. Any other solver is run once, and its sweeps count for the run.
Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846, equations (10) and (27), there by LSQR target by target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from linspec import Iterate, LeastSquares, Moments, Run, Solver, Status, get_solver
from linspec.algebra import EPS
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.operators import CountedOperator, DenseOperator, LinearOperator, ProductOperator, uncounted
from linspec_discriminant.row_basis import RowBasis

SPREAD = 1e8
"""Ratio of the largest to the smallest squared column norm of X above which stage 1 scales columns to equal length.

Columns are scaled only if this does not change the solution: without a ridge, and if the columns are independent."""

LOOSEST = 0.1
"""Largest relative residual that is requested of stage 1."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """Least-squares problem of stage 1, and how its iterates yield weights and residuals of the whole problem.

    Attributes
    ----------
    X : LinearOperator of shape (n, p)
    B : ProductOperator of shape (n, r)
        Targets; multiplied out only if a solver requires it.
    XtB : array of shape (p, r)
    ridge : float
    weights : callable
        Returns the weights that follow from an iterate of stage 1, without a sweep.
    scale : array of shape (p,), optional
        Divisors of the columns of X: their lengths. It is given only at ridge 0 and for independent columns: then the
        solution is the same.
    """

    X: LinearOperator
    B: ProductOperator
    XtB: Array
    ridge: float
    weights: Callable[[Array], Mapping[str, Array]]
    scale: Array = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """Solution of stage 1, with the state from which a better one is computed.

    Attributes
    ----------
    W : array of shape (p, r)
    tol : float
        Relative residual that was requested.
    by_rows : bool
        Whether the solver was prepared on the rows of X, and not on the moments of the method.
    drawn : mapping, optional
        The state of the random generator before the solver was prepared.
    """

    W: Array
    tol: float
    by_rows: bool = False
    drawn: Any = None


@dataclass(kw_only=True, eq=False)
class Judged(Iterate):
    """Iterate: an answer of stage 1 with its residual, which stage 2 computes; the first iterate has no answer.

    Attributes
    ----------
    stage_1 : Answer, optional
        None before stage 1.
    product : array of shape (p, r), optional
        XᵀX W.
    basis : RowBasis, optional
        Reduced rows of X, by which the residual is measured in the norm of M⁻¹. None if the rows were not reduced: the
        residual is then measured in a norm that needs only column lengths, or in the Frobenius norm.
    found : mapping
        The weights of stage 2, for callbacks.
    """

    residual: float = math.inf
    ending: Status | None = None
    shown: bool = True
    after: float = 0.0
    stage_1: Answer | None = None
    product: Array = None
    basis: RowBasis | None = None
    found: Mapping[str, Any]

    def weights(self) -> Mapping[str, Any]:
        """Weights of stage 2."""
        return self.found


class Regression:
    """Stage 1: any least-squares solver on all targets, continued as long as that helps.

    Parameters
    ----------
    lstsq : Solver
    task : Task
    moments : Moments
    run : Run
    tol : float
        Relative residual of the first answer, unless the solver has a tolerance of its own.
    """

    def __init__(self, lstsq: Solver, task: Task, moments: Moments, run: Run, tol: float) -> None:
        self.lstsq: Any = lstsq
        self.task, self.moments, self.run, self.tol = task, moments, run, tol
        self._solve: Callable[..., Array] | None = None
        self._own = getattr(lstsq, "tol", None)  # a tolerance given to the part has priority
        # Rows in blocks are multiplied where they are, and a product of targets has none there: XᵀH must do.
        improves = hasattr(lstsq, "tol") or task.X.access == "blocks"
        self._once_for_all = not (hasattr(lstsq, "prepare") and improves)

    def after(self, last: Judged) -> Answer:
        """Compute W₁ = argmin ‖XW₁ − H‖² + γ‖W₁‖² for the first time, or more accurately than in the last iterate."""
        return self._first() if last.stage_1 is None else self._better(last, last.stage_1)

    def _first(self) -> Answer:
        """First solution W₁, to the relative residual `tol` or the solver's own."""
        task, tol = self.task, min(self.tol, LOOSEST) if self._own is None else self._own
        if self._once_for_all:
            return Answer(W=self._once(tol), tol=tol)
        drawn, by_rows = self.run.rng.bit_generator.state, task.scale is not None
        with self.run.budget.reserving(self.moments.cost.sweep):  # for the residual of the answer
            self._solve = self._prepared(by_rows=by_rows)
            W = self._solve(task.B, None, tol, task.XtB)
        return Answer(W=W, tol=tol, by_rows=by_rows, drawn=drawn)

    def _better(self, last: Judged, stage_1: Answer) -> Answer:
        """More accurate solution than the last one."""
        task, run = self.task, self.run
        exacting, tol = last.basis is not None, stage_1.tol
        if self._own is None:  # an error small in the norm of stage 1 may be large in that of M⁻¹
            tol = EPS if exacting else tol * min(1.0, run.tol / last.residual)
        by_rows, drawn = stage_1.by_rows, stage_1.drawn
        if exacting and self.moments.held and not by_rows:
            # A held Gram matrix has the squared condition number.
            by_rows, drawn = True, run.rng.bit_generator.state
            self._solve = self._prepared(by_rows=True)
        elif self._solve is None:  # the run continues here: the solver is prepared as at first
            now, run.rng.bit_generator.state = run.rng.bit_generator.state, drawn
            self._solve = self._prepared(by_rows=by_rows)
            run.rng.bit_generator.state = now
        W = self._solve(task.B, stage_1.W, tol, task.XtB, last.product)
        return Answer(W=W, tol=tol, by_rows=by_rows, drawn=drawn)

    def ending(self, residual: float, last: Judged) -> Status | None:
        """Status of a run that ends above the tolerance because stage 1 cannot or does not improve, else None."""
        if not residual > self.run.tol:
            return None
        if self._once_for_all:
            return Status.INACCURATE
        return Status.STAGNATED if residual > last.residual / 2 else None

    def _prepared(self, *, by_rows: bool) -> Callable[..., Array]:
        """Function that solves stage 1 with the prepared solver, and returns coefficients of unscaled columns."""
        data = self._of_rows() if by_rows else self.moments.view(0)
        state = self.lstsq.prepare(data, self.task.ridge, self.run)
        state.watch = self._watch
        scale = self.task.scale
        return state.solve if scale is None else partial(_solve_scaled, state, scale)

    def _watch(self, residual: float, W: Callable[[], Array]) -> bool:
        """Record an iteration of stage 1 for the run; returns whether to continue."""
        task = self.task
        return self.run.proceed(
            residual=residual, current=lambda: task.weights(self._unscaled(W())), judged=False
        )

    def _unscaled(self, W: Array) -> Array:
        """Coefficients of X, computed from the coefficients of scaled columns."""
        return W if self.task.scale is None else W / self.task.scale[:, None]

    def _of_rows(self) -> Moments:
        """Moments that multiply by the rows of X (with scaled columns if `scale` is given) and count for the run."""
        bare, ledger = uncounted(self.task.X)
        scale = self.task.scale
        X = CountedOperator(bare if scale is None else bare.scaled_columns(1 / scale), ledger)
        return Moments(X, form="implicit")

    def _once(self, tol: float) -> Array:
        """Answer of a solver that factorises or has no `prepare`."""
        task = self.task
        X, _ = uncounted(task.X)
        X = X if task.scale is None else X.scaled_columns(1 / task.scale)
        lstsq = self.lstsq
        lstsq = replace(lstsq, tol=tol) if getattr(lstsq, "tol", tol) is None else lstsq
        with self.run.budget.reserving(self.moments.cost.sweep):
            accounts = {"A": "X", "B": next(label for label in self.run.problem.matrices if label != "X")}
            found = self.run.within(LeastSquares(X, _uncounted(task.B), task.ridge), lstsq, accounts)
        return self._unscaled(self.moments.home.place(found["x"]))


def _solve_scaled(
    state: Any,
    scale: Array,
    B: LinearOperator,
    x0: Array | None,
    tol: float,
    XtB: Array,
    product: Array | None = None,
) -> Array:
    """Coefficients of X from a solver prepared for X with columns divided by `scale`."""
    d = scale[:, None]
    start = None if x0 is None else x0 * d
    return state.solve(B, start, tol, XtB / d, None if product is None else product / d) / d


def column_scale(moments: Moments, ridge: float, basis: RowBasis | None) -> Array | None:
    """Lengths of the columns of X, if dividing by them helps stage 1 and does not change the solution; else None.

    They are returned at ridge 0 for independent columns whose lengths differ too much for an iteration.
    """
    if basis is None or basis.rank < moments.shape[1] or not unequal(moments, ridge):
        return None
    return moments.home.xp.sqrt(moments.diagonal()[0])


def unequal(moments: Moments, ridge: float) -> bool:
    """Whether columns differ much in length and their lengths are known exactly."""
    n, p, _ = moments.shape
    if ridge > 0 or p >= n or not moments.columns.exact:
        return False
    d = to_host(moments.diagonal()[0])
    return bool(0 < d.min() * SPREAD < d.max())


def chosen(lstsq: Solver | None, X: LinearOperator) -> Any:
    """Solver that the user chose, or the fastest one.

    The spectrum of dense data decays, and a sketch of the leading part saves most iterations. The spectrum of word
    counts decays so slowly that the sketch and its algebra cost more than they save (measured).
    """
    if lstsq is not None:
        return lstsq
    n, p = X.shape
    return get_solver("cg" if X.nnz < n * p else "nystrom-pcg", "least-squares")()


def setup(lstsq: Solver, moments: Moments, *, begun: bool) -> float:
    """Return the least number of passes until the residual of the next answer is known; before it there is none."""
    first = 0.0 if begun else moments.cost.setup + moments.cost.sweep
    return first + (1.0 + lstsq.preparation) * moments.cost.sweep


def told_apart(C: Array, cut: float, least: float, home: Home) -> HostArray:
    """Orthonormal T, t x r, spanning the combinations of targets whose products C = XᵀH are above rounding.

    Lengths up to the fraction `cut` of the longest, and lengths up to `least`, are rounding.
    """
    if C.shape[0] > C.shape[1]:
        C = home.xp.linalg.qr(C, mode="reduced")[1]
    _, s, Vt = np.linalg.svd(to_host(C), full_matrices=False)
    turn: HostArray = Vt[s > max(cut * s[0], least)].T
    return turn


def product(labels: LinearOperator, factor: Array | None, turn: Array) -> ProductOperator:
    """Labels times factor times turn, as an operator that is multiplied out only on demand.

    Labels are centred if X is. In exact arithmetic this changes nothing. But some solvers work on the targets H and not
    on XᵀH; they would carry along the part of H that Xᵀ annihilates.
    """
    block = turn if factor is None else factor @ turn
    return ProductOperator(labels, DenseOperator(labels.home.place(block, labels.dtype)))


def _uncounted(B: ProductOperator) -> ProductOperator:
    return ProductOperator(uncounted(B.parts[0])[0], B.parts[1])
