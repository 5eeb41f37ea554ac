"""Principal components of rows with missing entries.

Read `problem` first, then `known_entries` and `solvers`.
"""
