"""Solvers of canonical correlation analysis, one file each; `plugin` declares them.

Read `gram` first, which takes no iterations, then `als`. `linspec.families.cca` has what iterations share, and
`linspec.linalg` the method of `lobpcg`.
"""
