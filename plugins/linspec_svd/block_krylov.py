"""Block Krylov iteration: the accurate default.

Problem: the k leading singular triplets of A from few passes over the data.
Method: for S = AᵀA and a random block Ω,

    K = span(Ω, SΩ, S²Ω, …)                                          (1)
    θ, v: the Ritz pairs of S in K, with residuals ‖S v - θ v‖       (2)
    σ = √θ                                                           (3)

by block Lanczos steps with thick restarts (`linspec.linalg.krylov`), in which the residuals cost nothing.
Source: Musco & Musco 2015, arXiv:1504.05477, Algorithm 2; Golub & Underwood 1977, The block Lanczos method for
computing eigenvalues; Tropp & Webber 2023, arXiv:2306.12418.
Where we differ: (a) The iteration stops by the residual, and not after a number of powers. (b) Blocks are as narrow as
the cost of a pass allows: narrow blocks need fewer columns in all, wide blocks fewer passes. (c) A start that lacks a
leading vector has a residual of zero, too, and a value that was found as often as a block has columns may be repeated
more often: random vectors beside the answer look for more (`linspec.linalg.search`). (d) Where the rows in memory are
fewer than the columns, and no Gram matrix is held, S = AAᵀ, and one product at the end gives the right vectors.
(e) Then products with sparse rows are made in float32: the space is that of a matrix near A (van den Eshof & Sleijpen
2004, doi:10.1137/S0895479802403459), and the product at the end, in float64, makes the values, whose errors are
squares of those of the space. Where the certificate finds too large a residual, exact products go on from the vectors.
(f) Where k is a share of all squares, the space grows until its θ hold the share: each is at most an eigenvalue, so as
many triplets are enough. The iteration goes on until these have converged, and k falls as they rise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

import linspec as ls
from linspec import form_option, limit_option, option, part, tol_option
from linspec.arrays import Array, reciprocal
from linspec.cost import DENSE_RATE, Estimate, Sizes, sweeps_estimate
from linspec.iteration import Context, Iterate
from linspec.linalg import RISK, RitzPairs, block_krylov, orthonormal, search, tall_svd
from linspec.rows import Moments
from linspec.solving import Solver

OVERSAMPLING = 10
"""Columns of a wide block beyond k."""

NARROW, NARROW_DENSE, COLUMNS = 8, 24, 16
"""Columns of a narrow block of sparse and of dense rows, for estimates, and triplets for each column of it."""

PASSES = 60
"""Passes that narrow blocks may need: with fewer, blocks are wide."""

FRESH = 20
"""Random columns beside a start, at least."""

AT_FIRST = 54
"""Triplets that are supposed at first where k is a share."""

DOUBT = "The run ended before its random columns could show that the start lacks no leading singular vector."

REPEATED = (
    "The run ended while random vectors looked for more copies of a repeated value: some may be missing."
)

ROUGH, WORTH, ORDINARY = 2e-7, 2**17, 1e12
"""Least tolerance, fewest stored entries and largest size of them, or its inverse, for products in float32."""

BASIS = 5, 60
"""Columns of the final basis: so many for each triplet, and so many more."""


@dataclass(frozen=True, kw_only=True)
class BlockKrylov(Solver):
    """Rayleigh-Ritz on a block Krylov space (Musco & Musco 2015, arXiv:1504.05477)."""

    block: int | None = option(
        None,
        "random columns of a block; none: from the data, at most ten more than the triplets wanted; 20 by a start",
        kind=int,
        at_least=1,
    )
    basis: int | None = option(
        None, "columns that are held at most; none: as memory allows", kind=int, at_least=2
    )
    tol: float | None = tol_option()
    max_iterations: int = limit_option(500, "passes")
    test_matrix: Any = part("gaussian", "the first block", kind="test-matrix")
    form: str = form_option()

    def iterate(self, problem: ls.SVD, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the Ritz pairs of a growing space, as singular triplets."""
        A, device = moments.operators[0], moments.device
        k = AT_FIRST if problem.share else problem.k
        moments.expect(20, min(k + OVERSAMPLING, A.shape[1]), self.form)
        wide = A.resident and A.shape[0] < A.shape[1] and not moments.holds
        side = A.shape[0 if wide else 1]
        product = moments.operator().row_product if wide else moments.gram_product
        moments.passes.reserved += wide  # for the right vectors
        b = self._width(moments, context, k, started=start is not None)
        first = device.asarray(self.test_matrix.draw(side, b, context.rng))
        known = 0
        if start is not None:
            V = device.asarray(start["Vh"]).T
            V = moments.operator().matmat(V) if wide else V
            V, _ = orthonormal(V * reciprocal(device.column_norms(V))[None, :])
            first = device.concat([V, first])[:, :side]
            known = V.shape[1]
        triplets = (lambda pairs: right_vectors(moments, pairs.vectors())) if wide else of_columns
        enough = partial(problem.enough, moments) if problem.share else k
        rough = wide and not known and context.tol >= ROUGH and not problem.share
        for multiply in products(moments, product, rough=rough):
            for pairs in block_krylov(multiply, first, enough, context.rng, room=self.basis):  # (1), (2)
                residual = relative(pairs, problem.enough(moments, pairs.values))
                risk = 0.0 if not known or pairs.exhausted else pairs.risk(known, context.tol)
                doubt = REPEATED * (copies(pairs.values, context.tol) >= b) if risk <= RISK else DOUBT
                if residual <= context.tol and doubt and (doubt == REPEATED or math.isnan(risk)):
                    if not (yield from searched(product, pairs, b, context, triplets, doubt)):
                        return
                else:
                    yield Iterate(residual, partial(triplets, pairs), doubt=doubt)
                if multiply is not product and context.tol < ROUGH:  # the certificate has sent them back
                    break
            first = device.concat([pairs.vectors(), first])[:, :side]

    def _width(self, moments: Moments, context: Context, k: int, *, started: bool) -> int:
        """Random columns of a block: narrow where a pass costs no more than its products and passes are not few."""
        A = moments.operators[0]
        full = int(min(k + OVERSAMPLING, *A.shape))
        if started or self.block is not None:
            return min(max(full - k, FRESH) if self.block is None else self.block, A.shape[1])
        if not (A.device.on_host and A.resident and context.passes.allows(PASSES)):
            return full
        return min(max(A.cheap_columns, k // COLUMNS), full)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost: narrow blocks make a basis of five columns for each triplet and a few more."""
        side = min(sizes.n, sizes.p) if sizes.scattered else sizes.p
        b = min(NARROW if sizes.scattered else NARROW_DENSE, sizes.k + OVERSAMPLING, side)
        columns = min(BASIS[0] * sizes.k + BASIS[1], side)
        passes = -(-columns // b)
        seconds = sweeps_estimate(replace(sizes, k=b), passes).seconds + 4.0 * side * columns**2 / DENSE_RATE
        held = 8.0 * (side * (2 * columns + 8 * b) + sizes.k * (sizes.n + sizes.p))
        return Estimate(seconds, held, f"{passes} passes")


def products(moments: Moments, exact: Any, *, rough: bool) -> tuple[Any, ...]:
    """Products in float32, where they gain time and lose no digits that are asked for, and exact ones.

    The first is exact all the same: it learns of the rows.
    """
    A: Any = moments.operators[0]
    M: Any = getattr(A, "matrix", None)
    if not (
        rough
        and issparse(M)
        and A.dtype == np.float64
        and not moments.pre.directions
        and M.nnz >= WORTH
        and 1 / ORDINARY < np.abs(M.data).max() < ORDINARY
    ):
        return (exact,)
    twin = moments.again(moments.passes)
    twin.operators = [type(A)(csr_array((M.data.astype(np.float32), M.indices, M.indptr), M.shape))]
    return lambda U: twin.operator().row_product(U) if moments.fitted else exact(U), exact


def searched(
    product: Callable[[Array], Array],
    pairs: RitzPairs,
    b: int,
    context: Context,
    triplets: Callable[[RitzPairs], dict[str, Array]],
    doubt: str,
) -> Generator[Iterate, None, bool]:
    """Yield converged pairs with a doubt, and what a search makes of them; return whether it came to its end."""
    k = len(pairs.values)
    yield Iterate(relative(pairs, k), partial(triplets, pairs), doubt=doubt)
    pairs, settled = search(product, pairs, b, context.rng, context.tol)
    yield Iterate(relative(pairs, k), partial(triplets, pairs), doubt="" if settled else doubt)
    return settled


def relative(pairs: RitzPairs, k: int) -> float:
    """max ‖AᵀA v - θ v‖ / θ₁ over the leading pairs; 1 while there are fewer than k."""
    if len(pairs.values) < k:
        return 1.0
    largest = pairs.values[0]
    return float(pairs.residuals.max(initial=0.0)) / largest if largest > 0 else 0.0


def copies(values: Any, tol: float) -> int:
    """How often the most frequent value occurs, up to the tolerance."""
    near = np.abs(np.subtract.outer(values, values)) <= max(tol, 1e-7) * max(values[0], 1e-300)
    return int(near.sum(1).max(initial=0))


def of_columns(pairs: RitzPairs) -> dict[str, Array]:
    """The singular triplets that Ritz pairs of AᵀA stand for."""
    return {"Vh": pairs.vectors().T, "S": np.sqrt(np.maximum(pairs.values, 0.0))}  # (3)


def right_vectors(moments: Moments, U: Array) -> dict[str, Array]:
    """The singular triplets of left vectors, by one product: Aᵀu = σv."""
    V, S, _ = tall_svd(moments.operator().rmatmat(U))
    return {"Vh": V.T, "S": S}
