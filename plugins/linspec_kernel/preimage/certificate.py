"""The law of preimage CCA: variates of points, orthogonal to earlier ones, and the length of a projected gradient step.

Problem: how far is a pair of points from a stationary one, where the objective is not concave, and a set not convex?
Method: points are brought into their sets and rounded as they are returned. With K = k(X, U) and H the centring, the
variate of pair j is the part of Hk(X, uⱼ) that is orthogonal to the variates of pairs before it, in each view: the
columns of Q in HK = QR, so that (HK − mean) R⁻¹ has orthonormal columns on the training rows. Pair j maximises
the objective of its variates times the shares |Pk|/|Hk| of both functions that remain: for the correlation,
⟨Pk, Pl⟩ / (|Hk| |Hl|). Its gradient in uⱼ, with earlier pairs held, is g. The residual of the pair is
|Proj(u + b²g) − u|/b, where b is the radius of the set. It has no unit, and is zero exactly where u is a nearest point
to u + b²g. For balls, which are convex, this says that u is stationary. For the set of "ratio" it implies that u is
stationary, but stationary points may have other residuals. Two sweeps.
Source: the projected gradient as a measure of stationarity, Conn, Gould & Toint 2000, Trust-Region Methods, chapter 12;
Birgin, Martínez & Raydan 2000, SIAM J. Optim. 10(4), doi:10.1137/S1052623497330963.
Where we differ: (a) without the shares, a later point could come as near to an earlier one as it liked, since the rest
of its function is divided by its own length: there would be no best point, and bounds would not bind. With linear
kernels and no bound both ways lead to the pairs of CCA, whose variates have shares of 1. (b) A step of b² in place of 1
makes the residual independent of the unit of u. (c) Uurtio, Bhadra & Rousu 2019 deflate the data by u,
X(I − uuᵀ/uᵀu); the variates of a kernel that is not linear then still correlate. Theirs is an option of a solver, and
the law judges its answers, too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg

from linspec import Conclusion, Moments, Status
from linspec.algebra import signs_of_columns
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.certificates import Metric
from linspec.kernels import Linear
from linspec.operators import DenseOperator, LinearOperator, SparseOperator, uncounted
from linspec.solving import fewer_than_asked, moments_of_rows
from linspec_kernel.nystrom import on_host
from linspec_kernel.preimage.views import PreimageView, shared, shared_slopes

VACUOUS = (
    "The ball restricts nothing for {views}: with a homogeneous kernel the objective does not change with the length "
    "of u, so where a step leads back the gradient is zero, as without a bound. Zeros in u would come from stopping "
    "early. Take ('ratio', s), which bounds |u|₁ relative to |u|₂."
)


UNSEEN = (
    "Columns of {name}, or sums of them, differ so much in size that a residual relative to |u| does not show the "
    "smaller ones: one has a cosine of {share:.1g} with the slope of a variate, which is 0 at a best point. Scale the "
    "columns, and look for rows that are far from all others."
)

WIDEST = 500
"""Up to this many columns of a view, all combinations of columns are checked; above it, single columns only."""

NULL = 1e4
"""Relative length up to which a combination of columns is not checked, in units of eps of the dtype of the data.

For columns of unit length, it is relative to the longest combination Xw with |w| = 1. Slopes along shorter combinations
are too inexact."""

FAINT = 1e-150
"""Variates up to this length count as zero: squares of their entries underflow."""

UNCERTAIN = 0.01
"""A finding is reported if the cosine that `along_columns` computes exceeds this value."""


def judged(
    problem: Any,
    moments: Any,
    preimages: tuple[Array, Array],
    starts: int,
    agreeing: HostArray | None,
) -> Conclusion:
    """Pairs of variates of the points, and their residual."""
    home, objective, views = moments.home, problem.value, moments.views
    points = _returned(problem, preimages)
    for view in views:
        view.basis = None
    sides = [view.at(U) for view, U in zip(views, points, strict=True)]
    kept, values, correlations, slopes, sizes = [], [], [], ([], []), ([], [])  # type: ignore[var-annotated]
    for j in range(points[0].shape[1]):
        K = sides[0].values[:, j : j + 1], sides[1].values[:, j : j + 1]
        # Earlier variates are taken out twice: the second time for what the first has left by rounding.
        P, Q = (view.taken_out(view.variates(k)) for view, k in zip(views, K, strict=True))
        lengths = home.norm(P), home.norm(Q)
        if not min(lengths) > FAINT:
            continue
        S = shared_slopes(objective, views, K, (P, Q))
        values.append(float(shared(objective, views, K, (P, Q))[0]))
        p, q = P / lengths[0], Q / lengths[1]
        correlations.append(float(to_host(home.xp.sum(p * q))))
        for i, (view, variate) in enumerate(zip(views, (p, q), strict=True)):
            slopes[i].append(S[i])
            sizes[i].append(lengths[i])
            view.take_out(variate)
        kept.append(j)
    rho = np.clip(np.asarray(correlations, dtype=np.float64), -1.0, 1.0)
    fields: dict[str, Any] = {
        "correlations": rho,
        "values": np.asarray(values, dtype=np.float64),
        "starts": int(starts),
        "agreeing": _chosen(agreeing, kept, starts),
    }
    residuals, unseen = np.zeros(len(kept)), {}
    index = np.asarray(kept, dtype=np.intp)
    for name, view, side, into, lengths, A in zip(
        "xy", views, sides, slopes, sizes, (problem.X, problem.Y), strict=True
    ):
        side, turn = side.columns(index, home), np.zeros((0, 0))
        if kept:
            G = view.gradient(side, home.concat(into), freed=False)
            residuals = np.maximum(residuals, distances(view.bound, side.points, G))
            unseen[name.upper()] = along_columns(view, G, np.asarray(lengths))
            # R⁻¹ of HK = QR turns the functions into uncorrelated variates of unit length.
            R = np.triu(on_host(view.basis.T @ view.centred(side.values)))
            turn = np.asarray(scipy.linalg.solve_triangular(R, np.eye(len(R))), dtype=np.float64)
        fields[f"{name}_preimages"] = A.home.place(side.points, A.dtype)
        fields[f"{name}_weights"] = turn
        mean = on_host(home.xp.mean(side.values, axis=0))
        fields[f"{name}_mean"] = mean @ turn if problem.center else None
        fields[f"kernel_{name}"] = view.kernel
        view.basis = None
    findings = fewer_than_asked(len(kept), problem.k, "variates that earlier pairs do not explain")
    # Values are in error by about the square of a cosine.
    level = max(UNCERTAIN, math.sqrt(10 * float(residuals.max(initial=0.0))))
    hidden = [
        (Status.ILL_CONDITIONED, UNSEEN.format(name=name, share=share))
        for name, share in unseen.items()
        if share > level
    ]
    said = ((None, VACUOUS.format(views=" and ".join(problem.vacuous))),) if problem.vacuous else ()
    fields["residuals"] = residuals
    worst = float(residuals.max(initial=0.0))
    return Conclusion(fields, worst, (*hidden, *findings, *said), lost=bool(hidden))


def along_columns(view: PreimageView, G: HostArray, lengths: HostArray) -> float:
    """Return the largest cosine, over all pairs, between a combination of columns of X and the derivative s.

    s is the derivative of the objective of a pair by its variate, and g = Xᵀs is the gradient. With orthonormal XW the
    cosine is |Wᵀg|/|s|. One over the length of the variate is used in place of |s|, because the derivative of a
    correlation is at most that long. The cosine is a residual that does not depend on units, and it is 0 at the pairs
    of CCA. In a view of more than 500 columns, single columns take the place of combinations, and the result is 0
    unless the entries are in memory. It is also 0 unless the kernel is linear and the bound restricts nothing.

    Parameters
    ----------
    view : PreimageView
    G : numpy.ndarray of shape (p, m)
        The gradients g of m pairs.
    lengths : numpy.ndarray of shape (m,)
        Lengths of the variates of these pairs.
    """
    if not is_cca(view.kernel, view.bound, len(G)):
        return 0.0
    A = in_memory(view.A)
    if len(G) <= WIDEST:
        rows, ledger = uncounted(view.A)
        if not (rows.readable or rows.streamed):  # products with the identity are the entries
            A = rows = DenseOperator(view.A.by_identity())
        moments = moments_of_rows({view.name: rows}, center=view.center)
        R, eps = moments.triangle(), float(np.finfo(view.A.rounded_dtype).eps)
        if A is None:
            ledger.record(rows, 0, sweeps=moments.passes.count)
        metric = Metric.of_rows(R, 0.0, moments.fitted[0].squares, eps, exact=True, cut=NULL * eps)
        return float(np.max(np.linalg.norm(metric.dual(G), axis=0) * lengths, initial=0.0))
    if A is None:
        return 0.0
    squares = Moments(A, center=view.center, form="implicit").diagonal()[0]  # of entries at hand
    sizes = np.sqrt(to_host(squares))[:, None]
    return float(
        np.max(np.divide(np.abs(G) * lengths, sizes, out=np.zeros_like(G), where=sizes > 0), initial=0.0)
    )


def is_cca(kernel: Any, bound: Any, p: int) -> bool:
    """Whether a view of p columns is as in CCA: a linear kernel, and a bound that restricts nothing."""
    return isinstance(kernel, Linear) and bound.kind == "ratio" and bound.size**2 >= p * (1 - 1e-12)


def in_memory(A: LinearOperator) -> LinearOperator | None:
    """Operator whose rows are read without a sweep; None if the rows are not in memory."""
    inner, _ = uncounted(A)
    return inner if type(inner) in (DenseOperator, SparseOperator) else None


def reads_rows(A: LinearOperator, kernel: Any, bound: Any) -> bool:
    """Whether the certificate reads the rows of a view in a sweep of its own."""
    p = int(A.shape[1])
    return is_cca(kernel, bound, p) and p <= WIDEST and in_memory(A) is None


def distances(bound: Any, U: HostArray, G: HostArray) -> HostArray:
    """|Proj(u + b²g) − u| / b for each column u of U and g of G."""
    b = bound.radius
    found: HostArray = np.linalg.norm(bound.nearest(U + b * b * G) - U, axis=0) / b
    return found


def _returned(problem: Any, preimages: tuple[Array, Array]) -> list[HostArray]:
    """Points, moved into their sets and rounded to the view's dtype; signs that the objective leaves open are fixed."""
    points = [
        bound.nearest(np.asarray(to_host(U), dtype=np.float64))
        for bound, U in zip(problem.bounds, preimages, strict=True)
    ]
    (x, y), (even_x, even_y) = points, problem.parities
    home = Home.of(x)
    flips = [signs_of_columns(U, home) if U.size else np.ones(U.shape[1]) for U in points]
    free = problem.objective != "correlation"
    if even_x == 1 or (free and even_x):
        x = x * flips[0]
    if even_y == 1 or (free and even_y):
        y = y * flips[1]
    if not free and even_x == even_y == -1:
        x, y = x * flips[0], y * flips[0]
    return [
        np.asarray(to_host(A.home.place(U, A.dtype)), dtype=np.float64)
        for A, U in zip((problem.X, problem.Y), (x, y), strict=True)
    ]


def _chosen(agreeing: HostArray | None, kept: list[int], starts: int) -> HostArray:
    every = np.full(max(kept, default=-1) + 1, min(starts, 1)) if agreeing is None else np.asarray(agreeing)
    found: HostArray = every[np.asarray(kept, dtype=np.intp)].astype(np.int64)
    return found
