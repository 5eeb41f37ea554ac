"""Inference on the components of any problem: permutation tests and bootstrap intervals.

Read `rows` first, which says what happens to the rows. `permutation` and `bootstrap` solve a problem again on such
rows. `linspec.families.inference` has sharper ways for canonical correlations.
"""
