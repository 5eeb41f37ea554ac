"""Studies with more than one solve: comparison of solvers, and choice of ridge and k by held-out rows.

Read `comparison` first; `held_out` is cross-validation.
"""
