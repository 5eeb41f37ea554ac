"""Supervised subspaces."""
