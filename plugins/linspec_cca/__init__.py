"""Solvers of canonical correlation analysis, those of one idea in one file; `plugin` declares them.

Read `gram` first, which takes no iterations, then `als`. `linspec.families.cca` has what iterations share, and
`linspec.linalg` the method of `lobpcg`.
"""
