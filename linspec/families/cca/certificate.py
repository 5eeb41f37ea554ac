"""The certificate of canonical correlations: one pass with the returned blocks, or none where matrices are held.

The pencil is [0 C; Cᵀ 0] z = ρ S z with S = diag(Sx, Sy), and ‖ϱᵢ‖ the length of its residual in S⁻¹ (`canonical`).

1. Within ‖ϱᵢ‖/√2 of each ρᵢ there is an exact correlation (Parlett 1998, 11.5): these are the `bounds`. To second order
   a pair loses ‖ϱᵢ‖²/(2gᵢ), where gᵢ is the gap to the correlations outside the block (Parlett 11.7); `risen` has the
   loss to all orders for the residuals together, which may lie in one direction.
2. Where Gram matrices or a triangle are held, all correlations are computed if that is quick, and else a Krylov space
   from random columns beside the pairs searches for larger ones (`linspec.linalg.search`): nothing is missed. Elsewhere
   the random columns of the start were the search.
3. Squares hide short directions. Those that a Gram matrix has cut are multiplied once by the rows, and a large
   condition number is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import linspec as ls
from linspec.arrays import Array, Device, HostArray, to_host
from linspec.certificates import Metric, digits, rounding_of, short_directions, weakest
from linspec.families.cca.canonical import Pairs, cross, multiplied
from linspec.iteration import Certificate
from linspec.linalg import EPS, RitzPairs, inverse, ratio, risen, search, signs_of_columns
from linspec.process.plurals import count_of
from linspec.rows import Moments
from linspec.solving.verdict import CHOICE, Finding, left_out_nearby
from linspec.status import Status

TOLERATED = 10.0
"""What is missing, or an error, is said if it is above so many tolerances, or residuals."""

NEARBY = 4.0
"""What is missing is no larger correlation if it is at most so many times what the residuals explain."""

SQUARED = 1e-6
MOST = 4.0
"""The error of a correlation by squaring is said above the first; bounds allow so many times what is expected of it."""

DEGENERATE = 1e-8
UNRESOLVED = 1e-4
"""A correlation within the first of 1, or within what its residual leaves open, up to the second, is said to be 1."""

QUICK = 2e7
"""Up to so many p·q·(p + q), all correlations of held matrices are computed."""

PLAIN = 0.1
"""A larger residual says by itself that something is missing, and nothing is searched."""

RANDOM_COLUMNS = 8
"""Random columns of a search."""


@dataclass(frozen=True)
class Certified:
    """What is known of returned pairs.

    Attributes
    ----------
    pairs : Pairs
        The k leading ones, of unit length.
    metrics : sequence of Metric
    squares : numpy.ndarray of shape (k,)
        ‖ϱᵢ‖².
    errors : numpy.ndarray of shape (k,), or None
        By how much correlations are too small; None where nothing is known of those that are left out.
    following : float, or None
        The next correlation.
    missing : float
        By how much the sum is too small because larger ones are missing.
    rounding : float
        The error of a correlation by rounding.
    searched : bool
        Whether all correlations were computed, or searched for larger ones.
    """

    pairs: Pairs
    metrics: Sequence[Metric]
    squares: HostArray
    errors: HostArray | None
    following: float | None
    missing: float
    rounding: float
    searched: bool

    @property
    def residual(self) -> float:
        """Σ‖ϱᵢ‖² / Σρᵢ."""
        return ratio(float(self.squares.sum()), float(self.pairs.rho.sum()))

    @property
    def loss(self) -> float | None:
        """The part of the sum of correlations that is missing, about."""
        return None if self.errors is None else ratio(float(self.errors.sum()), float(self.pairs.rho.sum()))

    def accuracy(self, columns: int) -> str:
        """The digits of correlations, in words."""
        if not len(self.squares):
            return ""
        within = max(metric.up for metric in self.metrics) * np.sqrt(self.squares / 2)
        errors = within if self.errors is None else np.minimum(within, self.errors)
        worst = max(float(errors.max()), self.rounding, EPS * columns)
        text = f"correlations: about {digits(worst)} correct digits"
        return text + "; searched for larger ones, found none" * (self.searched and self.missing == 0)


def certify(problem: ls.CCA, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
    """Certify `x_weights` and `y_weights`, and make the solution's fields.

    Parameters
    ----------
    problem : CCA
    moments : Moments
    arrays : mapping
        The weights, more columns than k allowed, which are turned to canonical pairs; those of a direct method have
        their `correlations`, and the `next` one.
    tol : float
    """
    certified = _certified(problem, moments, arrays, tol)
    pairs = certified.pairs
    metrics = certified.metrics
    lost = short_directions(moments, metrics, "correlations", 'Choose "direct", or add a ridge.')
    notes = [*_notes(certified, tol, held=moments.held is not None), *lost]
    kind = weakest(metrics)
    ranks = None if kind == "preconditioned" else (metrics[0].rank, metrics[1].rank)
    W = [moments.fitted[i].scaled(V) for i, V in enumerate(pairs.W)]
    views = (problem.X, problem.Y)
    coefficients = {}
    for i, view in enumerate("xy"):  # columns on the variates of each view, by least squares without a ridge
        GW = pairs.GW[i]  # type: ignore[index]  # no block has been renewed
        solved = pairs.device.asarray(inverse(to_host(pairs.W[i].T @ GW)))
        for j, name in enumerate("xy"):
            B = moments.fitted[j].unscaled((GW if i == j else pairs.CW[j]) @ solved)
            coefficients[f"{name}_from_{view}"] = views[j].device.asarray(B, views[j].dtype)
    fields: dict[str, Any] = {
        "x_weights": problem.X.device.asarray(W[0], problem.X.dtype),
        "y_weights": problem.Y.device.asarray(W[1], problem.Y.dtype),
        "correlations": pairs.rho,
        "residuals": certified.squares,
        "bounds": None if lost else _bounds(problem, moments, certified),
        "loss_estimate": certified.loss,
        "ranks": ranks,
        "accuracy": certified.accuracy(max(moments.widths)),
        **coefficients,
    }
    notes += facts_of(problem, pairs.rho, certified.squares, ranks, moments)
    empty = not len(pairs.rho) and _is_correlated(moments)
    if empty:
        notes.insert(0, (Status.INCOMPLETE, "Nothing is returned, although the columns of X and Y vary."))
    misses = Status.INCOMPLETE in dict(notes)
    residual = 1.0 if empty else certified.residual
    return Certificate(residual, tuple(notes), fields, kind, lost=bool(lost) or misses)


def _certified(problem: ls.CCA, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certified:
    """Turn the weights of a solver to canonical pairs, and measure them."""
    k = problem.k
    devices = [A.device.blocks for A in moments.operators]
    weights = [
        device.asarray(arrays[name]) for device, name in zip(devices, ("x_weights", "y_weights"), strict=True)
    ]
    pairs, metrics = multiplied(problem, moments, weights)
    errors = None
    following = None
    missing = 0.0
    computed = "correlations" in arrays
    if computed:
        pairs = pairs.ordered(np.asarray(to_host(arrays["correlations"]), dtype=np.float64))
        following = float(np.max(arrays["next"], initial=0.0)) if "next" in arrays else None
        errors = None if following is None else 0.0 * pairs.rho[:k]
    else:
        pairs = pairs.canonical()
        if len(pairs.rho) > k:
            following = float(pairs.rho[k])
            errors = _raised(pairs, metrics, float(pairs.rho[-1]))[:k]
        elif len(pairs.rho) == min(moments.widths):  # there are no others
            errors = _raised(pairs, metrics, 0.0)
    pairs = _unit(pairs.leading(k))
    squares = pairs.squares(metrics) + _rounding_of_weights(problem, pairs)
    every = None
    total = float(pairs.rho.sum())
    exact = weakest(metrics) == "exact"
    residual = ratio(float(squares.sum()), total)
    explained = 0.0 if errors is None else float(errors.sum())
    searched = moments.holds and exact and not computed and residual <= PLAIN
    p, q = (float(metric.rank) for metric in metrics)
    if searched and (p * q * (p + q) <= QUICK or moments.complete):
        every = np.minimum(np.linalg.svd(to_host(cross(moments, metrics)), compute_uv=False), 1.0)
    if every is not None:
        following = float(every[k]) if len(every) > k else 0.0
        missing = float(every[:k].sum()) - total
        errors = np.maximum(every[: len(squares)] - pairs.rho, 0.0)
    elif searched and len(pairs.rho):
        missing = _missing(problem, moments, pairs, metrics)
    within = float(np.sqrt(squares / 2).sum())  # near each of these correlations there is an exact one
    if missing <= max(TOLERATED * max(tol * max(total, tol), within), NEARBY * explained):
        missing = 0.0
    rounding = rounding_of(moments, metrics)
    return Certified(pairs, metrics, squares, errors, following, missing, rounding, searched or computed)


def _is_correlated(moments: Moments) -> bool:
    """Whether XᵀY is more than rounding."""
    C = moments.cross()
    size = math.prod(math.sqrt(float(fitted.squares.sum())) for fitted in moments.fitted.values())
    return float(Device.of(C).norm(C)) > moments.noise * size


def _raised(pairs: Pairs, metrics: Sequence[Metric], outside: float) -> HostArray:
    """By how much correlations grow if the blocks do by their residuals, and all beside are at most `outside`."""
    duals = [metric.dual(pairs.gap(i)) for i, metric in enumerate(metrics)]
    coupled = to_host(duals[0].T @ duals[0] + duals[1].T @ duals[1]) / 2
    return np.clip(risen(pairs.rho, coupled, outside), pairs.rho, 1.0) - pairs.rho


def _notes(certified: Certified, tol: float, *, held: bool) -> list[Finding]:
    """What is said of pairs that are missing, of those near the cut, and of squares."""
    notes: list[Finding] = []
    rho, loss = certified.pairs.rho, certified.loss
    if certified.missing:
        text = f"Larger correlations exist: the sum is about {certified.missing:.1e} too small. "
        notes.append((Status.INCOMPLETE, text + 'Choose "direct" or "gram", which miss none.'))
    elif loss is not None and certified.residual <= tol < loss and loss > TOLERATED * certified.residual:
        notes.append(left_out_nearby(loss, certified.residual))
    if held and certified.rounding > max(tol, SQUARED):
        text = "The Gram matrices have so large condition numbers that correlations may be off by "
        text += (
            f'{certified.rounding:.0e}, which the residual does not show. Choose "direct", or add a ridge.'
        )
        notes.append((Status.ILL_CONDITIONED, text))
    if certified.following is not None and len(rho):
        error = max(math.sqrt(certified.squares[-1] / 2), certified.rounding)
        if rho[-1] - certified.following <= error:
            notes.append((None, CHOICE))
    return notes


def _unit(pairs: Pairs) -> Pairs:
    """The pairs with weights of length 1 in S, signs that data determine, and correlations of at most 1."""
    flips, turns = signs_of_columns(pairs.W[0], pairs.device), []
    for V, SV in zip(pairs.W, pairs.SW, strict=True):
        squares = to_host(pairs.device.column_sums(V * SV))
        turns.append(np.diag(flips / np.sqrt(np.where(squares > 0, squares, 1.0))))
    return replace(pairs.turned(turns), rho=np.minimum(pairs.rho, 1.0))


def _rounding_of_weights(problem: ls.CCA, pairs: Pairs) -> Any:
    """What rounding of the weights to narrow data adds to squared lengths of residuals."""
    added = np.zeros(len(pairs.rho))
    for A, V, (d, _) in zip((problem.X, problem.Y), pairs.W, pairs.noise, strict=True):
        unit = float(np.finfo(A.dtype).eps)
        if unit > EPS:
            added += unit**2 / 3 * to_host(pairs.device.column_sums(V * V * d))
    return added


def _missing(problem: ls.CCA, moments: Moments, pairs: Pairs, metrics: Sequence[Metric]) -> float:
    """By how much the sum of correlations is too small, by a search in what is held."""
    (x, y), V = metrics, metrics[1].coordinates(pairs.W[1])

    def product(V: Array) -> Array:
        """TᵀT V for T = NxᵀCNy."""
        CV = moments.products(None, y.lift(V))[1][0]
        return y.dual(moments.products(x.solve(CV), None)[0][1])

    ritz = RitzPairs(pairs.rho**2, lambda: V, np.zeros(len(pairs.rho)), exhausted=False)
    ritz, _ = search(product, ritz, RANDOM_COLUMNS, np.random.default_rng(0), max(problem.default_tol, EPS))
    return float(np.sqrt(np.maximum(ritz.values, 0.0)).sum() - pairs.rho.sum())


def _bounds(problem: ls.CCA, moments: Moments, certified: Certified) -> HostArray | None:
    """For each pair a distance within which there is an exact correlation; None if there is none.

    Between views of different widths [0 C; Cᵀ 0] has eigenvalues 0, which are no correlations.
    """
    pairs, above = certified.pairs, np.full_like(certified.squares, np.inf)
    if weakest(certified.metrics) != "preconditioned":
        above = certified.squares * max(metric.up for metric in certified.metrics) ** 2
    if min(problem.ridge) > 0:
        plain = sum(to_host(pairs.device.column_sums(pairs.gap(i) ** 2)) for i in (0, 1))
        above = np.minimum(above, plain / min(problem.ridge))
    if not np.isfinite(above).all():
        return None
    within: HostArray = np.sqrt(above / 2) + MOST * certified.rounding
    if moments.widths[0] != moments.widths[1]:
        unknown = np.maximum(pairs.rho, 1 - pairs.rho)
        within = np.where(within < pairs.rho, within, np.maximum(within, unknown))
    return within


def facts_of(
    problem: ls.CCA, rho: HostArray, squares: HostArray, ranks: tuple[int, int] | None, moments: Moments
) -> list[Finding]:
    """What an answer says of the data: ranks, and correlations of 1."""
    notes: list[Finding] = []
    if len(rho) < problem.k and not problem.every:
        text = (
            f"{len(rho)} of the {problem.k} asked for are returned: the numerical ranks of the views allow "
        )
        if len(rho) and ranks is not None and min(ranks) > len(rho):
            notes.append(
                (None, text + "more canonical pairs, whose correlations are 0, or which were not found.")
            )
        else:
            notes.append((Status.RANK_DEFICIENT, text + "no more canonical pairs."))
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
        amounts = ", ".join(f"{1e-6 * float(np.mean(moments.fitted[i].squares)):.1g}" for i in (0, 1))
        remedy = f"A ridge of about ({amounts}) or more moves pairs with large variance to the front; "
        remedy += "the score of other rows distinguishes them from chance."
        facts[-1] = (facts[-1][0], f"{facts[-1][1]} {remedy}")
    return [*notes, *facts]
