"""Random matrices as operators that are drawn from a seed at each use and multiply data from the right.

Problem: compute A Ω for a p x l random matrix Ω. A stored Ω would be a dense p x l block, although a seed
determines it. A may be sparse, and Ω may have few nonzero entries.
Method: Ω consists of tiles, which are ranges of consecutive columns. Each tile has its own generator, made from the
seed, and is dense or in compressed rows. A dense tile is multiplied like any thin block. A sparse tile and sparse data
give a sparse product, one block of rows after the other. A sparse tile and dense rows are multiplied by SciPy's
kernels.
Source: the sketching operators of randomized linear algebra (Murray et al. 2023, arXiv:2302.11474, chapter 2).
Where we differ: tiles are ranges of columns. So a product needs no sum over tiles, and a sum over p is as accurate as
in a product with the whole matrix. All random numbers are drawn on the host, so a seed means the same matrix for every
array library and device. The array API has no sparse product, so on other devices a sparse tile becomes dense, a few
columns at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import Array, HostArray, at_home
from linspec.errors import InvalidProblem
from linspec.operators import sparse_products, sparse_slabs
from linspec.operators.base import CenteredOperator, LinearOperator
from linspec.operators.dense import DenseOperator, MappedOperator
from linspec.operators.sparse import SparseOperator
from linspec.process import machine

Tile = Any
"""A range of columns of a random matrix, float64: a NumPy array or a `scipy.sparse.csr_array`."""

TILE_ENTRIES = 2**22
"""Number of stored entries of a tile (32 MiB) by which `tile_width` chooses the number of its columns.

A tile has more entries if `NARROWEST_TILE` columns have more. Do not change the number: each tile has its own random
generator, so the matrix that a seed gives depends on the widths of the tiles.
"""

NARROWEST_TILE = 16
"""Smallest number of columns in a tile, because each tile reads the data again."""

PAIRS_PER_BLOCK = 2**21
"""Multiply-adds per block of rows in a product of two sparse matrices, which bounds the memory of the result."""


class Sketch(LinearOperator):
    """A p x l random matrix that is drawn at each use; its entries are float64 on the host.

    A subclass defines `tiles`. It may define `_matmat`, `_rmatmat` and `_of_block` if there is a faster way
    than products with tiles, and `nnz` if it stores fewer entries.

    Parameters
    ----------
    rows, columns : int
        The shape (p, l).
    sparse : bool, default False
        Whether the tiles are compressed rows.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.operators import Sketch
    >>> class Ones(Sketch):
    ...     def tiles(self):
    ...         yield slice(0, self.shape[1]), np.ones(self.shape)
    >>> Ones(3, 2).matmat(np.eye(2))
    array([[1., 1.],
           [1., 1.],
           [1., 1.]])
    """

    dtype = np.dtype(np.float64)
    readable = True

    def __init__(self, rows: int, columns: int, *, sparse: bool = False) -> None:
        self.shape = (int(rows), int(columns))
        self.sparse = sparse

    @abstractmethod
    def tiles(self) -> Iterator[tuple[slice, Tile]]:
        """Yield ranges of consecutive columns with their entries: all columns, in order, and the same in every call."""

    def held(self) -> Sketch:
        """The same random matrix with its tiles kept in memory, to multiply many blocks of rows."""
        return HeldSketch(*self.shape, list(self.tiles()), sparse=self.sparse)

    @at_home
    def sketch(self, A: LinearOperator) -> Array:
        """A Ω, in one sweep over A.

        Parameters
        ----------
        A : LinearOperator of shape (n, p)
            Data in memory and in files need no dense p x l block. An operator that only gives products needs
            one.

        Returns
        -------
        array of shape (n, l)
            In the working dtype of A, at `A.home`.

        Raises
        ------
        InvalidProblem
            A does not have p columns.
        """
        if A.shape[1] != self.shape[0]:
            raise InvalidProblem(
                f"the data must have as many columns as the random matrix has rows, {self.shape[0]}; got "
                f"shape {A.shape[0]} x {A.shape[1]}. Make a random matrix with {A.shape[1]} rows."
            )
        return self._sketch(A)

    def sparse_sketch(self, A: SparseOperator) -> scipy.sparse.csr_array:
        """A Ω for sparse A and sparse Ω, as compressed rows in the working dtype of A."""
        tiles = self._tiles_in(A.dtype)

        def multiplied(rows: slice) -> Any:
            block = _block(A, rows)
            return scipy.sparse.hstack([block @ tile for _, tile in tiles], format="csr")

        pieces = machine.map_parallel(multiplied, self._sparse_blocks(A))
        empty = scipy.sparse.csr_array((0, self.shape[1]), dtype=A.dtype)
        return scipy.sparse.csr_array(scipy.sparse.vstack([empty, *pieces], format="csr", dtype=A.dtype))

    # ---- products with the matrix itself ---------------------------------------------------------

    def _matmat(self, V: Array) -> Array:
        product = np.zeros((self.shape[0], V.shape[1]))
        for columns, tile in self.tiles():
            product += _matmat(tile, V[columns, :])
        return product

    def _rmatmat(self, U: Array) -> Array:
        product = np.zeros((self.shape[1], U.shape[1]))
        for columns, tile in self.tiles():
            product[columns, :] = (
                sparse_products.rmatmat(tile, U, self.dtype) if self.sparse else np.asarray(tile.T @ U)
            )
        return product

    def _dense(self) -> Array:
        entries = np.zeros(self.shape)
        for columns, tile in self.tiles():
            entries[:, columns] = tile.toarray() if self.sparse else tile
        return entries

    # ---- products with data ----------------------------------------------------------------------

    def _sketch(self, A: LinearOperator) -> Array:
        if isinstance(A, CenteredOperator):  # (A − 1 mᵀ) Ω = A Ω − 1 (Ωᵀ m)ᵀ
            shift = self.rmatmat(A.mean[:, None])
            return A.home.place(self._sketch(A.parts[0]), A.dtype) - A.home.place(shift.T, A.dtype)
        if isinstance(A, SparseOperator):
            return self._of_sparse(A)
        if isinstance(A, DenseOperator):
            return self._of_rows(A)
        return A.matmat(A.home.blocks.place(self.dense()))

    def _of_sparse(self, A: SparseOperator) -> Array:
        product = np.zeros((A.shape[0], self.shape[1]), A.dtype)
        if not self.sparse:
            for columns, tile in self.tiles():
                product[:, columns] = A.matmat(tile)
            return product
        tiles = self._tiles_in(A.dtype)

        def fill(rows: slice) -> None:
            block = _block(A, rows)
            for columns, tile in tiles:
                product[rows, columns] = (block @ tile).toarray()

        machine.map_parallel(fill, self._sparse_blocks(A))
        return product

    def _tiles_in(self, dtype: np.dtype[Any]) -> list[tuple[slice, Tile]]:
        return [(columns, tile.astype(dtype, copy=False)) for columns, tile in self.tiles()]

    def _sparse_blocks(self, A: SparseOperator) -> list[slice]:
        """Slices of rows of A, so short that each sparse product takes little memory."""
        n, p = A.shape
        pairs = A.nnz * self.nnz / max(n * p, 1)
        size = int(min(max(PAIRS_PER_BLOCK / max(pairs, 1.0), 1), max(n, 1)))
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]

    def _of_rows(self, A: DenseOperator) -> Array:
        """A Ω for dense rows in memory, on a device or in a file."""
        if self._tile_by_tile(A):
            return self._of_block(A)
        product = A.home.zeros((A.shape[0], self.shape[1]), A.dtype)
        held = self.held()
        for rows, block in A._blocks():
            if isinstance(block, DenseOperator):
                product[rows, :] = held._of_block(block)
            else:
                product[rows, :] = held._sketch(block)
        return product

    def _tile_by_tile(self, A: DenseOperator) -> bool:
        """Whether to multiply all rows by one tile before the next tile is drawn, with only one tile in memory.

        If False, all tiles are held in memory, and each block of rows is multiplied by all tiles before the next block
        is read. False for a file, which should be read only once, and for sparse tiles on the host, where the temporary
        memory of products must be bounded.
        """
        return not isinstance(A, MappedOperator) and not (self.sparse and A.home.on_host)

    def _of_block(self, A: DenseOperator) -> Array:
        """A Ω for dense rows, in the working dtype of A.

        On the host, a sparse tile is multiplied with `A.array` itself. Then the caller must pass rows that are stored
        in the working dtype and have no mean to subtract, such as the blocks of `DenseOperator._blocks`.
        """
        home, dtype = A.home, A.dtype
        product = home.zeros((A.shape[0], self.shape[1]), dtype)
        for columns, tile in self._pieces(densify=not home.on_host):
            if scipy.sparse.issparse(tile):
                product[:, columns] = A.array @ tile.astype(dtype, copy=False)
            else:
                product[:, columns] = A.matmat(home.blocks.place(tile))
        return product

    def _pieces(self, *, densify: bool) -> Iterator[tuple[slice, Tile]]:
        """Yield the tiles; with `densify`, sparse tiles as dense arrays of a few columns each."""
        for columns, tile in self.tiles():
            if not (self.sparse and densify):
                yield columns, tile
                continue
            width, by_columns = tile_width(self.shape[0]), tile.tocsc()
            for start in range(columns.start, columns.stop, width):
                chosen = slice(start, min(start + width, columns.stop))
                local = slice(chosen.start - columns.start, chosen.stop - columns.start)
                yield chosen, by_columns[:, local].toarray()


class HeldSketch(Sketch):
    """A random matrix whose tiles are in memory.

    Parameters
    ----------
    rows, columns : int
        The shape.
    tiles : sequence of (slice, tile)
    sparse : bool, default False
        Whether the tiles are compressed rows.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.operators import HeldSketch
    >>> left, right = np.ones((3, 2)), np.zeros((3, 1))
    >>> omega = HeldSketch(3, 3, [(slice(0, 2), left), (slice(2, 3), right)])
    >>> omega.matmat(np.eye(3))
    array([[1., 1., 0.],
           [1., 1., 0.],
           [1., 1., 0.]])
    """

    def __init__(
        self, rows: int, columns: int, tiles: Sequence[tuple[slice, Tile]], *, sparse: bool = False
    ) -> None:
        super().__init__(rows, columns, sparse=sparse)
        self._tiles = tuple(tiles)

    @property
    def nnz(self) -> int:
        return sum(int(tile.nnz) if self.sparse else tile.size for _, tile in self._tiles)

    def tiles(self) -> Iterator[tuple[slice, Tile]]:
        return iter(self._tiles)

    def held(self) -> Sketch:
        return self


class SeededSketch(Sketch):
    """A random matrix whose tiles are drawn again at every use, each from its own generator.

    Parameters
    ----------
    rows, columns : int
        The shape.
    rng : numpy.random.Generator
        The generator that draws the seed (two integers); it is not kept.
    draw : callable
        `draw(rows, columns, rng)` makes a tile: a float64 array, or a `csr_array`.
    width : int, optional
        Columns of a tile; by default as many as a dense tile may have.
    density : float, optional
        The expected fraction of nonzero entries, for tiles in compressed rows; by default tiles are dense.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.operators import SeededSketch
    >>> def signs(rows, columns, rng):
    ...     return rng.choice([-1.0, 1.0], size=(rows, columns))
    >>> omega = SeededSketch(4, 3, np.random.default_rng(0), signs)
    >>> np.array_equal(omega.matmat(np.eye(3)), omega.matmat(np.eye(3)))  # drawn twice, the same numbers
    True
    """

    def __init__(
        self,
        rows: int,
        columns: int,
        rng: np.random.Generator,
        draw: Callable[[int, int, np.random.Generator], Tile],
        *,
        width: int | None = None,
        density: float | None = None,
    ) -> None:
        super().__init__(rows, columns, sparse=density is not None)
        self._seed = [int(word) for word in rng.integers(2**63, size=2)]
        self._draw = draw
        self._width = (
            tile_width(rows, 1.0 if density is None else density) if width is None else max(width, 1)
        )
        self._nnz = round((1.0 if density is None else density) * rows * columns)

    @property
    def nnz(self) -> int:
        return self._nnz

    def tiles(self) -> Iterator[tuple[slice, Tile]]:
        rows, columns = self.shape
        for number, start in enumerate(range(0, columns, self._width)):
            stop = min(start + self._width, columns)
            rng = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(number,)))
            yield slice(start, stop), self._draw(rows, stop - start, rng)


def tile_width(rows: int, density: float = 1.0) -> int:
    """The number of columns of a tile with `rows` rows, of whose entries the fraction `density` is stored.

    A tile of this width has at most `TILE_ENTRIES` stored entries, or `NARROWEST_TILE` columns.

    Examples
    --------
    >>> from linspec.operators import tile_width
    >>> tile_width(1000) > tile_width(1_000_000) >= 1
    True
    """
    return max(NARROWEST_TILE, int(TILE_ENTRIES / max(rows * density, 1.0)))


def _matmat(tile: Tile, V: HostArray) -> HostArray:
    sparse = scipy.sparse.issparse(tile)
    return sparse_products.matmat(tile, V, np.float64) if sparse else np.asarray(tile @ V)


def _block(A: SparseOperator, rows: slice) -> scipy.sparse.csr_array:
    """The rows of a slice, as CSR in the working dtype of A."""
    block = sparse_slabs.row_block(A.matrix, rows.start, rows.stop)
    return scipy.sparse.csr_array(block).astype(A.dtype, copy=False)
