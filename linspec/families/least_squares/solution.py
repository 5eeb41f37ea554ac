"""The solution of least squares: coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from linspec.arrays import Array, HostArray
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
    """

    weight_fields: ClassVar[tuple[str, ...]] = ("x",)

    x: Array
    residuals: HostArray

    def _headline(self) -> str:
        return f"x {tuple(self.x.shape)}"
