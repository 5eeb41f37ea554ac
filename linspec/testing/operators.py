"""Operators that count how they are used, and the laws that every operator must keep.

Problem: a solver declares its needs of the data and reports its cost. Both are easily wrong, and an operator with
every capability never shows it.
Method: `CountingOperator` has only the requested capabilities, and it counts for itself, independently of the ledgers
of a run. `ProductsOnly` is a foreign object with two methods and nothing else.
`check_operator` tests the laws of operators: linearity, the adjoint identity ⟨Au, v⟩ = ⟨u, Aᵀv⟩, products of
a block as those of its columns, rows as slices of the entries, and moments as the products that define them.
Source: the dot test of Claerbout (2014), as in pylops; the counting operators of the LSMR papers' codes.
Where we differ: every error is compared with the rounding of the operator's dtype. The moments are checked in
all their forms, centred and not, against an explicit centring.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from linspec.arrays import Array, HostArray, to_host
from linspec.errors import AccuracyWarning, MissingCapability, shown
from linspec.moments.moments import Moments
from linspec.operators import DenseOperator, LinearOperator, as_operator
from linspec.operators.base import Selection
from linspec.process.plurals import count_of
from linspec.process.turns import in_turn
from linspec.testing.places import package_of, said_of

__all__ = ["CountingOperator", "ProductsOnly", "check_operator"]


class ProductsOnly:
    """A foreign operator with `shape`, `dtype`, `matmat` and `rmatmat`, and nothing else.

    Parameters
    ----------
    array : numpy.ndarray of shape (n, p)

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.testing import ProductsOnly
    >>> A = ProductsOnly(np.diag([3.0, 2.0, 1.0]))
    >>> ls.solve(ls.SVD(A, k=1), rng=0).S.round(6)
    array([3.])
    """

    def __init__(self, array: HostArray) -> None:
        self.__array = array.copy()
        self.shape = array.shape
        self.dtype = array.dtype

    def matmat(self, V: HostArray) -> HostArray:
        """Return A V."""
        product: HostArray = self.__array @ V
        return product

    def rmatmat(self, U: HostArray) -> HostArray:
        """Return Aᵀ U."""
        product: HostArray = self.__array.T @ U
        return product

    def snapshot(self) -> bytes:
        """Return the entries as bytes."""
        return self.__array.tobytes()


class CountingOperator(LinearOperator):
    """An operator that has only the requested capabilities, and counts its use.

    Parameters
    ----------
    data : data of shape (n, p)
        Anything `linspec.as_operator` takes.
    sliceable : bool, default False
        Whether it has row slices. A request for a capability that it lacks raises MissingCapability.
    readable : bool, default False
        Whether its entries can be read.

    Attributes
    ----------
    forward, adjoint : float
        The numbers of products of a block with A, and with Aᵀ. A product with some of the rows counts as their
        fraction of all rows.
    columns : float
        The number of multiplied columns: a product of a block of k columns with A or Aᵀ adds k, and a product with
        some of the rows adds their fraction of k.
    passes : float
        Readings of all rows: each product and each reading of the entries. A slice of rows counts as a
        fraction when it is taken; products with the slice cost no further pass.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.testing import CountingOperator
    >>> A = CountingOperator(np.diag([3.0, 2.0, 1.0, 0.5]))
    >>> solution = ls.solve(ls.SVD(A, k=1), "block-krylov", rng=0)
    >>> A.forward > 0, A.passes >= solution.passes
    (True, True)
    """

    def __init__(self, data: Any, *, sliceable: bool = False, readable: bool = False) -> None:
        self.inner = as_operator(data)
        self.shape, self.dtype, self.home = self.inner.shape, self.inner.dtype, self.inner.home
        self.access, self.readable = "rows" if sliceable else "products", readable
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
        if self.access != "rows":
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
        """Add `forward`, `adjoint` and `columns` to the attributes of these names, and `sweeps` to `passes`."""
        with in_turn(self):  # threads multiply their rows at once
            self.forward += forward
            self.adjoint += adjoint
            self.columns += columns
            self.passes += sweeps


class _CountingRows(LinearOperator):
    """Rows of a counting operator.

    They were counted as a fraction of a sweep; a product with them counts as a fraction of a product.
    """

    access = "rows"

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
    """Test an operator, or data that linspec can turn into one, against the laws of operators.

    Parameters
    ----------
    data : data of shape (n, p)
        Anything that `linspec.as_operator` takes. It should be small, because its entries are formed.
    entries : numpy.ndarray of shape (n, p), optional
        The known entries. By default they are computed by products with the identity.
    seed : int, default 0
        The seed of the random blocks.

    Returns
    -------
    list of str
        The faults, each with the name of the law in front: "adjoint: ...". The list is empty if there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.testing import check_operator
    >>> check_operator(np.eye(3))
    []
    """
    operator = as_operator(data)
    if operator.dtype not in DTYPES:
        return [f"kind: dtype must be float32 or float64, that of products; got {operator.dtype}"]
    try:
        watch = _Watch(operator, entries, seed)
    except Exception as error:  # noqa: BLE001 (an operator may fail in any way)
        raised, shape = said_of(error, package_of(type(operator))), tuple(operator.shape)
        return [
            f"kind: matmat must multiply a block of {shape[1]} rows, since shape is {shape}; it raised {raised}"
        ]
    if tuple(operator.shape) != (watch.n, watch.p):
        shape = tuple(operator.shape)
        return [f"kind: shape must be {(watch.n, watch.p)}, since products have {watch.n} rows; got {shape}"]
    issues: list[str] = []
    for name, law in LAWS.items():
        try:
            issues += [f"{name}: {issue}" for issue in law(watch)]
        except Exception as error:  # noqa: BLE001 (an operator may fail in any way; each law is reported)
            issues.append(f"{name}: the operator raised {said_of(error, package_of(type(operator)))}")
        if issues and name == "untouched":  # changed blocks break all other laws
            break
    return issues


SELECTED = "_rows must return the selected rows, for an array of numbers in its order and as often"
"""Advice at the end of an issue about wrong rows from `_rows`."""


DTYPES = np.dtype(np.float32), np.dtype(np.float64)
"""The dtypes that an operator may have."""


class _Watch:
    """An operator under test, with its entries in float64.

    `M` holds the known entries, or those that products with the identity give. `unit` is the spacing (eps) of the
    operator's dtype, from which `differs` computes the error that rounding explains.
    """

    def __init__(self, operator: LinearOperator, entries: HostArray | None, seed: int) -> None:
        self.A = operator
        self.p = operator.shape[1]
        self.rng = np.random.default_rng(seed)
        self.given = None if entries is None else np.asarray(entries, dtype=np.float64)
        self.formed = np.asarray(self.forward(np.eye(self.p)), dtype=np.float64)
        self.n = len(self.formed)  # slices have been counted by now
        self.M = self.formed if self.given is None else self.given
        self.unit = float(np.finfo(operator.dtype).eps)

    def forward(self, V: HostArray) -> HostArray:
        return np.asarray(to_host(self.A.matmat(self.A.home.blocks.place(V))), dtype=np.float64)

    def adjoint(self, U: HostArray) -> HostArray:
        return np.asarray(to_host(self.A.rmatmat(self.A.home.place(U, self.A.dtype))), dtype=np.float64)

    def block(self, rows: int, k: int = 3) -> HostArray:
        """Draw a random block that the operator's dtype represents exactly."""
        return self.rng.standard_normal((rows, k)).astype(self.A.dtype).astype(np.float64)

    def differs(self, found: HostArray, wanted: HostArray, scale: HostArray) -> str:
        """Describe the distance of two blocks; "" if rounding of products of size `scale` explains it."""
        found = np.asarray(found, dtype=np.float64)
        if found.shape != wanted.shape:
            return f"of shape {found.shape}; expected {wanted.shape}"
        limit = 8 * self.unit * (np.sqrt(max(self.n, self.p)) + 4) * scale + 1e-300
        gap = np.abs(found - wanted)
        if np.all(gap <= limit):
            return ""
        limit = np.broadcast_to(limit, gap.shape)
        worst = np.unravel_index(np.argmax(np.where(np.isnan(gap), np.inf, gap) / limit), gap.shape)
        return f"wrong by {gap[worst]:.2g}, of which rounding explains {limit[worst]:.1g}"


def _issue(what: str, difference: str, remedy: str = "") -> Iterator[str]:
    if difference:
        yield f"{what} is {difference}{remedy and f'. {remedy}'}"


def _check_untouched(w: _Watch) -> Iterator[str]:
    V, U = w.A.home.blocks.place(w.block(w.p)), w.A.home.place(w.block(w.n), w.A.dtype)
    for name, product, block in (("matmat", w.A.matmat, V), ("rmatmat", w.A.rmatmat, U)):
        before = to_host(block).copy()
        product(block)
        if not np.array_equal(to_host(block), before):
            yield f"{name} must leave its block as it is; it writes into it. Work on a copy"


def _check_kind(w: _Watch) -> Iterator[str]:
    product = w.A.matmat(w.A.home.blocks.place(w.block(w.p)))
    if tuple(product.shape) != (w.n, 3):
        yield f"matmat must return a block of shape {(w.n, 3)}; got {tuple(product.shape)}"
    if not str(product.dtype).endswith(w.A.dtype.name):
        yield f"matmat must return the declared dtype {w.A.dtype}; got {product.dtype}. Declare this, or convert"
    adjoint = w.A.rmatmat(w.A.home.place(w.block(w.n), w.A.dtype))
    if tuple(adjoint.shape) != (w.p, 3):
        yield f"rmatmat must return a block of shape {(w.p, 3)}; got {tuple(adjoint.shape)}"
    if not str(adjoint.dtype).endswith("float64"):
        yield f"rmatmat must return float64; got {adjoint.dtype}"


def _check_entries(w: _Watch) -> Iterator[str]:
    if w.given is not None:
        yield from _issue("the product with the identity", w.differs(w.formed, w.given, np.abs(w.given)))


def _check_linearity(w: _Watch) -> Iterator[str]:
    for name, product, rows, size in (
        ("matmat", w.forward, w.p, np.abs(w.M)),
        ("rmatmat", w.adjoint, w.n, np.abs(w.M).T),
    ):
        U, V = w.block(rows), w.block(rows)
        found = product(2.0 * U - 0.5 * V)
        scale = size @ (2 * np.abs(U) + 0.5 * np.abs(V))
        yield from _issue(f"{name} of 2U − V/2", w.differs(found, 2.0 * product(U) - 0.5 * product(V), scale))


def _check_blocks(w: _Watch) -> Iterator[str]:
    for name, product, rows, size in (
        ("matmat", w.forward, w.p, np.abs(w.M)),
        ("rmatmat", w.adjoint, w.n, np.abs(w.M).T),
    ):
        V = w.block(rows)
        columns = np.hstack([product(V[:, [j]]) for j in range(3)])
        yield from _issue(
            f"{name} of a block, compared with its columns,", w.differs(product(V), columns, size @ np.abs(V))
        )
        if product(V[:, :0]).shape[1] != 0:
            yield f"{name} of a block without columns must have no columns"


def _check_adjoint(w: _Watch) -> Iterator[str]:
    V, U = w.block(w.p), w.block(w.n)
    left, right = U.T @ w.forward(V), w.adjoint(U).T @ V
    scale = np.abs(U).T @ np.abs(w.M) @ np.abs(V)
    yield from _issue("⟨Aᵀu, v⟩, compared with ⟨u, Av⟩,", w.differs(right, left, scale))
    yield from _issue(
        "rmatmat",
        w.differs(w.adjoint(U), w.M.T @ U, np.abs(w.M).T @ np.abs(U)),
        "_rmatmat(U) must return AᵀU, for the A with which _matmat multiplies",
    )


def _check_rows(w: _Watch) -> Iterator[str]:
    if not w.A.gathers:
        try:
            w.A.rows(slice(0, 1))
        except MissingCapability:
            return
        yield 'rows must raise MissingCapability when access is "products"; it returned rows'
        return
    V = w.block(w.p)
    last, middle = w.n - 1, w.n // 2
    chosen: list[Any] = [slice(0, w.n), slice(w.n // 3, 2 * w.n // 3 + 1), slice(last, w.n)]
    # Numbers come in the order given, and as often: not sorted, not once each.
    chosen += [np.array([last, 0]), np.array([middle, 0, last, middle, 0])]
    for rows in chosen:
        part = w.A.rows(rows)
        M = w.M[rows]
        what = f"rows {rows if isinstance(rows, slice) else rows.tolist()}"
        if part.shape != M.shape:
            yield f"{what} must have shape {M.shape}; got {part.shape}. {SELECTED}"
            continue
        product = part.matmat(w.A.home.blocks.place(V))
        differs = w.differs(to_host(product), M @ V, np.abs(M) @ np.abs(V))
        if differs:
            came = _numbers_of(w, part)
            yield f"{what} {came and f'come as rows {came}, and '}have a product that is {differs}. {SELECTED}"
            continue
        U = w.block(len(M))
        found = to_host(part.rmatmat(w.A.home.place(U, w.A.dtype)))
        yield from _issue(
            f"the adjoint product of {what}", w.differs(found, M.T @ U, np.abs(M).T @ np.abs(U))
        )
        yield from _dtype_issues(w, what, part, product)
        if part.readable:
            dense = part.dense()
            yield from _issue(f"the entries of {what}", w.differs(to_host(dense), M, np.abs(M)))
            yield from _dtype_issues(w, f"the entries of {what}", dense)


def _numbers_of(w: _Watch, part: Any) -> str:
    """Return the numbers of the rows in a part, as text, or "" if some of them are no rows of the whole."""
    entries = np.asarray(to_host(part.matmat(w.A.home.blocks.eye(w.p))), dtype=np.float64)
    numbers = [int(np.argmin(np.abs(w.M - row).sum(axis=1))) for row in entries]
    return "" if w.differs(entries, w.M[numbers], np.abs(w.M[numbers])) else str(numbers)


def _dtype_issues(w: _Watch, what: str, *found: Any) -> Iterator[str]:
    """Yield an issue if parts or products do not have the operator's dtype."""
    others = dict.fromkeys(str(x.dtype) for x in found if not str(x.dtype).endswith(w.A.dtype.name))
    if others:
        yield f"{what} must be of the operator's dtype, {w.A.dtype}; got {', '.join(others)}"


def _check_dense(w: _Watch) -> Iterator[str]:
    if not w.A.readable:
        try:
            w.A.dense()
        except MissingCapability:
            return
        yield "dense must raise MissingCapability when readable is False; it returned the entries"
        return
    dense = w.A.dense()
    yield from _issue("dense", w.differs(to_host(dense), w.M, np.abs(w.M)))
    yield from _dtype_issues(w, "dense", dense)


def _check_moments(w: _Watch) -> Iterator[str]:
    """Compare all forms of the moments, centred and not, with explicit products."""
    V = w.block(w.p)
    for center in (False, True):
        M = w.M - w.M.mean(axis=0) if center else w.M
        size = np.abs(M).T @ (np.abs(M) @ np.abs(V))
        # Only dense rows are centred before they are multiplied. For other data the mean is subtracted from
        # the product, which has the rounding of the columns that are not centred.
        bulk = size if isinstance(w.A, DenseOperator) else np.abs(w.M).T @ (np.abs(w.M) @ np.abs(V))
        for form in ("implicit", "dense"):
            moments = Moments(w.A, center=center, form=form)
            what = f"the {'centred ' if center else ''}{form} product XᵀXV"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AccuracyWarning)  # `bulk` allows for the loss
                found = to_host(moments.products(w.A.home.blocks.place(V))[0])
            yield from _issue(what, w.differs(found, M.T @ (M @ V), bulk * np.sqrt(w.n)))


def _check_means(w: _Watch) -> Iterator[str]:
    means = to_host(Moments(w.A, center=True).columns.means()[0])
    yield from _issue("the column mean", w.differs(means, w.M.mean(axis=0), np.abs(w.M).mean(axis=0)))


def _check_names(w: _Watch) -> Iterator[str]:
    names: Any = w.A.column_names  # whatever the author has set
    labels = w.A.row_names
    if names is not None and not (
        isinstance(names, tuple) and len(names) == w.p and all(isinstance(name, str) for name in names)
    ):
        yield f"column_names must be None or a tuple of {count_of(w.p, 'text')}; got {shown(names)}"
    if labels is not None and len(labels) != w.n:
        yield f"row_names must be None or have {count_of(w.n, 'label')}; got {len(labels)}"


LAWS: dict[str, Callable[[_Watch], Iterator[str]]] = {
    "untouched": _check_untouched,
    "kind": _check_kind,
    "names": _check_names,
    "entries": _check_entries,
    "linearity": _check_linearity,
    "blocks": _check_blocks,
    "adjoint": _check_adjoint,
    "rows": _check_rows,
    "dense": _check_dense,
    "moments": _check_moments,
    "means": _check_means,
}
"""The laws of operators, by the names that `check_operator` puts in front of an issue."""
