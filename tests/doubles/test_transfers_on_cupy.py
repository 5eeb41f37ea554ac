"""Transfers between host and device stay small: counted on the double of CuPy, solver by solver."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from backends import BACKENDS

if reason := next(backend.missing() for backend in BACKENDS if backend.name == "cupy"):
    pytest.skip(f"{reason}; for the double LINSPEC_CUPY_DOUBLE=14.2.0", allow_module_level=True)

import cupy

if "double" not in cupy.__version__:
    pytest.skip("nothing counts on a GPU", allow_module_level=True)

from doubles import transfers
from doubles.cupy_double import ACCOUNT

import linspec as ls
from linspec.arrays import to_host
from linspec.sweeps.views import gram_blocks

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def now():
    return transfers.measured()


# ---- budgets ----------------------------------------------------------------------------------------------


def test_every_solver_that_iterates_has_a_budget(now):
    found, _ = now
    errors = {name: counted for name, counted in found.items() if isinstance(counted, str)}
    assert not errors
    assert transfers.carried(found).keys() == transfers.budgets().keys()


def test_no_iteration_carries_more_than_its_budget(now):
    assert transfers.risen(transfers.carried(now[0]), transfers.budgets()) == []


def test_a_budget_is_what_an_iteration_carries(now):
    """Whoever saves a transfer lowers the budget: `python tests/doubles/transfers.py --record`."""
    assert transfers.risen(transfers.budgets(), transfers.carried(now[0])) == []


def test_no_solver_waits_unannounced(now):
    assert now[1] == {}


@pytest.mark.parametrize("ridges", [0.5, (0.1, 1.0, 10.0)])
def test_a_step_of_cg_carries_one_array_each_way(ridges):
    X, B = cupy.asarray(RNG.standard_normal((300, 40))), cupy.asarray(RNG.standard_normal((300, 3)))
    seen = []

    def look(_):
        seen.append((ACCOUNT.total("down"), ACCOUNT.total("up")))

    ls.solve(ls.LeastSquares(X, B, ridge=ridges), "cg", form="dense", callback=look)
    steps = np.diff(seen, axis=0)[1:-1]
    assert len(steps) > 5
    assert (steps == 1).all()


def test_steps_of_cg_are_those_of_the_host():
    """Also where right-hand sides depend on each other, and where they converge one by one.

    After a few steps the iterates differ by rounding. Answers that have converged have residuals of the tolerance at
    most, and each is off by the residual over the least eigenvalue of AᵀA + r I at most.
    """
    A = RNG.standard_normal((300, 40)) * np.geomspace(1, 0.1, 40)
    ridge, tol = 0.3, 1e-10
    least = np.linalg.svd(A, compute_uv=False)[-1] ** 2 + ridge
    dependent = RNG.standard_normal((300, 2)) @ RNG.standard_normal((2, 4))
    few = A[:, :1] * [1.0, -2.0]
    for B in (RNG.standard_normal((300, 3)), dependent, few):
        for steps in (1, 4, 9, 60):
            answers = []
            for place in (np.asarray, cupy.asarray):
                problem = ls.LeastSquares(place(A), place(B), ridge=ridge)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = ls.solve(problem, "cg", max_iterations=steps, tol=tol)
                answers.append((found.iterations, to_host(found.x), found.status.name == "CONVERGED"))
            (made, x, done), (made_there, there, done_there) = answers
            assert abs(made - made_there) <= (steps == 60)
            assert done == done_there
            apart = np.linalg.norm(there - x, axis=0)
            if done:
                assert np.all(apart <= 2 * tol * np.linalg.norm(A.T @ B, axis=0) / least), steps
            else:
                assert np.all(apart <= 1e-9 * np.linalg.norm(x, axis=0)), steps


@pytest.mark.parametrize("form", ["dense", "implicit"])
def test_half_steps_are_those_of_the_host(form):
    """As many iterations and passes, and the same correlations, with steps of the device and without."""
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((300, 3))
    X, Y = (shared @ rng.standard_normal((3, p)) + rng.standard_normal((300, p)) for p in (60, 50))
    found = [
        ls.solve(ls.CCA(place(X), place(Y), k=2, ridge=1.0), "als", form=form, rng=0, tol=1e-10)
        for place in (np.asarray, cupy.asarray)
    ]
    assert found[0].iterations == found[1].iterations
    assert found[0].passes == found[1].passes
    np.testing.assert_allclose(found[0].correlations, to_host(found[1].correlations), rtol=1e-10)


# ---- blocks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [(1,), (50,), (50, 30), (1000,), (26_000, 4000)])
@pytest.mark.parametrize("rows", [10, 100_000, 10_000_000])
def test_gram_blocks_fit_the_device(rows, columns):
    operators = [ls.as_operator(cupy.zeros((1, p))) for p in columns]
    blocks = list(gram_blocks(operators, rows))
    assert blocks[0].start == 0
    assert blocks[-1].stop == rows
    assert len(blocks) <= 8 * rows * sum(columns) // 2**26 + 1
    assert max(each.stop - each.start for each in blocks) * 8 * sum(columns) <= 2**28


def test_long_rows_are_reduced_in_one_block():
    counts = []
    for rows in (600, 60_000):
        X = cupy.asarray(RNG.standard_normal((rows, 6)))
        ACCOUNT.reset()
        ls.Moments(X, form="implicit").direct.reduced_rows((0.0,))
        counts.append(ACCOUNT.total("kernel"))
    assert counts[0] == counts[1]


# ---- what is made on the device ---------------------------------------------------------------------------


def test_ones_and_identities_are_made_on_the_device():
    """A product with all columns of the identity, and column means: nothing as long as rows or columns goes up."""
    X, Y = (cupy.asarray(RNG.standard_normal((5000, p))) for p in (20, 300))
    ACCOUNT.reset()
    ls.Moments(X, Y, center=True, form="implicit").products(cross=True)
    ls.Moments(X, form="implicit").columns.means()
    assert ACCOUNT.total_bytes("up") < 8 * 300


@pytest.mark.parametrize("slices", [False, True])
def test_images_stay_on_the_device(slices):
    X, V = RNG.standard_normal((4000, 8)) + 3.0, RNG.standard_normal((8, 3))
    rows = cupy.asarray(X)
    data = (lambda: (rows[i : i + 1000, :] for i in range(0, 4000, 1000))) if slices else rows
    moments = ls.Moments(data, center=True, form="implicit")
    ACCOUNT.reset()
    R = moments.products(cupy.asarray(V), onto=(), triangle=V.shape[1]).triangle
    products = moments.products(cupy.asarray(V), triangle=3)
    product, S = products[0], products.triangle
    assert ACCOUNT.total_bytes("down") < 8 * 1000
    image = (X - X.mean(axis=0)) @ V
    for found in (R, S):
        np.testing.assert_allclose(found.T @ found, image.T @ image, rtol=1e-10)
    np.testing.assert_allclose(product.get(), (X - X.mean(axis=0)).T @ image, rtol=1e-10, atol=1e-9)


def test_leading_triplets_of_a_large_matrix_come_from_its_square():
    """As accurate as the full decomposition, down to where a square loses digits; there the full one is taken."""
    from linspec.algebra.whitener import SQUARED_AWAY, leading_svd
    from linspec.arrays import Home

    m, k = 120, 5
    P, Q = (np.linalg.qr(RNG.standard_normal((m, m)))[0] for _ in range(2))
    for least in (0.1, SQUARED_AWAY / 10):
        s = np.concatenate([np.geomspace(1, least, k), np.full(m - k, least / 100)])
        U, found, V = leading_svd(cupy.asarray(P * s @ Q.T), k, Home.of(cupy.zeros(1)))
        np.testing.assert_allclose(found, s[:k], atol=1e-14)
        for basis, planted in ((U.get(), P[:, :k]), (V.get(), Q[:, :k])):
            np.testing.assert_allclose(basis.T @ basis, np.eye(k), atol=1e-13)
            rest = basis - planted @ (planted.T @ basis)
            assert np.abs(rest).max() < 1e-13 / least
    assert math.isclose(float(found[0]), 1.0)
