"""Many rows reduced to few by orthogonal transformations, in one sweep.

Problem: R of the QR factorisation of [X₁ X₂ …], or of the images [X₁V₁], less their means or not; nothing is squared.
Method: rows come block by block and are reduced together with the triangle of those before (sequential TSQR: Demmel,
Grigori, Hoemmen & Langou 2012, doi:10.1137/080731992); the triangles of two parts are stacked and reduced again. A
leading column of ones takes the column means out by the same transformations.
Rows that have weights w are multiplied by √w first, the ones too; columns of a basis beside them take confounds out in
the same way as the ones take out the means.
Where we differ: the first row of a part is subtracted from all of its rows before the means are taken out, which
changes nothing in exact arithmetic. Constant columns then vanish exactly instead of leaving rounding that looks like
rank, and means that are large beside their spread cost no digits. Where two parts meet, a multiple of the column of
ones moves the rows of one to the origin of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from linspec.arrays import Array, Home
from linspec.operators import LinearOperator
from linspec.row_model import PLAIN, RowModel
from linspec.sweeps.task import Task

FEWEST_ROWS = 4096
"""The least number of rows in a block."""


@dataclass
class TrianglePart:
    """R of some rows less an origin, behind the columns that are taken out of them."""

    R: Array
    origin: Array | None
    taken: int = 0


@dataclass(frozen=True)
class Triangle(Task[TrianglePart]):
    """R of the QR factorisation of the rows of all views side by side.

    Parameters
    ----------
    home : Home
        Where it is wanted.
    center : bool
    model : RowModel
        Weights of the rows, and a basis that is taken out of them.
    """

    home: Home
    center: bool
    model: RowModel = PLAIN

    @property
    def _taken(self) -> int:
        """The columns in front of those of the views."""
        return int(self.center) + (0 if self.model.basis is None else self.model.basis.shape[1])

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: TrianglePart | None = None
    ) -> TrianglePart:
        """Of some rows, behind those before."""
        height = max(4 * (sum(A.shape[1] for A in rows) + self._taken), FEWEST_ROWS)
        n = rows[0].shape[0]
        if not all(A.sliceable for A in rows):
            height = max(n, 1)
        for start in range(0, n, height):
            some = slice(start, min(start + height, n))
            block = self.home.concat([self.home.place(_entries(A, some)) for A in rows])
            into = self.reduced(block, into, None, first_row + start)
            for A in rows:
                A.release()
        width = sum(A.shape[1] for A in rows) + self._taken
        return into or TrianglePart(self.home.zeros((0, width)), None, self._taken)

    def reduced(
        self,
        block: Array,
        into: TrianglePart | None = None,
        about: Array | None = None,
        first_row: int = 0,
    ) -> TrianglePart:
        """A block of rows, behind those before.

        Parameters
        ----------
        block : array of shape (n, p)
        into : TrianglePart, optional
            Of the rows before.
        about : array of shape (p,), optional
            What was taken out of the rows already.
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
        basis, roots = (
            self.model.basis_of(first_row, n, self.home),
            self.model.roots_of(first_row, n, self.home),
        )
        columns += [block] if basis is None else [basis, block]
        block = self.home.concat(columns) if len(columns) > 1 else block
        block = block if roots is None else block * roots[:, None]
        held = [] if into is None else [into.R]
        R = triangle(self.home.xp.concat([*held, block], axis=0), self.home)
        return TrianglePart(R, origin, self._taken)

    def merge(self, left: TrianglePart, right: TrianglePart) -> TrianglePart:
        """Of the rows of both."""
        R = right.R
        if left.origin is not None and right.origin is not None:
            R = R + R[:, :1] * self.home.concat(
                [self.home.zeros((1, self._taken)), (right.origin - left.origin)[None, :]]
            )
        both = triangle(self.home.xp.concat([left.R, R], axis=0), self.home)
        return TrianglePart(both, left.origin, self._taken)

    def looked_at(self, part: TrianglePart) -> Iterable[Array]:
        """The triangle."""
        return [part.R]

    def finished(self, part: TrianglePart) -> Array:
        """R, less what the columns in front have taken out."""
        return part.R[self._taken :, self._taken :]


def triangle(M: Array, home: Home) -> Array:
    """The triangular factor alone."""
    if home.on_host:
        import numpy as np

        return np.linalg.qr(M, mode="r")
    return home.xp.linalg.qr(M, mode="reduced")[1]


def _entries(A: LinearOperator, rows: slice) -> Array:
    return A.rows(rows).dense() if A.sliceable else A.dense()
