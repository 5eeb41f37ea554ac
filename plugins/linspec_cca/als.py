"""CCA by alternating least squares.

Problem: the leading canonical pairs of X and Y.
Method: from bases Φ, Ψ of both views, with Sx = XᵀX + rx I and Sy = YᵀY + ry I,

    Φ ← argmin ‖XΦ − YΨ‖² + rx ‖Φ‖²,   orthonormal in Sx,
    Ψ ← argmin ‖YΨ − XΦ‖² + ry ‖Ψ‖²,   orthonormal in Sy,

by any least-squares solver that has `prepare`. The half steps are those of L-CCA with "ling", and of G-CCA with "gd";
these solvers also make fixed numbers of rounds and steps, and carry no more than k columns (see `rounds.py`).
Source: Golub & Zha 1995, The canonical correlations of matrix pairs; Lu 2015 (thesis), Algorithms 4 and 7.
Where we differ: (a) The least-squares solver begins at Φ diag ρ, the best point within the span of the last block,
whose gradient is known, and only reduces the gradient there by a factor. (b) Some columns more than k are carried,
because the convergence depends on how far the correlations after them lie below the k-th. (c) After each half step both
bases are turned to the canonical pairs of their spans, so a run can be judged and stopped at any step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from linspec import IterativeSolver, Run, Status, form_option, limit_option, option, part, tol_option
from linspec.arrays import Array
from linspec.families.cca import KEPT, ExpectedGain, PairsIterate, block_width, first_pairs
from linspec.moments import Pairs
from linspec.operators import DenseOperator, ProductOperator

INNER_REDUCTION = 0.1
"""The factor by which a half step reduces the largest relative gradient of its columns."""


@dataclass(frozen=True, kw_only=True)
class AlternatingLeastSquares(IterativeSolver):
    """Alternating least squares (Golub & Zha 1995; Lu 2015, Algorithms 4 and 7)."""

    lstsq: Any = part(
        "cg", "least-squares solver of the half steps", problem="least-squares", method="prepare"
    )
    normalizer: Any = part("cholesky-qr", "normalizer of the blocks", kind="normalizer")
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    oversample: int = option(10, "columns carried beyond k", at_least=0)
    tol: float | None = tol_option()
    max_iterations: int = limit_option(500)
    form: str = form_option()

    kept: ClassVar = KEPT

    def iterates(self, problem: Any, run: Run, state: PairsIterate | None = None) -> Iterator[PairsIterate]:
        """Canonical pairs after each iteration."""
        return self.alternate(problem, run, state)

    def alternate(
        self,
        problem: Any,
        run: Run,
        state: PairsIterate | None = None,
        rounds: int | None = None,
        *,
        from_zero: bool = False,
    ) -> Iterator[PairsIterate]:
        """Yield canonical pairs after each iteration, for a fixed number of iterations if `rounds` is given.

        Parameters
        ----------
        problem : CCA
        run : Run
        state : PairsIterate, optional
            The first iterate to yield; by default from a random start.
        rounds : int, optional
            Number of iterations, in whose half steps `lstsq` runs to its own limit. By default a half step ends when
            the gradient is reduced by `INNER_REDUCTION`, and the tolerance ends the iterations.
        from_zero : bool, default False
            Whether lstsq begins at zero, and not at its answer for the last block.
        """
        k, width = problem.k, block_width(problem, self.oversample)
        moments, lstsq = run.moments(self.form, expect=(200, width)), run.part(self.lstsq)
        normalizer = run.part(self.normalizer)
        pairs = None if state is None else state.pairs
        if pairs is None:
            pairs = first_pairs(problem, run, moments, run.part(self.test_matrix), width)
        held = moments.form != "implicit"
        matrices = [moments.view(0), moments.view(1)] if held else [problem.X, problem.Y]
        rng_before = run.rng.bit_generator.state if state is None else state["rng_before"]
        with drawing_from(run, rng_before):  # a continued run prepares with the random numbers of its start
            solvers = [lstsq.prepare(A, r, run) for A, r in zip(matrices, problem.ridge, strict=True)]

        def half_step(pairs: Pairs, i: int) -> Array:
            """Minimise ‖XW − YΨ‖² + r‖W‖² for view i, from W = Φ diag ρ; there C Ψ − SΦ diag ρ is −gradient/2."""
            other, basis, CV = (problem.X, problem.Y)[1 - i], pairs[i], pairs.image(i)
            target = ProductOperator(other, DenseOperator(other.home.place(pairs[1 - i].V, other.dtype)))
            start = basis.V * pairs.rho_there
            AtA_start = (basis.SV - basis.V * problem.ridge[i]) * pairs.rho_there
            if from_zero:
                start = AtA_start = None
            if rounds is None:
                return solvers[i].reduce(
                    target, INNER_REDUCTION, pairs.residual_block(i), CV, start, AtA_start
                )
            return solvers[i].solve(target, start, None, CV, AtA_start)

        def judged(pairs: Pairs, gain: Any, made: int) -> PairsIterate:
            """Return the iterate with these pairs after `made` iterations.

            The iterate also has an estimate of how much further iterations will add to the sum of the correlations,
            relative to this sum.
            """
            leading = pairs.leading(k)
            gain = gain.after(leading.residual, leading.total, whole=pairs.exact)
            ending = Status.CONVERGED if made == rounds else None
            return PairsIterate(
                pairs,
                k,
                gain=gain,
                ending=ending,
                made=made,
                rng_before=rng_before,
            )

        iterate = state or judged(pairs.canonical(normalizer), ExpectedGain(run.tol), 0)
        while True:
            yield iterate
            pairs = iterate.pairs
            for i, sweeps in ((0, 3), (1, 1)):  # sweeps that the inner solver must leave
                with run.budget.reserving(sweeps * moments.cost.sweep):
                    V = half_step(pairs, i)  # argmin ‖XΦ − YΨ‖² + rx ‖Φ‖², and for Ψ
                pairs = pairs.renewed(moments, *((V, None) if i == 0 else (None, V)))  # SΦ, CᵀΦ: one sweep
                pairs = pairs.canonical(normalizer, new=(i,))  # ΦᵀSxΦ = I, ΨᵀSyΨ = I, ΦᵀCΨ = diag ρ
            iterate = judged(pairs, iterate.gain, iterate["made"] + 1)


@contextmanager
def drawing_from(run: Run, state: Any) -> Iterator[None]:
    """Context in which the run's generator of random numbers starts from `state`.

    At the end the earlier state of the generator is restored if it differs from `state`. If it equals `state`, the
    generator goes on after the random numbers drawn in the context.
    """
    generator = run.rng.bit_generator
    before = generator.state
    generator.state = state
    yield
    if before != state:
        generator.state = before
