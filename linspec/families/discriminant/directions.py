"""Directions in which X explains targets, and their certificate: the leading eigenvectors of C Cᵀ w = λ M w.

Problem: M = XᵀX + rI and C = XᵀH for few targets H. Discriminants, and regressions of low rank.
Method: with N Nᵀ = M⁻¹ (`linspec.certificates.Metric`), T = NᵀC and w = N y,

    T Tᵀ y = λ y                                           (1)
    residual ‖T TᵀY - YΛ‖ / ‖T TᵀY‖                        (2)
    lacking  ‖T - P PᵀT‖ / ‖T‖                             (3)

where P is an orthonormal basis of the y that span an answer: the square of (3) is the share of Σλ outside of it. If
Gram matrices are held, N is exact, and all λ are known. If squares have lost digits of X, orthogonal transformations
reduce the rows in one more pass. Else N is that of a sketch, or of a preconditioner from random signs, and one pass
gives XᵀXW and a triangle R with RᵀR = WᵀXᵀXW, which has not squared what X loses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

import numpy as np

import linspec as ls
from linspec.arrays import Array, Device, HostArray, to_host
from linspec.certificates import (
    SKETCH_ROWS,
    Metric,
    NearDiagonal,
    Preconditioned,
    gram_pays,
    metric_pays,
    needs_metric,
    short_directions,
    sketch_pays,
)
from linspec.iteration import Certificate
from linspec.linalg import EPS, leading_svd, orthonormal, ratio, signs_of_columns
from linspec.rows import Moments
from linspec.solving.verdict import Finding, fewer_than_asked
from linspec.status import Status

SQUARED = 5e-4
"""A Gram matrix whose smallest singular value of X is below this share of the largest has lost too many digits."""

SIGNS = 70
"""Columns of random signs of which a preconditioner is made."""

NULL = 10
"""A direction v is null if ‖Xv‖ / ‖X‖‖v‖ is at most this number of units of the data's rounding."""


class Directions:
    """What is known of M and C.

    Parameters
    ----------
    metric : Metric
        Of M.
    C : array of shape (p, t)
    T : array of shape (r, t)
        NᵀC.
    device : Device
        Where they are.
    resolution : float
        Singular values of T below this share of the largest are rounding.
    by_gram : bool, default False
        Whether M is that of squares.
    """

    def __init__(
        self, metric: Metric, C: Array, T: Array, device: Device, resolution: float, *, by_gram: bool = False
    ) -> None:
        self.metric = metric
        self.C = C
        self.T = T
        self.device = device
        self.by_gram = by_gram
        self.resolution = resolution / metric.least if self.exact else resolution

    @property
    def exact(self) -> bool:
        """Whether N is exact."""
        return self.metric.source == "exact"

    @cached_property
    def triplets(self) -> tuple[Array, HostArray]:
        """The left singular vectors of T, and the singular values above rounding: by (1) roots of the λ."""
        return self.leading(self.T)

    @cached_property
    def indistinct(self) -> float:
        """The share of Σλ that belongs to eigenvalues below rounding, which short directions of X may raise."""
        every = float(self.device.norm(self.T)) ** 2
        distinct = float(np.sum(self.triplets[1] ** 2))
        return max(ratio(every - distinct, every), 0.0)

    def leading(self, T: Array) -> tuple[Array, HostArray]:
        """Left singular vectors of T or of a part of it, and the singular values above rounding."""
        if not all(T.shape):
            return self.device.zeros((T.shape[0], 0)), np.zeros(0)
        U, s, _ = leading_svd(T, min(T.shape), self.device)
        count = int(np.sum(s > self.resolution * s[0]))
        return U[:, :count], s[:count]


def directions_of(
    problem: Any, moments: Moments, *, by_rows: bool = False, cut: float | None = None, judges: bool = False
) -> Directions:
    """Make M and C known in one pass, or in two if squares have lost digits of X; they are kept with the moments.

    Parameters
    ----------
    problem : Discriminant
    moments : Moments
    by_rows : bool, default False
        Whether to reduce the rows at once.
    cut : float, optional
        Singular values of X below this share of the largest are zero; by default those that are rounding.
    judges : bool, default False
        Whether M must show the short directions of X, if that takes no longer than what was computed so far.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.families.discriminant import directions_of
    >>> from linspec.rows import Moments, Passes
    >>> problem = ls.Discriminant(np.diag([2.0, 4.0]), np.array([[1.0], [1.0]]), 1, center=False)
    >>> known = directions_of(problem, Moments.of_products(problem.matrices, Passes()))
    >>> known.exact, known.C.ravel().tolist(), known.triplets[1].round(6)
    (True, [2.0, 4.0], array([1.414214]))
    """
    pays = judges and moments.metrics is not None and not moments.metrics.exact and gram_pays(moments)
    if pays and needs_metric(moments, [problem.ridge], problem.default_tol):
        moments.gram()
        moments.metrics = None
    if moments.metrics is None:
        moments.metrics = _held(problem, moments, cut, by_rows=by_rows) or _in_a_pass(problem, moments)
    return cast(Directions, moments.metrics)


def _held(
    problem: ls.Discriminant, moments: Moments, cut: float | None, *, by_rows: bool
) -> Directions | None:
    """What is known from Gram matrices or a triangle, which are formed if that takes little time."""
    A, ridge = moments.operators[0], problem.ridge
    tall = A.shape[0] >= A.shape[1]
    if not moments.holds and tall and not by_rows and metric_pays(moments):
        moments.gram()
    device, metric, short = A.device.blocks, None, False
    if moments.held is not None and moments.root is None:
        metric = Metric.of_held(moments, 0, ridge)
        lost = math.sqrt(max(moments.error_of_means(0) / EPS, 1.0))  # what means and confounds cost squares
        short = metric.least < SQUARED * lost or metric.rank < A.shape[1]
        short = short and moments.rereads and moments.passes.allows(1.0)
        by_rows = by_rows or (short and A.readable)
    if by_rows:
        moments.triangle()
        moments.held = None  # its squares have lost what the triangle has
    if moments.root is not None:
        metric = Metric.of_held(moments, 0, ridge, cut)
    if metric is None:
        return None
    if short and moments.root is None:  # products alone
        _, R = moments.products_with_triangle(device.eye(A.shape[1]))
        metric = Metric.of_rows(R, ridge, moments.fitted[0].squares, A.rounding, exact=True, cut=cut)
    metric = metric.on(device)
    C = _turned(problem, device.asarray(moments.cross()))
    if moments.root is not None:
        X, H = moments.root
        T = (X @ metric.N).T @ _turned(problem, H)
        return Directions(metric, C, T, device, problem.resolution)
    return Directions(metric, C, metric.dual(C), device, problem.resolution, by_gram=not short)


def _in_a_pass(problem: ls.Discriminant, moments: Moments) -> Directions:
    """What one pass makes known: C, and a norm that is near that of M⁻¹."""
    A, ridge = moments.operators[0], problem.ridge
    device = A.device.blocks
    unit = moments.operators[1].device.blocks.eye(moments.widths[1])
    if sketch_pays(moments, problem.width):
        moments.sketch_rows = SKETCH_ROWS * max(moments.widths)
        C = moments.products(None, unit)[1][0]
        norm = Metric.of_sketch(moments, 0, ridge)
    elif A.readable and A.shape[0] < A.shape[1]:  # where signs say no more than the lengths of columns
        C = moments.products(None, unit)[1][0]
        norm = NearDiagonal.of_diagonal(device.asarray(moments.fitted[0].squares + ridge)[:, None], device)
        norm.source = "preconditioned"
    else:
        signs = np.random.default_rng(0).integers(0, 2, (A.shape[1], SIGNS)) * 2.0 - 1.0
        Z = device.asarray(signs)
        (SZ, _), (C, _) = moments.products(Z, unit)
        norm = Preconditioned.of_signs(Z, SZ + Z * ridge, ridge, moments.squares(0), device)
    metric, C = norm.on(device), _turned(problem, device.asarray(C))
    return Directions(metric, C, metric.dual(C), device, problem.resolution)


def _turned(problem: ls.Discriminant, L: Array) -> Array:
    """Labels times the block that multiplies them."""
    return L if problem.factor is None else L @ Device.of(L).asarray(problem.factor)


def certify(problem: Any, moments: Moments, arrays: Mapping[str, Any]) -> Certificate:
    """Certify `weights`, more columns than k allowed, and make the fields of directions.

    Those with `eigenvalues` are directions already. If the span of the others is `complete`, it should contain all.

    Parameters
    ----------
    problem : Discriminant
        Or another problem with its attributes, such as `linspec.ReducedRankRegression`.
    moments : Moments
    arrays : mapping

    Returns
    -------
    Certificate
        With the fields weights, eigenvalues, rank, and `next`, the eigenvalue that follows.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.families.discriminant import certify
    >>> from linspec.rows import Moments, Passes
    >>> problem = ls.Discriminant(np.diag([2.0, 4.0]), np.eye(2), 1, center=False)
    >>> certificate = certify(problem, Moments.of_products(problem.matrices, Passes()), {"weights": np.eye(2)})
    >>> certificate.fields["eigenvalues"].round(6), round(certificate.fields["next"], 6), certificate.residual < 1e-12
    (array([1.]), 1.0, True)
    """
    known = directions_of(problem, moments, judges=True)
    device = known.device
    W, C = device.asarray(arrays["weights"]), known.C
    nothing = device.norm(C) <= rounding_of(problem, moments)
    if nothing:
        W = W[:, :0]
    if known.exact:
        P, _ = orthonormal(known.metric.coordinates(W))
        PtT = P.T @ known.T
        lack = ratio(device.norm(known.T - P @ PtT), device.norm(known.T))  # (3)
        U, sigma = known.leading(PtT)
        W, values = known.metric.shortest(known.metric.lift(P @ U)), sigma**2
        y = known.metric.coordinates(W)  # of what is returned
    else:
        W, y, lack, values = _by_products(problem, moments, known, W)
    k = min(problem.k, len(values))
    W, y, values, after = W[:, :k], y[:, :k], values[:k], values[k:]
    image = known.T @ (known.T.T @ y) if known.exact else known.metric.dual(C @ (C.T @ W))
    gap = image - y * device.asarray(values)
    residual = ratio(device.norm(gap), device.norm(image))
    if arrays.get("complete") and not nothing:
        residual = max(residual, lack)
    residual = math.hypot(residual, _rounding_of_weights(problem, moments, W))
    W = W * device.asarray(signs_of_columns(W, device))
    notes = _of_missing(problem, known, values, residual) if known.exact and not nothing else []
    if known.exact:
        after = known.triplets[1][problem.k :] ** 2
    squared = max(EPS, moments.error_of_means()) / known.metric.least**2 if known.by_gram else 0.0
    if squared > max(10 * problem.default_tol, SQUARED**2):
        text = f"The Gram matrix has squared so much that eigenvalues may be off by {min(squared, 1.0):.0e}. "
        notes.append((Status.ILL_CONDITIONED, text + "Raise max_passes, or add a ridge."))
    hidden = short_directions(moments, [known.metric], "eigenvalues", "Add a ridge.") if known.exact else []
    notes += hidden
    rank = arrays.get("rank", known.metric.rank if known.metric.source != "preconditioned" else None)
    notes += _of_rank(problem, moments, rank)
    what = "directions in which the columns of X vary with the targets"
    wanted = max(len(values), 1) if problem.every else problem.k
    notes = [*fewer_than_asked(len(values), wanted, what), *notes]
    empty = not len(values) and not nothing
    if empty:
        text = "Nothing is returned, although the columns of X vary with the targets."
        notes.insert(0, (Status.INCOMPLETE, text))
    fields = {
        "weights": problem.X.device.asarray(moments.fitted[0].scaled(W), problem.X.dtype),
        "eigenvalues": values,
        "rank": rank,
        "next": float(after.max(initial=0.0)),
    }
    lost = bool(hidden) or Status.INCOMPLETE in dict(notes)
    return Certificate(1.0 if empty else residual, tuple(notes), fields, known.metric.source, lost=lost)


def _of_missing(
    problem: ls.Discriminant, known: Directions, values: HostArray, residual: float
) -> list[Finding]:
    """What is said of eigenvalues that an answer lacks, where all are known."""
    notes: list[Finding] = []
    every = known.triplets[1][: problem.k] ** 2
    missing = max(float(every.sum() - values.sum()), 0.0)
    if math.sqrt(ratio(missing, float(every.sum()))) > max(residual, 10 * problem.default_tol):
        text = f"Larger eigenvalues exist: their sum is {missing:.1e} larger. "
        notes.append((Status.INCOMPLETE, text + 'Choose "direct" or "two-stage".'))
    if math.sqrt(known.indistinct) > 10 * problem.default_tol:
        text = f"Eigenvalues with {known.indistinct:.1e} of their sum are left out: X has directions so short that "
        text += "rounding may have made them. Pass float64, or add a ridge."
        notes.append((Status.ILL_CONDITIONED, text))
    return notes


def _by_products(
    problem: ls.Discriminant, moments: Moments, known: Directions, W: Array
) -> tuple[Array, Array, float, HostArray]:
    """The same by one pass, where N is not exact, with their coordinates NᵀMW."""
    device, C, ridge = known.device, known.C, problem.ridge
    W, _ = orthonormal(W)
    XtXW, R = moments.products_with_triangle(W)
    images = np.vstack([R, np.linalg.qr(to_host(W)).R * math.sqrt(ridge)])
    _, s, Vt = np.linalg.svd(images, full_matrices=False)
    squares = float(moments.fitted[0].squares.sum()) + ridge
    live = s > NULL * moments.operators[0].rounding * math.sqrt(squares)
    turn = device.asarray(Vt.T[:, live] / s[live])
    F = (W @ turn).T @ C
    left = C - ((XtXW + W * ridge) @ turn) @ F
    lack = ratio(*(float(device.norm(known.metric.dual(V))) for V in (left, C)))
    U, sigma = known.leading(F)
    turn = turn @ U
    return W @ turn, known.metric.dual((XtXW + W * ridge) @ turn), lack, sigma**2


def rounding_of(problem: ls.Discriminant, moments: Moments) -> float:
    """The largest ‖XᵀH‖ that may be rounding: then the columns of X do not explain the targets.

    Parameters
    ----------
    problem : Discriminant
    moments : Moments
        After a pass.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.families.discriminant import directions_of, rounding_of
    >>> from linspec.rows import Moments, Passes
    >>> problem = ls.Discriminant(np.diag([2.0, 4.0]), np.eye(2), 1, center=False)
    >>> moments = Moments.of_products(problem.matrices, Passes())
    >>> known = directions_of(problem, moments)
    >>> bool(rounding_of(problem, moments) < 1e-12 < np.linalg.norm(known.C))
    True
    """
    squares = math.prod(float(moments.fitted[i].squares.sum()) for i in (0, 1))
    lost = math.prod(1.0 if moments.subtracts[i] else moments.fitted[i].about_zero for i in (0, 1))
    turned = 1.0 if problem.factor is None else float(np.linalg.norm(to_host(problem.factor)))
    return float(problem.resolution) * math.sqrt(squares * lost) * turned


def _rounding_of_weights(problem: ls.Discriminant, moments: Moments, W: Array) -> float:
    """What rounding of the weights to narrow data adds to the residual, up to the next power of two."""
    unit = float(np.finfo(problem.X.dtype).eps)
    device = Device.of(W)
    if unit < 1e-10 or not W.shape[1]:
        return 0.0
    d = device.asarray(moments.fitted[0].squares + problem.ridge)[:, None]
    size = unit * math.sqrt(float(to_host(device.column_sums(W * W * d)).max()) / 3)
    return math.ldexp(1.0, math.frexp(size)[1])


def _of_rank(problem: ls.Discriminant, moments: Moments, rank: int | None) -> list[Finding]:
    """What is said of a rank below the number of columns, or as large as that of the rows."""
    facts: list[Finding] = []
    if rank is None or problem.ridge > 0:
        return facts
    w, n = moments.pre.w, int(moments.operators[0].shape[0])
    rows = n if w is None else int(np.count_nonzero(w))
    if rank < moments.widths[0]:
        text = f"X has numerical rank {rank} of {moments.widths[0]} columns: the weights have least norm."
        facts.append((Status.RANK_DEFICIENT, text))
    if rank >= rows - moments.pre.directions:
        text = (
            f"X has as many independent columns as rows ({rows}), so any targets are met exactly. Add "
            "a ridge, and score other rows to distinguish real directions from chance."
        )
        facts.append((Status.DEGENERATE, text))
    return facts
