"""A kind of problem for linspec: leading singular vectors of XᵀY."""
