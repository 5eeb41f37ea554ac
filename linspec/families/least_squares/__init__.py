"""Least squares and ridge regression.

Read `problem` first, which also holds the certificate; `uncertainty` estimates the error of coefficients, and
`generalized` scores ridges without leaving rows out.
"""
