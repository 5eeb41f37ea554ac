"""Units of the data: within 1e±59 an answer is that of unit 1, from 1e±61 on the data are refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import linspec as ls
from linspec.sweeps.blocks import BlockOperator

RNG = np.random.default_rng(7)
A = RNG.standard_normal((60, 5))
B = A @ RNG.standard_normal((5, 3)) + 0.3 * RNG.standard_normal((60, 3))
INSIDE, OUTSIDE = (1e-59, 1e59), (1e-300, 1e-160, 1e-61, 1e61, 1e160, 1e300)
"""The largest entry of A and of B is between 1 and 10."""


@pytest.fixture(autouse=True)
def no_numpy_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def as_map(tmp_path: Any, entries: Any) -> Any:
    path = tmp_path / f"rows{len(list(tmp_path.iterdir()))}.npy"
    np.save(path, entries)
    return np.load(path, mmap_mode="r")


def once(entries: Any, _: Any) -> Any:
    return iter([entries[:23], entries[23:]])


KINDS = {
    "dense": lambda entries, _: entries,
    "sparse": lambda entries, _: scipy.sparse.csr_array(entries),
    "map": lambda entries, path: as_map(path, entries),
    "callable": lambda entries, _: lambda: iter([entries[:23], entries[23:]]),
    "centred": lambda entries, _: ls.as_operator(entries).centered(np.zeros(entries.shape[1])),
    "sum": lambda entries, _: 0.5 * ls.as_operator(entries) + 0.5 * ls.as_operator(entries),
    "products": lambda entries, _: scipy.sparse.linalg.aslinearoperator(entries),
    "blocks": lambda entries, _: BlockOperator([entries[:23], entries[23:]]),
}

FAMILIES: dict[str, tuple[Any, str, Any]] = {
    "least-squares": (
        lambda X, Y, s, **rest: ls.LeastSquares(X, Y, ridge=0.5 * s * s, **rest),
        "cg",
        lambda f, s, t: f.x * (s / t),
    ),
    "svd": (
        lambda X, Y, s, **rest: ls.SVD(X, 3, center=True, **rest),
        "block-krylov",
        lambda f, s, t: f.S / s,
    ),
    "cca": (
        lambda X, Y, s, **rest: ls.CCA(X, Y, 2, ridge=(0.5 * s * s, 0), **rest),
        "lobpcg",
        lambda f, s, t: f.x_weights * s,
    ),
    "discriminant": (
        lambda X, Y, s, **rest: ls.Discriminant(X, Y, 2, ridge=0.5 * s * s, **rest),
        "two-stage",
        lambda f, s, t: f.weights * s,
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow(keep=8)
def test_units_change_no_answer_or_are_refused(family: str, kind: str, tmp_path: Any) -> None:
    make, solver, answer = FAMILIES[family]
    wrap = KINDS[kind]

    def solved(s: float, t: float = 1.0) -> Any:
        return ls.solve(make(wrap(A * s, tmp_path), wrap(B * t, tmp_path), s), solver, rng=0, tol=1e-9)

    usual = solved(1.0)
    for s, t in ((1e-59, 1.0), (1e59, 1.0), (1e-59, 1e59)):
        found = solved(s, t)
        assert np.allclose(answer(found, s, t), answer(usual, 1.0, 1.0), rtol=1e-5, atol=1e-6)
        assert found.status is usual.status
    for s in OUTSIDE:
        with pytest.raises(ls.errors.InvalidProblem, match=r"lie between|finite"):
            solved(s)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["weights", "confounds", "scale"])
def test_units_beside_weights_confounds_and_scale(what: str, kind: str, tmp_path: Any) -> None:
    if (what, kind) == ("scale", "products") or (what, kind) == ("scale", "sum"):
        pytest.skip("lengths of columns are not known of products")
    w, Z = RNG.uniform(0.5, 2.0, 60), RNG.standard_normal((60, 2)) + 2.0
    rest: dict[str, Any] = {
        "weights": {"sample_weight": w},
        "confounds": {"confounds": Z},
        "scale": {"scale": True},
    }[what]
    wrap = KINDS[kind]

    def solved(s: float, **other: Any) -> Any:
        ridge = 3.0 if what == "scale" else 3.0 * s * s  # scaled columns have no unit
        problem = ls.CCA(wrap(A * s, tmp_path), B, 2, ridge=(ridge, 0.0), **{**rest, **other})
        return ls.solve(problem, "gram").correlations

    usual = solved(1.0)
    for s in INSIDE:
        assert np.allclose(solved(s / 4), usual, rtol=1e-8)
    for s in OUTSIDE:
        with pytest.raises(ls.errors.InvalidProblem, match=r"lie between|finite"):
            solved(s * 4 if s > 1 else s / 4)


@pytest.mark.parametrize("unit", [1e-59, 1e-20, 1e20, 1e58])
def test_units_of_weights_are_those_of_rows_and_ridges(unit: float) -> None:
    w = RNG.uniform(0.5, 2.0, 60)
    usual = ls.solve(ls.CCA(A, B, 2, ridge=0.7, sample_weight=w), "gram")
    found = ls.solve(ls.CCA(A, B, 2, ridge=0.7 * unit**2, sample_weight=w * unit**2), "gram")
    assert np.allclose(found.correlations, usual.correlations, rtol=1e-9)
    with pytest.raises(ls.errors.DataOutOfRange, match="with the root of its weight"):
        ls.solve(ls.CCA(A, B, 2, sample_weight=w * 1e124), "gram")
    with pytest.raises(ls.errors.DataOutOfRange):
        ls.solve(ls.CCA(A, B, 2, sample_weight=w * 1e-300 * 1e-20), "gram")
    # Large entries with small weights are ordinary numbers.
    shifted = ls.solve(ls.CCA(A * unit, B * unit, 2, ridge=0.7, sample_weight=w * unit**-2), "gram")
    assert np.allclose(shifted.correlations, usual.correlations, rtol=1e-9)


@pytest.mark.parametrize("unit", [1e-200, 1e-160, 1e-59, 1e59])
def test_small_confounds_beside_others_are_removed(unit: float) -> None:
    Z = RNG.standard_normal((60, 2))
    X = A + Z @ RNG.standard_normal((2, 5))
    usual = ls.solve(ls.SVD(X, 2, center=True, confounds=Z)).S
    scale = [unit, 1.0]
    assert np.allclose(ls.solve(ls.SVD(X, 2, center=True, confounds=Z * scale)).S, usual, rtol=1e-10)


@pytest.mark.parametrize("unit", [1e-300, 1e-61, 1e61, 1e300])
def test_confounds_out_of_the_range_are_refused(unit: float) -> None:
    with pytest.raises(ls.errors.DataOutOfRange, match="confounds"):
        ls.SVD(A, 2, confounds=RNG.standard_normal((60, 2)) * unit * (5 if unit > 1 else 1 / 5))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("kind", ["map", "callable", "once", "blocks"])
def test_one_row_is_enough(kind: str, late: bool, tmp_path: Any) -> None:
    rows = RNG.standard_normal((3000, 5))
    rows[2990 if late else 7] *= 1e70
    wrap = once if kind == "once" else KINDS[kind]
    with pytest.raises(ls.errors.DataOutOfRange, match="entry of A"):
        ls.solve(ls.SVD(wrap(rows, tmp_path), 2), "gram")
    rows[2990 if late else 7] *= 1e-130
    wrap = once if kind == "once" else KINDS[kind]
    exact = np.linalg.svd(rows, compute_uv=False)[:2]
    assert np.allclose(ls.solve(ls.SVD(wrap(rows, tmp_path), 2), "gram").S, exact)


def test_rows_that_weigh_nothing_have_no_size() -> None:
    rows, w = A.copy(), np.ones(60)
    rows[5], w[5] = rows[5] * 1e70, 0.0
    exact = np.linalg.svd(np.delete(A, 5, axis=0), compute_uv=False)[:2]
    assert np.allclose(ls.solve(ls.SVD(rows, 2, sample_weight=w)).S, exact)


def test_the_message_names_matrix_column_and_power() -> None:
    entries = A * 1e-80
    entries[4, 3] = 5e-75
    match = (
        r"largest entry of Y.*5e-75 in column 3. Multiply Y by 1e74, and its ridge, if it has one, by 1e148"
    )
    with pytest.raises(ls.errors.DataOutOfRange, match=match):
        ls.solve(ls.CCA(B, entries, 2))


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_factors_and_products_of_operators(factor: float) -> None:
    bare = scipy.sparse.linalg.aslinearoperator(A)
    for data in (ls.as_operator(A) * factor, ls.as_operator(bare) * factor):
        with pytest.raises(ls.errors.DataOutOfRange):
            ls.solve(ls.SVD(data, 2), "block-krylov", rng=0)
    squared = scipy.sparse.linalg.aslinearoperator(A * (1e-40 if factor < 1 else 1e40))
    with pytest.raises(ls.errors.DataOutOfRange):
        ls.solve(ls.SVD(squared.T @ squared, 2), "block-krylov", rng=0)


@pytest.mark.parametrize("ridge", [1e-300, 1e-123, 1e123, 1e300])
def test_ridges_out_of_the_range_are_refused(ridge: float) -> None:
    for problem in (
        ls.LeastSquares(A, B, ridge=ridge),
        ls.LeastSquares(A, B, ridge=[1.0, ridge]),
        ls.CCA(A, B, 2, ridge=(1.0, ridge)),
        ls.Discriminant(A, B, 2, ridge=ridge),
    ):
        with pytest.raises(ls.errors.DataOutOfRange, match="ridge must be 0 or lie between"):
            ls.solve(problem)
    with pytest.raises(ls.errors.DataOutOfRange, match="ridge must be 0 or lie between"):
        ls.cross_validate(ls.LeastSquares(A, B), ridges=[1.0, ridge])


def _with_a_stored_zero(entries: Any) -> Any:
    matrix = scipy.sparse.csr_array(entries)
    matrix.data[0] = 0.0
    return matrix


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array, _with_a_stored_zero])
def test_a_faint_column_that_is_scaled_is_named(wrap: Any) -> None:
    entries = A.copy()
    entries[:, 1] *= 1e-160
    found = ls.solve(ls.SVD(wrap(entries), 2, scale=True), "gram")
    assert found.status is ls.Status.ILL_CONDITIONED
    assert "the first is column 1" in found.message


@pytest.mark.parametrize("size", INSIDE)
@pytest.mark.parametrize(
    "solver", sorted(set(ls.solvers("cca")) - {"naive-gradient"})
)  # which is not free of units
@pytest.mark.filterwarnings("ignore::linspec.errors.AccuracyWarning")
@pytest.mark.slow(keep=8)
def test_cca_does_not_depend_on_units(solver: str, size: float) -> None:
    usual = ls.solve(ls.CCA(A, B, 2), solver, rng=0)
    found = ls.solve(ls.CCA(A * size, B, 2), solver, rng=0)
    assert np.allclose(found.correlations, usual.correlations, rtol=1e-5)
    assert found.status is usual.status


@pytest.mark.parametrize("size", INSIDE)
@pytest.mark.parametrize("solver", ["auto", *ls.solvers("least-squares")])
def test_coefficients_in_other_units_are_those_of_lapack(solver: str, size: float) -> None:
    exact = np.linalg.lstsq(A, B[:, 0], rcond=None)[0]
    found = ls.solve(ls.LeastSquares(A * size, B[:, 0]), solver, rng=0)
    assert found.converged
    assert np.allclose(found.x * size, exact, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("size", INSIDE)
@pytest.mark.parametrize("solver", ls.solvers("svd"))
def test_singular_values_in_other_units_are_those_of_lapack(solver: str, size: float) -> None:
    usual = ls.solve(ls.SVD(A, 2), solver, rng=0)
    found = ls.solve(ls.SVD(A * size, 2), solver, rng=0)
    assert np.allclose(found.S / size, usual.S, rtol=1e-6)
    assert found.status is usual.status


@pytest.mark.parametrize("size", [1e-37, 1e-30, 1e-15, 1e15, 1e30])
@pytest.mark.parametrize("kind", [*KINDS, "once"])
def test_float32_data_of_any_size_are_multiplied_in_float64(kind: str, size: float, tmp_path: Any) -> None:
    single = (A * size).astype(np.float32)
    exact = np.linalg.svd(single.astype(np.float64), compute_uv=False)[:2]
    wrap = once if kind == "once" else KINDS[kind]
    for solver in ("gram",) if kind == "once" else ("gram", "block-krylov"):
        found = ls.solve(ls.SVD(wrap(single, tmp_path), 2), solver, rng=0)
        assert np.allclose(found.S, exact, rtol=1e-6)


@pytest.mark.parametrize("size", [1e-36, 1e-24, 1e-12, 1e12, 1e25, 1e36])
@pytest.mark.parametrize("solver", ["cg", "lsqr", "block-krylov", "lanczos", "lobpcg", "als", "two-stage"])
def test_float32_products_of_any_size_are_those_of_the_entries(solver: str, size: float) -> None:
    single = (A * size).astype(np.float32)
    exact, products = single.astype(np.float64), scipy.sparse.linalg.aslinearoperator(single)
    problems: dict[str, Any] = {
        "least-squares": lambda X: ls.LeastSquares(X, B, ridge=(0.1 * size) ** 2),
        "svd": lambda X: ls.SVD(X, 2, center=True),
        "cca": lambda X: ls.CCA(X, B, 2),
        "discriminant": lambda X: ls.Discriminant(X, B, 2),
    }
    family = next(family for family in problems if solver in ls.solvers(family))
    found = ls.solve(problems[family](products), solver, rng=0)
    usual = ls.solve(problems[family](exact), "direct")
    of = FAMILIES[family][2] if family in ("least-squares", "svd") else lambda f, *_: f.eigenvalues
    of = (lambda f, *_: f.correlations) if family == "cca" else of
    assert found.converged
    assert np.allclose(of(found, size, 1.0), of(usual, size, 1.0), rtol=1e-4, atol=1e-6)


def test_a_multiple_of_narrow_integers_may_be_large() -> None:
    entries = np.arange(60).reshape(12, 5) % 7 - 3
    entries[0, 0] = -128
    found = ls.solve(ls.SVD(ls.as_operator(scipy.sparse.csr_array(entries.astype(np.int8))) * 1e50, 1))
    assert np.allclose(found.S / 1e50, np.linalg.svd(entries.astype(float), compute_uv=False)[:1])
    with pytest.raises(ls.errors.DataOutOfRange, match=r"1.28e\+61 in column 0"):
        ls.solve(ls.SVD(ls.as_operator(scipy.sparse.csr_array(entries.astype(np.int8))) * 1e59, 1))


@pytest.mark.parametrize("kind", ["dense", "sparse", "map", "callable", "blocks", "once"])
@pytest.mark.parametrize("first", [True, False])
def test_a_row_counts_with_its_weight_wherever_it_stands(kind: str, first: bool, tmp_path: Any) -> None:
    rows, w = A.copy(), np.ones(60)
    at = 0 if first else 59
    rows[at], w[at] = rows[at] * 1e80, 1e-160
    exact = np.linalg.svd(np.sqrt(w)[:, None] * rows, compute_uv=False)[:2]
    wrap = once if kind == "once" else KINDS[kind]
    found = ls.solve(ls.SVD(wrap(rows, tmp_path), 2, sample_weight=w), "gram")
    assert np.allclose(found.S, exact, rtol=1e-10)


@pytest.mark.parametrize("size", [1e-12, 1e15, 1e20])
def test_slices_on_a_device_without_float64_are_taken_or_refused_as_arrays_are(size: float) -> None:
    xp = pytest.importorskip("array_api_strict", reason="no array-api-strict")
    rows = xp.asarray((A * size).astype(np.float32), device=xp.Device("no_float64"))
    for matrix in (rows, lambda: iter([rows[:23, :], rows[23:, :]])):
        problem = ls.SVD(matrix, 2)
        if size > 1e16:
            with pytest.raises(ls.errors.UnsupportedData, match=r"A has float32 entries of .*e\+20"):
                ls.solve(problem, "gram")
        else:
            exact = np.linalg.svd(A, compute_uv=False)[:2]
            assert np.allclose(np.asarray(ls.solve(problem, "gram").S) / size, exact, rtol=1e-5)


@pytest.mark.parametrize("kind", ["map", "callable"])
def test_float32_rows_of_another_size_may_come_late(kind: str, tmp_path: Any) -> None:
    rows = RNG.standard_normal((3000, 5)).astype(np.float32)
    rows[2990:] *= np.float32(1e25)
    exact = np.linalg.svd(rows.astype(np.float64), compute_uv=False)[:1]
    found = ls.solve(ls.SVD(KINDS[kind](rows, tmp_path), 1), "block-krylov", rng=0)
    assert np.allclose(found.S, exact, rtol=1e-6)


def test_a_ridge_that_dominates_makes_small_correlations() -> None:
    found = ls.solve(ls.CCA(A, B, 1, ridge=1e119, center=False), "gram")
    assert np.allclose(found.correlations * 1e119, np.linalg.norm(A.T @ B, 2), rtol=1e-10)
    weights = found.x_weights[:, 0] * 1e119**0.5  # of unit length in a metric that is 1e119 I
    assert np.allclose(abs(weights), abs(np.linalg.svd(A.T @ B)[0][:, 0]), rtol=1e-8)


def test_iterates_and_starts_are_in_the_units_of_the_data() -> None:
    seen = []
    problem = ls.CCA(A * 1e-50, B * 1e40, 2)
    first = ls.solve(problem, "als", rng=0, tol=1e-11, callback=lambda p: seen.append(p.current()))
    usual = ls.solve(ls.CCA(A, B, 2), "als", rng=0, tol=1e-11)
    last = seen[-1]
    assert np.allclose(abs(last["x_weights"] * 1e-50), abs(usual.x_weights), rtol=1e-4, atol=1e-5)
    assert np.allclose(abs(last["y_weights"] * 1e40), abs(usual.y_weights), rtol=1e-4, atol=1e-5)
    again = ls.solve(problem, "als", start=first, tol=1e-10)
    assert again.iterations <= 1
    assert np.allclose(again.correlations, usual.correlations, rtol=1e-8)


def test_shared_moments_are_of_data_in_the_range() -> None:
    usual = ls.solve(ls.CCA(A, B, 2), "gram")
    found = ls.solve(ls.CCA(ls.Moments(A * 1e-58, B * 1e58, center=True), k=2), "gram")
    assert np.allclose(found.correlations, usual.correlations, rtol=1e-12)
    with pytest.raises(ls.errors.DataOutOfRange):
        ls.solve(ls.CCA(ls.Moments(A * 1e-80, B, center=True), k=2), "gram")


@pytest.mark.parametrize("kind", ["dense", "sparse", "map", "callable", "once"])
@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_no_fold_leaves_before_the_size_is_known(kind: str, size: float, tmp_path: Any) -> None:
    wrap = once if kind == "once" else KINDS[kind]
    problem = ls.LeastSquares(wrap(A * size, tmp_path), B[:, 0])
    with pytest.raises(ls.errors.DataOutOfRange):
        ls.cross_validate(problem, splitter=np.arange(60) % 3, form="dense")


def test_means_and_shares_are_in_units_of_the_data() -> None:
    shifted = A + 3.0
    usual = ls.solve(ls.SVD(shifted, 2, center=True), "direct")
    for size in (1e-59, 1e58):
        found = ls.solve(ls.SVD(shifted * size, 2, center=True), "direct")
        assert np.allclose(found.mean / size, shifted.mean(axis=0))
        assert np.allclose(found.explained_variance_ratio, usual.explained_variance_ratio, rtol=1e-10)
        assert np.isclose(found.total_norm / size, np.linalg.norm(shifted - shifted.mean(axis=0)))


@pytest.mark.parametrize("size", [1e-30, 1e-140, 1e-200])
@pytest.mark.parametrize("solver", ls.solvers("least-squares"))
def test_a_small_column_is_solved_for_or_said(solver: str, size: float) -> None:
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


def test_subnormal_entries_are_refused_unless_others_are_ordinary() -> None:
    tiny = np.ldexp(np.round(A * 100), -1074)  # in units of the smallest number there is
    with pytest.raises(ls.errors.DataOutOfRange):
        ls.solve(ls.LeastSquares(tiny, B), "direct")
    beside = np.hstack([A, tiny])
    exact = np.linalg.svd(A, compute_uv=False)[:2]
    for solver in ls.solvers("svd"):
        assert np.allclose(ls.solve(ls.SVD(beside, 2), solver, rng=0).S, exact, rtol=1e-2)


def test_laws_do_not_take_underflow_for_zero() -> None:
    problem = ls.LeastSquares(A * 1e-82, B)
    moments = problem.moments("implicit", (1, 1))
    assert problem.conclude(moments, x=np.zeros((5, 3))).residual == 1.0
    home = moments.home
    assert np.allclose(home.column_norms(np.array([[3e-200, 3e200], [4e-200, 4e200]])), [5e-200, 5e200])


@pytest.mark.parametrize("unit", [1e-160, 1e-315])
@pytest.mark.parametrize("kind", ["slices", "map", "blocks"])
@pytest.mark.parametrize("solver", ["gram", "direct", "spca", "lanczos"])
def test_scaled_columns_whose_squares_are_no_numbers_are_named_wherever_they_lie(
    solver: str, kind: str, unit: float, tmp_path: Any
) -> None:
    A = np.random.default_rng(0).standard_normal((60, 3))
    A[:, 1] *= unit
    np.save(tmp_path / "A.npy", A)
    kinds = {
        "slices": lambda: iter([A[:25], A[25:]]),
        "map": np.load(tmp_path / "A.npy", mmap_mode="r"),
        "blocks": BlockOperator([A[:25], A[25:]]),
    }
    found = ls.solve(ls.SVD(kinds[kind], 1, scale=True), solver, rng=0)
    assert found.status is ls.Status.ILL_CONDITIONED
    assert not found.converged
    assert "column 1" in found.message


@pytest.mark.filterwarnings("ignore::linspec.errors.AccuracyWarning")
@pytest.mark.parametrize("others", [1.0, 1e-20])
def test_a_scaled_column_below_the_numbers_of_float32_is_left_out_and_named(others: float) -> None:
    rng = np.random.default_rng(0)
    X, Y = (rng.standard_normal((50, p)).astype(np.float32) for p in (3, 2))
    Y += X[:, :2]
    units = np.array([others, 1e-39, others], dtype=np.float32)
    for few, state in (
        (1, lambda X: ls.SVD(X, 1, scale=True)),
        (0, lambda X: ls.CCA(X, Y, 1, scale=True)),
        (0, lambda X: ls.MultisetCCA([X, Y], 1, scale=True)),
        (0, lambda X: ls.PLSRegression(X, Y, 1, scale=True)),
    ):
        found, without = (ls.solve(state(A)) for A in (X * units, (X * units)[:, [0, 2]]))
        assert not found.converged
        assert "column 1" in found.message
        values = next(
            name for name in ("S", "correlations", "eigenvalues", "covariances") if hasattr(found, name)
        )
        assert np.allclose(getattr(found, values), getattr(without, values), rtol=1e-4)
        if few:
            scores = found.transform(X * units)
            assert np.allclose(np.linalg.norm(scores, axis=0), found.S, rtol=1e-4)
    x = ls.solve(ls.LeastSquares(X * units, Y[:, 0], scale=True)).x
    assert x[1] == 0
    assert np.isfinite(x).all()


def test_float32_needs_no_column_above_the_root_of_its_least_number_if_it_is_scaled() -> None:
    """Scaled columns have no unit: the singular values are those of the columns times powers of two."""
    X = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    found = ls.solve(ls.SVD(X * np.ldexp(1.0, [0, -110, 0]).astype(np.float32), 2, scale=True))
    assert found.status is ls.Status.CONVERGED
    assert np.allclose(found.S, ls.solve(ls.SVD(X, 2, scale=True)).S, rtol=1e-6)


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
@pytest.mark.parametrize("unit", [1e-160, 1e-200])
@pytest.mark.parametrize("weighted", [False, True])
def test_columns_whose_squares_are_no_numbers_are_named_in_any_library(
    library: str, unit: float, weighted: bool
) -> None:
    xp = pytest.importorskip(library, reason=f"no {library}")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    X[:, 1] *= unit
    weights = rng.uniform(0.5, 1.0, 60) if weighted else None
    b = xp.asarray(rng.standard_normal(60))
    found = ls.solve(ls.LeastSquares(xp.asarray(X), b, sample_weight=weights), "direct")
    assert found.status in (ls.Status.ILL_CONDITIONED, ls.Status.RANK_DEFICIENT)
    assert "column 1" in found.message
    X[:, 1] = 0.0  # zeros are no numbers that underflow
    assert "squares" not in ls.solve(ls.LeastSquares(xp.asarray(X), b), "direct").message


@pytest.mark.parametrize("solver", ["direct", "appgrad", "als", "lobpcg", "gram"])
@pytest.mark.filterwarnings(
    "ignore::linspec.errors.ConvergenceWarning", "ignore::linspec.errors.AccuracyWarning"
)
def test_weights_of_a_column_whose_squares_are_no_numbers_do_not_overflow(solver: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    Y = X @ rng.standard_normal((3, 4)) + rng.standard_normal((40, 4))
    X[:, 1] *= 1e-160
    few = {} if solver in ("direct", "gram") else {"max_iterations": 10}
    found = ls.solve(ls.CCA(X, Y, 1), solver, rng=0, **few)
    assert found.status is not ls.Status.CONVERGED


@pytest.mark.parametrize("solver", ls.solvers("svd"))
def test_values_whose_squares_are_no_numbers_do_not_converge(solver: str) -> None:
    x = np.random.default_rng(0).standard_normal(30)
    found = ls.solve(ls.SVD(np.column_stack([np.ones(30), 1e-200 * x]), 1, center=True), solver, rng=0)
    assert not found.converged


def test_large_ridges_in_large_units_do_not_overflow() -> None:
    """Powers of two change no digit: eigenvalues grow with the square of the targets."""
    rng = np.random.default_rng(0)
    X, H, ridge = rng.standard_normal((3, 5)), rng.standard_normal((3, 2)), 1e-3
    unit = 2.0**190
    far, near = (
        ls.solve(ls.Discriminant(X * u, H * u, 1, ridge=ridge * u * u), "two-stage", rng=0)
        for u in (unit, 1.0)
    )
    assert np.allclose(far.eigenvalues / unit**2, near.eigenvalues, rtol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("matrix", ["diagonal", "dense", "sparse"])
def test_products_of_sparse_and_of_dense_matrices_have_the_same_range(matrix: str, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    entries = {
        "diagonal": scipy.sparse.diags_array(np.linspace(1, 2, 1000)).tocsr(),
        "dense": rng.standard_normal((1000, 1000)),
        "sparse": scipy.sparse.random_array((1000, 900), density=0.003, rng=rng).tocsr(),
    }[matrix]
    w = {"sample_weight": rng.uniform(0.5, 1, 1000)} if weighted else {}
    largest = abs(np.sqrt(w.get("sample_weight", np.ones(1000)))[:, None] * entries).max()
    for solver in ("block-krylov", "spca"):
        for size in (1e-59, 1e59):
            unit = scipy.sparse.linalg.aslinearoperator(entries * (size / largest))
            assert ls.solve(ls.SVD(unit, 1, **w), solver, rng=0, max_passes=8).S[0] > 0
        for size in (1e-61, 1e61):
            unit = scipy.sparse.linalg.aslinearoperator(entries * (size / largest))
            with pytest.raises(ls.errors.DataOutOfRange):
                ls.solve(ls.SVD(unit, 1, **w), solver, rng=0, max_passes=8)


def test_all_entries_of_products_with_the_identity_are_known() -> None:
    for size, inside in ((1e-61, False), (1e-59, True), (1e59, True), (1e61, False)):
        problem = ls.SVD(scipy.sparse.linalg.aslinearoperator(size * np.diag(np.linspace(0.5, 1, 90))), 1)
        if inside:
            assert np.isclose(ls.solve(problem, "gram").S[0] / size, 1.0)
        else:
            with pytest.raises(ls.errors.DataOutOfRange):
                ls.solve(problem, "gram")


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["gram", "direct", "lobpcg"])
def test_columns_without_squares_have_no_bounds(solver: str) -> None:
    X, Y = A[:, :2], np.column_stack([B[:, 0], 1e-250 * A[:, 0]])
    found = ls.solve(ls.CCA(X, scipy.sparse.csr_array(Y), 2, scale=True), solver, rng=0)
    exact = ls.solve(ls.CCA(X, np.column_stack([B[:, 0], A[:, 0]]), 2), "direct").correlations
    off = np.abs(found.correlations[:, None] - exact[None, :]).min(axis=1)
    assert found.bounds is None or (off <= found.bounds + 1e-9).all()
    assert not found.converged or np.allclose(found.correlations, exact)


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["spca", "lazy-spca"])
def test_factors_of_small_columns_overflow_no_square(solver: str) -> None:
    small = A * np.array([1.0, 1e-160, 1.0, 1.0, 1.0])
    ls.solve(ls.SVD(ls.as_operator(small) * 1.0, 2, center=True, scale=True), solver, rng=0)
