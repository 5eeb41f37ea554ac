"""The operators of objects of zarr, h5py and anndata, of Arrow data sets and of files, imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linspec.errors import InvalidProblem, MissingPackage, called, printable

if TYPE_CHECKING:
    from linspec.operators import LinearOperator, RowFiles
    from linspec_files.slabs import RowSource

TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
MATRIX_MARKET = (".mtx", ".mtx.gz")
SVMLIGHT = (".svm", ".svmlight", ".libsvm", ".svm.gz", ".svmlight.gz", ".libsvm.gz")
NPY, NPZ = ".npy", ".npz"
PARQUET = (".parquet", ".pq")
ZARR = ".zarr"
HDF5 = (".h5", ".hdf5", ".h5ad")

ZARR_MARKS = "zarr.json", ".zarray", ".zgroup"
"""Files by which a folder of any name is recognised as an array or a group of zarr, of format 3 and of format 2."""


def is_text(data: Any) -> bool:
    """Whether data are files of delimited text."""
    return _is_file(data, TEXT)


def is_matrix_market(data: Any) -> bool:
    """Whether data are Matrix Market files."""
    return _is_file(data, MATRIX_MARKET)


def is_svmlight(data: Any) -> bool:
    """Whether data are svmlight files."""
    return _is_file(data, SVMLIGHT)


def is_numpy_file(data: Any) -> bool:
    """Whether data are files of NumPy, by their suffix, .npy or .npz.

    A single file must also begin with the bytes of its format; otherwise the result is False. Then no adapter takes the
    file, and linspec raises an error for it.
    """
    if not _is_file(data, (NPY, NPZ)):
        return False
    from linspec_files.numpy_files import begins_as

    return len(data.paths) > 1 or begins_as(data.paths[0], data.suffix)


def is_parquet(data: Any) -> bool:
    """Whether data are Parquet files, or a folder of them."""
    return _is_file(data, PARQUET, folder=True)


def is_zarr_folder(data: Any) -> bool:
    """Whether data are folders of zarr."""
    return _is_file(data, (ZARR,), folder=True)


def is_hdf5_file(data: Any) -> bool:
    """Whether data are HDF5 files, those of AnnData among them."""
    return _is_file(data, HDF5)


def _is_file(data: Any, suffixes: tuple[str, ...], *, folder: bool = False) -> bool:
    """Whether data are files with one of some suffixes."""
    if not _named(data, "linspec", ("RowFiles",)):
        return False
    return _format(data) in suffixes and (folder or not Path(data.paths[0]).is_dir())


def _format(files: RowFiles) -> str:
    """Return the suffix that stands for the format of the files, such as ".csv" or ".zarr".

    The first path decides, since `row_files` refuses files of several suffixes. If it is a folder with another suffix
    than .zarr, .parquet and .pq, its format follows from its files: .zarr if it holds a file of `ZARR_MARKS`, .parquet
    if there is a .parquet file in it or below it. Otherwise the own suffix of the folder is returned.
    """
    folder = Path(files.paths[0])
    if files.suffix in (ZARR, *PARQUET) or not folder.is_dir():
        return files.suffix
    if any((folder / mark).is_file() for mark in ZARR_MARKS):
        return ZARR
    return PARQUET[0] if any(folder.rglob(f"*{PARQUET[0]}")) else files.suffix


def is_annotated(data: Any) -> bool:
    """Whether data are an AnnData."""
    return _named(data, "anndata", ("AnnData",))


def is_annotated_sparse(data: Any) -> bool:
    """Whether data are a sparse matrix in a file that anndata has opened."""
    return _named(
        data, "anndata", ("_CSRDataset", "_CSCDataset", "CSRDataset", "CSCDataset", "SparseDataset")
    )


def is_zarr(data: Any) -> bool:
    """Whether data are an array or a group of zarr."""
    return _named(data, "zarr", ("Array", "Group"))


def is_hdf5(data: Any) -> bool:
    """Whether data are a dataset, a group or a file of h5py."""
    return _named(data, "h5py", ("Dataset", "Group", "File"))


def is_data_set(data: Any) -> bool:
    """Whether data are a `pyarrow.dataset.Dataset`."""
    return _named(data, "pyarrow", ("FileSystemDataset", "InMemoryDataset", "UnionDataset"))


def _named(data: Any, package: str, names: tuple[str, ...]) -> bool:
    kind = type(data)
    return kind.__module__.partition(".")[0] == package and kind.__name__ in names


def _operator(source: RowSource) -> LinearOperator:
    from linspec.operators import SparseOperator, as_operator
    from linspec_files.held import HeldRows, VectorOperator
    from linspec_files.slabs import SlabRows

    if not isinstance(source, HeldRows):
        return SlabRows(source)
    if source.sparse:  # its reader has checked the indices
        operator: LinearOperator = SparseOperator(source.matrix, checked=True)
    elif source.vector:
        operator = VectorOperator(source.matrix)
    else:
        operator = as_operator(source.matrix, source.name)
    operator.column_names, operator.row_names = source.column_names, source.row_names
    return operator


def of_annotated(data: Any) -> LinearOperator:
    """Make the operator of X of an `anndata.AnnData`."""
    from linspec_files.annotated import rows_of_annotated

    return rows_of_annotated(data)


def of_annotated_sparse(data: Any) -> LinearOperator:
    """Make the operator of a sparse matrix that anndata reads from a file."""
    return (of_zarr if _named(data.group, "zarr", ("Group",)) else of_hdf5)(data.group)


def of_zarr(data: Any) -> LinearOperator:
    """Make the operator of a `zarr.Array`, or of the matrix in a `zarr.Group`."""
    return _operator(_zarr_rows(data, _place(data)))


def of_hdf5(data: Any) -> LinearOperator:
    """Make the operator of an `h5py.Dataset`, or of the matrix in a group or a file."""
    if not data:
        raise InvalidProblem("the HDF5 file is closed. Leave it open while it is in use, or pass its path.")
    inner = data.name.strip("/")
    name = f"{printable(data.file.filename)}{', ' if inner else ''}{inner}"
    return _operator(_hdf5_rows(data, name))


def of_data_set(data: Any) -> LinearOperator:
    """Make the operator of a `pyarrow.dataset.Dataset`.

    The Parquet files of a data set are read directly if they are local, and if the data set has all their rows and
    columns, with the same types. Any other data set may leave out rows, convert types or add columns (by a filter, a
    schema or the keys of partitions). Its rows are read as a stream of batches, which Arrow makes anew in every pass.
    """
    from linspec.operators import RowFiles, as_operator, columns_but_index
    from linspec_files.parquet_files import ParquetRows, columns_of

    files = getattr(data, "files", None)
    local = type(getattr(data, "filesystem", None)).__name__ == "LocalFileSystem"
    parquet = local and type(data.format).__name__ == "ParquetFileFormat"
    if files and parquet and columns_of(files[0]) == [(field.name, field.type) for field in data.schema]:
        source = ParquetRows(RowFiles(tuple(files)))
        if data.count_rows() == source.shape[0]:
            return _operator(source)
    with called("the data set"):
        columns = columns_but_index(data.schema)
    return as_operator(partial(data.to_batches, columns=columns), rows=data.count_rows())


def of_parquet(files: RowFiles) -> LinearOperator:
    """Make the operator of Parquet files."""
    _needs_pyarrow(files)
    _one_table(files)
    from linspec_files.parquet_files import ParquetRows, in_folders

    return _operator(ParquetRows(replace(files, paths=tuple(in_folders(files.paths)))))


def names_of_parquet(files: RowFiles) -> list[str]:
    """Return the names of the columns of Parquet files."""
    _needs_pyarrow(files)
    from linspec_files.parquet_files import names_in_parquet

    return names_in_parquet(files)


def texts_of_parquet(files: RowFiles) -> list[str | None] | None:
    """Return the texts of a column of Parquet files."""
    _needs_pyarrow(files)
    from linspec_files.parquet_files import texts_in_parquet

    return texts_in_parquet(files)


def _needs_pyarrow(files: RowFiles) -> None:
    with _needing("pyarrow", "parquet", files):
        import pyarrow.parquet  # noqa: F401


def names_of_text(files: RowFiles) -> tuple[str, ...] | range:
    """Return the names or numbers of the columns of delimited text, from the first of several files."""
    from linspec_files.delimited import names_in_text

    return names_in_text(Path(files.paths[0]), files)


def texts_of_text(files: RowFiles) -> list[str | None] | None:
    """Return the texts of a column of delimited text, or None if it holds numbers."""
    from linspec_files.delimited import read_texts

    found: list[str | None] = []
    for path in files.paths:
        texts = read_texts(Path(path), files)
        if texts is None:
            return None
        found += texts
    return found


def of_text(files: RowFiles) -> LinearOperator:
    """Make the operator of delimited text."""
    from linspec_files.delimited import read_delimited
    from linspec_files.held import HeldRows

    _one_table(files)
    return _stacked(
        files, [HeldRows(printable(path), *read_delimited(Path(path), files)) for path in files.paths]
    )


def of_svmlight(files: RowFiles) -> LinearOperator:
    """Make the operator of svmlight files, which are read together."""
    from linspec_files.held import HeldRows
    from linspec_files.svmlight import read_svmlight

    return _operator(_picked(HeldRows(files.name, read_svmlight(files)), files))


def of_files(files: RowFiles) -> LinearOperator:
    """Make the operator of one or several files of a format that is read file by file."""
    read = _READERS[_format(files)]
    return _stacked(files, [read(path, replace(files, paths=(path,))) for path in files.paths])


def _stacked(files: RowFiles, sources: list[RowSource]) -> LinearOperator:
    if len(sources) == 1:
        return _operator(sources[0])
    from linspec_files.stacked import StackedRows

    return _operator(StackedRows(files.name, sources))


def _picked(source: RowSource, files: RowFiles) -> RowSource:
    """Return a source of the requested columns; the source itself if none are requested."""
    places = files.places(source.column_names, source.shape[1], source.name)
    if places is None:
        return source
    from linspec_files.stacked import ChosenColumns

    return ChosenColumns(source, places)


def _one_matrix(files: RowFiles) -> None:
    """Raise an error if a part is named, for a format whose files hold one matrix without names of columns.

    The part is `files.part`: the argument `part` of `open_rows`, or NAME in FILE:NAME on the command line.
    """
    if files.part:
        raise InvalidProblem(
            f"{files.name} is one array, whose columns have no names, and has no part {files.part!r}. Leave it out."
        )


def _one_table(files: RowFiles) -> None:
    """Raise an error if a part is named (`files.part`), for a format whose files hold one table.

    Unlike the error of `_one_matrix`, this error advises to choose columns by name.
    """
    if files.part:
        raise InvalidProblem(f"{files.name} is a table and has no part {files.part!r}. Name columns instead.")


def _of_matrix_market(path: str, files: RowFiles) -> RowSource:
    from linspec_files.held import HeldRows
    from linspec_files.matrix_market import read_matrix_market

    _one_matrix(files)
    return _picked(HeldRows(printable(path), read_matrix_market(Path(path))), files)


def _of_zarr_path(path: str, files: RowFiles) -> RowSource:
    with _needing("zarr", "zarr", files):
        import zarr  # noqa: F401
    from linspec_files.zarr_files import opened_zarr

    return _picked(_zarr_rows(opened_zarr(path), files.name, files.part, files.missing), files)


def _of_hdf5_path(path: str, files: RowFiles) -> RowSource:
    with _needing("h5py", "hdf5", files):
        import h5py  # noqa: F401
    from linspec_files.groups import rows_in
    from linspec_files.hdf5_files import Hdf5Array, Hdf5Group, opened_hdf5

    with opened_hdf5(path) as file:
        found = rows_in(
            Hdf5Group(file, files.name), partial(Hdf5Array, path=path), files.name, files.part, files.missing
        )
    return _picked(found, files)


def _of_npy_path(path: str, files: RowFiles) -> RowSource:
    from linspec_files.numpy_files import NpyArray
    from linspec_files.stored import DenseRows

    _one_matrix(files)
    return _picked(DenseRows(NpyArray(path)), files)


def _of_npz_path(path: str, files: RowFiles) -> RowSource:
    from linspec_files.numpy_files import npz_rows

    return _picked(npz_rows(path, files.part), files)


@contextmanager
def _needing(package: str, extra: str, files: RowFiles) -> Iterator[None]:
    """Turn an ImportError into a `MissingPackage` that says how to install the package for these files."""
    try:
        yield
    except ImportError as error:
        raise MissingPackage(
            f"{files.name} needs {package}, which is not installed. Install it with: pip install 'linspec[{extra}]'"
        ) from error


def _zarr_rows(node: Any, name: str, part: str = "", missing: str = "warn") -> RowSource:
    from linspec_files.groups import rows_in
    from linspec_files.zarr_files import ZarrArray, ZarrGroup

    return rows_in(node if hasattr(node, "dtype") else ZarrGroup(node), ZarrArray, name, part, missing)


def _hdf5_rows(node: Any, name: str, part: str = "", missing: str = "warn") -> RowSource:
    from linspec_files.groups import rows_in
    from linspec_files.hdf5_files import Hdf5Array

    make: Callable[[str, Any], Any] = Hdf5Array
    return rows_in(node, make, name, part, missing)


def _place(node: Any) -> str:
    """Return the place of an array of zarr, for messages."""
    return printable(str(node.store_path).removeprefix("file://"))


_READERS: dict[str, Callable[[str, Any], RowSource]] = {
    **dict.fromkeys(MATRIX_MARKET, _of_matrix_market),
    ZARR: _of_zarr_path,
    **dict.fromkeys(HDF5, _of_hdf5_path),
    NPY: _of_npy_path,
    NPZ: _of_npz_path,
}
"""Readers, by suffix, of formats that are read file by file."""
