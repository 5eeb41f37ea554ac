"""Adjustments of the rows of a matrix: problems have the adjusted matrices, however the data were passed.

The oracles are NumPy on rows that are centred, weighted and adjusted for confounds here, and exact fractions for means
that are large beside the deviations.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import linspec as ls
from linspec.arrays import HOST
from linspec.moments import RowGram
from linspec.moments.ways import settle
from linspec.operators import AdjustedOperator, as_operator, uncounted
from linspec.operators.column_statistics import ColumnStatistics
from linspec.operators.row_model import row_model
from linspec.solving import adjusted, adjustments_of

RNG = np.random.default_rng(5)
N, P = 60, 5
A = RNG.standard_normal((N, P)) + 3.0
B = RNG.standard_normal((N, 2))
W = RNG.integers(0, 4, N).astype(float)
Z = np.column_stack([np.ones(N), RNG.standard_normal(N)])


def residual(X: np.ndarray, w: np.ndarray, Z: np.ndarray | None, *, center: bool) -> np.ndarray:
    """D X less its projection on the columns of D [1 Z]."""
    roots = np.sqrt(w)[:, None]
    columns = ([np.ones((len(X), 1))] if center else []) + ([] if Z is None else [Z])
    found = roots * X
    if columns:
        basis, s, _ = np.linalg.svd(roots * np.hstack(columns), full_matrices=False)
        basis = basis[:, s > 1e-12 * s[0]]
        for _ in range(2):
            found = found - basis @ (basis.T @ found)
    return found


@pytest.mark.parametrize("solver", ls.solvers("least-squares"))
def test_an_operator_that_is_centred_already_is_centred_about_its_means(solver: str) -> None:
    if solver == "pcr":
        pytest.skip("principal components are not least squares")
    row = np.full(P, 2.0)
    given = as_operator(A).centered(row)
    options = {"tol": 1e-10} if hasattr(ls.get_solver(solver, "least-squares"), "tol") else {}
    found = ls.solve(ls.LeastSquares(given, B, center=True), solver, rng=0, **options)
    exact = np.linalg.lstsq(A - A.mean(axis=0), B - B.mean(axis=0), rcond=None)[0]
    np.testing.assert_allclose(found.x, exact, atol=1e-7)
    np.testing.assert_allclose(found.a_mean, A.mean(axis=0) - row, rtol=1e-14)
    np.testing.assert_allclose(
        found.predict(A - row), (A - A.mean(axis=0)) @ exact + B.mean(axis=0), atol=1e-6
    )


@pytest.mark.parametrize("problem", ["svd", "cca", "discriminant"])
def test_a_row_is_subtracted_from_sparse_rows_and_then_their_means(problem: str) -> None:
    given = as_operator(sp.csr_array(A)).centered(A[0])
    labels = np.arange(N) % 3
    makers: dict[str, Any] = {
        "svd": lambda X: ls.SVD(X, k=2, center=True),
        "cca": lambda X: ls.CCA(X, B, k=2),
        "discriminant": lambda X: ls.Discriminant(X, ls.targets.lda(labels)),
    }
    values = {"svd": "S", "cca": "correlations", "discriminant": "eigenvalues"}[problem]
    found, exact = (getattr(ls.solve(makers[problem](X), rng=0), values) for X in (given, A - A.mean(axis=0)))
    np.testing.assert_allclose(found, exact, rtol=1e-9)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("confounds", [None, Z], ids=["plain", "confounds"])
@pytest.mark.parametrize("far", [0.0, 1e9], ids=["near", "far"])
@pytest.mark.parametrize("kind", ["array", "sparse", "products"])
def test_the_gram_matrix_of_rows_is_that_of_adjusted_rows(
    kind: str, far: float, confounds: np.ndarray | None, center: bool
) -> None:
    if far and (kind == "products" or not (center or confounds is not None)):
        pytest.skip("digits of large means are lost in products, and are kept in what is not centred")
    X = np.round(RNG.standard_normal((12, 40)) * 2**12) / 2**12
    given: Any = {
        "array": lambda X: X,
        "sparse": sp.csr_array,
        "products": sp.linalg.aslinearoperator,
    }[kind](X + far)
    w, own = W[:12] + 1.0, None if confounds is None else confounds[:12]
    model = row_model(center=center, weights=w, confounds=own, about_means=True)
    K = RowGram(AdjustedOperator(as_operator(given), model, settle)).form()
    # Confounds that include ones, and centring, leave nothing of a constant.
    exact = residual(X, w, own, center=center)
    np.testing.assert_allclose(K, exact @ exact.T, atol=(1e-12 if not far else 1e-5) * np.abs(X @ X.T).max())


def test_factors_of_columns_are_in_the_gram_matrix_of_rows() -> None:
    X = sp.random_array((20, 60), density=0.3, rng=1, format="csr")
    problem = adjusted(ls.SVD(X, k=2, center=True, scale=True))
    K, dense = RowGram(problem.A).form(), X.toarray()
    centred = dense - dense.mean(axis=0)
    spread = centred.std(axis=0)
    scaled = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    np.testing.assert_allclose(K, scaled @ scaled.T, atol=1e-11)


@pytest.mark.parametrize("mean", [1e4, 1e8, 1e12])
def test_products_of_sparse_columns_with_confounds_lose_nothing_to_large_means(mean: float) -> None:
    """AᵀB for confounds B, of columns in which all entries are stored: by exact fractions."""
    X = np.round(RNG.standard_normal((N, 2)) * 2**8) / 2**8 + np.round(mean)
    stored = np.column_stack([X, X[:, :1] * (np.arange(N) % 2 == 0)[:, None]])
    basis, w = RNG.standard_normal((N, 1)), W
    gathered = ColumnStatistics(HOST)
    gathered.add(as_operator(sp.csr_array(stored)), w, basis)
    means = [
        sum(Fraction(x) * Fraction(v) for x, v in zip(column, w, strict=True)) / Fraction(w.sum())
        for column in stored.T
    ]
    for j, column in enumerate(stored.T):
        about = [Fraction(x) - means[j] for x in column]
        exact = sum(a * a * Fraction(v) for a, v in zip(about, w, strict=True))
        assert float(abs(Fraction(gathered.spread[j]) - exact) / exact) <= 1e-13
        assert abs(Fraction(gathered.mean[j]) - means[j]) <= Fraction(4 * np.spacing(gathered.mean[j]))
    point = stored[0]  # the same row is subtracted here and there
    found = gathered.beside(point, center=False)
    for j, column in enumerate(stored.T[:2]):
        exact = sum(
            (Fraction(x) - Fraction(point[j])) * Fraction(b) * Fraction(v)
            for x, b, v in zip(column, basis[:, 0], w, strict=True)
        )
        size = float(
            sum(
                abs(Fraction(x) - Fraction(point[j])) * Fraction(abs(b) * v)
                for x, b, v in zip(column, basis[:, 0], w, strict=True)
            )
        )
        assert abs(float(Fraction(found[j, 0]) - exact)) <= 1e-11 * size


def test_moments_of_matrices_that_differ_in_their_means_see_through_to_the_rows() -> None:
    first = AdjustedOperator(as_operator(A), row_model(center=True, weights=None, confounds=None), settle)
    first.settle()
    Ac = A - A.mean(axis=0)
    for form in ("implicit", "dense"):
        moments = ls.Moments(first, B, form=form)
        products = moments.products(np.eye(P), np.eye(2))
        for found, exact in zip(products, (Ac.T @ Ac, Ac.T @ B, B.T @ Ac, B.T @ B), strict=True):
            np.testing.assert_allclose(found, exact, atol=1e-11)


def test_what_one_solve_of_moments_learns_serves_the_next() -> None:
    moments = ls.Moments(A, center=True, form="implicit")
    first = ls.solve(ls.SVD(moments, k=2, center=True), "spca", rng=0)
    again = ls.solve(ls.SVD(moments, k=2, center=True), "spca", rng=0)
    exact = np.linalg.svd(A - A.mean(axis=0), compute_uv=False)[:2]
    np.testing.assert_allclose(again.S, exact, rtol=1e-9)
    np.testing.assert_allclose(again.mean, A.mean(axis=0), rtol=1e-14)
    assert again.passes < first.passes


def test_the_first_product_of_a_solver_learns_and_is_planned_for() -> None:
    seen: list[float] = []

    class First(ls.Solver):
        def solve(self, problem: Any, run: Any) -> Any:
            seen.append(run.settling)
            with pytest.raises(ls.errors.BudgetTooSmall):
                run.plan(setup=run.settling + 4.0)
            Y = problem.A.matmat(np.eye(P))
            seen.append(run.settling)
            assert run.passes == 2.0
            np.testing.assert_allclose(Y, A - A.mean(axis=0), atol=1e-13)
            return run.finish(Vh=np.linalg.svd(Y)[2][:1])

    ls.solve(ls.SVD(A, k=1, center=True), First(), max_passes=4)
    assert seen == [1.0, 0.0]


def test_an_adjusted_matrix_is_named_where_it_is_not_finite(tmp_path: Path) -> None:
    broken = A.copy()
    broken[7, 1] = np.nan
    np.save(tmp_path / "X.npy", broken)
    with pytest.raises(ls.errors.NonFiniteData, match="X must be finite; got nan at row 7, column 1"):
        ls.solve(ls.CCA(tmp_path / "X.npy", B, k=1), "stochastic-appgrad", rng=0)


def test_the_counter_is_outside_of_the_adjustment() -> None:
    problem = ls.SVD(A, k=1, center=True)
    assert uncounted(problem.A)[0].adjustment is None  # the problem itself is as it was given
    assert adjustments_of(adjusted(problem)).keys() == {"A"}
    assert adjustments_of(adjusted(ls.SVD(A, k=1))) == {}
