"""Solvers of least squares and ridge regression, one file each; `plugin` declares them.

Read `direct` first, then `conjugate_gradients`. `normal_system` is shared by those that iterate.
"""
