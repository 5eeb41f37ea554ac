"""Conjugate gradients on the side of the rows.

Problem: ridge regression with fewer rows than columns. The blocks of (AᵀA + rI) x = AᵀB are long, so the algebra
between products takes as long as the products.
Method: (AAᵀ + rI) z = B and x = Aᵀz (the matrix inversion lemma; Saunders, Gammerman & Vovk 1998), by the same block
conjugate gradients on the short blocks z, with ridges as shifts. The products are the same, first Aᵀ and then A.
Where we differ: the iteration stops by the gradient of x, which is Aᵀ times the residual of z. For residuals Q ρ its
norm follows from QᵀAAᵀQ, and thus from products of the directions P = Q + P₋τᵀ. These are made anyway, one step later.
The z that is returned is then the one before this step, because gradients of successive iterates rise and fall.
If rounding may have moved the answer by more than the tolerance, the iteration for x continues from this answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import numpy as np

from linspec import Moments, Run, Solution
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.operators import uncounted
from linspec_lstsq.block_conjugate_gradients import BlockConjugateGradients, block_conjugate_gradients
from linspec_lstsq.gradients import column_norms
from linspec_lstsq.normal_equations import System, finish


def solve_dual(problem: Any, run: Run, moments: Moments) -> Solution:
    """Solve a least-squares problem with positive ridges on the side of its rows."""
    home = moments.home
    run.plan(setup=1.0, iteration=2.0)
    columns = home.eye(problem.B.shape[1])
    B = home.place(problem.B.dense() if problem.B.readable else problem.B.matmat(columns))
    rows = RowGradients(System.of(moments, B, problem.ridges))
    return _solved(problem, run, moments, rows, rows.start_residual)


def resume_dual(problem: Any, run: Run, moments: Moments, *_: Any) -> Solution:
    """Go on from a checkpoint of the iteration on the side of the rows."""
    known: Any = run.resumed
    return _solved(problem, run, moments, RowGradients.again(known["rows"], moments.home), known["residual"])


def _solved(problem: Any, run: Run, moments: Moments, rows: RowGradients, residual: float) -> Solution:
    """Iterate until the run ends, or until rounding has to be looked at on the side of the columns."""
    A, bare, x = problem.A, uncounted(problem.A)[0], None
    with run.reserving(1.0):  # for x itself
        while True:
            run.checkpoint(partial(_state, rows, residual))
            if residual <= run.tol and rows.AtB is not None:
                x = A.rmatmat(rows.judged)
                if rows.drift(x) > run.tol / 10 and run.affords(0.0):
                    break
            if not run.proceed(residual=residual, current=lambda: {"x": bare.rmatmat(rows.x())}):
                return run.finish(x=A.rmatmat(rows.x()) if x is None else x)
            residual = rows.step(moments)
    system = System.of(moments, rows.AtB, problem.ridges)
    return finish(run, moments, system, block_conjugate_gradients, x)


def _state(rows: RowGradients, residual: float) -> dict[str, Any]:
    return {"rows": rows.state(), "residual": residual}


class RowGradients(BlockConjugateGradients):
    """The iteration for z, with Aᵀ times every residual B − (AAᵀ + rI) z, one step later.

    Attributes
    ----------
    AtB : array of shape (p, m), or None
        Known from the first step on.
    judged : array of shape (n, m)
        The iterate z before the last step, whose residual the step has returned.
    """

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self.AtB: Array = None
        self.judged = self.x()
        self._KP: Array = None
        self._norm = 0.0
        self._scales = np.zeros(0)
        self._noise = system.noise

    def state(self) -> dict[str, Any] | None:
        """What the iteration is, for a checkpoint."""
        own = {name: getattr(self, name) for name in ("AtB", "_KP", "judged", "_norm", "_scales", "_noise")}
        return {**(super().state() or {}), "own": own}

    @classmethod
    def again(cls, state: Mapping[str, Any], home: Home) -> Self:
        """The iteration of a checkpoint."""
        found = super().again(state, home)
        vars(found).update(state["own"])
        found.judged = home.place(found.judged)
        found.AtB = None if found.AtB is None else home.place(found.AtB)
        found._KP = None if found._KP is None else home.place(found._KP)
        return found

    @property
    def start_residual(self) -> float:
        """1, or 0 if there are no iterations to make."""
        return float(self.ask().shape[1] > 0)

    def step(self, moments: Moments) -> float:
        """Make a step. Returns the relative residual of x before it."""
        home, P = self.home, self.ask()
        if P.shape[1] == 0:  # nothing is left of the residual
            self.judged = self.x()
            return 0.0
        AtP, KP = moments.outer_matmat(P)
        KQ = KP if self._KP is None else KP - self._KP @ home.place(self.tau.T)
        gram = to_host(self.Q.T @ KQ)
        z = np.hstack([shifted.z for shifted in self.shifts])
        norms = np.sqrt(np.maximum(np.sum(z * (gram @ z), axis=0), 0.0))
        if self.AtB is None:
            self.AtB = AtP @ home.place(self.seed.z)
            self._scales = norms
            self._norm = float(np.max(column_norms(AtP, home) / column_norms(P, home))) ** 2
        self.judged = self.x()
        self.tell(KP)
        self._KP = KP
        return float(np.max(self._relative(norms), initial=0.0))

    def drift(self, x: Array) -> float:
        """An estimate of the error of the updated gradient of x, relative to AᵀB."""
        sizes = (self._norm + self.ridge) * column_norms(x, self.home)
        return self._noise * float(np.max(self._relative(sizes), initial=0.0))

    def _relative(self, norms: HostArray) -> HostArray:
        found: HostArray = np.divide(norms, self._scales, out=np.zeros_like(norms), where=self._scales > 0)
        return found
