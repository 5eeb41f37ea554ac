"""Data of dask: arrays, frames and lists of delayed blocks, multiplied where they lie; ``plugin.py`` declares them."""
