"""Stochastic principal components: a random projection, an orthonormal basis, a small SVD.

Problem: approximate the k leading singular triplets of A, in as few passes as possible.
Method: for a random Ω of k + oversampling columns,

    Q = orth(AΩ)                            (1)
    Q ← orth(A orth(AᵀQ))                   (2)
    AᵀQ = V diag(S) Wᵀ                      (3)

where V and S approximate the leading right vectors and singular values of A. Each power iteration (2) takes two passes.
It helps if the singular values fall slowly, because their powers fall faster.
Source: Halko, Martinsson & Tropp 2011, doi:10.1137/090771806, Algorithms 4.4 and 5.1; Wojnowicz 2017, Algorithm 1.
Where we differ: a normalizer, given by name, makes Y orthonormal, because this is most of the cost. Where rows are not
in memory, no block of n rows is held: a pass gives the triangle R of Y = QR and AᵀY together, Q = A(ΩT) with T = R⁻¹ is
made again in the next pass, and its own triangle corrects the rounding in A(ΩT).

Lazy stochastic principal components: the subspace of "spca" without an orthonormal basis as long as the data.

Problem: approximate the k leading singular triplets of A in one pass, also for data that are read only once.
Method: for a random Ω,

    Bᵀ = AᵀAΩ                               (1)
    V = orth(Bᵀ)                            (2)

The rows of B = (AΩ)ᵀA have the same span as those of orth(AΩ)ᵀA.
Source: Wojnowicz 2017, arXiv:1709.07175, Algorithms 2 and 4, Proposition 2.
Where we differ: the singular values of B and their order are not those of A, so the form of the source, `whiten=False`,
takes all directions and no oversampling. By default a matrix that comes with the same product replaces the basis that
is not formed:

    M = ΩᵀAᵀAΩ = RᵀR,  T = R⁻¹              (3)
    BᵀT = AᵀQ = V diag(S) Wᵀ,  Q = AΩT      (4)

So singular values and a true truncation cost no pass. The price is accuracy: R is the root of a square, and directions
have an error of eps (σ₁/σ_k)², which the answer reports. Rows that are read once leave nothing to judge by. There ten
random columns Z take part in the pass: for r = AᵀAv - σ²v, ‖Zᵀr‖²/10 estimates ‖r‖², since Z is independent of Ω. Each
residual is met within a factor of about two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import linspec as ls
from linspec import Status, form_option, option, part
from linspec.arrays import Array, HostArray, to_host
from linspec.cost import Estimate, Sizes, sweeps_estimate
from linspec.errors import InvalidOption
from linspec.iteration import Context, Iterate
from linspec.linalg import EPS, inverse_triangle, orthonormal, tall_svd, whitening
from linspec.rows import Moments
from linspec.solving import Solver

NULL = 8
"""A product counts as zero if none of its columns is longer than so many roundings of the entries."""

ENDED = (
    "A sketch of the data: the residual shows how good it is. Raise oversampling and power_iterations, or choose "
    '"block-krylov", which iterates to a tolerance.'
)


@dataclass(frozen=True, kw_only=True)
class Sketched(Solver):
    """What begins with a random block."""

    oversampling: int = option(10, "columns of the sketch beyond the triplets wanted", at_least=0)
    power_iterations: int = option(0, "times to multiply by the data once more, there and back", at_least=0)
    test_matrix: Any = part("gaussian", "what the sketch multiplies", kind="test-matrix")

    def drawn(self, moments: Moments, k: int, context: Context) -> Array:
        """Ω, of as many columns as the sketch has."""
        n, p = moments.operators[0].shape
        columns = int(min(k + self.oversampling, n, p))
        return moments.device.asarray(self.test_matrix.draw(p, columns, context.rng))


@dataclass(frozen=True, kw_only=True)
class SPCA(Sketched):
    """Randomized SVD with an orthonormal basis (Halko, Martinsson & Tropp 2011; Wojnowicz 2017, Algorithm 1)."""

    normalizer: Any = part("cholesky-qr", "how the sketch is made orthonormal", kind="normalizer")

    def iterate(self, problem: ls.SVD, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        Omega = self.drawn(moments, problem.k, context)
        context.note(Status.APPROXIMATE, ENDED)
        if moments.operators[0].resident:
            whole = moments.operator()
            Q, _ = self.normalizer.orthonormalize(whole.matmat(Omega))  # (1)
            for _ in range(self.power_iterations):
                P, _ = self.normalizer.orthonormalize(whole.rmatmat(Q))
                Q, _ = self.normalizer.orthonormalize(whole.matmat(P))  # (2)
            B = whole.rmatmat(Q)
        else:
            B = self._by_triangles(moments, Omega)
        V, S, _ = tall_svd(B)  # (3)
        least = max(moments.least_value() * float(S.max(initial=0.0)), NULL * EPS * moments.subtracted())
        known = min(problem.k, int((least < S).sum()))
        yield Iterate(0.0, partial(dict, Vh=V[:, :known].T, S=S[:known]), final=True)

    def _by_triangles(self, moments: Moments, W: Array) -> Array:
        """AᵀQ without blocks of n rows: each is made again in the pass that multiplies it."""
        device = moments.device
        for _ in range(self.power_iterations):
            W, _ = self.normalizer.orthonormalize(moments.gram_product(W))  # (2), for Q = AW
        _, R = moments.products_with_triangle(W)  # (1)
        noise = NULL * EPS * moments.subtracted()
        _, T = self.normalizer.orthonormalize(device.asarray(R))
        W = W @ device.asarray(T)  # AW is orthonormal up to rounding
        W = W[:, noise * to_host(device.column_norms(W)) < 1]
        AtQ, R = moments.products_with_triangle(W)
        return AtQ @ device.asarray(inverse_triangle(R))


PROBES = 10
"""Random columns from which residuals are estimated."""

LOST = 1e-10
"""Largest relative error eps (σ₁/σ_k)² of a subspace from squares that is not reported; for float32 data 100 eps."""

ONCE = (
    "A sketch in one pass, without further data to check it: estimated residual about {:.0e}, from random columns in "
    "the same pass. Pass a callable that returns the slices anew: then the answer is judged, and can be improved to a "
    "tolerance."
)

SQUARED = (
    "By squaring, the smallest directions that were asked for are off by about {:.0e}. Choose "
    '"spca" or "block-krylov", for rows that can be read again.'
)


@dataclass(frozen=True, kw_only=True)
class LazySPCA(Sketched):
    """Randomized SVD in one pass (Wojnowicz 2017, arXiv:1709.07175)."""

    whiten: bool = option(True, "singular values and a true truncation; False: the form of the source")
    form: str = form_option("implicit")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.whiten and self.oversampling:
            raise InvalidOption(
                f"whiten=False cannot order the directions and needs oversampling=0; got {self.oversampling}. "
                "Pass oversampling=0, or leave whiten out."
            )

    def iterate(self, problem: ls.SVD, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        V = self.drawn(moments, problem.k, context)
        p, columns = V.shape
        moments.expect(1 + self.power_iterations, columns, self.form)
        for _ in range(self.power_iterations):
            V, _ = orthonormal(moments.gram_product(V))
        once = moments.operators[0].readings == 1 and not moments.holds
        Z = moments.device.asarray(context.rng.standard_normal((p, PROBES * once)))
        product = moments.gram_product(moments.device.concat([V, Z]) if once else V)  # (1)
        Bt = product[:, :columns]
        if not once:
            context.note(Status.APPROXIMATE, ENDED)
        if not self.whiten and not once:
            basis, tau = orthonormal(Bt)  # (2), whose vectors are in no order
            values = np.linalg.svd(tau, compute_uv=False)  # about the squares of those of A
            _say_what_is_lost(moments, context, np.sqrt(np.maximum(values, EPS * values[:1])))
            yield Iterate(0.0, partial(dict, Vh=basis.T), final=True)
            return
        M = to_host(V.T @ Bt)
        T = whitening((M + M.T) / 2, cut=float(np.finfo(moments.operators[0].dtype).eps))  # (3)
        V, S, _ = tall_svd(Bt @ moments.device.asarray(T))  # (4)
        S = S[: problem.k]
        largest = float(S.max(initial=0.0))
        noise = NULL * EPS * moments.subtracted()
        squared = max(moments.least_square(), moments.least_value() ** 2) * largest**2
        known = int((max(squared, noise * largest, noise**2) < S**2).sum())  # the others are rounding
        V = V[:, :known]
        S = S[:known]
        if once:
            gaps = to_host(product[:, columns:].T @ V) - to_host(Z.T @ V) * S**2
            residual = float(np.sqrt((gaps**2).sum(axis=0).max() / PROBES) / S[0] ** 2) if len(S) else 0.0
            context.note(Status.APPROXIMATE, ONCE.format(residual))
        _say_what_is_lost(moments, context, S)
        yield Iterate(0.0, partial(dict, Vh=V.T, S=S), final=True)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """One pass, for data that can be read only once; for others "auto" chooses no approximate solver."""
        return sweeps_estimate(replace(sizes, k=min(sizes.k + 10, sizes.p)), 1)


def _say_what_is_lost(moments: Moments, context: Context, S: HostArray) -> None:
    """Say that squaring has lost digits of the smallest directions, if it has."""
    unit = float(np.finfo(moments.operators[0].dtype).eps)
    lost = unit * float(S[0] / S[-1]) ** 2 if len(S) else 0.0
    if lost > max(LOST, 100 * unit):
        context.note(Status.ILL_CONDITIONED, SQUARED.format(lost))
