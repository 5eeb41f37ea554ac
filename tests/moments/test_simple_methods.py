"""The members for simple methods: gram, cross, gradient, sketch and rows, against NumPy and longdouble."""

from __future__ import annotations

import re

import array_api_strict
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from backends import BACKENDS

from linspec import Moments
from linspec.arrays import to_host
from linspec.errors import InvalidProblem, MissingCapability, NonFiniteData
from linspec.sweeps import BlockOperator, InProcess

N, P, Q = 400, 6, 3
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((N, P)) + 1.0, RNG.standard_normal((N, Q))
X = RNG.standard_normal((P, Q))

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


def wide(M):
    return np.asarray(M, dtype=np.longdouble)


# ---- gram and cross -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["dense", "implicit"])
@pytest.mark.parametrize("kind", KINDS)
def test_gram_multiplies_with_the_gram_matrix_of_any_view(kind, form):
    moments = Moments(KINDS[kind](A), KINDS[kind](B), form=form)
    for index, M in enumerate((A, B)):
        V = RNG.standard_normal((M.shape[1], 2))
        found = to_host(moments.gram(moments.home.place(V), index))
        np.testing.assert_allclose(found, M.T @ (M @ V), rtol=1e-11, atol=1e-10)
    with pytest.raises(InvalidProblem, match="2 views; got index 2"):
        moments.gram(moments.home.place(X), 2)


@pytest.mark.parametrize("form", ["dense", "implicit"])
@pytest.mark.parametrize("kind", KINDS)
def test_cross_without_a_block_is_the_whole_matrix_and_is_kept(kind, form):
    moments = Moments(KINDS[kind](A), KINDS[kind](B), form=form)
    V = RNG.standard_normal((Q, 2))
    np.testing.assert_allclose(to_host(moments.cross()), A.T @ B, rtol=1e-11, atol=1e-10)
    before = moments.passes
    np.testing.assert_allclose(to_host(moments.cross()), A.T @ B, rtol=1e-11, atol=1e-10)
    assert moments.passes == before
    found = to_host(moments.cross(moments.home.place(V)))
    np.testing.assert_allclose(found, A.T @ (B @ V), rtol=1e-11, atol=1e-10)


def test_one_sweep_makes_the_whole_cross_product_of_rows():
    moments = Moments(A, B, form="implicit")
    moments.cross()
    assert moments.passes == 1


@pytest.mark.parametrize("form", ["dense", "implicit"])
def test_a_block_that_does_not_fit_is_named_as_the_parameter_is(form):
    moments = Moments(A, B, form=form)
    for call, shape in (
        (moments.gram, "(6, k)"),
        (lambda V: moments.gram(V, 1), "(3, k)"),
        (moments.cross, "(3, k)"),
    ):
        with pytest.raises(InvalidProblem, match=re.escape(f"V must have shape {shape}; got (5, 2).")):
            call(np.ones((5, 2)))
    with pytest.raises(InvalidProblem, match="needs two views"):
        Moments(A, form=form).cross(np.ones((3, 1)))


# ---- gradient -----------------------------------------------------------------------------------


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("form", ["dense", "implicit"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_half_the_objective(kind, form, center):
    """Against differences of the objective in longdouble; it is quadratic, so central differences are exact."""
    moments = Moments(KINDS[kind](A), KINDS[kind](B), form=form, center=center)
    found = to_host(moments.gradient(moments.home.place(X), ridge=2.0))
    left, right = (wide(M) - wide(M).mean(axis=0) * center for M in (A, B))

    def objective(x):
        return (np.sum((left @ x - right) ** 2) + 2 * np.sum(x**2)) / 2

    exact = np.zeros((P, Q))
    for place in np.ndindex(P, Q):
        step = np.zeros((P, Q), dtype=np.longdouble)
        step[place] = 1
        exact[place] = (objective(wide(X) + step) - objective(wide(X) - step)) / 2
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-9)


def test_near_the_solution_the_gradient_keeps_its_digits():
    """A x − B is 1e-9 times as long as B, so that AᵀA x − AᵀB loses nine digits."""
    x = RNG.standard_normal((P, Q))
    near = A @ x + 1e-9 * RNG.standard_normal((N, Q))
    exact = wide(A).T @ (wide(A) @ wide(x) - wide(near))
    found = Moments(A, near, form="implicit").gradient(x)
    size = float(np.linalg.norm(A, 2)) * 1e-9 * np.sqrt(N * Q)
    roundings = (
        np.linalg.norm(A) * np.linalg.norm(near) * np.finfo(float).eps
    )  # of A x and B in each residual
    assert np.linalg.norm((found - exact).astype(float)) < min(1e-4 * size, roundings)


@pytest.mark.parametrize(
    ("given", "x", "message"),
    [((A,), X, "moments of 1"), ((A, B, A), X, "moments of 3"), ((A, B), X.T, r"shape \(6, 3\)")],
)
def test_a_gradient_needs_a_matrix_its_right_hand_sides_and_a_block_that_fits(given, x, message):
    with pytest.raises(InvalidProblem, match=message):
        Moments(*given).gradient(x)


def test_a_gradient_of_rows_that_are_not_finite_names_the_entry():
    bad = A.copy()
    bad[7, 2] = np.nan
    with pytest.raises(NonFiniteData, match="row 7"):
        Moments(bad, B, form="implicit").gradient(X)


# ---- rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("products", "slices")])
def test_an_epoch_has_every_row_once_and_the_same_rows_of_both_views(kind):
    numbers = np.arange(float(N))[:, None]
    moments = Moments(*(KINDS[kind](M) for M in (np.hstack([numbers + 1, A]), numbers)))
    seen, rows = [], moments.rows(32, np.random.default_rng(1))
    for A_S, B_S in rows:
        part = to_host(B_S.dense())
        assert np.array_equal(to_host(A_S.dense())[:, :1], part + 1)
        seen.extend(part.ravel())
        if len(seen) >= N:
            break
    assert np.array_equal(np.sort(seen), np.arange(N))
    assert rows.epochs == 1
    assert moments.passes == 1


def test_batches_are_of_centred_rows():
    moments = Moments(A, center=True)
    (batch,) = next(moments.rows(N, 0))
    np.testing.assert_allclose(batch.dense().mean(axis=0), 0.0, atol=1e-12)


def test_from_a_place_the_batches_are_the_same():
    rng = np.random.default_rng(2)
    rows = Moments(A, B).rows(30, rng)
    for _ in range(4):
        next(rows)
    place, state = rows.place, rng.bit_generator.state
    first = [next(rows)[0].dense() for _ in range(20)]
    again = Moments(A, B).rows(30, rng)
    again.place, rng.bit_generator.state = place, state
    assert all(np.array_equal(one, next(again)[0].dense()) for one in first)


def test_rows_that_cannot_be_read_by_number_are_refused():
    for kind in ("products", "slices"):
        with pytest.raises(MissingCapability, match="by number"):
            Moments(KINDS[kind](A)).rows(10, 0)
    with pytest.raises(InvalidProblem, match="at least 1; got 0"):
        Moments(A).rows(0, 0)
