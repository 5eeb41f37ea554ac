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


def test_targets_in_two_factors() -> None:
    targets = ls.targets.cca(scipy.sparse.csr_array(LABELS))
    wanted = ls.solve(ls.Discriminant(GRADED, targets, 2), "direct")
    found = ls.solve(ls.Discriminant(once(GRADED), targets, 2), "direct")
    np.testing.assert_allclose(found.eigenvalues, wanted.eigenvalues, rtol=1e-12)
    assert found.passes == 1
