"""Canonical correlations: the problem; its law is in `linspec.families.cca.law.judging`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from linspec.arrays import (
    Array,
    HostArray,
    largest_magnitude,
    to_host,
)
from linspec.families.cca.law.evidence import NO_EVIDENCE, Evidence
from linspec.families.cca.law.judging import judged
from linspec.families.cca.solution import CCASolution
from linspec.moments.moments import Moments
from linspec.solving import fields
from linspec.solving.adjusting import lost_to_centring
from linspec.solving.conclusion import DEFAULT_TERMS, Conclusion, Terms, without_answer
from linspec.solving.fields import count, flag, matrix
from linspec.solving.problem import Problem

LONGEST = 250
"""Largest binary exponent, with either sign, of the largest entry of weights for data in the permitted range.

Starting weights with an exponent beyond it are multiplied by a power of two that makes their largest entry about 1.
"""


@dataclass(frozen=True, eq=False, repr=False)
class CCA(Problem[CCASolution]):
    """The k leading canonical pairs of two views.

    With Sx = XᵀX + ridge·I, Sy likewise and C = XᵀY: the k leading singular values of
    Sx^(-1/2) C Sy^(-1/2) are the correlations, and the weights have unit length in Sx and Sy.

    Parameters
    ----------
    X : data of shape (n, p), or Moments
        Anything that `linspec.as_operator` accepts. Moments of two views replace both X and Y.
    Y : data of shape (n, q)
        The second view. Each view is multiplied in the dtype of its own data. If one view is float32 and the other
        float64, the solution has the precision of float32. Bools and integers are multiplied in float64 if the other
        view is float64.
    k : int, optional
        The number of pairs, at most min(n, p, q). The default is min(n, p, q) if that is at most 4096. If the
        numerical ranks of the views are lower, fewer pairs are returned.
    ridge : float or pair of floats, default 0.0
        The ridges, which are added to the unnormalised Gram matrices of X and Y. A penalty λ on XᵀX/n is a
        ridge of nλ.
    center : bool, default True
        Whether to centre the columns; sparse data stay sparse.
    scale : bool, default False
        Whether to divide each column by its root mean square after means and confounds are subtracted; with `center`
        this is its standard deviation.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column of both views, together with the means if
        `center`. Sparse data stay sparse.

    Notes
    -----
    Residual: Σ‖ϱᵢ‖² / Σρᵢ. The vector ϱᵢ has the two parts Cψᵢ − ρᵢ Sx φᵢ and Cᵀφᵢ − ρᵢ Sy ψᵢ. ‖ϱᵢ‖² is the squared
    length of the first part in the norm of Sx⁻¹ plus that of the second part in the norm of Sy⁻¹. This is the norm of
    S⁻¹ for the block diagonal matrix S = diag(Sx, Sy).

    Loss: let gᵢ be the gap, the difference between ρᵢ and the largest correlation that was left out. The sum of the
    returned correlations is then smaller than the exact sum by about Σ‖ϱᵢ‖²/(2gᵢ). `linspec.families.cca.law.judging`
    explains how the norm and the certificate are computed.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.standard_normal((1000, 2)) * [2.0, 1.0]
    >>> X = shared @ rng.standard_normal((2, 20)) + rng.standard_normal((1000, 20))
    >>> Y = shared @ rng.standard_normal((2, 15)) + rng.standard_normal((1000, 15))
    >>> problem = ls.CCA(X, Y, k=2, ridge=1.0)
    >>> solution = ls.solve(problem)
    >>> solution.correlations.round(3)
    array([0.988, 0.919])
    >>> solution.status
    <Status.CONVERGED: 'The residual of the returned arrays is at or below the tolerance.'>
    """

    X: Any = matrix("two views")
    Y: Any = matrix("two views")
    k: Any = count("canonical pairs", optional=True)
    ridge: Any = fields.ridge(
        each=True, help="Added to the diagonals of XᵀX and YᵀY, which are not divided by the number of rows."
    )
    center: bool = flag(True)
    scale: bool = flag(False, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)
    confounds: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "cca"
    proves_completeness: ClassVar[bool] = True
    held_out_scores: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "correlations": "linspec.families.cca.held_out:SumOfCorrelations",
            "tcc": "linspec.families.cca.held_out:TotalCaptured",
        }
    )

    @property
    def certificate_products(self) -> int:
        """The number of products with both views that the certificate takes.

        It is 1 for weights in float64. For weights in float32 it is 2: one product to rotate the weights, and one to
        compute the residual after the rotated weights are rounded to float32.
        """
        return 2 if self.single else 1

    def as_solved(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """The weights to start from; their lengths do not matter, so extremely large or small ones are rescaled."""
        found = super().as_solved(start)
        for name, W in found.items():
            exponent = math.frexp(largest_magnitude(W))[1]
            if abs(exponent) > LONGEST:
                found[name] = W * 2.0 ** max(min(-exponent, 1000), -1000)
        return found

    def conclude(  # type: ignore[override]
        self,
        moments: Moments,
        terms: Terms = DEFAULT_TERMS,
        *,
        x_weights: Array,
        y_weights: Array,
        correlations: HostArray | None = None,
        ranks: tuple[int, int] | None = None,
        evidence: Evidence = NO_EVIDENCE,
    ) -> Conclusion:
        """Make the fields of the solution from the weights of a solver, with residual, bounds and findings.

        The weights are rotated to the canonical pairs within their spans, unless `correlations` are passed. They are
        scaled to unit length in the metrics Sx and Sy. `judged` describes the arguments and the returned conclusion.
        """
        weights = [moments.home.place(x_weights), moments.home.place(y_weights)]
        found = judged(self, moments, terms, weights, correlations, ranks, evidence)
        findings = (*found.findings, *lost_to_centring(self, moments))
        unseen = bool(moments.columns.underflowing)
        found = dataclasses.replace(found, findings=findings, lost=found.lost or unseen)
        if not weights[0].shape[1] and not moments.bookkeeping.spent and not self._is_uncorrelated(moments):
            return without_answer(found, "the columns of X and Y are correlated")
        return found

    def _is_uncorrelated(self, moments: Moments) -> bool:
        """Whether XᵀY is zero up to rounding."""
        if moments.columns.vanishes(0) or moments.columns.vanishes(1):
            return True
        home = moments.home
        squares = [
            float(to_host(home.xp.sum(d))) + moments.columns.subtracted_from_products(i)
            for i, d in enumerate(moments.diagonal())
        ]
        unit = 10 * math.sqrt(self.X.shape[1] + self.Y.shape[1]) * float(np.finfo(self.dtype).eps)
        return home.norm(moments.products(cross=True).cross) <= unit * math.sqrt(squares[0] * squares[1])
