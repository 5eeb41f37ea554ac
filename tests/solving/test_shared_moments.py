"""Moments in place of data: products against NumPy, what is held, passes, and problems that share them."""

from __future__ import annotations

import re
import threading
from typing import Any

import array_api_strict
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from backends import BACKENDS

import linspec as ls
from linspec.arrays import to_host
from linspec.errors import AccuracyWarning, InvalidOption, InvalidProblem, NonFiniteData, UnsupportedData
from linspec.rows import Passes
from linspec.solving.shared_moments import Moments
from linspec.workers import BlockOperator, InProcess

N, P, Q = 400, 6, 3
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((N, P)) + 1.0, RNG.standard_normal((N, Q))
A[:, :Q] += B

KINDS = {
    "numpy": np.copy,
    "strict": array_api_strict.asarray,
    "device1": lambda M: array_api_strict.asarray(M.copy(), device=array_api_strict.Device("device1")),
    "csr": scipy.sparse.csr_array,
    "products": scipy.sparse.linalg.aslinearoperator,
    "slices": lambda M: lambda: iter(np.array_split(M, 5)),
    "blocks": lambda M: BlockOperator(np.array_split(M, 4), InProcess()),
    **{each.name: each.wrap for each in BACKENDS if each.name.startswith("cupy") and not each.missing()},
}
CENTRED = A - A.mean(axis=0), B - B.mean(axis=0)


@pytest.mark.parametrize("form", ["dense", "implicit", "auto"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_products_are_those_of_the_entries(kind: str, center: bool, form: str) -> None:
    moments = Moments(KINDS[kind](A), KINDS[kind](B), center=center, form=form)
    X, Y = CENTRED if center else (A, B)
    V, W = RNG.standard_normal((P, 2)), RNG.standard_normal((Q, 2))
    found = moments.products(V, W)
    for product, wanted in zip(found, (X.T @ X @ V, X.T @ Y @ W, Y.T @ X @ V, Y.T @ Y @ W), strict=True):
        np.testing.assert_allclose(to_host(product), wanted, rtol=1e-11, atol=1e-10)
    np.testing.assert_allclose(to_host(moments.gram(W, 1)), Y.T @ Y @ W, rtol=1e-11, atol=1e-10)
    crossed = moments.products(None, W, onto=(0,))[1]
    np.testing.assert_allclose(to_host(crossed), X.T @ Y @ W, rtol=1e-11, atol=1e-10)
    assert moments.products(V)[1] is moments.products(V)[3] is None
    assert moments.products(V, W, onto=(0,))[2:] == (None, None)
    upper = moments.dense()
    for block, wanted in zip(upper, (X.T @ X, X.T @ Y, Y.T @ Y), strict=True):
        np.testing.assert_allclose(to_host(block), wanted, rtol=1e-11, atol=1e-10)
    assert moments.held
    assert moments.form == "dense"


@pytest.mark.parametrize("center", [False, True])
def test_sparse_gram_matrices_stay_sparse(center: bool) -> None:
    S = scipy.sparse.random_array((3000, 400), density=0.005, format="csr", rng=0)
    moments, V = Moments(S, center=center, form="sparse"), RNG.standard_normal((400, 2))
    D = S.toarray() - (S.mean(axis=0) if center else 0.0)
    np.testing.assert_allclose(moments.gram(V), D.T @ (D @ V), atol=1e-10)
    held = moments._moments.held[0][0]
    assert (held.G if center else held).nnz < 400**2 / 2
    assert (moments.passes, moments.form) == (1, "sparse")
    np.testing.assert_allclose(moments.dense()[0], D.T @ D, atol=1e-10)
    with pytest.raises(InvalidProblem, match=r'form "sparse" holds .* sparse matrices; got Dense'):
        Moments(A, form="sparse").gram(np.ones((P, 1)))


def test_means_of_a_million_deviations_lose_nothing() -> None:
    for form in ("dense", "implicit"):
        moments = Moments(A + 1e6, center=True, form=form)
        X = (A + 1e6) - (A + 1e6).mean(axis=0)
        np.testing.assert_allclose(moments.gram(np.eye(P)), X.T @ X, rtol=1e-9, atol=1e-7)


def test_products_of_an_operator_that_have_lost_all_digits_say_so() -> None:
    far = scipy.sparse.linalg.aslinearoperator((A + 1e6).astype(np.float32))
    with pytest.warns(AccuracyWarning, match="subtracted from products.*relative errors of about .e-01"):
        Moments(far, center=True, form="implicit").gram(np.ones((P, 1)))


def test_float32_data_are_summed_in_float64() -> None:
    X = A.astype(np.float32)
    exact = X.T.astype(np.float64) @ X.astype(np.float64)
    np.testing.assert_allclose(Moments(X, form="dense").gram(np.eye(P)), exact, rtol=1e-12)
    np.testing.assert_allclose(Moments(X, form="implicit").gram(np.eye(P)), exact, rtol=1e-5)


def test_a_triangle_and_a_sketch_are_of_preprocessed_rows() -> None:
    moments = Moments(A, B, center=True)
    both = np.hstack(CENTRED)
    R = moments.triangle()
    np.testing.assert_allclose(R.T @ R, both.T @ both, atol=1e-9)
    np.testing.assert_array_equal(moments.triangle(), R)
    assert (moments.passes, moments.held) == (1, True)
    first, second = (np.hstack(Moments(A, B, center=True).sketch(200, 5)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    values = np.linalg.svd(first @ np.linalg.inv(R), compute_uv=False)
    assert 0.6 < values[-1] < values[0] < 1.5


@pytest.mark.parametrize("kind", KINDS)
def test_every_matrix_is_sketched_by_the_same_matrix_which_the_seed_determines(kind: str) -> None:
    """The sketch of [A B I] shows Ω; ΩA and ΩB are products with it."""
    Omega = Moments(np.hstack([A, B, np.eye(N)])).sketch(50, np.random.default_rng(5))[0][:, P + Q :]
    moments = Moments(KINDS[kind](A), KINDS[kind](B))
    for found, exact in zip(
        moments.sketch(50, np.random.default_rng(5)), (Omega @ A, Omega @ B), strict=True
    ):
        np.testing.assert_allclose(found, exact, rtol=1e-11, atol=1e-10)
    assert moments.passes == 1
    centred = Moments(KINDS[kind](A), center=True).sketch(50, np.random.default_rng(5))[0]
    np.testing.assert_allclose(centred, Omega @ CENTRED[0], rtol=1e-9, atol=1e-10)


# ---- passes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["numpy", "csr", "slices", "blocks"])
def test_a_product_is_one_pass_and_a_held_form_one_in_all(kind: str) -> None:
    V, W = np.ones((P, 1)), np.ones((Q, 1))
    moments = Moments(KINDS[kind](A), KINDS[kind](B), center=True, form="implicit")
    assert moments.passes == 0
    moments.products(V, W)
    assert moments.passes == 1
    moments.gram(V)
    assert moments.passes == 2
    held = Moments(KINDS[kind](A), KINDS[kind](B), center=True, form="dense")
    for _ in range(2):
        held.products(V, W)
        held.gram(W, 1)
    assert held.passes == 1


def test_nothing_is_read_before_the_first_product() -> None:
    def read(_: Any) -> Any:
        raise AssertionError

    unread = scipy.sparse.linalg.LinearOperator((N, P), matvec=read, rmatvec=read, dtype=np.float64)
    assert Moments(unread, form="dense").passes == 0


@pytest.mark.parametrize("solver", ["gram", "als", "lobpcg", "direct"])
@pytest.mark.parametrize("form", ["dense", "implicit"])
def test_problems_that_share_moments_have_the_answers_of_their_data(solver: str, form: str) -> None:
    moments = Moments(A, B, center=True, form=form)
    for ridge in (1.0, 10.0):
        found = ls.solve(ls.CCA(moments, k=2, ridge=ridge), solver, rng=0)
        alone = ls.solve(ls.CCA(A, B, k=2, ridge=ridge), solver, rng=0)
        np.testing.assert_allclose(found.correlations, alone.correlations, atol=1e-6)
        np.testing.assert_allclose(found.x_mean, alone.x_mean)
        if form == "dense" and solver != "direct":
            assert (found.passes, moments.passes) == (float(ridge == 1.0), 1)
    with pytest.raises(InvalidProblem, match="center=True"):
        ls.CCA(moments, k=2, center=False)
    with pytest.raises(InvalidProblem, match="sample_weight, confounds and scale change the moments"):
        ls.CCA(moments, k=2, scale=True)


def test_one_matrix_and_targets_are_shared_too() -> None:
    components = ls.solve(ls.SVD(Moments(A, center=True, form="dense"), k=2, center=True))
    np.testing.assert_allclose(components.S, ls.solve(ls.SVD(A, k=2, center=True)).S)
    weights = ls.solve(ls.LeastSquares(Moments(A, B, center=True), ridge=2.0, center=True))
    np.testing.assert_allclose(
        weights.x, ls.solve(ls.LeastSquares(A, B, ridge=2.0, center=True)).x, rtol=1e-6
    )
    H = ls.targets.lda(np.arange(N) % 3)
    directions = ls.solve(ls.Discriminant(Moments(A, H, center=True, names=("X", "H"))))
    np.testing.assert_allclose(directions.eigenvalues, ls.solve(ls.Discriminant(A, H)).eigenvalues, rtol=1e-6)
    with pytest.raises(InvalidProblem, match="needs moments of 2 matrices; got moments of 1"):
        ls.CCA(Moments(A, center=True), k=1)


def test_a_run_counts_what_it_forms_for_all() -> None:
    moments, passes = Moments(A, B, form="dense"), Passes()
    own = moments.of_run(passes, 2.0)
    assert (passes.count, passes.reserved, moments.passes) == (1, 0, 1)
    assert own.holds
    assert moments.held
    moments.of_run(passes)
    assert passes.count == 1
    again = Moments(A, B, form="implicit").of_run(passes, 2.0)
    assert (passes.reserved, again.holds) == (2, False)


def test_slices_that_are_read_once_are_shared() -> None:
    moments = Moments(iter(np.array_split(A, 4)), center=True, form="dense")
    values = [ls.solve(ls.SVD(moments, k=k, center=True), "gram").S for k in (1, 2)]
    np.testing.assert_allclose(values[1], ls.solve(ls.SVD(A, k=2, center=True)).S)
    assert moments.passes == 1


def test_threads_share_a_pass() -> None:
    moments = Moments(A, B, center=True, form="dense")
    threads = [threading.Thread(target=moments.products, args=(np.ones((P, 1)),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert moments.passes == 1


# ---- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, message",
    [
        (Moments, "moments are those of matrices; got none"),
        (lambda: Moments(A, form="best"), "form must be one of auto, dense, sparse, implicit; got 'best'"),
        (lambda: Moments(A, B[:9]), "X and Y must have equally many rows; got 400 and 9"),
        (
            lambda: Moments(A).gram(np.ones((P, 1)), 1),
            "which are 6; got shape (6, 1) for matrix 1",
        ),
        (lambda: Moments(A, B).gram(np.ones((P, 1)), 1), "which are 6, 3; got shape (6, 1) for matrix 1"),
        (lambda: Moments(A, B).products(np.ones(P)), "which are 6, 3; got shape (6,) for matrix 0"),
        (
            lambda: Moments(A, B, A).products(None, None, np.ones((Q, 1))),
            "are 6, 3, 6; got shape (3, 1) for matrix 2",
        ),
        (lambda: Moments(A).sketch(0), "size must be at least 1; got 0"),
    ],
)
def test_misuse_is_told(call: Any, message: str) -> None:
    with pytest.raises(InvalidProblem, match=re.escape(message)):
        call()


def test_other_misuse_is_told() -> None:
    with pytest.raises((InvalidProblem, InvalidOption), match="center must be True or False; got 'yes'"):
        Moments(A, center="yes")
    with pytest.raises(UnsupportedData, match="X and Y must come from one library and device"):
        Moments(A, array_api_strict.asarray(B))


@pytest.mark.parametrize("form", ["dense", "implicit"])
@pytest.mark.parametrize("kind", ["numpy", "csr", "slices", "blocks"])
def test_the_bad_entry_is_named(kind: str, form: str) -> None:
    bad = B.copy()
    bad[17, 2] = np.nan
    with pytest.raises(NonFiniteData, match="Y must be finite; got nan at row 17, column 2"):
        Moments(KINDS[kind](A), KINDS[kind](bad), form=form).products(np.ones((P, 1)))
