"""Second moments of sets of rows against NumPy, from rows of every kind."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import InvalidProblem, NonFiniteData
from linspec.solving import adjusted

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
    bad = X.copy()
    bad[3, 2] = np.inf
    with pytest.raises(NonFiniteData, match="X must be finite; got inf at row 3, column 2"):
        ls.Moments(bad, Y).cell_sums(CELLS, 60)


def test_an_adjusted_problem_keeps_the_one_that_was_given():
    problem = ls.LeastSquares(X, Y, center=True, sample_weight=W)
    once = adjusted(problem)
    object.__setattr__(once, "shared", once.moments("auto", (1, 1)))
    assert once.given is adjusted(once).given is problem
    assert problem.given is None


def test_a_one_pass_solver_without_approximate_rivals_takes_many_columns():
    wide = np.ones((4, 5000))
    stream = ls.get_problem("pls")(iter([X[:4]]), iter([wide]), k=1)
    assert ls.select(stream).name == "gram"
