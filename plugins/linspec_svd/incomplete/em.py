"""Principal components of rows with missing entries by likelihood: quasi-Newton steps in the metric of EM.

Problem: rows x = μ + W z + σ ε, where z and ε have k and p standard normal numbers. Of row i the entries Oᵢ are known.
The likelihood of all known entries is to be a maximum over W, μ and σ².
Method: r = x − μ, and W without a row for each entry that is missing, give the posterior of z, with mean z and
covariance C, and minus twice the log-likelihood f:

    K = I + WᵀW / σ²,  C = K⁻¹,  z = C Wᵀr / σ²                                          (1)
    f = Σᵢ |Oᵢ| log 2πσ² + log det K + (rᵀr − rᵀW z) / σ²                                (2)

For column j, sums over the rows in which it is known give the system of its row [μⱼ, wⱼ] in the next step of EM:

    Aⱼ = Σ [1, zᵀ; z, C + zzᵀ],  bⱼ = Σ rᵢⱼ [1; z],  Gⱼ = bⱼ − Aⱼ [0; wⱼ]                (3)

EM adds Aⱼ⁻¹Gⱼ. With s = Σ E(r − Wz)², N known entries, and the mean S of [1, zᵀ; z, C + zzᵀ] over the n rows, which is
I at a maximum, the gradient of f and the residual are

    ∂f/∂[μⱼ, wⱼ] = −2 Gⱼ / σ²,  ∂f/∂log σ² = N − s / σ²                                   (4)
    residual² = Σ Gⱼᵀ Aⱼ⁻¹ Gⱼ / (N σ²) + n ‖S − I‖² / 2N + log²(s / (N σ²)) / 2          (5)

A step goes where L-BFGS says, by its last pairs of changes of the model and of the gradient, and begins with the metric
H that EM has. Let z have any mean and covariance in a step of EM, which are those of all n posteriors together, and are
put into W and μ (Liu, Rubin & Wu 1998): for small steps this adds the second term of

    H [q₀; Q] = [q₀ / N; σ² Aⱼ⁻¹ Qⱼ / 2 + W M],    M = [Wᵀq / 2n, (WᵀQ + QᵀW) / 8n]       (6)

where q is the column of Q for μ, and the others are those of W. But for its last term the residual is the root of
gᵀH g / 2N for the gradient g: where σ² is small, Aⱼ⁻¹Gⱼ alone is small far from a maximum. A step that does not lower f
is made shorter; if that does not help, and at the start, the step of that EM is taken.
Source: Tipping & Bishop 1999, J. R. Stat. Soc. B 61:611, appendix B; Liu, Rubin & Wu 1998, Biometrika 85:755;
Jamshidian & Jennrich 1997, J. R. Stat. Soc. B 59:569, doi:10.1111/1467-9868.00083; Nocedal & Wright 2006, Numerical
Optimization, algorithms 7.4 and 3.1; Ilin & Raiko 2010, JMLR 11:1957, section 4.
Where we differ: the first pass keeps rows, all if they are few. The first steps are made with some of these, the next
ones with more, and passes follow only if there are more rows than were kept. All K are one product, of the mask of
known entries with products of columns of W, and so are all Aⱼ; of both only lower triangles are computed.
[0, W] stands for W: then C has a diagonal entry 1 for the mean, which Aⱼ leaves out. σ² has a lower limit, because f
has no minimum where W z meets all known entries. The first W has the leading eigenvectors of RᵀR, where R = X − 1μᵀ is
0 at missing entries: if a share q of entries is known by chance, its eigenvalues over n q² are too large by (1/q − 1)
of the variance only. Blocks are copied to the host, where all is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.linalg.lapack import dposv, dpotri

from linspec import limit_option, tol_option
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
# Pairs of changes that are kept.
PAIRS = 10
# Products with RᵀR for a start; and its σ² and the square of a column at least, as a share of the variance.
PRODUCTS = 4
LEAST = 0.01
# Known entries that are held; those of each column of a sample, for each number of a row of V; most steps with it, and
# the residual at their end, as a share of what the choice of rows makes of that of all rows.
HELD = 2**22
ENTRIES = 20
MOST_STEPS = 50
SAMPLED = 0.3
# Numbers of the matrices K that are inverted together.
TOGETHER = 2**16


def known_entries(block: Any) -> tuple[Any, Any]:
    """Return X, 0 where entries are missing, and the mask. Of sparse rows the stored entries are known."""
    if hasattr(block, "XT"):
        raise UnsupportedData(
            "X must be dense, or sparse on the host; got sparse rows on a device. Copy them."
        )
    sparse = hasattr(block, "matrix")
    if sparse:
        rows = block.matrix[block.start : block.start + block.rows]
        X = scipy.sparse.csr_array(rows, dtype=np.float64, copy=True)
        X.sum_duplicates()
    else:
        X = np.array(to_host(block.dense()), dtype=np.float64)
    mask = X.copy()
    entries, known = (X.data, mask.data) if sparse else (X, mask)
    known[...] = ~np.isnan(entries)
    entries[known == 0] = 0.0
    return X, mask


def about(X: Any, mask: Any, mean: HostArray) -> Any:
    """R = X − 1μᵀ, 0 where entries are missing."""
    if not scipy.sparse.issparse(X):
        return X - mask * mean
    R = X.copy()
    R.data -= mask.data * mean[X.indices]
    return R


class FirstPass(Reduction):
    """Numbers, sums and squares of the known entries of columns; and rows at a distance, of so many first ones."""

    def __init__(self, p: int, most: float, stride: int) -> None:
        self.p = p
        self.most = most
        self.stride = stride

    def zero(self) -> Any:
        return [*np.zeros((3, self.p)), []]

    def add(self, total: Any, blocks: Any, rows: Any) -> None:
        X, mask = known_entries(blocks[0])
        one = np.ones(X.shape[0])
        for part, entries in zip(total, (mask, X, X * X), strict=False):
            part += entries.T @ one
        start = rows.start + self.first
        kept = slice(-start % self.stride, int(min(max(self.most - start, 0), len(one))), self.stride)
        total[3].append((X[kept].copy(), mask[kept].copy()))


class OfRows(NamedTuple):
    """R, the mask, z, and the triangles L with LLᵀ = K, of some rows."""

    R: Any
    mask: Any
    z: HostArray
    L: HostArray


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
        self.height = max(TOGETHER // self.columns, 128)

    def full(self, lower: HostArray) -> HostArray:
        """Symmetric matrices of these lower triangles."""
        k = self.W.shape[1]
        full = np.empty((*lower.shape[:-1], k, k))
        full[..., self.i, self.j] = full[..., self.j, self.i] = lower
        return full

    def of_rows(self, X: Any, mask: Any) -> OfRows:
        """The posterior of some rows."""
        R = about(X, mask, self.mean)
        L = np.zeros((*R.shape[:1], *2 * self.W.shape[1:]))
        L[:, self.i, self.j] = mask @ self.pairs
        diagonals(L)[...] += 1.0
        z = R @ self.W / self.noise
        # LAPACK reads the transpose, and writes in place
        failed = [dposv(a.T, b, overwrite_a=1, overwrite_b=1)[2] > 0 for a, b in zip(L, z, strict=True)]
        z[failed] = np.nan  # rounding: W is far too large, and f counts as larger
        return OfRows(R, mask, z, L)

    def lower(self, L: HostArray) -> HostArray:
        """The lower triangles of C, which take the place of L."""
        for triangle in L:
            dpotri(triangle.T, overwrite_c=1)  # (1)
        return L[:, self.i, self.j]

    def zero(self) -> Any:
        return list(map(np.zeros, (self.pairs.shape, self.W.shape, self.columns, 2)))

    def add(self, total: Any, blocks: Any, rows: Any) -> None:
        self.add_entries(total, *known_entries(blocks[0]))

    def add_entries(self, total: Any, X: Any, mask: Any) -> None:
        """Add rows of these entries."""
        for start in range(0, X.shape[0], self.height):
            part = mask[start : start + self.height]
            R, _, u, L = self.of_rows(X[start : start + self.height], part)
            total[3] += 2 * np.log(diagonals(L)).sum(), (R * R).sum()
            u[:, 0] = 1.0
            second = self.lower(L)
            second += u[:, self.i] * u[:, self.j]
            second[:, 0] = 1.0
            total[0] += part.T @ second  # (3)
            total[1] += R.T @ u
            total[2] += second.sum(axis=0)


def diagonals(matrices: HostArray) -> HostArray:
    """Those of some matrices, which may be written."""
    return np.einsum("ijj->ij", matrices)


class Step:
    """What sums over rows say of a model θ, log σ² and V: f, its gradient, the residual, and the next step of EM."""

    def __init__(self, theta: HostArray, sums: Posterior, totals: Any, least: float) -> None:
        A, b, second, (logarithms, squares) = totals
        self.theta = theta
        self.sums = sums
        self.A = sums.full(A)
        self.n = second[0]
        self.S = sums.full(second / self.n)
        self.known = self.A[:, 0, 0].sum()
        G = b - np.einsum("jab,jb->ja", self.A, sums.W)
        diagonals(self.A)[...] += 4 * EPS * (1 + diagonals(self.A).sum(axis=1, keepdims=True))  # rounding
        self.D = np.linalg.solve(self.A, G[..., None])[..., 0]
        gain = np.vdot(G, self.D) / self.known
        misfit = squares - np.vdot(b, sums.W)
        left = max((misfit - np.vdot(G, sums.W)) / self.known, least)
        self.next_noise = max(left - gain, least)
        self.loss = self.known * np.log(2 * np.pi * sums.noise) + logarithms + misfit / sums.noise  # (2)
        ratio = left / sums.noise
        self.gradient = np.append(self.known * (1 - ratio), -2 * G / sums.noise)  # (4)
        off = self.n * np.sum((self.S - np.eye(len(self.S))) ** 2) / self.known
        self.residual = np.sqrt(max(gain, 0.0) / sums.noise + (off + np.log(ratio) ** 2) / 2)  # (5)

    def expanded(self) -> HostArray:
        """The next model of EM in which z has any mean and covariance."""
        turn = np.linalg.cholesky(self.S + EPS * len(self.S) * np.eye(len(self.S)))
        V = self.theta[1:].reshape(self.D.shape) + self.D
        return np.append(np.log(self.next_noise), V @ turn)

    def metric(self, q: HostArray) -> HostArray:
        """H of (6) times a vector."""
        Q = q[1:].reshape(self.D.shape)
        T = self.sums.W.T @ Q
        M = (T + T.T) / (8 * self.n)
        M[:, 0] = T[:, 0] / (2 * self.n)
        V = np.linalg.solve(self.A, Q[..., None])[..., 0] * (self.sums.noise / 2) + self.sums.W @ M
        return np.append(q[0] / self.known, V)


class KnownEntries:
    """The known entries of a problem: those of some rows are held, and passes are made over all."""

    def __init__(self, problem: Any, passes: Passes) -> None:
        self.rows = problem.X.in_blocks("X")
        self.passes = passes
        n, p = self.rows.shape
        finite = n < np.inf
        first_pass = FirstPass(p, n if finite else HELD // p, -(-problem.X.nnz // HELD) if finite else 1)
        counts, totals, squares, self.held = self.sums(first_pass)
        self.known = max(counts.sum(), 1.0)
        self.empty = counts == 0
        self.means = totals / np.maximum(counts, 1)
        self.variance = float((squares - totals * self.means).sum() / self.known)
        if not np.isfinite(squares.sum()):
            raise NonFiniteData(
                "X must have known entries that are finite; got infinity, or squares beyond 1e308."
            )
        if not self.variance > max(100 * EPS * np.square(self.means).max(), 1e-300):
            raise InvalidProblem(
                f"X must have known entries that vary in a column; got none (n_samples={self.rows.shape[0]}). "
                "NaN marks missing ones."
            )
        self.every = int(sum(mask.shape[0] for _, mask in self.held) == self.rows.shape[0])
        if not self.every:
            passes.reserved += problem.certificate_products
        self.last: Step | None = None

    def sums(self, sums: Any, stride: int = 0) -> Any:
        """Make a pass; or take every row of these that are held, if their distance is given."""
        with np.errstate(all="ignore"):
            if stride:
                total = sums.zero()
                entries = 0.0
                for X, mask in self.held:
                    self.passes.look()
                    sums.add_entries(total, X[::stride], mask[::stride])
                    entries += X.size / stride
            else:
                self.passes.take()
                between = self.passes.between(self.rows.shape[0])
                executor = self.rows.executor or LOCAL
                _, total, _, entries = executor.reduce([self.rows], lambda _: sums, between)
        self.passes.columns += 2.0 * sums.columns
        self.passes.flops += 4.0 * entries * sums.columns
        return total

    def step(self, theta: HostArray, stride: int) -> Step:
        """Judge a model by the rows of `sums`."""
        least = LEAST_NOISE * self.variance
        theta[0] = max(theta[0], np.log(least))
        sums = Posterior(theta[1:].reshape(self.rows.shape[1], -1), np.exp(theta[0]))
        with np.errstate(all="ignore"):
            return Step(theta, sums, self.sums(sums, stride), least)

    def judged(self, theta: HostArray) -> Step:
        """The step of a model by all rows, which is known if the last iterate had it."""
        if self.last is None or not np.allclose(theta, self.last.theta, rtol=4 * EPS, atol=0):
            self.last = self.step(theta, self.every)
        return self.last

    def samples(self, k: int) -> list[int]:
        """Distances of the rows of samples that grow and have enough rows."""
        n, p = self.rows.shape
        entries = sum(mask.shape[0] for _, mask in self.held) * self.known / (n * p)  # of a column
        return [s for s in (512, 64, 8, 1) if s > self.every and s * ENTRIES * (k + 1) <= entries]


@dataclass(frozen=True, kw_only=True)
class EM(Solver):
    """EM with expanded parameters, and quasi-Newton steps in its metric (Jamshidian & Jennrich 1997)."""

    tol: float | None = tol_option()
    max_iterations: int = limit_option(5000)

    def iterate(self, problem: Any, moments: Any, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield a model after each step that lowers f, by all rows."""
        samples = moments.samples(problem.k)
        theta = _begun(problem.k, moments, context, start, [*samples, 1][0])
        for stride in [] if start else samples:
            for step in islice(_descent(partial(moments.step, stride=stride), theta), MOST_STEPS):
                theta = step.theta
                if step.residual <= max(context.tol, SAMPLED * np.sqrt(theta.size / step.known)):
                    break
        for step in _descent(partial(moments.step, stride=moments.every), theta):
            moments.last = step
            V = step.theta[1:].reshape(-1, problem.k + 1)
            arrays = {"weights": V[:, 1:], "mean": V[:, 0], "noise_variance": np.exp(step.theta[0])}
            yield Iterate(step.residual, arrays.copy)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Some passes with products of pairs of components."""
        return sweeps_estimate(replace(sizes, k=(sizes.k + 1) ** 2), 30)


def _descent(judge: Callable[[HostArray], Step], theta: HostArray) -> Iterator[Step]:
    """Yield models of which each has a smaller f than the one before."""
    pairs: list[Any] = []
    step = judge(theta)
    while True:
        yield step
        new = _shortened(judge, step, _direction(step, pairs)) if pairs else None
        if new is None:
            pairs = []
            new = judge(step.expanded())
        s = new.theta - step.theta
        y = new.gradient - step.gradient
        if s @ y > EPS**0.5 * abs(s @ step.gradient):
            pairs = [*pairs, (s, y)][-PAIRS:]
        step = new


def _shortened(judge: Callable[[HostArray], Step], step: Step, d: HostArray) -> Step | None:
    """The model at the end of d, or after a quarter of it, if it has a smaller f."""
    for length in (1.0, 0.25):
        new = judge(step.theta + length * d)
        if new.loss <= step.loss + 1e-4 * length * (step.gradient @ d) + RISE * step.known:
            return new
    return None


def _direction(step: Step, pairs: list[Any]) -> HostArray:
    """That of L-BFGS, by pairs of changes (Nocedal & Wright, algorithm 7.4)."""
    q = -step.gradient
    shares = []
    for s, y in reversed(pairs):
        shares.append((s @ q) / (s @ y))
        q = q - shares[-1] * y
    r = step.metric(q)
    for s, y in pairs:
        r += (shares.pop() - (y @ r) / (s @ y)) * s
    return r


def _begun(k: int, moments: KnownEntries, context: Context, start: Any, stride: int) -> HostArray:
    """The model of a start, or of the leading eigenvectors of RᵀR, as if what is missing were chosen at random."""
    means = moments.means
    variance = moments.variance
    n, p = moments.rows.shape
    start = start or {}
    W = to_host(start.get("weights", np.zeros((p, 0))))
    if W.shape[1] != k:
        parts = [about(X[::stride], mask[::stride], means) for X, mask in moments.held]
        random = context.rng.standard_normal((p, k))
        share = moments.known / (n * p)
        krylov = block_krylov(lambda Q: sum(R.T @ (R @ Q) for R in parts), random, k, context.rng)
        *_, pairs = islice(krylov, PRODUCTS)
        rows = sum(R.shape[0] for R in parts)
        values = pairs.values / (rows * share**2) + (1 - 1 / share) * variance
        W = pairs.vectors() * np.sqrt(np.maximum(values, LEAST * variance))
    noise = max(variance - np.vdot(W, W) / p, LEAST * variance)
    mean, noise = start.get("mean", means), start.get("noise_variance", noise)
    V = np.column_stack([to_host(mean), W])
    V[moments.empty] = 0.0
    return np.append(np.log(noise), V)
