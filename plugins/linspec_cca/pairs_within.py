"""The canonical pairs within two subspaces, as an iterate.

Problem: a residual is known in the norm of a preconditioner alone. Where columns nearly depend on each other it does
not show the loss.
Method: besides its residual an iterate has the gain of the correlations that is still expected, and lengths that the
subspaces have shown. From these come the findings of the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, replace
from typing import Any

import numpy as np

from linspec import Iterate, Status
from linspec.algebra import NORMS, SketchNorm, ratio, squares_together
from linspec.arrays import Array, HostArray
from linspec.families.cca import OPTIMISTIC, Evidence, ExpectedGain
from linspec_cca.search_space import SearchSpace, SubspaceView

DIGITS_LOST = {8: 1e-8, 4: 1e-3}
"""Limits of the error of the correlations that comes from products with XᵀX instead of X: `SubspaceView.longest` times
the rounding of the panels. The solution reports a larger error. The keys are the bytes of a number in the panels:
8 for float64, 4 for float32."""

HIDDEN = 300.0
"""The residual is known in the norm of a preconditioner. If columns nearly depend on each other, the missing part of
the sum of the correlations may be larger than the residual, by a factor of the order of `SubspaceView.longest`. The
solution reports this if the residual times `longest` exceeds the tolerance by more than HIDDEN."""


@dataclass(frozen=True)
class Wanted:
    """Numbers of pairs that an iteration computes, with the ridges.

    Attributes
    ----------
    k, width : int
        Number of pairs to return, and number of pairs that the iteration computes: k and some additional ones.
    ridges : pair of float
    """

    k: int
    width: int
    ridges: tuple[float, float]


@dataclass(kw_only=True, eq=False)
class PairsWithin(Iterate):
    """Canonical pairs within two subspaces.

    Attributes
    ----------
    wanted : Wanted
    space : SearchSpace
    norms : pair of SketchNorm
        Norms of the residuals, with their preconditioners.
    gain : ExpectedGain
        Estimate of the further gain of the sum of the correlations, after the step that led here.
    squares : numpy.ndarray
        Squared lengths of the residuals of each pair in `norms`, both views together.
    law : float
        Residual of the first k pairs, as the certificate of CCA defines it: the sum of their `squares`, divided by the
        sum of their correlations.
    """

    residual: float
    ending: Status | None = None
    wanted: Wanted
    space: SearchSpace
    norms: tuple[SketchNorm, SketchNorm]
    gain: ExpectedGain
    squares: HostArray
    law: float
    R: InitVar[tuple[Array, Array] | None] = None
    keeps: InitVar[bool] = True

    _answered, _keeps = False, True

    def __post_init__(self, R: tuple[Array, Array] | None, keeps: bool) -> None:
        self._R, self._keeps = R, keeps

    @classmethod
    def of(
        cls,
        wanted: Wanted,
        norms: tuple[SketchNorm, SketchNorm],
        space: SearchSpace,
        gain: ExpectedGain,
        *,
        keeps: bool,
        ending: Status | None = None,
    ) -> PairsWithin:
        """Canonical pairs within a space, with their residual.

        The residual is the larger of two numbers, each relative to the sum of the correlations: `law`, and a third of
        the gain of this sum that is still expected (see `ExpectedGain.residual`).

        Parameters
        ----------
        wanted, norms, space
            See the attributes of the class.
        gain : ExpectedGain
            The estimate of the further gain, before the step.
        keeps : bool
            Whether a checkpoint of the iterate may be requested after the answer.
        ending : Status, optional
            Status with which the run ends. STAGNATED replaces it if neither the residual nor the gain falls any more.
        """
        R, squares, law = residuals_of(space, norms, wanted)
        gain = gain.after(law, float(space.correlations[: wanted.k].sum()), whole=space.whole)
        if gain.fell_behind or gain.turned:
            ending = Status.STAGNATED
        return cls(
            residual=gain.residual,
            ending=ending,
            wanted=wanted,
            space=space,
            norms=norms,
            gain=gain,
            squares=squares,
            law=law,
            R=R,
            keeps=keeps,
        )

    # ---- what the run reads ----------------------------------------------------------------

    def weights(self) -> Mapping[str, Any]:
        """Weights of the first k pairs."""
        return self.space.weights(self.wanted.k)

    def answer(self) -> Mapping[str, Any]:
        """Weights of the first k pairs, with evidence for the certificate.

        The iteration may end with these weights, so the space is reduced to the carried pairs, unless a checkpoint may
        still be requested.
        """
        self._answered = True
        k, R = self.wanted.k, self._taken()
        carried = self.space.correlations[k : self.wanted.width]
        found = min(k, R[0].shape[1])
        known = Evidence(
            norms=self.norms,
            residuals=(R[0][:, :found] + 0.0, R[1][:, :found] + 0.0),  # slices would keep all of them
            carried=float(carried[-1]) if len(carried) else None,
            expected_gain=0.0 if self.space.whole else self.gain.expected,
            doubts=tuple(self._doubts()),
        )
        del R
        answer = {**self.weights(), "evidence": known}
        if not (self._keeps or self.space.whole):
            self.space.keep(self.wanted.width)  # the law multiplies blocks of its own
        return answer

    def remnant(self) -> PairsWithin:
        """Copy without the products SV and KV, so that the next step can release their memory."""
        return replace(self, space=self.space.without_products())

    # ---- what the next step reads ----------------------------------------------------------

    @property
    def sent_back(self) -> bool:
        """Whether the certificate has rejected the pairs, so that the iteration continues."""
        return self._answered

    def without_last_block(self) -> PairsWithin:
        """Pairs before the last step; they are as good as the present ones if the step has added only rounding."""
        space, gain = self.space.copy(), replace(self.gain, turned=False)
        space.undo()
        R, squares, law = residuals_of(space, self.norms, self.wanted)
        return replace(
            self, space=space, gain=gain, squares=squares, law=law, residual=law, R=R, keeps=self._keeps
        )

    def gone_on_with(self, share: float) -> tuple[SearchSpace, list[Array]]:
        """Return the space for the next step and the residuals of the pairs to improve; the step may overwrite these.

        After a rejected answer only the carried pairs are kept. Pairs whose residual is below `share` times the
        tolerance are not improved.
        """
        space = self.space.copy()
        if self.sent_back and self._keeps and not space.whole:
            space.keep(self.wanted.width)
            R = space.residuals(self.wanted.width)
        else:
            R = self._taken()
        settled = share * min(self.gain.tol, self.law) * self.space.correlations[: len(self.squares)]
        open_ = np.flatnonzero(self.squares > settled)
        if len(open_) == R[0].shape[1]:
            return space, [*R]
        home = space.views[0].home
        there = home.xp.asarray(open_, device=home.device)
        return space, [home.xp.take(block, there, axis=1) for block in R]

    def _taken(self) -> tuple[Array, Array]:
        """CΨ − SxΦ diag(ρ) and CᵀΦ − SyΨ diag(ρ) of all pairs: stored for the first call, computed again after it."""
        R, self._R = getattr(self, "_R", None), None
        return self.space.residuals(self.wanted.width) if R is None else R

    def _doubts(self) -> list[tuple[Status, str]]:
        """Findings about errors of the correlations that a small residual does not show.

        There is a finding if the sum of the correlations was still growing; if combinations of columns are zero up to
        rounding and there is no ridge; or if columns depend on each other so nearly that products lose too many digits
        (`DIGITS_LOST`), or that the residual may be far smaller than the loss (`HIDDEN`).
        """
        space, gain, law, tol = self.space, self.gain, self.law, self.gain.tol
        found = list[tuple[Status, str]]()
        if not space.whole and law <= tol < gain.expected / OPTIMISTIC < np.inf:
            text = (
                f"The sum of the correlations was still growing, by a relative {gain.expected:.0e}. The residual "
                "does not show this, because columns nearly depend on each other. Add a ridge, or iterate longer."
            )
            found.append((Status.ILL_CONDITIONED, text))
        for name, view, ridge in zip("XY", space.views, self.wanted.ridges, strict=True):
            short = (
                f"Combinations of the columns of {name} are {view.longest**0.5:.0e} times shorter than the "
            )
            short += "columns: "
            lost = view.longest * float(np.finfo(view.dtype).eps)
            if view.annihilated and ridge == 0:
                text = f"Combinations of the columns of {name} are zero up to the rounding of products. Add a ridge to "
                found.append((Status.RANK_DEFICIENT, text + "separate signal from chance."))
            elif lost > DIGITS_LOST[view.dtype.itemsize]:
                text = f"{short}correlations may be off by {lost:.0e}, which the residual does not show. "
                found.append((Status.ILL_CONDITIONED, text + 'Add a ridge, or choose "direct".'))
            elif law <= tol and law * view.longest > HIDDEN * tol:
                # The norm of S⁻¹ is known approximately; its unknown part may be larger by at most this factor.
                text = f"{short}the residual may be far smaller than the loss. Lower tol, add a ridge, or choose "
                found.append((Status.ILL_CONDITIONED, text + '"direct".'))
        return found


def residuals_of(
    space: SearchSpace, norms: tuple[SketchNorm, SketchNorm], wanted: Wanted
) -> tuple[tuple[Array, Array], HostArray, float]:
    """Return the residuals of the pairs within a space, their squared lengths, and the residual of the first k pairs.

    The residual of the first k pairs is the sum of their squared lengths, divided by the sum of their correlations.
    """
    R, k = space.residuals(wanted.width), wanted.k
    squares: HostArray = np.add(*squares_together(norms, R))
    return R, squares, ratio(float(squares[:k].sum()), float(space.correlations[:k].sum()))


KEPT: tuple[type, ...] = (PairsWithin, Wanted, SearchSpace, SubspaceView, ExpectedGain, *NORMS)
"""Classes of the objects in a checkpoint."""
