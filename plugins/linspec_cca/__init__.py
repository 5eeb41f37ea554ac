"""Solvers of canonical correlation analysis, one file each; `plugin` declares them.

Read `gram` first, which takes no iterations, then `als`. `linspec.families.cca` has what the iterations share.
"""
