"""The contracts of parts of solvers: normalizers, and test matrices, the random blocks that sketches start from.

Problem: every subspace method must keep the columns of a thin block independent, in the Euclidean inner product or in
that of a metric such as XᵀX + rI; the best way depends on conditioning, dtype and machine. Randomized methods multiply
the data by a random matrix, whose distribution determines the cost and the guarantee.
Method: a normalizer has one method. It returns the basis and the small matrix T that makes it. So a known product with
V (MV, XV) gives the product with Q by one thin multiplication. A test matrix has two forms. `draw` returns its entries,
for methods that iterate on the block. `operator` returns an object that multiplies data, and may store few of them. An
implementation defines the form that suits it better.
Source: the injected "stabilizer" and the sketching operators of the randomized-algorithms libraries.
Where we differ: rank deficiency gives fewer columns and no error. A metric enters as the product MV, which the methods
hold anyway. Random numbers come from a NumPy generator on the host, so a seed means the same matrix for every array
library and device. Entries always have variance one, so the scale of a random projection is the same for all test
matrices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from linspec.registry.options import validate

if TYPE_CHECKING:
    import numpy as np

    from linspec.arrays import Array, HostArray
    from linspec.operators import Sketch


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


@dataclass(frozen=True, kw_only=True)
class TestMatrix(ABC):  # noqa: B024 (either method may be the one defined)
    """Base class of test matrices; its fields are its options.

    An implementation defines `draw` or `operator`, or both, and promises

    - a matrix that depends only on its options, the shape and the generator's state, and is the same in both
      forms;
    - entries with mean zero and variance one, and uncorrelated entries within a column, so that E ΩΩᵀ = l I for l
      columns. Divided by √l the matrix preserves squared lengths in expectation: see `linspec.project`.

    Examples
    --------
    The simplest implementation, random signs:

    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> from linspec import TestMatrix
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Signs(TestMatrix):
    ...     def draw(self, rows, columns, rng):
    ...         return rng.choice([-1.0, 1.0], size=(rows, columns))
    >>> Signs().draw(2, 3, np.random.default_rng(0)).shape
    (2, 3)
    """

    __test__: ClassVar[bool] = False  # the name must not make pytest collect it

    def __post_init__(self) -> None:
        cls = type(self)
        if cls.draw is TestMatrix.draw and cls.operator is TestMatrix.operator:
            raise TypeError(f"{cls.__name__} defines neither draw nor operator; define one of them.")
        validate(self)

    def draw(self, rows: int, columns: int, rng: np.random.Generator) -> HostArray:
        """Draw a matrix.

        Parameters
        ----------
        rows, columns : int
            Its shape.
        rng : numpy.random.Generator
            The source of the random numbers; equal states give equal matrices.

        Returns
        -------
        ndarray, shape (rows, columns)
            On the host, float64.
        """
        return self.operator(rows, columns, rng).dense()

    def operator(self, rows: int, columns: int, rng: np.random.Generator) -> Sketch:
        """Make the matrix that `draw` would draw, as an operator.

        Parameters
        ----------
        rows, columns : int
            Its shape.
        rng : numpy.random.Generator
            The source of the random numbers. It is used before this method returns, and not kept.

        Returns
        -------
        linspec.operators.Sketch, shape (rows, columns)
            `Omega.dense()` has the entries, and `Omega.sketch(A)` is A Ω. By default it holds the entries.
        """
        from linspec.operators import Sketch

        return Sketch(self.draw(rows, columns, rng))
