"""Rows in zarr, HDF5, AnnData and Parquet files, decoded some at a time and one slab ahead.

Read `adapters` first, then `slabs`.
"""
