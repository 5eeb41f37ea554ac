"""Block Krylov iteration: the accurate default.

Problem: the k leading singular triplets of A from few readings of the data.
Method: Rayleigh-Ritz on the block Krylov space of AᵀA from a random block Ω,

    span(Ω, AᵀA Ω, …, (AᵀA)^q Ω),

built by block Lanczos steps. With an orthonormal basis V and a block Q that has not been multiplied yet, a step is

    W = AᵀA Q (one sweep),  V ← [V Q],  R = W − V VᵀW,  H = VᵀAᵀAV,  Q ← orth(R),

and with Hy = θy a Ritz pair (θ, Vy) has the residual R y_Q, with the part y_Q of y in the newest block, so its norm
costs nothing. A basis that has reached its largest width is restarted from its leading Ritz vectors and the newest
block (thick restart).
Source: Golub & Underwood 1977, The block Lanczos method for computing eigenvalues; Musco & Musco 2015,
arXiv:1504.05477; Tropp & Webber 2023, arXiv:2306.12418; Wu & Simon 2000, doi:10.1137/S0895479898334605 (thick restart).
Where we differ: (a) The iteration stops by that residual, and not after a number of powers. (b) Blocks are as narrow as
the cost of a reading allows: narrow blocks need fewer columns in all, wide blocks fewer sweeps. (c) For sparse data
with few rows AAᵀ replaces AᵀA, and one sweep at the end gives the right vectors (`gram_products`). (d) The projection
is subtracted from each product once, and a second time if an estimate shows that once is not enough
(`linspec.algebra.GrowingBasis`). (e) The Ritz pairs are computed when they may have converged (`looks`). (f) If a value
was found as often as a block has columns, a second random block looks for more copies (`repeated_values`). (g) Vectors
of an earlier answer make the first block, with random columns beside them, and the iteration ends only when these have
shown that the start lacks no leading vector (`start_proof`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from linspec import (
    IterativeSolver,
    Run,
    form_option,
    limit_option,
    option,
    part,
    tol_option,
)
from linspec.algebra import GrowingBasis, columns_outside, orthonormal_columns
from linspec.cost import DENSE_RATE, Estimate, Sizes, spare_bytes, sweeps_estimate
from linspec_svd.gram_products import GramProducts
from linspec_svd.krylov_triplets import KEPT, Triplets, bearable_loss
from linspec_svd.looks import Looks
from linspec_svd.repeated_values import Copies
from linspec_svd.start_proof import StartProof, orthonormal_start

OVERSAMPLING = 10
"""The number of columns in a wide block, in addition to k."""

NARROW, NARROW_DENSE = 8, 24
"""The number of columns in a narrow block, for sparse and for dense data in memory: fewer columns are not cheaper."""

COLUMNS = 16
"""Number of requested triplets for each column of a narrow block: the block has max(NARROW, k // COLUMNS) columns, with
NARROW_DENSE for dense data."""

SWEEPS = 60
"""Number of sweeps that an iteration with narrow blocks may need. If the budget allows fewer sweeps, the blocks are
wide."""

FRESH = 20
"""Least number of random columns in the first block beside the vectors of an earlier answer (the start). The iteration
ends only when these columns have shown that no leading vector is missing; with fewer columns that takes more sweeps."""

BASIS = 5, 60
"""The expected number of columns in the final basis is BASIS[0] for each triplet, plus BASIS[1]."""

BLOCKS = 12
"""The number of wide blocks in a basis before it is restarted."""

NEGLIGIBLE_BYTES = 2**26
"""The size of a basis that fits into any memory."""


@dataclass(frozen=True, kw_only=True)
class BlockKrylov(IterativeSolver):
    """Rayleigh-Ritz on a block Krylov space (Musco & Musco 2015, arXiv:1504.05477)."""

    block: int | None = option(
        None,
        "random columns of a block; none: from the data, at most ten more than the triplets wanted; 20 by a start",
        kind=int,
        at_least=1,
    )
    basis: int | None = option(
        None, "columns that are held at most; none: as memory allows", kind=int, at_least=2
    )
    tol: float | None = tol_option()
    max_iterations: int = limit_option(500, "sweeps")
    test_matrix: Any = part("gaussian", "the first block", kind="test-matrix")
    form: str = form_option()

    kept: ClassVar = KEPT

    def iterates(self, problem: Any, run: Run, state: Any = None) -> Iterator[Triplets]:
        """Yield the Ritz pairs of a growing space, as singular triplets."""
        k, expect = problem.k, (20, min(problem.k + OVERSAMPLING, *problem.A.shape))
        scale = 0.0 if state is None else state.scale
        AtA = GramProducts(problem, run, self.form, expect, scale=scale)
        found = self._begun(problem, run, AtA) if state is None else replace(state, AtA=AtA)
        while True:
            # With a start, nothing is shown before the first product.
            if found.basis.count or found.judged:
                yield found
            basis, looks, copies, proof, residual = found.parts
            tol = found.copies.tol

            if found.judged and residual <= tol:  # the law, the problem's own test, has rejected the answer
                basis = basis.projecting_twice()
            if basis.is_invariant:  # a second start, from the Ritz vectors
                basis, copies, residual = basis.begin_again(k), replace(copies, left=0.0), 1.0
            if basis.is_full:
                basis = basis.restart(k + (basis.most - k) // 3)  # V ← leading Ritz vectors

            W = AtA(basis.next)  # W = AᵀA Q
            basis = basis.grow(W)  # V ← [V Q],  R = W − V VᵀW,  H = VᵀAᵀAV,  Q ← orth(R)
            copies = copies.after_step()
            if looks.due(basis):
                now = ritz_residual(basis, k, tol)  # max ‖R y_Q‖ / θ₁ for Hy = θy
                looks = looks.seen(basis, now, max(tol - copies.left, tol / 2))
                proof = proof.seen(basis, k, now + copies.left, tol, copies.resolution)
                if not now + copies.left <= tol:
                    residual = now + copies.left
                elif not copies.are_sought(basis):
                    copies = copies.counted(basis, now)
                    if not (copies.may_be_missing or proof.needs_random_block(basis)):
                        residual = now + copies.left
                    elif now <= copies.near_enough or basis.is_invariant:
                        basis, copies = copies.look_apart(basis, now, run.rng)  # Q ← random, orthogonal to V
                        proof = proof.with_random_block(basis)
                    else:
                        looks = looks.aimed(copies.near_enough)
            found = replace(
                found,
                residual=residual,
                basis=basis,
                looks=looks,
                copies=copies,
                proof=proof,
                AtA=AtA,
            )

    # ---- where it begins ----------------------------------------------------------------------

    def _begun(self, problem: Any, run: Run, AtA: GramProducts) -> Triplets:
        """Return the first iterate, before the first product."""
        before = 0.0
        if run.start is not None:  # a product with it, and its vectors on the side of the rows
            before = AtA.sweep + (1.0 + run.settling) * AtA.of_rows
        setup = AtA.moments.cost.setup + AtA.after
        run.plan(setup=setup + before)  # the first iterate has no columns: it is no answer
        S = orthonormal_start(problem, run, AtA)
        b = self._width(problem, run, setup + SWEEPS * AtA.sweep, S.shape[0], S.shape[1])
        Omega = AtA.home.place(run.part(self.test_matrix).draw(AtA.length, b, run.rng))
        if S.shape[1]:
            first = AtA.home.concat([S, columns_outside(Omega, S.T, AtA.home)])
        else:
            first = orthonormal_columns(Omega, AtA.home)
        most = self._most(problem.k, b + S.shape[1], AtA)
        basis = GrowingBasis.begin(
            first,
            most=most,
            home=AtA.home,
            widest=max(most - problem.k, b),
            unit=AtA.rounding,
            bearable=bearable_loss(run.tol),
        )
        known, columns = int(S.shape[1]), int(first.shape[1])
        return Triplets(
            residual=1.0,
            basis=basis,
            looks=Looks(problem.k),
            copies=Copies(k=problem.k, width=b, tol=run.tol, rounding=AtA.rounding, most=b),
            proof=StartProof(known > 0, known, columns - known),
            columns=(columns, known),
            AtA=AtA,
        )

    def _width(self, problem: Any, run: Run, sweeps: float, side: int, known: int) -> int:
        """Number of random columns in a block: that of the option `block` if it is given, otherwise as follows.

        Without a start the block is narrow (`NARROW`, `NARROW_DENSE`, `COLUMNS`) if the data are in the memory of the
        host, where a sweep costs no more than its products, and if the budget allows `sweeps` passes. Otherwise it is
        wide: k plus `OVERSAMPLING` columns. With a start of `known` vectors, the random columns fill a wide block, but
        are at least `FRESH`.
        """
        n, p = problem.A.shape
        full = min(problem.k + OVERSAMPLING, n, p)
        if run.start is not None:
            fresh = max(full - known, FRESH) if self.block is None else self.block
            return int(min(fresh, side - known))
        if self.block is not None:
            return int(min(self.block, n, p))
        if not (problem.A.home.on_host and problem.A.resident and run.budget.affords(sweeps)):
            return int(full)
        least = NARROW if problem.A.sparse else NARROW_DENSE
        return int(min(max(least, problem.k // COLUMNS), full))

    def _most(self, k: int, b: int, AtA: GramProducts) -> int:
        """The largest number of columns in the basis."""
        side = AtA.length
        if self.basis is not None:
            return min(max(self.basis, k + 2 * b), side)
        most = min(max(3 * k, k + 10 * b) if b < k else BLOCKS * b, side)
        if 8 * most * side > NEGLIGIBLE_BYTES:
            bases = 1 if AtA.home.on_host else 2  # a device allocates a second basis when it restarts one
            most = min(most, spare_bytes(AtA.home) // (8 * side * bases))
        return min(max(most, k + 2 * b), side)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost: narrow blocks make a basis of five columns for each triplet and a few more."""
        side = min(sizes.n, sizes.p) if sizes.scattered else sizes.p
        least = NARROW if sizes.scattered else NARROW_DENSE
        b = min(max(least, sizes.k // COLUMNS), sizes.k + OVERSAMPLING, side)
        columns = min(BASIS[0] * sizes.k + BASIS[1], side)
        sweeps = -(-columns // b)
        orthogonal = 4.0 * side * columns**2 / DENSE_RATE
        held = 8.0 * (side * (2 * columns + 8 * b) + sizes.k * (sizes.n + sizes.p))
        seconds = sweeps_estimate(replace(sizes, k=b), sweeps).seconds + orthogonal
        return Estimate(seconds, held, f"{sweeps} sweeps with blocks of {b} columns")


def ritz_residual(basis: GrowingBasis, k: int, tol: float) -> float:
    """max ‖AᵀA v − θ v‖ / θ₁ over the k leading Ritz pairs; 1 while there are fewer than k."""
    if basis.is_invariant:
        return min(basis.largest_loss, tol)  # the space has no other pairs
    theta = basis.ritz[0]
    if not len(theta) or theta[0] <= 0:
        return 0.0
    return float(basis.residuals(k).max()) / float(theta[0]) if len(theta) >= k else 1.0
