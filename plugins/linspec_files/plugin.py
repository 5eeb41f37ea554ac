"""The table of adapters of this package. Their libraries are imported on first use of such data, not before."""

from __future__ import annotations

from functools import partial

from linspec import OperatorSpec, hookimpl
from linspec_files import door


@hookimpl
def linspec_operators() -> tuple[OperatorSpec, ...]:
    """Declare the adapters.

    Returns
    -------
    tuple of OperatorSpec
    """
    return (
        OperatorSpec(
            name="delimited-text",
            matches=partial(door.is_files, door.TEXT),
            adapt=door.of_text,
            suffixes=door.TEXT,
            column_names=door.names_of_text,
            texts=door.texts_of_text,
            summary="Delimited text: .csv, .tsv, .txt, also with .gz; one file or several.",
        ),
        OperatorSpec(
            name="matrix-market",
            matches=partial(door.is_files, door.MATRIX_MARKET),
            adapt=door.of_matrix_market,
            suffixes=door.MATRIX_MARKET,
            summary="Matrix Market files, .mtx and .mtx.gz: sparse ones by coordinates, or arrays.",
        ),
        OperatorSpec(
            name="svmlight",
            matches=partial(door.is_files, door.SVMLIGHT),
            adapt=door.of_svmlight,
            suffixes=door.SVMLIGHT,
            summary="The text format of SVMlight and LIBSVM, also with .gz: features, labels, or classes.",
        ),
        OperatorSpec(
            name="numpy-files",
            matches=partial(door.is_files, door.NUMPY),
            adapt=door.of_numpy,
            suffixes=door.NUMPY,
            summary="Files of NumPy and of scipy.sparse, .npy and .npz; one file or several.",
        ),
        OperatorSpec(
            name="parquet-files",
            matches=partial(door.is_files, door.PARQUET),
            adapt=door.of_parquet,
            suffixes=door.PARQUET,
            column_names=door.names_of_parquet,
            texts=door.texts_of_parquet,
            summary="Parquet files, one, several, or a folder of them; columns by name.",
        ),
        OperatorSpec(
            name="zarr-files",
            matches=partial(door.is_files, door.ZARR),
            adapt=door.of_zarr,
            suffixes=door.ZARR,
            summary="Folders of zarr, dense, or sparse as AnnData writes them; one or several.",
        ),
        OperatorSpec(
            name="hdf5-files",
            matches=partial(door.is_files, door.HDF5),
            adapt=door.of_hdf5,
            suffixes=door.HDF5,
            summary="HDF5 files, .h5, .hdf5 and .h5ad, dense, or sparse as AnnData writes them; one or several.",
        ),
        OperatorSpec(
            name="zarr",
            matches=partial(door.is_type, "zarr", ("Array", "Group")),
            adapt=door.of_object,
            summary="Arrays of zarr, dense, or sparse as AnnData writes them, decoded one slab ahead.",
        ),
        OperatorSpec(
            name="hdf5",
            matches=partial(door.is_type, "h5py", ("Dataset", "Group", "File")),
            adapt=door.of_object,
            summary="Datasets of h5py, dense, or sparse as AnnData writes them, decoded one slab ahead.",
        ),
        OperatorSpec(
            name="anndata",
            matches=partial(door.is_type, "anndata", ("AnnData", *door.BACKED)),
            adapt=door.of_object,
            summary="X of an AnnData, in memory or backed by a file, with the names of its variables; its layers.",
        ),
        OperatorSpec(
            name="arrow-data-set",
            matches=partial(
                door.is_type, "pyarrow", ("FileSystemDataset", "InMemoryDataset", "UnionDataset")
            ),
            adapt=door.of_object,
            summary="Data sets of Arrow: Parquet files, and whatever else it makes batches of.",
        ),
    )
