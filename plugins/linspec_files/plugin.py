"""The table of adapters of this package. Their libraries are imported on first use of such data, not before."""

from __future__ import annotations

from linspec import OperatorSpec, hookimpl
from linspec_files import adapters


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
            matches=adapters.is_text,
            adapt=adapters.of_text,
            suffixes=adapters.TEXT,
            column_names=adapters.names_of_text,
            texts=adapters.texts_of_text,
            summary="Delimited text: .csv, .tsv, .txt, also with .gz; one file or several.",
            sample="linspec_files.samples:text_file",
        ),
        OperatorSpec(
            name="matrix-market",
            matches=adapters.is_matrix_market,
            adapt=adapters.of_files,
            suffixes=adapters.MATRIX_MARKET,
            summary="Matrix Market files, .mtx and .mtx.gz: sparse ones by coordinates, or arrays.",
            sample="linspec_files.samples:matrix_market_file",
        ),
        OperatorSpec(
            name="svmlight",
            matches=adapters.is_svmlight,
            adapt=adapters.of_svmlight,
            suffixes=adapters.SVMLIGHT,
            summary="The text format of SVMlight and LIBSVM, also with .gz: features, labels, or classes.",
            sample="linspec_files.samples:svmlight_file",
        ),
        OperatorSpec(
            name="numpy-files",
            matches=adapters.is_numpy_file,
            adapt=adapters.of_files,
            suffixes=(adapters.NPY, adapters.NPZ),
            summary="Files of NumPy and of scipy.sparse, .npy and .npz; one file or several.",
            sample="linspec_files.samples:npy_file",
        ),
        OperatorSpec(
            name="parquet-files",
            matches=adapters.is_parquet,
            adapt=adapters.of_parquet,
            suffixes=adapters.PARQUET,
            column_names=adapters.names_of_parquet,
            texts=adapters.texts_of_parquet,
            summary="Parquet files, one, several, or a folder of them; columns by name.",
            sample="linspec_files.samples:parquet_file",
        ),
        OperatorSpec(
            name="zarr-files",
            matches=adapters.is_zarr_folder,
            adapt=adapters.of_files,
            suffixes=(adapters.ZARR,),
            summary="Folders of zarr, dense, or sparse as AnnData writes them; one or several.",
            sample="linspec_files.samples:zarr_folder",
        ),
        OperatorSpec(
            name="hdf5-files",
            matches=adapters.is_hdf5_file,
            adapt=adapters.of_files,
            suffixes=adapters.HDF5,
            summary="HDF5 files, .h5, .hdf5 and .h5ad, dense, or sparse as AnnData writes them; one or several.",
            sample="linspec_files.samples:hdf5_file",
        ),
        OperatorSpec(
            name="zarr",
            matches=adapters.is_zarr,
            adapt=adapters.of_zarr,
            summary="Arrays of zarr, dense, or sparse as AnnData writes them, decoded one slab ahead.",
            sample="linspec_files.samples:zarr_array",
        ),
        OperatorSpec(
            name="hdf5",
            matches=adapters.is_hdf5,
            adapt=adapters.of_hdf5,
            summary="Datasets of h5py, dense, or sparse as AnnData writes them, decoded one slab ahead.",
            sample="linspec_files.samples:hdf5_dataset",
        ),
        OperatorSpec(
            name="anndata",
            matches=adapters.is_annotated,
            adapt=adapters.of_annotated,
            summary="X of an AnnData, in memory or backed by a file, with the names of its variables.",
            sample="linspec_files.samples:annotated",
        ),
        OperatorSpec(
            name="anndata-sparse",
            matches=adapters.is_annotated_sparse,
            adapt=adapters.of_annotated_sparse,
            summary="Sparse matrices in files that anndata has opened, such as layers of a backed AnnData.",
            sample="linspec_files.samples:annotated_sparse",
        ),
        OperatorSpec(
            name="arrow-data-set",
            matches=adapters.is_data_set,
            adapt=adapters.of_data_set,
            summary="Data sets of Arrow: Parquet files, and whatever else it makes batches of.",
            sample="linspec_files.samples:data_set",
        ),
    )
