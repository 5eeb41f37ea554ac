"""Solvers of discriminants, one file each; `plugin` declares them.

Read `direct` first, then `two_stage`, which solves a least-squares problem instead.
"""
