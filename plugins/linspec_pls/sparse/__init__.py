"""Sparse weights: covariances, correlations and principal components of few columns or groups of columns.

Read `penalty` first, then `problem` and `solvers`.
"""
