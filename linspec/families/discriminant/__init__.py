"""Linear discriminants, orthonormal partial least squares and hypergraph subspaces.

Read `problem` first, which also holds the certificate; `classifier` predicts classes.
"""
