"""Files of rows, one reader for each format: text, Matrix Market, svmlight, NumPy, Parquet, zarr, HDF5 and AnnData.

Read `adapters` first: a reader for each suffix. `delimited`, `matrix_market` and `svmlight` read whole text files,
which `text` opens; `slabs` decodes rows of the other formats some at a time and one slab ahead.
"""
