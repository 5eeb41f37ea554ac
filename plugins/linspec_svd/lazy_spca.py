"""Lazy stochastic principal components: the subspace of "spca" without an orthonormal basis as long as the data.

Problem: approximate the k leading singular triplets of A in one sweep, also for data that are read only once.
Method: Bᵀ = AᵀAΩ for a random Ω. The rows of B = (AΩ)ᵀA have the same span as those of orth(AΩ)ᵀA (Wojnowicz 2017,
arXiv:1709.07175, Algorithms 2 and 4, Proposition 2), and an ℓ x ℓ problem gives a basis of it.
Where we differ. The singular values of B and their order are not those of A, so its leading directions are not those of
A either: the form of the source, `whiten=False`, takes all of them and no oversampling. By default ΩᵀAᵀAΩ = RᵀR, which
comes with the same product, replaces the orthonormal basis that is not formed: the SVD of R⁻ᵀB is that of QᵀA for
Q = AΩR⁻¹. So singular values and a true truncation cost no sweep. The price is accuracy: R is the root of a square, and
directions have an error of eps (σ₁/σ_k)². The solution reports this error if it matters.

As a rule, two products with blocks as wide as the data are enough: with G = BBᵀ the SVD of R⁻ᵀB comes from the
eigenvectors of R⁻ᵀGR⁻¹, and one product with Bᵀ makes the vectors. G squares once more, so this form is used if the
condition number of ΩᵀAᵀAΩ leaves enough digits; otherwise R⁻ᵀB is formed. A few random combinations check whether the
vectors are orthonormal; if not, they are made so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from linspec import Run, Solution, Solver, Status, form_option, option, part
from linspec.algebra import EPS, eigenpairs, orthonormal_columns, whitening
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.cost import Estimate, Sizes, sweeps_estimate
from linspec.errors import InvalidOption
from linspec.process import count_of
from linspec_svd.single_sweep import ANEW, LOST, Probes, say_what_is_lost
from linspec_svd.spca import ENDED
from linspec_svd.triplets import (
    left_vectors,
    multiplied_in_place,
    share_below_rounding,
    size_of_means,
    squared_cuts,
)

REMEDY = 'Choose "spca", or "block-krylov".'

CROOKED = 1e-14
"""Largest departure of V from orthonormal columns that counts as rounding; beyond it V is made orthonormal again. The
departure is the root mean square length of the rows of VᵀV − I."""

BESIDE_TAIL = 1e-8
"""For a truncated sketch the departure of V may also be this multiple of (σ/σ₁)², where σ is the smallest singular
value of the sketch. The residual is near (σ/σ₁)², so this departure does not affect it."""

SMALLEST = 1e-60
"""Lengths of columns of AΩ between this and its reciprocal have representable fourth powers."""

PROBES = 4
"""The number of random combinations of the columns from which the departure is estimated."""


@dataclass(frozen=True, kw_only=True)
class LazySPCA(Solver):
    """Randomized SVD in one sweep (Wojnowicz 2017, arXiv:1709.07175)."""

    oversampling: int = option(10, "columns of the sketch beyond the triplets wanted", at_least=0)
    power_iterations: int = option(0, "times to multiply once more, a sweep each", at_least=0)
    whiten: bool = option(True, "singular values and a true truncation; False: the form of the source")
    test_matrix: Any = part("gaussian", "what the sketch multiplies", kind="test-matrix")
    form: str = form_option("implicit")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.whiten and self.oversampling:
            raise InvalidOption(
                f"whiten=False cannot order the directions and needs oversampling=0; got {self.oversampling}. "
                "Pass oversampling=0, or leave whiten out."
            )

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve an SVD problem."""
        n, p = problem.A.shape
        columns = min(problem.k + self.oversampling, n, p)
        moments = run.moments(self.form, expect=(1 + self.power_iterations, columns))
        home = moments.home
        V = home.place(run.part(self.test_matrix).draw(p, columns, run.rng))
        for _ in range(self.power_iterations):
            V = orthonormal_columns(moments.gram(V), home)
        if problem.sweeps == 1 and moments.form == "implicit":
            return self._in_the_dark(problem, run, V)
        run.note(
            Status.APPROXIMATE,
            ENDED.format(
                columns=count_of(columns, "column"), powers=count_of(self.power_iterations, "power iteration")
            ),
        )
        if not self.whiten:
            return self._finished(problem, run, self._unsorted(problem, run, moments.gram(V), home), None)
        products = moments.products(V, image=True)
        Bt, image = products[0], products.image
        S, V = _leading(Bt, to_host(image), problem, run)
        say_what_is_lost(run, S, "by squaring", REMEDY)
        return self._finished(problem, run, V, S)

    def _in_the_dark(self, problem: Any, run: Run, V: Array) -> Solution:
        """Solve for rows that can be read only once: one sweep must give all results.

        So singular values are computed for `whiten=False`, too. For data that can be read again, the problem's own test
        computes these in its sweep.
        """
        moments, columns = run.moments(), V.shape[1]
        probes = Probes(run, V.shape[0], moments.home)
        product = moments.gram(probes.beside(V))
        Bt = product[:, :columns]
        S, V = _leading(Bt, to_host(V.T @ Bt), problem, run)
        probes.note(run, columns, product[:, columns:], V, S)
        say_what_is_lost(run, S, "in one sweep", ANEW)
        return run.finish(Vh=V.T, S=S)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """One sweep, for data that can be read only once; for others "auto" chooses no approximate solver."""
        return sweeps_estimate(replace(sizes, k=min(sizes.k + 10, sizes.p)), 1)

    def _finished(self, problem: Any, run: Run, V: Array, S: HostArray | None) -> Solution:
        U = None
        if problem.left:
            U, recomputed, V = left_vectors(problem.A, V)
            S = S if recomputed is None else recomputed
        return run.finish(Vh=V.T, S=S, U=U)

    def _unsorted(self, problem: Any, run: Run, Bt: Array, home: Home) -> Array:
        """Return an orthonormal basis of the rows of B, for `whiten=False`; `Bt` is Bᵀ = AᵀAΩ, and is overwritten.

        Its vectors are in no order of the singular values of A. The singular values of B are about the squares of those
        of A, and are used only to report the digits that squaring loses.
        """
        G = to_host(Bt.T @ Bt)
        V = multiplied_in_place(
            Bt, whitening(G, cut=max(EPS, float(np.finfo(problem.A.dtype).eps) ** 2)), home
        )
        values = np.linalg.eigvalsh(G)[::-1][: V.shape[1]]
        say_what_is_lost(run, np.maximum(values, EPS * values[:1]) ** 0.25, "by squaring", REMEDY)
        return (
            V if _departure(V, home) <= CROOKED else multiplied_in_place(V, whitening(to_host(V.T @ V)), home)
        )


def _leading(Bt: Array, M: HostArray, problem: Any, run: Run) -> tuple[HostArray, Array]:
    """Return the k largest singular values of BᵀR⁻¹, where M = RᵀR, and its left singular vectors, of shape (p, k).

    `Bt` is Bᵀ = AᵀAΩ, of shape (p, columns), and is overwritten; M is ΩᵀAᵀAΩ. There are fewer than k values if only
    fewer are above rounding.
    """
    k, unit, home = problem.k, float(np.finfo(problem.A.dtype).eps), run.moments().home
    T = _inverse_root(M) if unit == EPS else None
    if T is None:
        Bt = Bt @ home.place(whitening(M, cut=unit))
    G = to_host(Bt.T @ Bt)
    values, vectors = eigenpairs(G if T is None else T.T @ G @ T)
    smallest = np.min(values, initial=np.inf)
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    largest = max(float(np.max(values, initial=0.0)), 0.0)
    means = size_of_means(run)
    entries = share_below_rounding(problem.A)
    noise = max(
        max(squared_cuts(problem.A)) * largest, entries * means * largest**0.5, (entries * means) ** 2
    )
    keep = values > noise
    S = np.sqrt(values[keep])
    W = vectors[:, keep] / S
    V = multiplied_in_place(Bt, W if T is None else T @ W, home)
    whole = len(G) < len(M) or len(M) == min(problem.A.shape)
    tail = 0.0 if whole or not largest else float(smallest) / largest
    return S, V if _departure(V, home) <= max(CROOKED, BESIDE_TAIL * tail) else _straightened(V, home)


def _inverse_root(M: HostArray) -> HostArray | None:
    """Return T = R⁻¹ for the Cholesky factor R of M = RᵀR, so that TᵀMT = I. Return None if T would be too inaccurate.

    That is the case if M is not positive definite, if the squared condition number of M (scaled to a unit diagonal)
    times the machine epsilon is above `LOST`, or if a diagonal entry of M is extremely small or large (`SMALLEST`).
    """
    d = np.sqrt(np.maximum(np.diag(M), 0.0))
    if not (len(d) and np.all((d > SMALLEST) & (d < 1 / SMALLEST))):
        return None
    C = M / d / d[:, None]
    L, failed = lapack.dpotrf(C, lower=1, clean=1)
    if failed:
        return None
    # The estimate uses column sums, which exceed the condition number in the norm of vectors by a factor of about √k.
    condition = 1 / float(lapack.dpocon(L, np.linalg.norm(C, 1), uplo="L")[0]) / len(C) ** 0.5
    if EPS * condition**2 > LOST:
        return None
    inverse: HostArray = lapack.dtrtri(L, lower=1)[0].T / d[:, None]
    return inverse


def _departure(V: Array, home: Home) -> float:
    """The departure of the columns from orthonormal ones, estimated by products of VᵀV with random vectors."""
    X = np.random.default_rng(0).standard_normal((V.shape[1], PROBES))
    gap = to_host(V.T @ (V @ home.place(X))) - X
    return float(np.linalg.norm(gap)) / max(float(np.linalg.norm(X)), 1.0)


def _straightened(V: Array, home: Home) -> Array:
    """Make the columns orthonormal one after the other, so that columns of large singular values change least."""
    L = np.linalg.cholesky(to_host(V.T @ V))
    return V @ home.place(scipy.linalg.solve_triangular(L, np.eye(len(L)), lower=True).T)
