"""The solution of least squares: coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from linspec.affine_images import affine_images
from linspec.arrays import Array, HostArray, namespace
from linspec.solution import Solution


@dataclass(frozen=True, kw_only=True, repr=False)
class LeastSquaresSolution(Solution):
    """Coefficients of a least-squares problem.

    Attributes
    ----------
    x : array of shape (p, m), or (p,) for one-dimensional B
        Coefficients, in the library and dtype and on the device of A. For r ridges the shape is (r, p, m) or
        (r, p).
    residuals : numpy.ndarray of shape (r,)
        The residual of each ridge's solution; `residual` is the largest.
    path : bool
        Whether the first axis of `x` counts the ridges of a path.
    intercept : array of shape (m,), or () for one-dimensional B, or None
        Added to A x in predictions. For r ridges the shape is (r, m) or (r,). None: nothing is added.
    """

    weight_fields: ClassVar[tuple[str, ...]] = ("x",)

    x: Array
    residuals: HostArray
    path: bool = False
    intercept: Array | None = None

    def _headline(self) -> str:
        return f"x {tuple(self.x.shape)}"

    def predict(self, A: Any) -> Array:
        """A x, plus the intercept if there is one: the right-hand sides that the coefficients give to rows.

        Parameters
        ----------
        A : data of shape (n, p)
            Any kind of data that `linspec.as_operator` takes; sparse rows stay sparse.

        Returns
        -------
        array of shape (n, m), or (n,) for one-dimensional B
            In the library, on the device and in the working dtype of the rows. For r ridges the shape is (r, n, m)
            or (r, n).

        Raises
        ------
        InvalidProblem
            When the rows do not have the columns of the training data.

        Notes
        -----
        The rows are read once, for all right-hand sides and ridges.
        """
        x, xp = self.x, namespace(self.x)
        axis = 1 if self.path else 0  # of the columns of A
        columns = xp.reshape(xp.moveaxis(x, axis, 0), (x.shape[axis], -1))
        offset = None if self.intercept is None else xp.reshape(self.intercept, (-1,))
        found = affine_images(A, columns, "A", offset=offset)
        others = tuple(x.shape[i] for i in range(x.ndim) if i != axis)
        there = namespace(found)
        found = there.reshape(found, (found.shape[0], *others))
        return there.moveaxis(found, 1, 0) if self.path else found
