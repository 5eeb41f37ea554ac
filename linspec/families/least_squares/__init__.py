"""Least squares and ridge regression.

Read `problem` first, which also holds the certificate. `held_out` scores ridges.
"""
