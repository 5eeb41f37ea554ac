"""Feature maps: a nonlinear problem as a linear one, on columns that are computed when rows are read.

Problem: kernel methods need n² kernel values, and linear methods need O(n) numbers. Features whose inner products
approximate a kernel turn a kernel method into a linear one.
Method: a feature map maps rows to rows of features. Applied to data it returns data: an operator whose rows are
computed slice by slice, so every problem and solver accepts it, including weights, confounds and streams of slices,
and no n x D array is kept. *Nyström*: the kernel values with m landmarks, times a matrix that makes the inner
products among the landmarks exact. *Fourier*: cosines of random frequencies, for kernels that depend on x − z alone.
Source: Williams & Seeger 2001, NIPS 13, for Nyström; Chen, Epperly, Tropp & Webber 2025, Comm. Pure Appl. Math.
78(5), doi:10.1002/cpa.22234, for randomly pivoted Cholesky; Rahimi & Recht 2007, NIPS 20, for Fourier.
Where we differ: with `differences`, features are linear combinations of differences k(x, zᵢ) − k(x, zⱼ) for landmarks
z. They then belong to the span of the centred kernel functions of the training rows, where a solution for the kernel
itself can be judged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from linspec.arrays import HOST, Array, HostArray, cast, is_array, random_generator, to_host
from linspec.errors import InvalidProblem, MissingCapability, shown
from linspec.kernels.functions import (
    RBF,
    SAMPLE,
    Function,
    Kernel,
    Laplacian,
    Points,
    about,
    as_kernel,
    check_square,
    check_values,
    number_of,
    points_of,
    read_rows,
    resolved,
)
from linspec.operators import DenseOperator, LinearOperator, SparseOperator, as_operator
from linspec.operators.base import Derived, Selection
from linspec.operators.streamed import is_stream
from linspec.registry.options import is_number

__all__ = ["FeatureMap", "FeatureOperator", "FourierMap", "KernelMap", "fourier", "nystrom"]

JITTER = 10.0
"""JITTER times the machine epsilon of the landmarks' dtype times the mean diagonal entry is added to the diagonal of
the landmarks' kernel matrix."""

LANDMARKS = ("uniform", "rpcholesky")


class FeatureMap(ABC):
    """A map from rows of p numbers to rows of D features; called with data, it returns an operator of features.

    Attributes
    ----------
    inputs : int
        p.
    columns : int
        D.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> features = ls.features.nystrom(np.eye(4), ls.kernels.rbf(1.0), 3, rng=0)
    >>> isinstance(features, ls.features.FeatureMap), features.inputs, features.columns <= 3
    (True, 4, True)
    >>> features(np.ones((5, 4))).shape[0]  # data: rows of features
    5
    """

    inputs: int
    columns: int

    @abstractmethod
    def features(self, rows: LinearOperator) -> Array:
        """Compute the features of some rows.

        Parameters
        ----------
        rows : LinearOperator of shape (b, p)
            A `DenseOperator`, a `SparseOperator`, or any other operator whose entries can be read.

        Returns
        -------
        array of shape (b, D)
            In the dtype of the rows, at `rows.device`.
        """

    def __call__(self, data: Any, name: str = "data") -> LinearOperator:
        """The features of data, computed slice by slice.

        Parameters
        ----------
        data : data of shape (n, p)
            Anything that `linspec.as_operator` takes and that has rows: arrays, sparse matrices, files, iterators of
            slices, and callables that return these.
        name : str, default "data"
            The name of the data in messages.

        Returns
        -------
        LinearOperator of shape (n, D)

        Raises
        ------
        InvalidProblem
            The data have another number of columns.
        MissingCapability
            The data are an operator that is known by its products only.
        """
        A = as_operator(data, name)
        if A.shape[1] != self.inputs:
            raise InvalidProblem(
                f"{name} must have the {self.inputs} columns that the features are made of; got {A.shape[1]}."
            )
        if A.streamed:
            once = A.readings == 1 and is_stream(data)
            return as_operator(self._slices(A) if once else partial(self._slices, A), name)
        if A.access != "rows":
            raise MissingCapability(
                f"features are made of rows, and {name} has none; got {type(A).__name__}. Pass an array, a sparse "
                "matrix, a file, or slices of rows."
            )
        return FeatureOperator(A, self)

    def _slices(self, A: LinearOperator) -> Iterator[HostArray]:
        for block in A.blocks():
            yield to_host(self.features(block))


class FeatureOperator(Derived):
    """The features of the rows of an operator, computed when they are read.

    Parameters
    ----------
    operator : LinearOperator of shape (n, p)
    features : FeatureMap

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> features = ls.features.fourier(ls.kernels.rbf(1.0), p=2, D=6, rng=0)
    >>> operator = features(np.zeros((3, 2)))
    >>> type(operator).__name__, operator.shape
    ('FeatureOperator', (3, 6))
    """

    def __init__(self, operator: LinearOperator, features: FeatureMap) -> None:
        super().__init__(operator, (int(operator.shape[0]), features.columns))
        self.map, self.readable, self._stored_dtype = features, True, None

    def _rows(self, selection: Selection) -> LinearOperator:
        return DenseOperator(self.map.features(self.operator.rows(selection)))


class KernelMap(FeatureMap):
    """x ↦ Bᵀ(k(x, z₁), …, k(x, zₘ)), for m landmarks z.

    Parameters
    ----------
    landmarks : Points
        The landmarks z; for a precomputed kernel their row numbers among the training rows. If ``landmarks.center`` is
        not None, this point has been subtracted from the landmarks, and it is subtracted from rows x before the kernel
        is evaluated.
    turn : numpy.ndarray of shape (m, D), optional
        B; None: the identity.
    inputs : int, optional
        The number of columns of the data; by default the number of columns of the landmarks.
    numbers : numpy.ndarray of shape (m,), optional
        The row numbers of the landmarks among the training rows. Features do not depend on them; kernel CCA uses them
        to state a function of the landmarks as a function of all training rows.
    rows : int, optional
        The number of training rows, which kernel CCA needs for the same purpose; by default m.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> features = ls.features.nystrom(np.eye(3), ls.kernels.linear(), 3, rng=0)
    >>> Z = features(np.eye(3)).matmat(np.eye(features.columns))
    >>> type(features).__name__, np.allclose(Z @ Z.T, np.eye(3))  # the kernel matrix of its landmarks
    ('KernelMap', True)
    """

    def __init__(
        self,
        landmarks: Points,
        turn: HostArray | None = None,
        inputs: int | None = None,
        numbers: HostArray | None = None,
        rows: int | None = None,
    ) -> None:
        self.landmarks, self.turn, self.numbers = landmarks, turn, numbers
        self.rows = len(landmarks) if rows is None else rows
        self.inputs = int(landmarks.rows.shape[1]) if inputs is None else inputs
        self.columns = len(landmarks) if turn is None else turn.shape[1]

    @property
    def kernel(self) -> Kernel:
        """The kernel; all its parameters are numbers."""
        return self.landmarks.kernel

    def features(self, rows: LinearOperator) -> Array:
        device, dtype, z = rows.device, rows.dtype, self.landmarks
        entries: Any = rows.matrix.astype(dtype) if isinstance(rows, SparseOperator) else rows.dense()
        if not self.kernel.precomputed:  # tiles take blocks of one kind and dtype
            if scipy.sparse.issparse(z.rows):
                z = Points(z.rows.astype(dtype), z.kernel)
                entries = scipy.sparse.csr_array(to_host(entries) if is_array(entries) else entries)
            else:
                z = Points(device.asarray(to_host(z.rows), dtype), z.kernel, z.center)
                entries = entries.toarray() if scipy.sparse.issparse(entries) else entries
        tile = device.asarray(Points(about(entries, z.center), z.kernel).against(z), dtype)
        return tile if self.turn is None else tile @ device.asarray(self.turn, dtype)

    def __repr__(self) -> str:
        return f"KernelMap({self.inputs} -> {self.columns}, {self.kernel})"


class FourierMap(FeatureMap):
    """x ↦ √(2/D) cos(Wᵀx + b).

    Parameters
    ----------
    W : numpy.ndarray of shape (p, D)
    b : numpy.ndarray of shape (D,)

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.features import FourierMap
    >>> features = FourierMap(np.zeros((2, 4)), np.zeros(4))
    >>> features(np.ones((1, 2))).matmat(np.eye(4)).round(3)  # the root of 2 / 4, times cos 0
    array([[0.707, 0.707, 0.707, 0.707]])
    """

    def __init__(self, W: HostArray, b: HostArray) -> None:
        self.W, self.b = W, b
        self.inputs, self.columns = W.shape

    def features(self, rows: LinearOperator) -> Array:
        device = rows.device
        angles = rows.matmat(device.blocks.asarray(self.W)) + device.asarray(self.b, rows.dtype)
        return cast(device.xp.cos(angles), rows.dtype) * float(np.sqrt(2.0 / self.columns))

    def __repr__(self) -> str:
        return f"FourierMap({self.inputs} -> {self.columns})"


def nystrom(
    X: Any,
    kernel: Any,
    m: int,
    rng: Any = None,
    *,
    landmarks: str = "uniform",
    differences: bool = False,
) -> KernelMap:
    """Nyström features: the features of a kernel, projected onto the span of m landmarks.

    Parameters
    ----------
    X : data of shape (n, p)
        The rows from which landmarks are drawn. With "uniform" only the landmarks and the rows from which a scale is
        computed are read; with "rpcholesky" all rows are read and kept in memory.
    kernel : Kernel, str or callable
        Any argument of `linspec.kernels.as_kernel`. For a precomputed kernel X is its n x n matrix.
    m : int
        The number of landmarks, at most n.
    rng : None, int or numpy.random.Generator
    landmarks : {"uniform", "rpcholesky"}, default "uniform"
        "uniform": drawn with equal probabilities. "rpcholesky": drawn by randomly pivoted Cholesky, with probabilities
        proportional to the residual of k(x, x) after projection onto the previous landmarks, which finds small groups
        of rows.
    differences : bool, default False
        Whether features are built from differences k(x, zᵢ) − k(x, zⱼ) of landmarks; then there are m − 1 features.

    Returns
    -------
    KernelMap
        `map(data)` returns the features of data, whose inner products are the Nyström approximation of the kernel.

    Raises
    ------
    InvalidProblem
        m is out of range, or the kernel of the landmarks is not positive semidefinite.
    MissingCapability
        X has no rows.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> features = ls.features.nystrom(X, ls.kernels.rbf(1.0), m=20, rng=0)
    >>> features(X).shape
    (200, 20)
    """
    A, kernel, generator = as_operator(X, "X"), as_kernel(kernel), random_generator(rng)
    n = A.shape[0]
    if not is_number(m, int) or not 1 + differences <= m <= n:
        raise InvalidProblem(f"landmarks must number from {1 + differences} to the {n} rows; got {shown(m)}.")
    if landmarks not in LANDMARKS:
        raise InvalidProblem(f"landmarks must be one of {', '.join(LANDMARKS)}; got {shown(landmarks)}.")
    check_square(kernel, A, "X")
    if landmarks == "rpcholesky" or A.access != "rows":
        rows = read_rows(A, "X")
        points = points_of(rows, resolved(kernel, rows, generator))
        numbers = pivots(points, m, generator) if landmarks == "rpcholesky" else drawn_rows(n, m, generator)
        chosen = points.at(numbers)
    else:
        if not kernel.is_resolved:
            kernel = resolved(
                kernel, read_rows(A.rows(drawn_rows(n, min(n, SAMPLE), generator)), "X"), generator
            )
        numbers = drawn_rows(n, m, generator)
        chosen = points_of(read_rows(A.rows(numbers), "X"), kernel)
    tile = None
    if kernel.precomputed:
        tile, chosen = kernel.tile(chosen.rows, numbers), Points(numbers, kernel)
    return KernelMap(chosen, turn_of(chosen, differences=differences, among=tile), A.shape[1], numbers)


def drawn_rows(n: int, m: int, rng: np.random.Generator) -> HostArray:
    """Numbers of m of n rows, drawn with equal probabilities, in increasing order."""
    return np.sort(rng.choice(n, m, replace=False))


def turn_of(chosen: Points, *, differences: bool, among: Array | None = None) -> HostArray:
    """B with Bᵀ k(z, z) B = I for the m landmarks z: B = Q R⁻¹, where RᵀR = Qᵀ k(z, z) Q and R is upper triangular.

    If `differences` is False, Q is the identity. If True, Q is an m x (m − 1) matrix with orthonormal columns, each of
    which sums to zero. A small multiple of the identity is added to Qᵀ k(z, z) Q, so that R exists.

    Raises
    ------
    InvalidProblem
        k(z, z) has an eigenvalue that is negative by more than rounding.
    """
    K = HOST.asarray(_among(chosen) if among is None else among)
    K = (K + K.T) / 2
    check_values(np.diag(K), "the landmarks")
    m = len(K)
    Q = np.eye(m)
    if (
        differences
    ):  # all columns but the first of the reflection that maps 1/√m to a multiple of the first unit vector
        v = np.full(m, 1 / np.sqrt(m))
        v[0] += 1.0
        Q = (np.eye(m) - 2 * np.outer(v, v) / (v @ v))[:, 1:]
        K = Q.T @ K @ Q
    unit = _unit_of(chosen)
    size = float(np.trace(K)) / max(len(K), 1)
    if size <= 0:
        raise InvalidProblem("the kernel of the landmarks is zero. Take another kernel, or more landmarks.")
    shift = JITTER * unit * size
    lower = _lower(K, (shift, 1e2 * shift, 1e4 * shift))  # rounding of K may be more than the first
    return scipy.linalg.solve_triangular(lower, Q.T, lower=True).T


def _lower(K: HostArray, shifts: Sequence[float]) -> HostArray:
    """L of the Cholesky factorisation of the values of landmarks plus the first multiple of I with which it exists."""
    for shift in shifts:
        lower: HostArray
        lower, info = scipy.linalg.lapack.dpotrf(K + shift * np.eye(len(K)), lower=1, clean=1)
        if info == 0:
            return lower
    raise InvalidProblem(
        f"the kernel of {len(K)} landmarks is not positive semidefinite: the least eigenvalue of their values, less "
        f"what others explain, is {np.linalg.eigvalsh(K)[0]:.3g}. Take another kernel, or add that to the diagonal."
    )


def fourier(kernel: Any, p: int, D: int, rng: Any = None) -> FourierMap:
    """Random Fourier features of a Gaussian or a Laplacian kernel.

    Parameters
    ----------
    kernel : Kernel
        `linspec.kernels.rbf` or `linspec.kernels.laplacian`, with a scale that is a number.
    p : int
        The number of columns of the data.
    D : int
        The number of features.
    rng : None, int or numpy.random.Generator

    Returns
    -------
    FourierMap
        The expected value of the inner product of the features of x and z is k(x, z).

    Raises
    ------
    MissingCapability
        The kernel has no random Fourier features.
    UnsupportedData
        The scale of the kernel is not a number.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> x = np.array([[0.0, 0.0], [0.5, 0.0]])
    >>> features = ls.features.fourier(ls.kernels.rbf(1.0), p=2, D=3000, rng=0)
    >>> Z = ls.as_operator(features(x)).dense()
    >>> (Z @ Z.T).round(1)  # about the values of the kernel: 1, and exp(-1/8) = 0.9
    array([[1. , 0.9],
           [0.9, 1. ]])
    """
    kernel = as_kernel(kernel)
    if not isinstance(kernel, RBF | Laplacian):
        raise MissingCapability(
            f"random Fourier features exist here for kernels of differences, rbf and laplacian; got {kernel}. Take "
            "Nyström features."
        )
    generator = random_generator(rng)
    draw = generator.standard_normal if isinstance(kernel, RBF) else generator.standard_cauchy
    W = draw((p, D)) / number_of(kernel.scale, "scale")
    return FourierMap(W, generator.uniform(0.0, 2 * np.pi, D))


def pivots(points: Points, m: int, rng: np.random.Generator, weights: HostArray | None = None) -> HostArray:
    """Choose landmarks by randomly pivoted Cholesky, in blocks; return their row numbers in increasing order.

    With weights w the matrix is √wᵢ k(xᵢ, xⱼ) √wⱼ.

    Raises
    ------
    InvalidProblem
        The kernel is not positive semidefinite.
    """
    n, device = len(points), points.device.blocks
    left = HOST.asarray(points.kernel.diagonal(points.rows))
    left = left if weights is None else left * weights
    size = float(left.max(initial=0.0))
    unit = _unit_of(points)
    L, taken = np.empty((n, m)), np.zeros(0, dtype=np.intp)
    while len(taken) < m:
        chances = np.where(left > max(1e-12, 100 * unit) * size, left, 0.0)
        chances[taken] = 0.0
        done, missing = len(taken), m - len(taken)
        if np.count_nonzero(chances) < missing:  # the residual is rounding: any rows will do
            rest = np.setdiff1d(np.arange(n), taken)
            more = rng.choice(rest, missing, replace=False)
            return np.sort(np.concatenate([taken, more]))
        block = min(missing, max(m // 10, 1))
        new = np.unique(rng.choice(n, block, p=chances / chances.sum()))
        before = L[:, :done]
        G = np.asarray(to_host(device.asarray(points.against(points.columns(new))))) - before @ before[new].T
        among = (G[new] + G[new].T) / 2
        more = (
            1e-10 * np.trace(among) / len(new) + 30 * unit * size
        )  # the second term exceeds the rounding of G
        F = scipy.linalg.solve_triangular(_lower(among, (more,)), G.T, lower=True).T
        L[:, done : done + len(new)], taken = F, np.concatenate([taken, new])
        squares = np.einsum("ij,ij->i", F, F)
        left = np.maximum(left - (squares if weights is None else squares * weights), 0.0)
    return np.sort(taken)


def _unit_of(points: Points) -> float:
    """The machine epsilon of the dtype of the rows; that of float64 for rows that are no floats."""
    dtype = np.dtype(str(points.rows.dtype).rpartition(".")[2])
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)


def _among(chosen: Points) -> Array:
    """The kernel matrix of the landmarks, in float64; a user's function takes rows in the dtype of the data."""
    rows = chosen.rows
    if not isinstance(chosen.kernel, Function):
        rows = rows.astype(np.float64) if scipy.sparse.issparse(rows) else chosen.device.blocks.asarray(rows)
    wide = Points(rows, chosen.kernel)
    return wide.against(wide)
