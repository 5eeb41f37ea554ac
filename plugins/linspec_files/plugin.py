"""What this package adapts. The libraries are imported when such data are given, not before."""

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
            name="row-files",
            matches=adapters.is_file,
            adapt=adapters.of_files,
            summary="Files, one or many: .zarr, .h5, .hdf5, .h5ad, .parquet, .npy, .npz, as linspec.open_rows has it.",
            sample="linspec_files.samples:parquet_file",
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
