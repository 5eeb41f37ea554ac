"""A kind of data for linspec: rows in several .npz files, one below the other."""
