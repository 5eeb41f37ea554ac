"""The law of CCA: unit vectors, the residual of the returned pairs, and estimates of the loss.

Problem: Φ, Ψ and ρ are returned. How much of the sum of the leading correlations is missing?
Method. With ϱᵢ = (Cψᵢ − ρᵢ Sx φᵢ, Cᵀφᵢ − ρᵢ Sy ψᵢ) in the norm of diag(Sx, Sy)⁻¹, the residual is Σ‖ϱᵢ‖² / Σρᵢ, and
some correlation is within ‖ϱᵢ‖/√2 of ρᵢ. To second order a pair loses Σⱼ eᵢⱼ²/(ρᵢ − γⱼ). Here γⱼ are the
correlations of the directions that were left out, and eᵢⱼ are the components of ϱᵢ/√2 along these directions. None of
this needs another sweep:

- The norm comes from the Gram matrices, as far as they are known (`linspec.algebra.inverse_norm`,
  `linspec.families.cca.law.evidence`).
- A second block is multiplied together with the weights. It holds S⁻¹ϱ if the solver knows its residuals beforehand,
  and random columns, or the identity if a view has few columns. The canonical pairs within the weights and this block
  (Rayleigh-Ritz) have a sum that is at most the exact one, so their gain is a lower bound on the loss. Their components
  outside the answer give γⱼ and eᵢⱼ.
- Squares in a Gram matrix lose digits, so that short directions may be cut as null. One product with these directions
  shows whether their images are more than rounding. If so, they are lost, and the solution counts as not converged.

Source: Golub & Meurant 1994 for the norm; Parlett 1998, The symmetric eigenvalue problem, sections 10 and 11, for
residual and gap; Mathias 1998, doi:10.1137/S089547989631536X, for the quadratic bound if completeness is proved.
Where we differ: the next correlation need not be known. The gap is measured to the correlations along the residuals
themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from linspec.algebra.inverse_norm import BasisNorm, FactorNorm, InverseNorm, Lengths, QuadratureNorm
from linspec.algebra.small_matrices import EPS, raised, ratio
from linspec.algebra.unit_vectors import selection_matrix
from linspec.algebra.whitener import has_short_directions
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.families.cca.law.answer import CERTIFIED_SHARE, Answer, unit_columns
from linspec.families.cca.law.evidence import SECOND, Evidence
from linspec.moments.moments import Moments
from linspec.moments.row_reduction import sum_with_short
from linspec.process.plurals import count_of
from linspec.solving.adjusting import fields_of_adjustments
from linspec.solving.conclusion import Conclusion, Terms, left_out_nearby
from linspec.status import Status

DEGENERATE = 1e-8
"""A correlation within this distance of 1 is reported as 1; for float32 data, a correlation within the rounding of the
data."""

UNRESOLVED = 1e-4
"""A correlation is also reported as 1 if 1 minus the correlation is at most three times the squared length of its
residual, but only if this difference is at most this number."""

TOLERATED = 10.0
"""An estimated loss is reported if it is above the tolerance and above this factor times the residual.

Other findings compare a missing part or an error with this factor times the residual or the tolerance.
"""

LIKELY = 2.5
"""Factor in place of `TOLERATED` if the loss is estimated only from the gain that the iteration still expects.

The loss was up to four times the expected gain, so a gain of 2.5 residuals may be a loss of 10 residuals.
"""

SQUARED = 1e-6
"""The error that squaring in a Gram matrix causes in a correlation is reported only if it is above this number."""

BESIDE = {8: 1e-8, 4: 1e-4}
"""For each size of a number in bytes, the limit below which directions of the second block count as dependent.

The columns of the second block are scaled to length 1 in the metric S, and their projections on the weights are
subtracted. A combination of the differences with a unit vector of coefficients is dropped if its squared length is at
most this.
"""

SMALL_FLOPS = 2e8
"""If p·q·(p + q) is at most this number, and both Gram matrices are factored, all correlations are computed from the
factors. That takes a fraction of a second."""

EXPLAINED = 0.01
"""S⁻¹ϱ is left out of the second block if the residuals bound the loss by this fraction of the tolerance."""

STEPS = 3
"""Number of power steps on the second block if Gram matrices are held."""


def judged(
    problem: Any,
    moments: Moments,
    terms: Terms,
    weights: list[Array],
    correlations: HostArray | None,
    ranks: tuple[int, int] | None,
    evidence: Evidence,
) -> Conclusion:
    """Compute the solution from the weights that a solver passes, with its residual, bounds and findings.

    Parameters
    ----------
    problem : CCA
    moments : Moments
        The moments of X and Y.
    terms : Terms
        The tolerance, and the number of sweeps that are left.
    weights : list of arrays of shapes (p, m) and (q, m)
    correlations : numpy.ndarray of shape (m,), optional
        The correlations of the pairs of columns, if the weights are canonical pairs already. Without them, the weights
        are rotated to the canonical pairs in their spans.
    ranks : pair of int, optional
        The numerical ranks of X and Y, if the solver knows them.
    evidence : Evidence
        Further facts that the solver knows, such as norms and residuals.

    Returns
    -------
    Conclusion
        The fields of a `CCASolution` with at most k pairs, its residual, and findings. `lost` is set if directions or
        pairs are known to be missing.
    """
    answer = Answer(problem, moments, weights, evidence, terms.passes_left)
    carried = evidence.carried
    if correlations is None:
        every = answer.turn_canonical()
        if answer.unsettled:
            answer.drop_null_parts()
            every = answer.turn_canonical()
        carried = float(every[-1]) if carried is None and len(every) > problem.k else carried
        rho = every[: problem.k]
    else:
        given = np.clip(np.asarray(to_host(correlations), dtype=np.float64), 0.0, 1.0)
        order = np.argsort(-given, kind="stable")[: problem.k]
        rho = given[order]
        answer.turn([selection_matrix(len(given), order)] * 2)
    answer.make_unit()
    rho = rho * answer.present()
    if answer.reduced is not None:
        # The products of reduced rows are more accurate than those that rotated the weights, and cost no sweep.
        answer.made = None
        rho = answer.turn_canonical()
        answer.make_unit()
    law = _Law(problem, moments, terms, answer, rho, carried)
    return law.conclusion(ranks)


@dataclass(frozen=True, eq=False)
class _Beside:
    """Canonical pairs within the span of two blocks for each view: the weights of the answer, and a second block.

    The second block holds further columns, such as S⁻¹ϱ and random columns. k is the number of pairs of the answer.

    Attributes
    ----------
    total : float
        The sum of the k largest correlations within the span of both blocks.
    along : numpy.ndarray of shape (m,)
        The correlations of the m pairs in the part of the span that is S-orthogonal to the weights, decreasing.
    parts : pair of numpy.ndarray of shape (m, k)
        For each view the components of the k residuals of the answer along these m pairs.
    whole : bool
        Whether the span is the whole space, so that `total` is the exact sum.
    rounding : float
        The error of `total` by rounding.
    every : float
        The sum of the `problem.k` largest correlations within the span. It is more than `total` if the answer has fewer
        than `problem.k` pairs.
    rest : numpy.ndarray of shape (k,), optional
        Half the squared lengths of what remains of the residuals ϱᵢ of the answer if (ρᵢS − [0, C; Cᵀ, 0]) e = ϱᵢ is
        solved for e within the second block (Galerkin), S = diag(Sx, Sy). What remains is ϱᵢ minus the left side.
        Lengths are in the norm of S⁻¹. None if the second block does not hold S⁻¹ϱ.
    """

    total: float
    along: HostArray
    parts: tuple[HostArray, HostArray]
    whole: bool
    rounding: float
    every: float = 0.0
    rest: HostArray | None = None


class _Law:
    """Residual, bounds, loss and findings of an answer, computed from its products and norms."""

    def __init__(
        self,
        problem: Any,
        moments: Moments,
        terms: Terms,
        answer: Answer,
        rho: HostArray,
        carried: float | None,
    ) -> None:
        self.problem, self.moments, self.terms, self.answer = problem, moments, terms, answer
        self.rho, self.carried, self.evidence = rho, carried, answer.evidence
        self.home: Home = moments.home
        assert answer.made is not None and answer.norms is not None  # noqa: S101, PT018
        Sphi, Spsi, Cpsi, Ctphi = answer.made
        r = self.home.place(rho)[None, :]
        self.gaps = [Cpsi - Sphi * r, Ctphi - Spsi * r]
        self.norms = answer.norms
        self.solved: list[Array | None] = [None, None]
        self.sides: list[Lengths] = []
        self.unit = float(np.finfo(problem.dtype).eps)
        self.shift = self._shift()
        self.rounding = self._rounding()

    def conclusion(self, ranks: tuple[int, int] | None) -> Conclusion:
        """Compute the conclusion: fields of the solution, residual and findings."""
        sides = self.sides = self._sides()
        squares = sides[0].squares + sides[1].squares
        below, above = (sides[0].below + sides[1].below), (sides[0].above + sides[1].above)
        noise, lost = self.rounding, self._lost()
        unseen = bool(
            self.terms.underflowing or self.moments.columns.underflowing
        )  # columns whose squares underflow
        if lost or unseen or any(basis.short.shape[1] for basis in self.answer.bases):
            above = np.full_like(above, np.inf)  # cut directions and underflowing squares have no bound
        below = np.maximum(np.sqrt(below) - noise, 0.0) ** 2
        above = (np.sqrt(above) + noise) ** 2
        total = float(self.rho.sum())
        residual = ratio(float(squares.sum()), total)
        self.explained = self._explains(squares)
        estimate, bounds, findings = self._loss(squares, above, residual)
        findings += self._squared()
        if self.answer.bases and ranks is not None:
            ranks, found = self._ranks_of_rows(ranks)
            findings += found if residual > self.terms.tol else []
        fields: dict[str, Any] = {
            "x_weights": self.problem.X.home.place(self.answer.W[0], self.problem.X.dtype),
            "y_weights": self.problem.Y.home.place(self.answer.W[1], self.problem.Y.dtype),
            "correlations": self.rho,
            "residuals": squares,
            "ranks": ranks,
            "bounds": None if unseen else self._bounds(above),
            "law_bounds": (ratio(float(below.sum()), total), ratio(float(above.sum()), total)),
            "loss_estimate": estimate,
            "loss_bounds": (-math.inf, None) if unseen else bounds,
            **self.answer.regressions(),
        }
        fields |= fields_of_adjustments(self.problem, self.moments)
        facts = facts_of(self.problem, self.rho, squares, ranks, self.moments.diagonal())
        kinds = [norm.kind for norm in self.norms]
        kind = next(kind for kind in ("preconditioned", "quadrature", "exact") if kind in kinds)
        if kind != "exact":
            findings += self.evidence.doubts
        few = any(status is Status.INCOMPLETE for status, _ in findings) and len(self.rho) < self.problem.k
        return Conclusion(fields, residual, (*lost, *findings, *facts), kind, lost=bool(lost) or few)

    # ---- the norm -----------------------------------------------------------------------------

    def _sides(self) -> list[Lengths]:
        """Squared lengths of the residuals of both views, with bounds."""
        found = []
        for i, (norm, gap) in enumerate(zip(self.norms, self.gaps, strict=True)):
            if isinstance(norm, QuadratureNorm):  # its iteration also computes S⁻¹ϱ
                self.solved[i], lengths = norm.solved(gap)
                found.append(lengths)
                continue
            Z = self.answer.beside[i] if self.answer.beside else None
            SZ = self.answer.beside_made[i] if self.answer.beside else None
            found.append(norm.lengths(gap, Z, SZ))
        return found

    def _shift(self) -> float:
        """Largest ratio of what is subtracted from a column to what remains, by which rounding is magnified."""
        worst = 1.0
        for i, d in enumerate(self.moments.diagonal()):
            squares = self.moments.columns.squares_subtracted(i)
            if squares is None:
                continue
            of_mean, spread = to_host(squares), to_host(d)
            live = spread > 0
            worst = max(worst, float(np.max(of_mean[live] / spread[live], initial=0.0)))
        return math.sqrt(worst)

    def _rounding(self) -> float:
        """The error of a correlation, or the length of a residual, that rounding alone may cause.

        If products are made with the rows of X and Y, the error grows with the condition number of X or Y. If Gram
        matrices are held or factored, the error grows with the square of this condition number.
        """
        condition, subtracted = 1.0, 0.0
        sides = zip(self.norms, self.answer.W, self.answer.diagonals(), strict=True)
        for i, (norm, W, d) in enumerate(sides):
            # An inexact norm gives a rough condition number, so the lengths of the answer's weights are used.
            scaled = W * self.home.xp.sqrt(d)[:, None]  # squares of weights of short columns may overflow
            met = to_host(self.home.xp.sum(scaled * scaled, axis=0)).max(initial=1.0)
            exact = isinstance(norm, FactorNorm | BasisNorm)
            own = norm.condition if exact else float(met)
            condition = max(condition, own)
            subtracted = max(subtracted, math.sqrt(own) * self._taken(i, W, d))
        squared = self.answer.reduced is None and (
            self.moments.held or any(isinstance(norm, FactorNorm) for norm in self.norms)
        )
        lost = condition if squared else math.sqrt(condition)
        columns = sum(A.shape[1] for A in self._views())
        of_products = 4 * math.sqrt(columns) * max(self.shift * lost, subtracted)
        of_sums = self.answer.unit_of_sums * max(of_products, self.answer.cancelled)
        return min(max(of_sums, 4 * self._subtracted()), 1.0)  # an estimate

    def _taken(self, i: int, W: Array, d: Array) -> float:
        """The size of the part that is subtracted from the products AᵀAW of view i to centre it and remove confounds.

        d is the diagonal of S. With t the squared lengths that are subtracted from the columns of A, the size is the
        root of max(t / d) times the largest Σⱼ tⱼWⱼ² of a column of W. It is 0 if nothing is subtracted from products.
        The caller multiplies it by the root of the condition number of S, which magnifies its rounding.
        """
        taken = self.moments.columns.squares_subtracted(i)
        if taken is None or self.moments.columns.centring_error(i) == 0:
            return 0.0
        xp = self.home.xp
        with np.errstate(over="ignore"):  # weights that are only rounding may be huge
            scaled = W * xp.sqrt(taken)[:, None]
            lengths = to_host(xp.sum(scaled * scaled, axis=0)).max(initial=0.0)
        share = to_host(taken / xp.where(d > 0, d, xp.ones_like(d)))[to_host(d) > 0].max(initial=0.0)
        return math.sqrt(float(lengths) * float(share))

    def _subtracted(self) -> float:
        """The error of a correlation caused by centring and confounds in factored Gram matrices."""
        return max(self._condition(i) * self.moments.columns.centring_error(i) for i in (0, 1))

    def _condition(self, i: int) -> float:
        """The condition number of the Gram matrix of view i if it was factored, else 0."""
        norm = self.norms[i]
        return norm.factor.condition if isinstance(norm, FactorNorm) else 0.0

    def _bounds(self, above: HostArray) -> HostArray | None:
        """For each pair a distance within which there is an exact correlation; None if a pair has no such bound.

        The distance is ‖ϱᵢ‖/√2 in the norm of S⁻¹. `above` holds upper bounds of ‖ϱᵢ‖², infinite where the norm gives
        none. If both ridges are positive, the squared Euclidean length of ϱᵢ divided by the smaller ridge is another
        upper bound, because S is at least this ridge. The smaller bound is used.

        ‖ϱᵢ‖/√2 bounds the distance from ρᵢ to an eigenvalue of [0 C; Cᵀ 0] in the metric S. The eigenvalues are the
        correlations with both signs, and zeros if the views have different numbers of columns. If zero is within the
        distance, the eigenvalue may be such a zero. Then the distance is widened until it covers 0 to 1.
        """
        found = above
        ridge = min(self.problem.ridge)
        if ridge > 0:
            plain = sum(to_host(self.home.xp.sum(g * g, axis=0)) for g in self.gaps)
            found = np.minimum(found, (np.sqrt(plain / ridge) + self.rounding) ** 2)
        if not np.isfinite(found).all():
            return None
        within = np.sqrt(found / 2)
        if self.answer.W[0].shape[0] != self.answer.W[1].shape[0]:
            unknown = np.maximum(self.rho, 1 - self.rho)
            within = np.where(within < self.rho, within, np.maximum(within, unknown))
        return within

    def _resolution(self) -> float:
        """The error of a correlation, for solvers that compute all of them."""
        assert self.evidence.resolution is not None  # noqa: S101
        known = [norm.condition for norm in self.norms if isinstance(norm, FactorNorm | BasisNorm)]
        return max(self.evidence.resolution * self.shift, self._cancelled() * max(known, default=1.0))

    def _cancelled(self) -> float:
        """The relative error of held Gram matrices caused by centring and confounds."""
        held = self.moments.held and self.answer.reduced is None and not self.answer.bases
        return self.moments.columns.centring_error() if held else 0.0

    # ---- the loss -----------------------------------------------------------------------------

    def _loss(
        self, squares: HostArray, above: HostArray, residual: float
    ) -> tuple[float | None, tuple[float, float | None], list[tuple[Status, str]]]:
        """Compute an estimate of the relative loss, its lower and upper bound, and findings about missing pairs.

        The estimate is None if the left-out correlations are unknown. The upper bound is None if none is proved.
        """
        total = float(self.rho.sum())
        beside = self._beside()
        more = 0.0 if beside is None else beside.every - beside.rounding - total
        if len(self.rho) < self.problem.k and more > TOLERATED * self.terms.tol * total:
            text = f"The answer has {count_of(len(self.rho), 'pair')}; "
            text += f"others have {more:.1e} in the sum of the correlations. "
            return (
                None,
                (0.0, None),
                [(Status.INCOMPLETE, text + 'Choose "direct" or "gram", which miss none.')],
            )
        if total <= 0:
            return (0.0 if residual == 0 else None), (0.0, None), []
        off = len(self.rho) * self.rounding  # the returned sum may be above the exact one by this amount
        computed = self.evidence.resolution is not None and self.answer.reduced is None
        if computed:
            off = max(off, len(self.rho) * self._resolution())
        least = max(total - off, 0.0 if beside is None else beside.total - beside.rounding)
        lower = (least - total) / least if least > 0 else -math.inf
        upper = self._upper(beside, above)
        estimate = self._estimate(squares, beside, max(lower, 0.0))
        # Near each returned correlation there is an exact one. A loss above these distances comes from missed pairs.
        within = float(np.sqrt(squares / 2).sum()) / total
        expected_gain = self.evidence.expected_gain if math.isfinite(self.evidence.expected_gain) else 0.0
        whole = beside is not None and beside.whole
        if estimate is not None and self.carried is None and not whole:
            estimate = max(
                estimate, min(expected_gain, within)
            )  # only the gains indicate how near the left-out correlations are
        sure = whole or self.carried is not None
        findings: list[tuple[Status, str]] = []
        if self.evidence.resolution is not None and lower > max(self.terms.tol, residual):
            text = f"The correlations that the Gram matrices have together are {lower:.1e} more in their sum than "
            text += 'those returned: rounding of the Gram matrices. Choose "direct", or add a ridge.'
            findings.append((Status.ILL_CONDITIONED, text))
        if computed:  # all correlations were computed, so only rounding can be missing
            return max(estimate or 0.0, off / total), (lower, upper), findings
        if lower > TOLERATED * max(residual, within, self.unit):
            text = f"Pairs are missing: a second block has {lower:.1e} more in the sum of the correlations, which the "
            text += 'residual does not explain. Choose "direct" or "gram", which miss none, or other options.'
            findings.append((Status.INCOMPLETE, text))
        elif residual <= self.terms.tol and estimate is None and within > TOLERATED * self.terms.tol:
            text = "The gap between the correlations returned and those left out is unknown: nothing shows that less "
            text += f"than {within:.1e} of the sum is missing. Choose a solver that carries more columns than pairs."
            findings.append((Status.CLUSTERED, text))
        elif residual <= self.terms.tol and (estimate or 0.0) > max(
            self.terms.tol, (TOLERATED if sure else LIKELY) * residual, off / total
        ):
            assert estimate is not None  # noqa: S101  # it is above tol
            findings.append(left_out_nearby(estimate, residual))
        if estimate is not None:
            exact = all(norm.kind == "exact" for norm in self.norms)
            estimate = max(estimate, off / total, 0.0 if exact else expected_gain)
        return estimate, (lower, upper), findings

    def _estimate(self, squares: HostArray, beside: _Beside | None, lower: float) -> float | None:
        """The relative loss to second order in the residuals; None if the left-out correlations are unknown."""
        total = float(self.rho.sum())
        if beside is not None and beside.whole and beside.rounding <= self.terms.tol * total:
            return max(beside.total - total, 0.0) / max(beside.total, total)
        known = [] if self.carried is None else [self.carried]
        left = squares / 2
        found = np.zeros_like(self.rho)
        if beside is not None and (beside.whole or (len(beside.along) and self._along_residuals)):
            for sign in (1.0, -1.0):
                e = (beside.parts[0] + sign * beside.parts[1]) / 2
                gap = self.rho[None, :] - sign * beside.along[:, None]
                found = found + raised(gap, e**2).sum(axis=0)
                left = left - (e**2).sum(axis=0)
            known.append(0.0)
        if not known and not self._leaves_out:
            known.append(0.0)  # directions of the wider view that have no correlation
        if not known:
            return lower or None
        if beside is not None and beside.rest is not None and self.carried is not None:
            # At worst, the residuals of the Galerkin solutions belong to the smallest correlation in the block.
            rest = np.minimum(beside.rest, squares / 2)
            estimate = float((found + raised(self.rho - self.carried, rest)).sum())
            return max(estimate / total, lower)
        by_parts = found + raised(self.rho - max(known), np.maximum(left, 0.0))
        estimate = float(by_parts.sum())
        if self.carried is not None:
            estimate = max(estimate, float(raised(self.rho - self.carried, squares / 2).sum()))
        return max(estimate / total, lower)

    def _explains(self, squares: HostArray) -> bool:
        """Whether the residuals show that the loss is at most `EXPLAINED` times the tolerance.

        The loss is bounded by the residuals and by the gaps between the correlations of the answer and `carried`, the
        smallest correlation that the solver has computed beyond the k-th. False if `carried` is unknown, or if Gram
        matrices are not held.
        """
        if self.carried is None or not self.moments.held:
            return False
        worst = float(raised(self.rho - self.carried, squares / 2).sum())
        return worst <= EXPLAINED * self.terms.tol * float(self.rho.sum())

    @property
    def _leaves_out(self) -> bool:
        """Whether the answer has fewer pairs than the narrower view has columns."""
        return len(self.rho) < min(int(A.shape[1]) for A in self._views())

    @property
    def _along_residuals(self) -> bool:
        """Whether the second block holds S⁻¹ϱ, at least approximately."""
        return not self.explained and (self.answer.formed or self.evidence.residuals is not None)

    def _upper(self, beside: _Beside | None, above: HostArray) -> float | None:
        """An upper bound on the relative loss; None unless it is proved that no pair is missed."""
        total, k = float(self.rho.sum()), len(self.rho)
        if k < self.problem.k or not np.isfinite(above).all():
            return None
        if self.evidence.resolution is not None and self.answer.reduced is None:
            off = k * self._resolution()
            return min(off / total + ratio(float(above.sum()), total), 1.0) if math.isfinite(off) else None
        if beside is not None and beside.whole:
            return min((max(beside.total - total, 0.0) + 2 * beside.rounding) / total, 1.0)
        if self.terms.complete:
            return self._by_inertia(above)
        return None

    def _by_inertia(self, above: HostArray) -> float | None:
        """Bound the relative loss from the number of exact correlations above a τ that is below ρ_k.

        This number is the number of negative eigenvalues of [[τSx, −C], [−Cᵀ, τSy]], by Sylvester's law of inertia.
        Let it be k, and let E be the components of the residuals outside the answer, with ‖E‖² = Σ‖ϱᵢ‖²/2. Then the
        left-out correlations are at most γ = τ + ‖E‖²/(ρ_k − τ), and the loss is at most ‖E‖²/(ρ_k − γ). Three
        values of τ are tried. None if the number is not k for any of them, if γ is not below ρ_k, or if the matrix
        cannot be formed with the memory and the sweeps that are left.
        """
        square, last = float(above.sum()) / 2, float(self.rho[-1])
        p, q = self.problem.X.shape[1], self.problem.Y.shape[1]
        if not self.moments.held and (self.terms.passes_left < 1 or not self.moments.columns.exact):
            return None
        if not math.isfinite(square) or 24.0 * (p + q) ** 2 > self.moments.home.free_memory() / 2:
            return None
        Sx, C, Sy = (to_host(S) for S in self.moments.dense() if S is not None)
        for width in (0.5, 0.1, 0.02):
            tau = last * (1 - width)
            gamma = tau + square / (last - tau)
            if gamma >= last:
                break
            M = np.block([[tau * (Sx + self.problem.ridge[0] * np.eye(p)), -C],
                          [-C.T, tau * (Sy + self.problem.ridge[1] * np.eye(q))]])  # fmt: skip
            scale = 1 / np.sqrt(np.maximum(np.diag(M), np.finfo(float).tiny))
            if _negative(M * np.outer(scale, scale)) == len(self.rho):
                return min(square / (last - gamma) / float(self.rho.sum()), 1.0)
        return None

    # ---- the second block ---------------------------------------------------------------------

    def _beside(self) -> _Beside | None:
        """Rayleigh-Ritz with the best second block at hand; None if there is none."""
        if self.answer.bases or self._factored():
            whole = self._whole()
            if whole is not None:
                return whole
        if self.answer.formed:
            return self._within(*self._second_blocks())
        if self.answer.beside and min(E.shape[1] for E in self.answer.beside):
            return self._within(self.answer.beside, self.answer.beside_made)
        return None

    def _factored(self) -> bool:
        return all(isinstance(norm, FactorNorm) for norm in self.norms)

    def _whole(self) -> _Beside | None:
        """Compute all canonical pairs, by an SVD of C in coordinates in which Sx and Sy are the identity.

        The coordinates come from orthonormal bases of the reduced rows (`Answer.bases`). Without these, they come from
        the factors of Sx and Sy. None if the computation with the factors is too expensive, or if X or Y has rank 0.
        """
        p, q = self.problem.X.shape[1], self.problem.Y.shape[1]
        spent = CERTIFIED_SHARE * sum(
            self.moments.bookkeeping.columns_made(i) * A.nnz for i, A in enumerate(self._views())
        )
        if self.answer.bases:
            T = to_host(self.answer.bases[0].U.T @ self.answer.bases[1].U)
        elif p * q * (p + q) > max(SMALL_FLOPS, 0.0 if self.moments.held else spent):
            return None
        else:
            x, y = (norm.factor for norm in self.norms if isinstance(norm, FactorNorm))
            T = to_host(x.solve(y.solve(self._cross().T).T))
        if not T.size:
            return None
        k = len(self.rho)
        if self.evidence.resolution is not None and self.answer.reduced is None:
            # The solver computed all correlations: their sum is checked, and the residuals are only rounding.
            values = np.linalg.svd(T, compute_uv=False)
            nothing = np.zeros((len(values[k:]), k))
            return self._complete(values, (nothing, nothing))
        U, rho, Vt = np.linalg.svd(T, full_matrices=False)
        parts = [
            to_host(norm.coordinates(gap))
            for norm, gap in zip(self.norms, self.gaps, strict=True)
            if isinstance(norm, FactorNorm | BasisNorm)
        ]
        along = (U.T @ parts[0], Vt @ parts[1])
        return self._complete(rho, (along[0][k:], along[1][k:]))

    def _complete(self, rho: HostArray, parts: tuple[HostArray, HostArray]) -> _Beside:
        """Make a `_Beside` with `whole` set, from all correlations of the problem.

        `rho` holds the correlations in decreasing order. `parts` holds, for each view, the components of the residuals
        along the pairs that are not returned.
        """
        k, (p, q) = len(self.rho), (A.shape[1] for A in self._views())
        total, every = (float(np.clip(rho[:m], 0.0, 1.0).sum()) for m in (k, self.problem.k))
        condition = max(norm.condition for norm in self.norms)
        lost = math.sqrt(condition) if self.answer.bases else condition
        of_sums = 4 * self.answer.unit_of_sums * self.shift * math.sqrt(p + q)
        rounding = k * max(max(of_sums, self._cancelled()) * lost, 4 * self._subtracted())
        return _Beside(total, rho[k:], parts, whole=True, rounding=rounding, every=every)

    def _cross(self) -> Array:
        """C, held or known from its product with the identity."""
        q = self.problem.Y.shape[1]
        if self.moments.form == "dense":
            return self.moments.dense()[1]
        if self.moments.form == "sparse":
            return self.moments.cross(self.home.eye(q))
        of_y = self.answer.beside_made[2]
        return of_y[:, of_y.shape[1] - q :]

    def _second_blocks(self) -> tuple[list[Array], list[Array]]:
        """Compute second blocks by a few power steps on S⁻¹ϱ and random columns, with known Gram matrices.

        The columns S⁻¹ϱ contain the errors of the answer. They are left out if the residuals already show that the loss
        is small enough (`_explains`). Random columns find pairs outside the answer. Returned are the blocks
        [Vx, Vy] and their products [SxVx, SyVy, CVy, CᵀVx].
        """
        home = self.home
        x, y = (
            unit_columns((norm.solve(gap) if Z is None else Z)[:, : 0 if self.explained else None], home)
            for norm, gap, Z in zip(self.norms, self.gaps, self.solved, strict=True)
        )
        b = min(SECOND, *(A.shape[1] for A in self._views()))
        drawn = np.random.default_rng(2).standard_normal((self.problem.Y.shape[1], b))
        y = home.concat([y, unit_columns(home.place(drawn), home)])
        blocks, made = ([x], [y]), ([self.answer.product(0, x)], [self.answer.product(1, y)])
        for _ in range(STEPS):
            for i in (0, 1):
                V = self._outside(i, _towards(self.norms[i], made[1 - i][-1][1]))
                blocks[i].append(V)
                made[i].append(self.answer.product(i, V))
        Sx, Sy = (home.concat([S for S, _ in products]) for products in made)
        CVy, CtVx = (home.concat([C for _, C in products]) for products in reversed(made))
        return [home.concat(side) for side in blocks], [Sx, Sy, CVy, CtVx]

    def _outside(self, i: int, V: Array) -> Array:
        """Subtract from V its part in the span of the weights W of view i, so that the difference is S-orthogonal to W.

        The columns of the difference are scaled to Euclidean length 1.
        """
        assert self.answer.made is not None  # noqa: S101
        W, SW = self.answer.W[i], self.answer.made[i]
        return unit_columns(V - W @ (SW.T @ V), self.home)

    def _within(self, E: list[Array], made: list[Array]) -> _Beside | None:
        """Rayleigh-Ritz within the span of answer and second block E; None if E adds no direction."""
        W, k = self.answer.W, len(self.rho)
        assert self.answer.made is not None  # noqa: S101
        Sphi, Spsi, Cpsi, _ = self.answer.made
        SEx, SEy, CEy, _ = made
        turns, parts_in, kept = [], [], 1.0
        for w, SW, e, SE in ((W[0], Sphi, E[0], SEx), (W[1], Spsi, E[1], SEy)):
            inside = to_host(SW.T @ e)
            G = to_host(e.T @ SE)
            lengths = np.sqrt(np.maximum(np.diag(G), 0.0))
            scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
            inside, G = inside * scale, G * np.outer(scale, scale)
            G = G - inside.T @ to_host(w.T @ SW) @ inside
            values, vectors = np.linalg.eigh((G + G.T) / 2)
            own = values > BESIDE[self.problem.dtype.itemsize]
            if not own.any():
                return None
            kept = min(kept, float(values[own].min()))
            turn = vectors[:, own] / np.sqrt(values[own])
            turns.append(scale[:, None] * turn)
            parts_in.append(inside @ turn)
        (Tx, Ty), (Ix, Iy) = turns, parts_in
        WCW, WCE = to_host(W[0].T @ Cpsi), to_host(W[0].T @ CEy) @ Ty
        ECW, ECE = Tx.T @ to_host(E[0].T @ Cpsi), Tx.T @ to_host(E[0].T @ CEy) @ Ty
        right, left = WCE - WCW @ Iy, ECW - Ix.T @ WCW
        outer = ECE - Ix.T @ WCE - ECW @ Iy + Ix.T @ WCW @ Iy
        U, along, Vt = np.linalg.svd(outer)
        found = np.linalg.svd(np.block([[WCW, right], [left, outer]]), compute_uv=False)
        subtracted = 0.0 if self.answer.reduced is not None else self.moments.columns.centring_error()
        rounding = k * max(100 * self.answer.unit_of_sums, subtracted) / kept
        total, every = (float(np.clip(found[:j], 0.0, 1.0).sum()) for j in (k, self.problem.k))
        m = len(along)
        parts = U.T[:m] @ left, (right @ Vt.T[:, :m]).T
        rest = None
        if self._along_residuals:
            bases = ((Tx @ U[:, :m], Ix @ U[:, :m]), (Ty @ Vt.T[:, :m], Iy @ Vt.T[:, :m]))
            rest = self._rest(along, parts, bases, E, made)
        return _Beside(total, along, parts, whole=False, rounding=rounding, every=every, rest=rest)

    def _rest(
        self,
        along: HostArray,
        parts: tuple[HostArray, HostArray],
        bases: tuple[tuple[HostArray, HostArray], tuple[HostArray, HostArray]],
        E: list[Array],
        made: list[Array],
    ) -> HostArray:
        """Half the squared lengths of what remains of the residuals ϱᵢ, in the norm of S⁻¹: `_Beside.rest`.

        (ρᵢS − [0, C; Cᵀ, 0]) e = ϱᵢ is solved for e within the second block E (Galerkin). What remains is the right
        side minus the left side, without the components along the weights of the answer.
        """
        home, rho = self.home, self.rho[None, :]
        gamma = along[:, None]
        det = rho**2 - gamma**2
        inverse = np.divide(1.0, det, out=np.zeros_like(det), where=det > EPS)  # otherwise pairs are missing
        z = (rho * parts[0] + gamma * parts[1]) * inverse, (rho * parts[1] + gamma * parts[0]) * inverse
        (ex, wx), (ey, wy) = (
            tuple(home.place(T @ c) for T in basis) for basis, c in zip(bases, z, strict=True)
        )
        assert self.answer.made is not None  # noqa: S101
        Sphi, Spsi, Cpsi, Ctphi = self.answer.made
        SEx, SEy, CEy, CtEx = made
        r = home.place(rho)
        left = [
            self.gaps[0] - (SEx @ ex - Sphi @ wx) * r + (CEy @ ey - Cpsi @ wy),
            self.gaps[1] - (SEy @ ey - Spsi @ wy) * r + (CtEx @ ex - Ctphi @ wx),
        ]
        total = np.zeros(len(self.rho))
        for i, (norm, rest, Sw) in enumerate(zip(self.norms, left, (Sphi, Spsi), strict=True)):
            outside = rest - Sw @ (self.answer.W[i].T @ rest)
            if isinstance(norm, QuadratureNorm):
                # Another iteration would cost as much as the first: assume that P has the same error as for the gap.
                ours, whole = (
                    to_host(home.xp.sum(V * norm.P.solve(V + 0.0), axis=0)) for V in (outside, self.gaps[i])
                )
                share = np.divide(ours, whole, out=np.zeros_like(ours), where=whole > 0)
                total += share * self.sides[i].squares
            else:
                total += norm.squares(outside)
        return total / 2

    # ---- directions lost by squaring ----------------------------------------------------------

    def _lost(self) -> list[tuple[Status, str]]:
        """Findings about directions v that the factor of a Gram matrix has cut as null.

        There is a finding if Xv (or Yv) is longer than rounding, or if no sweep is left to multiply v by X (or Y).
        """
        if not self._factored():
            return self._lost_of_rows()
        found = []
        for i, (name, norm) in enumerate(zip("XY", self.norms, strict=True)):
            if not isinstance(norm, FactorNorm) or norm.factor.cut is None:
                continue
            count = int(norm.factor.cut.shape[1])
            if self.terms.passes_left < 1:
                text = f"{name} has {count_of(count, 'direction')} so short that its Gram matrix cannot tell them from "
                text += (
                    'null directions; another pass can. Raise max_passes, choose "direct", or add a ridge.'
                )
                found.append((Status.ILL_CONDITIONED, text))
            elif has_short_directions(self.moments, i, norm.factor):
                text = (
                    f"{name} has directions that are too short for its Gram matrix. They were left out, and "
                )
                text += 'correlations may be missing. Choose "direct", or add a ridge.'
                found.append((Status.ILL_CONDITIONED, text))
        return found

    def _lost_of_rows(self) -> list[tuple[Status, str]]:
        """Return a finding if short directions were cut although they increase the sum of the leading correlations.

        This check is for views without factors of their Gram matrices. The sum with the short directions is computed
        from the rows as `Answer` has reduced them by orthogonal transformations. If they are not reduced, the solver
        may have passed the sum (`Evidence.short`). There is a finding if the sum with the short directions exceeds the
        sum without them by more than the fraction 10 tol of the sum without them.
        """
        total, bases = float(self.rho.sum()), self.answer.bases
        more = sum_with_short(bases[0], bases[1], len(self.rho), self.home) if bases else self.evidence.short
        if more is None or more - total <= TOLERATED * self.terms.tol * total:
            return []
        text = "Directions of X or of Y that are short enough to be rounding were left out. With them, the sum of the "
        text += f"correlations would be {more:.6g} and not {total:.6g}. Add a ridge, or take other units."
        return [(Status.ILL_CONDITIONED, text)]

    def _ranks_of_rows(self, ranks: tuple[int, int]) -> tuple[tuple[int, int], list[tuple[Status, str]]]:
        """The ranks of X and Y from the reduced rows, and a finding if a rank from the Gram matrices is lower.

        `ranks` are the ranks from the Gram matrices. The list of findings is empty if neither is lower.
        """
        x, y = (basis.rank for basis in self.answer.bases)
        short = [name for name, rank, rows in zip("XY", ranks, (x, y), strict=True) if rank < rows]
        text = (
            f"Directions of {' and '.join(short)} are too short for a Gram matrix. They were left out, and "
        )
        text += 'correlations are missing. Choose "direct", or add a ridge.'
        return (x, y), [(Status.ILL_CONDITIONED, text)] if short else []

    def _squared(self) -> list[tuple[Status, str]]:
        """Findings about Gram matrices so ill-conditioned that the residual does not show the loss of digits."""
        found = []
        for i, name in enumerate("XY"):
            condition = self._condition(i)
            off = condition * max(self.answer.unit_of_sums, self.moments.columns.centring_error(i))
            if off > max(TOLERATED * self.terms.tol, SQUARED):
                text = f"The Gram matrix of {name} has condition number {condition:.0e}: correlations may "
                text += (
                    f'be off by {off:.0e}, which the residual does not show. Choose "direct", or add a ridge.'
                )
                found.append((Status.ILL_CONDITIONED, text))
        return found

    def _views(self) -> tuple[Any, Any]:
        return self.problem.X, self.problem.Y


def _towards(norm: InverseNorm, R: Array) -> Array:
    """Multiply the block R by S⁻¹, where S is the Gram matrix of `norm`, ridge included.

    If only an iteration can solve with S (`QuadratureNorm`), R is multiplied by the inverse of the preconditioner of S.
    """
    return norm.P.solve(R + 0.0) if isinstance(norm, QuadratureNorm) else norm.solve(R)


def _negative(M: HostArray) -> int:
    """The number of negative eigenvalues of a symmetric matrix, by Sylvester's law from its LDLᵀ factors."""
    _, D, _ = scipy.linalg.ldl(M, overwrite_a=True)
    off = np.diag(D, -1)
    count, i = 0, 0
    while i < len(D):
        if i < len(off) and off[i] != 0:
            count += 1  # a block of order two has one negative and one positive eigenvalue
            i += 2
        else:
            count += bool(D[i, i] < 0)
            i += 1
    return count


def facts_of(
    problem: Any,
    rho: HostArray,
    errors: HostArray,
    ranks: tuple[int, int] | None,
    diagonal: tuple[Array, Array | None],
) -> tuple[tuple[Status, str], ...]:
    """Findings about the data that follow from an answer: ranks, and correlations of 1.

    Parameters
    ----------
    problem : CCA
    rho, errors : numpy.ndarray of shape (m,)
        The correlations ρᵢ, and the squared lengths ‖ϱᵢ‖² of their residuals in the norm of S⁻¹.
    ranks : pair of int, optional
        The numerical ranks of X and Y, if they are known.
    diagonal : pair of arrays
        The diagonals of XᵀX and YᵀY.

    Returns
    -------
    tuple of (Status, str)
        RANK_DEFICIENT if there are fewer than k pairs, or if a view without a ridge has dependent columns; DEGENERATE
        if correlations are 1.
    """
    found: list[tuple[Status, str]] = []
    if len(rho) < problem.k and not problem.every:
        text = f"{len(rho)} of the {problem.k} asked for are returned: the numerical ranks of the views allow no more "
        found.append((Status.RANK_DEFICIENT, text + "canonical pairs."))
    facts: list[tuple[Status, str]] = []
    names = (("X", problem.X.shape[1], problem.ridge[0]), ("Y", problem.Y.shape[1], problem.ridge[1]))
    for (name, columns, ridge), rank in zip(names, ranks or (), strict=False):
        if ridge == 0 and rank < columns:
            facts.append((Status.RANK_DEFICIENT, f"{name} has numerical rank {rank} of {columns} columns."))
    # A correlation also counts as 1 if its residual does not distinguish it from 1.
    rounding = 100 * float(np.finfo(problem.dtype).eps) if problem.single else DEGENERATE
    ones = int(np.sum(1 - rho <= np.maximum(rounding, np.minimum(3 * errors, UNRESOLVED))))
    if ones:
        least = "at least " if ones == problem.k else ""
        text = f"{ones} of {count_of(len(rho), 'correlation')} {'is' if ones == 1 else 'are'} 1 within their errors: "
        text += f"the views share {least}{ones} "
        facts.append((Status.DEGENERATE, f"{text}direction{'s' * (ones > 1)} exactly."))
    if facts:
        means = [1e-6 * float(to_host(d).mean()) for d in diagonal if d is not None]
        alike = max(means) <= 10 * min(means)
        amount = f"{max(means):.1g}" if alike else f"({means[0]:.1g}, {means[1]:.1g})"
        remedy = f"A ridge of about {amount} or more moves pairs with large variance to the front; "
        remedy += "the score of other rows distinguishes them from chance."
        facts[-1] = (facts[-1][0], f"{facts[-1][1]} {remedy}")
    return (*found, *facts)
