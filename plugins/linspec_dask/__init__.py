"""Data of dask: arrays, frames and lists of delayed blocks, multiplied on their workers; `plugin` declares them.

Read `adapters` first; `engine` sends tasks to the workers.
"""
