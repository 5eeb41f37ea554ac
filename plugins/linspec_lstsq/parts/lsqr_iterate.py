"""An iterate of LSQR: all that the next step reads, for all pairs of a right-hand side and a ridge.

Problem: pairs converge one after the other, and several ridges may share one column of the bidiagonalisation.
Method: columns and pairs have separate arrays, and an index gives the column of each pair. Pairs that have converged
are removed from these arrays, and so are columns that have no pair left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec import Iterate, Status
from linspec.arrays import Array, Home, HostArray
from linspec_lstsq.parts.golub_kahan import Long, RightPreconditioner, Stacked, taken
from linspec_lstsq.parts.gradients import relative


@dataclass(kw_only=True, eq=False)
class LSQRIterate(Iterate):
    """An iterate of LSQR.

    Attributes
    ----------
    home : Home
    N : RightPreconditioner, or None
        The preconditioner of all pairs.
    x0 : array of shape (p, pairs), or None
        The start.
    x, w : array of shape (k, live pairs)
        The correction of the start and its direction, in the variables of the preconditioner if there is one.
    v : array of shape (k, columns)
        The last right vector of the bidiagonalisation.
    u : Long
        βu of each column, for the last left vector u.
    alpha, beta : numpy.ndarray of shape (columns,)
        The last entries α and β of the bidiagonal matrix.
    shift : array of shape (columns,)
        α/β.
    live : numpy.ndarray of int, shape (live pairs,)
        The indices of the pairs of a column and a ridge that have not converged, ridges outermost.
    owner : numpy.ndarray of int, shape (live pairs,)
        The column of the bidiagonalisation for each pair.
    damping, phi_bar, rho_bar : numpy.ndarray of shape (live pairs,)
        √r, or 0 if rows √r I stand below A; φ̄; ρ̄.
    scales : numpy.ndarray of shape (pairs,)
        ‖Aᵀb‖.
    gradients : numpy.ndarray of shape (pairs,)
        ‖Aᵀ(b − A x) − r x‖ by (6), exact at the start.
    steps : numpy.ndarray of shape (pairs,)
        The norm of the change of [A x; √r x] in the last step.
    sizes : numpy.ndarray of shape (pairs,)
        ‖[b − A x; −√r x]‖ at the start.
    norm : float
        A lower bound of the norm of A, without a preconditioner.
    done : tuple
        Indices of pairs that have converged, and their x.
    leaving : numpy.ndarray of bool, shape (live pairs,), or None
        The mask of the pairs that leave before the next step.
    residual_computed : float
        The residual, computed from b − A x, with which the iteration last began again.
    """

    residual: float
    ending: Status | None = None
    copyable: bool = True
    home: Home
    N: RightPreconditioner | None
    x0: Array | None
    x: Array
    w: Array
    v: Array
    u: Long
    alpha: HostArray
    beta: HostArray
    shift: Array
    live: HostArray
    owner: HostArray
    damping: HostArray
    phi_bar: HostArray
    rho_bar: HostArray
    scales: HostArray
    gradients: HostArray
    steps: HostArray
    sizes: HostArray
    norm: float = 0.0
    done: tuple[tuple[HostArray, Array], ...] = ()
    leaving: HostArray | None = None
    residual_computed: float = np.inf

    def solution(self) -> Array:
        """All iterates, ridges outermost."""
        parts = [*self.done, (self.live, self.x)]
        order = np.argsort(np.concatenate([pairs for pairs, _ in parts]))
        Y = self.home.concat([part for _, part in parts])
        Y = Y if len(parts) == 1 else taken([Y], order, self.home)[0]
        Y = Y if self.N is None else self.N.forward(Y)
        return Y if self.x0 is None else self.x0 + Y

    def weights(self) -> dict[str, Any]:
        """All iterates, as the field "x" of a solution."""
        return {"x": self.solution()}

    def worst(self) -> float:
        """The largest relative gradient."""
        return float(relative(self.gradients, self.scales).max(initial=0.0))

    def remaining(self, A: Stacked) -> LSQRIterate:
        """Return a copy without the pairs that leave, and without columns that have no pair left."""
        if self.leaving is None or not self.leaving.any():
            return self
        stay, go = np.flatnonzero(~self.leaving), np.flatnonzero(self.leaving)
        done = (*self.done, (self.live[go], taken([self.x], go, self.home)[0]))
        x, w = taken([self.x, self.w], stay, self.home)
        columns, owner = np.unique(self.owner[stay], return_inverse=True)
        pairs = {name: getattr(self, name)[stay] for name in ("live", "damping", "phi_bar", "rho_bar")}
        found = replace(self, done=done, x=x, w=w, owner=owner, **pairs)
        if len(columns) == len(self.beta):
            return found
        alpha, beta = self.alpha[columns], self.beta[columns]
        (v,), shift = taken([self.v], columns, self.home), self.home.place(ratio(alpha, beta))
        return replace(found, u=A.chosen(self.u, columns), v=v, alpha=alpha, beta=beta, shift=shift)


def owned(V: Array, owner: HostArray, home: Home) -> Array:
    """Return the columns of V with the indices `owner`, one for each pair; V itself if `owner` has all in order."""
    return V if np.array_equal(owner, np.arange(V.shape[1])) else taken([V], owner, home)[0]


def ratio(a: HostArray, b: HostArray) -> HostArray:
    """a / b, and 0 if b is 0, so that a finished recurrence does not change."""
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)
