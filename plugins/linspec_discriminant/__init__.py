"""Solvers of discriminants, and of CCA with a narrow view; `plugin` declares them.

Read `direct` first, then `two_stage`, which solves a least-squares problem instead.
"""
