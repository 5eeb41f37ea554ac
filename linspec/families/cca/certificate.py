"""The certificate of canonical correlations: one pass with the returned blocks, or none where matrices are held.

The pencil is [0 C; Cᵀ 0] z = ρ S z with S = diag(Sx, Sy), and ‖ϱᵢ‖ the length of its residual in S⁻¹ (`canonical`).

1. Within ‖ϱᵢ‖/√2 of each ρᵢ there is an exact correlation (Parlett 1998, 11.5): these are the `bounds`. To second order
   a pair loses ‖ϱᵢ‖²/(2gᵢ), where gᵢ is the gap to the correlations that are left out (Parlett 11.7).
2. Where Gram matrices or a triangle are held, all correlations are computed if that is quick, and else a Krylov space
   from random columns beside the pairs searches for larger ones (`linspec.linalg.search`): nothing is missed. Elsewhere
   the random columns of the start were the search.
3. Squares hide short directions. Those that a Gram matrix has cut are multiplied once by the rows, and a large
   condition number is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from linspec.algebra import EPS, ratio
from linspec.algebra.small_matrices import raised
from linspec.algebra.unit_vectors import signs_of_columns
from linspec.arrays import Array, HostArray, to_host
from linspec.certificates import Metric, digits
from linspec.families.cca.canonical import Pairs, cross, multiplied
from linspec.iteration import Certificate
from linspec.linalg import RitzPairs, inverse, search
from linspec.process.plurals import count_of
from linspec.rows import Moments, OutOfPasses
from linspec.solving.conclusion import left_out_nearby
from linspec.solving.on_rows import constant_columns_of, fields_of_preprocessing, lost_to_preprocessing
from linspec.solving.verdict import Finding
from linspec.status import Status

TOLERATED = 10.0
"""What is missing, or an error, is said if it is above so many tolerances, or residuals."""

NEARBY = 4.0
"""What is missing is no larger correlation if it is at most so many times what the residuals explain."""

SQUARED = 1e-6
"""The error of a correlation by squaring is said above this."""

DEGENERATE, UNRESOLVED = 1e-8, 1e-4
"""A correlation within the first of 1, or within what its residual leaves open, up to the second, is said to be 1."""

QUICK = 2e7
"""Up to so many p·q·(p + q), all correlations of held matrices are computed."""

BESIDE = 8
"""Random columns of a search."""

SHORT, CUT = 8.0, 32
"""Roundings of the entries from which on a direction is no null direction; and how many are multiplied."""


def certify(problem: Any, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
    """Judge `x_weights` and `y_weights`, and make the solution's fields.

    Parameters
    ----------
    problem : CCA
    moments : Moments
    arrays : mapping
        The weights, more columns than k allowed, which are turned to canonical pairs; those of a direct method have
        their `correlations`, and the `next` one.
    tol : float
    """
    k, homes = problem.k, [A.backend.blocks for A in moments.operators]
    given = [home.place(arrays[name]) for home, name in zip(homes, ("x_weights", "y_weights"), strict=True)]
    pairs, metrics = multiplied(problem, moments, given)
    exact = all(metric.kind == "exact" for metric in metrics)
    if "correlations" in arrays:
        after = arrays.get("next")
        pairs = pairs.ordered(np.asarray(to_host(arrays["correlations"]), dtype=np.float64))
        carried = None if after is None else float(np.max(after, initial=0.0))
    else:
        pairs = pairs.canonical()
        carried = float(pairs.rho[k]) if len(pairs.rho) > k else None
    pairs = _unit(pairs.leading(k))
    squares, rho = pairs.squares(metrics) + _rounding_of_weights(problem, pairs), pairs.rho
    total = float(rho.sum())
    residual = ratio(float(squares.sum()), total)
    missing, carried = _missing(problem, moments, pairs, metrics, carried, complete="correlations" in arrays)
    findings: list[Finding] = []
    explained = 0.0 if carried is None else float(raised(rho - carried, squares / 2).sum())
    if missing > max(TOLERATED * max(tol, residual) * max(total, tol), NEARBY * explained):
        text = f"Larger correlations exist: the sum is about {missing:.1e} too small. "
        findings.append((Status.INCOMPLETE, text + 'Choose "direct" or "gram", which miss none.'))
    lost, hidden = _lost(moments, metrics), missing > 0 and bool(findings)
    findings += lost
    off = _squared(moments, metrics)
    if off > max(TOLERATED * tol, SQUARED):
        text = f"The Gram matrices have so large condition numbers that correlations may be off by {off:.0e}, which "
        text += 'the residual does not show. Choose "direct", or add a ridge.'
        findings.append((Status.ILL_CONDITIONED, text))
    within = np.sqrt(squares / 2)
    loss: float | None = None
    if carried is not None and total > 0:
        loss = max(missing, explained) / total
        if "correlations" not in arrays and loss > max(tol, TOLERATED * residual) and residual <= tol:
            findings.append(left_out_nearby(loss, residual))
        if len(rho) and rho[-1] - carried <= within[-1]:
            findings.append((None, "The span at the cut is a choice: the next correlation is as large."))
    accuracy = ""
    if len(rho):
        errors = within if carried is None else np.minimum(within, raised(rho - carried, squares / 2))
        worst = max(float(errors.max()), off, EPS * max(moments.widths))
        accuracy = f"correlations: about {digits(worst)} correct digits"
    ranks = None if not exact else (metrics[0].rank, metrics[1].rank)
    W = [moments.fitted[i].scaled(V) for i, V in enumerate(pairs.W)]
    fields: dict[str, Any] = {
        "x_weights": problem.X.home.place(W[0], problem.X.dtype),
        "y_weights": problem.Y.home.place(W[1], problem.Y.dtype),
        "correlations": rho,
        "residuals": squares,
        "bounds": _bounds(problem, moments, pairs, metrics, squares, lost=bool(lost)),
        "loss_estimate": loss,
        "ranks": ranks,
        "accuracy": accuracy,
        **_regressions(problem, moments, pairs),
        **fields_of_preprocessing(problem, moments),
    }
    findings += facts_of(problem, rho, squares, ranks, moments)
    findings += lost_to_preprocessing(problem, moments)
    findings += constant_columns_of(problem, moments, findings)
    kind = min((metric.kind for metric in metrics), key=["preconditioned", "sketched", "exact"].index)
    empty = not len(rho) and all(bool(moments.fitted[i].squares.any()) for i in (0, 1))
    if empty:
        findings.insert(0, (Status.INCOMPLETE, "Nothing is returned, although the columns of X and Y vary."))
    return Certificate(residual, tuple(findings), fields, kind, lost=bool(lost) or hidden or empty)


def _unit(pairs: Pairs) -> Pairs:
    """The pairs with weights of length 1 in S, and signs that data determine."""
    flips, turns = signs_of_columns(pairs.W[0], pairs.home), []
    for V, SV in zip(pairs.W, pairs.SW, strict=True):
        squares = to_host(pairs.home.column_sums(V * SV))
        turns.append(np.diag(flips / np.sqrt(np.where(squares > 0, squares, 1.0))))
    return pairs.turned(turns)


def _rounding_of_weights(problem: Any, pairs: Pairs) -> Any:
    """What rounding of the weights to narrow data adds to squared lengths of residuals."""
    added = np.zeros(len(pairs.rho))
    for A, V, (d, _) in zip((problem.X, problem.Y), pairs.W, pairs.noise, strict=True):
        unit = float(np.finfo(A.dtype).eps)
        if unit > EPS:
            added += unit**2 / 3 * to_host(pairs.home.column_sums(V * V * d))
    return added


def _missing(
    problem: Any,
    moments: Moments,
    pairs: Pairs,
    metrics: Sequence[Metric],
    carried: float | None,
    *,
    complete: bool,
) -> tuple[float, float | None]:
    """By how much the sum of k correlations is too small, as far as it is known, and the next correlation."""
    total, k = float(pairs.rho.sum()), problem.k
    if complete or not moments.holds or not all(metric.rank for metric in metrics):
        return 0.0, carried
    p, q = (metric.rank for metric in metrics)
    if float(p) * q * (p + q) <= QUICK:
        every = np.minimum(np.linalg.svd(to_host(cross(moments, metrics)), compute_uv=False), 1.0)
        return max(float(every[:k].sum()) - total, 0.0), float(every[k]) if len(every) > k else 0.0
    if not len(pairs.rho):
        return 0.0, carried
    (x, y), V = metrics, metrics[1].coordinates(pairs.W[1])

    def product(V: Array) -> Array:
        """TᵀT V for T = NxᵀCNy."""
        CV = moments.products(None, y.lift(V))[1][0]
        return y.dual(moments.products(x.solve(CV), None)[0][1])

    found = RitzPairs(pairs.rho**2, lambda: V, np.zeros(len(pairs.rho)), exhausted=False)
    found, _ = search(product, found, BESIDE, np.random.default_rng(0), max(problem.default_tol, EPS))
    return max(float(np.sqrt(np.maximum(found.values, 0.0)).sum()) - total, 0.0), carried


def _lost(moments: Moments, metrics: Sequence[Metric]) -> list[Finding]:
    """Directions that a Gram matrix has cut as null, although rows times them are more than rounding."""
    findings: list[Finding] = []
    if moments.held is None:
        return findings
    for i, (name, metric, A) in enumerate(zip(moments.names, metrics, moments.operators, strict=True)):
        cut = metric.null
        if not cut.shape[1]:
            continue
        if cut.shape[1] > CUT:
            cut = cut @ np.random.default_rng(0).standard_normal((cut.shape[1], CUT))
        limit = SHORT * math.sqrt(len(cut)) * A.rounding * np.linalg.norm(metric.D[:, None] * cut, axis=0)
        text = f"{name} has {count_of(metric.null.shape[1], 'direction')} so short that its Gram matrix cannot tell "
        text += "them from null directions"
        lengths = None
        with suppress(OutOfPasses):
            if moments.rereads:
                home = A.backend.blocks
                lengths = to_host(home.column_norms(moments.operator(i).matmat(home.place(cut))))
        if lengths is None:
            text += '; another pass can. Raise max_passes, choose "direct", or add a ridge.'
            findings.append((Status.ILL_CONDITIONED, text))
        elif (lengths > limit).any():
            text += ': they were left out, and correlations may be missing. Choose "direct", or add a ridge.'
            findings.append((Status.ILL_CONDITIONED, text))
    return findings


def _squared(moments: Moments, metrics: Sequence[Metric]) -> float:
    """The error of a correlation that squaring in held Gram matrices leaves."""
    if moments.held is None:
        return 0.0
    return max(
        max(A.rounding if not A.readable else EPS, moments.error_of_means(i)) / metric.least**2
        for i, (A, metric) in enumerate(zip(moments.operators, metrics, strict=True))
    )


def _bounds(
    problem: Any,
    moments: Moments,
    pairs: Pairs,
    metrics: Sequence[Metric],
    squares: HostArray,
    *,
    lost: bool,
) -> HostArray | None:
    """For each pair a distance within which there is an exact correlation; None if there is none.

    Between views of different widths [0 C; Cᵀ 0] has eigenvalues 0, which are no correlations.
    """
    above = np.full_like(squares, np.inf)
    if not lost and all(metric.kind != "preconditioned" for metric in metrics):
        above = squares
    if min(problem.ridge) > 0:
        plain = sum(to_host(pairs.home.column_sums(pairs.gap(i) ** 2)) for i in (0, 1))
        above = np.minimum(above, plain / min(problem.ridge))
    if not np.isfinite(above).all():
        return None
    within: HostArray = np.sqrt(above / 2)
    if moments.widths[0] != moments.widths[1]:
        unknown = np.maximum(pairs.rho, 1 - pairs.rho)
        within = np.where(within < pairs.rho, within, np.maximum(within, unknown))
    return within


def _regressions(problem: Any, moments: Moments, pairs: Pairs) -> dict[str, Array]:
    """Coefficients of the columns of each view on the variates of each view, by least squares without a ridge."""
    found = {}
    names, views, ridges = "xy", (problem.X, problem.Y), problem.ridge
    for i, view in enumerate(names):
        own = pairs.SW[i] - pairs.W[i] * ridges[i]
        solved = pairs.home.place(inverse(to_host(pairs.W[i].T @ own)))
        for j, name in enumerate(names):
            columns = own if i == j else pairs.CW[j]
            B = moments.fitted[j].unscaled(columns @ solved)
            found[f"{name}_from_{view}"] = views[j].home.place(B, views[j].dtype)
    return found


def facts_of(
    problem: Any, rho: HostArray, squares: HostArray, ranks: tuple[int, int] | None, moments: Moments
) -> list[Finding]:
    """What an answer says of the data: ranks, and correlations of 1."""
    found: list[Finding] = []
    if len(rho) < problem.k and not problem.every:
        text = f"{len(rho)} of the {problem.k} asked for are returned: the numerical ranks of the views allow no more "
        found.append((Status.RANK_DEFICIENT, text + "canonical pairs."))
    facts: list[Finding] = []
    for i, (name, ridge, rank) in enumerate(zip(moments.names, problem.ridge, ranks or (), strict=False)):
        columns = moments.widths[i]
        if ridge == 0 and rank < columns:
            facts.append((Status.RANK_DEFICIENT, f"{name} has numerical rank {rank} of {columns} columns."))
    rounding = 100 * float(np.finfo(problem.dtype).eps) if problem.single else DEGENERATE
    ones = int(np.sum(1 - rho <= np.maximum(rounding, np.minimum(3 * squares, UNRESOLVED))))
    if ones:
        least = "at least " if ones == problem.k else ""
        text = f"{ones} of {count_of(len(rho), 'correlation')} {'is' if ones == 1 else 'are'} 1 within their errors: "
        text += f"the views share {least}{ones} "
        facts.append((Status.DEGENERATE, f"{text}direction{'s' * (ones > 1)} exactly."))
    if facts:
        means = [1e-6 * float(np.mean(moments.fitted[i].squares)) for i in (0, 1)]
        alike = max(means) <= 10 * min(means)
        amount = f"{max(means):.1g}" if alike else f"({means[0]:.1g}, {means[1]:.1g})"
        remedy = f"A ridge of about {amount} or more moves pairs with large variance to the front; "
        remedy += "the score of other rows distinguishes them from chance."
        facts[-1] = (facts[-1][0], f"{facts[-1][1]} {remedy}")
    return [*found, *facts]
