"""Partial least squares: covariances of two views, and regression on the directions that have them.

Read `problem` first, then `gram`, the shorter of its solvers. `regression` has the other problem.
"""
