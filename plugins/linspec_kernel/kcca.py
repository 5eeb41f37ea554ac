"""Kernel CCA by eigendecompositions: the oracle.

Problem: the singular values of Px^½ Py^½, with P = K (K + r)⁻¹ for each view.
Method: K = U diag(w) Uᵀ for both views. With p = w/(w + r) the matrix diag(√px) UxᵀUy diag(√py) has the same singular
values; from its triplets (α, ρ, β) the dual coefficients are a = (Kx + rx)⁻¹ Py^½ β/ρ, and b likewise.
Source: Bach & Jordan 2002, J. Mach. Learn. Res. 3, Kernel independent component analysis; Hardoon, Szedmak &
Shawe-Taylor 2004, Neural Comput. 16(12), doi:10.1162/0899766042321814.
Where we differ: the penalty is the norm of the function, r aᵀK a, where the first source has (K + c)²; two
eigenproblems of order n take the place of a pencil of order 2n.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import KernelOperator
from linspec.arrays import HOST, HostArray, to_host
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate, Sizes
from linspec.errors import InvalidProblem
from linspec.iteration import Context, Iterate
from linspec.linalg import EPS, eigenpairs, leading_svd
from linspec.solving import Solver
from linspec_kernel.problem import KernelCCA

ZERO = 1e-8
"""Correlations below this are too small to divide by."""


@dataclass(frozen=True, kw_only=True)
class KCCA(Solver):
    """Two eigendecompositions and an SVD of order n (Bach & Jordan 2002; Hardoon et al. 2004)."""

    def iterate(self, problem: KernelCCA, moments: Any, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        moments.fit(context.rng, form="tiled")
        (wx, Ux), (wy, Uy) = (eigen_of(op) for op in moments.operators)
        (rx, ry), device = problem.ridge, moments.device
        px = np.sqrt(wx / (wx + rx))
        py = np.sqrt(wy / (wy + ry))
        cross = Ux.T @ Uy
        alpha, rho, beta = leading_svd((px[:, None] * cross) * py, problem.k, HOST)
        count = max(int(np.sum(rho > len(px) * EPS)), 1)  # the others have no direction
        alpha = alpha[:, :count]
        rho = rho[:count]
        beta = beta[:, :count]
        # Values at the rows are Ky b = √py β, and a = (Kx + rx)⁻¹ Ky b/ρ. Parts of the coefficients outside the
        # range of the kernel are no part of a function, but solve the equations there.
        rho = np.where(rho > ZERO, rho, 1.0)
        a = cross @ (py[:, None] * beta) / rho / (wx + rx)[:, None]
        b = cross.T @ (px[:, None] * alpha) / rho / (wy + ry)[:, None]
        x = device.asarray(Ux @ a)
        y = device.asarray(Uy @ b)
        yield Iterate(0.0, lambda: {"x_weights": x, "y_weights": y, **moments.learnt()}, final=True)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of two eigendecompositions, two products and forming the kernels."""
        n = float(sizes.n)
        seconds = (
            2 * 9 * n**3 / FACTOR_RATE + 12 * n**3 / DENSE_RATE + n**2 * (sizes.p + sizes.q) / DENSE_RATE
        )
        return Estimate(seconds, 8 * 7 * n**2, "two eigenproblems")


def eigen_of(op: KernelOperator) -> tuple[HostArray, HostArray]:
    """Eigenvalues of a kernel matrix (0 where they are only rounding), and its eigenvectors.

    Raises
    ------
    InvalidProblem
        There are negative eigenvalues beyond rounding.
    """
    K = HOST.asarray(op.dense())
    w, U = eigenpairs((K + K.T) / 2)
    # Values far from zero are rounded before centring subtracts their common part.
    largest = max(abs(float(w[-1])), float(np.abs(to_host(op.diagonal())).max()))
    rounding = len(K) * float(np.finfo(op.tile_dtype).eps) * largest
    if w[0] < -100 * rounding:
        raise InvalidProblem(
            f"the kernel of {op.name} is not positive semidefinite: its matrix has negative eigenvalues. Take another."
        )
    return np.where(w > rounding, w, 0.0), U
