"""Pairs that the Krylov space of one vector cannot find: block Lanczos steps from a random block in the complement.

Problem: a Krylov space of one vector finds a repeated singular value once. Further copies come with rounding, or not at
all, and a residual cannot show this.
Method: a block of b random vectors, orthogonal to the Ritz vectors found, makes a few steps of block Lanczos in their
complement (Golub & Underwood 1977). From one random start in N dimensions, the largest eigenvalue of the complement has
a relative error ε after q steps with a probability of at most 1.648 √N exp(-√ε (2q - 1)) (Kuczyński & Woźniakowski
1992, doi:10.1137/0613066, Theorem 4.2); the probabilities of b starts multiply. The search ends when an eigenvalue
above the k-th found is hidden with a probability of at most `RISK`. ε comes from the largest value that the search has
found, but is at least `OPEN`, to limit the cost. So an eigenvalue is detected if its relative distance above the k-th
found is at least `OPEN` (for squares; half of it for values). Missing values can be overlooked if the complement's
values are close to each other and to the k-th found. Values above the k-th by less than the tolerance times the largest
are not reported: the problem's residual does not show them either. A Ritz value is a lower bound of an eigenvalue, so
the search finds no false values. Pairs that it finds are refined by further steps, and another block searches for
more.
Where we differ: the rest of the Ritz vectors is dropped when a random block takes its place; its norm is added to all
later residuals.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from linspec import Status
from linspec.algebra import GrowingBasis
from linspec.arrays import HOST, Array, HostArray
from linspec_svd.ending import log_chance
from linspec_svd.krylov_triplets import bearable_loss
from linspec_svd.ritz_pairs import Recorder, Ritz

APART = 4
"""Number of random vectors in the first search for missing pairs; each further search has twice as many."""

OPEN = 0.1
"""Least relative distance at which a search must detect a missed eigenvalue of AᵀA (or AAᵀ), with a probability of at
least 1 - RISK. It is the distance of the missed eigenvalue above the k-th eigenvalue found, divided by the latter."""

RISK = 1e-3
"""Largest probability with which a search overlooks an eigenvalue at the distance `OPEN`."""

BLUR = 1e3
"""A computed eigenvalue is assumed to have an error of at most BLUR times the machine epsilon of products times the
largest eigenvalue."""

STEPS = 20
"""Number of random blocks for which a basis has room beside the requested Ritz vectors. A search normally ends after
fewer blocks; it also ends when the basis is full."""

UNSEEN = (
    "The budget left no room to complete the search for missing copies of repeated singular values, which a "
)
UNSEEN += "residual cannot show."

UNFINISHED = (
    "Singular values had been missed, often copies of repeated ones, and the run ended before a further look "
)
UNFINISHED += (
    'could show that none is missing: raise the budget or max_iterations, or choose "gram" or "direct".'
)


class BlockApart:
    """Growing basis that begins with Ritz pairs and searches for missing ones.

    Parameters
    ----------
    recorder : Recorder
        Recorder with the first pairs and their products.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.run, self.AtA, self.k, self.left = recorder.run, recorder.AtA, recorder.k, 0.0
        self.multiplied, k, AtA = recorder.multiplied, self.k, self.AtA
        most = min(AtA.length, max(3 * k, k + STEPS * APART))
        ritz = Ritz.of(recorder.ritz.V, recorder.ritz.GV, k)
        self.basis = GrowingBasis.begin(
            ritz.V, most=most, home=HOST, unit=AtA.rounding, bearable=bearable_loss(self.run.tol)
        ).grow(ritz.GV)

    @property
    def residual(self) -> float:
        """Residual as the problem defines it, plus `left`.

        `left` is the residual of the block that a restart discarded when a random block took its place; 0 before that.
        """
        theta = self.basis.ritz[0]
        if not len(theta) or theta[0] <= 0:
            return 0.0
        return float(self.basis.residuals(self.k).max(initial=0.0)) / float(theta[0]) + self.left

    def pairs(self) -> tuple[Array, HostArray]:
        """Ritz vectors and values."""
        vectors = self.AtA.home.place(self.basis.vectors(self.k))
        return vectors, self.basis.ritz[0][: self.k]

    def proceed(self) -> bool:
        """Report the residual to the run, which decides whether to continue."""
        basis = self.basis
        return self.run.proceed(residual=self.residual, current=lambda: self._triplets(basis))

    def _triplets(self, basis: GrowingBasis) -> dict[str, Any]:
        return self.AtA.current(self.AtA.home.place(basis.vectors(self.k)), basis.ritz[0][: self.k])

    def pairs_after_search(self) -> tuple[Array, HostArray]:
        """Return the k leading Ritz pairs, after searches for missed pairs as far as the budget allows.

        If a search finds a missed pair, the iteration continues until the residual is within the tolerance. If the run
        ends before that, the pairs from before this search are returned, unless the residual of the new pairs is at
        most the square root of the tolerance. Then the new pairs are returned: their values are accurate, because the
        error of a Ritz value is about the square of its residual.
        """
        width, found, before = APART, False, self.pairs()
        while self.basis.count < self.AtA.length and (lacks := self._lacks(width)) is not False:
            if lacks is None:
                self.run.note(*((Status.INCOMPLETE, UNFINISHED) if found else (Status.BUDGET, UNSEEN)))
                break
            found = True
            if not self.iterate_to_tolerance():
                self.run.note(Status.INCOMPLETE, UNFINISHED)
                return self.pairs() if self.residual <= self.run.tol**0.5 else before
            width, before = 2 * width, self.pairs()
        return self.pairs()

    def iterate_to_tolerance(self) -> bool:
        """Continue until the residual is at most the tolerance; return True then, and False if the run ends before."""
        while self.residual > self.run.tol:
            if not (self.proceed() and self.step()):
                return False
        return True

    def resume(self) -> None:
        """Continue after the problem's own test has rejected the answer.

        If a restart has discarded residuals, the Ritz vectors are first multiplied by AᵀA again, if the budget allows.
        Then the residual is exact, without the bound `left`.
        """
        basis = self.basis
        if self.left and self.run.budget.affords(self.AtA.sweep):
            anew = basis.begin_again(self.k)
            self.basis, self.left = anew.grow(self.multiplied(anew.next)), 0.0
        while self.proceed() and self.step():
            pass

    def step(self) -> bool:
        """Multiply the next block; return whether there was one."""
        basis = self.basis
        if basis.is_invariant:
            self.run.end(Status.STAGNATED)
            self.proceed()
            return False
        if basis.is_full:
            basis = basis.restart(self.k + (basis.most - self.k) // 3)
        self.basis = basis.grow(self.multiplied(basis.next))
        return True

    def _lacks(self, width: int) -> bool | None:
        """Search from a random block; return whether a pair is missing, or None if the budget ends the search first."""
        theta, side, AtA = self.basis.ritz[0][: self.k], self.AtA.length, self.AtA
        keep = len(theta)
        margin = max(self.run.tol, BLUR * AtA.rounding) * float(theta.max(initial=0.0))
        least = (float(theta[-1]) if keep == self.k else 0.0) + margin
        block = self.run.rng.standard_normal((side, min(width, side - keep)))
        most = min(side, max(self.basis.most, keep + STEPS * width))
        basis, steps = replace(self.basis, most=most, widest=most).restart(keep, block), 0
        while not (basis.is_invariant or basis.is_full):
            if not self.run.budget.affords(AtA.sweep):
                return None
            basis, steps = basis.grow(self.multiplied(basis.next)), steps + 1
            largest = float(np.linalg.eigvalsh(basis.H[keep:, keep:])[-1])
            if largest > least:
                self.left, self.basis = self.residual, basis
                return True
            share = max(1.0 - largest / least, OPEN) if least > 0 else 1.0
            if width * log_chance(side - keep, share, steps) <= np.log(RISK):
                break
        return False
