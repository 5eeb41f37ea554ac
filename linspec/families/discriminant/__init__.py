"""Linear discriminants, orthonormal partial least squares and hypergraph subspaces."""
