"""Second moments of sets of rows against NumPy, from rows of every kind."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import DataOutOfRange, InvalidProblem, NonFiniteData
from linspec.solving import adjusted
from linspec.sweeps.blocks import BlockOperator

RNG = np.random.default_rng(0)
X, Y, Z = RNG.standard_normal((60, 4)) + 5, RNG.standard_normal((60, 3)) - 2, RNG.standard_normal((60, 2)) + 1
W = RNG.integers(0, 3, 60) * 1.0
CELLS = [np.arange(0, 60, 3), np.arange(1, 60, 3), np.arange(2, 60, 3)]
OVERLAPPING = [np.arange(40), np.arange(20, 50)]


def expected(rows, beside):
    """Count, means, products of the first columns with all, and squares of the others, about weighted means."""
    D = np.hstack([X, Z, Y] if beside else [X, Y, Z])[rows]
    w, g = W[rows], 6 if beside else 9
    mean = w @ D / w.sum()
    S = (D - mean).T @ ((D - mean) * w[:, None])
    return w.sum(), mean, S[:g], np.diag(S)


def given(kind, A):
    if kind == "slices":
        return iter([A[:7], A[7:8], A[8:]])
    if kind == "dask":
        return pytest.importorskip("dask.array").from_array(A, chunks=(25, A.shape[1]))
    return scipy.sparse.csr_array(A) if kind == "sparse" else A


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("cells", [CELLS, OVERLAPPING])
@pytest.mark.parametrize("kind", ["array", "sparse", "slices", "dask"])
def test_the_moments_of_each_set_are_those_of_its_rows(kind, cells, beside):
    moments = ls.Moments(given(kind, X), given(kind, Y))
    sums, whole = moments.cell_sums(cells, 60, weights=W, confounds=Z, beside=beside)
    assert moments.passes == 1
    for found, rows in zip([*sums, whole], [*cells, np.arange(60)], strict=True):
        count, mean, gram, squares = expected(rows, beside)
        assert found.count == pytest.approx(count)
        np.testing.assert_allclose(found.origin + found.mean, mean)
        np.testing.assert_allclose(found.gram, gram, atol=1e-10)
        np.testing.assert_allclose(found.squares, squares)
        some = found.with_beside(slice(1, 2)) if beside else found
        assert some.gram.shape == ((6, 7) if beside else (9, 9))


@pytest.mark.parametrize("center", [True, False])
def test_the_sweep_learns_means_slopes_and_scales(center):
    stated = {"center": center, "sample_weight": W, "confounds": Z, "scale": True}
    exact = ls.solve(ls.LeastSquares(X, Y, **stated))
    problem = adjusted(ls.LeastSquares(given("slices", X), given("slices", Y), **stated))
    moments = problem.moments("implicit", (1, 1))
    moments.cell_sums(CELLS, 60, weights=W, confounds=Z, beside=True)
    for i, prefix in enumerate("ab"):
        for name, value in moments.columns.adjustment(i).of_new_rows().items():
            wanted = getattr(exact, "confound_mean" if name == "confound_mean" else f"{prefix}_{name}")
            np.testing.assert_allclose(value, wanted, rtol=1e-10)
    assert moments.passes == 1


def test_faults_of_rows_and_of_sets_are_said():
    with pytest.raises(InvalidProblem, match="59 rows must be of the rows of X and Y; got 60 rows"):
        ls.Moments(X, Y).cell_sums([np.arange(59)], 59)
    with pytest.raises(InvalidProblem, match="got a set without any"):
        ls.Moments(X, Y).cell_sums([np.arange(60), np.arange(0)], 60)
    bad = X.copy()
    bad[3, 2] = np.inf
    with pytest.raises(NonFiniteData, match="X must be finite; got inf at row 3, column 2"):
        ls.Moments(bad, Y).cell_sums(CELLS, 60)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_pairs_of_entries_of_sparse_rows_teach_the_adjustments(elsewhere):
    rows, w = scipy.sparse.random(600, 300, 0.02, random_state=0, format="csr"), RNG.random(600)
    dense, cells = rows.toarray(), [np.arange(0, 600, 2), np.arange(1, 600, 2)]
    given = BlockOperator([rows[:7], rows[7:200], rows[200:]]) if elsewhere else rows
    problem = adjusted(ls.SVD(given, 1, center=True, scale=True, sample_weight=w))
    moments = problem.moments("implicit", (1, 1))
    assert moments._sweeps._multiplies_pairs()
    sums, whole = moments.cell_sums(cells, 600, weights=w)
    for found, own in zip([*sums, whole], [*cells, slice(None)], strict=True):
        mean = w[own] @ dense[own] / w[own].sum()
        np.testing.assert_allclose(found.mean, mean, atol=1e-15)
        D = (dense[own] - mean) * np.sqrt(w[own])[:, None]
        np.testing.assert_allclose(found.gram, D.T @ D, atol=1e-13)
    known = moments.columns.adjustment(0)
    np.testing.assert_allclose(known.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(known.factors, np.sqrt(w.sum() / np.sum(D**2, axis=0)), rtol=1e-12)
    assert moments.passes == 1


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("kind", ["array", "sparse", "slices", "dask", "file"])
def test_entries_that_are_too_small_are_refused(kind, beside, tmp_path):
    def small(A, name):
        np.save(tmp_path / name, A)
        return tmp_path / name if kind == "file" else given(kind, A)

    for shrunk, weights in ((1e-70, None), (1.0, np.full(60, 1e-140))):
        moments = ls.Moments(small(X * shrunk, "x.npy"), small(Y * shrunk, "y.npy"))
        with pytest.raises(DataOutOfRange, match="largest entry of X, with the root of its weight"):
            moments.cell_sums(CELLS, 60, weights=weights, beside=beside)
