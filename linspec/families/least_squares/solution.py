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
    a_mean, b_mean : array of shape (p,), (m,), or None
        The column means of A and B, if the problem centres.
    a_scale : array of shape (p,) or None
        What columns of A were divided by, if the problem scales. The coefficients multiply columns that are not
        divided.
    confound_mean : numpy.ndarray of shape (c,) or None
        The means of the confounds, if the problem has any (0 without centring).
    a_slopes, b_slopes : array of shape (c, p), (c, m), or None
        The slopes of the columns in the confounds.
    residuals : numpy.ndarray of shape (r,)
        The residual of each ridge's solution; `residual` is the largest.
    """

    weight_fields: ClassVar[tuple[str, ...]] = ("x",)

    x: Array
    residuals: HostArray
    a_mean: Array | None = None
    b_mean: Array | None = None
    a_scale: Array | None = None
    confound_mean: HostArray | None = None
    a_slopes: Array | None = None
    b_slopes: Array | None = None

    def _headline(self) -> str:
        return f"x {tuple(self.x.shape)}"
