"""The iterate of a block Krylov iteration: its space, and the singular triplets that the Ritz pairs determine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

from linspec import Iterate, Status
from linspec.algebra import GrowingBasis
from linspec.process import count_of
from linspec_svd.gram_products import GramProducts
from linspec_svd.looks import Looks
from linspec_svd.repeated_values import Copies
from linspec_svd.start_proof import StartProof

BEARABLE = 1e-2, 1e-13, 1e-8
"""Tolerated loss of orthogonality in a basis: a fraction of the tolerance, and limits of the result from below and
above."""

USED = "Blocks of {columns}, a basis of {most} at most, begun again {times}."

FROM_START = " The first block has {known} of the start and {fresh} random ones."

UNSHOWN = "The run ended before its random columns could show that the start lacks no leading singular vector, which a "
UNSHOWN += "residual cannot tell: raise the budget, or leave start out."

UNFINISHED = "Repeated singular values were found, and the run ended before a second random block could show that none "
UNFINISHED += "of them is missing: raise the budget, or choose a wider block."


def bearable_loss(tol: float) -> float:
    """Loss of orthogonality that does not matter for a residual of size `tol`."""
    share, least, most = BEARABLE
    return min(max(share * tol, least), most)


def second_start(
    basis: GrowingBasis, copies: Copies, AtA: GramProducts, *, spare: int
) -> tuple[GrowingBasis, Copies]:
    """Begin the basis again from the requested Ritz vectors and `spare` more, for products in the data's precision."""
    tol = AtA.run.tol
    keep = max(copies.k, min(copies.k + spare, basis.most // 2))
    anew = basis.begin_again(keep, unit=AtA.rounding, bearable=bearable_loss(tol))
    return anew, copies.aiming_at(tol, AtA.rounding)


@dataclass(kw_only=True, eq=False)
class Triplets(Iterate):
    """The singular triplets of k Ritz pairs, computed on request, and all that the next step reads.

    Attributes
    ----------
    basis, looks, copies, proof
        The space, the schedule of looks at its Ritz pairs, the search for copies, and the proof about a start.
    single : bool
        Whether products are made with a copy of the data in float32.
    columns : (int, int)
        The number of columns of the first block, and the number of these that come from a start.
    scale : float
        The power of two by which products are multiplied.
    """

    residual: float
    basis: GrowingBasis
    looks: Looks
    copies: Copies
    proof: StartProof
    single: bool
    columns: tuple[int, int]
    scale: float = field(init=False)
    AtA: InitVar[GramProducts]

    def __post_init__(self, AtA: GramProducts) -> None:
        self.scale, self._AtA = AtA.scale, AtA
        self.judged = not (self.single or self.proof.needed)
        self.after = AtA.after + AtA.sweep * self.single
        self._restarts, self._findings = self.basis.restarts, list[tuple[Status | None, str]]()

    @property
    def parts(self) -> tuple[GrowingBasis, Looks, Copies, StartProof, float]:
        """The fields that a step changes."""
        return self.basis, self.looks, self.copies, self.proof, self.residual

    def weights(self) -> Mapping[str, Any]:
        """The triplets for callbacks."""
        return self._AtA.current(*self._pairs(self.basis))

    def answer(self) -> Mapping[str, Any]:
        """The triplets for the law; after products in float32, by a Rayleigh-Ritz step in the data's precision."""
        basis = self.basis
        if self.single:
            basis, _ = second_start(basis, self.copies, self._AtA, spare=self.copies.width)
            basis = basis.grow(self._AtA(basis.next))
        arrays, findings = self._AtA.answer(*self._pairs(basis))
        self._restarts, self._findings = basis.restarts, [*findings]
        return arrays

    def _pairs(self, basis: GrowingBasis) -> tuple[Any, Any]:
        """Ritz vectors and values."""
        return basis.vectors(self.copies.k), basis.ritz[0][: self.copies.k]

    def notes(self) -> Sequence[tuple[Status | None, str]]:
        """Notes on the widths of blocks and basis, and on proofs that the run could not complete."""
        b, known = self.columns
        times = count_of(self._restarts, "time")
        used = USED.format(columns=count_of(b, "column"), most=self.basis.most, times=times)
        start = FROM_START.format(known=count_of(known, "column"), fresh=b - known) * (known > 0)
        unshown = [(Status.INCOMPLETE, UNSHOWN)] * self.proof.needed
        unfinished = [(Status.INCOMPLETE, UNFINISHED)] * self.copies.may_be_missing
        return [*self._findings, (None, used + start), *unshown, *unfinished]


KEPT = (Triplets, GrowingBasis, Looks, Copies, StartProof)
"""The classes that a checkpoint contains."""
