"""Operators that watch how they are used, and the laws every operator must keep.

Problem: a solver says what it asks of its data and what it cost, and both are easily wrong: an operator that
can do everything never shows it.
Method: `CountingOperator` gives exactly what it is told to give and counts for itself, independently of the
ledgers of a run. `ProductsOnly` is a foreign object with two methods and nothing else. `check_operator` holds
an operator to its laws: linearity, the adjoint identity ⟨Au, v⟩ = ⟨u, Aᵀv⟩, a block as its columns, rows as
slices of the entries, and moments as the products of which they are made.
Source: the dot test of Claerbout (2014), as in pylops; the counting operators of the LSMR papers' codes.
Where we differ: everything is held to the rounding of the operator's dtype, and the moments are checked in all
their forms, centred and not, against an explicit centring.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from linspec.arrays import Array, HostArray, to_host
from linspec.errors import AccuracyWarning, MissingCapability
from linspec.moments import Moments
from linspec.operators import DenseOperator, LinearOperator, as_operator
from linspec.operators.base import Selection
from linspec.testing.places import package_of, said_of

__all__ = ["CountingOperator", "ProductsOnly", "check_operator"]


class ProductsOnly:
    """A foreign operator: `shape`, `dtype`, `matmat`, `rmatmat`, and nothing else to hold on to.

    Parameters
    ----------
    array : numpy.ndarray of shape (n, p)
    """

    def __init__(self, array: HostArray) -> None:
        self.__array = array.copy()
        self.shape = array.shape
        self.dtype = array.dtype

    def matmat(self, V: HostArray) -> HostArray:
        """A V."""
        product: HostArray = self.__array @ V
        return product

    def rmatmat(self, U: HostArray) -> HostArray:
        """Aᵀ U."""
        product: HostArray = self.__array.T @ U
        return product

    def snapshot(self) -> bytes:
        """What it holds, as bytes."""
        return self.__array.tobytes()


class CountingOperator(LinearOperator):
    """An operator that gives no more than it is told to, and counts what it is asked.

    Parameters
    ----------
    data : data of shape (n, p)
        Anything `linspec.as_operator` takes.
    sliceable : bool, default False
        Give row slices. A request for anything that is not to be had raises MissingCapability.
    readable : bool, default False
        Give the entries.

    Attributes
    ----------
    forward, adjoint : float
        Block products made with all rows; a product with some of them is its share.
    columns : float
        Products with one column, of both kinds.
    passes : float
        Readings of all rows: each product, each reading of the entries; rows taken are their share, and what
        is then done with them costs nothing more.
    """

    def __init__(self, data: Any, *, sliceable: bool = False, readable: bool = False) -> None:
        self.inner = as_operator(data)
        self.shape, self.dtype, self.home = self.inner.shape, self.inner.dtype, self.inner.home
        self.sliceable, self.readable = sliceable, readable
        self.forward = self.adjoint = self.columns = self.passes = 0.0

    @property
    def nnz(self) -> int:
        return self.inner.nnz

    def _matmat(self, V: Array) -> Array:
        self.count(forward=1.0, columns=V.shape[1], sweeps=1.0)
        return self.inner.matmat(V)

    def _rmatmat(self, U: Array) -> Array:
        self.count(adjoint=1.0, columns=U.shape[1], sweeps=1.0)
        return self.inner.rmatmat(U)

    def _rows(self, selection: Selection) -> LinearOperator:
        if not self.sliceable:
            return super()._rows(selection)
        rows = self.inner.rows(selection)
        share = rows.shape[0] / self.shape[0]
        self.count(sweeps=share)
        return _CountingRows(rows, self, share, readable=self.readable)

    def _dense(self) -> Array:
        if not self.readable:
            return super()._dense()
        self.count(sweeps=1.0)
        return self.inner.dense()

    def count(
        self, *, forward: float = 0.0, adjoint: float = 0.0, columns: float = 0.0, sweeps: float = 0.0
    ) -> None:
        """Add to the account."""
        self.forward += forward
        self.adjoint += adjoint
        self.columns += columns
        self.passes += sweeps


class _CountingRows(LinearOperator):
    """Rows taken from a counting operator: paid for as a sweep, their products counted as a share."""

    sliceable = True

    def __init__(
        self, inner: LinearOperator, parent: CountingOperator, share: float, *, readable: bool
    ) -> None:
        self.inner, self.parent, self.share = inner, parent, share
        self.shape, self.dtype, self.home = inner.shape, inner.dtype, inner.home
        self.readable = readable

    @property
    def nnz(self) -> int:
        return self.inner.nnz

    def _matmat(self, V: Array) -> Array:
        self.parent.count(forward=self.share, columns=self.share * V.shape[1])
        return self.inner.matmat(V)

    def _rmatmat(self, U: Array) -> Array:
        self.parent.count(adjoint=self.share, columns=self.share * U.shape[1])
        return self.inner.rmatmat(U)

    def _rows(self, selection: Selection) -> LinearOperator:
        rows = self.inner.rows(selection)
        share = self.share * rows.shape[0] / max(self.shape[0], 1)
        return _CountingRows(rows, self.parent, share, readable=self.readable)

    def _dense(self) -> Array:
        return self.inner.dense() if self.readable else super()._dense()


# ---- the laws of an operator ------------------------------------------------------------------


def check_operator(data: Any, *, entries: HostArray | None = None, seed: int = 0) -> list[str]:
    """Hold an operator, or data that linspec makes one of, to the laws of operators.

    Parameters
    ----------
    data : data of shape (n, p)
        Anything `linspec.as_operator` takes; not too large, for its entries are formed.
    entries : numpy.ndarray of shape (n, p), optional
        What the entries are known to be. By default they are taken from products with the identity.
    seed : int, default 0
        Of the random blocks.

    Returns
    -------
    list of str
        What is wrong, each with the name of the law in front: "adjoint: ...". Empty when all is well.
    """
    operator = as_operator(data)
    watch = _Watch(operator, entries, seed)
    issues: list[str] = []
    for name, law in LAWS.items():
        try:
            issues += [f"{name}: {issue}" for issue in law(watch)]
        except Exception as error:  # noqa: BLE001 (an operator may fail in any way; each law is told apart)
            issues.append(f"{name}: raised {said_of(error, package_of(type(operator)))}")
    return issues


class _Watch:
    """An operator with its entries and the sizes of its rounding."""

    def __init__(self, operator: LinearOperator, entries: HostArray | None, seed: int) -> None:
        self.A = operator
        self.p = operator.shape[1]
        self.rng = np.random.default_rng(seed)
        self.given = None if entries is None else np.asarray(entries, dtype=np.float64)
        self.formed = np.asarray(self.forward(np.eye(self.p)), dtype=np.float64)
        self.n = len(self.formed)  # of slices, counted by now
        self.M = self.formed if self.given is None else self.given
        self.unit = float(np.finfo(operator.dtype).eps)

    def forward(self, V: HostArray) -> HostArray:
        return np.asarray(to_host(self.A.matmat(self.A.home.blocks.place(V))), dtype=np.float64)

    def adjoint(self, U: HostArray) -> HostArray:
        return np.asarray(to_host(self.A.rmatmat(self.A.home.place(U, self.A.dtype))), dtype=np.float64)

    def block(self, rows: int, k: int = 3) -> HostArray:
        """A random block that the operator's dtype holds exactly."""
        return self.rng.standard_normal((rows, k)).astype(self.A.dtype).astype(np.float64)

    def differs(self, found: HostArray, wanted: HostArray, scale: HostArray) -> str:
        """How far two blocks are apart, where that is more than rounding of products of this size."""
        found = np.asarray(found, dtype=np.float64)
        if found.shape != wanted.shape:
            return f"shape {found.shape}; expected {wanted.shape}"
        limit = 8 * self.unit * (np.sqrt(max(self.n, self.p)) + 4) * scale + 1e-300
        gap = np.abs(found - wanted)
        if np.all(gap <= limit):
            return ""
        worst = float(np.nanmax(np.where(np.isnan(gap), np.inf, gap) / limit))
        return f"off by {np.nanmax(gap):.2g}, {worst:.2g} times what rounding explains"


def _told(what: str, difference: str) -> Iterator[str]:
    if difference:
        yield f"{what} is {difference}"


def _check_kind(w: _Watch) -> Iterator[str]:
    if w.A.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        yield f"dtype must be float32 or float64; got {w.A.dtype}"
    product = w.A.matmat(w.A.home.blocks.place(w.block(w.p)))
    if tuple(product.shape) != (w.n, 3):
        yield f"matmat must answer with shape {(w.n, 3)}; got {tuple(product.shape)}"
    if not str(product.dtype).endswith(w.A.dtype.name):
        yield f"matmat must answer in the working dtype {w.A.dtype}; got {product.dtype}"
    adjoint = w.A.rmatmat(w.A.home.place(w.block(w.n), w.A.dtype))
    if tuple(adjoint.shape) != (w.p, 3):
        yield f"rmatmat must answer with shape {(w.p, 3)}; got {tuple(adjoint.shape)}"
    if not str(adjoint.dtype).endswith("float64"):
        yield f"rmatmat must answer in float64; got {adjoint.dtype}"


def _check_entries(w: _Watch) -> Iterator[str]:
    if w.given is not None:
        yield from _told("the product with the identity", w.differs(w.formed, w.given, np.abs(w.given)))


def _check_linearity(w: _Watch) -> Iterator[str]:
    for name, product, rows, size in (
        ("matmat", w.forward, w.p, np.abs(w.M)),
        ("rmatmat", w.adjoint, w.n, np.abs(w.M).T),
    ):
        U, V = w.block(rows), w.block(rows)
        found = product(2.0 * U - 0.5 * V)
        scale = size @ (2 * np.abs(U) + 0.5 * np.abs(V))
        yield from _told(f"{name} of 2U − V/2", w.differs(found, 2.0 * product(U) - 0.5 * product(V), scale))


def _check_blocks(w: _Watch) -> Iterator[str]:
    for name, product, rows, size in (
        ("matmat", w.forward, w.p, np.abs(w.M)),
        ("rmatmat", w.adjoint, w.n, np.abs(w.M).T),
    ):
        V = w.block(rows)
        columns = np.hstack([product(V[:, [j]]) for j in range(3)])
        yield from _told(
            f"{name} of a block, by its columns,", w.differs(product(V), columns, size @ np.abs(V))
        )
        if product(V[:, :0]).shape[1] != 0:
            yield f"{name} of a block without columns must have none"


def _check_adjoint(w: _Watch) -> Iterator[str]:
    V, U = w.block(w.p), w.block(w.n)
    left, right = U.T @ w.forward(V), w.adjoint(U).T @ V
    scale = np.abs(U).T @ np.abs(w.M) @ np.abs(V)
    yield from _told("⟨Aᵀu, v⟩ beside ⟨u, Av⟩", w.differs(right, left, scale))
    yield from _told("rmatmat", w.differs(w.adjoint(U), w.M.T @ U, np.abs(w.M).T @ np.abs(U)))


def _check_rows(w: _Watch) -> Iterator[str]:
    if not w.A.sliceable:
        try:
            w.A.rows(slice(0, 1))
        except MissingCapability:
            return
        yield "sliceable is False, yet rows are given"
        return
    V = w.block(w.p)
    chosen: list[Any] = [slice(0, w.n), slice(w.n // 3, 2 * w.n // 3 + 1), slice(w.n - 1, w.n)]
    for rows in chosen:
        part = w.A.rows(rows)
        M = w.M[rows]
        if part.shape != M.shape:
            yield f"rows {rows} must have shape {M.shape}; got {part.shape}"
            continue
        found = to_host(part.matmat(w.A.home.blocks.place(V)))
        yield from _told(f"the product of rows {rows}", w.differs(found, M @ V, np.abs(M) @ np.abs(V)))
        U = w.block(len(M))
        found = to_host(part.rmatmat(w.A.home.place(U, w.A.dtype)))
        yield from _told(
            f"the adjoint product of rows {rows}", w.differs(found, M.T @ U, np.abs(M).T @ np.abs(U))
        )


def _check_dense(w: _Watch) -> Iterator[str]:
    if not w.A.readable:
        try:
            w.A.dense()
        except MissingCapability:
            return
        yield "readable is False, yet the entries are given"
        return
    yield from _told("dense", w.differs(to_host(w.A.dense()), w.M, np.abs(w.M)))


def _check_moments(w: _Watch) -> Iterator[str]:
    """All forms of the moments, centred and not, against explicit products."""
    V = w.block(w.p)
    for center in (False, True):
        M = w.M - w.M.mean(axis=0) if center else w.M
        size = np.abs(M).T @ (np.abs(M) @ np.abs(V))
        # Only dense rows are centred before they are multiplied. Elsewhere the mean is taken out of the product,
        # whose rounding is that of the columns as they are.
        bulk = size if isinstance(w.A, DenseOperator) else np.abs(w.M).T @ (np.abs(w.M) @ np.abs(V))
        for form in ("implicit", "dense"):
            moments = Moments(w.A, center=center, form=form)
            what = f"the {'centred ' if center else ''}{form} product XᵀXV"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AccuracyWarning)  # of a loss that is allowed for here
                found = to_host(moments.products(w.A.home.blocks.place(V))[0])
            yield from _told(what, w.differs(found, M.T @ (M @ V), bulk * np.sqrt(w.n)))


def _check_means(w: _Watch) -> Iterator[str]:
    means = to_host(Moments(w.A, center=True).column_means()[0])
    yield from _told("the column mean", w.differs(means, w.M.mean(axis=0), np.abs(w.M).mean(axis=0)))


LAWS: dict[str, Callable[[_Watch], Iterator[str]]] = {
    "kind": _check_kind,
    "entries": _check_entries,
    "linearity": _check_linearity,
    "blocks": _check_blocks,
    "adjoint": _check_adjoint,
    "rows": _check_rows,
    "dense": _check_dense,
    "moments": _check_moments,
    "means": _check_means,
}
"""By name, as they stand in front of what `check_operator` tells."""
