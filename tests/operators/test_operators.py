"""Operators against the same products of dense float64 arrays: all kinds of data and dtypes, and what is refused."""

from __future__ import annotations

import warnings
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from backends import ProductsOnly, backends, check_operator

import linspec as ls
from linspec import as_operator
from linspec.arrays import Device, host_dtype, to_host
from linspec.blocks import base
from linspec.errors import BrokenPlugin, InvalidProblem, MissingCapability, UnsupportedData
from linspec.operators import CombinedColumns

N, P = 37, 6
RNG = np.random.default_rng(0)
M = RNG.standard_normal((N, P)) * (RNG.random((N, P)) < 0.6)


def unaligned(x: Any) -> Any:
    buffer = np.zeros(x.nbytes + 1, np.uint8)
    view = buffer[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


def every_other(x: Any) -> Any:
    wide = np.full((2 * x.shape[0], 2 * x.shape[1]), 7, x.dtype)
    wide[::2, ::2] = x
    return wide[::2, ::2]


class OfItsOwnMind(np.ndarray):
    """A subclass whose products are not those of an array."""

    def __matmul__(self, other: Any) -> Any:
        raise RuntimeError


def function_only(x: Any) -> Any:
    return scipy.sparse.linalg.LinearOperator(
        x.shape, matvec=lambda v: x @ v, rmatvec=lambda u: x.T @ u, dtype=x.dtype
    )


SPARSE = {
    f"{kind}-{made}": getattr(scipy.sparse, f"{kind}_{made}")
    for kind in ("csr", "csc", "coo", "lil")
    for made in ("array", "matrix")
}
READABLE = {
    "c-order": np.copy,
    "f-order": np.asfortranarray,
    "read-only": backends(["numpy-readonly"])[0].wrap,
    "columns-of-a-wider-one": lambda x: np.hstack([x, x])[:, P:],
    "every-other": every_other,
    "backwards": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "unaligned": unaligned,
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "np-matrix": np.matrix,
    "subclass": lambda x: x.view(OfItsOwnMind),
    "strict": lambda x: strict.asarray(x.copy()),
    "strict-device1": backends(["array-api-strict"])[0].wrap,
    **SPARSE,
    "bsr-array": scipy.sparse.bsr_array,
    "operator": as_operator,
}
PRODUCTS_ONLY = {
    "scipy-aslinearoperator": scipy.sparse.linalg.aslinearoperator,
    "scipy-functions": function_only,
    "duck": ProductsOnly,
}
KINDS = READABLE | PRODUCTS_ONLY


def make(kind: str, x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # numpy.matrix
        return KINDS[kind](x)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few rows, so that 37 rows are many blocks."""
    monkeypatch.setattr(base, "BLOCK_BYTES", 300)
    monkeypatch.setattr(base, "DEVICE_BLOCK_BYTES", 300)
    monkeypatch.setattr(base, "FEWEST_ROWS", 1)


# ---- kinds of data ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data(kind: str, dtype: str) -> None:
    if dtype == "float16" and kind not in {"c-order", "f-order", "every-other"}:
        pytest.skip("half precision is a dtype of NumPy alone")
    X = M.astype(dtype)
    A = as_operator(make(kind, X))
    assert A.dtype == np.result_type(dtype, np.float32)
    assert not check_operator(A, entries=X)
    image = A.matmat(A.device.blocks.asarray(np.eye(P)))
    assert (host_dtype(image), Device.of(image)) == (A.dtype, A.device)
    adjoint = A.rmatmat(A.device.asarray(np.eye(N), A.dtype))
    assert (host_dtype(adjoint), Device.of(adjoint)) == (np.float64, A.device.blocks)
    np.testing.assert_array_equal(to_host(A.H.matmat(A.device.asarray(np.eye(N), A.dtype))), to_host(adjoint))
    assert A.readable == (A.access == "rows") == (kind in READABLE)
    if A.readable:
        assert (host_dtype(A.dense()), Device.of(A.dense())) == (A.dtype, A.device)
        return
    with pytest.raises(MissingCapability, match="known by its products only; pass an array"):
        A.dense()
    with pytest.raises(MissingCapability, match="has no row slices; pass an array"):
        A.rows(slice(3))


@pytest.mark.parametrize("kind", ["c-order", "csr-array", "strict"])
@pytest.mark.parametrize(
    "chosen",
    [slice(None), slice(-5, None), slice(5, 5), slice(N, 2, -3), slice(1, None, 4), np.array([-1, 2]), [4, 1],
     np.arange(N, dtype=np.uint8)[::-1]],
    ids=str,
)  # fmt: skip
def test_rows_are_chosen_as_numpy_chooses_them(kind: str, chosen: Any) -> None:
    part = as_operator(make(kind, M)).rows(chosen)
    assert part.access == "rows"
    for entries in (part.dense(), part.matmat(part.device.asarray(np.eye(P)))):
        np.testing.assert_array_equal(to_host(entries), M[chosen])


@pytest.mark.parametrize("kind", ["c-order", "f-order", "strict-device1", "csr-array", "csc-matrix"])
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
@pytest.mark.usefixtures("small_blocks")
def test_integers_are_multiplied_exactly(kind: str, dtype: str) -> None:
    """Integers below 2**24, and sums below it, are float32 numbers: nothing may be rounded at all."""
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    X = np.random.default_rng(2).integers(max(low, -999), min(high, 999), (N, P), endpoint=True).astype(dtype)
    V, U = (np.random.default_rng(3).integers(-9, 9, (rows, 3)) for rows in (P, N))
    A, exact = as_operator(make(kind, X)), X.astype(np.int64)
    assert np.array_equal(to_host(A.matmat(A.device.blocks.asarray(V))), exact @ V)
    assert np.array_equal(to_host(A.rmatmat(A.device.asarray(U, A.dtype))), exact.T @ U)
    assert np.array_equal(to_host(A.dense()), exact)


@pytest.mark.parametrize("dtype, limit", [("float64", 1e-11), ("float32", 4e-7)])
def test_columns_less_their_means_lose_nothing_to_large_means(dtype: str, limit: float) -> None:
    """Means 10,000 times the spread: what is left after the centring is as exact as the entries."""
    X = (RNG.standard_normal((N, P)) + 1e4).astype(dtype)
    mean = X.mean(axis=0, dtype=np.longdouble)
    A, exact = CombinedColumns(as_operator(X), mean.astype(float)), (X - mean).astype(float)
    for found, wanted in (A.matmat(np.eye(P)), exact), (A.rows(slice(3, 20)).dense(), exact[3:20]):
        assert np.linalg.norm(found - wanted) < limit * np.linalg.norm(wanted)


# ---- what is refused --------------------------------------------------------------------------


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "complex": (np.ones((3, 2), "c8"), UnsupportedData, r"be real; got dtype complex64\. Pass the real"),
    "objects": (np.ones((2, 2), object), UnsupportedData, r"hold numbers; got dtype .*\. Convert it to float64"),
    "one dimension": (np.ones(3), InvalidProblem, "have two dimensions; got 1"),
    "no array": ({1: 2}, UnsupportedData, r"be an array, .*dict\. Pass .*numpy.asarray"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_matrix_of_real_numbers_is_refused_with_a_remedy(name: str) -> None:
    thing, error, said = REFUSED[name]
    with pytest.raises(error, match=f"^X must {said}"):
        as_operator(thing, "X")


@pytest.mark.parametrize("block", [np.ones(P), np.ones((P + 1, 2)), np.ones((1, P, 2)), [[1.0]] * P])
def test_blocks_of_wrong_shape_are_refused(block: Any) -> None:
    for kind in ("c-order", "csr-array"):
        A = as_operator(make(kind, M))
        with pytest.raises(
            InvalidProblem, match=f"matmat of a {N} x {P} operator takes an array with {P} rows"
        ):
            A.matmat(block)
        with pytest.raises(InvalidProblem, match=f"rmatmat of a .* {N} rows"):
            A.rmatmat(block)
        with pytest.raises(UnsupportedData, match="complex128"):
            A.matmat(1j * np.ones((P, 1)))


@pytest.mark.parametrize("kind", ["c-order", "csr-array", "strict"])
def test_rows_that_do_not_exist_are_refused(kind: str) -> None:
    for rows in (np.arange(N) > 3, [0.5], [[0, 1]], [N], [-N - 1]):
        with pytest.raises(InvalidProblem, match=rf"by integers .*from 0 to {N - 1}; got .*flatnonzero"):
            as_operator(make(kind, M)).rows(rows)


# ---- masks and units: a conversion would drop them, so every door refuses them ----------------


class WithUnit(np.ndarray):
    """An array with a unit, as those of astropy and unyt are."""

    unit = "m"


MARKED = {
    "masked": lambda x: np.ma.masked_array(x, x > x.max() - 1e-9),
    "masked nowhere": np.ma.masked_array,
    "rows that are masked": lambda x: [np.ma.masked_array(row, False) for row in x],
    "objects": lambda x: np.array([np.ma.masked, *x.tolist()[1:]], dtype=object),
    "unit": lambda x: x.view(WithUnit),
    "rows with units": lambda x: [
        row.view(WithUnit) if row.ndim else np.array(row).view(WithUnit) for row in x
    ],
}
W, FOLDS, CODES = np.ones(N), np.arange(N) % 6, np.arange(N) % 2
AXES = ls.solve(ls.SVD(M, k=1, confounds=W))
PAIRS = ls.solve(ls.CCA(M, M[:, :2], k=1, ridge=1.0))
DOORS = {
    "data": (M, lambda x: ls.SVD(x, k=1)),
    "targets": (M, lambda x: ls.LeastSquares(M, x)),
    "view": (M, lambda x: ls.MultisetCCA([M, x], k=1)),
    "weights": (W, lambda x: ls.SVD(M, k=1, sample_weight=x)),
    "confounds": (M, lambda x: ls.SVD(M, k=1, confounds=x)),
    "ridges": (W, lambda x: ls.LeastSquares(M, M[:, 0], ridge=x)),
    "start": (M[:, :1].T @ M, lambda x: ls.solve(ls.SVD(M, k=1), "block-krylov", start=x)),
    "new rows": (M, lambda x: AXES.transform(x, confounds=W)),
    "new confounds": (W, lambda x: AXES.transform(M, confounds=x)),
    "scores": (M[:, :1], lambda x: AXES.inverse_transform(x, confounds=W)),
    "scored": (M[:, :2], lambda x: PAIRS.score(M, x)),
    "folds": (FOLDS, lambda x: ls.cross_validate(ls.CCA(M, M, k=1), splitter=x, ridges=[1.0])),
    "groups": (FOLDS, lambda x: ls.cross_validate(ls.CCA(M, M, k=1), groups=x, ridges=[1.0])),
    "tested ridges": (W, lambda x: ls.cross_validate(ls.CCA(M, M, k=1), ridges=x)),
    "classes": (CODES, ls.targets.lda),
    "weights of classes": (W, lambda x: ls.targets.lda(CODES, sample_weight=x)),
    "batch": (M, lambda x: ls.HeldMoments(ls.SVD).add(x)),
    "slices": (M, lambda x: ls.SVD(lambda: iter([M, x]), k=1) and ls.solve(ls.SVD(iter([M, x]), k=1))),
    "pair": (M, lambda x: ls.paired(lambda: iter([(M, x)]))),
    "block": (np.eye(M.shape[1]), lambda x: as_operator(M).matmat(x)),
    "metric": (W, lambda x: ls.metrics.f1(x, [0])),
    "kernel": (M, lambda x: ls.KernelRidge(x, M[:, 0], kernel=ls.kernels.linear(), ridge=1.0)),
    "points": (M, lambda x: ls.features.nystrom(x, ls.kernels.rbf(1.0), 2)),
}


@pytest.mark.parametrize("kind", MARKED)
@pytest.mark.parametrize("door", DOORS)
def test_masks_and_units_are_refused_at_every_door(door, kind):
    plain, through = DOORS[door]
    through(plain)
    if kind == "objects" and plain.ndim > 1:
        pytest.skip("a vector of objects")
    if kind.startswith("rows") and door in {"slices", "block", "start"}:
        pytest.skip("a list is neither a slice, nor a block, nor a start")
    with pytest.raises(
        (UnsupportedData, InvalidProblem), match=r"masked|unit|dtype object|real numbers|must be an array"
    ):
        through(MARKED[kind](plain))


# ---- operators of others ----------------------------------------------------------------------


def test_a_missing_adjoint_is_told() -> None:
    A = as_operator(scipy.sparse.linalg.LinearOperator(M.shape, matvec=lambda v: M @ v, dtype=np.float64))
    A.matmat(np.ones((P, 2)))
    with pytest.raises(MissingCapability, match=r"rmatmat is not implemented.*Define it"):
        A.rmatmat(np.ones((N, 2)))


class Minimal(ls.LinearOperator):
    """The least that an author writes."""

    def __init__(self) -> None:
        self.shape, self.dtype = M.shape, np.dtype(np.float64)

    def _matmat(self, V: Any) -> Any:
        assert V.dtype == np.float64
        return M @ V

    def _rmatmat(self, U: Any) -> Any:
        assert U.dtype == np.float64
        return M.T @ U


def test_an_authors_operator_gets_checked_blocks() -> None:
    A = Minimal()
    assert as_operator(A) is A
    assert not check_operator(A, entries=M)
    A.matmat(np.ones((P, 2), np.float32))
    assert repr(A) == f"Minimal({N} x {P}, float64)"
    with pytest.raises(InvalidProblem):
        A.matmat(np.ones(P))


# ---- adapters of plugins ----------------------------------------------------------------------


def test_the_first_adapter_that_matches_adapts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cargo:
        """Data that only a plugin knows."""

    def adapter(name: str, answer: bool, made: Any) -> ls.OperatorSpec:
        matches = lambda data: (asked.append(name), answer)[1]  # noqa: E731
        return ls.OperatorSpec(name=name, matches=matches, adapt=lambda data: made, summary="Cargo.")

    asked: list[str] = []
    first, late = adapter("no", answer=False, made=None), adapter("late", answer=True, made=None)
    for made in (as_operator(M), M):
        specs = (first, adapter("yes", answer=True, made=made), late)
        monkeypatch.setattr("linspec.registry.operator_adapters", lambda specs=specs: specs)
        if made is M:
            said = r"operator/yes must make a linspec\.LinearOperator of Cargo; got ndarray"
            with pytest.raises(BrokenPlugin, match=said):
                as_operator(Cargo())
        else:
            np.testing.assert_array_equal(as_operator(Cargo()).dense(), M)
    assert asked == ["no", "yes"] * 2
