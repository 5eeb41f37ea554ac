"""The problem a second time, by NumPy alone: leading singular vectors of C = XᵀY, as eigenvectors of [0 C; Cᵀ 0]."""

import numpy as np

from linspec.testing import cases, second_moments, spectral


def pencil(X, Y):
    """The matrices A and B of A w = λ B w, for w = (u, v)."""
    return second_moments(X, Y)[0], np.eye(X.shape[1] + Y.shape[1])


REFERENCE = spectral(
    pencil,
    cases=cases(8, 6, ridge=0, k=3),
    values="singular_values",
    vectors=("x_weights", "y_weights"),
    length=2.0,  # of w: u and v have length 1
)
