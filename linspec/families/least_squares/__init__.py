"""Least squares and ridge regression.

Read `problem` first, which has the certificate, too; `uncertainty` says how far coefficients may be off, `generalized`
scores ridges without leaving rows out.
"""
