"""Many rows reduced to few by orthogonal transformations: what backward-stable direct methods stand on.

For [X Y] = Q R with orthonormal Q, every inner product of columns is that of the columns of R. So R, with at
most p + q rows, takes the place of the data, and nothing was squared. The rows come block by block
(sequential TSQR: Demmel, Grigori, Hoemmen & Langou 2012, doi:10.1137/080731992), one sweep, and a leading
column of ones takes the column means out by the same transformations.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from linspec.arrays import Array, Home
from linspec.operators import LinearOperator


def reduce_rows(
    operators: list[LinearOperator], *, center: bool = False, ridges: tuple[float, ...] = ()
) -> list[Array]:
    """Matrices with few rows and the inner products of the given ones.

    Parameters
    ----------
    operators : list of LinearOperator
        Views with equally many rows, all readable.
    center : bool, default False
        Take the column means out.
    ridges : tuple of float, optional
        Per view: append √ridge times the identity to its columns alone, so that the ridge enters its Gram
        matrix and no cross product.

    Returns
    -------
    list of array
        One array a view, float64, with equally many rows.
    """
    home = operators[0].home.blocks
    widths = [operator.shape[1] for operator in operators]
    R = home.zeros((0, sum(widths) + center))
    n = operators[0].shape[0]
    for start in range(0, n, max(4 * R.shape[1], 4096)):
        rows = slice(start, min(start + max(4 * R.shape[1], 4096), n))
        block = [home.place(operator.rows(rows).dense()) for operator in operators]
        if center:
            block.insert(0, home.place(np.ones((rows.stop - start, 1))))
        R = _triangle(home.xp.concat([R, home.concat(block)], axis=0), home)
        for operator in operators:
            operator.release()
    if center:
        R = R[1:, 1:]
    for extra in _ridge_rows(widths, ridges):
        R = _triangle(home.xp.concat([R, home.place(extra)], axis=0), home)
    edges = np.cumsum([0, *widths]).tolist()
    return [R[:, a:b] for a, b in pairwise(edges)]


def _triangle(M: Array, home: Home) -> Array:
    if M.shape[0] <= 1:
        return M
    if home.on_host:
        return np.linalg.qr(M, mode="r")
    return home.xp.linalg.qr(M, mode="reduced")[1]


def _ridge_rows(widths: list[int], ridges: tuple[float, ...]) -> list[np.ndarray]:
    total, start, found = sum(widths), 0, []
    for width, ridge in zip(widths, ridges, strict=False):
        if ridge > 0:
            extra = np.zeros((width, total))
            extra[np.arange(width), start + np.arange(width)] = np.sqrt(ridge)
            found.append(extra)
        start += width
    return found
