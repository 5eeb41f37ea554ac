"""Canonical correlations of features that two nets learn.

Read `problem` first, then `dcca`, the solver.
"""
