"""Transfers between host and device stay small: counted on the double of CuPy, solver by solver."""

from __future__ import annotations

import math
import re
import warnings
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

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
from linspec.arrays import HOST, Home, on_device, symmetric_inverse, to_host
from linspec.sweeps.views import gram_blocks
from linspec_lstsq.conjugate_gradients import block_conjugate_gradients
from linspec_lstsq.gradient_descent import GradientDescent, descent
from linspec_lstsq.normal_equations import System, points

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


def test_budgets_only_fall(tmp_path, monkeypatch):
    monkeypatch.setattr(transfers, "BUDGETS", tmp_path / "budgets.json")
    transfers.record({"a": {"down": 2, "up": 3}})
    transfers.record({"a": {"down": 1, "up": 3}, "b": {"down": 9, "up": 9}})
    with pytest.raises(SystemExit, match="a: down 2, at most 1"):
        transfers.record({"a": {"down": 2, "up": 0}})
    assert transfers.budgets() == {"a": {"down": 1, "up": 3}, "b": {"down": 9, "up": 9}}


def test_the_page_shows_the_budgets():
    text = (Path(__file__).parents[2] / "docs" / "guide" / "gpu.md").read_text(encoding="utf-8")
    table = text.partition("<!-- transfers -->")[2].partition("<!-- /transfers -->")[0]
    rows = [line.strip("| ").split(" | ") for line in table.strip().splitlines()[2:]]
    shown = {name: {"down": int(down), "up": int(up)} for name, _, _, down, up in rows}
    assert shown == transfers.budgets()
    for n_rows, columns, _, now, on_host in re.findall(
        r"\| ([\d,]+) x ([\d,]+) \| (\d+) \| (\d+) \| (\d+) \|", text
    ):
        n, p = (int(number.replace(",", "")) for number in (n_rows, columns))
        assert transfers.gram_blocks_of(n, p) == (int(now), int(on_host))


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


def test_inverses_are_made_without_a_wait():
    A = RNG.standard_normal((50, 6)) * np.geomspace(1, 1e-9, 6)
    G = A.T @ A
    ACCOUNT.reset()
    with on_device(cupy.zeros(1)):  # where factorisations raise
        there = symmetric_inverse(cupy.asarray(G))
        singular = symmetric_inverse(cupy.zeros((3, 3)))
    assert ACCOUNT.total("down") == ACCOUNT.total("sync") == ACCOUNT.total("report") == 0
    np.testing.assert_allclose(there.get() @ G, np.eye(6), atol=1e-4)
    np.testing.assert_allclose(there.get(), np.linalg.inv(G), rtol=1e-10)
    assert not np.isfinite(singular.get()).any()


def test_directions_without_a_product_are_no_end_of_cg():
    """A matrix of zeros on these directions: the inverse of the device is of no use, and the host's is."""
    home = Home.of(cupy.zeros(1))
    start = home.place(RNG.standard_normal((8, 2)))
    kernel = block_conjugate_gradients(System(AtB=start, ridges=(0.0,), home=home, noise=1e-14))
    next(kernel)
    point = kernel.send(home.zeros((8, 2)))
    assert to_host(point.x).tolist() == np.zeros((8, 2)).tolist()
    np.testing.assert_allclose(point.norms, np.linalg.norm(start.get(), axis=0), rtol=1e-12)


@pytest.mark.parametrize("further", [-4, -1, 0, 5])
def test_gradient_steps_without_waits_are_those_of_the_host(further):
    """A device makes as many steps as the last solve took; a part takes those it needs, and goes on after them."""
    rng = np.random.default_rng(4)
    A = rng.standard_normal((80, 30)) * np.geomspace(1, 0.1, 30)
    M, AtB = A.T @ A, A.T @ rng.standard_normal((80, 3))
    run = SimpleNamespace(budget=SimpleNamespace(affordable=iter))
    system = System(AtB=AtB, ridges=(0.0,), home=HOST, noise=1e-14)
    made = list(islice(points(descent(system), lambda V: M @ V), 12))
    residuals = np.minimum.accumulate([system.residual(point) for point in made])
    news, ends = np.flatnonzero(np.diff(residuals, prepend=np.inf)), []  # the residual may rise in between
    usual, needed = int(news[4]), int(news[4 + further] if further < 1 else news[-1])
    for place in (np.asarray, cupy.asarray):
        moments = ls.Moments(place(A), form="dense")
        moments.gram(place(AtB))  # held from now on
        part = GradientDescent().prepare(moments, 0.0, run)
        part.solve(None, tol=residuals[usual] * 1.001, AtB=place(AtB))
        ACCOUNT.reset()
        ends.append(to_host(part.solve(None, tol=residuals[needed] * 1.001, AtB=place(AtB))))
    assert ACCOUNT.total("down") == 2 + max(needed - usual, 0)  # the last one is the answer
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(ends[0], made[needed].x, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("solver", ["l-cca", "g-cca"])
def test_fixed_rounds_are_those_of_the_host(solver):
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((200, 3))
    X, Y = (shared @ rng.standard_normal((3, p)) + rng.standard_normal((200, p)) for p in (30, 20))
    options = {"components": 5} if solver == "l-cca" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            ls.solve(ls.CCA(place(X), place(Y), k=2, ridge=1.0), solver, rng=0, **options)
            for place in (np.asarray, cupy.asarray)
        ]
    assert found[0].iterations == found[1].iterations
    np.testing.assert_allclose(found[0].correlations, to_host(found[1].correlations), rtol=1e-9)


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


def launches(rows):
    X, Y = (cupy.asarray(RNG.standard_normal((rows, p)).astype(np.float32)) for p in (6, 4))
    ACCOUNT.reset()
    ls.Moments(X, Y, center=True, form="dense").dense()
    return ACCOUNT.total("kernel")


def test_the_kernels_of_a_gram_matrix_do_not_grow_with_rows_that_fit():
    assert launches(60_000) == launches(600)


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


def test_the_cross_product_needs_no_identity(monkeypatch):
    X, Y = (RNG.standard_normal((200, p)) for p in (20, 30))
    monkeypatch.setattr(type(ls.arrays.HOST), "eye", None)
    for center in (False, True):
        moments = ls.Moments(cupy.asarray(X), cupy.asarray(Y), center=center, form="implicit")
        cross = moments.products(cupy.asarray(np.ones((20, 2))), cross=True).cross
        less = X - X.mean(axis=0) * center
        np.testing.assert_allclose(cross.get(), less.T @ Y, atol=1e-11)


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
