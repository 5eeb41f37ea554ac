"""The certificate of linear systems (AᵀDA + rI) x = AᵀDb: least squares and ridge, also for several b.

It is computed from x and one pass, in which the rows of b - Ax are formed before anything is summed. With
g = Aᵀ D (b - Ax) - r x, `Metric` N of S = AᵀDA + rI, and e = S⁻¹g the error of x:

1. m = ‖g‖ in S⁻¹ is the error ‖Ae‖ of the fitted values (and of √r x): an identity. No condition number enters.
2. Rounding alone leaves f = 2u‖D x‖ + 2ε‖r‖/σ, with the units D of columns, the precision u of x, and the smallest
   singular value σ of A D⁻¹ (Wedin 1973, doi:10.1007/BF01933494; Higham 2002, chapter 20). Where m ≤ 2f, no solver
   gives more digits. What is claimed of fitted values is max(m, f).
3. The coefficients are off by ‖e‖, at most ‖N‖ max(m, f). If that is much, e is refined by one more product.
4. Every coefficient, and every contrast cᵀx, is off by at most max(m, f)/σ̂ of its standard error
   (|cᵀe| ≤ ‖c‖ in S⁻¹ times m; Arioli & Gratton 2012, doi:10.1016/j.cpc.2012.05.022).
5. A part of x in the null space of A is measured: the solution of least norm has none.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import Array, HostArray, to_host
from linspec.certificates.metric import EPS, SKETCH_ROWS, Metric
from linspec.rows.moments import Moments
from linspec.rows.passes import OutOfPasses

__all__ = ["LinearCertificate", "certify_linear", "digits"]

SQUARED = 1e-5
"""Smallest singular value, in units of the columns, that a Gram matrix has with digits enough."""

OPEN = 0.01
"""Relative error of coefficients, and share of their standard errors, above which they are doubted."""


@dataclass(frozen=True)
class LinearCertificate:
    """What is claimed of an answer x; errors are the largest over right-hand sides.

    Attributes
    ----------
    residual : float
        ‖g‖ / ‖AᵀDb‖.
    fitted : float
        Relative error of the fitted values.
    coefficients : float
        Relative error of x.
    share : float
        Error of any coefficient in units of its standard error; infinite without degrees of freedom.
    floor : float
        The part of `fitted` that rounding alone leaves.
    status : str
        CONVERGED, RANK_DEFICIENT, ILL_CONDITIONED or INACCURATE.
    rank : int
        The numerical rank of A.
    notes : tuple of str
    """

    residual: float
    fitted: float
    coefficients: float
    share: float
    floor: float
    status: str
    rank: int
    notes: tuple[str, ...]

    @property
    def words(self) -> str:
        """One line on digits, for a summary."""
        line = f"fitted values: about {digits(self.fitted)} digits; coefficients: about {digits(self.coefficients)}"
        return line + (
            f", off by at most {self.share:.1g} of their standard errors" if self.share < 1 else ""
        )


def certify_linear(
    moments: Moments,
    x: Array,
    ridge: float = 0.0,
    *,
    tol: float = 1e-8,
    rounding: float = EPS,
    metric: Metric | None = None,
) -> LinearCertificate:
    """Judge x by one pass, or two.

    Parameters
    ----------
    moments : Moments
        Of A and b, with a Gram matrix that is held or a sketch.
    x : array of shape (p, m)
        For the preprocessed matrices.
    ridge : float, default 0
    tol : float, default 1e-8
        The largest relative residual that was asked for.
    rounding : float, default that of float64
        The larger of those of the data and of x.
    metric : Metric, optional
        By default made from what `moments` holds.
    """
    A, b = moments.operators
    x, m = to_host(x), b.shape[1]
    unit, none = b.backend.blocks.eye(m), np.zeros_like(x)
    V = A.backend.blocks.place(np.hstack([x, none]))
    (AtU, _), squares = moments.residual(V, -b.backend.blocks.concat([unit, unit]))
    AtU = to_host(AtU)
    g, Atb = -AtU[:, :m] - ridge * x, -AtU[:, m:]
    r, nb, nx = np.sqrt(squares[:m]), np.sqrt(squares[m:]), np.linalg.norm(x, axis=0)
    S = metric or _metric(moments, ridge, rounding)
    length = S.lengths(g)  # 1
    floor = 2 * rounding * np.linalg.norm(x * S.D[:, None], axis=0) + 2 * EPS * r / S.least  # 2
    fitted = np.maximum(length, floor)
    error = S.reach * fitted  # 3
    if (_over(error, nx) > OPEN).any() and (length > floor).any():
        with suppress(OutOfPasses):  # then the bound stands as it is
            error = _refined(moments, S, g, ridge, floor)
    outside = np.linalg.norm(S.null.T @ x, axis=0) if S.rank < len(x) and ridge == 0 else np.zeros(m)  # 5
    free = moments.fitted[0].total - S.rank - moments.pre.directions
    sigma = r / np.sqrt(free) if free > 0 else np.zeros(m)
    coefficients, share = np.maximum(_over(error, nx), _over(outside, nx)), _over(fitted, sigma)  # 4
    residual = _over(np.linalg.norm(g, axis=0), np.linalg.norm(Atb, axis=0))
    rounded = length <= 2 * floor
    status, notes = _status(
        ended=bool(((residual <= tol) | rounded).all()),
        fine=bool(((coefficients <= OPEN) | (share <= OPEN)).all()),
        rounded=bool(rounded.all()),
        ranks=(S.rank, len(x)) if ridge == 0 else (len(x), len(x)),
    )
    claims = residual, _over(fitted, nb), coefficients, share, _over(floor, nb)
    worst = [float(np.max(each, initial=0.0)) for each in claims]
    return LinearCertificate(worst[0], worst[1], worst[2], worst[3], worst[4], status, S.rank, notes)


def _metric(moments: Moments, ridge: float, rounding: float) -> Metric:
    """The metric of A from a held Gram matrix where it has digits enough, else from a sketch."""
    if moments.held is not None:
        G = moments.held[0][0]
        metric = Metric.of_gram(to_host(G.toarray() if scipy.sparse.issparse(G) else G), ridge, rounding)
        if metric.rank == len(metric.D) and metric.least > SQUARED:
            return metric
    moments.sketch_rows = moments.sketch_rows or SKETCH_ROWS * moments.widths[0]
    (SA, *_), squares = moments.sketch(), moments.fitted[0].squares
    return Metric.of_rows(SA, ridge, squares, rounding, exact=False)


def _refined(moments: Moments, S: Metric, g: HostArray, ridge: float, floor: HostArray) -> Any:
    """‖e‖ after one step of refinement, and what is left of it."""
    e = S.solve(g)
    Se = to_host(moments.gram_product(moments.operators[0].backend.blocks.place(e))) + ridge * e
    left = S.lengths(g - Se) * (S.up**2 - 1)
    return np.linalg.norm(e, axis=0) + S.reach * np.maximum(left, floor)


def _status(*, ended: bool, fine: bool, rounded: bool, ranks: tuple[int, int]) -> tuple[str, tuple[str, ...]]:
    rank, p = ranks
    notes = (
        []
        if rank == p
        else [f"A has numerical rank {rank} of {p} columns: the coefficients are those of least norm."]
    )
    if not ended:
        return "INACCURATE", tuple(notes)
    if not fine:
        more = (
            "The data do not determine more: no solver gives more digits."
            if rounded
            else "The solver has stopped before the short directions of A: lower tol, or take direct."
        )
        return "ILL_CONDITIONED", (*notes, more)
    return ("CONVERGED" if rank == p else "RANK_DEFICIENT"), tuple(notes)


def digits(error: float) -> int:
    """Correct digits that a relative error leaves, from 0 to 16."""
    return int(min(16, max(0, np.floor(-np.log10(max(error, 1e-17))))))


def _over(a: Any, b: Any) -> HostArray:
    """a / b, and 0 where a is 0."""
    with np.errstate(all="ignore"):
        return np.where(np.asarray(a) > 0, np.divide(a, b), 0.0)
