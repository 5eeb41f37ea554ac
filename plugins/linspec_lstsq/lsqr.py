"""LSQR: least squares by products with A and Aᵀ, as stable as products allow.

Problem: min ‖A x − b‖² + r ‖x‖²; at r = 0 the solution of least norm.
Method: the bidiagonalisation of Golub & Kahan, with a ridge r as damping √r:

    G = Aᵀu for u = b                                                        (1)
    β₁u₁ = u,  α₁v₁ = Aᵀu₁,  βu ← A v - α u,  αv ← Aᵀu - β v                 (2)
    x ← x + (φ/ρ) w,  w ← v - (θ/ρ) w by rotations of the bidiagonal matrix  (3)

where `linspec.linalg.bidiagonalisation` has the rotations. In exact arithmetic the iterates are those of conjugate
gradients on the normal equations. With κ the condition number of A (of [A; √r I] with a ridge), conjugate gradients on
an explicit Gram matrix lose digits with κ². LSQR never forms it: its error grows with κ, and with κ² only in proportion
to the residual b - A x.
Source: Paige & Saunders 1982, doi:10.1145/355984.355989, the algorithm LSQR.
Where we differ: (a) All right-hand sides iterate at once, each with scalars of its own. (b) The bidiagonalisation from
x = 0 does not depend on the ridge (Saunders 1995, doi:10.1007/BF01739829), so all ridges of a column share it. From a
start they cannot: every pair of a column and a ridge r is then a column of [A; √r I], without damping, and

    u = [b - A x₀; -√r x₀],  G = Aᵀ(b - A x₀) - r x₀                         (4)

(c) Of many columns, right-hand sides A z with known z are solved too; what is left of z shows the directions that the
steps have not met (`linspec.certificates`). (d) Where the certificate has computed a larger residual, (4) begins again
at the iterate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec.arrays import Array
from linspec.iteration import Context, Iterate
from linspec.linalg import golub_kahan, lsqr, stacked
from linspec.rows import Moments
from linspec_lstsq.normal_system import ByProducts, NormalEquations


@dataclass(frozen=True, kw_only=True)
class SimultaneousLSQR(ByProducts):
    """LSQR for all right-hand sides at once (Paige & Saunders 1982, doi:10.1145/355984.355989)."""

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield iterates from zero or the start; begin again where rounding has falsified a residual."""
        system = NormalEquations(problem, moments, "implicit")
        ridges = problem.ridges
        Z = system.plant(context)
        x0 = None if start is None else system.place.place(start["x"])
        while True:
            G, AtAZ = system.begin(x0, Z)  # (1), (4)
            apart = max(ridges) > 0 and (x0 is not None or Z.shape[1] > 0)
            U, roots = self._first(moments, system, x0, Z, apart=apart)
            G = G if x0 is not None or not apart else system.place.concat([G] * len(ridges))
            adjoint = system.place.concat([G, AtAZ + min(ridges) * Z if apart else AtAZ])
            step = stacked(moments.long_step, roots) if apart else moments.long_step
            steps, tol = golub_kahan(step, adjoint, U, system.place.column_norms(U)), context.tol  # (2)
            for X, lengths in lsqr(steps, (0.0,) if apart or x0 is not None else ridges):  # (3)
                found = X[0] if len(X) == 1 else system.joined(X)
                yield Iterate(system.residual(lengths[:, : G.shape[1]]), partial(system.answer, found, x0, Z))
                if context.tol < tol:
                    break
            else:
                return
            answer = system.answer(found, x0, Z)
            x0, Z = answer["x"], -answer.get("planted", -Z)  # (4)

    def _first(
        self, moments: Moments, system: NormalEquations, x0: Array | None, Z: Array, *, apart: bool
    ) -> tuple[Array, Array]:
        """The rows [b - A x₀, A Z] of u, above [-√r x₀, √r Z] where ridges have columns of their own, and √r."""
        place, w = system.place, len(system.scales)
        b = place.place(moments.operator(1).matmat(moments.operators[1].backend.blocks.eye(system.m)))
        V = Z if x0 is None else place.concat([x0, Z])
        AV = place.place(moments.operator().matmat(V)) if V.shape[1] else b[:, :0]
        if apart or x0 is not None:
            b = place.concat([b] * len(system.ridges))
        U = place.concat([b if x0 is None else b - AV[:, :w], AV[:, V.shape[1] - Z.shape[1] :]])  # (4)
        least = np.full(Z.shape[1], min(system.ridges))
        roots = place.place(np.sqrt(np.append(np.repeat(system.ridges, system.m), least)))[None, :]
        if not apart:
            return U, roots
        below = place.concat([place.zeros((system.p, w)) if x0 is None else -x0, Z]) * roots
        return place.xp.concat([U, below], axis=0), roots
