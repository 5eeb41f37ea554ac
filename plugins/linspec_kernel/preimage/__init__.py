"""Correlations of kernel functions k(·, u) of two views: the problem with its certificate, and its solvers.

Read `problem` first, then `certificate`.
"""
