"""The certificate of preimage CCA: variates of points, orthogonal to earlier ones, and a projected gradient step.

Problem: how far is a pair of points from a stationary one, where the objective is not concave, and a set not convex?
Method: points are brought into their sets and rounded as they are returned. With K = k(X, U) and H the centring, the
variate of pair j is the part of Hk(X, uⱼ) that is orthogonal to the variates of pairs before it, in each view: the
columns of Q in HK = QR, so that (HK − mean) R⁻¹ has orthonormal columns on the training rows. Pair j maximises
the objective of its variates times the shares |Pk|/|Hk| of both functions that remain: for the correlation,
⟨Pk, Pl⟩ / (|Hk| |Hl|). Its gradient in uⱼ, with earlier pairs held, is g. The residual of the pair is
|Proj(u + b²g) − u|/b, where b is the radius of the set. It has no unit, and is zero exactly where u is a nearest point
to u + b²g. For balls, which are convex, this says that u is stationary. For the set of "ratio" it implies that u is
stationary, but stationary points may have other residuals. Two passes.
Source: the projected gradient as a measure of stationarity, Conn, Gould & Toint 2000, Trust-Region Methods, chapter 12;
Birgin, Martínez & Raydan 2000, SIAM J. Optim. 10(4), doi:10.1137/S1052623497330963.
Where we differ: (a) without the shares, a later point could come as near to an earlier one as it liked, since the rest
of its function is divided by its own length: there would be no best point, and bounds would not bind. With linear
kernels and no bound both ways lead to the pairs of CCA, whose variates have shares of 1. (b) A step of b² in place of 1
makes the residual independent of the unit of u. (c) Uurtio, Bhadra & Rousu 2019 deflate the data by u,
X(I − uuᵀ/uᵀu); the variates of a kernel that is not linear then still correlate. Theirs is an option of a solver, and
the certificate is for its answers, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from linspec import Status
from linspec.arrays import HOST, Array, Device, HostArray, reciprocal, to_host
from linspec.certificates import Metric
from linspec.iteration import Certificate
from linspec.kernels import Linear
from linspec.linalg import signs_of_columns
from linspec.rows import Moments, Preprocessing
from linspec.solving import fewer_than_asked
from linspec_kernel.preimage.views import PreimageMoments, PreimageView

if TYPE_CHECKING:
    from linspec_kernel.preimage.problem import PreimageCCA

FEWER = "variates that earlier pairs do not explain"

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

FAINT = 1e-150
"""Variates up to this length count as zero: squares of their entries underflow."""

UNCERTAIN = 0.01
"""A finding is reported if the cosine that `along_columns` computes exceeds this value."""


def certify(
    problem: PreimageCCA,
    moments: PreimageMoments,
    arrays: Mapping[str, Any],
    tol: float,  # noqa: ARG001  # as problems have it
) -> Certificate:
    """Move points into their sets, remove earlier variates from later ones, and compute residuals.

    Of the arrays, `x_preimages` and `y_preimages` are the points, `starts` is the number of starting points of each
    pair, and `agreeing` the number of them that led to the best value within 1 %.
    """
    device, objective, views = moments.device, problem.value, moments.views
    # Points, moved into their sets and rounded to the view's dtype; signs that the objective leaves open are fixed.
    given = zip(problem.bounds, (arrays["x_preimages"], arrays["y_preimages"]), strict=True)
    nearest = [bound.nearest(HOST.asarray(U)) for bound, U in given]
    flips = [signs_of_columns(U, Device.of(U)) if U.size else np.ones(U.shape[1]) for U in nearest]
    free = problem.objective != "correlation"
    turned = [even == 1 or (free and even != 0) for even in problem.parities]
    if not free and problem.parities == (-1, -1):  # the sign of both together
        flips, turned = [flips[0], flips[0]], [True, True]
    points = [
        HOST.asarray(A.device.asarray(U * flip if turns else U, A.dtype))
        for A, U, flip, turns in zip(problem.matrices.values(), nearest, flips, turned, strict=True)
    ]
    for view in views:
        view.clear()
    sides = [view.at(U) for view, U in zip(views, points, strict=True)]
    numbers = list[int]()
    values = list[float]()
    slopes = list[tuple[Array, Array]]()
    for j in range(points[0].shape[1]):
        x, y = (side.columns(np.array([j]), device) for side in sides)
        # Earlier variates are taken out twice: the second time for what the first has left by rounding.
        P, Q = (view.taken_out(view.variates(side.values)) for view, side in zip(views, (x, y), strict=True))
        if not min(device.norm(P), device.norm(Q)) > FAINT:
            continue
        pair = replace(x, variates=P), replace(y, variates=Q)
        numbers.append(j)
        values.append(float(moments.shared(objective, pair)[0]))
        slopes.append(moments.shared_slopes(objective, pair))
        views[0].take_out(P)
        views[1].take_out(Q)
    index = np.asarray(numbers, dtype=np.intp)
    cosines = to_host(device.xp.sum(views[0].basis * views[1].basis, axis=0))
    fields: dict[str, Any] = {
        "correlations": np.clip(cosines, -1.0, 1.0),
        "values": np.asarray(values, dtype=np.float64),
        "starts": int(arrays.get("starts", 1)),
        "agreeing": np.asarray(arrays.get("agreeing", np.ones(points[0].shape[1])), dtype=np.int64)[index],
    }
    columns = Moments(
        moments.operators, Preprocessing(center=problem.center), moments.rows.passes, moments.names
    )
    residuals, unseen = np.zeros(len(numbers)), {}
    for i, (view, side, A) in enumerate(zip(views, sides, problem.matrices.values(), strict=True)):
        side, name = side.columns(index, device), view.name.lower()
        R = np.triu(to_host(view.basis.T @ view.centred(side.values)))
        turn = np.linalg.solve(
            R, np.eye(len(R))
        )  # R⁻¹ of HK = QR: variates are uncorrelated and of unit length
        if numbers:
            G = view.gradient(side, device.concat([S[i] for S in slopes]))
            residuals = np.maximum(residuals, view.distances(side.points, G))
            unseen[view.name] = along_columns(view, columns, G, np.diagonal(R))
        fields[f"{name}_preimages"] = A.device.asarray(side.points, A.dtype)
        fields[f"{name}_weights"] = turn
        mean = to_host(device.xp.mean(side.values, axis=0))
        fields[f"{name}_mean"] = mean @ turn if problem.center else None
        fields[f"kernel_{name}"] = view.kernel
        view.clear()
    worst = float(residuals.max(initial=0.0))
    # Values are in error by about the square of a cosine.
    level = max(UNCERTAIN, math.sqrt(10 * worst))
    hidden = [(Status.INCONSISTENT, text) for text in moments.rows.contradictions]
    hidden += [
        (Status.ILL_CONDITIONED, UNSEEN.format(name=name, share=share))
        for name, share in unseen.items()
        if share > level
    ]
    vacuous = ((None, VACUOUS.format(views=" and ".join(problem.vacuous))),) if problem.vacuous else ()
    notes = *hidden, *fewer_than_asked(len(numbers), problem.k, FEWER), *vacuous
    return Certificate(worst, notes, {**fields, "residuals": residuals}, lost=bool(hidden))


def along_columns(view: PreimageView, columns: Moments, G: HostArray, lengths: HostArray) -> float:
    """Return the largest cosine, over all pairs, between a combination of columns of X and the derivative s.

    s is the derivative of the objective of a pair by its variate, and g = Xᵀs is the gradient. With orthonormal XW the
    cosine is |Wᵀg|/|s|. One over the length of the variate is used in place of |s|, because the derivative of a
    correlation is at most that long. The cosine is a residual that does not depend on units, and it is 0 at the pairs
    of CCA. In a view of more than 500 columns, single columns take the place of combinations. It is also 0 unless the
    kernel is linear and the bound restricts nothing. It takes one pass.

    Parameters
    ----------
    view : PreimageView
    columns : Moments
        Of all views, less their means if the problem centres.
    G : numpy.ndarray of shape (p, m)
        The gradients g of m pairs.
    lengths : numpy.ndarray of shape (m,)
        Lengths of the variates of these pairs.
    """
    if not is_cca(view.kernel, view.bound, len(G)):
        return 0.0
    with columns.view(view.i) as X:
        if len(G) > WIDEST:
            X.fit()
            cosines = np.abs(G) * lengths * reciprocal(np.sqrt(X.fitted[0].squares))[:, None]
            return float(cosines.max(initial=0.0))
        X.gram()
        metric = Metric.of_held(X, 0, 0.0)
    return float(np.max(np.linalg.norm(metric.dual(G), axis=0) * lengths, initial=0.0))


def is_cca(kernel: Any, bound: Any, p: int) -> bool:
    """Whether a view of p columns is as in CCA: a linear kernel, and a bound that restricts nothing."""
    return isinstance(kernel, Linear) and bound.kind == "ratio" and bound.size**2 >= p * (1 - 1e-12)
