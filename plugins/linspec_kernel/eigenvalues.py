"""Eigenvalues and eigenvectors of a kernel matrix that fits into memory."""

from __future__ import annotations

import numpy as np

from linspec import KernelOperator
from linspec.algebra import eigenpairs
from linspec.arrays import HostArray, to_host
from linspec.errors import InvalidProblem


def eigen_of(op: KernelOperator) -> tuple[HostArray, HostArray]:
    """Eigenvalues of a kernel matrix (0 where they are only rounding), and its eigenvectors.

    Raises
    ------
    InvalidProblem
        There are negative eigenvalues beyond rounding.
    """
    K = np.asarray(to_host(op.dense()), dtype=np.float64)
    w, U = eigenpairs((K + K.T) / 2)
    # Values far from zero are rounded before centring subtracts their common part.
    largest = max(abs(float(w[-1])), float(np.abs(to_host(op.diagonal())).max()))
    rounding = len(K) * float(np.finfo(op.tile_dtype).eps) * largest
    if w[0] < -100 * rounding:
        raise InvalidProblem(
            f"the kernel of {op.name} is not positive semidefinite: eigenvalues of its matrix reach from {w[0]:.3g} to "
            f"{w[-1]:.3g}. Take another kernel."
        )
    return np.where(w > rounding, w, 0.0), U
