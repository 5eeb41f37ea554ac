"""Columns whose entries are in random orders: data without components, with the columns of the given ones.

Problem: the components of one matrix, such as principal components, have values larger than zero in data without any
structure, too. How large are they then?
Method: parallel analysis by permutation. The entries of each column are permuted over the rows, each column in an order
of its own. Means and lengths of the columns stay, and nothing relates the columns any more. Sparse data stay sparse:
the stored entries of a column get random rows, all different, since zeros are exchangeable as other entries are.
Source: Horn 1965, Psychometrika 30:179, doi:10.1007/BF02289447; Buja & Eyuboglu 1992, Multivariate Behav. Res.
27:509, doi:10.1207/s15327906mbr2704_2.
Where we differ: Horn draws normal numbers; permutations keep the distribution of each column.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from linspec.errors import MissingCapability
from linspec.operators import LinearOperator, as_operator
from linspec.solving.select import check_fits

__all__ = ["check_entries_fit", "with_columns_permuted"]

INDEX_BYTES = 8
"""Bytes of the number of a row."""


def check_entries_fit(name: str, A: LinearOperator) -> None:
    """Raise an error if entries of A cannot be read, or do not fit into memory beside their permutation."""
    if A.access != "rows":
        raise MissingCapability(
            f"permutation_test permutes the entries of each column of {name}, which must be in memory; got {A!r}. Pass "
            "an array, a sparse matrix or a file, or a sample of the rows as one."
        )
    if A.sparse and not A.home.on_host:
        raise MissingCapability(
            f"permutation_test permutes the stored entries of {name} on the host; got {A!r}. Pass a SciPy sparse "
            "matrix."
        )
    entries = A.nnz if A.sparse else A.shape[0] * A.shape[1]
    check_fits(
        float(entries) * (3 * A.dtype.itemsize + 2 * INDEX_BYTES),
        f"permuted columns of {name}",
        "Pass a sample of the rows, or fewer columns.",
    )


def with_columns_permuted(A: LinearOperator, generator: np.random.Generator) -> LinearOperator:
    """Return the matrix with the entries of each column in a random order, each column in its own."""
    held = A.rows(slice(0, A.shape[0]))
    if scipy.sparse.issparse(held.stored_array):
        return as_operator(_sparse(held.stored_array, generator))
    n, p = A.shape
    orders = generator.permuted(np.tile(np.arange(n), (p, 1)), axis=1).T
    xp, device = A.home.xp, A.home.device
    return as_operator(xp.take_along_axis(held.dense(), xp.asarray(orders, device=device), axis=0))


def _sparse(matrix: Any, generator: np.random.Generator) -> Any:
    columns = scipy.sparse.csc_array(matrix, copy=True)
    columns.sum_duplicates()  # two stored numbers of one entry move together
    n, rows, edges = columns.shape[0], np.empty(columns.nnz, dtype=np.intp), columns.indptr
    for a, b in pairwise(edges.tolist()):
        rows[a:b] = generator.choice(n, b - a, replace=False)
    return scipy.sparse.csc_array((columns.data, rows, columns.indptr), shape=columns.shape).tocsr()
