"""Partial least squares: covariances of two views, and regression on the directions that have them.

Read `problem` first, then its `solvers`. `regression` has the other problem.
"""
