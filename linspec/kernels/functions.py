"""Kernels: functions of two rows that are inner products of features. Their values are computed tile by tile.

Problem: a kernel method needs k(x, z) for all pairs of n rows, n² numbers, and memory often holds only some of them
at a time.
Method: a kernel is a frozen dataclass, whose method `tile` returns the values k(X, Z) of some rows X and Z. The
linear, polynomial and Gaussian kernels compute a tile by one matrix product and a function of its entries; the
Laplacian kernel sums absolute differences. Rows may be arrays of any library or SciPy sparse matrices. If the scale
is not given, it is computed once from the distances between some of the rows, and the solution keeps the kernel with
this scale.
Source: Schölkopf & Smola 2002, Learning with Kernels; Rahimi & Recht 2007 for the Gaussian and the Laplacian kernel.
Where we differ: for kernels that depend on x − z alone, the medians of the columns are first subtracted from dense
rows. Distances are computed from inner products, which for rows far from the origin would lose digits to
cancellation, especially in float32.
"""

from __future__ import annotations

import ast
import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist

from linspec.arrays import (
    HOST,
    Array,
    Device,
    HostArray,
    check_bare,
    is_array,
    namespace,
    random_generator,
    to_host,
)
from linspec.blocks.base import row_blocks
from linspec.blocks.units import LARGEST, SMALLEST
from linspec.errors import DataOutOfRange, InvalidProblem, UnsupportedData, shown
from linspec.operators import LinearOperator, SparseOperator
from linspec.registry.options import is_number
from linspec.rows import check_products

__all__ = [
    "RBF",
    "Function",
    "Kernel",
    "Laplacian",
    "Linear",
    "Points",
    "Polynomial",
    "Precomputed",
    "as_kernel",
    "function",
    "laplacian",
    "linear",
    "polynomial",
    "precomputed",
    "rbf",
]

SAMPLE = 1000
"""Largest number of rows from whose distances or lengths a scale is computed."""

MIDDLE = 2**22
"""Largest size (rows times columns) of the sample of rows from which column medians are computed."""

SPARSE_COLUMNS = 4096
"""Number of columns of sparse rows that are converted to dense at once, for sums of absolute differences."""

SAME_ROWS = 1e-7
"""Rows count as equal if their distance is at most this fraction of their own size: less is rounding."""


@dataclass(frozen=True)
class Kernel(ABC):
    """A positive semidefinite function of two rows.

    A subclass is a frozen dataclass and defines `tile` and `diagonal`. It may define `statistics`: numbers of each
    row, such as |x|², that tiles use repeatedly.

    Attributes
    ----------
    differences : bool
        Whether the kernel depends on x − z alone.
    homogeneous : bool
        Whether k(c x, z) is a power of c times k(x, z), for c > 0.
    projects : bool
        Whether k(x, z) is a function of xᵀz and of the lengths of x and z. Such kernels define `along` and `pullback`.
    is_resolved : bool
        Whether all parameters are numbers, and none is a rule such as "median".

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import linspec as ls
    >>> @dataclass(frozen=True)
    ... class Constant(ls.kernels.Kernel):
    ...     value: float = 1.0
    ...
    ...     def diagonal(self, X):
    ...         return np.full(X.shape[0], self.value)
    ...
    ...     def tile(self, X, Z, sx=None, sz=None):
    ...         return np.full((X.shape[0], Z.shape[0]), self.value)
    >>> Constant(2.0).tile(np.zeros((1, 3)), np.zeros((2, 3)))
    array([[2., 2.]])
    """

    differences: ClassVar[bool] = False
    homogeneous: ClassVar[bool] = False
    precomputed: ClassVar[bool] = False
    projects: ClassVar[bool] = False

    @property
    def is_resolved(self) -> bool:
        return True

    def resolved(self, sample: Any) -> Kernel:
        """The kernel with all parameters as numbers: rules such as "median" are evaluated on sample rows.

        Parameters
        ----------
        sample : numpy.ndarray or SciPy sparse matrix of shape (m, p)
            Rows in float64.
        """
        return self

    def statistics(self, X: Any) -> Array | None:
        """Numbers that a tile needs for each row besides the row itself: |x|² for some kernels, or None.

        Parameters
        ----------
        X : array or SciPy sparse matrix of shape (n, p)
        """
        return None

    @abstractmethod
    def diagonal(self, X: Any) -> Array:
        """k(x, x) for each row: an array of shape (n,).

        Parameters
        ----------
        X : array or SciPy sparse matrix of shape (n, p)
        """

    @abstractmethod
    def tile(self, X: Any, Z: Any, sx: Array | None = None, sz: Array | None = None) -> Array:
        """k(x, z) for all pairs of rows.

        Parameters
        ----------
        X, Z : arrays or SciPy sparse matrices of shape (n, p) and (m, p)
            Rows of one library and dtype.
        sx, sz : arrays of shape (n,) and (m,), optional
            The `statistics` of X and Z, if the kernel has any; None: computed here.

        Returns
        -------
        array of shape (n, m)
            In new memory, which the caller may modify.
        """

    def along(self, T: Array, sx: Array | None, U: Array) -> Array:
        """k(xᵢ, uⱼ) computed from the products xᵢᵀuⱼ, so that the rows xᵢ themselves are not needed.

        Parameters
        ----------
        T : array of shape (n, m)
            XU.
        sx : array of shape (n,) or None
            The `statistics` of X, if the kernel has any.
        U : array of shape (p, m)
            Points, one in each column, in the array library of T.

        Returns
        -------
        array of shape (n, m)
        """
        raise NotImplementedError

    def pullback(self, X: LinearOperator, T: Array, K: Array, S: Array, U: Array) -> Array:
        """The gradient with respect to U of Σ Sᵢⱼ k(xᵢ, uⱼ), by one product with Xᵀ.

        Parameters
        ----------
        X : LinearOperator of shape (n, p)
        T, K : arrays of shape (n, m)
            T = XU, and K, the result of `along` for T.
        S : array of shape (n, m)
        U : array of shape (p, m)

        Returns
        -------
        array of shape (p, m), float64
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Linear(Kernel):
    """k(x, z) = xᵀz, with which kernel methods become linear methods.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> ls.kernels.Linear().tile(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    """

    homogeneous: ClassVar[bool] = True
    projects: ClassVar[bool] = True

    def diagonal(self, X: Any) -> Array:
        return _squares(X)

    def tile(self, X: Any, Z: Any, sx: Array | None = None, sz: Array | None = None) -> Array:
        return _inner(X, Z)

    def along(self, T: Array, sx: Array | None, U: Array) -> Array:
        return T

    def pullback(self, X: LinearOperator, T: Array, K: Array, S: Array, U: Array) -> Array:
        return X.rmatmat(S)


@dataclass(frozen=True)
class Polynomial(Kernel):
    """k(x, z) = (γ xᵀz + c)ᵈ.

    Parameters
    ----------
    degree : int, default 2
    offset : float, default 1.0
        c, at least 0.
    gamma : float or "scale", default "scale"
        γ. "scale" is 1 / (mean of |x|²) over at most 1,000 rows, which the generator of the run draws.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> kernel = ls.kernels.Polynomial(degree=2, offset=1.0, gamma=1.0)
    >>> kernel.tile(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))  # the square of 11 + 1
    array([[144.]])
    """

    degree: int = 2
    offset: float = 1.0
    gamma: float | str = "scale"

    projects: ClassVar[bool] = True

    def __post_init__(self) -> None:
        fits = is_number(self.degree, int) and 1 <= self.degree <= 100
        if not fits or not is_number(self.offset) or not 0 <= self.offset < math.inf:
            raise InvalidProblem(
                "degree of a polynomial kernel must be an integer from 1 to 100, and its offset finite and at least 0; "
                f"got {shown(self)}."
            )
        _check_positive("gamma of a polynomial kernel", self.gamma, "scale")

    @property
    def homogeneous(self) -> bool:  # type: ignore[override]
        """Whether the offset is 0."""
        return self.offset == 0

    @property
    def is_resolved(self) -> bool:
        return not isinstance(self.gamma, str)

    def resolved(self, sample: Any) -> Kernel:
        """The kernel with γ = 1 / (mean of |x|² over the rows)."""
        if self.is_resolved:
            return self
        mean = float(np.mean(_squares(sample)))
        if not 0 < mean < math.inf:
            raise InvalidProblem(
                f"gamma='scale' is one over the mean of |x|², which is {mean:g} here. Give gamma a number."
            )
        return dataclasses.replace(self, gamma=1.0 / mean)

    def diagonal(self, X: Any) -> Array:
        return (number_of(self.gamma, "gamma") * _squares(X) + self.offset) ** self.degree

    def tile(self, X: Any, Z: Any, sx: Array | None = None, sz: Array | None = None) -> Array:
        return _power(self._base(_inner(X, Z)), self.degree)

    def along(self, T: Array, sx: Array | None, U: Array) -> Array:
        return _power(self._base(T), self.degree)

    def pullback(self, X: LinearOperator, T: Array, K: Array, S: Array, U: Array) -> Array:
        slope = self.degree * number_of(self.gamma, "gamma")
        return X.rmatmat(
            S * slope if self.degree == 1 else S * _power(self._base(T), self.degree - 1) * slope
        )

    def _base(self, T: Array) -> Array:
        return T * number_of(self.gamma, "gamma") + float(self.offset)


@dataclass(frozen=True)
class _OfDistances(Kernel):
    """Base class of kernels that decrease from 1 with the distance of two rows, measured in units of a scale."""

    scale: float | str = "median"
    factor: float = 1.0

    differences: ClassVar[bool] = True
    called: ClassVar[str]

    def __post_init__(self) -> None:
        what = self.called
        _check_positive(f"scale of {what}", self.scale, "median")
        _check_positive(f"factor of {what}", self.factor)
        if not isinstance(self.scale, str) and self.factor != 1.0:
            raise InvalidProblem(
                f"factor of {what} multiplies the median distance; got factor={self.factor:g} beside a scale that is a "
                "number. Multiply the scale."
            )

    @property
    def is_resolved(self) -> bool:
        return not isinstance(self.scale, str)

    def resolved(self, sample: Any) -> Kernel:
        """The kernel with s = `factor` times the median distance between rows."""
        if self.is_resolved:
            return self
        distances = self._distances(sample)
        upper = distances[np.triu_indices(len(distances), 1)]
        median = float(np.median(upper)) if len(upper) else 0.0
        if not 0 < median < math.inf:
            raise InvalidProblem(
                f"scale='median' needs rows that differ; the median distance between {len(distances)} of them is "
                f"{median:g}. Give scale a number."
            )
        return dataclasses.replace(self, scale=median * self.factor, factor=1.0)

    @abstractmethod
    def _distances(self, sample: Any) -> HostArray:
        """The m x m distances between the rows of a sample."""

    def diagonal(self, X: Any) -> Array:
        return _squares(X) * 0.0 + 1.0


@dataclass(frozen=True)
class RBF(_OfDistances):
    """k(x, z) = exp(−|x − z|²/2s²), the Gaussian kernel.

    Parameters
    ----------
    scale : float or "median", default "median"
        s, in the units of the data. "median" is the median distance between at most 1,000 rows (if most pairs are
        equal, between those that differ), drawn by the generator of the run.
    factor : float, default 1.0
        With "median", the scale is `factor` times the median.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> kernel = ls.kernels.RBF(scale=2.0)
    >>> kernel.tile(np.array([[0.0], [2.0]]), np.array([[0.0]])).round(3)  # 1 and exp(-1/2)
    array([[1.   ],
           [0.607]])
    """

    projects: ClassVar[bool] = True
    called: ClassVar[str] = "an RBF kernel"

    def _distances(self, sample: Any) -> HostArray:
        squares = _squares(sample)
        sizes = squares[:, None] + squares
        distances = sizes - 2 * _inner(sample, sample)
        return np.sqrt(np.where(distances > SAME_ROWS**2 * sizes, distances, 0.0))

    def statistics(self, X: Any) -> Array | None:
        return _squares(X)

    def tile(self, X: Any, Z: Any, sx: Array | None = None, sz: Array | None = None) -> Array:
        scale = number_of(self.scale, "scale")
        T = _inner(X, Z)  # −|x − z|²/2 = xᵀz − |x|²/2 − |z|²/2, which rounding may leave above 0
        T -= (_squares(X) if sx is None else sx)[:, None] * 0.5
        T -= (_squares(Z) if sz is None else sz) * 0.5
        T *= scale**-2
        # |x − x|² is 0, but for a row far from all others rounding of |x|² leaves far more than the scale.
        return _exponential_of_negative(_without_diagonal(T) if X is Z else T)

    def along(self, T: Array, sx: Any, U: Array) -> Array:
        scale = number_of(self.scale, "scale")
        lengths = namespace(U).sum(U * U, axis=0)
        return _exponential_of_negative((T - 0.5 * sx[:, None] - 0.5 * lengths) * scale**-2)

    def pullback(self, X: LinearOperator, T: Array, K: Array, S: Array, U: Array) -> Array:
        Q = K * S * number_of(self.scale, "scale") ** -2
        return X.rmatmat(Q) - U * namespace(Q).sum(Q, axis=0)


@dataclass(frozen=True)
class Laplacian(_OfDistances):
    """k(x, z) = exp(−|x − z|₁/s), with the sum of absolute differences: the Laplacian kernel.

    Parameters
    ----------
    scale : float or "median", default "median"
        s, in the units of the data. "median" is the median of Σ|xⱼ − zⱼ| over pairs of at most 1,000 rows, drawn by the
        generator of the run.
    factor : float, default 1.0
        With "median", the scale is `factor` times the median.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> kernel = ls.kernels.Laplacian(scale=2.0)
    >>> kernel.tile(np.array([[0.0], [2.0]]), np.array([[0.0]])).round(3)  # 1 and exp(-1)
    array([[1.   ],
           [0.368]])
    """

    called: ClassVar[str] = "a Laplacian kernel"

    def _distances(self, sample: Any) -> HostArray:
        return _absolute_differences(sample, sample)

    def tile(self, X: Any, Z: Any, sx: Array | None = None, sz: Array | None = None) -> Array:
        T = _absolute_differences(X, Z)
        T *= -1.0 / number_of(self.scale, "scale")
        return _exponential_of_negative(T)


@dataclass(frozen=True)
class Precomputed(Kernel):
    """A kernel whose values the user passes: the data are the n x n matrix of k(x, z) for all pairs of training rows.

    In `tile`, X has a column for each training row. For training rows, X holds rows of the n x n matrix. For m new
    rows, X is the m x n matrix of their kernel values with the training rows. Z holds row numbers of training rows, and
    the tile is the columns Z of X.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> values = np.eye(6) + 1.0
    >>> problem = ls.KernelCCA(values, values, k=1, kernel_x="precomputed", kernel_y="precomputed", ridge=1.0)
    >>> problem.kernel_x
    Precomputed()
    """

    precomputed: ClassVar[bool] = True

    def diagonal(self, X: Any) -> Array:
        if X.shape[0] != X.shape[1]:
            raise InvalidProblem(
                "a row of a precomputed kernel does not tell its number; take KernelOperator.diagonal."
            )
        if scipy.sparse.issparse(X):
            return np.asarray(X.diagonal())
        return Device.of(X).asarray(np.diagonal(to_host(X)), str(X.dtype).rpartition(".")[2])

    def tile(self, X: Any, Z: Any, sx: Array | None = None, sz: Array | None = None) -> Array:
        index = np.asarray(Z)
        if scipy.sparse.issparse(X):
            return X[:, index].toarray()
        device = Device.of(X)
        return device.xp.take(X, device.xp.asarray(index, device=device.native), axis=1)


@dataclass(frozen=True)
class Function(Kernel):
    """A kernel defined by a function that takes X (n x p) and Z (m x p) and returns the n x m values.

    The function must be symmetric and positive semidefinite. Rows are passed unchanged, as arrays in the library of
    the data or as SciPy sparse matrices.

    Parameters
    ----------
    of : callable

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> kernel = ls.kernels.Function(lambda X, Z: 2 * X @ Z.T)
    >>> kernel.tile(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[22.]])
    """

    of: Callable[[Any, Any], Any]

    def diagonal(self, X: Any) -> Array:
        entries = [self.tile(X[i : i + 1, :], X[i : i + 1, :])[0, :] for i in range(X.shape[0])]
        return namespace(entries[0]).concat(entries) if entries else np.empty(0)

    def tile(self, X: Any, Z: Any, sx: Array | None = None, sz: Array | None = None) -> Array:
        T = self.of(X, Z)
        wanted = (X.shape[0], int(Z.shape[0]))
        if not is_array(T) or tuple(T.shape) != wanted:
            raise InvalidProblem(
                f"a kernel of {wanted[0]} and {wanted[1]} rows must be an array of shape {wanted}; the function "
                f"returned {getattr(T, 'shape', type(T).__name__)}. It takes blocks of rows, not single ones."
            )
        return T * 1.0  # in new memory, since the function may return an array that it keeps


linear = Linear
polynomial = Polynomial
rbf = RBF
laplacian = Laplacian
precomputed = Precomputed
function = Function

NAMED: dict[str, type[Kernel]] = {
    "linear": linear,
    "polynomial": polynomial,
    "rbf": rbf,
    "laplacian": laplacian,
    "precomputed": precomputed,
}
"""Kernels by name."""


def _of_text(text: str) -> Kernel | None:
    """Return the kernel of a name, perhaps with numbers in brackets; None for any other text."""
    with suppress(SyntaxError, ValueError, KeyError, TypeError, AttributeError):
        call: Any = ast.parse(text, mode="eval").body
        if isinstance(call, ast.Name):
            return NAMED[call.id]()
        numbers = [ast.literal_eval(number) for number in call.args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        make: Any = NAMED[call.func.id.lower()]
        return cast("Kernel", make(*numbers, **named))
    return None


def as_kernel(given: Any, name: str = "kernel") -> Kernel:
    """Return the kernel that a kernel object, a name or a function stands for.

    Parameters
    ----------
    given : Kernel, str or callable
        Names: linear, polynomial, rbf, laplacian, precomputed, each with its defaults; or with its numbers, as a kernel
        is printed: "rbf(scale=2)".
    name : str, default "kernel"
        The name of the argument in messages.

    Raises
    ------
    InvalidProblem
        `given` is neither a kernel, nor such a name, nor a function.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.kernels.as_kernel("linear") == ls.kernels.linear()
    True
    """
    if isinstance(given, Kernel):
        return given
    if isinstance(given, str) and (kernel := _of_text(given)) is not None:
        return kernel
    if callable(given) and not isinstance(given, type):
        return Function(given)
    raise InvalidProblem(
        f"{name} must be a kernel of linspec.kernels, one of {', '.join(NAMED)}, or a function of two blocks of rows; "
        f"got {shown(given)}."
    )


class Points:
    """Rows in memory, with the statistics that tiles of a kernel need.

    Parameters
    ----------
    rows : array, SciPy sparse matrix, or numbers of rows for a precomputed kernel
    kernel : Kernel
    center : numpy.ndarray of shape (p,) or None
        The point that was subtracted from the rows, and that must be subtracted from other rows as well.
    statistics : array of shape (n,), optional
        The `statistics` of the kernel; computed by default.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rows = ls.kernels.Points(np.array([[1.0], [2.0]]), ls.kernels.linear())
    >>> rows.against(rows)
    array([[1., 2.],
           [2., 4.]])
    """

    def __init__(
        self, rows: Any, kernel: Kernel, center: HostArray | None = None, statistics: Array | None = None
    ) -> None:
        check_bare(rows, "rows")
        self.rows, self.kernel, self.center = rows, kernel, center
        indices = kernel.precomputed and not scipy.sparse.issparse(rows) and rows.ndim == 1
        self.statistics = kernel.statistics(rows) if statistics is None and not indices else statistics

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    @property
    def device(self) -> Device:
        """The library and device of tiles with these rows."""
        return Device.of(np.empty(0) if scipy.sparse.issparse(self.rows) else self.rows)

    def at(self, selection: Any) -> Points:
        """The points that a slice, or an array of row numbers on the host, selects."""
        return Points(
            _chosen(self.rows, selection),
            self.kernel,
            self.center,
            None if self.statistics is None else _chosen(self.statistics, selection),
        )

    def columns(self, numbers: Any, at: Points | None = None) -> Points:
        """The points with these row numbers, as `against` takes them; `at` if they have been selected before.

        The columns of precomputed values are their numbers.
        """
        if self.kernel.precomputed:
            return Points(np.arange(len(self))[numbers], self.kernel)
        return self.at(numbers) if at is None else at

    def against(self, others: Points) -> Array:
        """The tile k(rows, others.rows)."""
        return self.kernel.tile(self.rows, others.rows, self.statistics, others.statistics)


def read_rows(A: LinearOperator, name: str) -> Any:
    """Read the rows of an operator into memory: an array, or a SciPy CSR matrix.

    Raises
    ------
    MissingCapability
        The operator is known by its products only.
    NonFiniteData
        An entry is not finite.
    """
    rows = A.matrix.astype(A.dtype) if isinstance(A, SparseOperator) else A.dense()
    entries = rows.data[: rows.nnz] if scipy.sparse.issparse(rows) else rows
    check_products(entries, A.in_blocks(name), name)
    return rows


def about(rows: Any, center: HostArray | None) -> Any:
    """Subtract a point from rows. Return the rows unchanged if `center` is None.

    The differences are computed in float64, and rounded to the dtype of the rows. They are dense, also for sparse rows.
    """
    if center is None:
        return rows
    if scipy.sparse.issparse(rows):
        rows = rows.toarray()
    device = Device.of(rows)
    dtype = np.dtype(str(rows.dtype).rpartition(".")[2])
    out = device.zeros(tuple(rows.shape), dtype)
    middle = device.blocks.asarray(center)
    for block in row_blocks(rows.shape[0], 8 * rows.shape[1], on_host=device.on_host):
        out[block, :] = device.asarray(device.blocks.asarray(rows[block, :]) - middle, dtype)
    return out


def points_of(rows: Any, kernel: Kernel) -> Points:
    """Rows in memory as `Points`, minus the column medians of some of them if the kernel depends on x − z alone.

    Medians are used because one row far from all others would move the means, and distances between the other rows
    would lose digits. Sparse rows are not centred.
    """
    if not kernel.differences or scipy.sparse.issparse(rows):
        return Points(rows, kernel)
    n, p = rows.shape
    some = np.linspace(0, n - 1, min(n, SAMPLE, max(MIDDLE // max(p, 1), 1))).astype(np.int64)
    center = np.asarray(np.median(HOST.asarray(_chosen(rows, some)), axis=0))
    return Points(about(rows, center), kernel, center)


def check_square(kernel: Kernel, A: LinearOperator, name: str) -> None:
    """Raise unless a matrix of precomputed values has those of all pairs of rows.

    Raises
    ------
    InvalidProblem
    """
    if kernel.precomputed and A.shape[0] != A.shape[1]:
        raise InvalidProblem(
            f"with a precomputed kernel {name} holds the values of all pairs of rows, n x n; got {A.shape[0]} x "
            f"{A.shape[1]}."
        )


def resolved(kernel: Kernel, rows: Any, rng: Any, weights: HostArray | None = None) -> Kernel:
    """The kernel with all parameters as numbers; rules such as "median" are evaluated on some random rows.

    Parameters
    ----------
    kernel : Kernel
    rows : array or SciPy sparse matrix of shape (n, p)
    rng : None, int or numpy.random.Generator
    weights : numpy.ndarray of shape (n,), optional
        How often each row counts.
    """
    if kernel.is_resolved:
        return kernel
    sample = _chosen(rows, _sampled(int(rows.shape[0]), random_generator(rng), weights))
    if scipy.sparse.issparse(sample):
        return kernel.resolved(sample.astype(np.float64))
    sample = HOST.asarray(sample)
    return kernel.resolved(sample - np.median(sample, axis=0) if kernel.differences else sample)


def _sampled(n: int, rng: np.random.Generator, weights: HostArray | None) -> HostArray:
    """Numbers of at most `SAMPLE` of n rows; a row is among them as often as its weight says, or in proportion."""
    if weights is None:
        return np.sort(rng.choice(n, min(n, SAMPLE), replace=False))
    total = float(weights.sum())
    if total <= SAMPLE and np.all(weights == np.floor(weights)):
        return np.repeat(np.arange(n), weights.astype(np.intp))
    return np.sort(rng.choice(n, SAMPLE, p=weights / total))


def check_values(values: Array, name: str) -> None:
    """Check that values k(x, x) are neither negative nor out of the range of entries.

    Raises
    ------
    InvalidProblem
        A value is negative.
    DataOutOfRange
        The largest value is too small or too large.
    """
    d = HOST.asarray(values)
    least = float(d.min(initial=0.0))
    largest = float(d.max(initial=0.0)) if np.isfinite(d).all() else float(np.finfo(np.float64).max)
    if least < -1e-6 * largest or (largest == 0 and least < 0):
        raise InvalidProblem(
            f"the kernel of {name} is not positive semidefinite: k(x, x) is {least:.3g} for a row. Take another "
            "kernel."
        )
    if largest > 0 and not SMALLEST <= largest <= LARGEST:
        raise DataOutOfRange(
            f"the largest value of the kernel of {name} must lie between {SMALLEST:.0e} and {LARGEST:.0e}; got "
            f"{largest:.3g}. Divide the rows by their size."
        )


def _chosen(rows: Any, selection: Any) -> Any:
    if isinstance(rows, np.ndarray) or scipy.sparse.issparse(rows):
        return rows[selection]
    if isinstance(selection, slice):
        return rows[selection, ...]
    device = Device.of(rows)
    return device.xp.take(rows, device.xp.asarray(np.asarray(selection), device=device.native), axis=0)


def _inner(X: Any, Z: Any) -> Array:
    """xᵀz for all pairs of a row x of X and a row z of Z, in new memory."""
    T = X @ Z.T
    return np.asarray(T.toarray()) if scipy.sparse.issparse(T) else T


def _squares(X: Any) -> Array:
    """|x|² for each row x of X."""
    if scipy.sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).reshape(-1)
    return namespace(X).sum(X * X, axis=1)


def _power(base: Array, degree: int) -> Array:
    T = base
    for _ in range(degree - 1):
        T = T * base
    return T


def _absolute_differences(X: Any, Z: Any) -> Array:
    """Σ|xⱼ − zⱼ| for all pairs of a row x of X and a row z of Z."""
    if scipy.sparse.issparse(X) or scipy.sparse.issparse(Z):
        X, Z = (scipy.sparse.csc_array(A) for A in (X, Z))
        total = np.zeros((X.shape[0], Z.shape[0]))
        for start in range(0, X.shape[1], SPARSE_COLUMNS):
            some = slice(start, start + SPARSE_COLUMNS)
            total += cdist(X[:, some].toarray(), Z[:, some].toarray(), "cityblock")
        return total.astype(X.dtype)
    if isinstance(X, np.ndarray):
        return cdist(X, Z, "cityblock").astype(X.dtype, copy=False)
    xp = namespace(X)
    T = xp.abs(X[:, :1] - Z[:, :1].T)
    for j in range(1, X.shape[1]):
        T += xp.abs(X[:, j : j + 1] - Z[:, j : j + 1].T)
    return T


def _without_diagonal(T: Array) -> Array:
    """T with zeros on its diagonal; T may be overwritten."""
    xp, m = namespace(T), T.shape[0]
    entries = xp.reshape(T, (-1,))
    entries[:: m + 1] = 0.0
    return xp.reshape(entries, (m, m))


def _exponential_of_negative(T: Array) -> Array:
    """exp(min(T, 0)), in place for NumPy arrays."""
    if isinstance(T, np.ndarray):
        np.minimum(T, 0.0, out=T)
        return np.exp(T, out=T)
    xp = namespace(T)
    return xp.exp(xp.where(T > 0, xp.zeros_like(T), T))


def _check_positive(what: str, value: Any, word: str = "") -> None:
    if isinstance(value, str) and word and value == word:
        return
    if not is_number(value) or not 1e-150 <= value <= 1e150:  # so that its square is a number
        also = f", or {word!r}" if word else ""
        raise InvalidProblem(f"{what} must be a number from 1e-150 to 1e150{also}; got {shown(value)}.")


def number_of(value: float | str, name: str) -> float:
    """Return a parameter of a resolved kernel; raise if it is still a rule such as "median"."""
    if isinstance(value, str):
        raise UnsupportedData(
            f"{name}={value!r} is a rule, and the rows that it needs are not known here. Take the kernel that a "
            "KernelOperator or a solution has, or give a number."
        )
    return float(value)
