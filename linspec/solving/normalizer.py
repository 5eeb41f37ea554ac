"""The contract of normalizers: make the columns of a block orthonormal.

Problem: every subspace method must keep the columns of a thin block independent, in the Euclidean inner
product or in that of a metric such as XᵀX + rI. The best way depends on conditioning, dtype and machine.
Method: a normalizer has one method. It returns the basis and the small matrix T that makes it. So a known
product with V (MV, XV) gives the product with Q by one thin multiplication.
Source: the injected "stabilizer" of the randomized-algorithms libraries.
Where we differ: rank deficiency gives fewer columns and no error. A metric enters as the product MV, which
the methods hold anyway.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linspec.registry.options import validate

if TYPE_CHECKING:
    from linspec.arrays import Array, HostArray


@dataclass(frozen=True, kw_only=True)
class Normalizer(ABC):
    """Base class of normalizers; its fields are its options.

    An implementation promises, for a p x k block V of numerical rank r in the inner product xᵀMy:

    - Q = VT has r ≤ k columns and QᵀMQ = I, up to the rounding of V's dtype and the error of MV;
    - Q has the namespace, dtype and device of V; T is host NumPy float64, k x r;
    - MQ = (MV)T, so a metric costs no further product;
    - the device of V is the current one while it runs (CuPy computes there);
    - V and MV are not modified, and may be read-only;
    - sums over the p rows are accumulated in float64: a float32 Gram matrix loses the square of the condition
      number;
    - a block of zeros, or without columns, gives r = 0; NaN or infinity is ``NonFiniteData``.

    Q = VT holds up to the error of a backward-stable algorithm: ‖Q − VT‖ is of the order ε‖V‖‖T‖. If V is
    ill-conditioned, Q is therefore orthonormal, but the product VT (or (MV)T) is orthonormal only up to ε
    times the condition number of V.

    Examples
    --------
    The simplest implementation, right for well-conditioned blocks only:

    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> from linspec import Normalizer
    >>> from linspec.arrays import from_host, to_host
    >>> @dataclass(frozen=True, kw_only=True)
    ... class PlainCholesky(Normalizer):
    ...     def orthonormalize(self, V, MV=None):
    ...         gram = to_host(V.T @ (V if MV is None else MV))
    ...         T = np.linalg.inv(np.linalg.cholesky(gram)).T
    ...         return V @ from_host(T, like=V), T
    >>> Q, T = PlainCholesky().orthonormalize(np.array([[3.0, 3.0], [4.0, 4.0], [0.0, 2.0]]))
    >>> np.round(Q.T @ Q, 12) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """

    def __post_init__(self) -> None:
        validate(self)

    @abstractmethod
    def orthonormalize(self, V: Array, MV: Array | None = None) -> tuple[Array, HostArray]:
        """Make the columns of a block orthonormal.

        Parameters
        ----------
        V : array, shape (p, k)
            The block, float32 or float64, of any namespace.
        MV : array, shape (p, k), optional
            M V for a symmetric positive semidefinite metric M. By default M = I.

        Returns
        -------
        Q : array, shape (p, r)
            Q = V T with QᵀMQ = I, in V's namespace, dtype and device; r ≤ k is the numerical rank.
        T : ndarray, shape (k, r)
            On the host, float64.

        Raises
        ------
        NonFiniteData
            V or MV holds NaN or infinity.
        InvalidProblem
            V is not two-dimensional, or MV has another shape.
        UnsupportedData
            The dtype is neither float32 nor float64, or V and MV have different libraries or devices.
        """
