"""Rows that come slice by slice: the answers to iterators and callables, the number of readings, and the errors."""

from __future__ import annotations

import math
from itertools import pairwise

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec import Moments, as_operator
from linspec.blocks import base
from linspec.errors import (
    InvalidProblem,
    LinspecError,
    MissingCapability,
    NonFiniteData,
    SweptOnce,
    UnsupportedData,
)
from linspec.operators import StreamedOperator, streamed

RNG = np.random.default_rng(0)
N, P = 331, 9
A = RNG.standard_normal((N, P)) * np.geomspace(3, 0.2, P) + RNG.standard_normal(P)
V = RNG.standard_normal((P, 4))
SPARSE = scipy.sparse.random_array((N, P), density=0.3, rng=RNG, format="csr")

ONE_ROW = [1] * N
UNEQUAL = [1, 0, 150, 3, 0, 100, 77]
WHOLE = [N]
HEIGHTS = [ONE_ROW, UNEQUAL, WHOLE, [5, 326]]


def slices(data, heights=UNEQUAL):
    edges = np.cumsum([0, *heights])
    return (data[a:b, :] for a, b in pairwise(edges.tolist()))


def again(data, heights=UNEQUAL):
    return lambda: slices(data, heights)


@pytest.fixture(params=["one-block", "many-blocks"])
def blocks(request, monkeypatch):
    """Everything twice: small slices gathered into one block, and into several."""
    if request.param == "many-blocks":
        monkeypatch.setattr(streamed, "GATHERED_BYTES", 8 * P * 20)
        monkeypatch.setattr(base, "BLOCK_BYTES", 500)
        monkeypatch.setattr(base, "DEVICE_BLOCK_BYTES", 500)
        monkeypatch.setattr(base, "FEWEST_ROWS", 1)


def host(x):
    return np.asarray(ls.as_operator(x).dense()) if scipy.sparse.issparse(x) else np.asarray(x)


# ---- products -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("heights", HEIGHTS, ids=str)
@pytest.mark.parametrize("data", [A, A.astype(np.float32), SPARSE, (A * 9).astype(np.int8)], ids=str)
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("form", ["implicit", "dense"])
@pytest.mark.slow(keep=30)
def test_one_reading_gives_products_means_and_gram_matrix(blocks, data, heights, center, form):
    plain = host(data).astype(np.float64)
    C = plain - center * plain.mean(axis=0)
    moments = Moments(slices(data, heights), center=center, form=form)
    assert moments.passes == 0
    found = moments.products(V)[0]
    tolerance = 1e-12 if np.result_type(data.dtype, np.float32) == np.float64 else 2e-6
    scale = np.abs(C).T @ (np.abs(C) @ np.abs(V))
    assert np.all(np.abs(found - C.T @ (C @ V)) <= tolerance * scale)
    assert moments.passes == 1
    if form == "dense":
        np.testing.assert_allclose(np.diagonal(moments.dense()[0]), (C**2).sum(axis=0), rtol=tolerance)
        moments.products(V)
        assert moments.passes == 1
    else:
        with pytest.raises(SweptOnce, match="callable that returns a fresh iterator"):
            moments.products(V)


@pytest.mark.parametrize("data", [A, SPARSE], ids=["dense", "sparse"])
def test_a_callable_is_read_as_often_as_is_wanted(blocks, data):
    C = host(data) - host(data).mean(axis=0)
    moments = Moments(again(data), center=True, form="implicit")
    for passes in (1, 2, 3):
        np.testing.assert_allclose(moments.products(V)[0], C.T @ (C @ V), rtol=1e-11, atol=1e-12)
        assert moments.passes == passes


def test_array_api_strict_slices(blocks):
    data = strict.asarray(A)
    found = Moments(slices(data, [100, 1, 230]), center=True, form="implicit").products(strict.asarray(V))[0]
    C = A - A.mean(axis=0)
    assert type(found).__module__.startswith("array_api_strict")
    np.testing.assert_allclose(np.asarray(found), C.T @ (C @ V), rtol=1e-11, atol=1e-11)
    solution = ls.solve(ls.SVD(slices(data, [100, 1, 230]), 3), "gram")
    assert type(solution.Vh).__module__.startswith("array_api_strict")
    np.testing.assert_allclose(solution.S, np.linalg.svd(A, compute_uv=False)[:3], rtol=1e-12)


def test_a_generator_may_fill_one_buffer_again_and_again(blocks):
    def refilled():
        buffer = np.empty((7, P))
        for start in range(0, N - 7, 7):
            buffer[:] = A[start : start + 7]
            yield buffer
            buffer[:] = np.nan

    count = len(range(0, N - 7, 7)) * 7
    found = Moments(refilled(), form="implicit").products(V)[0]
    np.testing.assert_allclose(found, A[:count].T @ (A[:count] @ V), rtol=1e-12, atol=1e-12)


# ---- precision ----------------------------------------------------------------------------------------


def test_large_means_cost_nothing(blocks):
    """Columns of mean/std 1e4: the centred product of float32 rows is as good as of rows in memory."""
    rng = np.random.default_rng(1)
    spread = rng.standard_normal((2000, P)) * np.geomspace(3, 0.2, P)
    data = (spread + 1e4 * rng.standard_normal(P)).astype(np.float32)
    exact = data.astype(np.float64) - data.astype(np.float64).mean(axis=0)
    scale = np.abs(exact).T @ (np.abs(exact) @ np.abs(V))
    for heights in ([1] * 2000, [3, 1997], [700, 1300]):
        for form, tolerance in (("implicit", 1e-6), ("dense", 1e-13)):
            found = Moments(slices(data, heights), center=True, form=form).products(V)[0]
            assert np.all(np.abs(found - exact.T @ (exact @ V)) <= tolerance * scale), (form, heights[:2])


def test_single_precision_is_added_up_in_double():
    """A quarter of a million float32 rows: far nearer to the exact sum than a sum in float32 is."""
    rng = np.random.default_rng(2)
    pieces = [(1 + 0.1 * rng.standard_normal((50, 4))).astype(np.float32) for _ in range(5000)]
    v = np.ones((4, 1))
    exact, running = np.zeros((4, 1)), np.zeros((4, 1), np.float32)
    for piece in pieces:
        exact += piece.astype(np.float64).T @ (piece.astype(np.float64) @ v)
        running += piece.T @ (piece @ v.astype(np.float32))
    found = Moments(iter(pieces), form="implicit").products(v)[0]
    error, drift = (np.abs(x / exact - 1).max() for x in (found, running))
    assert error < 1e-6
    assert error < drift / 5
    held = Moments(iter(pieces)).dense()[0] @ v
    assert np.abs(held / exact - 1).max() < 1e-13


def test_sparse_slices_with_large_means_lose_no_digits():
    far = scipy.sparse.csr_array((1e4 + RNG.standard_normal((60, 4))).astype(np.float32))
    C = far.toarray().astype(np.float64)
    C -= C.mean(axis=0)
    for height in (60, 1):
        pieces = slices(far, [height] * (60 // height))
        found = Moments(pieces, center=True, form="implicit").products(np.eye(4))[0]
        np.testing.assert_allclose(found, C.T @ C, atol=1e-6 * np.abs(C.T @ C).max())


# ---- two views ------------------------------------------------------------------------------------------


def test_a_stream_beside_an_array_and_beside_another_stream(blocks):
    Y = RNG.standard_normal((N, 3)) + A[:, :3]
    plain = ls.solve(ls.CCA(A, Y, 2), "gram")
    for pair in ((again(A), Y), (again(A, [100, 231]), again(Y, [331]))):
        found = ls.solve(ls.CCA(*pair, 2), "gram")
        np.testing.assert_allclose(found.correlations, plain.correlations, rtol=1e-9)
        assert found.converged
    b = Y[:, 0]
    for solver in ("cg", "lsqr"):
        x = ls.solve(ls.LeastSquares(again(A), b, ridge=0.1), solver).x
        np.testing.assert_allclose(x, ls.solve(ls.LeastSquares(A, b, ridge=0.1), "direct").x, rtol=1e-5)


def test_two_iterators_are_refused_before_anything_is_read_where_one_pass_does_not_do():
    read = []

    def watched():
        for piece in slices(A):
            read.append(len(piece))
            yield piece

    with pytest.raises(
        SweptOnce,
        match=r"lsqr reads its data.*callable.*take what was passed: cg, direct",
    ):
        ls.solve(ls.LeastSquares(watched(), np.ones(N)), "lsqr")
    with pytest.raises(
        SweptOnce,
        match=r"lobpcg reads its data.*callable.*take what was passed: direct, gram",
    ):
        ls.solve(ls.CCA(again(A), watched(), 2), "lobpcg")
    assert len(read) <= 2, "the first slice of each"
    with pytest.raises(
        SweptOnce,
        match=r"two-stage reads its data.*callable.*take what was passed: direct",
    ):
        ls.solve(ls.Discriminant(watched(), ls.targets.lda(np.arange(N) % 2)), "two-stage")
    assert len(read) <= 3


def test_rows_that_do_not_match_are_found_in_the_first_sweep():
    problem = ls.LeastSquares(again(A), np.ones(N - 1))
    with pytest.raises(InvalidProblem, match=r"equally many rows; B ended after 330, and others go on"):
        ls.solve(problem, "cg")
    with pytest.raises(InvalidProblem, match="k must be between 1 and 4 for 4 rows"):
        ls.solve(ls.SVD(again(A[:4], [4]), 6), "block-krylov")


# ---- errors of bad slices --------------------------------------------------------------------------------


BAD = {
    "one-dimensional": (lambda: [A[0]], InvalidProblem, r"slice 0 .* two dimensions.*x\[None, :\]"),
    "later one-dimensional": (lambda: [A[:5], A[5]], InvalidProblem, r"slice 1 \(from row 5\)"),
    "unequal widths": (lambda: [A[:5], A[5:, 1:]], InvalidProblem, "has 8 columns; the first has 9"),
    "mixed libraries": (
        lambda: [A[:5], strict.asarray(A)],
        UnsupportedData,
        "array_api_strict.*numpy.*one kind",
    ),
    "mixed kinds": (
        lambda: [A[:5], SPARSE],
        UnsupportedData,
        "is a sparse matrix.*; the first is an array",
    ),
    "complex": (lambda: [A * 1j], UnsupportedData, "slice 0.*must be real"),
    "object": (lambda: [A.astype(object)], UnsupportedData, "slice 0.*must hold numbers"),
    "later complex": (lambda: [A, A * 1j], UnsupportedData, r"slice 1 \(from row 331\) must be real"),
    "list": (lambda: [[[1.0, 2.0]]], UnsupportedData, r"slice 0.*must be an array.*numpy\.asarray"),
    "empty": (list, InvalidProblem, "no slice that has any"),
    "no rows": (lambda: [A[:0], A[:0]], InvalidProblem, "no slice that has any"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("solver", ["gram", "lazy-spca"])
def test_bad_slices_are_refused_once_and_clearly(case, solver):
    make, error, pattern = BAD[case]
    for given in (iter(make()), lambda: iter(make())):
        with pytest.raises(error, match=pattern) as caught:
            ls.solve(ls.SVD(given, 2), solver)
        assert str(caught.value).startswith("A")


@pytest.mark.parametrize("solver", ["gram", "lazy-spca"])
@pytest.mark.parametrize(
    "kind", [np.asarray, scipy.sparse.csr_array, strict.asarray], ids=lambda f: f.__module__
)
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
@pytest.mark.slow(keep=18)
def test_what_is_not_finite_is_named_by_its_row_in_the_stream(blocks, solver, kind, center, value):
    bad = host(SPARSE).copy()
    bad[200, 4] = value
    for given in (slices(kind(bad), [90] * 3 + [61]), lambda: slices(kind(bad), [90] * 3 + [61])):
        with pytest.raises(NonFiniteData, match=r"A must be finite; got .* at row 200, column 4"):
            ls.solve(ls.SVD(given, 2, center=center), solver)


def test_errors_of_a_generator_are_its_own():
    def broken():
        yield A[:10]
        raise OSError("the disk is gone")

    problem = ls.SVD(broken(), 2)
    with pytest.raises(OSError, match="the disk is gone"):
        ls.solve(problem, "gram")
    with pytest.raises(SweptOnce, match="has been read"):
        ls.solve(problem, "gram")
    with pytest.raises(OSError, match="the disk is gone"):
        ls.solve(ls.SVD(broken, 2), "gram")


def test_callables_that_are_none():
    with pytest.raises(UnsupportedData, match="must return an iterator of slices; got ndarray"):
        ls.SVD(lambda: A, 2)
    with pytest.raises(UnsupportedData, match="must return an iterator of slices; got NoneType"):
        ls.SVD(lambda: None, 2)
    one = slices(A)
    with pytest.raises(InvalidProblem, match=r"must have 331 rows, .*gave 0\..*fresh iterator"):
        ls.solve(ls.SVD(lambda: one, 2), "lazy-spca")


def test_a_callable_whose_rows_change_is_found_out():
    calls = []

    def growing():
        calls.append(1)
        return slices(A, [100 + len(calls)])

    with pytest.raises(InvalidProblem, match=r"must have 101 rows, .*gave 102\."):
        ls.solve(ls.SVD(growing, 2), "lazy-spca")


def test_rows_that_are_declared_are_held_to_it():
    operator = StreamedOperator(slices(A), rows=N)
    assert operator.shape == (N, P)
    assert ls.solve(ls.SVD(operator, 2), "gram").converged
    with pytest.raises(InvalidProblem, match=r"must have 300 rows, .*gave 331\."):
        ls.solve(ls.SVD(StreamedOperator(slices(A), rows=300), 2), "gram")
    assert as_operator(again(A), rows=N).shape == (N, P)
    assert as_operator(A, rows=N).shape == (N, P)
    with pytest.raises(InvalidProblem, match="A has 331 rows; got rows=5"):
        as_operator(A, "A", rows=5)
    with pytest.raises(InvalidProblem, match="rows of data must be a positive integer"):
        StreamedOperator(slices(A), rows=0)


# ---- solvers ----------------------------------------------------------------------------------------------


def counting(data, heights=UNEQUAL):
    """Make slices, and a list that counts those that were taken."""
    taken = []

    def read():
        for piece in slices(data, heights):
            taken.append(piece.shape[0])
            yield piece

    return read(), taken


@pytest.mark.parametrize("solver", ["block-krylov", "lanczos"])
def test_who_reads_several_times_refuses_an_iterator_beforehand(solver):
    rows, taken = counting(A, ONE_ROW)
    with pytest.raises(SweptOnce, match=r"callable.*take what was passed: direct, gram, lazy-spca") as caught:
        ls.solve(ls.SVD(rows, 2), solver)
    assert isinstance(caught.value, MissingCapability | LinspecError)
    assert len(taken) == 1  # the slice that shows the number of columns


@pytest.mark.parametrize("max_passes", [None, 1])
@pytest.mark.parametrize("center", [False, True])
def test_the_one_pass_solvers_take_one_pass(blocks, max_passes, center):
    exact = np.linalg.svd(A - center * A.mean(axis=0))
    for solver in ("gram", "lazy-spca"):
        rows, taken = counting(A)
        found = ls.solve(ls.SVD(rows, 3, center=center), solver, rng=0, max_passes=max_passes)
        assert (found.passes, sum(taken)) == (1, N)
        np.testing.assert_allclose(found.S, exact.S[:3], rtol=1e-9)
        np.testing.assert_allclose(np.abs(found.Vh @ exact.Vh[:3].T), np.eye(3), atol=1e-8)
        assert (found.mean is None) is (not center)
        if solver == "gram":
            assert (found.residual_kind, found.converged) == ("from-gram", True)
        else:
            assert found.residual_kind == "unavailable"
            assert math.isnan(found.residual)
            assert found.converged is False
            assert found.status is ls.Status.APPROXIMATE
            assert "estimated residual" in found.message
            assert "read once" in found.message


@pytest.mark.parametrize("solver", ls.solvers("svd"))
def test_a_callable_serves_every_solver_that_needs_products(solver):
    problem = ls.SVD(again(A), 3, center=True, left=True)
    found, plain = (ls.solve(p, solver, rng=0) for p in (problem, ls.SVD(A, 3, center=True, left=True)))
    np.testing.assert_allclose(found.S, plain.S, rtol=1e-8)
    np.testing.assert_allclose(
        found.U @ (found.S[:, None] * found.Vh), plain.U @ (plain.S[:, None] * plain.Vh), atol=1e-5
    )
    assert found.residual <= 1e-6
    assert found.residual_kind != "unavailable"


@pytest.mark.parametrize("solver", ["gram", "lazy-spca", "spca", "block-krylov"])
@pytest.mark.parametrize("center", [False, True])
def test_the_budget_of_a_callable_is_kept(solver, center):
    for budget in range(1, 6):
        problem = ls.SVD(again(A), 3, center=center)
        try:
            found = ls.solve(problem, solver, rng=0, max_passes=budget)
        except ls.errors.BudgetTooSmall:
            continue
        assert found.passes <= budget


def test_moments_that_hold_a_gram_matrix_stand_for_an_iterator_that_is_gone():
    moments = Moments(slices(A), center=True)
    moments.dense()
    for solver in ("gram", "block-krylov", "lazy-spca"):
        found = ls.solve(ls.SVD(moments, 3, center=True), solver, rng=0)
        assert (found.passes, found.residual_kind, found.converged) == (0, "from-gram", True)
    with pytest.raises(SweptOnce, match="has been read"):
        ls.solve(ls.SVD(moments, 3, center=True, left=True), "block-krylov")
    with pytest.raises(MissingCapability, match=r"direct needs the entries.*gram, "):
        ls.solve(ls.SVD(moments, 3, center=True), "direct")


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
def test_rows_stay_in_order_where_small_slices_meet_large_ones(wrap, monkeypatch):
    monkeypatch.setattr(streamed, "GATHERED_BYTES", 1000)
    X = np.random.default_rng(0).standard_normal((200, 3))
    edges = [0, 1, 3, 60, 61, 62, 140, 141, 180, 200]
    A = as_operator(lambda: (wrap(X[a:b]) for a, b in pairwise(edges)))
    np.testing.assert_array_equal(A.matmat(np.eye(3)), X)
    assert [block.shape[0] for block in A.blocks()][1] == 57
