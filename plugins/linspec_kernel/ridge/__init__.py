"""Kernel ridge regression: the problem, its certificate and its solvers.

Read `problem` first, then `solvers`.
"""
