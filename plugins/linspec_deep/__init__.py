"""Canonical correlations of features that two nets learn."""
