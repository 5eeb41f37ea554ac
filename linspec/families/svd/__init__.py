"""Truncated SVD and principal components.

Read `problem` first, which also holds the certificate. This is the shortest of the families.
"""
