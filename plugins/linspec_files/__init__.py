"""Files of rows, one reader a format: text, Matrix Market, svmlight, NumPy, Parquet, zarr, HDF5 and AnnData.

Read `adapters` first: a reader for each suffix. `delimited`, `matrix_market` and `svmlight` read text whole, as
`text` opens it; `slabs` decodes rows of the others some at a time and one slab ahead.
"""
