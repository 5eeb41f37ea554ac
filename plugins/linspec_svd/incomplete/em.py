"""EM for probabilistic principal components of rows with missing entries, and the same in few passes.

Problem: rows x = μ + W z + σ ε, where z and ε have k and p standard normal numbers. Of row i the entries Oᵢ are known.
The likelihood of all known entries is to be a maximum over W, μ and σ².
Method: r = x − μ, and W without a row for each entry that is missing, give the posterior of z, with mean z and
covariance C, and minus twice the log-likelihood f:

    K = I + WᵀW / σ²,  C = K⁻¹,  z = C Wᵀr / σ²                                          (1)
    f = Σᵢ |Oᵢ| log 2πσ² + log det K + (rᵀr − rᵀW z) / σ²                                (2)

For column j, sums over the rows in which it is known give the system of its row [μⱼ, wⱼ] in the next step of EM:

    Aⱼ = Σ [1, zᵀ; z, C + zzᵀ],  bⱼ = Σ rᵢⱼ [1; z],  Gⱼ = bⱼ − Aⱼ [0; wⱼ]                (3)

−2 Gⱼ/σ² is the gradient of f, and EM adds Aⱼ⁻¹Gⱼ. With s = Σ E(r − Wz)² and N known entries the residual is

    residual² = Σ Gⱼᵀ Aⱼ⁻¹ Gⱼ / (N σ²) + log²(s / (N σ²)) / 2                            (4)

Two things save passes. In a step z may have any mean m and covariance S, which are those of all posteriors together:
then W S^½ and μ + W m have standard normal z again (Liu, Rubin & Wu 1998). And of the last points θ and their steps g,
the combination whose g is shortest is the next point (Walker & Ni 2011); where f rises, the plain step is taken.
Source: Tipping & Bishop 1999, J. R. Stat. Soc. B 61:611, appendix B; Ilin & Raiko 2010, JMLR 11:1957, section 4; Liu,
Rubin & Wu 1998, Biometrika 85:755; Walker & Ni 2011, SIAM J. Numer. Anal. 49(4), doi:10.1137/10078356X, algorithm AA.
Where we differ: all K are one product, of the mask of known entries with products of columns of W, and so are all Aⱼ;
of both only lower triangles are computed. [0, W] stands for W: then C has a diagonal entry 1 for the mean, which Aⱼ
leaves out. The next model for any m and S is [μ, W] times a triangle, with [1, mᵀ; m, S + mmᵀ] the triangle times its
transpose. σ² has a lower limit, because f has no minimum where W z meets all known entries. Steps are compared as they
change entries, and log σ². The first W has the leading eigenvectors of RᵀR, where R = X − 1μᵀ is 0 at missing entries:
if a share q of entries is known by chance, its eigenvalues over n q² are too large by (1/q − 1) of the variance only.
Blocks are copied to the host, where all is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.linalg.lapack import dposv, dpotri

from linspec import limit_option, option, tol_option
from linspec.arrays import HostArray, to_host
from linspec.cost import Estimate, Sizes, sweeps_estimate
from linspec.errors import InvalidProblem, NonFiniteData, UnsupportedData
from linspec.iteration import Context, Iterate
from linspec.linalg import EPS, block_krylov
from linspec.rows import LOCAL, Passes, Reduction
from linspec.solving import Solver

# The limit of σ², as a share of the variance of known entries about the means of their columns.
LEAST_NOISE = 1e-10
# By which f may rise for each known entry: that is rounding.
RISE = 1e-10
# Products with RᵀR for a start; and its σ² and the square of a column at least, as a share of the variance.
PRODUCTS = 4
LEAST = 0.01


def known_entries(block: Any, mean: HostArray) -> tuple[Any, Any]:
    """Return R = X − 1μᵀ, 0 where entries are missing, and the mask. Of sparse rows the stored entries are known."""
    if hasattr(block, "XT"):
        raise UnsupportedData(
            "X must be dense, or sparse on the host; got sparse rows on a device. Copy them."
        )
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


class Products(Reduction):
    """RᵀR Q for thin Q."""

    def __init__(self, mean: HostArray, Q: HostArray) -> None:
        self.mean = mean
        self.Q = Q
        self.columns = Q.shape[1]

    def zero(self) -> Any:
        return np.zeros(self.Q.shape)

    def add(self, total: Any, blocks: Any, rows: Any) -> None:
        R, _ = known_entries(blocks[0], self.mean)
        total += R.T @ (R @ self.Q)


class Posterior(Reduction):
    """The sums of (3), those of [1, zᵀ; z, C + zzᵀ] over all rows, and Σ log det K and Σ rᵀr, for V = [μ, W]."""

    def __init__(self, V: HostArray, noise: float) -> None:
        self.mean = V[:, 0]
        self.noise = noise
        self.W = V.copy()
        self.W[:, 0] = 0.0
        self.i, self.j = np.tril_indices(V.shape[1])
        self.pairs = self.W[:, self.i] * self.W[:, self.j] / noise
        self.columns = len(self.i)

    def full(self, lower: HostArray) -> HostArray:
        """Symmetric matrices of these lower triangles."""
        k = self.W.shape[1]
        full = np.empty((*lower.shape[:-1], k, k))
        full[..., self.i, self.j] = full[..., self.j, self.i] = lower
        return full

    def of_rows(self, block: Any) -> Any:
        """R, the mask, lower triangles of C, z, and the diagonals of triangles L with LLᵀ = K, of some rows."""
        R, mask = known_entries(block, self.mean)
        K = self.full(mask @ self.pairs) + np.eye(self.W.shape[1])
        solved = list(map(dposv, K, R @ self.W / self.noise))
        L, z, _ = map(np.array, zip(*solved, strict=True))
        C = np.array([dpotri(factor)[0] for factor, _, _ in solved])  # (1)
        return R, mask, C[:, self.j, self.i], z, np.diagonal(L, axis1=1, axis2=2)

    def zero(self) -> Any:
        return list(map(np.zeros, (self.pairs.shape, self.W.shape, self.columns, 2)))

    def add(self, total: Any, blocks: Any, rows: Any) -> None:
        R, mask, C, u, diagonals = self.of_rows(blocks[0])
        total[3] += 2 * np.log(diagonals).sum(), (R * R).sum()
        u[:, 0] = 1.0
        second = C + u[:, self.i] * u[:, self.j]
        second[:, 0] = 1.0
        total[0] += mask.T @ second  # (3)
        total[1] += R.T @ u
        total[2] += second.sum(axis=0)


class Step(NamedTuple):
    """What a pass says of a model θ, log σ² and V: f, the residual, the next θ of EM, and that with any m and S."""

    theta: HostArray
    counts: HostArray
    loss: float
    residual: float
    plain: HostArray
    expanded: HostArray


class KnownEntries:
    """Passes over the known entries of a problem; the first learns their means, and the variance about these."""

    def __init__(self, problem: Any, passes: Passes) -> None:
        passes.reserved += problem.certificate_products
        self.rows = problem.X.in_blocks("X")
        self.passes = passes
        self.variance = float(np.finfo(float).tiny)
        step = self.step(np.zeros(self.rows.shape[1] + 1))
        if not np.isfinite(step.loss):
            raise NonFiniteData(
                "X must have known entries that are finite; got infinity, or squares beyond 1e308."
            )
        self.means = step.plain[1:]
        self.variance = np.exp(step.plain[0])
        self.known = step.counts.sum()
        if not self.variance > max(100 * EPS * np.square(self.means).max(), 1e-300):
            raise InvalidProblem(
                f"X must have known entries that vary in a column; got none (n_samples={self.rows.shape[0]}). "
                "NaN marks missing ones."
            )

    def sums(self, sums: Any) -> Any:
        """Make one pass."""
        self.passes.take()
        between = self.passes.between(self.rows.shape[0])
        _, total, _, entries = (self.rows.executor or LOCAL).reduce([self.rows], lambda _: sums, between)
        self.passes.columns += 2.0 * sums.columns
        self.passes.flops += 4.0 * entries * sums.columns
        return total

    def step(self, theta: HostArray) -> Step:
        """Make one pass with a model, and solve the systems (3)."""
        V = theta[1:].reshape(self.rows.shape[1], -1)
        noise = np.exp(theta[0])
        sums = Posterior(V, noise)
        A, b, second, (logarithms, squares) = self.sums(sums)
        A, second = sums.full(A), sums.full(second)
        counts = A[:, 0, 0].copy()
        known = max(counts.sum(), 1.0)
        G = b - np.einsum("jab,jb->ja", A, sums.W)
        A += EPS * (1 + counts.max()) * np.eye(b.shape[1])
        D = np.linalg.solve(A, G[..., None])[..., 0]
        gain = np.vdot(G, D) / known
        fitted = np.vdot(b, sums.W)
        least = LEAST_NOISE * self.variance
        left = max((squares - fitted - np.vdot(G, sums.W)) / known, least)
        residual = np.sqrt(max(gain, 0.0) / noise + np.log(left / noise) ** 2 / 2)  # (4)
        loss = known * np.log(2 * np.pi * noise) + logarithms + (squares - fitted) / noise  # (2)
        V = np.where(counts[:, None] > 0, V + D, 0.0)
        plain = np.append(np.log(max(left - gain, least)), V)
        turn = np.linalg.cholesky(second / second[0, 0] + EPS * len(second) * np.eye(len(second)))
        return Step(theta, counts, loss, residual, plain, np.append(plain[0], V @ turn))


@dataclass(frozen=True, kw_only=True)
class EM(Solver):
    """EM with expanded parameters, and Anderson's mixing (Liu, Rubin & Wu 1998; Walker & Ni 2011)."""

    tol: float | None = tol_option()
    max_iterations: int = limit_option(5000)
    depth: int = option(5, "earlier steps that are mixed; 0: plain EM", kind=int, at_least=0)

    def iterate(self, problem: Any, moments: Any, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield a model after each pass, but for those after which f has risen."""
        step = moments.step(_begun(problem.k, moments, context, start))
        pairs: list[Any] = []
        while True:
            V = step.theta[1:].reshape(-1, problem.k + 1)
            arrays = {"weights": V[:, 1:], "mean": V[:, 0], "noise_variance": np.exp(step.theta[0])}
            yield Iterate(step.residual, arrays.copy)
            last = step.loss + RISE * moments.known
            after = step.expanded if self.depth else step.plain
            pairs = [*pairs, (step.theta, after)][-self.depth - 1 :]
            step = moments.step(_mixed(np.array(pairs), moments.rows.shape[1]))
            if not step.loss <= last:
                pairs = []
                step = moments.step(after)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Some passes with products of pairs of components."""
        return sweeps_estimate(replace(sizes, k=(sizes.k + 1) ** 2), 30)


def _mixed(pairs: HostArray, p: int) -> HostArray:
    """The combination of pairs of a point and the next one whose step is shortest."""
    points, ends = pairs.transpose(1, 0, 2)
    steps = ends - points
    steps[:, 0] *= np.sqrt(p / 2 * np.exp(points[-1, 0]))
    shares = np.linalg.lstsq(np.diff(steps, axis=0).T, steps[-1], rcond=EPS**0.5)[0]
    theta: HostArray = ends[-1] - shares @ np.diff(ends, axis=0)
    return theta


def _begun(k: int, moments: KnownEntries, context: Context, start: Any) -> HostArray:
    """The model of a start, or of the leading eigenvectors of RᵀR, as if what is missing were chosen at random."""
    means = moments.means
    variance = moments.variance
    n, p = moments.rows.shape
    start = start or {}
    W = to_host(start.get("weights", np.zeros((p, 0))))
    if W.shape[1] != k:
        share = moments.known / (n * p)
        random = context.rng.standard_normal((p, k))
        krylov = block_krylov(lambda Q: moments.sums(Products(means, Q)), random, k, context.rng)
        *_, pairs = islice(krylov, PRODUCTS)
        values = pairs.values / (n * share**2) + (1 - 1 / share) * variance
        W = pairs.vectors() * np.sqrt(np.maximum(values, LEAST * variance))
    noise = max(variance - np.vdot(W, W) / p, LEAST * variance)
    mean, noise = start.get("mean", means), start.get("noise_variance", noise)
    return np.append(np.log(noise), np.column_stack([mean, W]))
