"""Canonical correlations of two views: the problem, its certificate, its inference and its command.

Read `problem` first, then `law`: solvers (`linspec_cca`) give weights, and the law says how right they are.
"""
