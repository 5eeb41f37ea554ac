"""Inference on components and on regressions: permutation tests and bootstrap intervals.

Read `exchange` first, which says which rows may change places, and `rows`, which says what happens to them before.
`permutation` and `bootstrap` solve a problem again on such rows and compare its components, `regression` R² and the
coefficients. `linspec.families.inference` has the two functions, and sharper ways for canonical correlations.
"""
