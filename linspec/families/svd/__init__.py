"""Truncated SVD and principal components.

Read `problem` first, which has the certificate, too: it is the shortest of the families.
"""
