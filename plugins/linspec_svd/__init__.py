"""Solvers of the truncated singular value decomposition, those of one idea in one file; `plugin` declares them.

Read `gram` first, then `block_krylov`. Its header names the files that serve its loop.
"""
