"""Block conjugate gradients on the normal equations, for a whole path of ridges.

Problem: (AᵀA + rI) X = AᵀB, symmetric and positive (semi)definite, for m right-hand sides at once and for one or
several ridges r.
Method: the block iteration of O'Leary (1980) in the form of Dubrulle (2001), which orthonormalises the residuals
and so needs no inverse of a matrix that becomes singular as columns converge. With M = AᵀA + rI and R = Qτ
standing for an orthonormal factor and a small one:

    AᵀB = Q ρ,  P = Q
    G = PᵀMP,  X ← X + P G⁻¹ρ,  Q τ ← Q − MP G⁻¹,  ρ ← τρ,  P ← Q + P τᵀ

so the residuals are Qρ, and their norms are those of the columns of ρ. All right-hand sides search the space that
they span together, with fewer readings of the data than column by column. For one column it is the iteration of
Hestenes & Stiefel (1952). From X = 0 at ridge 0 it leads to the solution of least norm.

A path: the spaces do not depend on r. The iteration for M + δI takes the same Q and τ and no product (the shifted
form of Futamura, Sakurai, Furuya & Imakura 2013). With D = G + Δ, Δ = δI at the start, z = ρ at the start:

    X ← X + P D⁻¹z,  Q τ ← Q − MP G⁻¹,  z ← τ G D⁻¹z,  Δ ← δI + τ G D⁻¹Δ τᵀ,  P ← Q + P D⁻¹G τᵀ

where P, z, Δ belong to the shift, and Q, G, τ belong to the smallest ridge. For δ = 0 this is the iteration above.

Where we differ: rank is cut in two ways. Directions in which the new residuals depend on each other up to rounding are
left out of Q, and so are directions in which no right-hand side has a residual above rounding. Then Q has fewer
columns, and nothing else changes. At the start more counts as rounding (`System.least_share`): a direction that is left
out while others have large residuals costs many steps. The update of Δ is written as a sum of positive matrices, while
the source subtracts. The host factorises G and SᵀS, S = Q − MP G⁻¹. The second depends on the first, and so a step
would wait for a device twice. Thus a device inverts G itself, and both are transferred together; the results return to
the device together. If G is singular up to rounding, the host inverts it on its numerical range, and the step waits
twice.
If no ridge is zero, matrices with fewer rows than columns are solved on the side of the rows (dual.py).

Random columns W beside AᵀB make the same space contain what a Nyström preconditioner of their number would find,
without one (Chen, Huber, Lin & Zaid 2025, arXiv:2501.18717): fewer steps, with more arithmetic in each. [AᵀB W] is
factorised at the start, and X, ρ and z belong to AᵀB alone; the iteration is the same. Of W only residuals are kept, so
that directions stay in Q as long as W has residuals above rounding there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from linspec import (
    Iterate,
    IterativeSolver,
    LinearOperator,
    Moments,
    Run,
    cost,
    form_option,
    limit_option,
    option,
    tol_option,
)
from linspec.cost import Estimate, Sizes
from linspec_lstsq.block_step import (
    Blocks,
    above_rounding,
    begun,
    column_lengths,
    inverse,
    orthonormal,
    placed,
    projected,
    rounding_weights,
    shifted,
    turned,
)
from linspec_lstsq.dual import RowIterate, on_rows, solved_on_rows
from linspec_lstsq.normal_equations import KEPT, Kernel, System, solved
from linspec_lstsq.prepared import PreparedNormalEquations
from linspec_lstsq.random_columns import columns_beside

EXPECTED, EXPECTED_SPARSE = 200, 100
"""Expected number of iterations, with which "auto" compares a solve with other methods: on dense data, and on counts of
words, where preconditioners save few iterations (measured)."""


@dataclass(frozen=True, kw_only=True)
class ConjugateGradients(IterativeSolver):
    """Block conjugate gradients (O'Leary 1980, doi:10.1016/0024-3795(80)90247-5; Dubrulle 2001)."""

    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(1000)
    form: str = form_option()
    random_columns: int | None = option(
        None,
        "random columns in each block, for fewer passes; none: by what a pass costs, 0 in memory",
        kind=int,
        at_least=0,
    )

    kept: ClassVar = (*KEPT, Blocks, RowIterate)
    resumes_after_law: ClassVar = False

    def iterates(self, problem: Any, run: Run, state: Any = None) -> Iterator[Iterate]:
        """Yield the iterates that solve a least-squares problem."""
        # If rows can be read only once, the iterations need a Gram matrix that is held.
        form = "dense" if problem.sweeps == 1 and self.form == "auto" else self.form
        moments = run.moments(form)
        # A start is not of the form Aᵀz.
        dual = run.start is None and on_rows(moments, problem.ridges, problem.width)
        begin, columns = block_conjugate_gradients, self.random_columns
        if columns is None:
            columns = 0 if state is not None else columns_beside(problem, moments)
        if isinstance(state, RowIterate) or (dual and state is None):
            return solved_on_rows(problem, run, moments, begin, state, random_columns=columns)
        return solved(problem, run, begin, form, state, random_columns=columns)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of one or two hundred products."""
        return cost.sweeps_estimate(sizes, EXPECTED_SPARSE if sizes.scattered else EXPECTED)

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> PreparedNormalEquations:
        """Return a state that solves for many right-hand sides by this iteration."""
        begin = block_conjugate_gradients
        return PreparedNormalEquations(A, ridge, run, begin, self.max_iterations, self.tol, rows=True)


def block_conjugate_gradients(system: System, point: Any = None) -> Kernel:
    """Kernel of Dubrulle's iteration for the smallest ridge, and of its shifts for the others."""
    home, r, path = system.home, min(system.ridges), range(len(system.ridges))
    delta = [ridge - r for ridge in system.ridges]
    point = begun(system) if point is None else point  # AᵀB = Qρ, P = Q, z = ρ, Δ = δI
    weights, least = rounding_weights(system), point.least
    while True:
        AtAP = yield point
        Q, X, P, z, Delta = point.Q, point.X, point.P, point.z, point.Delta
        if not Q.shape[1]:  # nothing is left
            continue
        MP = AtAP + P[least] * r
        G, Ginv, S, StS = projected(Q, P[least], MP, home)  # G = PᵀMP, S = Q − MP G⁻¹
        Dinv = [inverse(G + Delta[i]) if delta[i] else Ginv for i in path]  # D = G + Δ
        step = [Dinv[i] @ z[i] for i in path]  # D⁻¹z
        GDz = [G @ step[i] if delta[i] else z[i] for i in path]  # G D⁻¹z
        DG = [Dinv[i] @ G if delta[i] else np.eye(len(G)) for i in path]  # D⁻¹G
        S, turns, tau = orthonormal(S, StS, home)  # Qτ = S
        turns, tau = above_rounding(turns, tau, GDz, weights, point.others)
        z = [tau @ GDz[i] for i in path]  # z ← τ G D⁻¹z
        Delta = [shifted(delta[i], tau, DG[i], Delta[i]) for i in path]  # Δ ← δI + τ G D⁻¹Δ τᵀ
        beta = [DG[i] @ tau.T for i in path]  # D⁻¹G τᵀ
        (coordinates,), step, beta, turns = placed(home, [np.hstack(z)], step, beta, turns)
        X = [X[i] + P[i] @ step[i] for i in path]  # X ← X + P D⁻¹z
        Q = turned(S, turns)
        P = [Q + P[i] @ beta[i] for i in path]  # P ← Q + P D⁻¹G τᵀ
        known, others = column_lengths(z), tau @ point.others
        point = replace(
            point,
            known=known,
            Q=Q,
            X=X,
            P=P,
            z=z,
            coordinates=coordinates,
            Delta=Delta,
            tau=tau,
            others=others,
        )
