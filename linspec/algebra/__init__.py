"""Small matrices on one machine: factors, norms, whitening and preconditioners of Gram matrices.

Nothing here sweeps data. Read `small_matrices` first: QR, eigenvalues and singular values in the library and
precision of the arrays that are given, with the ranks that rounding allows.
"""
