"""Which canonical correlations are more than chance, and how far they may be off: permutations, bootstrap, tests.

Read `significance` first, the one entrance for users; `permutation` draws the null correlations it compares with.
"""
