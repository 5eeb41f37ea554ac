"""Solvers of the truncated singular value decomposition, one file each; `plugin` declares them.

Read `gram` first, then `block_krylov`. Its header names the files that serve its loop.
"""
