"""Operators against the same products of dense float64 arrays: all kinds of data and dtypes, and what is refused."""

from __future__ import annotations

from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from backends import ProductsOnly, backends

import linspec as ls
from linspec import as_operator
from linspec.arrays import Device, host_dtype, to_host
from linspec.errors import InvalidProblem, MissingCapability, UnsupportedData
from linspec.testing import check_operator

N, P = 37, 6
RNG = np.random.default_rng(0)
M = RNG.standard_normal((N, P)) * (RNG.random((N, P)) < 0.6)


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
    "every-other": lambda x: x.repeat(2, axis=0).repeat(2, axis=1)[::2, ::2],
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


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data(kind: str, dtype: str) -> None:
    if dtype == "float16" and kind not in {"c-order", "f-order", "every-other"}:
        pytest.skip("half precision is a dtype of NumPy alone")
    X = M.astype(dtype)
    A = as_operator(KINDS[kind](X))
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
    part = as_operator(KINDS[kind](M)).rows(chosen)
    assert part.access == "rows"
    for entries in (part.dense(), part.matmat(part.device.asarray(np.eye(P)))):
        np.testing.assert_array_equal(to_host(entries), M[chosen])


@pytest.mark.parametrize("block", [np.ones(P), np.ones((P + 1, 2)), np.ones((1, P, 2)), [[1.0]] * P])
def test_blocks_of_wrong_shape_are_refused(block: Any) -> None:
    for kind in ("c-order", "csr-array"):
        A = as_operator(KINDS[kind](M))
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
            as_operator(KINDS[kind](M)).rows(rows)


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
    "metric": (W, lambda x: ls.metrics.subspace_distance(x, x)),
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


def test_a_missing_adjoint_is_told() -> None:
    A = as_operator(scipy.sparse.linalg.LinearOperator(M.shape, matvec=lambda v: M @ v, dtype=np.float64))
    A.matmat(np.ones((P, 2)))
    with pytest.raises(MissingCapability, match=r"rmatmat is not implemented.*Define it"):
        A.rmatmat(np.ones((N, 2)))
