"""The correlation captured: by given weights, in total or pair by pair, and on rows that are held out.

Method: one pass multiplies the weights of all pairs of blocks by Sx, Sy and C (`Pairs`); the rest is k x k algebra.

Problem: score all ridges and all k of one split from second moments of its training rows and of its held-out rows.
Method: Sx = UΛUᵀ and Sy = VMVᵀ are decomposed once. For each pair of ridges the leading singular triplets of (Λ +
rx)^(-1/2) UᵀCV (M + ry)^(-1/2) give the weights of the largest k; the leading columns of these are the weights of every
smaller k. The Gram matrix of the held-out variates about the training means gives the correlations.
Source: the scores are those of `linspec.families.cca.variates`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import linspec as ls
from linspec.arrays import HOST, Array, HostArray, host_dtype, to_host
from linspec.errors import InvalidProblem
from linspec.families.cca.canonical import Pairs
from linspec.families.cca.problem import CCA, CCASolution
from linspec.families.cca.variates import captured, componentwise, cosines
from linspec.linalg.small_matrices import EPS, leading_svd, whitening
from linspec.rows import Passes
from linspec.solving.checks import finite_block
from linspec.solving.on_rows import moments_of
from linspec.studies.held_out.grams import Split
from linspec.studies.held_out.scores import FEWEST, HeldOutScore, RidgeMetric, Rounded, still, weighted_rows


def tcc(X: Any, Y: Any, x_weights: Any, y_weights: Any, *, ridge: Any = 0.0, center: Any = False) -> float:
    """Compute the total correlation captured: the sum of the canonical correlations of XΦ and YΨ.

    Let Sx = XᵀX + rx·I, Sy = YᵀY + ry·I and C = XᵀY. The score is the sum of the singular values of
    (ΦᵀSxΦ)^(-1/2) ΦᵀCΨ (ΨᵀSyΨ)^(-1/2). This is the largest sum of the correlations of column i of XΦA with column i
    of YΨB, over all matrices A and B for which ΦA is orthonormal in Sx and ΨB is orthonormal in Sy. The score is
    between 0 and k.

    Parameters
    ----------
    X : data of shape (n, p), or Moments
        Anything `linspec.as_operator` accepts. Moments of two views replace both of them; Y is then None.
    Y : data of shape (n, q)
    x_weights, y_weights : array of shape (p, k), (q, k)
        Φ and Ψ; a one-dimensional array is one column. Linearly dependent columns add nothing.
    ridge : float or pair of floats, default 0.0
        The ridges rx and ry of the score. With 0, the score is a sum of ordinary correlations. The exact solution of
        a CCA with ridges (rx, ry) has the largest score with these ridges; with other ridges, other weights may
        have a larger score.
    center : bool, default False
        Whether to subtract the column means of these rows. `CCASolution.score` subtracts those of the training rows.

    Returns
    -------
    float

    Raises
    ------
    InvalidProblem
        If shapes do not fit or a ridge is negative.
    NonFiniteData
        If the weights or the data contain NaN or infinity.

    Notes
    -----
    The score takes one pass over the data.

    Directions that are only rounding add nothing to the score. To find them, the columns of XΦ (and of YΨ) are scaled
    to length 1, where lengths are measured by Sx (by Sy). A combination of the scaled columns with a unit vector of
    coefficients is neglected if its squared length is at most k·u times the largest such squared length. u is
    1.2e-7 for float32 data and 2.2e-16 for float64 data, but 1.4e-14 for float64 data with float32 weights.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((200, 6)), rng.standard_normal((200, 5))
    >>> Y[:, 0] += X[:, 0]
    >>> solution = ls.solve(ls.CCA(X, Y, k=2, center=False))
    >>> total = ls.metrics.tcc(X, Y, solution.x_weights, solution.y_weights)
    >>> bool(np.isclose(total, solution.correlations.sum()))
    True
    """
    (pairs,), cut = _multiplied(X, Y, [(x_weights, y_weights)], ridge, center)
    return _total(pairs, cut)


def pcc(
    X: Any,
    Y: Any,
    x_weights: Any,
    y_weights: Any,
    reference: Any,
    *,
    ridge: Any = 0.0,
    center: Any = False,
) -> float:
    """Compute the proportion of correlation captured: `tcc` divided by `tcc` of reference weights on the same rows.

    Parameters
    ----------
    X, Y, x_weights, y_weights, ridge, center
        As for `tcc`.
    reference : CCASolution or pair of arrays
        Usually the exact solution of CCA(X, Y), or its weights of shapes (p, k') and (q, k').

    Returns
    -------
    float
        1 if the weights capture as much as the reference. More than 1 is possible if the reference does not maximise
        this score: on other rows, or with another ridge than that of its problem.

    Raises
    ------
    InvalidProblem
        As for `tcc`; also if `tcc` of the reference is 0 on these rows.
    NonFiniteData
        As for `tcc`.

    Notes
    -----
    Both scores come from the same pass.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((200, 6)), rng.standard_normal((200, 5))
    >>> Y[:, 0] += X[:, 0]
    >>> solution = ls.solve(ls.CCA(X, Y, k=2, center=False))
    >>> exact = solution.x_weights, solution.y_weights
    >>> round(ls.metrics.pcc(X, Y, *exact, exact), 6)
    1.0
    """
    if isinstance(reference, CCASolution):
        reference = (reference.x_weights, reference.y_weights)
    if not isinstance(reference, tuple | list) or len(reference) != 2:
        raise InvalidProblem(
            "reference must be a CCASolution or a pair (x_weights, y_weights); got "
            f"{type(reference).__name__}."
        )
    both = [(x_weights, y_weights), tuple(reference)]
    every, cut = _multiplied(X, Y, both, ridge, center)
    total, best = (_total(pairs, cut) for pairs in every)
    if best == 0:
        raise InvalidProblem(
            "the reference captures no correlation on these rows, so a proportion of it is not defined. Pass "
            "the weights of a solver that finds some."
        )
    return total / best


def correlations(
    X: Any, Y: Any, x_weights: Any, y_weights: Any, *, ridge: Any = 0.0, center: Any = False
) -> HostArray:
    """Compute the correlation of each pair of columns, φᵢᵀCψᵢ / √(φᵢᵀSxφᵢ · ψᵢᵀSyψᵢ), without rotation.

    Unlike `tcc` it depends on the rotation of the columns, so it measures each component by itself.

    Parameters
    ----------
    X, Y, x_weights, y_weights, ridge, center
        As for `tcc`.

    Returns
    -------
    numpy.ndarray of shape (k,)
        In the order of the columns, between -1 and 1; 0 if a column of XΦ or YΨ is zero.

    Raises
    ------
    InvalidProblem, NonFiniteData
        As for `tcc`.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((200, 6)), rng.standard_normal((200, 5))
    >>> Y[:, 0] += X[:, 0]
    >>> solution = ls.solve(ls.CCA(X, Y, k=2, center=False))
    >>> held = ls.metrics.correlations(X, Y, solution.x_weights, solution.y_weights)
    >>> bool(np.allclose(held, solution.correlations))
    True
    """
    (pairs,), _ = _multiplied(X, Y, [(x_weights, y_weights)], ridge, center)
    (phi, psi), (Sphi, Spsi), (Cpsi, _) = pairs.W, pairs.SW, pairs.CW
    products = phi * Sphi, psi * Spsi, phi * Cpsi
    return cosines(*(to_host(pairs.device.column_sums(product)) for product in products))


def _multiplied(
    X: Any, Y: Any, blocks: Sequence[tuple[Any, Any]], ridge: Any, center: Any
) -> tuple[list[Pairs], float]:
    """Multiply pairs of blocks of weights, all in one pass; also the share of a squared length that is rounding."""
    problem = CCA(X, Y, k=1, ridge=ridge, center=center)
    checked = [_checked(problem, pair, "reference " * (i > 0)) for i, pair in enumerate(blocks)]
    rounded = max(float(np.finfo(host_dtype(W)).eps) for pair in checked for W in pair)
    # products with float32 rows have float32 accuracy; the rounding of weights is squared in squared lengths
    cut = max(EPS, rounded**2, float(np.finfo(problem.dtype).eps))
    moments = moments_of(problem, Passes())
    device = moments.device
    W = [device.concat([device.asarray(pair[i]) for pair in checked]) for i in (0, 1)]
    pairs = Pairs.of(moments, problem.ridge, W)
    edges = np.cumsum([0, *(phi.shape[1] for phi, _ in checked)])
    columns = np.split(np.eye(edges[-1]), edges[1:-1], axis=1)
    return [pairs.turned((chosen, chosen)) for chosen in columns], cut


def _total(pairs: Pairs, cut: float) -> float:
    """The sum of the canonical correlations of XΦ and YΨ; the second whitening removes the errors of the first."""
    turns = [whitening(to_host(V.T @ SV), cut) for V, SV in zip(pairs.W, pairs.SW, strict=True)]
    return float(pairs.turned(turns).canonical().rho.sum())


def _checked(problem: CCA, pair: tuple[Any, Any], words: str) -> tuple[Array, Array]:
    """Check that both blocks of weights fit the data and each other; return them as two-dimensional arrays."""
    names = [f"{words}{field}" for field in ("x_weights", "y_weights")]
    phi, psi = (finite_block(W, name) for W, name in zip(pair, names, strict=True))
    for W, (view, A), name in zip((phi, psi), problem.matrices.items(), names, strict=True):
        if W.shape[0] != A.shape[1]:
            raise InvalidProblem(
                f"{name} must have a row for each of the {A.shape[1]} columns of {view}; got shape {tuple(W.shape)}."
            )
    if phi.shape[1] != psi.shape[1]:
        raise InvalidProblem(
            f"{names[0]} and {names[1]} must have equally many columns; got {phi.shape[1]} and "
            f"{psi.shape[1]}. Pass equally many of both."
        )
    return phi, psi


TIED = 1 - 1e-6
"""Correlations with this quotient are equal: which of them is returned is a choice, and so is its score."""


class TotalCaptured(HeldOutScore):
    """Total correlation captured by k pairs of variates: `total` of `CCASolution.score`.

    The score is the sum of the canonical correlations between the k variates of X and the k variates of Y on the
    held-out rows. The variates are rotated so that this sum is largest on these rows, so the sum cannot decrease with
    k: every further pair adds something, even if only by chance.
    """

    label = "total correlation captured"

    def of_moments(
        self, problem: ls.CCA, split: Split, ridges: Sequence[Any], ks: Sequence[int | None]
    ) -> Rounded:
        X, Y = (RidgeMetric(problem, split, name) for name in problem.matrices)
        C = split.training["X", "Y"]
        most = max(k or 1 for k in ks)
        rows = split.held_out.rows
        scores, rounding = np.zeros((2, len(ridges), len(ks)))
        for i, (rx, ry) in enumerate(ridges):
            Bx = X.inverse_root(rx)
            By = Y.inverse_root(ry)
            U, rho, V = Bx[:0].T, np.zeros(0), By[:0].T
            if Bx.shape[1] and By.shape[1]:
                U, rho, V = leading_svd(Bx.T @ C @ By, most + 1, HOST)
            both = split.images([{"X": Bx @ U[:, :most]}, {"Y": By @ V[:, :most]}])
            G = both.spread + np.outer(both.means * both.count, both.means)
            scores[i] = self._scored(problem, G, both.means, both.count, rows, ks)
            lost = both.share_lost.reshape(2, -1).sum(axis=0)
            condition = X.condition(rx) + Y.condition(ry)
            rounding[i] = [
                math.inf
                if k and k < len(rho) and rho[k] > TIED * rho[k - 1]
                else split.rounding * condition + lost[:k].sum()
                for k in ks
            ]
        return Rounded(scores, rounding / np.maximum(np.abs(scores), 1.0))

    def of_solution(self, problem: Any, solution: Any, ks: Sequence[int | None]) -> HostArray:
        variates = solution.transform(problem.X, problem.Y, confounds=problem.confounds)
        (P, w), (Q, _) = (weighted_rows(V, problem) for V in variates)
        Z = np.hstack([P, Q])
        count = float(w.sum())
        rows = int(np.count_nonzero(w))
        return self._scored(problem, Z.T @ (Z * w[:, None]), w @ Z / count, count, rows, ks)

    def _scored(
        self,
        problem: ls.CCA,
        G: HostArray,
        means: HostArray,
        count: float,
        rows: int,
        ks: Sequence[int | None],
    ) -> HostArray:
        """Score each k from the Gram matrix of all variates of X and Y; NaN for rows that say nothing about them."""
        constant = still(np.diag(G), means, count, rows) & bool(problem.center)
        G = G * np.outer(~constant, ~constant)
        pairs = len(G) // 2
        scores = np.zeros(len(ks))
        if rows < FEWEST:
            return np.full(len(ks), np.nan)
        for j, k in enumerate(ks):
            first = np.arange(pairs if k is None else min(k, pairs))
            some = np.concatenate([first, pairs + first])
            if len(first):
                scores[j] = self._of(G[np.ix_(some, some)], constant[some].reshape(2, -1))
        return scores

    def _of(self, G: HostArray, constant: HostArray) -> float:
        return math.nan if constant.all(axis=1).any() else captured(G)


class SumOfCorrelations(TotalCaptured):
    """The sum of the signed correlations of the pairs, without rotation; chance does not change it on average."""

    label = "sum of correlations"

    def _of(self, G: HostArray, constant: HostArray) -> float:
        return math.nan if constant.any() else float(componentwise(G).sum())
