"""Kernel ridge regression: the problem, its law and its solvers.

Read `problem` first, then `direct` and `nystrom_pcg`.
"""
