"""The cost of methods, in floating-point operations, bytes, and seconds of a typical core.

`Moments` chooses its form by these estimates, and `select` its solver. The rates are those of one ordinary
core. The choices depend on ratios of rates, which vary little between machines. Every choice reports its numbers.
Work on rows in blocks is divided by the number of workers that share it, and each pass over them costs a round of the
cluster. Work on Gram matrices in memory, and between passes, is done in this process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, combinations_with_replacement
from typing import Any

from linspec.arrays import HOST, Device
from linspec.blocks.base import ASSUMED_ROWS, DENSE_RATE, SPARSE_RATE
from linspec.blocks.sparse import PAIR_RATE
from linspec.blocks.sparse_loops import gram_entries, pair_count
from linspec.operators import LinearOperator, SparseOperator, StreamedOperator

__all__ = [
    "CHOLESKY_RATE",
    "DECODING",
    "DENSE_RATE",
    "FACTOR_RATE",
    "PAIR_RATE",
    "READING",
    "SPARSE_RATE",
    "Estimate",
    "Sizes",
    "gram_seconds",
    "human_bytes",
    "moments_estimates",
    "moments_form",
    "sizes_of",
    "spare_bytes",
    "sweeps_estimate",
]

FACTOR_RATE = 5e9
"""Operations per second in QR factorisations and eigen-decompositions."""

CHOLESKY_RATE = 1.5e10
"""Operations per second in Cholesky factorisations, which consist mostly of matrix products."""

READING = 16
"""Cost of reading one stored entry, in operations at the rate of the product (`SPARSE_RATE` or `DENSE_RATE`).

`sweeps_estimate` adds it to the operations of the arithmetic: four for each stored entry and each column of the block.
"""

DECODING = 2e-9
"""Seconds to decode or compute a byte of rows that are not held.

Measured: 2.2 for compressed zarr, 3.6 for Parquet, 1.6 for random numbers, in nanoseconds a byte of float64.
"""

WORTH_SAMPLING = 2**22
"""Upper limit of the entries of the sparse Gram matrices above which their number is estimated from samples."""

MOMENTS_SHARE = 3 / 8
"""Fraction of the free memory (`Device.free_memory`) that the Gram matrices of `linspec.Moments` may take.

The automatic choice of a solver admits one half of the free memory for all arrays of the solver, Gram matrices
included.
"""

ALWAYS_AVAILABLE = 2**24
"""Number of bytes that are always assumed to be free.

The free memory is queried for more alone: for a small problem the query would take longer than all other steps.
"""

EXPECTED_PRODUCTS = 60
"""The expected number of products with the moments in an iterative method."""


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of a method.

    Parameters
    ----------
    seconds : float
        Time on one ordinary core. If several workers share the rows (`Sizes.workers`): the time in which all workers
        together do the work on the rows, plus the time of the other work on one core.
    bytes : float
        Peak memory, in addition to the data.
    note : str, default ""
        A description of the work that was estimated.

    Examples
    --------
    >>> from linspec.cost import DENSE_RATE, Estimate
    >>> n, p = 100_000, 200
    >>> print(Estimate(n * p**2 / DENSE_RATE, 8 * p**2, "half of AᵀA"))
    0.2 s and 320 kB
    """

    seconds: float
    bytes: float
    note: str = ""

    def __str__(self) -> str:
        return f"{self.seconds:.2g} s and {human_bytes(self.bytes)}"


@dataclass(frozen=True)
class Sizes:
    """The sizes of some views, from which estimates are made.

    X is the first view, and Y all other views side by side. The Gram matrices are XᵀX, YᵀY and the cross matrix XᵀY.

    Parameters
    ----------
    n, p, q : int
        The number of rows, the number of columns of X, and the number of columns of Y (0 if there is one view).
    nnz : int
        The number of stored entries of all views together.
    pairs : int or None
        The number of multiply-adds that form the Gram matrix of each view and the cross matrix of each two views as
        sparse matrices. A multiply-add belongs to a pair of stored entries in the same row. The number is also an upper
        limit of the number of entries of these matrices. None if a view is not sparse, but for few dense columns beside
        a sparse first view.
    k : int
        The number of columns of the blocks.
    readable : bool
        Whether all entries can be read, at least in one pass.
    device : Device, default HOST
        The device of blocks and Gram matrices, whose memory they take.
    one_entry : bool, default False
        Whether the views are sparse and no row has more than one entry, as in one-hot rows. The Gram matrices of the
        views are then diagonal, and only the cross matrix must be formed.
    workers : int, default 1
        The number of workers that share the work of a pass.
    round_seconds : float, default 0.0
        The overhead of a pass in seconds, for sending tasks and fetching sums.
    buffers : int, default 0
        The bytes that reading the rows of all views takes: the `buffer_bytes` of their operators.
    decoded : int, default 0
        The bytes that every pass decodes or computes anew: the `decoded_bytes` of the operators.
    views : tuple of SparseOperator, default ()
        The views, if all are sparse: the entries of their Gram matrices are estimated from them.
    gram_share : float, default 1
        The share of the operations of dense Gram matrices that those of the views take: that of the widest view.

    Examples
    --------
    >>> from linspec.cost import Sizes
    >>> sizes = Sizes(n=1000, p=20, q=10, nnz=30_000, pairs=None, k=5, readable=True)
    >>> sizes.gram_entries, sizes.scattered, sizes.shared(2.0)
    (700.0, False, 2.0)
    """

    n: int
    p: int
    q: int
    nnz: int
    pairs: int | None
    k: int
    readable: bool
    device: Device = HOST
    one_entry: bool = False
    workers: int = 1
    round_seconds: float = 0.0
    buffers: int = 0
    decoded: int = 0
    views: tuple[SparseOperator, ...] = ()
    gram_share: float = 1.0

    def free_memory(self) -> int:
        """The free memory of the device of blocks, on the host less the buffers; at least a quarter of it.

        Returns
        -------
        int
            Bytes. Rows that are read keep their buffers whatever a solver does, so what they leave is for solvers.
        """
        free = self.device.free_memory()
        return max(free - self.buffers, free // 4) if self.device is HOST else free

    def shared(self, seconds: float, passes: float = 1) -> float:
        """The seconds of some passes over rows by all workers.

        Parameters
        ----------
        seconds : float
            The seconds of the same work on one core, without decoding.
        passes : float, default 1
            The number of passes, each of which costs decoding and `round_seconds`, too.

        Returns
        -------
        float
        """
        decoding = self.decoded * DECODING
        return (seconds + passes * decoding) / self.workers + passes * self.round_seconds

    @property
    def gram_entries(self) -> float:
        """The number of entries of the three dense Gram matrices."""
        return float(self.p) ** 2 + float(self.q) ** 2 + float(self.p) * self.q

    @cached_property
    def sparse_gram_entries(self) -> float:
        """The number of entries of the three sparse Gram matrices: the estimate, or the upper limit."""
        most = min(float(self.pairs or 0), self.gram_entries)
        if not self.views or most <= WORTH_SAMPLING:
            return most
        crossed = (gram_entries(A.matrix, B.matrix) for A, B in combinations(self.views, 2))
        return min(sum(A.gram_entries for A in self.views) + sum(crossed), most)

    @property
    def scattered(self) -> bool:
        """Whether every view is sparse, or all views together have fewer stored entries than n p.

        True for sparse views even if they store every entry.
        """
        return self.pairs is not None or self.nnz < self.n * self.p


def sizes_of(matrices: Sequence[LinearOperator], k: int) -> Sizes:
    """The sizes of some matrices with equally many rows; for sparse ones the row lengths are read.

    Parameters
    ----------
    matrices : sequence of LinearOperator of shape (n, p)
    k : int
        The number of columns of the blocks.

    Returns
    -------
    Sizes

    Examples
    --------
    >>> import scipy.sparse
    >>> import linspec as ls
    >>> from linspec.cost import sizes_of
    >>> sizes = sizes_of([ls.as_operator(scipy.sparse.eye_array(100, 50, format="csr"))], k=3)
    >>> sizes.n, sizes.p, sizes.q, sizes.nnz, sizes.pairs, sizes.one_entry
    (100, 50, 0, 50, 50, True)
    """
    views = list(matrices)
    pairs: int | None = None
    sparse = [view for view in views if isinstance(view, SparseOperator)]
    n = min(view.shape[0] for view in views)
    n = ASSUMED_ROWS if math.isinf(n) else n
    stored = sum(view.nnz for view in sparse)
    dense = sum(view.shape[1] for view in views if view not in sparse)
    if n * dense < stored and views[0] in sparse:  # few entries beside sparse rows
        crossed = sum(pair_count(A.matrix, B.matrix) for A, B in combinations(sparse, 2))
        pairs = sum(view.pairs for view in sparse) + crossed + dense * (stored + n * dense)
    one_entry = dense == 0 and all(view.one_entry for view in sparse)
    there: list[Any] = [view for view in views if view.access == "blocks"]
    if len(there) == len(views) and all(view.sparse for view in there):
        both = combinations_with_replacement(there, 2)
        pairs = sum(A.nnz * B.nnz // n for A, B in both)  # of rows of average length
    leader = next(iter(there), None)
    return Sizes(
        n=n,
        p=views[0].shape[1],
        q=sum(view.shape[1] for view in views[1:]),
        nnz=sum(_entries(view, n) for view in views),
        pairs=pairs,
        k=k,
        readable=all(view.readable or view.streamed for view in views),
        device=views[0].device.blocks,
        one_entry=one_entry,
        workers=1 if leader is None else leader.workers,
        round_seconds=0.0 if leader is None else leader.round_seconds,
        buffers=sum(view.buffer_bytes for view in views),
        decoded=sum(_decoded(view, n) for view in views),
        views=() if dense else tuple(sparse),
        gram_share=max(views, key=lambda view: view.shape[1]).gram_share,
    )


def _entries(view: LinearOperator, n: int) -> int:
    """The number of stored entries; for a stream estimated from its first slice."""
    return int(view.density * n * view.shape[1]) if isinstance(view, StreamedOperator) else view.nnz


def _decoded(view: LinearOperator, n: int) -> int:
    """The bytes that a pass decodes or computes anew; all bytes of a stream, whose slices are made for every pass."""
    if not isinstance(view, StreamedOperator):
        return view.decoded_bytes
    return _entries(view, n) * (view.dtype.itemsize + 4 * view.sparse)


def moments_estimates(sizes: Sizes, products: int, columns: int) -> dict[str, Estimate]:
    """The cost of each form of `linspec.Moments` for some products with a block.

    Parameters
    ----------
    sizes : Sizes
    products : int
        The number of products.
    columns : int
        The number of columns of each block.

    Returns
    -------
    dict of str to Estimate
        "implicit"; for readable data also "dense", and for sparse data also "sparse".

    Examples
    --------
    >>> from linspec.cost import Sizes, moments_estimates
    >>> estimates = moments_estimates(Sizes(10**6, 100, 0, 10**8, None, 5, readable=True), products=60, columns=5)
    >>> sorted(estimates), estimates["dense"].seconds < estimates["implicit"].seconds
    (['dense', 'implicit'], True)
    """
    flops_a_pass = 4.0 * sizes.nnz * columns * (2 if sizes.q else 1)
    rate = SPARSE_RATE if sizes.scattered else DENSE_RATE
    seconds = sizes.shared(products * flops_a_pass / rate, products)
    estimates = {"implicit": Estimate(seconds, 8.0 * columns * (sizes.p + sizes.q) * 4, "passes")}
    if not sizes.readable:
        return estimates
    blocks = sizes.shared(_dense_gram_seconds(sizes))
    spare = 8.0 * max(sizes.p, sizes.q) ** 2  # the product of a block, before it is added to the sum
    if sizes.pairs is not None:
        build = sizes.shared(sizes.pairs / PAIR_RATE)
        cheaper = sizes.pairs / PAIR_RATE < _dense_gram_seconds(sizes)
        worth = cheaper or build < seconds  # else samples would not make them the fastest
        entries = sizes.sparse_gram_entries if worth else float(sizes.pairs)
        use = products * 4.0 * entries * columns / SPARSE_RATE
        estimates["sparse"] = Estimate(build + use, 16.0 * entries, "sparse Gram matrices")
        if cheaper:
            blocks = build
            spare = 16.0 * entries
    use = products * 4.0 * sizes.gram_entries * columns / DENSE_RATE
    estimates["dense"] = Estimate(blocks + use, 8.0 * sizes.gram_entries + spare, "dense Gram matrices")
    return estimates


def moments_form(sizes: Sizes, products: int, columns: int) -> tuple[str, Estimate]:
    """The fastest form of `linspec.Moments` that fits into `MOMENTS_SHARE` of the free memory, and its estimate.

    A form that needs less than `ALWAYS_AVAILABLE` always fits. If no form fits, the form is "implicit".

    Parameters
    ----------
    sizes, products, columns
        As for `moments_estimates`.

    Returns
    -------
    form : {"implicit", "sparse", "dense"}
    estimate : Estimate

    Examples
    --------
    >>> from linspec.cost import Sizes, moments_form
    >>> moments_form(Sizes(10**6, 100, 0, 10**8, None, 5, readable=True), products=60, columns=5)[0]
    'dense'
    """
    estimates = moments_estimates(sizes, products, columns)
    fastest = least_time(estimates, math.inf)
    if estimates[fastest].bytes < ALWAYS_AVAILABLE:
        return fastest, estimates[fastest]
    name = least_time(estimates, MOMENTS_SHARE * sizes.free_memory()) or "implicit"
    return name, estimates[name]


def sweeps_estimate(sizes: Sizes, products: int, spare: int = 0) -> Estimate:
    """The cost of products of AᵀA with blocks of `sizes.k` columns, and of the dense algebra after each product.

    The dense algebra works on p x k blocks, for example to make their columns orthonormal.

    Parameters
    ----------
    sizes : Sizes
    products : int
        The expected number of products, usually one in each iteration.
    spare : int, default 0
        The number of columns of the block in one additional product, such as a random sketch before the iterations.
        The estimate includes the reading of the data for this product even if the number is 0.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> from linspec.cost import Sizes, sweeps_estimate
    >>> sweeps_estimate(Sizes(10**6, 100, 0, 10**8, None, 5, readable=True), products=20).note
    '20 passes with blocks of 5 columns'
    """
    rate = SPARSE_RATE if sizes.scattered else DENSE_RATE
    per_product = sizes.shared(sizes.nnz * (READING + 4.0 * sizes.k) / rate)
    per_product += 10.0 * sizes.p * sizes.k**2 / DENSE_RATE
    once = sizes.shared(sizes.nnz * (READING + 4.0 * spare) / rate)
    held = 8.0 * sizes.p * (8 * sizes.k + 3 * spare)
    return Estimate(
        products * per_product + once, held, f"{products} passes with blocks of {sizes.k} columns"
    )


def gram_seconds(sizes: Sizes) -> float:
    """The seconds to form the dense Gram matrices of readable data; if p > n, the n x n matrix AAᵀ instead.

    For sparse data the faster of two ways is assumed: blocks of rows are made dense and multiplied, or the pairs of
    stored entries are multiplied. The number of pairs is `Sizes.pairs` if p ≤ n. If p > n the pairs of AAᵀ are not
    counted, and an upper limit is used: each stored entry is in at most n pairs.

    Parameters
    ----------
    sizes : Sizes

    Returns
    -------
    float

    Examples
    --------
    >>> from linspec.cost import Sizes, gram_seconds
    >>> gram_seconds(Sizes(10**6, 100, 0, 10**8, None, 5, readable=True))  # n p² operations at DENSE_RATE
    0.5
    """
    if sizes.p <= sizes.n:
        return moments_estimates(sizes, 0, sizes.k)["dense"].seconds
    blocks = (2.0 if sizes.scattered else 1.0) * sizes.p * float(sizes.n) ** 2 / DENSE_RATE
    if sizes.scattered:
        blocks = min(blocks, sizes.nnz * float(sizes.n) / PAIR_RATE)
    return sizes.shared(blocks)


def _dense_gram_seconds(sizes: Sizes) -> float:
    """The seconds to form half of the symmetric Gram matrix of [X Y], XᵀY included; twice as many for sparse rows."""
    made_dense = 2.0 if sizes.scattered else 1.0
    return sizes.gram_share * made_dense * sizes.n * float(sizes.p + sizes.q) ** 2 / DENSE_RATE


def least_time(estimates: dict[str, Estimate], memory: float) -> str:
    """The name of the fastest method that fits into `memory` bytes, or "" if none does."""
    fitting = {name: e for name, e in estimates.items() if e.bytes <= memory}
    return min(fitting, key=lambda name: fitting[name].seconds) if fitting else ""


def spare_bytes(device: Device = HOST) -> int:
    """The memory that a solver may use by default in a device: a quarter of the free memory.

    Parameters
    ----------
    device : Device, default HOST

    Returns
    -------
    int
        Bytes.

    Examples
    --------
    >>> from linspec.cost import spare_bytes
    >>> spare_bytes() >= 0
    True
    """
    return device.free_memory() // 4


def human_bytes(count: float) -> str:
    """Format a number of bytes with a unit, in three digits; a kB has 1000 bytes.

    Parameters
    ----------
    count : float

    Returns
    -------
    str

    Examples
    --------
    >>> from linspec.cost import human_bytes
    >>> human_bytes(320), human_bytes(2.5e9)
    ('320 B', '2.5 GB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
