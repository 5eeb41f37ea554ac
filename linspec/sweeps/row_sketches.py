"""Sparse sign sketches of the rows: S A for a random S of few rows, in one sweep.

Problem: find S with d rows, where d is a few times the p columns of A, such that S A x has the length of A x up to a
constant factor for every x: a subspace embedding.
Method: every row of A is added, with random signs, to ζ of d rows (Cohen 2016, SODA, pages 278-287;
the constants are those of Tropp, Yurtsever, Udell & Cevher 2019, doi:10.1137/18M1201068). This costs ζ additions for
each entry, while a Gaussian S would cost d.
Where we differ: S is made of ζ rounds. In each round, the rows of a group are distributed evenly at random, so every
row of S A gets equally many rows of A from a full group; two rounds may choose the same row of S. The random numbers of
a group come from a counter-based generator (Philox: Salmon, Moraes, Dror & Shaw 2011, doi:10.1145/2063384.2063405),
whose key is the seed and the first row of the group. So S is a function of the seed and of the row indices: it depends
neither on the home of A nor on the blocks in which A is read, and blocks may be sketched in any order. On the host a
block of S is a sparse matrix: SciPy multiplies it four times as fast as it gathers rows (measured). Elsewhere the rows
are gathered, which needs only the array API.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import Array, Home, HostArray
from linspec.operators import LinearOperator, as_operator
from linspec.sweeps.task import Task

GROUP_ROWS = 4096
"""The least number of rows in a group."""

NONZEROS = 8
"""The number of rows of the sketch to which each row is added by default (Tropp, Yurtsever, Udell & Cevher 2019)."""

Places = tuple[HostArray, HostArray]
"""Two arrays with an entry for every round and every row of A. The first has places: the place of a row is its position
in the random order of its group in this round. The row is added to that row of S A whose number is the place modulo the
number of rows of S. The second array has the factors ±1/√ζ."""


@dataclass(frozen=True)
class SparseSigns:
    """S with `size` rows and `nonzeros` entries ±1/√nonzeros in each of n columns.

    Parameters
    ----------
    n : int
        Rows of A.
    size : int
        Rows of S.
    nonzeros : int
        Rounds, ζ.
    seed : int
        From 0 to 2⁶⁴ − 1.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.arrays import HOST
    >>> from linspec.sweeps import SparseSigns
    >>> S = SparseSigns(n=6, size=3, nonzeros=1, seed=0)
    >>> places, signs = S.group(0)  # of the rows that are distributed together, here of all six
    >>> S.times(places, signs, np.eye(6), HOST).round().astype(int)
    array([[-1,  0,  0,  0,  0, -1],
           [ 0,  0,  1,  0,  1,  0],
           [ 0,  1,  0,  1,  0,  0]])
    """

    n: int
    size: int
    nonzeros: int
    seed: int

    @property
    def group_rows(self) -> int:
        """The number of rows that are distributed together; the last group may have fewer."""
        return self.size * -(-GROUP_ROWS // self.size)

    def group(self, number: int) -> Places:
        """Places and signs of the rows of one group, each of shape (nonzeros, m).

        m is the number of rows of the group, rounded up to a multiple of `size`. So the places form whole layers of
        `size` places, one for each row of S.
        """
        first = number * self.group_rows
        rows = min(self.group_rows, self.size * -(-(self.n - first) // self.size))
        rng = np.random.Generator(np.random.Philox(key=np.array([self.seed, first], dtype=np.uint64)))
        places = np.stack([rng.permutation(rows) for _ in range(self.nonzeros)])
        return places, (2.0 * rng.integers(0, 2, places.shape) - 1.0) / np.sqrt(self.nonzeros)

    def pieces(self, first: int, n: int) -> Iterator[tuple[int, slice, slice]]:
        """Cut the n rows of A that begin with row `first` where a group ends, and yield a triple for each piece.

        The triple has the number of the group, the slice of the piece in the rows of the group, and the slice of the
        piece in the n rows.
        """
        start = first
        while start < first + n:
            number, inside = divmod(start, self.group_rows)
            rows = min(self.group_rows - inside, first + n - start)
            yield number, slice(inside, inside + rows), slice(start - first, start - first + rows)
            start += rows

    def times(self, places: HostArray, signs: HostArray, block: Array, home: Home) -> Array:
        """Product of S with n rows of one group, a block in float64 at `home`.

        Parameters
        ----------
        places, signs : numpy.ndarray of shape (nonzeros, n)
            The places and signs of these rows.
        block : array of shape (n, c)
        home : Home

        Returns
        -------
        array of shape (size, c)
        """
        if home.on_host:
            return as_operator(self._matrix(places, signs)).matmat(block)
        return self._gathered(places, signs, block, home)

    def _matrix(self, places: HostArray, signs: HostArray) -> scipy.sparse.csr_array:
        """Columns of S for some rows of a group, as a sparse matrix."""
        ends = np.arange(places.shape[1] + 1) * self.nonzeros
        columns = (signs.T.ravel(), (places % self.size).T.ravel(), ends)
        return scipy.sparse.csc_array(columns, shape=(self.size, places.shape[1])).tocsr()

    def _gathered(self, places: HostArray, signs: HostArray, block: Array, home: Home) -> Array:
        """S times a block, computed by gathering the rows of the block.

        In each round the rows are put into the order of their places and multiplied by their factors ±1/√ζ; a place
        without a row gets zeros. Then every `size` places in turn are a layer, and the layers are added up.
        """
        total, rows = home.zeros((self.size, block.shape[1])), np.arange(places.shape[1])
        for place, sign in zip(places, signs, strict=True):
            dealt, factors = np.zeros(self.group_rows, dtype=np.intp), np.zeros(self.group_rows)
            dealt[place], factors[place] = rows, sign
            chosen = home.xp.asarray(dealt, device=home.device)
            layers = home.xp.take(block, chosen, axis=0) * home.place(factors)[:, None]
            total = total + home.xp.sum(home.xp.reshape(layers, (-1, *total.shape)), axis=0)
        return total


class Sketch(tuple[Any, ...]):  # noqa: SLOT001 (it has an attribute)
    """S Xᵢ of each view, with the same random S.

    Attributes
    ----------
    cross : array of shape (p, q) or None
        X₁ᵀX₂, if requested.
    """

    cross: Any = None


@dataclass
class SketchPart:
    """Sums over some rows of the views.

    Attributes
    ----------
    sketches : list of array
        S Xᵢ of each view, over these rows.
    cross : array of shape (p, q) or None
        X₁ᵀX₂, if requested.
    drawn : dict
        Places and signs of the last group, which the next block may share.
    """

    sketches: list[Array]
    cross: Array | None
    drawn: dict[int, Places] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "drawn": {}}  # they can be drawn again


@dataclass(frozen=True)
class RowSketch(Task[SketchPart]):
    """Task that computes S X of each view.

    Parameters
    ----------
    signs : SparseSigns
        S.
    home : Home
        The home of the sums.
    cross : bool, default False
        Whether to compute X₁ᵀX₂ as well.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.sweeps import RowSketch, SparseSigns
    >>> moments = ls.Moments(np.ones((500, 2)))
    >>> found = moments.over_rows(RowSketch(SparseSigns(500, 20, 4, seed=0), moments.home), 20)
    >>> found.sketches[0].shape
    (20, 2)
    """

    signs: SparseSigns
    home: Home
    cross: bool = False

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: SketchPart | None = None
    ) -> SketchPart:
        """Return the sums over some rows, added to `into`, the sums over earlier rows."""
        part = self._zeros(rows) if into is None else into
        blocks = [self.home.place(M.dense()) for M in rows]
        for number, inside, among in self.signs.pieces(first_row, rows[0].shape[0]):
            if number not in part.drawn:
                part.drawn = {number: self.signs.group(number)}
            places, signs = (array[:, inside] for array in part.drawn[number])
            for i, block in enumerate(blocks):
                part.sketches[i] += self.signs.times(places, signs, block[among, :], self.home)
        if self.cross:
            part.cross += rows[0].rmatmat(rows[1].dense())
        return part

    def _zeros(self, rows: Sequence[LinearOperator]) -> SketchPart:
        widths = [A.shape[1] for A in rows]
        sketches = [self.home.zeros((self.signs.size, width)) for width in widths]
        return SketchPart(sketches, self.home.zeros((widths[0], widths[1])) if self.cross else None)

    def merge(self, left: SketchPart, right: SketchPart) -> SketchPart:
        """Add the sums of two parts."""
        sketches = [a + b for a, b in zip(left.sketches, right.sketches, strict=True)]
        cross = None if left.cross is None or right.cross is None else left.cross + right.cross
        return SketchPart(sketches, cross)

    def looked_at(self, part: SketchPart) -> Iterable[Array]:
        """The arrays of a part that are checked for finiteness: X₁ᵀX₂ if it was computed, otherwise the sketches."""
        return part.sketches if part.cross is None else [part.cross]
