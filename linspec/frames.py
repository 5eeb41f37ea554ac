"""Data frames: their numbers as arrays, their labels as class vectors, and results as frames.

Problem: users' data have names. They come as frames of pandas, polars or pyarrow, whose columns have different dtypes
and may have missing values, and results should show `petal length`, not `column 2`.
Method: narwhals reads all three libraries by one interface. A frame becomes one array with the common dtype of its
columns; a pandas frame with sparse columns becomes a sparse matrix. A column that holds no numbers is an error, which
names it; missing values become NaN, which the first pass refuses. Names are kept beside the numbers: an operator has
`column_names` and `row_names`, a solution has `column_names`. Tables are frames of the library of the data; of pandas
for other data where pandas is imported already, because whoever has imported it wants to see frames. A DataArray of
xarray and an AnnData are read as the arrays that they hold, and only their labels come from here.
Source: the rule for the names of new data is that of scikit-learn (SLEP 007, `feature_names_in_`): other names, or the
same names in another order, are errors. If one side has no names, only the number of columns is compared.
Where we differ: scikit-learn warns if one side has no names; linspec does not.

`import linspec` loads none of these libraries: classes are recognized by the names of their modules.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, zip_longest
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import scipy.sparse

from linspec.arrays import HostArray, check_bare, to_host
from linspec.errors import (
    AccuracyWarning,
    InvalidOption,
    InvalidProblem,
    MissingPackage,
    UnsupportedData,
    shown,
    warn,
)

LIBRARIES = ("pandas", "polars", "pyarrow")
"""Libraries whose frames are accepted, and of which tables can be made."""

_KINDS = {
    "pandas.DataFrame": "frame",
    "polars.DataFrame": "frame",
    "pyarrow.Table": "frame",
    "pyarrow.RecordBatch": "frame",
    "pandas.Series": "series",
    "polars.Series": "series",
    "pandas.Index": "series",
    "pandas.ExtensionArray": "series",
    "pyarrow.Array": "series",
    "pyarrow.ChunkedArray": "series",
    "xarray.DataArray": "labelled",
    "anndata.AnnData": "labelled",
}
"""The kind of objects by library and name of a class, which is their own or one of its base classes.

Labelled arrays have names beside numbers of any kind, dense, sparse or lazy, which linspec takes as they are.
"""


def is_frame(x: Any) -> bool:
    """Whether `x` is a table of pandas, polars or pyarrow, not a lazy one."""
    return _kind(x)[1] == "frame"


def is_series(x: Any) -> bool:
    """Whether `x` is one column of pandas, polars or pyarrow."""
    return _kind(x)[1] == "series"


def is_labelled(x: Any) -> bool:
    """Whether `x` is a DataArray of xarray, or an AnnData: an array of any kind with labels along its axes."""
    return _kind(x)[1] == "labelled"


def _kind(x: Any) -> tuple[str, str]:
    """Return library and kind ("frame", "series" or "labelled") of an object; "" and "" for anything else."""
    cls: Any = type(x)
    return _kind_of(cls)


@lru_cache(maxsize=256)
def _kind_of(cls: Any) -> tuple[str, str]:
    """Return the library and the kind of the objects of a class; every call of linspec asks this a dozen times."""
    for parent in cls.__mro__:
        library = parent.__module__.partition(".")[0]
        kind = _KINDS.get(f"{library}.{parent.__name__}")
        if kind is not None:
            return library, kind
    return "", ""


def _narwhals(native: Any) -> Any:
    """Import narwhals, which reads all three libraries; raise if it is not installed."""
    try:
        import narwhals
    except ImportError as error:
        raise MissingPackage(
            f"a {type(native).__name__} of {_kind(native)[0] or 'frames'} is read by narwhals, which is not installed. "
            "Install it: pip install 'linspec[frames]'; or pass the values, an array."
        ) from error
    return narwhals


# ---- from frames to numbers ------------------------------------------------------------------------


def numbers_of(native: Any, what: str = "data") -> tuple[Any, tuple[str, ...] | None]:
    """The numbers of a frame, or of a series as one column, and the names of the columns.

    Parameters
    ----------
    native : frame or series
    what : str, default "data"
        The name of the data in messages.

    Returns
    -------
    numpy.ndarray or scipy.sparse.csr_array of shape (n, p)
        Bools, integers or floats, of the common dtype of the columns; missing values are NaN. A pandas frame with
        columns of one NumPy dtype in one block is not copied, so the array is never modified.
    tuple of str or None
        The names of the columns; None if they are only numbered.

    Raises
    ------
    UnsupportedData
        A column holds no numbers.
    InvalidProblem
        Two columns have the same name.
    MissingPackage
        narwhals is not installed.
    """
    library, kind = _kind(native)
    nw = _narwhals(native)
    if kind == "series":
        series = nw.from_native(_as_series(native), series_only=True)
        columns: tuple[str, ...] | None = None if series.name in (None, "") else (str(series.name),)
        native = series.to_frame().to_native()
    else:
        native = _as_table(native)
        columns = _column_names(native, library, what)
    values = _pandas_values(native, what, columns) if library == "pandas" else None
    if values is None:
        values = _values_by_column(nw.from_native(native, eager_only=True), nw, what, columns)
    return values, columns


def library_of(x: Any) -> str:
    """The library of a frame or series, or of the frame from which an operator was made; "" for other data."""
    known, (library, kind) = getattr(x, "frame_library", ""), _kind(x)
    if kind:
        return "" if kind == "labelled" else library
    return known if isinstance(known, str) else ""


def library_for_table(library: str | None, *sources: Any) -> str:
    """The library of a table, decided when the table is made.

    Parameters
    ----------
    library : str or None
        The requested one, which is taken if it is not None.
    *sources : data, operator, problem or solution
        Otherwise it is the library of the first of them that has one. If none has, it is pandas if the process has
        imported pandas, else "": a list of rows.
    """
    if library is not None:
        return library
    known = next(filter(None, map(library_of, sources)), "")
    return known or ("pandas" if sys.modules.get("pandas") else "")


def column_names_of(x: Any) -> tuple[str, ...] | None:
    """The names of the columns of a frame, a labelled array or an operator; None if there are none."""
    library, kind = _kind(x)
    if kind == "frame":
        return _column_names(x, library, "data")
    if kind == "labelled":
        return _names_along_columns(x)
    known = getattr(x, "column_names", None)
    return known if isinstance(known, tuple) else None


def index_of(native: Any) -> Any:
    """The row labels of some data.

    For a pandas frame or series: its index, even if this is a RangeIndex, the row numbers. For a labelled array: the
    index of its rows, if they have labels. For an operator: `row_index`, or `row_names` if `row_index` is None.
    `RowNames` are returned unchanged. None for data without labels.
    """
    if isinstance(native, RowNames):
        return native
    library, kind = _kind(native)
    if kind == "labelled":
        return _labels_along(native, 0)
    if library:
        return getattr(native, "index", None) if library == "pandas" else None
    known = getattr(native, "row_index", None)
    return getattr(native, "row_names", None) if known is None else known


def row_names_of(native: Any) -> Any:
    """The row labels of some data that `index_of` returns, unless they only count the rows from 0; None without."""
    if not _kind(native)[0]:
        return getattr(native, "row_names", None)
    index = index_of(native)
    return None if _counts(index) else index


def _labels_along(native: Any, axis: int) -> Any:
    """The index along the rows (axis 0) or the columns of a labelled array; None if it has none."""
    if _kind(native)[0] == "anndata":
        return native.var_names if axis else native.obs_names
    return native.indexes.get(native.dims[axis]) if axis < native.ndim else None


def _names_along_columns(native: Any) -> tuple[str, ...] | None:
    """The names of the columns of a labelled array; None if they only count, or do not tell the columns apart."""
    if getattr(native, "ndim", 2) == 1:
        return None if native.name is None else (str(native.name),)
    labels = _labels_along(native, 1)
    if labels is None or _counts(labels):
        return None
    names = tuple(map(_name, labels))
    return names if len(set(names)) == len(names) else None


def _name(label: Any) -> str:
    """Convert the label of a column to a text; the parts of a label of several levels are joined."""
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _counts(index: Any) -> bool:
    """Whether an index only counts the rows from 0."""
    return type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)


def without_column(native: Any, name: str) -> tuple[Any, Any]:
    """Split a frame into the frame without one of its columns, and that column.

    Parameters
    ----------
    native : frame
    name : str
        One of the names that `column_names_of` returns.
    """
    native = _as_table(native)
    place = (column_names_of(native) or ()).index(name)
    if _kind(native)[0] == "pandas":
        columns = [j for j in range(native.shape[1]) if j != place]
        return native.iloc[:, columns], native.iloc[:, place]
    frame = _narwhals(native).from_native(native, eager_only=True)
    return frame.drop(name).to_native(), frame.get_column(name).to_native()


def chosen_rows_of(native: Any, numbers: slice | HostArray) -> Any:
    """Some rows of a frame, or entries of a series, in its own library and with their labels."""
    arrow = _kind(native)[0] == "pyarrow"
    return native.take(numbers) if arrow else getattr(native, "iloc", native)[numbers]


class RowNames(Sequence[Any]):
    """Labels of rows, which are converted to an array only when they are read.

    Parameters
    ----------
    labels : sequence
        A list, an array, or an index or a series of a frame, which is not copied.
    name : str, default ""
        The name of the labels; by default the name of the index or of the series.
    """

    def __init__(self, labels: Any, name: str = "") -> None:
        index_name = getattr(labels, "name", None)
        self.labels: Any = labels.labels if isinstance(labels, RowNames) else labels
        self.name = name or ("" if index_name is None else str(index_name))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: Any) -> Any:
        return self.values()[i]

    def __iter__(self) -> Iterator[Any]:
        values = self.values()
        unit = f"{values.dtype.kind}8[us]"  # of times in nanoseconds NumPy would make integers
        return iter((values.astype(unit) if values.dtype.kind in "mM" else values).tolist())

    def chosen(self, numbers: slice | HostArray) -> RowNames:
        """The labels of the rows in a slice, or with the given numbers."""
        # an index of pandas stays one, which is compared quickly
        labels = self.labels if _kind(self.labels)[0] == "pandas" else _vector(self.labels)
        return RowNames(chosen_rows_of(labels, numbers), self.name)

    def values(self) -> HostArray:
        """The labels as an array of shape (n,) of numbers, times, durations or texts; None for a missing label."""
        values = _vector(self.labels)
        return values if values.dtype.kind in "biufmMU" else _objects([_label(value) for value in values])


def _vector(labels: Any) -> HostArray:
    """Convert labels of any kind to an array of shape (n,)."""
    if isinstance(labels, np.ndarray):
        return labels
    if _kind(labels)[1] != "series":
        return _objects(list(labels))
    return np.asarray(_as_series(labels).to_numpy() if _kind(labels)[0] == "pyarrow" else labels.to_numpy())


def _objects(values: Sequence[Any]) -> HostArray:
    """Make an array of objects, of shape (n,) even if the objects are sequences."""
    return np.fromiter(values, dtype=object, count=len(values))


def _label(value: Any) -> Any:
    """Convert a label to a number, a text or None; the parts of a label of several levels are joined to one text."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # missing values of pandas
        return None
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool | int | float | str):
        return value
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _as_series(native: Any) -> Any:
    """Convert a column to a series that narwhals accepts."""
    library = _kind(native)[0]
    name = type(native).__name__
    if library == "pandas" and name != "Series":
        import pandas as pd

        return pd.Series(native)
    if library == "pyarrow" and name != "ChunkedArray":
        import pyarrow as pa

        return pa.chunked_array([native])
    return native


def _as_table(native: Any) -> Any:
    """Convert a RecordBatch to a Table, which narwhals accepts; return other frames unchanged."""
    if type(native).__name__ == "RecordBatch":
        import pyarrow as pa

        return pa.Table.from_batches([native])
    return native


def _column_names(native: Any, library: str, what: str) -> tuple[str, ...] | None:
    """The names of the columns; None if they are the numbers from 0 that pandas assigns by default."""
    columns = list(native.column_names if library == "pyarrow" else native.columns)
    if library == "pandas" and columns == list(range(len(columns))):
        return None
    names = tuple(map(_name, columns))
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InvalidProblem(
            f"the columns of {what} must have different names; got {twice!r} twice. Rename one."
        )
    return names


def _no_numbers(what: str, columns: tuple[str, ...] | None, j: int, dtype: Any) -> UnsupportedData:
    """Make the error for a column that holds no numbers."""
    name = str(j) if columns is None else shown(columns[j])
    return UnsupportedData(
        f"{what} must hold numbers; got {dtype} in column {name}. Leave it out, or make numbers of it: indicator "
        "columns of categories, say, or of lists `numpy.stack(data[name].to_numpy())`."
    )


def _pandas_values(native: Any, what: str, columns: tuple[str, ...] | None) -> Any:
    """The numbers of a pandas frame if its columns have NumPy dtypes, or if some are sparse; else None."""
    dtypes = list(native.dtypes)
    if any(type(dtype).__name__ == "SparseDtype" for dtype in dtypes):
        return _sparse_values(native, dtypes, what, columns)
    kinds = set(dtypes)
    if not dtypes or not all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in kinds):
        return None
    return native.to_numpy() if len(kinds) == 1 else native.to_numpy(dtype=np.result_type(*kinds))


def _sparse_values(native: Any, dtypes: Sequence[Any], what: str, names: tuple[str, ...] | None) -> Any:
    """The numbers of a pandas frame with sparse columns, as one CSR matrix."""
    import pandas as pd

    kinds = [getattr(dtype, "subtype", dtype) for dtype in dtypes]
    for j, kind in enumerate(kinds):
        if getattr(kind, "kind", "O") not in "biuf":
            raise _no_numbers(what, names, j, dtypes[j])
    native = native.copy(deep=False)
    for j, dtype in enumerate(dtypes):
        if getattr(dtype, "fill_value", 0) != 0:  # pandas 2 would take the fill value for 0, also NaN
            native.isetitem(j, native.iloc[:, j].sparse.to_dense())
    common = np.result_type(*kinds)
    return scipy.sparse.csr_array(native.astype(pd.SparseDtype(common, common.type(0))).sparse.to_coo())


def _values_by_column(frame: Any, nw: Any, what: str, columns: tuple[str, ...] | None) -> HostArray:
    """The numbers of any frame, copied column by column into one array."""
    arrays = []
    for j, name in enumerate(frame.columns):
        column = frame.get_column(name)
        if not _is_numeric(column.dtype):
            raise _no_numbers(what, columns, j, column.dtype)
        arrays.append(_array(column, nw))
    return np.array(arrays).reshape(frame.shape[::-1]).T


def _is_numeric(dtype: Any) -> bool:
    return bool(dtype.is_numeric()) or str(dtype) == "Boolean"


def _array(column: Any, nw: Any) -> HostArray:
    """Convert a column to an array of a numeric dtype of NumPy, with NaN for missing values."""
    if column.null_count() or column.dtype in (nw.Int128, nw.UInt128):  # NumPy lacks these
        column = column.cast(nw.Float64).fill_null(np.nan)
    array = np.asarray(column.to_numpy())
    return (
        array
        if array.dtype.kind in "biuf"
        else np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
    )


# ---- labelled arrays -------------------------------------------------------------------------------


def values_of_labelled(data: Any, what: str) -> Any:
    """The matrix that a DataArray of xarray holds, which may be one of dask, or X of an AnnData; a vector as a column.

    Raises
    ------
    InvalidProblem
        A DataArray has more than two dimensions, or an AnnData has no X.
    """
    if _kind(data)[0] == "anndata":
        if data.X is None:
            raise InvalidProblem(
                f"{what} must be an AnnData with X; got none. Pass a layer, or an embedding of obsm."
            )
        return data.X
    if data.ndim not in (1, 2):
        raise InvalidProblem(
            f"{what} must have two dimensions, rows and columns; got a DataArray with {shown(data.dims)}. Stack all "
            f"but one of them: {what}.stack(column={shown(data.dims[1:])}); `unstack` takes what `to_xarray` returns "
            "apart again."
        )
    return data.data[:, None] if data.ndim == 1 else data.data


# ---- labels ----------------------------------------------------------------------------------------


def class_vector(native: Any) -> HostArray:
    """The entries of a series as an array: classes unchanged, None for missing values.

    Parameters
    ----------
    native : series
        Numbers, bools, strings or categories.

    Returns
    -------
    numpy.ndarray of shape (n,)
    """
    nw = _narwhals(native)
    series = nw.from_native(_as_series(native), series_only=True)
    if _is_numeric(series.dtype) and not series.null_count():
        wide = series.dtype in (nw.Int128, nw.UInt128)  # NumPy lacks these
        return np.asarray(series.to_list() if wide else series.to_numpy())
    gaps = series.is_null().to_list()
    return _objects([None if gap else value for value, gap in zip(series.to_list(), gaps, strict=True)])


def entries_of_labels(values: Any, name: str, n: float = np.inf) -> HostArray:
    """Return labels of n rows as an array that can be sorted; refuse missing ones, which would be a label, too."""
    if not isinstance(values, list | tuple):
        values = (class_vector(values) if is_series(values) else to_host(values)).tolist()
    try:
        array = np.asarray(values)
        sorted(set(values))  # beside texts, NumPy makes numbers texts
        absent = any(entry is None or entry is np.ma.masked or entry != entry for entry in values)  # noqa: PLR0124
        if absent or n not in (np.inf, array.size) or array.ndim != 1:
            raise ValueError  # noqa: TRY301  # said below
    except (TypeError, ValueError) as error:
        raise InvalidProblem(
            f"{name} must be all numbers or all strings, a label for each row{f' of {n:g}' * (n < np.inf)}, and none "
            f"missing; got {shown(values)}."
        ) from error
    return array


def labels_of(native: Any, what: str) -> HostArray:
    """The labels of a frame: a class vector if its only column holds no numbers, else the matrix of its numbers."""
    if is_series(native):
        return class_vector(native)
    if native.shape[1] == 1:
        column = _narwhals(native).from_native(_as_table(native), eager_only=True)[:, 0]
        if not _is_numeric(column.dtype):
            return class_vector(column.to_native())
    return cast("HostArray", numbers_of(native, what)[0])


# ---- names -----------------------------------------------------------------------------------------


def check_names(names: Sequence[str] | None, wanted: Sequence[str] | None, what: str, of: str) -> None:
    """Raise an error for columns with other names, or in another order; data without names pass.

    Parameters
    ----------
    found, wanted : sequence of str or None
    what : str
        The name, in messages, of the data whose columns are `found`.
    of : str
        The name, in messages, of the data whose columns are `wanted`.

    Raises
    ------
    InvalidProblem
        Both sequences are given and differ.
    """
    if names is None or wanted is None or tuple(names) == tuple(wanted):
        return
    here, there = next(pair for pair in zip_longest(names, wanted) if pair[0] != pair[1])
    raise InvalidProblem(
        f"{what} must have the columns of {of}; got {len(names)} for {len(wanted)}, others or in another order: "
        f"{shown(here)} in place of {shown(there)}. Select them by name, in that order."
    )


def check_order(
    row_data: Mapping[str, Any], auxiliary: Mapping[str, Any] = MappingProxyType({}), *, again: bool = False
) -> None:
    """Raise an error if two of the data have the same row labels in different orders; warn if some labels differ.

    linspec pairs the rows of its arguments by position, so such rows would be paired wrongly. Every function that
    takes several arguments with rows calls this check before anything is computed. Data with no label in common are
    paired by position without a word, and so are rows that are only counted, by an index from 0, beside other labels.

    Parameters
    ----------
    row_data : mapping of str to anything
        The data by their names in messages. Data without row labels, such as an array or None, pass.
    auxiliary : mapping of str to anything, optional
        Data that were compared with each other before.
    again : bool, default False
        Whether operators among the data may have been compared before: then only other data are warned of.

    Raises
    ------
    InvalidProblem
        Two of the data have equally many rows and the same labels, in different orders. The message advises to
        reorder the later of the two in the mapping.
    UnsupportedData
        One of the given data has a mask or a unit.
    """
    for name, data in row_data.items():
        check_bare(data, name)
    rows = {**auxiliary, **row_data}
    labelled = [
        (name, index)
        for name, index in zip(rows, map(index_of, rows.values()), strict=True)
        if hasattr(index, "__len__")
    ]
    if len(labelled) < 2:
        return
    pairs = [pair for pair in combinations(labelled, 2) if pair[0][0] in row_data or pair[1][0] in row_data]
    texts = {(of, what): _check_pair(what, index, of, reference) for (of, reference), (what, index) in pairs}
    before = {name for name, data in rows.items() if again and hasattr(data, "row_index")}
    warning = next((text for names, text in texts.items() if text and before.isdisjoint(names)), "")
    if warning:  # one for all pairs
        warn(warning, AccuracyWarning)


def _check_pair(what: str, index: Any, of: str, reference: Any) -> str:
    """Raise an error for labels in another order, and return the warning for labels that agree in part, or ""."""
    index, reference = (data.labels if isinstance(data, RowNames) else data for data in (index, reference))
    of_pandas = _kind(index)[0] == _kind(reference)[0] == "pandas"
    same = index is reference or (of_pandas and index.equals(reference))  # without a list of a million texts
    if same or len(index) != len(reference):
        return ""
    row_labels, wanted = list(RowNames(index)), list(RowNames(reference))
    common = sum((Counter(row_labels) & Counter(wanted)).values())
    if row_labels == wanted or not common:
        return ""
    if common < len(row_labels):
        ranges = [type(labels).__name__ == "RangeIndex" for labels in (index, reference)]
        if any(ranges) and not all(ranges) and (_counts(index) or _counts(reference)):
            return ""
        return (
            f"{what} and {of} have {common} of {len(row_labels)} row labels in common, and their rows are paired by "
            f"position. Select the common rows, {what}.loc[common] and {of}.loc[common] with common = "
            f"{of}.index.intersection({what}.index); or, if positions are meant, pass {what}.set_axis({of}.index)."
        )
    at = next(i for i, (a, b) in enumerate(zip(row_labels, wanted, strict=True)) if a != b)
    raise InvalidProblem(
        f"the rows of {what} and {of} must be in the same order; got the same labels in another order: row {at} is "
        f"{shown(row_labels[at])} in {what} and {shown(wanted[at])} in {of}. Align them by label, "
        f"{what}.loc[{of}.index], or pair them by position, {what}.set_axis({of}.index). An AnnData is "
        f"aligned by {what}[{of}.obs_names], a DataArray by {what}.sel."
    )


# ---- results as frames -----------------------------------------------------------------------------


def table(index: str, labels: Any, columns: Mapping[str, HostArray], library: str) -> Any:
    """Make a table of columns of numbers, with a label for each row if there are labels.

    Parameters
    ----------
    index : str
        The name of the labels, unless `labels` has a name of its own. Underscores are appended if a column has this
        name.
    labels : sequence or None
        The labels of the rows. With None the table has `columns` alone, and a pandas frame numbers its rows.
    columns : mapping of str to numpy.ndarray of shape (n,)
    library : str
        One of `LIBRARIES`, or "" for a list with a dict for each row.

    Returns
    -------
    list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
        The labels are the index of a pandas frame, and the first column of any other table.

    Raises
    ------
    InvalidOption
        `library` is not one of `LIBRARIES`, and not "".
    MissingPackage
        The library is not installed, or narwhals is missing, which makes frames of polars and pyarrow.
    """
    if library not in ("", *LIBRARIES):
        raise InvalidOption(f'library must be {", ".join(map(repr, LIBRARIES))} or ""; got {shown(library)}.')
    index_name = getattr(labels, "name", None)
    index = index if index_name in (None, "") else str(index_name)
    while index in columns:
        index += "_"
    names, ready = {}, library == "pandas" and _kind(labels) == ("pandas", "series")
    if labels is not None and not ready:  # only pandas has labels of several levels
        names = {index: [_name(label) if isinstance(label, tuple) else label for label in labels]}
    if not library:
        whole = {**names, **{name: values.tolist() for name, values in columns.items()}}
        return [dict(zip(whole, row, strict=True)) for row in zip(*whole.values(), strict=True)]
    try:
        if library == "pandas":
            import pandas as pd

            return pd.DataFrame(dict(columns), index=pd.Index(names[index], name=index) if names else labels)
        import narwhals

        return narwhals.from_dict({**names, **columns}, backend=library).to_native()
    except ImportError as error:
        raise MissingPackage(
            f"a table of {library} needs {error.name or library}, which is not installed. Install it, or pass "
            'library="" for a list of rows.'
        ) from error
