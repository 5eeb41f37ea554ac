"""Reduced-rank regression: least squares of several right-hand sides whose coefficients have a low rank.

Read `problem` first. The solvers are those of discriminant subspaces, which `subspaces` hands the problem to.
"""
