"""Linear discriminants, orthonormal partial least squares and hypergraph subspaces.

Read `problem` first, which has the certificate, too; `classifier` predicts classes.
"""
