"""Direct solvers on hard numbers: triangles of rows that come slice by slice, and discriminants of wide matrices."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.operators import streamed

N, P, Q, K = 700, 12, 4, 3
RNG = np.random.default_rng(0)
CLASSES = RNG.integers(0, Q, N)
SHARED = RNG.standard_normal((N, K)) * [3, 2, 1]
WELL = SHARED @ RNG.standard_normal((K, P)) + RNG.standard_normal((N, P))
WELL[:, 0] += CLASSES
TURN = np.linalg.qr(RNG.standard_normal((P, P)))[0]
GRADED = WELL * np.geomspace(1, 1e-9, P)
Y = SHARED @ RNG.standard_normal((K, Q)) + RNG.standard_normal((N, Q))
LABELS = np.eye(Q)[CLASSES]

pytestmark = pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")


def again(data: Any, heights: Any = (1, 0, 250, 9, 300, 140)) -> Any:
    """Slices, among them an empty one, that can be read again."""
    edges = np.cumsum([0, *heights]).tolist()
    return lambda: (data[a:b, :] for a, b in itertools.pairwise(edges))


def once(data: Any, *heights: Any) -> Any:
    return again(data, *heights)()


in_slices = pytest.mark.parametrize("source", [again, once])


@pytest.fixture(params=["one-block", "many-blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything twice: slices gathered into one block, and into several that are reduced one after the other."""
    if request.param == "many-blocks":
        monkeypatch.setattr(streamed, "GATHERED_BYTES", 8 * P * 60)


@pytest.mark.usefixtures("blocks")
@in_slices
def test_a_condition_number_of_1e9_costs_nine_digits_and_no_more(source: Any) -> None:
    """Correlations and discriminant values are those of any other basis of the columns; squares would lose all."""
    ill = GRADED @ TURN
    pairs = ls.solve(ls.CCA(source(ill), source(Y), K), "direct")
    np.testing.assert_allclose(
        pairs.correlations, ls.solve(ls.CCA(WELL, Y, K), "direct").correlations, atol=1e-6
    )
    classes = ls.solve(ls.Discriminant(source(ill), source(LABELS), 2), "direct")
    wanted = ls.solve(ls.Discriminant(WELL, LABELS, 2), "direct")
    np.testing.assert_allclose(classes.eigenvalues, wanted.eigenvalues, rtol=1e-6)
    lines = ls.solve(ls.LeastSquares(source(ill), source(Y)), "direct")
    np.testing.assert_allclose(ill @ lines.x, WELL @ np.linalg.lstsq(WELL, Y)[0], atol=1e-5)
    for found in (pairs, classes, lines):
        assert found.passes == 1 or source is again


@pytest.mark.usefixtures("blocks")
def test_small_singular_values_are_there() -> None:
    """Values down to 1e-11 of the largest: squares would show none below 1e-8."""
    planted = np.geomspace(1, 1e-11, P)
    U = np.linalg.qr(RNG.standard_normal((N, P)))[0]
    found = ls.solve(ls.SVD(once(U * planted @ TURN), P), "direct")
    np.testing.assert_allclose(found.S, planted, rtol=0, atol=N**0.5 * np.finfo(float).eps)
    assert found.total_squares == pytest.approx((planted**2).sum())


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("declared", [False, True])
@in_slices
def test_more_columns_than_rows(source: Any, declared: bool) -> None:
    wide, few, labels = WELL[:9], Y[:9], LABELS[:9]

    def both(make: Any, value: str) -> None:
        stream = ls.as_operator(source(wide, [4, 5]), rows=9 if declared else None)
        found, wanted = (getattr(ls.solve(make(X), "direct"), value) for X in (stream, wide))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())

    both(lambda X: ls.SVD(X, 4), "S")
    both(lambda X: ls.CCA(X, few, 2, ridge=1.0), "correlations")
    both(lambda X: ls.Discriminant(X, labels, 2, ridge=1.0), "eigenvalues")
    both(lambda X: ls.LeastSquares(X, few), "x")
    both(lambda X: ls.LeastSquares(X, few, ridge=0.1), "x")


@pytest.mark.usefixtures("blocks")
@in_slices
def test_ranks_are_found(source: Any) -> None:
    deficient = WELL[:, :5] @ RNG.standard_normal((5, P))
    assert ls.solve(ls.CCA(source(deficient), source(Y), K), "direct").ranks == (5, Q)
    found = ls.solve(ls.LeastSquares(source(deficient), Y), "direct")
    np.testing.assert_allclose(found.x, np.linalg.pinv(deficient, rcond=1e-10) @ Y, atol=1e-10)
    assert "rank 5" in found.message
    assert len(ls.solve(ls.SVD(source(deficient), 8), "direct").S) == 5
    assert ls.solve(ls.Discriminant(source(deficient), LABELS, 2), "direct").rank == 5


def test_targets_that_nothing_explains_and_targets_in_two_factors() -> None:
    found = ls.solve(ls.Discriminant(once(WELL), np.ones((N, 1))), "direct")
    assert found.eigenvalues.shape == (0,)
    targets = ls.targets.cca(scipy.sparse.csr_array(LABELS))
    wanted = ls.solve(ls.Discriminant(GRADED, targets, 2), "direct")
    found = ls.solve(ls.Discriminant(once(GRADED), targets, 2), "direct")
    np.testing.assert_allclose(found.eigenvalues, wanted.eigenvalues, rtol=1e-12)
    assert found.passes == 1


@pytest.mark.parametrize("shift", [0.0, 1.0])
@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize(
    ("condition", "dtype"), [(3e3, np.float32), (1e5, np.float32), (1e5, np.float64), (1e8, np.float64)]
)
def test_weights_of_wide_matrices_are_orthonormal_up_to_their_own_rounding(
    condition: float, dtype: Any, ridge: float, shift: float
) -> None:
    """A weight vector w in a dtype has rounding of eps ‖w‖, so the metric of two of them is off by eps ‖X‖ ‖w‖."""
    rng, ridge = np.random.default_rng(0), ridge / condition**2
    U = np.linalg.qr(np.column_stack([np.ones(8), rng.standard_normal((8, 7))]))[0][:, 1:]
    V = np.linalg.qr(rng.standard_normal((40, 7)))[0]
    X = ((U * np.geomspace(1, 1 / condition, 7)) @ V.T + shift * rng.standard_normal(40)).astype(dtype)
    H = rng.standard_normal((8, 5)).astype(dtype)
    found = ls.solve(ls.Discriminant(X, H, 3, ridge=ridge, center=True), "direct")
    assert found.converged or dtype is np.float32 or shift
    W = found.weights.astype(np.longdouble)
    image = (X.astype(np.longdouble) - X.astype(np.longdouble).mean(axis=0)) @ W
    misfit = np.abs(image.T @ image + ridge * (W.T @ W) - np.eye(3)).max()
    longest = np.linalg.norm(found.weights.astype(float), axis=0).max()
    assert misfit <= 5 * np.finfo(dtype).eps * longest * (1 + shift)


@pytest.mark.parametrize("solver", ["direct", "two-stage"])
def test_eigenvalues_that_short_directions_hide_are_said_to_be_missing(solver: str) -> None:
    # with kappa 1e6 and hardly a ridge, float32 does not know T, the second eigenvalue is 2 % of the first
    rng = np.random.default_rng(0)
    U, _ = np.linalg.qr(rng.standard_normal((12, 5)))
    V, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    X = (U * np.geomspace(1.0, 1e-6, 5)) @ V.T
    H = U[:, [0, 1]] * [1.0, 0.14]
    narrow = ls.solve(ls.Discriminant(X.astype(np.float32), H, 2, ridge=1e-12, center=False), solver)
    wide = ls.solve(ls.Discriminant(X, H, 2, ridge=1e-12, center=False), solver)
    assert wide.eigenvalues == pytest.approx([1.0, 0.14**2], rel=1e-3)
    assert wide.converged
    lost = 1 - narrow.eigenvalues.sum() / (1 + 0.14**2)
    assert lost < 1e-3 or narrow.status is ls.Status.ILL_CONDITIONED
    assert lost > 1e-3, "the example must be hard enough"
