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

import linspec as ls
from linspec.iteration import Context, Iterate, worst
from linspec.linalg import golub_kahan, lsqr, stacked
from linspec.rows import Moments
from linspec_lstsq.normal_system import ByProducts, NormalEquations


@dataclass(frozen=True, kw_only=True)
class SimultaneousLSQR(ByProducts):
    """LSQR for all right-hand sides at once (Paige & Saunders 1982, doi:10.1145/355984.355989)."""

    def iterate(
        self, problem: ls.LeastSquares, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield iterates from zero or the start; begin again where rounding has falsified a residual."""
        system = NormalEquations(problem, moments, "implicit")
        asarray, ridges, Z = system.asarray, problem.ridges, system.plant(context)
        x0 = None if start is None else asarray.asarray(start["x"])
        unit = moments.operators[1].device.blocks.eye(system.m)
        while True:
            G, AtAZ = system.begin(x0, Z)  # (1), (4)
            U = b = asarray.asarray(moments.operator(1).matmat(unit))
            dampings, tol = ridges, context.tol
            step: Any = moments.long_step
            if x0 is not None or Z.shape[1]:  # ridges have columns of their own, and so have planted ones
                G = G if x0 is not None else asarray.concat([G] * len(ridges))
                V = asarray.concat([0.0 * G if x0 is None else -x0, Z])
                AV = asarray.asarray(moments.operator().matmat(V))
                U = asarray.concat([b] * len(ridges) + [0.0 * AV[:, G.shape[1] :]]) + AV
                least = np.full(Z.shape[1], min(ridges))
                roots = asarray.asarray(np.sqrt(np.append(np.repeat(ridges, system.m), least)))[None, :]
                U = asarray.xp.concat([U, V * roots], axis=0)  # (4) above, and [A Z; √r Z]
                AtAZ = AtAZ + min(ridges) * Z
                step, dampings = stacked(step, roots), (0.0,)
            columns = G.shape[1]
            steps = golub_kahan(step, asarray.concat([G, AtAZ]), U, asarray.column_norms(U))  # (2)
            for X, lengths in lsqr(steps, dampings):  # (3)
                yield Iterate(worst(lengths[:, :columns], system.scales), partial(system.answer, X, x0, Z))
                if context.tol < tol:
                    break
            else:
                return
            answer = system.answer(X, x0, Z)
            x0, Z = answer["x"], -answer.get("planted", -Z)  # (4)
