"""Singular value decomposition."""
