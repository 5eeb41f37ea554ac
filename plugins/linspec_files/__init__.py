"""Files of rows, one reader for each format: text, Matrix Market, svmlight, NumPy, Parquet, zarr, HDF5 and AnnData.

Read `slabs` first: a `Source` is what every reader makes, and `SlabRows` the operator of it. `door` says which reader
takes which data.
"""
