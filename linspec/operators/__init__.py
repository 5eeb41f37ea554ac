"""Operators: `as_operator` makes them of arrays, sparse matrices, files and foreign objects.

Read `base` first: the interface of every matrix, whatever its kind. `dense`, `sparse`, `streamed`, `foreign` and the
files are kinds of matrices.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "AdjointOperator": "linspec.operators.base",
    "CombinedColumns": "linspec.operators.derived",
    "CupySparseOperator": "linspec.operators.foreign",
    "DenseOperator": "linspec.operators.dense",
    "ForeignOperator": "linspec.operators.foreign",
    "LinearOperator": "linspec.operators.base",
    "MappedOperator": "linspec.operators.dense",
    "RowFiles": "linspec.operators.row_files",
    "RowOperator": "linspec.operators.base",
    "Sketch": "linspec.operators.sketched",
    "SparseOperator": "linspec.operators.sparse",
    "StreamedOperator": "linspec.operators.streamed",
    "as_operator": "linspec.operators.opening",
    "chosen_rows": "linspec.operators.base",
    "columns_but_index": "linspec.operators.row_files",
    "in_order": "linspec.operators.row_files",
    "labels_in_front": "linspec.operators.row_files",
    "long_fields": "linspec.operators.row_files",
    "looked_at": "linspec.process.files",
    "mapped": "linspec.operators.numpy_files",
    "names_of_columns": "linspec.operators.row_files",
    "open_rows": "linspec.operators.opening",
    "paired": "linspec.operators.streamed",
    "read_npz": "linspec.operators.numpy_files",
    "texts_of_column": "linspec.operators.row_files",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
