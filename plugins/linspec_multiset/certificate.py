"""The certificate of multiset CCA: the components in the span of weights, their residual, and what is missing.

One pass multiplies the weights, or forms Gram matrices if that takes a moment; none where these are held.

1. The components are the Rayleigh-Ritz pairs in the span of the stacked weights. Their residual is measured in the norm
   of B⁻¹: some exact eigenvalue lies within its length of each (Parlett 1998, 11.5).
2. Where Gram matrices are held, all eigenvalues are computed if that is quick: nothing is missed. Elsewhere the random
   columns of the start were the search.
3. Squares hide short directions. Those that a Gram matrix has cut are multiplied once by the rows, and what rounding
   may do to an eigenvalue is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from linspec import Status
from linspec.arrays import Array, HostArray, to_host
from linspec.certificates import Metric, digits, gram_pays, rounding_of, short_directions, weakest
from linspec.iteration import Certificate
from linspec.linalg import eigenpairs, ratio, signs_of_columns, whitening_above_noise
from linspec.rows import Moments
from linspec.solving import fewer_than_asked
from linspec_multiset.pencil import Pencil, images

Finding = tuple[Status | None, str]

TOLERATED = 10.0
"""An eigenvalue counts as missing if it is larger than the returned one by this multiple of the tolerance or of the
residual, whichever is larger, times λ₁."""

AGREED = 1e-8
"""Views agree completely if λ is within this fraction of its upper limit."""

ALL_AGREE = (
    "All views agree completely on some components, as chance alone makes them do where there are few rows. Add a "
    "ridge to distinguish real agreement from chance."
)

QUICK = 1000
"""Up to so many rows of the whitened matrix all eigenvalues are computed."""


def certify(problem: Any, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
    """Judge `weights`, and make the solution's fields.

    Parameters
    ----------
    problem : MultisetCCA
    moments : Moments
    arrays : mapping
        The weights, more columns than k allowed; those of a direct method have their `eigenvalues`.
    tol : float
    """
    pencil, asarray = Pencil(moments, problem.ridge, problem.view_weights), moments.device.asarray
    W = [asarray(V) for V in arrays["weights"]]
    if gram_pays(moments):
        moments.gram()
    (SW, AW), metrics = pencil.with_norms(W, problem.k)
    AW = images(AW)
    H = np.zeros((W[0].shape[1],) * 2)
    G = np.zeros_like(H)
    D = np.zeros_like(H)
    cuts = []
    for V, SV, AV, (d, cut) in zip(W, SW, AW, pencil.noise(W, SW), strict=True):
        H = H + to_host(V.T @ AV)
        G = G + to_host(V.T @ SV)
        D = D + to_host(V.T @ (V * d))
        cuts.append(cut)
    T = whitening_above_noise((G + G.T) / 2, (D + D.T) / 2, max(cuts))
    every, U = eigenpairs(T.T @ (H + H.T) @ T / 2)  # Ritz values in the span of stacked weights, ascending
    turn = asarray(np.ascontiguousarray((T @ U[:, ::-1])[:, : problem.k]))
    W, SW, AW = ([V @ turn for V in blocks] for blocks in (W, SW, AW))
    values = every[::-1][: problem.k].copy()
    above = moments.noise * sum(problem.view_weights)
    count = int(np.sum(values > above))
    W, SW, AW = ([V[:, :count] for V in blocks] for blocks in (W, SW, AW))
    values, there = values[:count], asarray(values[:count])
    gaps = [AV - SV * there for AV, SV in zip(AW, SW, strict=True)]
    residual = ratio(float(np.sqrt(pencil.squares(metrics, gaps).max(initial=0.0))), values.max(initial=0.0))
    kind = weakest(metrics)
    if kind == "exact":
        W = [metric.shortest(V) for metric, V in zip(metrics, W, strict=True)]
    notes, lost = lost_to_squares(moments, metrics, max(tol, residual))
    quick = moments.holds and sum(metric.rank for metric in metrics) <= QUICK
    if kind == "exact" and quick and "eigenvalues" not in arrays:
        notes = [*_missing(pencil, metrics, values, max(tol, residual, moments.noise)), *notes]
    limit = sum(problem.view_weights)
    if not any(problem.ridge) and len(values) and values[0] >= limit * (1 - AGREED):
        notes.append((Status.DEGENERATE, ALL_AGREE))
    signs = asarray(signs_of_columns(W[0], pencil.device))
    agreement = [to_host(pencil.device.column_sums(V * SV)) for V, SV in zip(W, SW, strict=True)]
    error = max(residual, rounding_of(moments, metrics))
    fields = {
        "weights": returned(problem, moments, [V * signs for V in W]),
        "eigenvalues": values,
        "agreement": values * np.array(agreement) / np.array(problem.view_weights)[:, None],
        "accuracy": f"eigenvalues: about {digits(error)} correct digits" if count else "",
    }
    notes = [*fewer_than_asked(count, problem.k, "components above rounding"), *notes]
    lost = lost or Status.INCOMPLETE in dict(notes)
    return Certificate(residual, tuple(notes), fields, kind, lost=lost)


def returned(problem: Any, moments: Moments, W: Sequence[Array]) -> tuple[Array, ...]:
    """The weights of all views for the columns as they came, where the data are."""
    pairs = enumerate(zip(problem.views, W, strict=True))
    return tuple(A.device.asarray(moments.fitted[i].scaled(V), A.dtype) for i, (A, V) in pairs)


def _missing(pencil: Pencil, metrics: Sequence[Metric], values: HostArray, error: float) -> list[Finding]:
    """Say that an eigenvalue of held matrices is larger than the returned one."""
    every = np.linalg.eigvalsh(pencil.whitened(metrics))[::-1]
    gap = float(np.max(every[: len(values)] - values, initial=0.0))
    if gap <= TOLERATED * error * max(float(every.max(initial=0.0)), 1e-300):
        return []
    text = f"A component is missing: an eigenvalue is larger than the returned one by at least {gap:.1e}. Choose "
    return [(Status.INCOMPLETE, text + '"gram", another seed, or more columns in the block.')]


def lost_to_squares(moments: Moments, metrics: Sequence[Metric], error: float) -> tuple[list[Finding], bool]:
    """Findings on directions that Gram matrices have cut, and on digits that they lose; and whether there are any."""
    notes: list[Finding] = [*short_directions(moments, metrics, "components", "Add a ridge.")]
    rounding = rounding_of(moments, metrics)
    if rounding > error:
        text = (
            "Columns of a view depend on each other so nearly that values may be off by "
            f"{rounding:.0e}, which the residual does not show. Add a ridge."
        )
        notes.append((Status.ILL_CONDITIONED, text))
    return notes, bool(notes)
