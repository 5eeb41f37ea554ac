"""Stochastic principal components: a random projection, an orthonormal basis, a small SVD.

Problem: approximate the k leading singular triplets of A, in as few sweeps as possible.
Method: Y = AΩ for a random Ω of k + oversampling columns, Q = orth(Y). The SVD of QᵀA approximates the leading right
vectors and singular values of A. Each power iteration, Q = orth(A orth(AᵀQ)), takes two sweeps. It helps if the
singular values fall slowly, because their powers fall faster.
Source: Halko, Martinsson & Tropp 2011, doi:10.1137/090771806, Algorithms 4.4 and 5.1; Wojnowicz 2017, Algorithm 1.
Where we differ: a normalizer, given by name, makes Y orthonormal, because this is most of the cost. If rows are
not in memory (files and slices), no block of n rows is held unless left vectors are requested: the normalizer works on
the triangle R of Y = QR, which a sweep makes block by block, and Q = Y T = A(ΩT) is made again in the sweep that
multiplies it. The rounding in A(ΩT) is corrected by its own triangle, which comes with that sweep. So the accuracy and
the number of sweeps are the same, except that the column means come with the products and need no sweep. With left
vectors one block is held, and made orthonormal in its own memory. For rows that can be read only once,
`linspec_svd.single_sweep` takes one sweep, with the accuracy of squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import Run, Solution, Solver, Status, option, part
from linspec.arrays import Array, Home, HostArray, all_finite, to_host
from linspec.moments import reduce_rows
from linspec.operators import (
    DenseOperator,
)
from linspec.process import count_of
from linspec_svd.single_sweep import inverse_triangle, solved_in_one_sweep
from linspec_svd.triplets import (
    left_vectors,
    multiplied_in_place,
    right_vectors,
    share_below_rounding,
    size_of_means,
    vectors_of_product,
)

ENDED = "A sketch of {columns}, {powers}: the residual shows how good it is. "
ENDED += 'Raise both numbers, or choose "block-krylov", which iterates to a tolerance.'


@dataclass(frozen=True, kw_only=True)
class SPCA(Solver):
    """Randomized SVD with an orthonormal basis (Halko, Martinsson & Tropp 2011; Wojnowicz 2017, Algorithm 1)."""

    oversampling: int = option(10, "columns of the sketch beyond the triplets wanted", at_least=0)
    power_iterations: int = option(0, "times to go back and forth, two sweeps each", at_least=0)
    test_matrix: Any = part("gaussian", "what the sketch multiplies", kind="test-matrix")
    normalizer: Any = part("cholesky-qr", "how the sketch is made orthonormal", kind="normalizer")

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve an SVD problem."""
        n, p = problem.A.shape
        moments = run.moments("implicit")
        powers = self.power_iterations
        columns = min(problem.k + self.oversampling, n, p)
        if problem.sweeps == 1 and not (powers or problem.left):
            return solved_in_one_sweep(problem, run, run.part(self.test_matrix).draw(p, columns, run.rng))
        run.note(
            Status.APPROXIMATE,
            ENDED.format(columns=count_of(columns, "column"), powers=count_of(powers, "power iteration")),
        )
        elsewhere = moments.direct.triangles and not problem.A.resident
        if elsewhere and (problem.A.access == "blocks" or not problem.left):
            return self._by_triangles(problem, run, columns)
        normalizer, home = run.part(self.normalizer), moments.home
        A = problem.A
        Omega = run.part(self.test_matrix).draw(p, columns, run.rng)

        def orthonormal(Y: Array) -> Array:
            if elsewhere and isinstance(Y, np.ndarray):
                return _in_its_place(Y, normalizer, home)
            return normalizer.orthonormalize(home.place(Y))[0]

        with np.errstate(all="ignore"):  # values that are not finite are found below
            Y = A.matmat(home.place(Omega))
            if not all_finite(Y):
                run.moments("implicit").columns.sums()  # names the entry
        Q = orthonormal(Y)
        del Y
        for _ in range(powers):
            P, _ = normalizer.orthonormalize(A.rmatmat(A.home.place(Q, A.dtype)))
            Q = orthonormal(A.matmat(P))
        U, S, V = right_vectors(A, Q, problem.k, spare=elsewhere)
        del Q
        k = _count(problem, run, S)
        return run.finish(Vh=V.T[:k, :], S=S[:k], U=U[:, :k] if problem.left else None)

    def _by_triangles(self, problem: Any, run: Run, columns: int) -> Solution:
        """Solve without holding blocks of n rows: each is made again in the sweep that multiplies it."""
        moments, normalizer = run.moments("implicit"), run.part(self.normalizer)
        home, p = moments.home, problem.A.shape[1]
        W = home.place(run.part(self.test_matrix).draw(p, columns, run.rng))

        def with_orthonormal_image(V: Array) -> Array:
            _, T = normalizer.orthonormalize(moments.products(V, onto=(), triangle=V.shape[1]).triangle)
            if (
                moments.columns.confounded
            ):  # an image is only rounding if much longer parts were subtracted from it
                noise = share_below_rounding(problem.A) * size_of_means(run)
                T = T[:, noise * to_host(home.column_norms(V @ home.place(T))) < 1]
            return V @ home.place(T)

        W = with_orthonormal_image(W)
        for _ in range(self.power_iterations):
            P, _ = normalizer.orthonormalize(moments.products(W, triangle=0)[0])
            W = with_orthonormal_image(P)
        products = moments.products(W, triangle=W.shape[1])
        AtQ, R = products[0], products.triangle
        V, S = vectors_of_product(AtQ @ home.place(inverse_triangle(R)), home, problem.k)
        k, U = _count(problem, run, S), None
        V, S = V[:, :k], S[:k]
        if problem.left:  # of rows in blocks elsewhere, which keep them
            U, recomputed, V = left_vectors(problem.A, V)
            S = S if recomputed is None else recomputed
        return run.finish(Vh=V.T, S=S, U=U)


def _in_its_place(Y: HostArray, normalizer: Any, home: Home) -> HostArray:
    """Make Y orthonormal in its own memory, by the triangle of its QR factorisation; twice, to correct rounding."""
    for again in (False, True):
        (R,) = reduce_rows({"the sketch": DenseOperator(Y)})
        T = inverse_triangle(R) if again else normalizer.orthonormalize(R)[1]
        Y = multiplied_in_place(Y, T, home)
    return Y


def _count(problem: Any, run: Run, S: HostArray) -> int:
    """The number of requested triplets above rounding."""
    largest = max(float(np.max(S, initial=0.0)), size_of_means(run))
    return min(int(problem.k), int(np.sum(share_below_rounding(problem.A) * largest < S)))
