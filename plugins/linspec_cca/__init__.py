"""Solvers of canonical correlation analysis, one file each; `plugin` declares them.

Read `gram` first, which takes no iterations, then `als`. `pairs`, `search_space` and `course` are shared by those that
iterate.
"""
