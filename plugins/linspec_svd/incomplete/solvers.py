"""EM for probabilistic principal components of rows with missing entries, and the same with few passes.

Problem: the maximum of the likelihood of the known entries over W, μ and σ² (`known_entries`).
Method: EM takes one pass a step, and may take hundreds. Two things make them few.

1. Expanded parameters (Liu, Rubin & Wu 1998): z may have any mean m and covariance S in the step, which are those of
   all posteriors together. Then x = μ + Wm + W S^½ z again. It costs nothing, and f falls by more.
2. Anderson's mixing (Walker & Ni 2011): of the last points θ and their steps g = F(θ) − θ, the combination whose g is
   shortest, in the metric of known entries over σ², is the next point. Where f rises, the plain step is taken.

Source: Tipping & Bishop 1999, J. R. Stat. Soc. B 61:611, appendix B; Liu, Rubin & Wu 1998, Biometrika 85:755; Walker &
Ni 2011, SIAM J. Numer. Anal. 49(4), doi:10.1137/10078356X, algorithm AA.
Where we differ: both start at the singular vectors of the rows with means in place of missing entries, by a block Krylov
space of few passes. Without missing entries they are the answer (Tipping & Bishop 1999, equation 7).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec import limit_option, option, tol_option
from linspec.arrays import Array, HostArray, to_host
from linspec.cost import DENSE_RATE, SPARSE_RATE, Estimate, Sizes
from linspec.iteration import Context, Iterate
from linspec.linalg import EPS, leading_eigenpairs, orthonormal
from linspec.solving import Solver
from linspec_svd.incomplete.known_entries import LEAST_NOISE, Expectation, KnownEntries, Model

OVERSAMPLE, STEPS = 10, 3
"""Columns of the first block beyond k, and passes of the Krylov space of the start."""

FAINT = 1e-3
"""Least square of a column of the first W, as a share of σ²: a column of zeros would stay one."""

RISE = 1e-10
"""f may rise by this for each known entry, which is rounding."""

DEPENDENT = 1e-8
"""Relative length up to which steps that are mixed depend on each other."""

PASSES = 30
"""About the passes of a solve, for estimates."""


@dataclass(frozen=True, kw_only=True)
class EM(Solver):
    """Expectation and maximisation in turn (Tipping & Bishop 1999, appendix B)."""

    tol: float | None = tol_option()
    max_iterations: int = limit_option(5000)

    def iterate(
        self, problem: Any, moments: KnownEntries, context: Context, start: Mapping[str, Array] | None
    ) -> Iterator[Iterate]:
        """Yield a model after each pass."""
        model = _begun(problem.k, moments, context, start)
        while True:
            seen = moments.expectation(model)
            yield _iterate(seen)
            model = seen.maximised


@dataclass(frozen=True, kw_only=True)
class AndersonEM(EM):
    """EM with expanded parameters, and Anderson's mixing (Liu, Rubin & Wu 1998; Walker & Ni 2011)."""

    depth: int = option(5, "earlier steps that are mixed; 0: none", at_least=0)

    def iterate(
        self, problem: Any, moments: KnownEntries, context: Context, start: Mapping[str, Array] | None
    ) -> Iterator[Iterate]:
        """Yield a model after each pass, but for those after which f has risen."""
        seen = moments.expectation(_begun(problem.k, moments, context, start))
        points: list[HostArray] = []
        steps: list[HostArray] = []
        while True:
            yield _iterate(seen)
            step = expanded(seen)
            points.append(_flat(seen.model))
            steps.append(_flat(step) - points[-1])
            points, steps = points[-self.depth - 1 :], steps[-self.depth - 1 :]
            trial = moments.expectation(_mixed(points, steps, seen, moments.counts))
            if not trial.loss <= seen.loss + RISE * seen.known:
                points, steps = [], []
                trial = moments.expectation(step)
            seen = trial

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """About thirty passes with the packed products of pairs of components."""
        pairs = (sizes.k + 1) * (sizes.k + 2) / 2
        rate = SPARSE_RATE if sizes.scattered else DENSE_RATE
        once = sizes.shared(4.0 * sizes.nnz * pairs / rate + 20.0 * sizes.n * sizes.k**3 / DENSE_RATE)
        note = f"{PASSES} passes with {pairs:.0f} columns"
        return Estimate(PASSES * once, 8.0 * sizes.p * (4 * pairs + 14 * sizes.k), note)


def expanded(seen: Expectation) -> Model:
    """Return the next model of EM for any mean and covariance of z, as one of standard normal z."""
    W, mean, noise = seen.maximised
    k, n = W.shape[1], seen.second[-1, -1]
    m = seen.second[:k, k] / n
    S = seen.second[:k, :k] / n - np.outer(m, m)
    return Model(W @ np.linalg.cholesky(S + EPS * np.trace(S) * np.eye(k)), mean + W @ m, noise)


def _iterate(seen: Expectation) -> Iterate:
    W, mean, noise = seen.model
    return Iterate(
        seen.residual, partial(dict, components=W, mean=mean, noise_variance=np.asarray(noise))
    )


def _flat(model: Model) -> HostArray:
    return np.concatenate([model.W.ravel(), model.mean, [np.log(model.noise)]])


def _mixed(points: list[HostArray], steps: list[HostArray], seen: Expectation, counts: HostArray) -> Model:
    """The combination of points and their steps whose step is shortest."""
    p, k = seen.model.W.shape
    size = np.sqrt(counts / seen.model.noise)
    metric = np.concatenate([np.repeat(size, k), size, [np.sqrt(seen.known / 2)]])
    theta = points[-1] + steps[-1]
    if len(points) > 1:
        turns = np.diff(np.stack(steps), axis=0)
        parts = np.linalg.lstsq((turns * metric).T, steps[-1] * metric, rcond=DEPENDENT)[0]
        theta = theta - parts @ (turns + np.diff(np.stack(points), axis=0))
    return Model(theta[: p * k].reshape(p, k), theta[p * k : -1], max(float(np.exp(theta[-1])), seen.least))


def _begun(k: int, moments: KnownEntries, context: Context, start: Mapping[str, Array] | None) -> Model:
    """The model of a start, with random columns for those that it lacks; without one, that of filled rows."""
    moments.fit()
    if start is None:
        return _of_filled(k, moments, context.rng)
    W, mean, noise = (to_host(start[name]) for name in ("components", "mean", "noise_variance"))
    size = float(np.sqrt(noise / len(W)))
    more = size * context.rng.standard_normal((len(W), max(k - W.shape[1], 0)))
    least = LEAST_NOISE * moments.variance
    return Model(np.hstack([W[:, :k], more]), np.where(np.isnan(mean), moments.mean, mean), max(float(noise), least))


def _of_filled(k: int, moments: KnownEntries, rng: np.random.Generator) -> Model:
    """The answer for rows whose missing entries are means, from Ritz pairs in a block Krylov space."""
    p = len(moments.mean)
    V = orthonormal(rng.standard_normal((p, min(k + OVERSAMPLE, p))))[0]
    basis, images = np.zeros((p, 0)), np.zeros((p, 0))
    for _ in range(STEPS):
        image = moments.filled(V)
        basis, images = np.hstack([basis, V]), np.hstack([images, image])
        V = image[:, : p - basis.shape[1]]
        if not V.shape[1]:
            break
        for _ in range(2):
            V = orthonormal(V - basis @ (basis.T @ V))[0]
    H = basis.T @ images
    values, vectors = leading_eigenpairs((H + H.T) / 2, k)
    variances = values / moments.n
    total = moments.variance * float(moments.counts.sum()) / moments.n
    noise = max((total - float(variances.sum())) / (p - k), LEAST_NOISE * moments.variance)
    W = basis @ vectors * np.sqrt(np.maximum(variances - noise, FAINT * noise))
    return Model(W, moments.mean, noise)
