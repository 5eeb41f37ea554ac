"""The certificate of canonical correlations: residuals, bounds on every correlation, and what rounding may hide.

Read `judging` first. `answer` has the numbers that it is made of, `evidence` the norms of inverse Gram matrices.
"""
