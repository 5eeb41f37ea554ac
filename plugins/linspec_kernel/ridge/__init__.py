"""Kernel ridge regression: the problem, its law and its solvers.

Read `problem` first, then `solvers`.
"""
