"""A kind of problem for linspec: partial least squares by singular vectors of XᵀY."""
