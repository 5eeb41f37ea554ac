"""Entries whose squares are no numbers: a power of two is taken out of each matrix and given back."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import linspec as ls

RNG = np.random.default_rng(7)
A = RNG.standard_normal((60, 5))
B = A @ RNG.standard_normal((5, 3)) + 0.3 * RNG.standard_normal((60, 3))
TALL, SMALL = 2.0**600, 2.0**-600


@pytest.fixture(autouse=True)
def no_numpy_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def as_map(tmp_path: Any, entries: Any) -> Any:
    path = tmp_path / f"rows{len(list(tmp_path.iterdir()))}.npy"
    np.save(path, entries)
    return np.load(path, mmap_mode="r")


KINDS = {
    "dense": lambda entries, _: entries,
    "sparse": lambda entries, _: scipy.sparse.csr_array(entries),
    "map": lambda entries, path: as_map(path, entries),
    "callable": lambda entries, _: lambda: iter([entries[:23], entries[23:]]),
    "centred": lambda entries, _: ls.as_operator(entries).centered(np.zeros(entries.shape[1])),
    "sum": lambda entries, _: 0.5 * ls.as_operator(entries) + 0.5 * ls.as_operator(entries),
}

FAMILIES: dict[str, tuple[Any, str, Any]] = {
    "least-squares": (
        lambda X, Y, s: ls.LeastSquares(X, Y, ridge=0.5 * s * s),
        "cg",
        lambda f, s, t: f.x * (s / t),
    ),
    "svd": (lambda X, Y, s: ls.SVD(X, 3, center=True), "gram", lambda f, s, t: f.S / s),
    "cca": (lambda X, Y, s: ls.CCA(X, Y, 2), "gram", lambda f, s, t: f.x_weights * s),
    "discriminant": (
        lambda X, Y, s: ls.Discriminant(X, Y, 2, ridge=0.5 * s * s),
        "direct",
        lambda f, s, t: f.weights * s,
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_power_of_two_changes_no_bit(family: str, kind: str, tmp_path: Any) -> None:
    if (family, kind) == ("discriminant", "callable"):
        pytest.skip("direct takes no slices")
    make, solver, answer = FAMILIES[family]
    wrap = KINDS[kind]
    small = 2.0**-500  # so that the ridge of 2^-1000 is a number
    found = [
        (s, t, ls.solve(make(wrap(A * s, tmp_path), wrap(B * t, tmp_path), s), solver, rng=0))
        for s, t in ((1.0, 1.0), (small, 1.0), (small, 1 / small), (2.0**500, 1.0))
    ]
    (_, _, usual), *others = found
    for s, t, solution in others:
        assert solution.status is usual.status
        assert solution.passes == usual.passes
        assert np.array_equal(answer(solution, s, t), answer(usual, 1.0, 1.0))


@pytest.mark.parametrize("size", [1e-300, 1e-82, 1e160])
@pytest.mark.parametrize(
    "solver", sorted(set(ls.solvers("cca")) - {"naive-gradient"})
)  # which is not free of units
@pytest.mark.filterwarnings("ignore::linspec.errors.AccuracyWarning")
def test_cca_does_not_depend_on_units(solver: str, size: float) -> None:
    usual = ls.solve(ls.CCA(A, B, 2), solver, rng=0)
    found = ls.solve(ls.CCA(A * size, B, 2), solver, rng=0)
    assert np.allclose(found.correlations, usual.correlations, rtol=1e-5)
    assert found.status is usual.status


@pytest.mark.parametrize("size", [1e-300, 1e-82, 1e160])
@pytest.mark.parametrize("solver", ["auto", *ls.solvers("least-squares")])
def test_coefficients_in_extreme_units_are_those_of_lapack(solver: str, size: float) -> None:
    exact = np.linalg.lstsq(A, B[:, 0], rcond=None)[0]
    found = ls.solve(ls.LeastSquares(A * size, B[:, 0]), solver, rng=0)
    assert found.converged
    assert np.allclose(found.x * size, exact, rtol=1e-6, atol=1e-7)


def test_ordinary_matrices_are_left_alone() -> None:
    for scale in (1.0, 1e-29, 1e29):
        problem = ls.CCA(A * scale, scipy.sparse.csr_array(B), 2, ridge=0.1)
        looks = problem.looked_at()
        exponents = {name: look.exponent(np.dtype(np.float64)) for name, look in looks.items()}
        assert problem.divided(looks, exponents) is problem


def test_float32_has_a_range_of_its_own() -> None:
    exact = np.linalg.svd(A, compute_uv=False)[:2]
    for size in (1e-30, 1e30):
        single = (A * size).astype(np.float32)
        for data in (single, scipy.sparse.csr_array(single)):
            found = ls.solve(ls.SVD(data, 2), "block-krylov", rng=0)
            assert np.allclose(found.S / size, exact, rtol=1e-5)
            assert found.Vh.dtype == np.float32


def test_an_operator_is_measured_by_its_first_product() -> None:
    solved = {}
    for size in (1.0, 1e-200, 1e200):
        data = scipy.sparse.linalg.aslinearoperator(A * size)
        solved[size] = ls.solve(ls.LeastSquares(data, B), "lsqr")
        assert np.allclose(solved[size].x * size, np.linalg.lstsq(A, B, rcond=None)[0])
    assert solved[1e-200].passes == solved[1e200].passes == solved[1.0].passes + 1


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_ridges_are_divided_with_the_squares(size: float) -> None:
    b = B[:, 0]
    # One ridge far above all squares, one far below.
    large, none = ls.solve(ls.LeastSquares(A * 1e-100, b, ridge=(1e200, 1e-300)), "cg").x
    assert np.allclose(large * 1e300, A.T @ b, rtol=1e-12)
    assert np.allclose(none * 1e-100, np.linalg.lstsq(A, b, rcond=None)[0], rtol=1e-8)
    heavy = ls.solve(ls.LeastSquares(A * size, b, ridge=1e300 * min(size, 1.0)), "direct")
    if size > 1:
        usual = ls.solve(ls.LeastSquares(A, b, ridge=0.0), "direct")
        assert np.allclose(heavy.x * size, usual.x, rtol=1e-12)
    else:
        assert np.allclose(heavy.x * 1e300, A.T @ b, rtol=1e-12)


def test_a_ridge_that_dominates_makes_small_correlations() -> None:
    found = ls.solve(ls.CCA(A, B, 1, ridge=1e120, center=False), "gram")
    assert np.allclose(found.correlations * 1e120, np.linalg.norm(A.T @ B, 2), rtol=1e-10)
    weights = found.x_weights[:, 0] * 1e60  # of unit length in a metric that is 1e120 I
    assert np.allclose(abs(weights), abs(np.linalg.svd(A.T @ B)[0][:, 0]), rtol=1e-8)


def test_answers_beyond_the_range_of_numbers_say_so() -> None:
    with pytest.warns(ls.errors.ConvergenceWarning, match="beyond the range"):
        found = ls.solve(ls.LeastSquares(A * 1e-200, B * 1e200), "direct")
    assert found.status is ls.Status.INACCURATE
    assert not found.converged
    assert np.isnan(found.residual)
    with pytest.warns(ls.errors.ConvergenceWarning, match="beyond the range"):  # H² underflows
        assert not ls.solve(ls.Discriminant(A, B * 1e-170, 2), "direct").converged


def test_iterates_and_starts_are_in_the_units_of_the_data() -> None:
    seen = []
    problem = ls.CCA(A * 1e-150, B * 1e90, 2)
    first = ls.solve(problem, "als", rng=0, tol=1e-11, callback=lambda p: seen.append(p.current()))
    usual = ls.solve(ls.CCA(A, B, 2), "als", rng=0, tol=1e-11)
    last = seen[-1]
    assert np.allclose(abs(last["x_weights"] * 1e-150), abs(usual.x_weights), rtol=1e-4, atol=1e-5)
    assert np.allclose(abs(last["y_weights"] * 1e90), abs(usual.y_weights), rtol=1e-4, atol=1e-5)
    again = ls.solve(problem, "als", start=first, tol=1e-10)
    assert again.iterations <= 1
    assert np.allclose(again.correlations, usual.correlations, rtol=1e-8)


def test_shared_moments_of_extreme_data() -> None:
    usual = ls.solve(ls.CCA(A, B, 2), "gram")
    found = ls.solve(ls.CCA(ls.Moments(A * 1e-180, B * 1e180, center=True), k=2), "gram")
    assert np.allclose(found.correlations, usual.correlations, rtol=1e-12)


def test_means_and_shares_are_given_back() -> None:
    shifted = A + 3.0
    usual = ls.solve(ls.SVD(shifted, 2, center=True), "direct")
    for size in (1e-250, 1e250):
        found = ls.solve(ls.SVD(shifted * size, 2, center=True), "direct")
        assert np.allclose(found.mean / size, shifted.mean(axis=0))
        assert np.allclose(found.explained_variance_ratio, usual.explained_variance_ratio, rtol=1e-10)
        assert np.isclose(found.total_norm / size, np.linalg.norm(shifted - shifted.mean(axis=0)))
        assert found.explained_variance is not None


def test_a_stream_that_is_read_once() -> None:
    exact = np.linalg.svd(A, compute_uv=False)[:2]
    for size in (1e-200, 1e200):
        found = ls.solve(ls.SVD(iter([A[:40] * size, A[40:] * size]), 2), "gram")
        assert np.allclose(found.S / size, exact, rtol=1e-12)
        assert found.passes == 1


def test_discriminants_on_factored_targets_of_extreme_size() -> None:
    labels = scipy.sparse.csr_array(RNG.integers(0, 2, (60, 4)).astype(float))
    K = RNG.standard_normal((4, 2))
    usual = ls.solve(ls.Discriminant(A, ls.as_operator(labels) @ ls.as_operator(K), 2), "direct")
    H = ls.as_operator(labels * 2.0**-300) @ ls.as_operator(K * 2.0**300)
    found = ls.solve(ls.Discriminant(A * 1e-100, H, 2), "direct")
    assert np.allclose(found.eigenvalues, usual.eigenvalues, rtol=1e-10)


@pytest.mark.parametrize("size", [1e-30, 1e-140, 1e-200, 1e100, 1e200])
@pytest.mark.parametrize("solver", ls.solvers("least-squares"))
def test_a_column_of_another_size_is_solved_for_or_said(solver: str, size: float) -> None:
    scale = np.array([1.0, 1.0, size, 1.0, 1.0])
    exact = np.linalg.lstsq(A, B, rcond=None)[0]
    found = ls.solve(ls.LeastSquares(A * scale, B), solver, rng=0)
    right = np.allclose(found.x * scale[:, None], exact, atol=1e-4 * abs(exact).max())
    assert right or found.status is not ls.Status.CONVERGED


def test_not_finite_is_still_named() -> None:
    for bad in (np.nan, np.inf):
        broken = A * 1e-200
        broken[3, 2] = bad
        for data in (broken, scipy.sparse.csr_array(broken), broken.astype(np.float32)):
            with pytest.raises(ls.errors.NonFiniteData, match="row 3, column 2"):
                ls.solve(ls.SVD(data, 2), "gram")


def test_half_precision_and_integers_need_no_scale() -> None:
    for data in (A.astype(np.float16), (A * 1000).astype(np.int64)):
        assert ls.solve(ls.SVD(data, 2), "gram").converged


def test_subnormal_entries() -> None:
    whole = np.round(A * 100)
    tiny = np.ldexp(whole, -1074)  # in units of the smallest number there is
    exact = np.linalg.lstsq(whole, B, rcond=None)[0]
    found = ls.solve(ls.LeastSquares(tiny, B * 1e-100), "direct")
    assert np.allclose(np.ldexp(found.x, -1074) * 1e100, exact, rtol=1e-2)
    with pytest.warns(ls.errors.ConvergenceWarning, match="S is beyond"):  # few digits are left
        assert not ls.solve(ls.SVD(tiny, 2), "gram").converged


def test_laws_do_not_take_underflow_for_zero() -> None:
    problem = ls.LeastSquares(A * 1e-82, B)
    moments = problem.moments("implicit", (1, 1))
    assert problem.conclude(moments, x=np.zeros((5, 3))).residual == 1.0
    home = moments.home
    assert np.allclose(home.column_norms(np.array([[3e-200, 3e200], [4e-200, 4e200]])), [5e-200, 5e200])


def test_replacing_keeps_the_other_fields() -> None:
    found = ls.solve(ls.SVD(A * 1e-200, 2), "gram")
    assert replace(found).rows == 60
