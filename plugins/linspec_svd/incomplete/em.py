"""EM for probabilistic principal components of rows with missing entries, and the same in few passes.

Problem: rows x = μ + W z + σ ε, where z has k and ε has p standard normal numbers. Of row i the entries in Oᵢ are known.
The likelihood of all known entries is to be a maximum over W, μ and σ².
Method: r = x − μ, and W without a row for each entry that is missing, give the posterior of z, with mean z and
covariance C, and minus twice the log-likelihood f:

    K = I + WᵀW / σ²,  C = K⁻¹,  z = C Wᵀr / σ²                                          (1)
    f = Σᵢ |Oᵢ| log 2πσ² + log det K + (rᵀr − rᵀW z) / σ²                                (2)

For column j, sums over the rows in which it is known give the system of its row [wⱼ, μⱼ] in the next step of EM:

    Aⱼ = Σ [C + zzᵀ, z; zᵀ, 1],  bⱼ = Σ rᵢⱼ [z; 1],  Gⱼ = bⱼ − Aⱼ [wⱼ; 0]                (3)

−2 Gⱼ/σ² is the gradient of f, and EM adds Aⱼ⁻¹Gⱼ. With s = Σ E(r − Wz)² and N known entries the residual is

    residual² = Σ Gⱼᵀ Aⱼ⁻¹ Gⱼ / (N σ²) + log²(s / (N σ²)) / 2                            (4)

Two things save passes. In a step z may have any mean m and covariance S, which are those of all posteriors together:
then W S^½ and μ + W m have standard normal z again (Liu, Rubin & Wu 1998). And of the last points θ and their steps g,
the combination whose g is shortest is the next point (Walker & Ni 2011); where f rises, the plain step is taken.
Source: Tipping & Bishop 1999, J. R. Stat. Soc. B 61:611, appendix B; Ilin & Raiko 2010, JMLR 11:1957, section 4; Liu,
Rubin & Wu 1998, Biometrika 85:755; Walker & Ni 2011, SIAM J. Numer. Anal. 49(4), doi:10.1137/10078356X, algorithm AA.
Where we differ: all K are one product, of the mask of known entries with products of columns of W, and so are all Aⱼ.
[W, 0] stands for W: then C has a diagonal entry 1 for the mean, which is taken out of Aⱼ again. σ² has a lower limit,
because f has no minimum where W z meets all known entries. Steps are compared in the metric of known entries over σ².
Blocks are copied to the host, where all is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse

from linspec import limit_option, option, tol_option
from linspec.arrays import HostArray, to_host
from linspec.cost import Estimate, Sizes, sweeps_estimate
from linspec.errors import InvalidProblem, NonFiniteData, UnsupportedData
from linspec.iteration import Context, Iterate
from linspec.linalg import EPS, tall_svd
from linspec.rows import LOCAL, Passes, Reduction
from linspec.solving import Solver

LEAST_NOISE = 1e-10  # limit of σ², as a share of the variance of known entries about the means of their columns
RISE = 1e-10  # by which f may rise for each known entry: that is rounding
OVERSAMPLE, STEPS = 10, 5  # further columns of the first steps, and their number
FAINT = 0.1  # least square of a column in these steps, as a share of σ²


class Model(NamedTuple):
    """V = [W, μ] of shape (p, k + 1), and σ²."""

    V: HostArray
    noise: float


def known_entries(block: Any, mean: HostArray) -> tuple[Any, Any]:
    """Return R = X − 1μᵀ, 0 where entries are missing, and the mask. Of sparse rows the stored entries are known."""
    if hasattr(block, "XT"):
        raise UnsupportedData("X must be dense, or sparse on the host; got sparse rows on a device. Copy them.")
    sparse = hasattr(block, "matrix")
    if sparse:
        rows = block.matrix[block.start : block.start + block.rows]
        R = scipy.sparse.csr_array(rows, dtype=np.float64, copy=True)
        R.sum_duplicates()
        R.data -= mean[R.indices]
    else:
        R = to_host(block.dense()) - mean
    mask = R.copy()
    entries, known = (R.data, mask.data) if sparse else (R, mask)
    known[...] = ~np.isnan(entries)
    entries[known == 0] = 0.0
    return R, mask


class Posterior(Reduction):
    """The sums of (3), those of [C + zzᵀ, z; zᵀ, 1] over all rows, and Σ log det K and Σ rᵀr."""

    raw = True

    def __init__(self, model: Model) -> None:
        V, self.noise = model
        self.mean = V[:, -1]
        self.W = V.copy()
        self.W[:, -1] = 0.0
        pairs = self.W[:, :, None] * self.W[:, None, :]
        self.pairs = pairs.reshape(len(V), -1)
        self.columns = self.pairs.shape[1]
        self.multiplied = 2.0 * self.columns

    def of_rows(self, block: Any) -> tuple[Any, Any, HostArray, HostArray]:
        """R, the mask, C and z of some rows."""
        R, mask = known_entries(block, self.mean)
        k = self.W.shape[1]
        squares = (mask @ self.pairs).reshape(-1, k, k)
        C = np.linalg.inv(squares / self.noise + np.eye(k))  # (1)
        products = R @ self.W / self.noise
        z = C @ products[:, :, None]
        return R, mask, C, z[:, :, 0]

    def zero(self) -> list[HostArray]:
        shapes = self.pairs.shape, self.W.shape, self.columns, 2
        return list(map(np.zeros, shapes))

    def add(self, total: list[HostArray], blocks: list[Any], rows: slice) -> None:
        R, mask, C, u = self.of_rows(blocks[0])
        logarithms = np.linalg.slogdet(C)[1]
        total[3] += -logarithms.sum(), (R * R).sum()
        C[:, -1, -1] = 0.0
        u[:, -1] = 1.0
        second = C + u[:, :, None] * u[:, None, :]
        second = second.reshape(-1, self.columns)
        total[0] += mask.T @ second  # (3)
        total[1] += R.T @ u
        total[2] += second.sum(axis=0)


class Step(NamedTuple):
    """What a pass says of a model: f, the residual, the next model of EM, and that with expanded parameters."""

    model: Model
    counts: HostArray
    loss: float
    residual: float
    plain: Model
    expanded: Model


def step_of(model: Model, sums: Posterior, total: list[HostArray], least: float) -> Step:
    """Solve the systems (3), with `least` as the lower limit of σ²."""
    V, noise = model
    A, b, second, (logarithms, squares) = total
    k = b.shape[1]
    A = A.reshape(-1, k, k)
    counts = A[:, -1, -1].copy()
    known = max(counts.sum(), 1.0)
    G = b - (A @ sums.W[:, :, None])[:, :, 0]
    A += EPS * (1 + counts[:, None, None]) * np.eye(k)
    D = np.linalg.solve(A, G[:, :, None])[:, :, 0]
    gain = np.vdot(G, D) / known
    fitted = np.vdot(b, sums.W)
    left = squares - fitted - np.vdot(G, sums.W)
    left = max(left / known, least)
    growth = math.log(max(left / noise, EPS))
    residual = math.sqrt(max(gain, 0.0) / noise + growth**2 / 2)  # (4)
    loss = known * math.log(2 * math.pi * noise) + logarithms
    loss += (squares - fitted) / noise  # (2)
    V = V + D
    noise = max(left - gain, least)
    second = second.reshape(k, k)
    second = second / second[-1, -1] + EPS * k * np.eye(k)
    T = np.linalg.cholesky(second[::-1, ::-1])  # [S^½, m; 0, 1] with its rows and columns in reverse
    return Step(model, counts, loss, residual, Model(V, noise), Model(V @ T[::-1, ::-1], noise))


class KnownEntries:
    """Passes over the known entries of a problem; the first learns their means, and the variance about these."""

    def __init__(self, problem: Any, passes: Passes) -> None:
        passes.reserved += problem.certificate_products
        self.rows = problem.X.in_blocks("X")
        self.passes = passes
        self.variance = 0.0
        nothing = np.zeros((self.rows.shape[1], 1))
        step = self.step(Model(nothing, 1.0))
        if not math.isfinite(step.loss):
            raise NonFiniteData("X must have known entries that are finite; got infinity, or squares beyond 1e308.")
        self.means, self.variance = step.plain
        if not self.variance > 0:
            raise InvalidProblem("X must have known entries that vary; got constant columns. Leave them out.")

    def step(self, model: Model) -> Step:
        """Make one pass with a model."""
        self.passes.take()
        sums = Posterior(model)
        executor = self.rows.executor or LOCAL
        between = self.passes.between(self.rows.shape[0])
        total, entries = executor.reduce([self.rows], lambda _: sums, between)[1::2]
        self.passes.columns += sums.multiplied
        self.passes.flops += 2.0 * entries * sums.multiplied
        return step_of(model, sums, total, LEAST_NOISE * self.variance)


@dataclass(frozen=True, kw_only=True)
class EM(Solver):
    """Expectation and maximisation in turn (Tipping & Bishop 1999, appendix B)."""

    tol: float | None = tol_option()
    max_iterations: int = limit_option(5000)
    depth: ClassVar[int] = 0
    kind: ClassVar[str] = "plain"

    def iterate(self, problem: Any, moments: KnownEntries, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield a model after each pass, but for those after which f has risen."""
        step = moments.step(_begun(problem.k, moments, context, start or {}))
        pairs: list[list[HostArray]] = []
        while True:
            V, noise = step.model
            arrays = {"weights": V[:, :-1], "mean": V[:, -1], "noise_variance": np.asarray(noise)}
            yield Iterate(step.residual, arrays.copy)
            plain = getattr(step, self.kind)
            pairs.append([_flat(step.model), _flat(plain)])
            pairs = pairs[-self.depth - 1 :]
            trial = moments.step(_mixed(np.array(pairs), step))
            if not trial.loss <= step.loss + RISE * step.counts.sum():
                pairs = []
                trial = moments.step(plain)
            step = trial


@dataclass(frozen=True, kw_only=True)
class AndersonEM(EM):
    """EM with expanded parameters, and Anderson's mixing (Liu, Rubin & Wu 1998; Walker & Ni 2011)."""

    depth: int = option(5, "earlier steps that are mixed; 0: none", at_least=0)  # type: ignore[misc]
    kind: ClassVar[str] = "expanded"

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Some passes with products of pairs of components."""
        return sweeps_estimate(replace(sizes, k=(sizes.k + 1) ** 2), 30)


def _flat(model: Model) -> HostArray:
    return np.append(model.V, np.log(model.noise))


def _mixed(pairs: HostArray, step: Step) -> Model:
    """The combination of pairs of a point and the next one whose step is shortest."""
    V, noise = step.model
    size = np.sqrt(step.counts / noise)
    metric = np.append(np.repeat(size, V.shape[1]), np.sqrt(step.counts.sum() / 2))
    ends = pairs[:, 1]
    steps = (ends - pairs[:, 0]) * metric
    shares = np.linalg.lstsq(np.diff(steps, axis=0).T, steps[-1], rcond=EPS**0.5)[0]
    theta = ends[-1] - shares @ np.diff(ends, axis=0)
    noise = max(np.exp(theta[-1]), step.plain.noise / 10)
    return Model(theta[:-1].reshape(V.shape), noise)


def _begun(k: int, moments: KnownEntries, context: Context, start: Any) -> Model:
    """The model of a start; columns that it lacks are the longest of more, after some steps.

    While σ² is too large, columns would vanish, and columns of zeros never grow again.
    """
    p = len(moments.means)
    W = to_host(start.get("weights", np.zeros((p, 0))))[:, :k]
    noise = max(moments.variance - np.vdot(W, W) / p, LEAST_NOISE * moments.variance)
    lacking = k - W.shape[1]
    if lacking:
        random = context.rng.standard_normal((p, min(lacking + OVERSAMPLE, p - 1)))
        V = np.hstack([W, math.sqrt(noise / p) * random, moments.means])
        for _ in range(STEPS):
            V, noise = moments.step(Model(V, noise)).expanded
            P, s, _ = tall_svd(V[:, :-1])
            V[:, :-1] = P * np.maximum(s, math.sqrt(FAINT * noise))
        W = V[:, :k]
    mean = start.get("mean", moments.means)
    return Model(np.column_stack([W, mean]), float(start.get("noise_variance", noise)))
