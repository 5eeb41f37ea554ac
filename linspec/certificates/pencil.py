"""The certificate of symmetric pencils H w = θ S w, for the k largest θ: SVD, PLS, CCA, discriminants, multiset.

H and S act on one or several views; S is diagonal in them. The certificate is computed from values θ and vectors W and
from one pass, and t more that search. With N Nᵀ ≈ S⁻¹ in each view (`Metric`):

1. δ = ‖Nᵀ(HW - SWΘ)‖₂ / √λmin(WᵀSW): as many exact values as there are columns lie within δ of the θ (Kahan 1967;
   Parlett 1998, The Symmetric Eigenvalue Problem, 11.5). No condition number enters.
2. Random columns beside W, improved by t block Davidson steps r ↦ N Nᵀ r, give Ritz values in the product of the spans
   of the views. A Ritz value is never above the exact one: one above θᵢ + δ proves that the answer lacks something.
3. The values are claimed within the smaller of δ and gain + min(δ', δ'²/gap), where δ' is δ of the improved pairs
   (Parlett 11.7; Mathias 1998, doi:10.1137/S0895479895286895); vectors within δ/gap.
4. Nothing cheap proves completeness. The place to search is the start, which has random columns; the certificate says
   how many passes it searched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from linspec.arrays import HostArray
from linspec.certificates.linear import digits
from linspec.certificates.metric import EPS, Metric

__all__ = ["PencilCertificate", "Products", "certify_pencil", "enclosure"]

ROUNDING = 8.0
"""Multiple of the unit roundoff that counts as rounding."""

EXTRA = 10
"""Random columns beyond k."""

DEPENDENT = 1e-8
"""Directions of a basis with less than this part of its largest length are left out."""

Applied = list[list[HostArray | None]]


class Products(NamedTuple):
    """What one pass makes of blocks Z, one for each view.

    Attributes
    ----------
    H : list of list of numpy.ndarray or None
        HᵢⱼZⱼ; None where Hᵢⱼ is 0.
    S : list of numpy.ndarray
        SᵢZᵢ.
    """

    H: Applied
    S: list[HostArray]


@dataclass(frozen=True)
class PencilCertificate:
    """What is claimed of values and vectors, relative to the largest value.

    Attributes
    ----------
    residual : float
        δ / θ₁.
    values, vectors : float
        Largest errors of values, and of vectors as angles.
    gain : float
        By how much the sum of the values is too small at least, where something is missing.
    floor : float
        What rounding leaves.
    searched : int
        Passes of search for larger values.
    status : str
        CONVERGED, INCOMPLETE, INACCURATE or ILL_CONDITIONED.
    notes : tuple of str
    """

    residual: float
    values: float
    vectors: float
    gain: float
    floor: float
    searched: int
    status: str
    notes: tuple[str, ...]

    @property
    def words(self) -> str:
        """One line on digits, for a summary."""
        outcome = "found some" if self.status == "INCOMPLETE" else "found none"
        search = f"; searched {self.searched} passes for larger ones, {outcome}" if self.searched else ""
        return f"values: about {digits(self.values)} digits; vectors: about {digits(self.vectors)}{search}"


def certify_pencil(
    products: Callable[[list[HostArray]], Products],
    W: Sequence[HostArray],
    theta: HostArray,
    k: int,
    metrics: Sequence[Metric],
    *,
    tol: float = 1e-6,
    rounding: float = EPS,
    search: int = 0,
) -> PencilCertificate:
    """Judge values and vectors by 1 + `search` passes.

    Parameters
    ----------
    products : callable
        Makes one pass.
    W : sequence of numpy.ndarray of shape (pᵢ, q)
        Vectors, with Σ WᵢᵀSᵢWᵢ near I.
    theta : numpy.ndarray of shape (q,)
    k : int
        Values that were asked for; q may be smaller.
    metrics : sequence of Metric
        Of the Sᵢ.
    tol : float, default 1e-6
        The largest relative error of values that was asked for.
    rounding : float, default that of float64
        The larger of those of the data and of W.
    search : int, default 0
        Steps of search for larger values.
    """
    rng, q = np.random.default_rng(0), len(theta)
    first = max(float(np.max(theta, initial=0.0)), 1e-300)
    condition = max(1 / S.least for S in metrics)
    floor = ROUNDING * EPS * condition * first
    known = [_orthonormal(S.coordinates(w)) for S, w in zip(metrics, W, strict=True)]
    fresh = [_orthonormal(rng.standard_normal((len(y), k + EXTRA)), y) for y in known]
    Z = [np.hstack([w, S.lift(y)]) for S, w, y in zip(metrics, W, fresh, strict=True)]
    H, SZ = products(Z)
    ownH = _sums([[None if T is None else T[:, :q] for T in row] for row in H])
    ownS = [M[:, :q] for M in SZ]
    G: Any = sum(w.T @ M for w, M in zip(W, ownS, strict=True))
    quotients = sum(np.sum(w * h, axis=0) for w, h in zip(W, ownH, strict=True)) / np.maximum(
        np.diag(G), 1e-300
    )
    delta, least = enclosure(metrics, [h - M * theta for h, M in zip(ownH, ownS, strict=True)], G)  # 1
    padded = np.append(theta, np.zeros(max(k - q, 0)))[:k]
    left, steps = delta, 0
    while True:
        ritz, Y, noise = _ritz(Z, H, SZ, k)  # 2
        gain = np.maximum(ritz[:k] - padded[: len(ritz[:k])], 0.0)
        missing = bool((gain > 1.01 * delta + 4 * floor + noise * first).any())
        better = [_combined(H, Y), [M @ y for M, y in zip(SZ, Y, strict=True)]]
        gaps = [h - M * ritz[: M.shape[1]] for h, M in zip(*better, strict=True)]
        if steps:
            left = _improved(_length(metrics, [g[:, :k] for g in gaps]), ritz, k)  # 3
        if missing or steps == search:
            break
        steps += 1
        known = [np.hstack(both) for both in zip(known, fresh, strict=True)]
        fresh = [_orthonormal(S.dual(g), y) for S, g, y in zip(metrics, gaps, known, strict=True)]
        more = products([S.lift(y) for S, y in zip(metrics, fresh, strict=True)])
        Z = [np.hstack([z, S.lift(y)]) for z, S, y in zip(Z, metrics, fresh, strict=True)]
        H = [
            [None if T is None or U is None else np.hstack([T, U]) for T, U in zip(*rows, strict=True)]
            for rows in zip(H, more.H, strict=True)
        ]
        SZ = [np.hstack(both) for both in zip(SZ, more.S, strict=True)]
    off = float(np.abs(theta - quotients).max(initial=0.0))
    claim = float(gain.max(initial=0.0)) + left
    claim = max(claim if missing else min(delta, claim + off), floor)
    gap = float(theta.min(initial=np.inf)) - (float(ritz[k]) if len(ritz) > k else 0.0)
    limit = ROUNDING * rounding * condition * first
    vectors = min(1.0, max(delta, limit) / gap) if gap > 0 else 1.0
    lacking = float(gain.sum())
    status, notes = _status(
        metrics,
        missing=missing,
        dependent=q > 0 and least < 0.25,
        ended=claim <= max(tol * first, 10 * floor),
        lost=claim > 1e-3 * first,
        lacking=lacking,
        tie=q > 0 and gap <= 0,
    )
    return PencilCertificate(
        delta / first, claim / first, vectors, lacking / first, floor / first, steps, status, notes
    )


def enclosure(metrics: Sequence[Metric], gaps: Sequence[HostArray], G: HostArray) -> tuple[float, float]:
    """Return δ of formula (1), and λmin(WᵀSW), which is far below 1 if the vectors are dependent.

    Parameters
    ----------
    metrics : sequence of Metric
    gaps : sequence of numpy.ndarray of shape (pᵢ, q)
        HW - SWΘ in each view.
    G : numpy.ndarray of shape (q, q)
        WᵀSW.
    """
    least = float(np.linalg.eigvalsh((G + G.T) / 2)[0]) if len(G) else 1.0
    return _length(metrics, gaps) / float(np.sqrt(max(least, 0.01))), least


def _status(
    metrics: Sequence[Metric],
    *,
    missing: bool,
    dependent: bool,
    ended: bool,
    lost: bool,
    lacking: float,
    tie: bool,
) -> tuple[str, tuple[str, ...]]:
    notes = [
        f"matrix {i + 1} has numerical rank {S.rank} of {len(S.D)} columns."
        for i, S in enumerate(metrics)
        if S.rank < len(S.D)
    ]
    if missing:
        return "INCOMPLETE", (*notes, f"larger values exist: the sum is at least {lacking:.1e} too small.")
    if tie:
        notes.append(
            "the last value and the next differ by less than the error: the span at the cut is a choice."
        )
    if dependent:
        return "INACCURATE", (*notes, "the vectors are dependent.")
    if not ended:
        return "INACCURATE", tuple(notes)
    return ("ILL_CONDITIONED" if lost else "CONVERGED"), tuple(notes)


def _orthonormal(Y: HostArray, span: HostArray | None = None) -> HostArray:
    """An orthonormal basis of the columns of Y, outside the span of another one."""
    for _ in range(2):
        if span is not None:
            Y = Y - span @ (span.T @ Y)
        Y = Y / np.maximum(np.linalg.norm(Y, axis=0), 1e-300)
    U, s, _ = np.linalg.svd(Y, full_matrices=False)
    return U[:, s > DEPENDENT * s.max(initial=1e-300)]


def _sums(rows: Applied) -> list[Any]:
    return [sum(T for T in row if T is not None) for row in rows]


def _combined(H: Applied, Y: Sequence[HostArray]) -> list[Any]:
    """Σⱼ HᵢⱼZⱼ yⱼ."""
    return _sums([[None if T is None else T @ y for T, y in zip(row, Y, strict=True)] for row in H])


def _length(metrics: Sequence[Metric], R: Sequence[HostArray]) -> float:
    """‖NᵀR‖₂ over all views, which is not too small."""
    parts = [S.dual(r) for S, r in zip(metrics, R, strict=True)]
    rows = parts[0] if len(parts) == 1 else np.vstack(parts)
    largest = float(np.abs(rows).max(initial=0.0))
    if largest == 0:
        return 0.0
    rows = rows / largest
    squared = float(np.linalg.eigvalsh(rows.T @ rows)[-1])
    return max([S.up for S in metrics]) * largest * float(np.sqrt(max(squared, 0.0)))


def _improved(left: float, ritz: HostArray, k: int) -> float:
    """The error of values whose residual is `left`: quadratic where a gap is known."""
    gap = float(ritz[:k].min(initial=np.inf)) - (float(ritz[k]) if len(ritz) > k else 0.0)
    return min(left, left**2 / (gap - left)) if left < gap / 4 else left


def _ritz(
    Z: Sequence[HostArray], H: Applied, SZ: Sequence[HostArray], k: int
) -> tuple[HostArray, list[HostArray], float]:
    """Ritz values in the product of the spans, largest first; coefficients of the first ones; their rounding."""
    bases, noise = [], 0.0
    for z, M in zip(Z, SZ, strict=True):
        G = z.T @ M
        d = np.sqrt(np.maximum(np.diag(G), 1e-300))
        values, V = np.linalg.eigh((G + G.T) / 2 / d[:, None] / d)
        live = values > DEPENDENT
        bases.append(V[:, live] / np.sqrt(values[live]) / d[:, None])
        noise = max(noise, 4 * EPS / float(values[live].min(initial=1.0)))
    blocks = [
        [
            np.zeros((a.shape[1], b.shape[1])) if T is None else a.T @ (z.T @ T) @ b
            for b, T in zip(bases, row, strict=True)
        ]
        for a, z, row in zip(bases, Z, H, strict=True)
    ]
    T = np.block(blocks)
    values, U = np.linalg.eigh((T + T.T) / 2)
    ends = np.cumsum([0, *(b.shape[1] for b in bases)])
    chosen = U[:, ::-1][:, : k + EXTRA]
    return values[::-1], [b @ chosen[i:j] for b, i, j in zip(bases, ends, ends[1:], strict=False)], noise
