"""Reduction of many rows to few by orthogonal transformations, the basis of backward-stable direct methods.

For [X Y] = Q R with orthonormal Q, every inner product of columns is that of the columns of R. So R, with at
most p + q rows, replaces the data, and nothing is squared. The rows are read block by block in one sweep
(sequential TSQR: Demmel, Grigori, Hoemmen & Langou 2012, doi:10.1137/080731992). A leading column of ones
makes the same transformations centre the columns.

Where we differ: the first row is subtracted from all rows before the centring. This changes nothing in exact
arithmetic. In floating point, constant columns then vanish exactly and leave no rounding that looks like
rank. Means that are large compared with their spread lose no digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from linspec.arrays import Array, Home, HostArray, reciprocal, to_host
from linspec.block_algebra import EPS
from linspec.errors import NonFiniteData
from linspec.operators import AdjustedOperator, CountedOperator, LinearOperator, uncounted
from linspec.row_model import RowModel
from linspec.sweeps.finite import explain_non_finite
from linspec.sweeps.triangles import Triangle, triangle

LEAST_LENGTH = 10.0
"""A direction is null if the length of its image is at most this, in units of rounding."""


def reduce_rows(
    views: Mapping[str, LinearOperator], *, center: bool = False, ridges: tuple[float, ...] = ()
) -> list[Array]:
    """Matrices with few rows and the inner products of the given ones.

    Parameters
    ----------
    views : mapping from str to LinearOperator
        Readable operators with equally many rows, by their names in messages.
    center : bool, default False
        Whether to centre the columns.
    ridges : tuple of float, optional
        One ridge for each view. √ridge times the identity is appended to the columns of the view, so the
        ridge enters its Gram matrix and no cross product.

    Returns
    -------
    list of array
        One float64 array for each view, with equally many rows.

    Raises
    ------
    NonFiniteData
        The rows have an entry that is not finite; the message names it.
    """
    operators = list(views.values())
    home = operators[0].home.blocks
    model = RowModel(center=center)
    factors: list[Array | None] = [None for _ in operators]
    adjusted = [(A, ledger) for A, ledger in map(uncounted, operators) if isinstance(A, AdjustedOperator)]
    if len(adjusted) == len(operators) and len({id(A.model) for A, _ in adjusted}) == 1:
        model = adjusted[0][0].model
        for A, _ in adjusted:
            if A.adjustment.scale or model.basis is not None:
                A.settle()
        factors = [A.adjustment.factors for A, _ in adjusted]
        operators = [CountedOperator(A.operator, ledger) for A, ledger in adjusted]
    with np.errstate(all="ignore"):  # what is not finite is found below
        task = Triangle(home, center=model.center, model=model)
        R = task.finished(task.part(operators))
    if not np.isfinite(float(to_host(home.xp.sum(R)))):
        raise NonFiniteData(explain_non_finite(views))
    widths = [operator.shape[1] for operator in operators]
    scales = [home.place(np.ones(p)) if f is None else f for p, f in zip(widths, factors, strict=True)]
    R = R if all(f is None for f in factors) else R * home.xp.concat(scales)[None, :]
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
        The matrix that the columns are multiplied by.
    condition : float
        Condition number of the columns at unit length, on the numerical range.
    short : array of shape (p, s)
        Directions that were cut as null, but whose images are longer than rounding (`LEAST_LENGTH`).
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
        """The numerical rank of the columns."""
        return int(self.W.shape[1])


def column_basis(R: Array, cut: float, home: Home, unit: float = EPS) -> ColumnBasis:
    """The orthonormal basis of the columns of R, by an SVD of the columns at unit length.

    Parameters
    ----------
    R : array of shape (m, p)
    cut : float
        Singular values below this fraction of the largest are outside the numerical range.
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
    """The sum of the k leading correlations if the short directions of both views are included."""
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
