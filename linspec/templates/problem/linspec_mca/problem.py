"""Leading singular vectors of XᵀY: the problem, its answer and its certificate."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec.arrays import Array, HostArray
from linspec.iteration import Certificate
from linspec.linalg import inner_products, leading_triplets, unit_columns
from linspec.solving import fewer_than_asked


@dataclass(frozen=True, kw_only=True, repr=False)
class MCASolution(ls.LinearSolution, vector="pair"):
    """Leading singular triplets of XᵀY: unit vectors `x_weights`, `y_weights`, and `singular_values`."""

    x_weights: Array = ls.field(rows_of="X", leading=True, of_scaled=True)
    y_weights: Array = ls.field(rows_of="Y", leading=True, of_scaled=True)
    singular_values: HostArray = ls.field(value="singular value")


@dataclass(frozen=True, eq=False, repr=False)
class MCA(ls.Problem[MCASolution]):
    """The k leading singular triplets of XᵀY: the directions of two views with the largest covariance.

    Notes
    -----
    Residual: the largest of ‖XᵀY v − σ u‖ and ‖YᵀX u − σ v‖ over the triplets (u, σ, v), divided by σ₁.
    """

    X: Any = ls.matrix("two views")
    Y: Any = ls.matrix("two views")
    k: Any = ls.count("singular triplets")
    center: bool = ls.flag(True)

    name: ClassVar[str] = "mca"

    def certify(self, moments, arrays, tol):
        """Scale the vectors of a solver to length 1; compute their singular values, order, signs and residual."""
        device = moments.device
        U, V = (unit_columns(device.asarray(arrays[name]), device) for name in ("x_weights", "y_weights"))
        (XtXU, CtU), (CV, YtYV) = moments.products(U, V)  # one pass, with C = XᵀY
        # σ is the product of X u and Y v. Below the rounding of this product the vectors are arbitrary.
        squares = [inner_products(W, M, device).max(initial=0.0) for W, M in ((U, XtXU), (V, YtYV))]
        least = moments.noise * float(np.sqrt(np.prod(squares)))
        U, V, CV, CtU, sigma = leading_triplets(U, V, CV, CtU, self.k, least, device)
        gaps = [
            *device.column_norms(CV - U * device.asarray(sigma)),
            *device.column_norms(CtU - V * device.asarray(sigma)),
        ]
        residual = float(max(gaps) / sigma[0]) if len(sigma) else 0.0
        fields = {
            "x_weights": self.X.device.asarray(U, self.X.dtype),
            "y_weights": self.Y.device.asarray(V, self.Y.dtype),
            "singular_values": sigma,
        }
        notes = fewer_than_asked(len(sigma), self.k, "singular values that can be distinguished from zero")
        return Certificate(residual, notes, fields)
