"""Canonical correlations of any number of views: two problems with their certificates, and their solvers.

Read `problem` first, then `pencil`, `solvers` and `certificate`.
`absent` has the moments of views that lack rows. `sumcor` and `horst` are the criterion with local maxima.
"""
