"""SUMCOR: one score of each view, such that the sum of their correlations is large; the problem and its certificate.

Problem: maximise f = Σ wᵢᵀCᵢⱼwⱼ over all pairs i < j of views, with wᵢᵀSᵢwᵢ = 1 for each view. A later component is
orthogonal in Sᵢ to the earlier ones of each view. There are many local maxima, and no method is known that finds the
best one in all cases.
Law: with Sᵢ = FᵢFᵢᵀ and uᵢ = Fᵢᵀwᵢ, f is uᵀMu/2 for unit vectors uᵢ, where M has the blocks Fᵢ⁻¹CᵢⱼFⱼ⁻ᵀ, and zeros on
its diagonal. Let gᵢ be block i of Mu, without its part along earlier components.

- The residual of a component is the length of all gᵢ − |gᵢ|uᵢ, divided by 2f of the first component. It is 0 exactly if
  no view alone could do better with the others held. Such a point is stationary. Nothing is said about other points.
- f is at most (Σ|gᵢ| + m λ)/2, where λ is the largest eigenvalue of M − diag(|gᵢ|I), if it is positive: uᵀMu is the sum
  of uᵀ(M − diag)u and Σ|gᵢ|. The answer has this bound; where it is f, no component is better.

Source: Kettenring 1971, doi:10.1093/biomet/58.3.433 (the criterion); Chu & Watterson 1993, doi:10.1137/0914066 (what
is stationary); Hanafi & ten Berge 2003, doi:10.1007/BF02296655 (the bound, where λ = 0).
Where we differ: M has no identity on its diagonal, which changes neither the maxima nor the order of two values; the
bound holds where λ is positive, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec.arrays import Array, HostArray, reciprocal, to_host
from linspec.certificates import Metric
from linspec.iteration import Certificate
from linspec.linalg import ratio, signs_of_columns
from linspec.rows import Moments
from linspec.solving import fewer_than_asked
from linspec_multiset.certificate import AGREED, ALL_AGREE, TOLERATED, lost_to_squares, returned
from linspec_multiset.pencil import Pencil
from linspec_multiset.problem import check_several

DEPENDENT = 1e-10
"""A component that is within the earlier ones of its view, up to this fraction, is left out."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SumcorCCASolution(ls.LinearSolution, vector="component"):
    """Weights of each view, and the sums of the correlations of their scores.

    Attributes
    ----------
    weights : tuple of array of shape (pᵢ, k)
        One array for each view, with Wᵢᵀ(XᵢᵀXᵢ + rᵢI)Wᵢ = I; zeros for a view that does not vary.
    sums : numpy.ndarray of shape (k,)
        Σ wᵢᵀCᵢⱼwⱼ over all pairs i < j of views, decreasing. Without a ridge it is a sum of correlations, at most
        m(m − 1)/2.
    bounds : numpy.ndarray of shape (k,)
        No component that is orthogonal to the earlier ones has a larger sum than this.
    starts : int
        The number of starts of each component.
    agreeing : numpy.ndarray of shape (k,)
        The number of starts that led to the returned sum, up to a relative difference of 1e-6.
    """

    weights: tuple[Array, ...] = ls.field(rows_of="views", leading=True)
    sums: HostArray = ls.field(value="sum")
    bounds: HostArray = ls.field(shape="k")
    agreeing: HostArray = ls.field(shape="k")
    starts: int = 1

    def _per_component(self) -> dict[str, Any]:
        led = {"upper bound": self.bounds, f"starts that led to it, of {self.starts}": self.agreeing}
        return {**super()._per_component(), **led}


@dataclass(frozen=True, eq=False, repr=False)
class SumcorCCA(ls.Problem[SumcorCCASolution]):
    """The k components of several views whose scores have a large sum of correlations over all pairs of views (SUMCOR).

    Maximise Σ wᵢᵀCᵢⱼwⱼ over i < j with wᵢᵀSᵢwᵢ = 1 for each view, Cᵢⱼ = XᵢᵀXⱼ and Sᵢ = Cᵢᵢ + rᵢI. A component is
    orthogonal to the earlier ones in each Sᵢ. There are local maxima: answers are stationary, and have an upper bound.

    Parameters
    ----------
    views : list of data of shape (n, pᵢ), or Moments
        Two or more views. Anything `linspec.as_operator` accepts, in any mixture, with equally many rows.
    k : int
        The number of components, at most n and the columns of each view.
    ridge : float or sequence of float, default 0.0
        Added to the unnormalised XᵢᵀXᵢ; a number for each view, or one for all.
    center : bool, default True
        Whether to subtract column means; sparse data stay sparse.

    Notes
    -----
    Residual: how far the weights of one view could be improved with those of the others held, 0 if not at all. With
    gᵢ = Fᵢ⁻¹Σⱼ Cᵢⱼwⱼ, j ≠ i, less its part along earlier components, it is the largest length of all gᵢ − |gᵢ|Fᵢᵀwᵢ of
    a component, divided by twice the first sum. A converged answer is stationary, and may be a local maximum.

    For two views these are the canonical pairs, with the canonical correlations as `sums`. `linspec.MultisetCCA` scales
    the weights of all views together instead, and has no local maxima.

    References
    ----------
    Kettenring 1971, Biometrika 58(3), 433-451; Chu & Watterson 1993, SIAM J. Sci. Comput. 14(5), 1089-1106.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> common = rng.standard_normal((500, 1))
    >>> views = [common @ np.ones((1, p)) + rng.standard_normal((500, p)) for p in (3, 4, 5)]
    >>> problem = ls.SumcorCCA(views, k=1)
    >>> solution = ls.solve(problem, rng=0)
    >>> solution.sums.round(1), bool(solution.bounds[0] - solution.sums[0] < 1e-6)
    (array([2.4]), True)
    """

    views: Any = ls.views()
    k: Any = ls.count("components")
    ridge: Any = ls.ridge(each=True, help="Added to the diagonal of each XᵢᵀXᵢ.")
    center: bool = ls.flag(True)

    name: ClassVar[str] = "sumcor-cca"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_several(self.views)

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Make the weights of each view orthonormal in Sᵢ, one component after the other, and judge them.

        Parameters
        ----------
        moments : Moments
        arrays : mapping
            `weights`, a block for each view, of which column j of all is one component. If they are known, `starts` of
            each component, and how many were `agreeing` on its sum.
        tol : float
        """
        pencil, metrics, M = whitened(self, moments)
        m, asarray = len(metrics), pencil.device.asarray
        parts = [to_host(S.coordinates(asarray(W))) for S, W in zip(metrics, arrays["weights"], strict=True)]
        ends = np.cumsum([0, *(len(part) for part in parts)])
        u, _ = components(M, parts)
        u, g = components(M, np.split(u, ends[1:-1]))  # in the order of the sums of orthonormal columns
        live = [i for i, metric in enumerate(metrics) if metric.rank]
        sums = np.minimum.accumulate(np.sum(u * g, axis=0) / 2)  # which rounding alone exchanges
        above = moments.noise * m * m
        count = min(self.k, int(np.sum(np.cumprod(sums > above))))
        u = u[:, :count]
        g = g[:, :count]
        sums = sums[:count]
        lengths = np.array([np.linalg.norm(g[a:b], axis=0) for a, b in pairwise(ends)])
        gaps = np.linalg.norm(g - np.repeat(lengths, np.diff(ends), axis=0) * u, axis=0)
        residual = ratio(float(np.max(gaps, initial=0.0)), 2 * float(np.max(sums, initial=0.0)))
        bounds = np.array([
            _bound(M, u[:, :j], lengths[:, j], ends) for j in range(count)
        ])  # fmt: skip
        W = pencil.split(u, metrics)
        signs = asarray(signs_of_columns(W[min(live, default=0)], pencil.device))
        starts = int(arrays.get("starts", 1))
        agreeing = np.asarray(arrays.get("agreeing", np.ones(count)), dtype=np.float64)[:count]
        notes, lost = lost_to_squares(moments, metrics, max(tol, residual))
        if count < most_components(self.k, metrics) and _bound(M, u, None, ends) > TOLERATED * above:
            text = "Components are missing: sums outside of the returned ones are above rounding. Take more starts."
            notes, lost = [*notes, (ls.Status.INCOMPLETE, text)], True
        fields = {
            "weights": returned(self, moments, [V * signs for V in W]),
            "sums": sums,
            "bounds": np.maximum(bounds, sums),
            "agreeing": agreeing,
            "starts": starts,
        }
        words = self._words(sums, bounds, starts, agreeing, len(live))
        fewer = fewer_than_asked(count, self.k, "components above rounding")
        return Certificate(residual, (*fewer, *words, *notes), fields, "exact", lost=lost)

    def _words(
        self, sums: HostArray, bounds: HostArray, starts: int, agreeing: HostArray, m: int
    ) -> list[tuple[Any, str]]:
        """Return what a converged residual means here, and whether all m views that vary agree."""
        notes = list[tuple[Any, str]]()
        if not len(sums):
            return notes
        below = float(np.max(np.maximum(bounds - sums, 0.0) / bounds))
        text = (
            "A small residual says that the components are stationary, and no more: the best sums may be larger, by "
            f"at most {below:.1e} of a bound. {int(np.min(agreeing))} or more of {starts} starts led to each."
        )
        notes.append((None, text))
        if not any(self.ridge) and sums[0] >= m * (m - 1) / 2 * (1 - AGREED):
            notes.append((ls.Status.DEGENERATE, ALL_AGREE))
        return notes


def whitened(problem: SumcorCCA, moments: Moments) -> tuple[Pencil, list[Metric], HostArray]:
    """Return the pencil, the norms of all Sᵢ⁻¹, and M; a view that does not vary has rank 0, also with a ridge."""
    moments.gram()
    if moments.metrics is None:
        moments.metrics = []
        for i, (A, ridge) in enumerate(zip(moments.operators, problem.ridge, strict=True)):
            varies = bool(np.any(moments.squares(i)))
            moments.metrics.append(Metric.of_held(moments, i, ridge * varies).on(A.device.blocks))
    metrics = moments.metrics
    pencil = Pencil(moments, problem.ridge, (1.0,) * len(metrics))
    M = pencil.whitened(metrics)
    return pencil, metrics, M - np.eye(len(M))


def most_components(k: int, metrics: Sequence[Metric]) -> int:
    """Return the largest number of components: at most the rank of each view that varies."""
    ranks = [metric.rank for metric in metrics if metric.rank]
    return min([k, *ranks]) if ranks else 0


def components(M: HostArray, parts: Sequence[HostArray]) -> tuple[HostArray, HostArray]:
    """Return u with orthonormal columns in each view, from the largest sum down, and g = Mu outside of earlier columns.

    The order is that of the sums of the columns as given. A view whose columns depend on each other ends them; a view
    of rank 0 does not.
    """
    ready = [part * reciprocal(np.linalg.norm(part, axis=0)) for part in parts]
    u = np.concatenate(ready)
    order = np.argsort(-np.sum(u * (M @ u), axis=0), kind="stable")
    bases = []
    for part in ready:
        if not len(part):
            bases.append(part)
            continue
        Q, R = np.linalg.qr(part[:, order])
        d = np.diag(R)
        bases.append(Q * np.where(np.abs(d) > DEPENDENT, np.sign(d), 0.0))
    u = np.concatenate(bases)
    g, start = M @ u, 0
    for Q in bases:
        rows = g[start : start + len(Q)]
        g[start : start + len(Q)] = rows - Q @ np.triu(Q.T @ rows, 1) if Q.size else rows
        start += len(Q)
    return u, g


def _bound(M: HostArray, before: HostArray, lengths: HostArray | None, ends: HostArray) -> float:
    """Return an upper limit of the sum of any component that is orthogonal to those before.

    `lengths` has |gᵢ| of a component; with None the limit is m/2 times the largest eigenvalue.
    """
    if not len(M):
        return 0.0
    m, shifted = len(ends) - 1, M.copy()
    for a, b in pairwise(ends):
        Q = before[a:b]
        shifted[a:b] -= Q @ (Q.T @ shifted[a:b])
        shifted[:, a:b] -= (shifted[:, a:b] @ Q) @ Q.T
    limit = m * max(float(np.linalg.eigvalsh(shifted)[-1]), 0.0)
    if lengths is not None:
        above = float(np.linalg.eigvalsh(shifted - np.diag(np.repeat(lengths, np.diff(ends))))[-1])
        limit = min(limit, float(lengths.sum()) + m * max(above, 0.0))
    return limit / 2
