"""Canonical correlations of features that two nets learn.

Read `problem` first, then `dcca`, the solver. `Net` is what a solver hands to the certificate.
"""
