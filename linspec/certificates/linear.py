"""The certificate of linear systems (AᵀDA + rI) x = AᵀDb: least squares and ridge, also for several b.

It is computed from x and one pass, in which the rows of b - Ax are formed before anything is summed, and all ridges are
judged together. With g = AᵀD(b - Ax) - r x, `Metric` N of S = AᵀDA + rI, and e = S⁻¹g the error of x:

1. m = ‖g‖ in S⁻¹ is the error ‖Ae‖ of the fitted values (and of √r x): an identity. No condition number enters.
2. Rounding alone leaves f = 2u‖D x‖ + 2ε‖r‖/σ, with the units D of columns, the precision u of x, and the smallest
   singular value σ of A D⁻¹ (Wedin 1973, doi:10.1007/BF01933494; Higham 2002, chapter 20). Where m ≤ 2f, no solver
   gives more digits. What is claimed of fitted values is max(m, f).
3. The coefficients are off by ‖e‖, at most ‖N‖ max(m, f). If that is much, e is refined by one more product.
4. Every coefficient, and every contrast cᵀx, is off by at most max(m, f)/σ̂ of its standard error
   (|cᵀe| ≤ ‖c‖ in S⁻¹ times m; Arioli & Gratton 2012, doi:10.1016/j.cpc.2012.05.022).
5. A part of x in the null space of A is measured: the solution of least norm has none.

The metric is that of a held Gram matrix or triangle, which need no pass, of a Gram matrix or a sketch, which ride on
the pass, or of the triangle of few rows, from which g follows, too. Where these are dear, it is what the ridge says,
and the solver may have planted columns: right-hand sides Sz of known z. What is left of them, D = X - Z, spans the
directions that its steps have not met, so that (Kenney & Laub 1994, doi:10.1137/0915003)

6. e ≈ D c with (DᵀSD) c = Dᵀg, and ‖e‖ is at least the length of its part in the span of SD, from (SD)ᵀe = Dᵀg.

Conjugate gradients for SD and g take from D what they can, for a few steps: other directions hide a short one. Null
directions of A never leave D, and no error is there. If rounding is left of SD, and A D is no longer than null
directions make it, the steps have met all others, and give e.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from linspec.arrays import Array, HostArray, to_host
from linspec.certificates.metric import SKETCH_ROWS, SQUARED, Metric
from linspec.linalg import EPS, cg_steps, driven, lengths_of
from linspec.rows.moments import Moments
from linspec.rows.passes import OutOfPasses

OPEN = 0.01
"""Relative error of coefficients, and share of their standard errors, above which they are doubted."""


WIDEST = 1536
"""Columns of A up to which a sketch is decomposed; that takes a few seconds."""

NARROW, PRODUCTS = 128, 25
"""Columns for which a metric always pays, and the products whose time it may take for more columns."""

SECONDS = 0.1
"""What a metric may take for fewer rows than columns in float32: beside null directions, rounding of their products
hides short directions from planted columns."""

SIGNS, FACTOR_RATE = 8, 1e10
"""Entries of a column of a sketch, and operations a second of decompositions."""

SETTLED, SETTLED_NARROW, NARROW_ROUNDING = 5.0, 200.0, 1e-10
"""What is left of planted columns is rounding at so many roundings; with float32 data their products round, too."""

SHORT = 1e-4
"""A direction of which ‖S d‖ / ‖A d‖ is below this share of ‖A‖ is no null direction, although S d is rounding."""

MET = 1e-3
"""Length that may be left of a planted column if its steps have met all directions: it is normal along each, so that of
1,250 one hides a direction that they have not met. Three in a hundred would at 0.03, and save at most 13 passes."""

STEPS, FEWEST = 200, 12
"""Further steps for planted columns of which more is left: the most, and those after which they end if coefficients are
right. The most are also those of the run."""


@dataclass(frozen=True)
class LinearCertificate:
    """What is claimed of an answer x; errors are the largest over right-hand sides and ridges.

    Attributes
    ----------
    residual : float
        ‖g‖ / ‖AᵀDb‖.
    residuals : numpy.ndarray of shape (ridges,)
        The residual of each ridge.
    least : float
        The residual of what is rounding.
    fitted : float
        Relative error of the fitted values; NaN if it is not known.
    coefficients : float
        Relative error of x; NaN if it is not known.
    share : float
        Error of any coefficient in units of its standard error; infinite without degrees of freedom.
    status : str
        CONVERGED, RANK_DEFICIENT, ILL_CONDITIONED or INACCURATE.
    rank : int
        The numerical rank of A.
    rounded : bool
        Whether rounding leaves no more digits.
    source : str
        "recomputed" from rows, "from-gram" or "in-pass", from the triangle of the rows.
    lengths : numpy.ndarray of shape (w,)
        ‖b - Ax‖ of each column of x.
    """

    residual: float
    residuals: HostArray
    least: float
    fitted: float
    coefficients: float
    share: float
    status: str
    rank: int
    rounded: bool
    source: str
    lengths: HostArray

    @property
    def words(self) -> str:
        """One line on digits, for a summary."""
        fitted, coefficients = (
            "not known" if np.isnan(error) else f"about {digits(error)} digits"
            for error in (self.fitted, self.coefficients)
        )
        share = f", off by at most {self.share:.1g} of their standard errors" if self.share < 1 else ""
        return f"fitted values: {fitted}; coefficients: {coefficients}{share}"


@np.errstate(all="ignore")
def certify_linear(
    moments: Moments,
    x: Array,
    ridges: float | Sequence[float] = 0.0,
    *,
    tol: float = 1e-8,
    rounding: float = EPS,
    planted: Array | None = None,
) -> LinearCertificate:
    """Certify x by one pass, or two; by none if a Gram matrix with digits enough, or a triangle, is held.

    Parameters
    ----------
    moments : Moments
        Of A and b.
    x : array of shape (p, w)
        For the preprocessed matrices: the columns of b for the first ridge, then those for the second one.
    ridges : float or sequence of float, default 0
    tol : float, default 1e-8
        The largest relative residual that was asked for.
    rounding : float, default that of float64
        The larger of those of the data and of x.
    planted : array of shape (p, t), optional
        What is left of planted columns for the smallest ridge.
    """
    path = np.array(ridges, dtype=np.float64, ndmin=1).tolist()
    x = to_host(x)
    m = moments.widths[1]
    products = _Residual(
        moments, x, path, _left_of_planted(moments, min(path), tol, planted), planted is not None
    )
    metrics = _metrics(moments, path, rounding, products, tol)
    r = products.lengths
    columns = (np.split(M, len(path), axis=-1) for M in (x, products.g, r))
    by_ridge = [
        _certified(moments, S, ridge, x_r, g_r, r_r, rounding, products)
        for S, ridge, x_r, g_r, r_r in zip(metrics, path, *columns, strict=True)
    ]
    length, floor, coefficients = np.concatenate(by_ridge, axis=1)
    nb = np.tile(products.b_lengths, len(path))
    fitted = np.maximum(length, floor)
    ranks = [len(x) if S is None else S.rank for S in metrics]
    free = moments.fitted[0].total - np.repeat(ranks, m) - moments.pre.directions
    sigma = np.where(free > 0, r / np.sqrt(np.maximum(free, 1)), 0.0)
    share = _over(fitted, sigma)  # 4
    residual = products.relative()
    rounded = length <= 2 * floor
    open_ = (coefficients > OPEN) & ~(share <= OPEN)
    rank = min([rank for rank, ridge in zip(ranks, path, strict=True) if ridge == 0], default=len(x))
    status = "CONVERGED" if rank == len(x) else "RANK_DEFICIENT"
    if not ((residual <= tol) | rounded).all():
        status = "INACCURATE"
    elif open_.any():
        status = "ILL_CONDITIONED"
    residuals = residual.reshape(len(path), -1).max(axis=1, initial=0.0)
    return LinearCertificate(
        residual=float(residuals.max()),
        residuals=residuals,
        least=float(residual[rounded].max(initial=0.0)),
        fitted=float(_over(fitted, nb).max(initial=0.0)),
        coefficients=float(coefficients.max(initial=0.0)),
        share=float(share.max(initial=0.0)),
        status=status,
        rank=rank,
        rounded=bool(rounded.all()),
        source=products.source,
        lengths=r,
    )


def _left_of_planted(moments: Moments, ridge: float, tol: float, planted: Array | None) -> HostArray:
    """What is left of planted columns; where the solver has none, and a metric is dear, of one that is solved for here.

    That takes conjugate gradients up to the tolerance, as far as passes allow.
    """
    if planted is not None:
        return to_host(planted)
    dear = moments.widths[0] > WIDEST and not moments.holds and moments.rereads
    if not (dear and needs_metric(moments, [ridge], tol) and moments.passes.allows(FEWEST)):
        return np.zeros((moments.widths[0], 0))
    asarray = moments.device.asarray
    z = np.random.default_rng(0).standard_normal((moments.widths[0], 1))
    b = moments.gram_product(asarray(z)) + ridge * asarray(z)
    largest = tol * np.linalg.norm(to_host(b))
    for step in islice(driven(moments.gram_product, cg_steps(b, (ridge,))), STEPS):
        if step.lengths.max() <= largest or not moments.passes.allows(3):
            break
    return to_host(step.X()[0]) - z


class _Residual:
    """g, AᵀDA times planted columns, and the lengths of b - Ax, b and AᵀDb: by `read`, or what is held."""

    def __init__(
        self, moments: Moments, x: HostArray, ridges: Sequence[float], D: HostArray, by_solver: bool
    ) -> None:
        self.moments = moments
        self.x = x
        self.ridges = ridges
        self.D = D
        self.by_solver = by_solver
        self.source = "recomputed"

    def read(self, *, gram: bool = False, held: bool = False) -> None:
        """Compute all from rows, which may give a Gram matrix too, or from what is held."""
        A, b = self.moments.operators
        w = self.x.shape[1]
        m = self.moments.widths[1]
        t = self.D.shape[1]
        V = np.hstack([self.x, np.zeros((len(self.x), m)), self.D])
        unit = np.hstack([-np.eye(m)] * (w // m + 1) + [np.zeros((m, t))])
        places = A.device.blocks.asarray(V), b.device.blocks.asarray(unit)
        if held:
            G, self.source = self.moments.gram(), "from-gram"
            P, Q = (G[i][0] @ places[0] + G[i][1] @ places[1] for i in (0, 1))
            squares = to_host(A.device.blocks.column_sums(places[0] * P)) + (unit * to_host(Q)).sum(axis=0)
        else:
            self.source = "in-pass" if self.moments.root is not None else "recomputed"
            (P, _), squares = self.moments.residual(*places, gram=gram)
        AtU = to_host(P)
        lengths = np.sqrt(np.maximum(squares, 0.0))
        self.g = -AtU[:, :w] - np.repeat(self.ridges, m) * self.x
        self.SD = AtU[:, w + m :]
        self.lengths = lengths[:w]
        self.b_lengths = lengths[w : w + m]
        self.scales = lengths_of(AtU[:, w : w + m])

    def relative(self) -> HostArray:
        """‖g‖ / ‖AᵀDb‖ of every column."""
        return _over(lengths_of(self.g), np.tile(self.scales, len(self.ridges)))


def _metrics(
    moments: Moments, ridges: Sequence[float], rounding: float, products: _Residual, tol: float
) -> list[Metric | None]:
    """The metric for every ridge, None if nothing is known; it reads what the residual needs on the way."""
    allows = moments.rereads and moments.passes.allows(1)
    p = moments.widths[0]
    n = moments.operators[0].shape[0]
    if moments.root is not None:
        products.read()
        return _by_triangle(moments, to_host(moments.root[0]), ridges, rounding)
    needs = needs_metric(moments, ridges, tol)
    if moments.held is not None:
        products.read(held=True)
        if p > NARROW and not needs and (products.relative() <= tol).all():
            return [None] * len(ridges)
        metrics = _by_gram(moments, ridges)
        if _enough(moments, metrics) or not allows:
            return list(metrics)
    needs = needs and moments.held is None
    dear = p > WIDEST or (products.D.shape[1] > 0 and not metric_pays(moments))
    if needs and not dear and _is_wide(moments):
        R = moments.triangle()[:, :p]
        products.read()
        products.source = "recomputed"  # the rows were read anew
        return _by_triangle(moments, R, ridges, rounding)
    gram, sketch = _seconds(moments)
    singular = n < p and min(ridges) <= 0
    if needs and not dear and not moments.sketch_rows and gram < sketch and not singular:
        products.read(gram=True)
        metrics = _by_gram(moments, ridges)
        if _enough(moments, metrics) or not (allows and moments.passes.allows(1)):
            return list(metrics)
        moments.sketch_rows = SKETCH_ROWS * p
        return _by_sketch(moments, ridges, rounding)
    if not dear and (needs or moments.held is not None):
        moments.sketch_rows = moments.sketch_rows or SKETCH_ROWS * p
    products.read()
    return _by_sketch(moments, ridges, rounding) if moments.sketched else [None] * len(ridges)


def _by_triangle(
    moments: Moments, R: HostArray, ridges: Sequence[float], rounding: float
) -> list[Metric | None]:
    """The metrics of a triangle of the rows."""
    squares = moments.fitted[0].squares
    return [Metric.of_rows(R, ridge, squares, rounding, exact=True) for ridge in ridges]


def _by_gram(moments: Moments, ridges: Sequence[float]) -> list[Metric]:
    """The metrics of the held Gram matrix."""
    return [Metric.of_held(moments, 0, ridge) for ridge in ridges]


def _by_sketch(moments: Moments, ridges: Sequence[float], rounding: float) -> list[Metric | None]:
    """The metrics of a sketch."""
    SA = moments.sketch()[0]
    squares = moments.fitted[0].squares
    return [Metric.of_rows(SA, ridge, squares, rounding, exact=False) for ridge in ridges]


def _enough(moments: Moments, metrics: Sequence[Metric]) -> bool:
    """Whether the Gram matrix has digits enough for the metrics."""
    lost = moments.error_of_means() / EPS if moments.operators[0].readable else 1.0
    least = SQUARED * np.sqrt(max(lost, 1.0))
    return all(S.rank == len(S.D) and S.least > least for S in metrics)


def _seconds(moments: Moments) -> tuple[float, float]:
    """About the time of a metric from a Gram matrix, and from a sketch or a triangle."""
    A = moments.operators[0]
    p = float(moments.widths[0])
    if _is_wide(moments):
        return np.inf, A.product_seconds(1) + 14 * A.shape[0] * p**2 / FACTOR_RATE
    return A.gram_seconds() + p**3 / FACTOR_RATE, A.product_seconds(SIGNS) + 14 * p**3 / FACTOR_RATE


def _is_wide(moments: Moments) -> bool:
    """Whether A has fewer rows than columns, which can be read: their triangle is smaller than a sketch, and exact."""
    A = moments.operators[0]
    return A.readable and A.shape[0] < A.shape[1]


def metric_pays(moments: Moments) -> bool:
    """Whether a metric of A takes less time than the iterations of a solver; planted columns take a share of these."""
    p = moments.widths[0]
    A = moments.operators[0]
    hides = A.dtype != np.float64 and _is_wide(moments)
    most = max(PRODUCTS * A.product_seconds(moments.widths[1]), SECONDS if hides else 0.0)
    return p <= WIDEST and (p <= NARROW or min(_seconds(moments)) <= most)


def sketch_pays(moments: Moments, columns: float) -> bool:
    """Whether a sketch of every matrix takes less time than some products of so many columns."""
    widest = max(moments.widths)
    seconds = sum(A.product_seconds(SIGNS) + 14 * A.shape[1] ** 3 / FACTOR_RATE for A in moments.operators)
    most = PRODUCTS * sum(A.product_seconds(int(columns)) for A in moments.operators)
    readable = all(A.readable for A in moments.operators)
    return readable and widest <= WIDEST and (widest <= NARROW or seconds <= most)


def needs_metric(moments: Moments, ridges: Sequence[float], tol: float) -> bool:
    """Whether a residual within `tol` may leave coefficients open, by what the first pass says of the ridges.

    ‖e‖ ≤ ‖g‖/r, and ‖AᵀDb‖ is at most (‖A‖² + r)‖x‖ but for g.

    Parameters
    ----------
    moments : Moments
        After a pass.
    ridges : sequence of float
    tol : float
    """
    least = min(ridges)
    squares = float(moments.fitted[0].squares.sum()) if moments.fitted else np.inf
    return least <= 0 or tol * (squares + least) > OPEN * least


def _certified(
    moments: Moments,
    S: Metric | None,
    ridge: float,
    x: HostArray,
    g: HostArray,
    r: HostArray,
    rounding: float,
    products: _Residual,
) -> tuple[HostArray, HostArray, HostArray]:
    """Of one ridge: m, the part that rounding leaves, and the relative error of coefficients."""
    nx = lengths_of(x)
    if S is None:
        return _by_ridge(moments, products, x, g, r, ridge, rounding)
    length = S.lengths(g)  # 1
    size = lengths_of(x * S.D[:, None])
    floor = 2 * rounding * size + 2 * EPS * r / S.least  # 2
    if products.source == "from-gram":  # rounding of the Gram matrix, or of the products that have formed it
        lost = 2 * max(moments.unit(), moments.error_of_means())
        floor += lost * (size + products.b_lengths) / S.least
    error = S.reach * np.maximum(length, floor)  # 3
    if S.up == 1.0:
        error = np.minimum(error, lengths_of(S.solve(g)) + S.reach * floor)
    elif (_over(error, nx) > OPEN).any() and (length > floor).any():
        with suppress(OutOfPasses):  # then the bound stands as it is
            error = _refined(moments, S, g, ridge, floor)
    outside = lengths_of(S.null.T @ x) if S.rank < len(x) and ridge == 0 else np.zeros(len(nx))  # 5
    return length, floor, np.maximum(_over(error, nx), _over(outside, nx))


def _by_ridge(
    moments: Moments,
    products: _Residual,
    x: HostArray,
    g: HostArray,
    r: HostArray,
    ridge: float,
    rounding: float,
) -> tuple[HostArray, HostArray, HostArray]:
    """The same by what a ridge alone says, S ≥ rI, and by planted columns where that is not enough."""
    most = OPEN * lengths_of(x)
    units = np.sqrt(moments.fitted[0].squares + ridge)
    floor = 2 * rounding * lengths_of(x * units[:, None])
    length = error = np.full(len(most), np.nan)
    if ridge > 0:
        floor = floor + 2 * EPS * r * units.max(initial=0.0) / np.sqrt(ridge)
        length = lengths_of(g) / np.sqrt(ridge)
        error = np.maximum(length, floor) / np.sqrt(ridge)
    if products.D.shape[1] and not ((error <= most).all() or (length <= floor).all()):
        fitted, planted = _by_planted(moments, products, g, ridge, rounding, most)
        error = np.fmin(error, planted)
        if (
            not products.by_solver
        ):  # right columns of another method than the solver say nothing of its digits
            error = np.where(error > most, error, np.nan)
        length = length if ridge > 0 else np.where(np.isnan(error), np.nan, fitted)
    return length, floor, _over(error, lengths_of(x))


def _by_planted(
    moments: Moments, products: _Residual, g: HostArray, ridge: float, rounding: float, most: HostArray
) -> tuple[HostArray, HostArray]:
    """Estimates of ‖Ae‖ and ‖e‖ by (6), after some more steps where planted columns are left."""
    D = products.D
    SD = products.SD + ridge * products.D
    *estimates, proved = _within(D, SD, None, g)
    if (lengths_of(D) <= MET).all() or (proved > most).any():
        return estimates[0], estimates[1]
    asarray = moments.device.asarray
    t = D.shape[1]
    size = float(np.sqrt(moments.fitted[0].squares.max(initial=0.0) + ridge))  # ‖A‖, from below
    noise = rounding * (SETTLED if rounding < NARROW_ROUNDING else SETTLED_NARROW) * lengths_of(D)
    steps = int(min(STEPS, max(moments.passes.count, FEWEST)))
    with suppress(OutOfPasses):  # then the estimate stands as it is
        iterates = driven(moments.gram_product, cg_steps(asarray(np.hstack([SD, g])), (ridge,)))
        for number, step in enumerate(islice(iterates, steps + 1)):
            X = to_host(step.X()[0])
            e, left = X[:, t:], D - X[:, :t]
            size_of_e = lengths_of(e)
            settled = bool((step.lengths[:t] <= noise * size**2).all())
            known = np.sqrt(np.abs((e * g).sum(axis=0))), size_of_e
            if (lengths_of(left) <= MET).all():
                return known
            if (size_of_e > most).any():  # e grows with the steps
                return np.maximum(estimates[0], known[0]), np.maximum(estimates[1], size_of_e)
            if not settled and number not in {FEWEST, steps}:
                continue
            none = moments.operators[1].device.blocks.zeros((moments.widths[1], t))
            (SL, _), squares = moments.residual(asarray(left), none)
            SL = to_host(SL) + ridge * left
            r, images = lengths_of(SL), np.sqrt(squares)
            null = settled and not ((images > noise * size) & (r < SHORT * size * images)).any()
            if null:
                short = (np.abs(left.T @ g) / np.maximum(r, noise * size**2)[:, None]).max(axis=0)
                return known[0], np.maximum(size_of_e, short)
            *estimates, _ = _within(left, SL, squares + ridge * (left**2).sum(axis=0), g)
            estimates = [np.maximum(*pair) for pair in zip(estimates, known, strict=True)]
            if settled or (estimates[1] <= most).all():
                break
    return estimates[0], estimates[1]


def _within(
    D: HostArray, SD: HostArray, squares: HostArray | None, g: HostArray
) -> tuple[HostArray, HostArray, HostArray]:
    """‖Ae‖ and ‖e‖ by (6), and a length that ‖e‖ has at least; `squares` are those of AD from rows, if known."""
    T = (D.T @ SD + SD.T @ D) / 2
    if squares is not None:
        np.fill_diagonal(T, squares)
    c = np.linalg.lstsq(T, D.T @ g, rcond=None)[0]
    part = np.linalg.lstsq(np.linalg.qr(SD).R.T, D.T @ g, rcond=None)[0]
    length = np.sqrt(np.maximum((c * (T @ c)).sum(axis=0), 0.0))
    proved: HostArray = lengths_of(part)
    return length, np.maximum(lengths_of(D @ c), proved), proved


def _refined(moments: Moments, S: Metric, g: HostArray, ridge: float, floor: HostArray) -> Any:
    """‖e‖ after one step of refinement, and what is left of it."""
    e = S.solve(g)
    Se = to_host(moments.gram_product(moments.device.asarray(e))) + ridge * e
    left = S.lengths(g - Se) * (S.up**2 - 1)
    return lengths_of(e) + S.reach * np.maximum(left, floor)


def digits(error: float) -> int:
    """Correct digits that a relative error leaves, from 0 to 16."""
    return int(min(16, max(0, np.floor(-np.log10(max(error, 1e-17))))))


def _over(a: Any, b: Any) -> HostArray:
    """a / b, and 0 where a is 0."""
    return np.where(a == 0, 0.0, a / b)
