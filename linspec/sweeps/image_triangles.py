"""The triangular factor R of an image X V, computed in one sweep without an array of n rows.

Problem: compute R of the QR factorisation of X V, with or without centring. Then V R⁻¹ has an orthonormal image, and
X V itself need not be kept.
Method: the image of each block of rows is reduced together with the triangle of all earlier rows
(`linspec.sweeps.triangles`). If the means are to be subtracted and are not known yet, the mean of each block is
subtracted from its rows before they are multiplied, so that no large numbers cancel; a column of ones subtracts the
remainder of the means.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from linspec.arrays import Array, Home, HostArray, to_host
from linspec.operators import LinearOperator
from linspec.operators.column_statistics import block_mean
from linspec.operators.row_model import PLAIN, RowModel
from linspec.sweeps.task import Task
from linspec.sweeps.triangles import Triangle, TrianglePart


@dataclass(frozen=True)
class ImageTriangle(Task[TrianglePart]):
    """Task that computes R of the QR factorisation of X V.

    Parameters
    ----------
    V : array of shape (p, k)
    about : array of shape (p,), optional
        A row that is subtracted from all rows.
    center : bool
        Subtract the means of the image instead of `about`.
    model : RowModel
        Weights of the rows, and the basis of confounds that is projected out.
    """

    V: Array
    about: Array | None
    center: bool
    model: RowModel = PLAIN

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: TrianglePart | None = None
    ) -> TrianglePart:
        """Reduce the image of some rows together with `into`, the triangle of earlier rows."""
        (A,) = rows
        home = A.home.blocks
        weights = self.model.weights_of(first_row, A.shape[0], home)
        about = block_mean(A, home, weights) if self.center else self.about
        image = home.place((A if about is None else A.centered(about)).matmat(self.V))
        point = about @ self.V if self.center else None
        return self._reduction.reduced(image, into, point, first_row)

    def merge(self, left: TrianglePart, right: TrianglePart) -> TrianglePart:
        """The triangle of the rows of `left` and `right` together."""
        return self._reduction.merge(left, right)

    def looked_at(self, part: TrianglePart) -> Iterable[Array]:
        """The triangle R, which is checked for finiteness."""
        return [part.R]

    def finished(self, part: TrianglePart) -> HostArray:
        """R without the rows and columns of means and confounds, on the host."""
        return to_host(self._reduction.finished(part))

    @property
    def _reduction(self) -> Triangle:
        return Triangle(Home.of(self.V), center=self.center, model=self.model)
