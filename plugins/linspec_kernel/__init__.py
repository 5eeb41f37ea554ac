"""Kernel canonical correlations and kernel ridge regression: problems with their certificates, and their solvers.

Read `problem` first, then `certificate`, then `kcca`. `preimage` is the problem whose functions are kernels at one
point; `ridge` is kernel ridge regression. `moments` serves all of them.
"""
