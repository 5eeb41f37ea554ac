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
"""Three numbers that give the tolerated loss of orthogonality in a basis: it is BEARABLE[0] times the tolerance, but at
least BEARABLE[1] and at most BEARABLE[2]."""

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


@dataclass(kw_only=True, eq=False)
class Triplets(Iterate):
    """An iterate: the singular triplets of k Ritz pairs, computed on request, and the state that the next step needs.

    Attributes
    ----------
    residual : float
        The last computed residual of the Ritz pairs; 1 before the first.
    basis : GrowingBasis
        The basis of the Krylov space, with its Ritz pairs.
    looks : Looks
        When the Ritz pairs are computed next; each time is called a look.
    copies : Copies
        The search for further copies of repeated values.
    proof : StartProof
        The evidence that the vectors of an earlier answer lack no leading vector.
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
    columns: tuple[int, int]
    scale: float = field(init=False)
    AtA: InitVar[GramProducts]

    def __post_init__(self, AtA: GramProducts) -> None:
        self.scale, self._AtA = AtA.scale, AtA
        self.judged = not self.proof.needed
        self.after = AtA.after
        self._findings = list[tuple[Status | None, str]]()

    @property
    def parts(self) -> tuple[GrowingBasis, Looks, Copies, StartProof, float]:
        """The five fields that a step replaces, in this order: basis, looks, copies, proof and residual."""
        return self.basis, self.looks, self.copies, self.proof, self.residual

    def weights(self) -> Mapping[str, Any]:
        """The triplets for callbacks."""
        return self._AtA.current(*self._pairs())

    def answer(self) -> Mapping[str, Any]:
        """Return the singular triplets that the problem's own test receives."""
        arrays, findings = self._AtA.answer(*self._pairs())
        self._findings = [*findings]
        return arrays

    def _pairs(self) -> tuple[Any, Any]:
        """Ritz vectors and values."""
        return self.basis.vectors(self.copies.k), self.basis.ritz[0][: self.copies.k]

    def notes(self) -> Sequence[tuple[Status | None, str]]:
        """Return notes on the widths of blocks and basis, and on searches that the run could not complete.

        Such a search was to show that no copy of a repeated value is missing, or that a start lacks no leading vector.
        """
        b, known = self.columns
        times = count_of(self.basis.restarts, "time")
        used = USED.format(columns=count_of(b, "column"), most=self.basis.most, times=times)
        start = FROM_START.format(known=count_of(known, "column"), fresh=b - known) * (known > 0)
        unshown = [(Status.INCOMPLETE, UNSHOWN)] * self.proof.needed
        unfinished = [(Status.INCOMPLETE, UNFINISHED)] * self.copies.may_be_missing
        return [*self._findings, (None, used + start), *unshown, *unfinished]


KEPT = (Triplets, GrowingBasis, Looks, Copies, StartProof)
"""The classes that a checkpoint contains."""
