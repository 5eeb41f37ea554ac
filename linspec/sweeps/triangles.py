"""Many rows reduced to few by orthogonal transformations, in one sweep.

Problem: compute R of the QR factorisation of [X₁ X₂ …], or of the image X₁V₁, with or without centring, without
forming a Gram matrix.
Method: rows come block by block and are reduced together with the triangle of the earlier rows (sequential TSQR:
Demmel, Grigori, Hoemmen & Langou 2012, doi:10.1137/080731992); the triangles of two parts are stacked and reduced
again. A leading column of ones subtracts the column means by the same transformations, and columns of a basis beside
it subtract confounds. Rows with weights w, including the entries of these leading columns, are first multiplied by
√w. On the host LAPACK's TPQRT exploits the zeros of a triangle, so that many blocks of few rows cost no more than few
tall blocks.
Where we differ: the first row of a part is subtracted from all of its rows before the means are subtracted, which
changes nothing in exact arithmetic. Constant columns then vanish exactly, instead of leaving rounding errors that
look like rank, and means that are large compared with the spread cost no digits. When two parts are merged, a
multiple of the column of ones moves the rows of one to the origin of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from linspec.arrays import Array, Home, triangle_below
from linspec.operators import LinearOperator
from linspec.operators.row_blocks import DEVICE_BLOCK_BYTES
from linspec.operators.row_model import PLAIN, RowModel
from linspec.sweeps.task import Task

FEWEST_ROWS = 512
"""Number of rows of a block on the host. On a device, a block has as many rows as keep the device busy."""


@dataclass
class TrianglePart:
    """R of the QR factorisation of [ones, confounds, rows − `origin`] for some rows of the data.

    The first `taken` columns are those of ones and confounds. `rows` is the number of rows of the data.
    """

    R: Array
    origin: Array | None
    taken: int = 0
    rows: int = 0


@dataclass(frozen=True)
class Triangle(Task[TrianglePart]):
    """Task that computes R of the QR factorisation of the rows of all views side by side.

    Parameters
    ----------
    home : Home
        The home of R.
    center : bool
        Whether the column means are subtracted.
    model : RowModel
        Weights of the rows, and the basis of confounds that is projected out.
    """

    home: Home
    center: bool
    model: RowModel = PLAIN

    @property
    def taken(self) -> int:
        """The number of leading columns, of ones and confounds, before those of the views."""
        return int(self.center) + (0 if self.model.basis is None else self.model.basis.shape[1])

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: TrianglePart | None = None
    ) -> TrianglePart:
        """Reduce some rows together with `into`, the triangle of earlier rows."""
        n, width = rows[0].shape[0], sum(A.shape[1] for A in rows) + self.taken
        height = FEWEST_ROWS if self.home.on_host else max(4 * width, DEVICE_BLOCK_BYTES // (8 * width + 1))
        cut = all(A.access == "rows" for A in rows)
        height = height if cut else max(n, 1)
        for start in range(0, n, height):
            some = slice(start, min(start + height, n))
            parts = [A.rows(some) if cut else A for A in rows]
            block = self.home.concat([self.home.place(part.dense()) for part in parts])
            into = self.reduced(block, into, None, first_row + start)
            for A in rows:
                A.release()
        return into or TrianglePart(self.home.zeros((0, width)), None, self.taken)

    def reduced(
        self,
        block: Array,
        into: TrianglePart | None = None,
        about: Array | None = None,
        first_row: int = 0,
    ) -> TrianglePart:
        """Reduce a block of rows together with `into`, the triangle of earlier rows.

        Parameters
        ----------
        block : array of shape (n, p)
        into : TrianglePart, optional
            The part of the earlier rows.
        about : array of shape (p,), optional
            A row that was already subtracted from the block.
        first_row : int, default 0
            The number of the first row.
        """
        n, columns = block.shape[0], []
        origin = None if into is None else into.origin
        if self.center:
            if origin is None:
                origin = block[0, :] + 0.0 if about is None else about
            step = -origin if about is None else about - origin
            columns, block = [self.home.xp.ones_like(block[:, :1])], block + step[None, :]
        basis = self.model.basis_of(first_row, n, self.home)
        roots = self.model.roots_of(first_row, n, self.home)
        columns += [block] if basis is None else [basis, block]
        block = self.home.concat(columns) if len(columns) > 1 else block
        block = block if roots is None else block * roots[:, None]
        R = triangle_below(block[:0, :] if into is None else into.R, block)
        return TrianglePart(R, origin, self.taken, n + (0 if into is None else into.rows))

    def merge(self, left: TrianglePart, right: TrianglePart) -> TrianglePart:
        """The triangle of the rows of `left` and `right` together."""
        both = triangle_below(left.R, self._about(left.origin, right))
        return TrianglePart(both, left.origin, self.taken, left.rows + right.rows)

    def _about(self, origin: Array | None, part: TrianglePart) -> Array:
        """The rows of a part, minus another origin."""
        R = part.R
        if origin is None or part.origin is None:
            return R
        step = self.home.concat([self.home.zeros((1, self.taken)), (part.origin - origin)[None, :]])
        return R + R[:, :1] * step

    def looked_at(self, part: TrianglePart) -> Iterable[Array]:
        """The triangle R, which is checked for finiteness."""
        return [part.R]

    def finished(self, part: TrianglePart) -> Array:
        """R of the adjusted rows: the triangle without the rows and columns of ones and confounds."""
        return part.R[self.taken :, self.taken :]
