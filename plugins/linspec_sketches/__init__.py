"""Random test matrices, those that are sparse in one file; `plugin` declares them.

Read `gaussian` first.
"""
