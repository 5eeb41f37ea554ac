"""Transfers between host and device stay small: counted on the double of CuPy, solver by solver."""

from __future__ import annotations

import math
import operator
import re
import warnings
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from linspec.testing import BACKENDS

if reason := next(backend.missing() for backend in BACKENDS if backend.name == "cupy"):
    pytest.skip(f"{reason}; for the double LINSPEC_CUPY_DOUBLE=14.2.0", allow_module_level=True)

import cupy

if "double" not in cupy.__version__:
    pytest.skip("nothing counts on a GPU", allow_module_level=True)

from doubles import transfers
from doubles.cupy_double import ACCOUNT

import linspec as ls
from linspec.arrays import HOST, Home, on_device, symmetric_inverse, to_host, triangular_factors
from linspec.sweeps.views import gram_blocks
from linspec_lstsq.conjugate_gradients import ConjugateGradients, block_conjugate_gradients
from linspec_lstsq.gradient_descent import descent
from linspec_lstsq.normal_equations import System, points
from linspec_lstsq.prepared import steps_unseen
from linspec_lstsq.steps_ahead import steps_ahead

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


def systems(columns=3, ridge=0.3, start=False, apart=None):
    """Make one system on the host and on the device, and its Gram matrix."""
    rng = np.random.default_rng(4)
    A = rng.standard_normal((80, 30)) * np.geomspace(1, 0.1, 30)
    M, AtB = A.T @ A, A.T @ rng.standard_normal((80, columns))
    if apart is not None:
        AtB[:, -1] = 2 * AtB[:, 0] + apart * AtB[:, 1]
    x = rng.standard_normal(AtB.shape) if start else None
    gradient = None if x is None else AtB - M @ x - ridge * x
    found = []
    for home in (HOST, Home.of(cupy.zeros(1))):
        given = {"start": x, "gradient": gradient} if start else {}
        placed = {name: home.place(V) for name, V in given.items()}
        system = System(AtB=home.place(AtB), ridges=(ridge,), home=home, noise=1e-14, **placed)
        found.append((system, partial(operator.matmul, home.place(M))))
    return found


def usual(kernel, system, multiply, steps):
    """The iterates of a kernel on the host, and their relative residuals, from the start on."""
    found = list(islice(points(kernel(system), multiply), steps + 1))
    return [point.x for point in found], [system.residual(point) for point in found]


def through(ahead):
    """Return the yielded values of steps ahead, and their return value."""
    found = []
    while True:
        try:
            found.append(next(ahead))
        except StopIteration as end:
            return found, end.value


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("needed", [1, 2, 4])
def test_steps_ahead_are_those_of_the_host(start, needed):
    (system, multiply), (there, multiply_there) = systems(start=start)
    iterates, residuals = usual(block_conjugate_gradients, system, multiply, needed)
    ACCOUNT.reset()
    found = list(islice(steps_ahead(there, multiply_there, needed), needed + 1))
    seen = [there.residual(point) for point in found]
    assert (ACCOUNT.total("down"), ACCOUNT.total("up"), ACCOUNT.total("report")) == (1, 0, 0)
    np.testing.assert_allclose(seen, residuals, rtol=1e-6)
    for point, x in zip(found, iterates, strict=True):
        np.testing.assert_allclose(point.x.get(), x, rtol=1e-9, atol=1e-12)


def test_after_too_few_steps_ahead_the_iteration_goes_on():
    (system, multiply), (there, multiply_there) = systems(start=True)
    iterates, residuals = usual(block_conjugate_gradients, system, multiply, 6)
    found, last = through(steps_ahead(there, multiply_there, 2))
    assert len(found) == 3
    going_on = islice(points(block_conjugate_gradients(there, last), multiply_there), 5)
    for point, x, residual in zip(going_on, iterates[2:], residuals[2:], strict=True):
        np.testing.assert_allclose(point.x.get(), x, rtol=1e-8, atol=1e-10)
        assert there.residual(point) == pytest.approx(residual, rel=1e-6)


@pytest.mark.parametrize("apart", [0.0, 1e-6])
def test_steps_ahead_come_to_nothing_where_columns_depend_on_each_other(apart):
    """The usual iteration begins, without a transfer for what is known of its start."""
    _, (there, multiply_there) = systems(apart=apart)
    (start,), going_on = through(steps_ahead(there, multiply_there, 3))
    assert going_on is None
    assert not start.x.get().any()
    assert there.residual(start) == pytest.approx(1.0)
    ACCOUNT.reset()
    assert there.scales.shape == there.gradient_gram.shape[:1] == (3,)
    assert ACCOUNT.total("down") == 0


def test_steps_ahead_stop_before_a_space_is_exhausted():
    """30 columns, and blocks of 12: the third step takes what is left, and the fourth has nothing to do."""
    (system, multiply), (there, multiply_there) = systems(columns=12)
    found, last = through(steps_ahead(there, multiply_there, 6))
    assert 1 < len(found) < 7
    exact = np.linalg.solve(multiply(np.eye(30)) + 0.3 * np.eye(30), system.AtB)
    *_, point = islice(points(block_conjugate_gradients(there, last), multiply_there), 5)
    np.testing.assert_allclose(point.x.get(), exact, rtol=1e-9, atol=1e-12)


def test_gradient_steps_unseen_are_those_of_the_host():
    (system, multiply), (there, multiply_there) = systems(start=True)
    iterates, residuals = usual(descent, system, multiply, 11)
    ACCOUNT.reset()
    found, last = through(steps_unseen(descent, there, multiply_there, 9))
    seen = [there.residual(point) for point in found]
    assert (ACCOUNT.total("down"), ACCOUNT.total("up")) == (1, 0)
    found += list(islice(points(descent(there, last), multiply_there), 1, 3))
    np.testing.assert_allclose(seen, residuals[:10], rtol=1e-9)
    for point, x in zip(found, iterates, strict=True):
        np.testing.assert_allclose(point.x.get(), x, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("needed", [0, 1, 2, 4])
def test_a_part_ends_after_the_same_steps_with_those_ahead(needed):
    """As many as the last time are made ahead; of these it takes those that it needs."""
    (system, multiply), _ = systems(ridge=0.0)
    _, residuals = usual(block_conjugate_gradients, system, multiply, 5)
    A, ends = np.linalg.cholesky(multiply(np.eye(30))).T, []
    for place in (np.asarray, cupy.asarray):
        moments = ls.Moments(place(A), form="dense")
        moments.gram(place(system.AtB))  # held from now on
        free = SimpleNamespace(affordable=lambda items: items)
        run = SimpleNamespace(budget=free)
        part = ConjugateGradients().prepare(moments, 0.0, run)
        AtB = place(system.AtB)
        part.solve(None, tol=residuals[5] * 1.001, AtB=AtB)
        ACCOUNT.reset()
        ends.append(to_host(part.solve(None, tol=residuals[needed] * 1.001, AtB=AtB)))
    assert (ACCOUNT.total("down"), ACCOUNT.total("up")) == (2, 0)  # the last one is the answer
    np.testing.assert_allclose(*ends, rtol=1e-8, atol=1e-10)


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


def test_factors_are_made_without_a_wait():
    A = RNG.standard_normal((50, 6)) * np.geomspace(1, 1e-6, 6)
    G = A.T @ A
    ACCOUNT.reset()
    with on_device(cupy.zeros(1)):  # where factorisations raise
        T, tau = triangular_factors(cupy.asarray(G))
        singular = triangular_factors(cupy.asarray(np.ones((3, 3))))
    assert ACCOUNT.total("down") == ACCOUNT.total("sync") == ACCOUNT.total("report") == 0
    np.testing.assert_allclose(T.get().T @ G @ T.get(), np.eye(6), atol=1e-9)
    np.testing.assert_allclose(T.get() @ tau.get(), np.eye(6), atol=1e-9)
    assert not np.isfinite(singular[0].get()).all()


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
