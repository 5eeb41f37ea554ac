"""Truncated SVD and principal components."""
