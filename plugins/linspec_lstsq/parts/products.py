"""What a part asks of the matrix of an outer method: products, entries of right-hand sides, and a start.

A step of a bidiagonalisation multiplies each block of rows twice while it is in the cache, so that it takes one sweep
where rows can be selected, and otherwise two products.
"""

from __future__ import annotations

from linspec import LinearOperator, Moments
from linspec.arrays import Array, HostArray
from linspec.sweeps import row_slices


def long_step(A: LinearOperator, V: Array, U: Array, alpha: HostArray) -> tuple[Array, HostArray]:
    """U ← A V − U diag(alpha), in place; AᵀU and the lengths of columns of U. See `linspec.linalg.LongStep`."""
    home, stays = A.home.blocks, A.home.blocks.place(alpha)[None, :]
    AtU = home.zeros((A.shape[1], V.shape[1]))
    whole = A.resident and A.nnz < A.shape[0] * A.shape[1]  # short sparse rows take less time together
    for rows in [slice(0, A.shape[0])] if whole else row_slices([A], V.shape[1]):
        part = A.rows(rows).loaded() if A.access == "rows" else A
        u = home.place(part.matmat(V)) - U[rows, :] * stays
        U[rows, :] = u
        AtU = AtU + part.rmatmat(u)
        A.release()
    return AtU, home.column_norms(U)


def matrix_of(A: LinearOperator | Moments) -> LinearOperator:
    """The matrix of the first view of `Moments`, or A itself if A is an operator.

    Products with the matrix of moments count as sweeps of these moments.
    """
    return A.matrix(0) if isinstance(A, Moments) else A


def moments_of(A: LinearOperator | Moments) -> Moments:
    """The moments of one matrix."""
    return A if isinstance(A, Moments) else Moments(A, form="implicit")


def cross_product(A: LinearOperator | Moments, B: LinearOperator) -> Array:
    """AᵀB, for a matrix or the moments of one view."""
    return Moments(matrix_of(A), B, form="implicit").products(cross=True).cross


def entries_of(B: LinearOperator) -> Array:
    """The entries of right-hand sides, in their home; of those known by products, from products."""
    return B.dense() if B.readable else B.matmat(B.home.blocks.eye(B.shape[1]))


def start_of(A: LinearOperator, B: LinearOperator, x0: Array | None) -> Array:
    """A given start, or zero, in the home of blocks."""
    home = A.home.blocks
    return home.zeros((A.shape[1], B.shape[1])) if x0 is None else home.place(x0)
