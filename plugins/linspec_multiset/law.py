"""The law of multiset CCA: the components within the span of a solver's weights, their residual, and what is missing.

Problem: are the returned w solutions of A w = λ B w, and are they the leading ones?
Method: one sweep multiplies the weights, and beside them probes of each view. These are all unit vectors where a view
has few columns, else random signs; no probe is needed where Gram matrices are held.

- The components are the Rayleigh-Ritz pairs within the span of the stacked weights.
- Their residual is measured in the norm of B⁻¹: by factors of the Gram matrices where these are known, else by the
  norms of the solver, or by preconditioners from the probes. The products of Sᵢ⁻¹ϱ, for the residuals ϱ that the
  solver has, make such a norm sharper (`linspec.algebra.SketchNorm.lengths`).
- Where all Gram matrices are known and small, the exact eigenvalues show what is missing. Otherwise the Ritz values
  within the weights and the probes do, if they are larger: they are never above the exact values.
- Squares in a Gram matrix lose digits. One product with the directions that were cut as null shows whether their images
  are more than rounding.

Source: Parlett 1998, The symmetric eigenvalue problem, sections 10 and 11; Kettenring 1971 for the pencil.
Where we differ: a subspace of each view is used for the search, not the stacked probes (`linspec_multiset.subspaces`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec import Conclusion, Moments, Status
from linspec.algebra import (
    SMALL,
    FactorNorm,
    InverseNorm,
    SketchNorm,
    Whitener,
    eigenpairs,
    has_short_directions,
    leading_eigenpairs,
    metric_rounding,
    preconditioner_from_sketch,
    raised_diagonal,
    ratio,
    signs_of_columns,
    squared_cut,
    unit_columns,
    whitening_above_noise,
)
from linspec.arrays import Array, HostArray, to_host
from linspec.cost import DENSE_RATE, SPARSE_RATE
from linspec.moments import Basis
from linspec.solving import Terms
from linspec_multiset.absent import Blocks, bases_of, cross_blocks
from linspec_multiset.pencil import Pencil, whitened_matrix
from linspec_multiset.subspaces import Subspaces, joined

SKETCH, SEARCH = 50, 10
"""Random columns beyond k, from which a preconditioner is made; and columns where the solver's norms are known."""

MOMENT = 0.1
"""Seconds. If the product with all unit vectors of a view takes less, they are its probe."""

TOLERATED = 10.0
"""An eigenvalue counts as missing if it is larger than the returned one by this multiple of the tolerance or of the
residual, whichever is larger, times λ₁."""

AGREED = 1e-8
"""Views agree completely if λ is within this fraction of its upper limit."""

DIGITS_LOST = 1e-8
"""Limit of the rounding of products, times a lower bound of a condition number, above which the answer says so."""


def judged(
    problem: Any,
    moments: Moments,
    terms: Terms,
    weights: Sequence[Array],
    norms: Sequence[InverseNorm] | None,
    residuals: Sequence[Array] | None,
) -> Conclusion:
    """Compute the answer from the weights that a solver passes; see `MultisetCCA.conclude`."""
    directions = (
        None
        if norms is None or residuals is None
        else [unit_columns(norm.solve(R), moments.home) for norm, R in zip(norms, residuals, strict=True)]
    )
    products = _Products.of(problem, moments, weights, directions, known=norms is not None)
    grams = _Grams.of(problem, moments, products)
    norms = grams.norms(products, norms)
    pencil, home = products.pencil, moments.home
    values, bases = _within_span(pencil, products.own, problem.k)
    above = problem.noise(moments) * sum(problem.view_weights)
    count = int(np.sum(values > above))
    values, bases = values[:count], [basis[:count] for basis in bases]
    bases = [_without_null_part(basis, norm) for basis, norm in zip(bases, norms, strict=True)]
    signs = home.place(signs_of_columns(bases[0].V, home))[None, :]
    gaps = pencil.shifted_image(bases, home.place(values)[None, :])
    squares = np.zeros(count)
    for norm, gap, Z, weight in zip(norms, gaps, products.directions, pencil.weights, strict=True):
        squares = squares + norm.lengths(gap, Z.V, Z.SV) / weight
    first = float(values[0]) if count else 0.0
    residual = ratio(float(np.sqrt(np.max(squares, initial=0.0))), first)
    exact = all(norm.kind == "exact" for norm in norms)
    findings, lost = _findings(problem, moments, terms, products, grams, values, residual)
    conclusion: Conclusion = problem.concluded(
        moments,
        residual,
        findings=tuple(findings),
        missing="components above rounding",
        kind="exact" if exact else "preconditioned",
        lost=lost,
        weights=tuple(basis.V * signs for basis in bases),
        eigenvalues=values,
        agreement=values * np.array([to_host(home.column_sums(basis.V * basis.SV)) for basis in bases]),
    )
    return conclusion


def _within_span(pencil: Pencil, bases: Sequence[Basis], k: int) -> tuple[HostArray, list[Basis]]:
    """Return the k leading Ritz values within the span of stacked weights, and the Ritz vectors with products."""
    images, metrics = pencil.shifted_image(bases, 0.0), pencil.metric_image(bases)
    m = bases[0].V.shape[1]
    H, G, D = np.zeros((m, m)), np.zeros((m, m)), np.zeros((m, m))
    for basis, AV, BV, d, weight in zip(
        bases, images, metrics, pencil.diagonals, pencil.weights, strict=True
    ):
        V = basis.V
        H, G = H + to_host(V.T @ AV), G + to_host(V.T @ BV)
        D = D + to_host(V.T @ (V * d[:, None])) * weight
    T = whitening_above_noise((G + G.T) / 2, (D + D.T) / 2, max(pencil.cuts))
    values, U = eigenpairs(T.T @ (H + H.T) @ T / 2)
    turn = pencil.home.place(np.ascontiguousarray((T @ U[:, ::-1])[:, :k]))
    return values[::-1][:k].copy(), [basis @ turn for basis in bases]


def _without_null_part(basis: Basis, norm: InverseNorm) -> Basis:
    """Remove the part of weights along directions that the factor has cut as null; no product changes."""
    if isinstance(norm, FactorNorm) and norm.factor.cut is not None:
        return replace(basis, V=norm.solve(basis.SV))
    return basis


# ---- products -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Products:
    """Products of the weights, and of the probes beside them, from one sweep.

    Attributes
    ----------
    pencil : Pencil
    own, directions, beside : list of Basis
        Of the weights; of Sᵢ⁻¹ times the residuals of the solver, if it has passed them; and of the probes.
    whole : tuple of bool
        Whether the probes of a view are all unit vectors.
    """

    pencil: Pencil
    own: list[Basis]
    directions: list[Basis]
    beside: list[Basis]
    whole: tuple[bool, ...]

    @classmethod
    def of(
        cls,
        problem: Any,
        moments: Moments,
        weights: Sequence[Array],
        directions: Sequence[Array] | None,
        *,
        known: bool,
    ) -> _Products:
        """Multiply weights, directions and probes."""
        home, ridges = moments.home, problem.ridge
        W = [home.place(V) for V in weights]
        if directions is None or moments.form == "dense":
            directions = [V[:, :0] for V in W]
        probes = [_probe(problem, moments, i, known=known) for i in range(len(W))]
        blocks = [home.concat(list(parts)) for parts in zip(W, directions, probes, strict=True)]
        bases = bases_of(moments, ridges, blocks)
        m = int(W[0].shape[1])
        j = m + int(directions[0].shape[1])
        del blocks
        whole = tuple(0 < E.shape[0] == E.shape[1] for E in probes)
        diagonals = []
        for i, r in enumerate(ridges):
            probe = bases[i][j:]
            if whole[i]:
                diagonals.append(home.xp.linalg.diagonal(probe.SV) + 0.0)
            elif moments.form == "implicit" and not moments.columns.exact and probe.V.shape[1]:
                diagonals.append(raised_diagonal(probe.V, probe.SV, r, home) + r)
            else:
                diagonals.append(moments.diagonal()[i] + r)
        cuts = tuple(metric_rounding(A.shape[1], A.dtype) for A in problem.views)
        pencil = Pencil(home, tuple(ridges), problem.view_weights, tuple(diagonals), cuts)
        own, found, beside = (
            [basis[columns] for basis in bases] for columns in (slice(m), slice(m, j), slice(j, None))
        )
        return cls(pencil, own, found, beside, whole)


def _probe(problem: Any, moments: Moments, i: int, *, known: bool) -> Array:
    """Return the columns that are multiplied beside the weights of view i."""
    A, home = problem.views[i], moments.home
    p = int(A.shape[1])
    if moments.form == "dense":
        return home.zeros((p, 0))
    rate = SPARSE_RATE if A.nnz < A.shape[0] * p else DENSE_RATE
    cheap = 2.0 * A.nnz * (len(problem.views) + 1) * p < MOMENT * rate
    if p <= 2 * problem.k + SKETCH or cheap:
        return home.eye(p)
    count = SEARCH if known else problem.k + SKETCH
    signs = np.random.default_rng([p, count, i]).integers(0, 2, (p, count)) * 2.0 - 1.0
    return home.place(signs)


# ---- Gram matrices, as far as they are known ----------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Grams:
    """Factors of the Gram matrices that are known.

    Attributes
    ----------
    factors : list of Whitener or None
    blocks : dict, optional
        The blocks of A (`linspec_multiset.absent.Blocks`), if all Gram matrices are known.
    """

    factors: list[Any]
    blocks: Blocks | None

    @classmethod
    def of(cls, problem: Any, moments: Moments, products: _Products) -> _Grams:
        """Factor the Gram matrices that are held, or whose products with all unit vectors are known."""
        count, home = len(problem.views), moments.home
        if moments.form == "dense":
            return cls([moments.whitener(i, r) for i, r in enumerate(problem.ridge)], cross_blocks(moments))
        found = list[Any]()
        for i, (A, r) in enumerate(zip(problem.views, problem.ridge, strict=True)):
            if not products.whole[i]:
                found.append(None)
                continue
            S = moments.direct.gram_by_identity(i, products.beside[i].SV - home.eye(A.shape[1]) * r)
            noise = metric_rounding(A.shape[1], A.dtype)
            cut = max(squared_cut(A), noise if moments.rounding > np.finfo(np.float64).eps else 0.0)
            found.append(Whitener(S, r, cut, home, noise if A.dtype == np.float32 else 0.0))
        if not all(products.whole):
            return cls(found, None)
        bases = products.beside
        blocks = {(i, j): bases[j].CV[i] for i in range(count) for j in range(i, count)}
        return cls(found, {key: C for key, C in blocks.items() if C is not None})

    def norms(self, products: _Products, given: Sequence[InverseNorm] | None) -> list[InverseNorm]:
        """Return the norm of each Sᵢ⁻¹: exact where there is a factor, else as given, or from the probes."""
        pencil, found = products.pencil, list[InverseNorm]()
        for i, factor in enumerate(self.factors):
            home, r, probe = pencil.home, pencil.ridges[i], products.beside[i]
            if factor is not None:
                found.append(FactorNorm(factor, home))
            elif given is not None:
                found.append(given[i])
            else:
                P = preconditioner_from_sketch(probe.V, probe.SV, r, pencil.diagonals[i] - r, None, home)
                found.append(SketchNorm(P, r, home))
        return found


# ---- what may be missing ------------------------------------------------------------------------


def _findings(
    problem: Any,
    moments: Moments,
    terms: Terms,
    products: _Products,
    grams: _Grams,
    values: HostArray,
    residual: float,
) -> tuple[list[tuple[Status, str]], bool]:
    """Return what the residual does not show, and whether components or directions are missing."""
    found, lost = list[tuple[Status, str]](), False
    larger, digits = _larger_values(problem, products, grams)
    size = min(len(larger), problem.k)
    padded = np.concatenate([values, np.zeros(max(size - len(values), 0))])[:size]
    gap = float(np.max(larger[:size] - padded, initial=0.0))
    first = max(float(np.max(larger, initial=0.0)), 1e-300)
    if gap > TOLERATED * max(terms.tol, residual, problem.noise(moments)) * first:
        text = f"A component is missing: an eigenvalue is larger than the returned one by at least {gap:.1e}. Choose "
        found.append((Status.INCOMPLETE, text + '"gram", another seed, or more columns in the block.'))
        lost = True
    of_factors, short = lost_by_factors(problem, moments, terms, grams.factors, residual, digits)
    found, lost = found + of_factors, lost or short
    limit = sum(problem.view_weights)
    if not any(problem.ridge) and len(values) and values[0] >= limit * (1 - AGREED):
        text = "All views agree completely on some components, as chance alone makes them do where there are few rows. "
        found.append((Status.DEGENERATE, text + "Add a ridge to distinguish real agreement from chance."))
    return found, lost


def _larger_values(problem: Any, products: _Products, grams: _Grams) -> tuple[HostArray, float]:
    """Return lower bounds of the leading eigenvalues, exact where Gram matrices are small, and the digits lost."""
    pencil = products.pencil
    if grams.blocks is not None and sum(factor.rank for factor in grams.factors) <= 2 * SMALL:
        M = whitened_matrix(grams.factors, pencil.weights, grams.blocks)
        if not len(M):
            return np.zeros(0), 0.0
        return leading_eigenpairs(M, min(problem.k, len(M)))[0][::-1], 0.0
    parts = zip(products.own, products.directions, products.beside, strict=True)
    space = Subspaces.of(pencil, [joined((own, Z, probe[:SEARCH]), pencil) for own, Z, probe in parts])
    unit = max(float(np.finfo(A.dtype).eps) for A in problem.views)
    digits = space.longest * unit
    return space.values[: problem.k], digits if digits > DIGITS_LOST else 0.0


def lost_by_factors(
    problem: Any,
    moments: Any,
    terms: Terms,
    factors: Sequence[Any],
    residual: float,
    digits: float = 0.0,
) -> tuple[list[tuple[Status, str]], bool]:
    """Return findings on directions that factors have cut, and on digits that they lose; and whether there are any.

    `digits` are those that are lost beside the factors. Views whose factor is None are not looked at.
    """
    found = list[tuple[Status, str]]()
    hidden, unknown = _hidden(problem, moments, terms, factors)
    if hidden:
        text = f"{hidden} has directions so short that squaring may hide them. They were left out, and components may "
        found.append((Status.ILL_CONDITIONED, text + "be missing. Add a ridge."))
    elif unknown:
        text = f"Combinations of the columns of {unknown} are zero up to the rounding of the Gram matrix, and no pass "
        text += "is left to see whether they are more than rounding. Add a ridge."
        found.append((Status.ILL_CONDITIONED, text))
    condition = max((factor.condition for factor in factors if factor is not None), default=1.0)
    rounding = max(condition * moments.rounding, digits)
    if rounding > max(terms.tol, residual):
        text = "Columns of a view depend on each other so nearly that values may be off by "
        text += f"{rounding:.0e}, which the residual does not show. Add a ridge."
        found.append((Status.ILL_CONDITIONED, text))
    return found, bool(found)


def _hidden(problem: Any, moments: Any, terms: Terms, factors: Sequence[Any]) -> tuple[str, str]:
    """Return the names of views whose omitted directions are more than rounding, and of those not looked at."""
    hidden, unknown, left = list[str](), list[str](), terms.passes_left
    for i, (name, factor) in enumerate(zip(problem.matrices, factors, strict=True)):
        if factor is None or factor.cut is None or problem.ridge[i] > 0:
            continue
        if left < 1:
            unknown.append(name)
            continue
        left -= 1
        if has_short_directions(moments, i, factor):
            hidden.append(name)
    return " and ".join(hidden), " and ".join(unknown)
