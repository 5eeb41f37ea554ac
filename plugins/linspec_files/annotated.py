"""`anndata.AnnData` objects, and the sparse matrices in files that it opens.

Problem: cells by genes are given as an AnnData, in memory or backed by a file, and the matrix should have the names of
the genes.
Method: the object is recognised by the name of its type, so nothing is imported. Its X may be an array, a sparse matrix
by rows or by columns, a dataset of h5py, or an array of dask; each is handled like other data of its kind. Sparse
matrices of a backed object are read from their group. The names of variables become those of columns, if all differ,
and the names of observations become labels of rows, up to a million of them.
Source: https://anndata.readthedocs.io, of version 0.10 and later.
"""

from __future__ import annotations

from typing import Any

from linspec.errors import InvalidProblem
from linspec.operators import LinearOperator, as_operator
from linspec_files.stored import MOST_LABELS

__all__ = ["rows_of_annotated"]


def rows_of_annotated(data: Any) -> LinearOperator:
    """Make the operator of X.

    Raises
    ------
    InvalidProblem
        There is no X.
    """
    if data.X is None:
        raise InvalidProblem("the AnnData has no X. Pass a layer, or an embedding of obsm.")
    matrix = data.X
    operator = as_operator(matrix)
    names = [str(name) for name in data.var_names]
    if len(set(names)) == len(names):  # otherwise they do not identify columns
        operator.column_names = tuple(names)
    if operator.shape[0] <= MOST_LABELS:
        operator.row_names = [str(name) for name in data.obs_names]
    return operator
