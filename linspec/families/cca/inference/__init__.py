"""Significance and confidence intervals of canonical correlations: permutations, bootstrap, classical tests.

Read `significance` first, the main function for users; `permutation` computes the null correlations that it uses.
"""
