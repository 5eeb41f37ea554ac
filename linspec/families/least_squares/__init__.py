"""Least squares and ridge regression.

Read `problem` first, which also holds the certificate. `held_out` scores ridges by rows left out, `generalized` without.
"""
