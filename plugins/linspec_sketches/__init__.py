"""Random test matrices: one method, one file; `plugin` declares them.

Read `gaussian` first.
"""
