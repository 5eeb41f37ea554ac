"""Solvers of canonical correlation analysis, one file each; `plugin` declares them.

Read `gram` first, which takes no iterations, then `als`. `search_space` and `pairs_within` have the subspaces of
`lobpcg` and its iterate; `linspec.families.cca` has what the other iterations share.
"""
