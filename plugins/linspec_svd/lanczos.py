"""Lanczos iterations of SciPy's ARPACK and PROPACK on the products of the data.

Problem: the k leading singular triplets of A, one product with one vector at a time.
Method: `eigsh` (ARPACK, implicitly restarted Lanczos) runs on v ↦ AᵀAv, one pass for each product; `svds` with PROPACK
runs on A and Aᵀ in turn.
Source: Lehoucq, Sorensen & Yang 1998, ARPACK users' guide; Larsen 1998, Lanczos bidiagonalization with partial
reorthogonalization (PROPACK).
Where we differ: the libraries call back, so their iteration cannot be watched. Block Lanczos steps from their vectors
and a few random ones follow: they tell the residual, go on where the library gave up, and look for more copies of
repeated values, of which a single vector meets one. Where a limit ends ARPACK, Rayleigh-Ritz on its last products
gives the answer; for PROPACK the SVD of AᵀU does, of its orthonormal left vectors U. ARPACK takes values below
eps^(2/3) for zero, so products are in units in which the first is near 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, eigsh, svds
from scipy.sparse.linalg import LinearOperator as SciPyOperator

from linspec import form_option, limit_option, option, tol_option
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.iteration import Context, Iterate
from linspec.linalg import RitzPairs, block_krylov
from linspec.rows import Moments, OutOfPasses
from linspec.solving import Solver
from linspec_svd.block_krylov import REPEATED, copies, of_columns, relative, searched

FEWEST_VECTORS = 20
"""Vectors of a basis of ARPACK, at least; SciPy's own default."""

COPIES = 4
"""Columns of the blocks that look for more copies of a value."""


DEPENDENT = 1e-10
"""Recorded vectors with less of their length left are combinations of others."""


@dataclass(frozen=True, kw_only=True)
class Lanczos(Solver):
    """ARPACK or PROPACK with recorded products (Lehoucq, Sorensen & Yang 1998; Larsen 1998)."""

    method: str = option("arpack", "the library that iterates", choices=("arpack", "propack"))
    basis: int | None = option(
        None, "vectors of a basis; none: max(2k + 1, 20) for arpack, max(10k, 100) for propack", at_least=2
    )
    tol: float | None = tol_option()
    max_iterations: int = limit_option(500, "restarts of the library,")
    form: str = form_option()

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the pairs of the library, and of the steps that follow."""
        k, p = problem.k, moments.widths[0]
        least = int(min(moments.operators[0].shape))
        moments.expect(k + 100, 1, "implicit" if self.method == "propack" else self.form)
        usual = max(2 * k + 1, FEWEST_VECTORS) if self.method == "arpack" else max(10 * k, 100)
        width = min(usual if self.basis is None else max(self.basis, k + 1), p)
        products = Recorded(moments, width)
        V, shown = np.zeros((p, 0)), False
        try:
            if k < least - 1:
                V = self._by_library(products, k, width, context)
            for iterate in self._steps(moments, products.place(V), k, context):
                yield iterate
                shown = True
        except OutOfPasses:
            if products.count and not shown:
                pairs = products.pairs(k, by_left=self.method == "propack")
                yield Iterate(relative(pairs, k), partial(of_columns, pairs))
            raise

    def _steps(self, moments: Moments, V: Array, k: int, context: Context) -> Iterator[Iterate]:
        """Block Lanczos steps from the vectors of the library."""
        (p, found), place = V.shape, Home.of(V).place
        fresh = min(p - found, COPIES if found else k + COPIES)
        first = Home.of(V).concat([V, place(context.rng.standard_normal((p, fresh)))])
        for pairs in block_krylov(moments.gram_product, first, k, context.rng):
            residual = relative(pairs, k)
            if residual <= context.tol and copies(pairs.values, context.tol) > 1:
                b = min(COPIES, p)
                yield from searched(moments.gram_product, pairs, b, context, of_columns, REPEATED)
            else:
                yield Iterate(residual, partial(of_columns, pairs))

    def _by_library(self, products: Recorded, k: int, width: int, context: Context) -> HostArray:
        """The leading right vectors by PROPACK, or by ARPACK; none if the library fails."""
        try:
            if self.method == "propack":
                return self._propack(products, k, width, context)
            return self._arpack(products, k, width, context)
        except (ArpackError, np.linalg.LinAlgError, SystemError):
            if products.failure is not None:
                raise products.failure from None
            return np.zeros((products.V.shape[0], 0))

    def _arpack(self, products: Recorded, k: int, width: int, context: Context) -> HostArray:
        """The vectors of ARPACK, also where not all have converged."""
        p = products.V.shape[0]
        operator = SciPyOperator((p, p), matvec=products.scaled, dtype=np.float64)
        first = context.rng.standard_normal(p)
        try:
            _, vectors = eigsh(operator, k, v0=first, ncv=width, tol=context.tol, maxiter=self.max_iterations)
        except ArpackNoConvergence as error:
            vectors = error.eigenvectors
        return np.asarray(vectors)

    def _propack(self, products: Recorded, k: int, width: int, context: Context) -> HostArray:
        """The vectors of PROPACK."""
        A = products.moments.operator()
        n, p = (int(size) for size in A.shape)
        times = products.heard(A.matmat)
        adjoint = products.heard(partial(products.adjoint, A.rmatmat))
        operator = SciPyOperator((n, p), matvec=times, rmatvec=adjoint, dtype=np.float64)
        first = context.rng.standard_normal(n)
        _, _, Vt = svds(operator, k, solver="propack", tol=context.tol, maxiter=width, v0=first)
        vectors: HostArray = Vt.T
        return vectors


class Recorded:
    """Products with AᵀA, of which the last ones are kept."""

    def __init__(self, moments: Moments, width: int) -> None:
        self.moments, self.count, self.unit = moments, 0, 0.0
        self.V, self.SV = np.zeros((2, moments.widths[0], 2 * width))
        self.place = moments.operators[0].backend.blocks.place
        self.failure: BaseException | None = None

    def heard(self, product: Callable[[Any], Any]) -> Callable[[HostArray], HostArray]:
        """A product with a vector, whose error is kept: compiled code may hide it."""

        def multiply(v: HostArray) -> HostArray:
            try:
                return to_host(product(self.place(v.reshape(-1, 1))))[:, 0]
            except BaseException as error:
                self.failure = error
                raise

        return multiply

    def multiply(self, V: Any) -> Any:
        """AᵀA V of a block, which is recorded."""
        SV = self.moments.gram_product(self.place(to_host(V)))
        self._record(to_host(V), to_host(SV))
        return SV

    def adjoint(self, product: Callable[[Any], Any], U: Any) -> Any:
        """AᵀU, which is recorded."""
        W = product(U)
        self._record(to_host(W), np.full((len(W), U.shape[1]), np.nan))
        return W

    def _record(self, V: HostArray, SV: HostArray) -> None:
        for v, Sv in zip(V.T, SV.T, strict=True):
            column = self.count % self.V.shape[1]
            self.V[:, column], self.SV[:, column] = v, Sv
            self.count += 1

    def scaled(self, v: HostArray) -> HostArray:
        """AᵀA v in units in which the first product is near 1."""
        Sv = self.heard(self.multiply)(v)
        if not self.unit:
            size = float(np.linalg.norm(Sv)) / max(float(np.linalg.norm(v)), 1e-300)
            self.unit = 2.0 ** -round(math.log2(size)) if size > 0 else 0.0
        return Sv * (self.unit or 1.0)

    def pairs(self, k: int, *, by_left: bool) -> RitzPairs:
        """The leading Ritz pairs of the span of what was multiplied last, or of V = AᵀU by U."""
        filled = min(self.count, self.V.shape[1])
        Q, s, Wt = np.linalg.svd(self.V[:, :filled], full_matrices=False)
        if by_left:
            squares = s[:k] ** 2
            return RitzPairs(squares, partial(self.place, Q[:, :k]), squares, exhausted=False)
        live = s > DEPENDENT * s.max(initial=0.0)
        Q, SQ = Q[:, live], self.SV[:, :filled] @ (Wt[live].T / s[live])
        H = Q.T @ SQ
        theta, Y = np.linalg.eigh((H + H.T) / 2)
        theta, Y = theta[::-1][:k], Y[:, ::-1][:, :k]
        vectors = Q @ Y
        residuals = np.linalg.norm(SQ @ Y - vectors * theta, axis=0)
        return RitzPairs(theta, partial(self.place, vectors), residuals, exhausted=False)
