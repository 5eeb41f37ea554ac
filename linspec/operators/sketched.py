"""Random matrices that are drawn from a seed at each use, and multiply data from the right.

Problem: compute A Ω for a p x l random matrix Ω. A stored Ω would be a dense p x l block, although a seed
determines it. A may be sparse, and Ω may have few nonzero entries.
Method: Ω consists of tiles, which are ranges of consecutive columns. Each tile has its own generator, made from the
seed, and is dense or in compressed rows. Rows in memory are multiplied by one tile after the other, so that one is
held. Rows of files are read once, and multiplied by all tiles. Sparse tiles are few entries, and all of them are held.
Source: the sketching operators of randomized linear algebra (Murray et al. 2023, arXiv:2302.11474, chapter 2).
Where we differ: tiles are ranges of columns. So a product needs no sum over tiles, and a sum over p is as accurate as
in a product with the whole matrix. All random numbers are drawn on the host, so a seed means the same matrix for every
array library and device. The array API has no sparse product, so on other devices a sparse tile becomes dense.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import HostArray, at_home
from linspec.errors import InvalidProblem
from linspec.operators.base import LinearOperator

Tile = Any
"""A range of columns of a random matrix, float64: a NumPy array or a `scipy.sparse.csr_array`."""

TILE_ENTRIES = 2**22
"""Number of stored entries of a tile (32 MiB) by which `tile_width` chooses the number of its columns.

A tile has more entries if `NARROWEST_TILE` columns have more. Do not change the number: each tile has its own random
generator, so the matrix that a seed gives depends on the widths of the tiles.
"""

NARROWEST_TILE = 16
"""Smallest number of columns in a tile, because each tile reads the data again."""


class Sketch(ABC):
    """A p x l random matrix that is drawn at each use; its entries are float64 on the host.

    A subclass defines `tiles`. It may define `sketch` if there is a faster way than products with tiles.

    Parameters
    ----------
    rows, columns : int
        The shape (p, l).
    sparse : bool, default False
        Whether the tiles are compressed rows.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.operators import Sketch
    >>> class Ones(Sketch):
    ...     def tiles(self):
    ...         yield slice(0, self.shape[1]), np.ones(self.shape)
    >>> Ones(3, 2).sketch(ls.as_operator(np.eye(3)))
    array([[1., 1.],
           [1., 1.],
           [1., 1.]])
    """

    def __init__(self, rows: int, columns: int, *, sparse: bool = False) -> None:
        self.shape = (int(rows), int(columns))
        self.sparse = sparse

    @abstractmethod
    def tiles(self) -> Iterator[tuple[slice, Tile]]:
        """Yield ranges of consecutive columns with their entries: all columns, in order, and the same in every call."""

    def dense(self) -> HostArray:
        """The entries."""
        entries = np.zeros(self.shape)
        for columns, tile in self.tiles():
            entries[:, columns] = tile.toarray() if self.sparse else tile
        return entries

    @at_home
    def sketch(self, A: LinearOperator) -> Any:
        """A Ω.

        Parameters
        ----------
        A : LinearOperator of shape (n, p)
            Data in memory and in files need no dense p x l block. An operator that only gives products needs
            one. Files are read once.

        Returns
        -------
        array of shape (n, l), or scipy.sparse.csr_array
            In the working dtype of A, at `A.home`. It is sparse if A and Ω are SciPy's sparse matrices.

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
        if not A.readable:
            return A.matmat(A.home.blocks.place(self.dense()))
        pieces, one_by_one = A.in_blocks().pieces, A.resident and not self.sparse
        if A.sparse and self.sparse:
            tiles = [tile for _, tile in self._tiles_for(A)]
            rows = [scipy.sparse.hstack([X.slab.matrix @ tile for tile in tiles]) for X in pieces()]
            empty = scipy.sparse.csr_array((0, self.shape[1]), dtype=A.dtype)
            found = scipy.sparse.csr_array(scipy.sparse.vstack([empty, *rows], format="csr", dtype=A.dtype))
            return found if A.resident else found.toarray()
        product = A.home.zeros((A.shape[0], self.shape[1]), A.dtype)
        for some in ([each] for each in self._tiles_for(A)) if one_by_one else [list(self._tiles_for(A))]:
            row = 0
            for X in pieces():
                for columns, tile in some:
                    product[row : row + X.rows, columns] = X.times(tile)
                row += X.rows
        return product

    def _tiles_for(self, A: LinearOperator) -> Iterator[tuple[slice, Any]]:
        """Yield the tiles as rows of A are multiplied by them: on other devices as dense ones."""
        for columns, tile in self.tiles():
            if self.sparse and A.home.on_host:
                yield columns, tile.astype(A.dtype, copy=False)
            else:
                yield columns, A.home.place(tile.toarray() if self.sparse else tile, A.dtype)


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
    >>> import linspec as ls
    >>> from linspec.operators import HeldSketch
    >>> left, right = np.ones((3, 2)), np.zeros((3, 1))
    >>> omega = HeldSketch(3, 3, [(slice(0, 2), left), (slice(2, 3), right)])
    >>> omega.sketch(ls.as_operator(np.eye(3)))
    array([[1., 1., 0.],
           [1., 1., 0.],
           [1., 1., 0.]])
    """

    def __init__(
        self, rows: int, columns: int, tiles: Sequence[tuple[slice, Tile]], *, sparse: bool = False
    ) -> None:
        super().__init__(rows, columns, sparse=sparse)
        self._tiles = tuple(tiles)

    def tiles(self) -> Iterator[tuple[slice, Tile]]:
        return iter(self._tiles)


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
    >>> np.array_equal(omega.dense(), omega.dense())  # drawn twice, the same numbers
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
        usual = tile_width(rows, 1.0 if density is None else density)
        self._draw = draw
        self._width = usual if width is None else max(width, 1)

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
