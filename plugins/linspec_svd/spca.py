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
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from linspec import Status, option, part
from linspec.arrays import Array, to_host
from linspec.iteration import Context, Iterate
from linspec.linalg import EPS, inverse_triangle, tall_svd
from linspec.process import count_of
from linspec.rows import Moments
from linspec.solving import Solver

NULL = 8
"""A product counts as zero if none of its columns is longer than so many roundings of the entries."""

ENDED = "A sketch of {columns}, {powers}: the residual shows how good it is. "
ENDED += 'Raise both numbers, or choose "block-krylov", which iterates to a tolerance.'


@dataclass(frozen=True, kw_only=True)
class SPCA(Solver):
    """Randomized SVD with an orthonormal basis (Halko, Martinsson & Tropp 2011; Wojnowicz 2017, Algorithm 1)."""

    oversampling: int = option(10, "columns of the sketch beyond the triplets wanted", at_least=0)
    power_iterations: int = option(0, "times to go back and forth, two sweeps each", at_least=0)
    test_matrix: Any = part("gaussian", "what the sketch multiplies", kind="test-matrix")
    normalizer: Any = part("cholesky-qr", "how the sketch is made orthonormal", kind="normalizer")

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        A, k = moments.operators[0], problem.k
        p, place = A.shape[1], A.backend.blocks
        columns = int(min(k + self.oversampling, A.shape[0], p))
        Omega = place.place(self.test_matrix.draw(p, columns, context.rng))
        say_what_was_sketched(context, columns, self.power_iterations)
        B = self._in_memory(moments, Omega) if A.resident else self._by_triangles(moments, Omega)
        yield Iterate(0.0, partial(_triplets, moments, B, k), final=True)

    def _in_memory(self, moments: Moments, Omega: Array) -> Array:
        """AᵀQ with Q in memory."""
        A = moments.operator()
        Q, _ = self.normalizer.orthonormalize(A.matmat(Omega))  # (1)
        for _ in range(self.power_iterations):
            P, _ = self.normalizer.orthonormalize(A.rmatmat(Q))
            Q, _ = self.normalizer.orthonormalize(A.matmat(P))  # (2)
        return A.rmatmat(Q)

    def _by_triangles(self, moments: Moments, W: Array) -> Array:
        """AᵀQ without blocks of n rows: each is made again in the pass that multiplies it."""
        place = moments.operators[0].backend.blocks
        for _ in range(self.power_iterations):
            W, _ = self.normalizer.orthonormalize(moments.gram_product(W))  # (2), for Q = AW
        _, R = moments.products_with_triangle(W)  # (1)
        noise = NULL * EPS * moments.subtracted()
        _, T = self.normalizer.orthonormalize(place.place(R))
        W = W @ place.place(T)  # AW is orthonormal up to rounding
        W = W[:, noise * to_host(place.column_norms(W)) < 1]
        AtQ, R = moments.products_with_triangle(W)
        return AtQ @ place.place(inverse_triangle(R))


def say_what_was_sketched(context: Context, columns: int, powers: int) -> None:
    """Say that an answer is as good as its sketch."""
    text = ENDED.format(columns=count_of(columns, "column"), powers=count_of(powers, "power iteration"))
    context.note(Status.APPROXIMATE, text)


def _triplets(moments: Moments, B: Array, k: int) -> dict[str, Any]:
    """The k leading triplets above rounding, from B = AᵀQ."""
    V, S, _ = tall_svd(B)  # (3)
    least = max(moments.least_value() * float(S.max(initial=0.0)), NULL * EPS * moments.subtracted())
    known = min(k, int((least < S).sum()))
    return {"Vh": V[:, :known].T, "S": S[:known]}
