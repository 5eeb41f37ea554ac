"""An iterate of LSQR: all that the next step reads.

Problem: columns converge one after the other.
Method: the recurrence has arrays of the columns that go on; those that have converged are removed from these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec import Iterate, Status
from linspec.arrays import Array, Home, HostArray
from linspec_lstsq.by_ridge import worst
from linspec_lstsq.parts.golub_kahan import Long, Stacked, taken


@dataclass(kw_only=True, eq=False)
class LSQRIterate(Iterate):
    """An iterate of LSQR.

    Attributes
    ----------
    home : Home
    x0 : array of shape (p, columns), or None
        The start.
    x, w, v : array of shape (p, live columns)
        The correction of the start, its direction, and the last right vector of the bidiagonalisation.
    u : Long
        βu of each column, for the last left vector u.
    alpha, beta : numpy.ndarray of shape (live columns,)
        The last entries α and β of the bidiagonal matrix.
    shift : array of shape (live columns,)
        α/β.
    live : numpy.ndarray of int, shape (live columns,)
        The indices of columns that have not converged.
    damping : float
        √r, or 0 if rows √r I stand below A.
    phi_bar, rho_bar : numpy.ndarray of shape (live columns,)
        φ̄ and ρ̄.
    scales : numpy.ndarray of shape (columns,)
        ‖Aᵀb‖.
    gradients : numpy.ndarray of shape (columns,)
        ‖Aᵀ(b − A x) − r x‖ by (6), exact at the start.
    done : tuple
        Indices of columns that have converged, and their x.
    """

    residual: float
    ending: Status | None = None
    home: Home
    x0: Array | None
    x: Array
    w: Array
    v: Array
    u: Long
    alpha: HostArray
    beta: HostArray
    shift: Array
    live: HostArray
    damping: float
    phi_bar: HostArray
    rho_bar: HostArray
    scales: HostArray
    gradients: HostArray
    done: tuple[tuple[HostArray, Array], ...] = ()

    def weights(self) -> dict[str, Any]:
        """All iterates, as the field "x" of a solution."""
        parts = [*self.done, (self.live, self.x)]
        order = np.argsort(np.concatenate([columns for columns, _ in parts]))
        Y = self.home.concat([part for _, part in parts])
        Y = Y if len(parts) == 1 else taken([Y], order, self.home)[0]
        return {"x": Y if self.x0 is None else self.x0 + Y}

    def worst(self) -> float:
        """The largest relative gradient."""
        return worst(self.gradients, self.scales)

    def remaining(self, A: Stacked, tol: float) -> LSQRIterate:
        """Return a copy without columns whose relative gradient is within the tolerance."""
        within = self.gradients[self.live] <= tol * self.scales[self.live]
        if not within.any():
            return self
        stay, go = np.flatnonzero(~within), np.flatnonzero(within)
        done = (*self.done, (self.live[go], taken([self.x], go, self.home)[0]))
        x, w, v = taken([self.x, self.w, self.v], stay, self.home)
        each = {name: getattr(self, name)[stay] for name in ("live", "alpha", "beta", "phi_bar", "rho_bar")}
        shift = self.home.place(ratio(each["alpha"], each["beta"]))
        return replace(self, done=done, x=x, w=w, v=v, u=A.chosen(self.u, stay), shift=shift, **each)


def ratio(a: HostArray, b: HostArray) -> HostArray:
    """a / b, and 0 if b is 0, so that a finished recurrence does not change."""
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)
