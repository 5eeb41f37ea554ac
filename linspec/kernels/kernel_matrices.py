"""The kernel matrix of n rows, as an operator: kept in memory if it fits, else formed tile by tile in each product.

Problem: kernel methods multiply H k(X, X) H with thin blocks, where H = I − 11ᵀ/n subtracts means, and the n² entries
may not fit into memory.
Method: the matrix is cut into square tiles. If they fit into a fixed share of the memory, they are kept. Otherwise
each product computes them again; a tile off the diagonal is used twice, once transposed. Tiles have the dtype of the
data, and sums over them are float64. A product takes one *pass*: every entry of the matrix is used
once, however many columns the block has; m columns of the matrix take m/n of a pass.
Source: Rudi, Carratino & Rosasco 2017, NIPS 30 (FALKON), for products by tiles.
Where we differ: the operator is symmetric and centred, and who counts its passes counts the reading of the rows, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import scipy.sparse

from linspec.arrays import Array, DType, HostArray, largest_magnitude, random_generator, to_host, with_device
from linspec.blocks.units import fits_single
from linspec.cost import MOMENTS_SHARE
from linspec.errors import InvalidProblem, MissingCapability, shown
from linspec.kernels.features import KernelMap, pivots
from linspec.kernels.functions import (
    Function,
    Kernel,
    Points,
    as_kernel,
    check_square,
    check_values,
    points_of,
    read_rows,
    resolved,
)
from linspec.operators import LinearOperator, as_operator
from linspec.operators.weights import weights_and_confounds
from linspec.process.pauses import pause
from linspec.registry.options import is_number

__all__ = ["KernelOperator"]

FORMS = ("auto", "held", "tiled")

HOST_TILE, DEVICE_TILE = 1024, 8192
"""Rows of a tile, on the host and on a device: a few megabytes stay in the cache of a core, and an accelerator needs
more to be busy."""

PROBED = 32
"""Number of rows on which the symmetry of a user's function, or of precomputed values, is checked."""


class KernelOperator(LinearOperator):
    """The symmetric n x n matrix H k(X, X) H of n rows X, where H subtracts means; it is formed only if it fits into
    memory.

    With weights w it is H S k(X, X) S H, where S = diag(√w) and H is orthogonal to √w: the matrix of rows that count wᵢ
    times. No rows are read before the first product.

    Parameters
    ----------
    X : data of shape (n, p)
        Anything that `linspec.as_operator` takes and whose entries can be read; with a precomputed kernel the n x n
        values. The rows are kept in memory; sparse rows stay sparse.
    kernel : Kernel, str or callable
        Any argument of `linspec.kernels.as_kernel`.
    center : bool, default True
        Whether the features are centred; False: H is the identity.
    form : {"auto", "held", "tiled"}, default "auto"
        "held" keeps the matrix in memory, "tiled" forms its tiles in each product; "auto" is "held" if the matrix
        fits into three sixteenths of the available memory.
    tile : int, optional
        The number of rows of a tile; by default 1024 on the host.
    rng : None, int or numpy.random.Generator
        The generator that draws rows, if the scale of the kernel is computed from the data.
    name : str, default "X"
        The name of the data in messages.
    weights : numpy.ndarray of shape (n,), optional
        How often each row counts: zero or more.
    begins : callable, optional
        Called before each pass with its columns, its share of a pass, and its operations; what it raises refuses the
        pass. By default no passes are counted.

    Attributes
    ----------
    roots : array of shape (n,)
        √w; ones without weights.
    kernel : Kernel
        The kernel; all parameters are numbers once rows have been read (`settle`).
    asked : str
        The form that was asked for; it may be changed before the first product.
    dtype : numpy.dtype
        The dtype of products: float64, whatever the dtype of the tiles.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> K = ls.KernelOperator(X, "rbf")
    >>> K.shape
    (100, 100)
    >>> bool(abs(K.matmat(np.ones((100, 1)))).max() < 1e-10)
    True
    """

    readable = True

    def __init__(  # noqa: PLR0913 (what a kernel matrix is made of)
        self,
        X: Any,
        kernel: Any = "rbf",
        *,
        center: bool = True,
        form: str = "auto",
        tile: int | None = None,
        rng: Any = None,
        name: str = "X",
        weights: HostArray | None = None,
        begins: Callable[[float, float, float], None] | None = None,
    ) -> None:
        self.data = as_operator(X, name)
        self.kernel: Kernel = as_kernel(kernel)
        if str(form) not in FORMS:
            raise InvalidProblem(f"form must be one of {', '.join(FORMS)}; got {shown(form)}.")
        if tile is not None and (not is_number(tile, int) or tile < 1):
            raise InvalidProblem(f"tile must be an integer of at least 1, or None; got {shown(tile)}.")
        n = self.data.shape[0]
        if math.isinf(n) or not self.data.readable:
            raise MissingCapability(
                f"a kernel needs the rows of {name}; got {type(self.data).__name__}, whose entries cannot "
                "be read at will. Pass an array, a sparse matrix or a file."
            )
        check_square(self.kernel, self.data, name)
        self.shape = (n, n)
        self.device = self.data.device.blocks
        self.dtype = np.dtype(np.float64)
        self.center, self.asked, self._rng, self.name = bool(center), str(form), rng, name
        self._begins = begins
        self._weights = weights_and_confounds(weights, None, n)[0]
        self.roots = self.device.asarray(np.ones(n) if self._weights is None else np.sqrt(self._weights))
        self.tile = min(tile or (HOST_TILE if self.data.device.on_host else DEVICE_TILE), n)
        self._points: Any = None
        self._held: list[tuple[slice, slice, Array]] = []
        self._form = ""

    # ---- rows ---------------------------------------------------------------------------------

    @with_device
    def fit(self, rng: Any = None) -> Kernel:
        """Read the rows at the first call, and compute the scale of the kernel from them if it is not given.

        Parameters
        ----------
        rng : None, int or numpy.random.Generator, optional
            A generator to use instead of that of the constructor.

        Returns
        -------
        Kernel
            The kernel with all parameters as numbers.
        """
        if self._points is None:
            rows = self._read()
            self.kernel = resolved(self.kernel, rows, self._rng if rng is None else rng, self._weights)
            with np.errstate(over="ignore", invalid="ignore"):  # the check reports such values
                points = points_of(rows, self.kernel)
                values = self.kernel.diagonal(points.rows)
                entries = rows.data if scipy.sparse.issparse(rows) else rows
                fits = all(fits_single(largest_magnitude(array)) for array in (values, entries))
                if self.tile_dtype == np.float32 and not fits:
                    self.data = self.data.in_dtype(np.dtype(np.float64)) or self.data
                    points = points_of(self._read(), self.kernel)
                    values = self.kernel.diagonal(points.rows)
                check_values(values, self.name)
            self._check_symmetry(points)
            self._points = points
        return self.kernel

    def _read(self) -> Any:
        """The rows in memory; it counts a pass."""
        self._begin(0, 1.0, 0.0)
        return read_rows(self.data, self.name)

    @property
    def points(self) -> Points:
        """The rows in memory, minus the column medians if the kernel depends on x − z alone."""
        self.fit()
        return cast("Points", self._points)

    @property
    def tile_dtype(self) -> DType:
        """The dtype of tiles: the working dtype of the data."""
        return self.data.dtype

    @property
    def form(self) -> str:
        """The form of products, "held" or "tiled"."""
        if not self._form:
            size = float(self.shape[0]) ** 2 * self.tile_dtype.itemsize
            fits = size <= MOMENTS_SHARE / 2 * self.device.free_memory()
            self._form = self.asked if self.asked != "auto" else "held" if fits else "tiled"
        return self._form

    def _check_symmetry(self, points: Points) -> None:
        """Check symmetry on a few pairs of rows, if the values are a user's function or precomputed."""
        if not (self.kernel.precomputed or isinstance(self.kernel, Function)):
            return
        some = np.unique(np.linspace(0, self.shape[0] - 1, min(PROBED, self.shape[0])).astype(np.intp))
        T = self._among(points, some)
        off = float(np.abs(T - T.T).max())
        size = float(np.abs(T).max())
        if not off <= 1e-3 * size:
            raise InvalidProblem(
                f"the kernel of {self.name} must be symmetric; among {len(some)} rows k(x, z) and k(z, x) differ by "
                f"up to {off:.3g}, and values reach {size:.3g}. Take (K + Kᵀ)/2."
            )

    def _among(self, points: Points, numbers: HostArray) -> HostArray:
        """k(x, z) for all pairs of the rows with the given numbers, float64 on the host."""
        some = points.at(numbers)
        return np.asarray(to_host(some.against(points.columns(numbers, some))), dtype=np.float64)

    # ---- products, columns and entries --------------------------------------------------------

    @with_device
    def product(self, V: Array) -> tuple[Array, HostArray]:
        """The product H k(X, X) H V, and the column means of k(X, X) H V.

        The product is k(X, X) H V minus these means. For new rows z, the same means are subtracted from k(z, X) H V.
        With weights the product is H S k(X, X) S H V, and the means are weighted means of the rows of k(X, X) S H V.

        Parameters
        ----------
        V : array of shape (n, b)

        Returns
        -------
        array of shape (n, b), float64, and numpy.ndarray of shape (b,)
            The product and the means, which are zeros without centring.
        """
        self._check_block(V, self.shape[0], "product")
        b = V.shape[1]
        self._begin(b, 1.0, 2.0 * float(self.shape[0]) ** 2 * b)
        return self.centred(
            self.weighted(self._by_tiles(self.weighted(self._centred(self.device.asarray(V)))))
        )

    def _begin(self, columns: int, passes: float, flops: float) -> None:
        """Count a pass, or a share of one, if the run around it has room for it."""
        if self._begins is not None:
            self._begins(columns, passes, flops)

    def weighted(self, V: Array) -> Array:
        """S V: rows times √w."""
        return V * self.roots[:, None]

    def centred(self, V: Array) -> tuple[Array, HostArray]:
        """H V for a block at `device`, and the means that it subtracts; zeros without centring.

        The means are those of the columns; with weights those of S⁻¹V, in which every row counts wᵢ times.
        """
        if not (self.center and V.shape[1]):
            return V, np.zeros(V.shape[1])
        mean = self._mean(V)
        return V - self.roots[:, None] * mean, np.asarray(to_host(mean))

    def _centred(self, V: Array) -> Array:
        """H V, without a transfer to the host."""
        return V - self.roots[:, None] * self._mean(V) if self.center and V.shape[1] else V

    def _mean(self, V: Array) -> Array:
        return (self.roots @ V) / self.device.xp.sum(self.roots * self.roots)

    def _matmat(self, V: Array) -> Array:
        return self.product(V)[0]

    def _rmatmat(self, U: Array) -> Array:
        return self.product(U)[0]

    def _by_tiles(self, V: Array) -> Array:
        """k(X, X) V, summed in float64 over tiles in the dtype of the data."""
        self.fit()  # which decides the dtype of the tiles
        W = self.data.device.asarray(V, self.tile_dtype)
        out = self.device.zeros((self.shape[0], V.shape[1]))
        for rows, columns, T in self._tiles():
            out[rows, :] += self.device.asarray(T @ W[columns, :])
            if rows != columns:
                out[columns, :] += self.device.asarray(T.T @ W[rows, :])
        return out

    def _tiles(self) -> Iterator[tuple[slice, slice, Array]]:
        """Yield (rows, columns, tile) for tiles on and above the diagonal; those of a held matrix are formed once."""
        if self.form == "tiled":
            return self._formed()
        self._held = self._held or list(self._formed())
        return iter(self._held)

    def _formed(self) -> Iterator[tuple[slice, slice, Array]]:
        """Form the tiles."""
        pieces = list(_slices(self.shape[0], self.tile))
        parts = [self.points.at(piece) for piece in pieces]
        for i, rows in enumerate(pieces):
            for j in range(i, len(pieces)):
                pause()
                yield rows, pieces[j], parts[i].against(self.points.columns(pieces[j], parts[j]))

    def _dense(self) -> Array:
        """The matrix as a float64 array; counts one pass."""
        self._begin(0, 1.0, 0.0)
        K = self.device.zeros(self.shape)
        for rows, columns, T in self._tiles():
            K[rows, columns] = self.device.asarray(T)
            K[columns, rows] = self.device.asarray(T.T)
        K = self.roots[:, None] * K * self.roots
        return self._centred(self._centred(K).T).T

    @with_device
    def pivots(self, m: int, rng: Any = None) -> HostArray:
        """Numbers of m rows, drawn by randomly pivoted Cholesky of the matrix, which is not centred for this.

        Parameters
        ----------
        m : int
        rng : None, int or numpy.random.Generator
            The generator that draws rows; by default that of the constructor.

        Returns
        -------
        numpy.ndarray of shape (m,)
            In increasing order. Each row is drawn with a probability proportional to what the rows before leave of its
            k(x, x), times its weight (Chen, Epperly, Tropp & Webber 2025).
        """
        n = self.shape[0]
        self._begin(m, m / max(n, 1), 2.0 * n * float(m) ** 2)
        return pivots(self.points, m, random_generator(self._rng if rng is None else rng), self._weights)

    @with_device
    def columns(self, numbers: Any) -> Array:
        """Columns of k(X, X), not centred and not weighted.

        Parameters
        ----------
        numbers : sequence of int
            The numbers of the columns.

        Returns
        -------
        array of shape (n, m), in the working dtype and at the device of the data
        """
        index, points = np.asarray(numbers, dtype=np.intp), self.points
        n, m = self.shape[0], len(index)
        self._begin(m, m / max(n, 1), 0.0)
        out = self.data.device.zeros((n, m), self.tile_dtype)
        chosen = points.columns(index)
        for rows in _slices(n, self.tile):
            pause()
            out[rows, :] = points.at(rows).against(chosen)
        return out

    @with_device
    def block(self, numbers: Any) -> HostArray:
        """k(x, z) for all pairs of some rows, not centred and not weighted, in float64 on the host."""
        index = np.asarray(numbers, dtype=np.intp)
        self._begin(0, (len(index) / max(self.shape[0], 1)) ** 2, 0.0)
        return self._among(self.points, index)

    @with_device
    def diagonal(self) -> Array:
        """k(x, x) for each row, not centred and not weighted: an array of shape (n,) in the dtype of the data."""
        return self.kernel.diagonal(self.points.rows)

    @with_device
    def map(self) -> KernelMap:
        """The map x ↦ (k(x, x₁), …, k(x, xₙ)) for new rows."""
        every = np.arange(self.shape[0])
        return KernelMap(self.points.columns(every, self.points), None, self.data.shape[1], every)

    @with_device
    def cross(self, data: Any, name: str = "data") -> LinearOperator:
        """k(Z, X) for new rows Z, not centred: an operator whose rows are computed slice by slice.

        Parameters
        ----------
        data : data of shape (m, p)
            The new rows; for a precomputed kernel, the m x n kernel values of the new rows with the rows of X.
        name : str, default "data"
            The name of the data in messages.
        """
        return self.map()(data, name)

    def __repr__(self) -> str:
        return f"KernelOperator({self.shape[0]} x {self.shape[1]}, {self.kernel}, center={self.center})"


def _slices(n: int, size: int) -> Iterator[slice]:
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
