"""Many rows reduced to few by orthogonal transformations: what backward-stable direct methods stand on.

For [X Y] = Q R with orthonormal Q, every inner product of columns is that of the columns of R. So R, with at
most p + q rows, takes the place of the data, and nothing was squared. The rows come block by block
(sequential TSQR: Demmel, Grigori, Hoemmen & Langou 2012, doi:10.1137/080731992), one sweep, and a leading
column of ones takes the column means out by the same transformations.

Where we differ: the first row is subtracted from all before the means are taken out, which changes nothing in
exact arithmetic. Constant columns then vanish exactly instead of leaving rounding that looks like rank, and
means that are large beside their spread cost no digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from linspec.arrays import Array, Home, HostArray, reciprocal, to_host
from linspec.block_algebra import EPS
from linspec.errors import NonFiniteData
from linspec.operators import LinearOperator
from linspec.sweeps.finite import explain_non_finite
from linspec.sweeps.triangles import Triangle, triangle

LEAST_LENGTH = 10.0
"""Length of the image of a direction, in units of rounding, up to which it is null."""


def reduce_rows(
    views: Mapping[str, LinearOperator], *, center: bool = False, ridges: tuple[float, ...] = ()
) -> list[Array]:
    """Matrices with few rows and the inner products of the given ones.

    Parameters
    ----------
    views : mapping from str to LinearOperator
        Operators with equally many rows, all readable, by the names that messages call them.
    center : bool, default False
        Take the column means out.
    ridges : tuple of float, optional
        Per view: append √ridge times the identity to its columns alone, so that the ridge enters its Gram
        matrix and no cross product.

    Returns
    -------
    list of array
        One array a view, float64, with equally many rows.

    Raises
    ------
    NonFiniteData
        When the rows are not finite; the entry is named.
    """
    operators = list(views.values())
    home = operators[0].home.blocks
    with np.errstate(all="ignore"):  # what is not finite is found below
        task = Triangle(home, center=center)
        R = task.finished(task.part(operators))
    if not np.isfinite(float(to_host(home.xp.sum(R)))):
        raise NonFiniteData(explain_non_finite(views))
    widths = [operator.shape[1] for operator in operators]
    for extra in _ridge_rows(widths, ridges):
        R = triangle(home.xp.concat([R, home.place(extra)], axis=0), home)
    return [R[:, a:b] for a, b in pairwise(np.cumsum([0, *widths]).tolist())]


@dataclass(frozen=True, eq=False)
class ColumnBasis:
    """An orthonormal basis of the columns of reduced rows.

    Attributes
    ----------
    U : array of shape (m, r)
        RW.
    W : array of shape (p, r)
        What the columns are multiplied by.
    condition : float
        Condition number of the columns at unit length, on the numerical range.
    short : array of shape (p, s)
        Directions that were cut as null and are longer than rounding makes them: `LEAST_LENGTH` tells.
    U_short : array of shape (m, s)
        Their images, orthonormal.
    """

    U: Array
    W: Array
    condition: float
    short: Array
    U_short: Array

    @property
    def rank(self) -> int:
        """Of the columns, numerically."""
        return int(self.W.shape[1])


def column_basis(R: Array, cut: float, home: Home, unit: float = EPS) -> ColumnBasis:
    """The orthonormal basis of the columns of R, by an SVD of the columns at unit length.

    Parameters
    ----------
    R : array of shape (m, p)
    cut : float
        Singular values below this share of the largest are outside the numerical range.
    home : Home
    unit : float, default machine epsilon
        The rounding of the data.
    """
    xp = home.xp
    scale = reciprocal(xp.sqrt(xp.sum(R * R, axis=0)))
    U, s, Vt = xp.linalg.svd(R * scale[None, :], full_matrices=False)
    sizes = to_host(s)
    if not len(sizes) or sizes[0] <= 0:
        return ColumnBasis(U[:, :0], Vt.T[:, :0], 1.0, Vt.T[:, :0], U[:, :0])
    rank = int(np.sum(sizes > cut * sizes[0]))
    longer = max(int(np.sum(sizes > LEAST_LENGTH * unit * sizes[0])), rank)
    short = scale[:, None] * Vt.T[:, rank:longer]
    W = scale[:, None] * (Vt.T[:, :rank] / s[:rank][None, :])
    return ColumnBasis(U[:, :rank], W, float(sizes[0] / sizes[rank - 1]), short, U[:, rank:longer])


def sum_with_short(x: ColumnBasis, y: ColumnBasis, k: int, home: Home) -> float:
    """The sum of the k leading correlations where the short directions of both views count, too."""
    T = home.concat([x.U, x.U_short]).T @ home.concat([y.U, y.U_short])
    found = np.linalg.svd(to_host(T), compute_uv=False)
    return float(np.clip(found[:k], 0.0, 1.0).sum())


def _ridge_rows(widths: list[int], ridges: tuple[float, ...]) -> list[HostArray]:
    total, start, found = sum(widths), 0, []
    for width, ridge in zip(widths, ridges or (0.0,) * len(widths), strict=True):
        if ridge > 0:
            extra = np.zeros((width, total))
            extra[np.arange(width), start + np.arange(width)] = np.sqrt(ridge)
            found.append(extra)
        start += width
    return found
