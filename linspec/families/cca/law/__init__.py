"""The certificate of canonical correlations: residuals, bounds on every correlation, and losses by rounding.

Read `judging` first. `answer` holds the weights and products that it uses, `evidence` the norms of inverse Gram
matrices.
"""
