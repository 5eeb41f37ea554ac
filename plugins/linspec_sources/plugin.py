"""What this package adapts. The libraries are imported when such data are given, not before."""

from __future__ import annotations

from linspec import OperatorSpec, hookimpl
from linspec_sources import adapters


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
            summary="Files by their suffix: .zarr, .h5, .hdf5, .h5ad and .parquet, as linspec.open_rows states them.",
            sample="linspec_sources.samples:parquet_file",
        ),
        OperatorSpec(
            name="zarr",
            matches=adapters.is_zarr,
            adapt=adapters.of_zarr,
            summary="Arrays of zarr, dense or compressed sparse rows, decoded one slab ahead.",
            sample="linspec_sources.samples:zarr_array",
        ),
        OperatorSpec(
            name="hdf5",
            matches=adapters.is_hdf5,
            adapt=adapters.of_hdf5,
            summary="Datasets of h5py, dense or compressed sparse rows, decoded one slab ahead.",
            sample="linspec_sources.samples:hdf5_dataset",
        ),
        OperatorSpec(
            name="arrow-data-set",
            matches=adapters.is_data_set,
            adapt=adapters.of_data_set,
            summary="Data sets of Arrow that consist of Parquet files.",
            sample="linspec_sources.samples:data_set",
        ),
    )
