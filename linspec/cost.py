"""What methods cost, in floating-point operations, bytes and seconds of a typical core.

`Moments` chooses its form and `select` its solver by these estimates. The rates are those of one ordinary
core; the choices rest on their ratios, which vary little between machines, and every choice prints its
numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from linspec import machine
from linspec.operators import (
    CenteredOperator,
    CountedOperator,
    LinearOperator,
    SparseOperator,
    StreamedOperator,
)
from linspec.operators.sparse_kernels import gram_entries, pair_count

DENSE_RATE = 2e10
"""Multiply-adds and adds a second in dense matrix products."""

FACTOR_RATE = 5e9
"""The same in QR factorisations and eigen-decompositions."""

CHOLESKY_RATE = 1.5e10
"""The same in Cholesky factorisations, which are matrix products for the most part."""

SPARSE_RATE = 1.5e9
"""The same in products of a sparse matrix with a thin block."""

PAIR_RATE = 1e8
"""Pairs of entries a second when a sparse Gram matrix is formed."""

READING = 16
"""Operations that take as long as reading an entry for a product with a thin block."""

ASSUMED_ROWS = 10**6
"""Rows that a stream is taken to have while they have not been counted."""

WORTH_SAMPLING = 2**22
"""Pairs of entries from which on it is found out how many of them meet in one entry of a sparse Gram matrix."""

MOMENTS_SHARE = 3 / 8
"""Of the available memory, for held Gram matrices: the method has the rest of the half that is taken at most."""

EXPECTED_PRODUCTS = 60
"""Products with the moments that an iterative method is expected to make."""


@dataclass(frozen=True)
class Estimate:
    """What a method would take.

    Attributes
    ----------
    seconds : float
        On one ordinary core.
    bytes : float
        At the peak, beyond the data.
    note : str
        How it was reckoned, in words.
    """

    seconds: float
    bytes: float
    note: str = ""

    def __str__(self) -> str:
        return f"{human_seconds(self.seconds)} and {human_bytes(self.bytes)}"


@dataclass(frozen=True)
class Sizes:
    """The figures of one or two views, on which estimates rest.

    Attributes
    ----------
    n, p, q : int
        Rows, columns of X, columns of Y (0 without one).
    nnz : int
        Stored entries of both.
    pairs : int or None
        Pairs of entries that share a row, over all Gram matrices: what a sparse Gram costs and the most
        entries it can have. None when a view is not sparse.
    k : int
        Columns wanted.
    readable : bool
        Whether all entries can be had, be it in one sweep.
    filled : float or None, default None
        Entries of the sparse Gram matrices, estimated; None where `pairs` is the best that is known.
    """

    n: int
    p: int
    q: int
    nnz: int
    pairs: int | None
    k: int
    readable: bool
    filled: float | None = None

    @property
    def gram_entries(self) -> float:
        """Entries of the three dense Gram matrices."""
        return float(self.p) ** 2 + float(self.q) ** 2 + float(self.p) * self.q

    @property
    def sparse_gram_entries(self) -> float:
        """Entries of the three sparse Gram matrices: as estimated, or the most there can be."""
        most = min(float(self.pairs or 0), self.gram_entries)
        return most if self.filled is None else min(self.filled, most)

    @property
    def sparse(self) -> bool:
        """Whether every view is a sparse matrix."""
        return self.pairs is not None

    @property
    def scattered(self) -> bool:
        """Whether fewer entries are stored than there are."""
        return self.sparse or self.nnz < self.n * self.p


def sizes_of(X: LinearOperator, Y: LinearOperator | None, k: int) -> Sizes:
    """Read the sizes off the operators, at the cost of a look at the row lengths of sparse ones."""
    views = [_bare(X)] if Y is None else [_bare(X), _bare(Y)]
    pairs: int | None = None
    sparse = [view for view in views if isinstance(view, SparseOperator)]
    matrices = [view.matrix for view in sparse]
    if len(matrices) == len(views):
        pairs = sum(pair_count(matrix) for matrix in matrices)
        if len(matrices) == 2:
            pairs += pair_count(*matrices)
    filled = None
    if pairs is not None and pairs > WORTH_SAMPLING:
        filled = sum(view.gram_entries for view in sparse)
        filled += gram_entries(*matrices) if len(matrices) == 2 else 0.0
    n = min(view.shape[0] for view in views)
    n = ASSUMED_ROWS if math.isinf(n) else n
    return Sizes(
        n=n,
        p=X.shape[1],
        q=0 if Y is None else Y.shape[1],
        nnz=sum(_entries(view, n) for view in views),
        pairs=pairs,
        k=k,
        readable=all(view.readable or view.streamed for view in views),
        filled=filled,
    )


def _entries(view: LinearOperator, n: int) -> int:
    """Stored entries; of a stream, what its first slice lets expect of so many rows."""
    return int(view.density * n * view.shape[1]) if isinstance(view, StreamedOperator) else view.nnz


def _bare(operator: LinearOperator) -> LinearOperator:
    """The operator without counters and centrings."""
    while isinstance(operator, CountedOperator | CenteredOperator):
        operator = operator.operator if isinstance(operator, CountedOperator) else operator.parts[0]
    return operator


def moments_estimates(sizes: Sizes, products: int, columns: int) -> dict[str, Estimate]:
    """What each form of the moments would take for `products` products of `columns` columns."""
    sweep = 4.0 * sizes.nnz * columns * (2 if sizes.q else 1)
    rate = SPARSE_RATE if sizes.scattered else DENSE_RATE
    found = {"implicit": Estimate(products * sweep / rate, 8.0 * columns * (sizes.p + sizes.q) * 4, "sweeps")}
    if not sizes.readable:
        return found
    blocks = _dense_gram_seconds(sizes)
    spare = 8.0 * max(sizes.p, sizes.q) ** 2  # the product of a block, before it is added to the sum
    if sizes.pairs is not None:
        build = sizes.pairs / PAIR_RATE
        entries = sizes.sparse_gram_entries
        use = products * 4.0 * entries * columns / SPARSE_RATE
        found["sparse"] = Estimate(build + use, 16.0 * entries, "sparse Gram matrices")
        if sparse_gram_is_cheaper(sizes):
            blocks, spare = build, 16.0 * entries
    use = products * 4.0 * sizes.gram_entries * columns / DENSE_RATE
    found["dense"] = Estimate(blocks + use, 8.0 * sizes.gram_entries + spare, "dense Gram matrices")
    return found


def moments_form(sizes: Sizes, products: int, columns: int) -> tuple[str, Estimate]:
    """The form of the moments that takes the least time within their share of the memory, and what it takes."""
    estimates = moments_estimates(sizes, products, columns)
    name = least_time(estimates, MOMENTS_SHARE * machine.available_memory()) or "implicit"
    return name, estimates[name]


def sweeps_estimate(sizes: Sizes, products: int, spare: int = 0) -> Estimate:
    """What products of AᵀA with a block of `sizes.k` columns take on the data, and the algebra between them.

    Parameters
    ----------
    sizes : Sizes
    products : int
        Iterations that are expected.
    spare : int, default 0
        Columns of one more product, a sketch.
    """
    rate = SPARSE_RATE if sizes.scattered else DENSE_RATE
    each = sizes.nnz * (READING + 4.0 * sizes.k) / rate + 10.0 * sizes.p * sizes.k**2 / DENSE_RATE
    once = sizes.nnz * (READING + 4.0 * spare) / rate
    held = 8.0 * sizes.p * (8 * sizes.k + 3 * spare)
    return Estimate(products * each + once, held, f"{products} sweeps with blocks of {sizes.k} columns")


def sparse_gram_is_cheaper(sizes: Sizes) -> bool:
    """Whether dense Gram matrices of sparse data are better formed as sparse ones first than from dense rows."""
    if sizes.pairs is None:
        return False
    return sizes.pairs / PAIR_RATE < _dense_gram_seconds(sizes)


def _dense_gram_seconds(sizes: Sizes) -> float:
    """Of XᵀX and YᵀY, which are symmetric, one half is formed; of sparse rows, which are made dense first, more."""
    made_dense = 2.0 if sizes.sparse else 1.0
    return made_dense * sizes.n * float(sizes.p + sizes.q) ** 2 / DENSE_RATE


def least_time(estimates: dict[str, Estimate], memory: float) -> str:
    """The name of the quickest estimate that fits into `memory` bytes; "" when none does."""
    fitting = {name: e for name, e in estimates.items() if e.bytes <= memory}
    return min(fitting, key=lambda name: fitting[name].seconds) if fitting else ""


def spare_bytes() -> int:
    """What a solver may hold without being asked to: a quarter of the available memory."""
    return machine.available_memory() // 4


def human_bytes(count: float) -> str:
    """Bytes in words."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def human_seconds(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 1e-3:
        return "under 1 ms"
    if seconds < 1:
        return f"{np.ceil(seconds * 1000):.0f} ms"
    return f"{seconds:.3g} s" if seconds < 7200 else f"{seconds / 3600:.3g} h"
