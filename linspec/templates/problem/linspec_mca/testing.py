"""The exact answer and the law, computed a second time by NumPy alone."""

import numpy as np

from linspec.testing import Spectrum, spectral_testing


def exact(views, parameters):
    """The singular triplets of XᵀY, all of them."""
    X, Y = views
    U, s, Vt = np.linalg.svd(X.T @ Y, full_matrices=False)
    size = np.linalg.norm(X, 2) * np.linalg.norm(Y, 2)  # of the products, whose rounding is a fraction of it
    return Spectrum(s, {"x_weights": U, "y_weights": Vt.T}, scale=float(size))


def residual(views, parameters, answer):
    """The largest of ‖C v − σ u‖ and ‖Cᵀu − σ v‖ over σ₁, for C = XᵀY."""
    C, U, V, s = views[0].T @ views[1], answer.x_weights, answer.y_weights, answer.singular_values
    gaps = [*np.linalg.norm(C @ V - U * s, axis=0), *np.linalg.norm(C.T @ U - V * s, axis=0)]
    return float(max(gaps) / s.max()) if len(s) else 0.0


TESTING = spectral_testing("mca", exact, residual, views=2)
