"""The direct solvers on rows that come slice by slice: one triangle, the answers of the array, memory of a slice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.arrays import to_host
from linspec.operators import streamed

N, P, Q, K = 700, 12, 4, 3
RNG = np.random.default_rng(0)
CLASSES = RNG.integers(0, Q, N)
SHARED = RNG.standard_normal((N, K)) * [3, 2, 1]
WELL = SHARED @ RNG.standard_normal((K, P)) + RNG.standard_normal((N, P))
WELL[:, 0] += CLASSES
TURN = np.linalg.qr(RNG.standard_normal((P, P)))[0]
GRADED = WELL * np.geomspace(1, 1e-9, P)
ILL = GRADED @ TURN
Y = SHARED @ RNG.standard_normal((K, Q)) + RNG.standard_normal((N, Q))
LABELS = np.eye(Q)[CLASSES]
HEIGHTS = [1, 0, 250, 9, 300, 140]

PROBLEMS = {
    "svd": (lambda x, y: ls.SVD(x, P), lambda s: [s.S]),
    "svd-centred": (lambda x, y: ls.SVD(x, P, center=True), lambda s: [s.S, s.mean]),
    "cca": (lambda x, y: ls.CCA(x, y, K), lambda s: [s.correlations, s.x_mean, s.y_mean]),
    "cca-ridge": (
        lambda x, y: ls.CCA(x, y, K, ridge=(1e-9, 0.5), center=False),
        lambda s: [s.correlations],
    ),
    "least-squares": (ls.LeastSquares, lambda s: [s.x]),
    "path": (lambda x, y: ls.LeastSquares(x, y, ridge=(1e-3, 1.0)), lambda s: [s.x]),
    "discriminant": (lambda x, y: ls.Discriminant(x, y, K), lambda s: [s.eigenvalues, s.mean]),
    "discriminant-ridge": (lambda x, y: ls.Discriminant(x, y, K, ridge=1e-9), lambda s: [s.eigenvalues]),
}


def slices(data, heights=HEIGHTS):
    edges = np.cumsum([0, *heights]).tolist()
    return lambda: (data[a:b, :] for a, b in itertools.pairwise(edges))


pytestmark = pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")


@pytest.fixture(params=["one-block", "many-blocks"], autouse=True)
def blocks(request, monkeypatch):
    """Everything twice: slices gathered into one block, and into several that are reduced one after the other."""
    if request.param == "many-blocks":
        monkeypatch.setattr(streamed, "GATHERED_BYTES", 8 * P * 60)


@pytest.fixture
def exactly():
    """Return a comparison of arrays, to 1e-12 of the size of the answer."""

    def compare(found, wanted, rtol=1e-12):
        for a, b in zip(found, wanted, strict=True):
            a, b = np.asarray(to_host(a)), np.asarray(to_host(b))
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=0, atol=rtol * np.abs(b).max())

    return compare


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("kind", ["callables", "iterators", "callable-array", "array-iterator", "pairs"])
@pytest.mark.slow(keep=20)
def test_answers_are_those_of_the_array(name, kind, exactly):
    state, values = PROBLEMS[name]
    if name.startswith("svd") and kind == "array-iterator":
        pytest.skip("one matrix")
    other = LABELS if name.startswith("discriminant") else Y
    shifted = name in (
        "svd-centred",
        "cca",
        "discriminant",
    )  # of others the shift is a condition number of 1e9
    for x in (WELL, GRADED + 5 * shifted):
        wanted = ls.solve(state(x, other), "direct")
        if kind == "callables":
            data = slices(x), slices(other, [350, 350])
        elif kind == "iterators":
            data = slices(x)(), slices(other, [350, 350])()
        elif kind == "callable-array":
            data = slices(x), other
        elif kind == "array-iterator":
            data = x, slices(other)()
        else:
            data = ls.paired(zip(slices(x)(), slices(other)(), strict=True))
        once = kind in ("iterators", "array-iterator", "pairs")
        found = ls.solve(state(*data), "direct")
        exactly(values(found), values(wanted))
        if once:
            assert found.passes == 1
            assert found.residual_kind in ("from-gram", "in-pass", "exact")
        assert found.residual <= max(10 * wanted.residual, 1e-12)
        assert found.converged == wanted.converged


@pytest.mark.parametrize("source", [slices, lambda data: slices(data)()], ids=["callable", "iterator"])
def test_a_condition_number_of_1e9_costs_nine_digits_and_no_more(source):
    """Correlations and discriminant values are those of any other basis of the columns; squares would lose all."""
    found = ls.solve(ls.CCA(source(ILL), source(Y), K), "direct")
    np.testing.assert_allclose(
        found.correlations, ls.solve(ls.CCA(WELL, Y, K), "direct").correlations, atol=1e-6
    )
    found = ls.solve(ls.Discriminant(source(ILL), source(LABELS), 2), "direct")
    wanted = ls.solve(ls.Discriminant(WELL, LABELS, 2), "direct")
    np.testing.assert_allclose(found.eigenvalues, wanted.eigenvalues, rtol=1e-6)
    found = ls.solve(ls.LeastSquares(source(ILL), source(Y)), "direct")
    np.testing.assert_allclose(ILL @ found.x, WELL @ np.linalg.lstsq(WELL, Y)[0], atol=1e-5)


def test_small_singular_values_are_there():
    """Values down to 1e-11 of the largest: squares would show none below 1e-8."""
    planted = np.geomspace(1, 1e-11, P)
    U = np.linalg.qr(RNG.standard_normal((N, P)))[0]
    found = ls.solve(ls.SVD(slices(U * planted @ TURN)(), P), "direct")
    np.testing.assert_allclose(found.S, planted, rtol=0, atol=N**0.5 * np.finfo(float).eps)
    assert found.total_squares == pytest.approx((planted**2).sum())


@pytest.mark.parametrize("source", [slices, lambda data: slices(data)()], ids=["callable", "iterator"])
def test_sparse_slices_with_means_that_are_large(source, exactly):
    dense = WELL + 1e6
    matrix = scipy.sparse.csr_array(dense)
    wanted = ls.solve(ls.CCA(dense, Y, K), "direct")
    found = ls.solve(ls.CCA(source(matrix), source(Y), K), "direct")
    exactly([found.correlations], [wanted.correlations], 1e-9)
    assert "subtracted from products" not in found.message or not isinstance(source(matrix), type(iter([])))
    values = ls.solve(ls.SVD(source(matrix), K, center=True), "direct").S
    exactly([values], [np.linalg.svd(dense - dense.mean(axis=0), compute_uv=False)[:K]], 1e-9)


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("source", [slices, lambda *of: slices(*of)()], ids=["callable", "iterator"])
def test_more_columns_than_rows(source, declared, exactly):
    wide, few = WELL[:9], Y[:9]
    heights = [4, 5]

    def made(data):
        return ls.as_operator(source(data, heights), rows=9 if declared else None)

    x = ls.solve(ls.LeastSquares(made(wide), few), "direct").x
    exactly([x], [np.linalg.pinv(wide) @ few], 1e-11)
    x = ls.solve(ls.LeastSquares(made(wide), few, ridge=0.1), "direct").x
    exactly([x], [np.linalg.solve(wide.T @ wide + 0.1 * np.eye(P), wide.T @ few)], 1e-11)
    found = ls.solve(ls.SVD(made(wide), 4), "direct")
    exactly([found.S], [np.linalg.svd(wide, compute_uv=False)[:4]])
    found = ls.solve(ls.CCA(made(wide), few, 2, ridge=1.0), "direct")
    exactly([found.correlations], [ls.solve(ls.CCA(wide, few, 2, ridge=1.0), "direct").correlations])
    found = ls.solve(ls.Discriminant(made(wide), LABELS[:9], 2, ridge=1.0), "direct")
    exactly(
        [found.eigenvalues], [ls.solve(ls.Discriminant(wide, LABELS[:9], 2, ridge=1.0), "direct").eigenvalues]
    )


@pytest.mark.parametrize("source", [slices, lambda *of: slices(*of)()], ids=["callable", "iterator"])
def test_ranks_are_found(source):
    deficient = WELL[:, :5] @ RNG.standard_normal((5, P))
    found = ls.solve(ls.CCA(source(deficient), source(Y), K), "direct")
    assert found.ranks == (5, Q)
    found = ls.solve(ls.LeastSquares(source(deficient), Y), "direct")
    np.testing.assert_allclose(found.x, np.linalg.pinv(deficient, rcond=1e-10) @ Y, atol=1e-10)
    assert "rank 5" in found.message
    found = ls.solve(ls.SVD(source(deficient), 8), "direct")
    assert len(found.S) == 5
    found = ls.solve(ls.Discriminant(source(deficient), LABELS, 2), "direct")
    assert found.rank == 5


def test_targets_that_nothing_explains_and_targets_in_two_factors():
    constant = np.ones((N, 1))
    found = ls.solve(ls.Discriminant(slices(WELL)(), constant), "direct")
    assert found.eigenvalues.shape == (0,)
    targets = ls.targets.cca(scipy.sparse.csr_array(LABELS))
    wanted = ls.solve(ls.Discriminant(GRADED, targets, 2), "direct")
    found = ls.solve(ls.Discriminant(slices(GRADED)(), targets, 2), "direct")
    np.testing.assert_allclose(found.eigenvalues, wanted.eigenvalues, rtol=1e-12)
    assert found.passes == 1
