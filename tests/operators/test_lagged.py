"""Lagged rows against the matrix of all lags: entries, moments by their structure, answers, folds, files and names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import array_api_strict as strict
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import linspec as ls
from linspec.arrays import to_host
from linspec.errors import InvalidProblem, NonFiniteData, UnsupportedData
from linspec.rows import Moments
from linspec.testing import check_operator

LAGS = [0, 1, 2, 5, -3]
EPOCHS = np.repeat(np.arange(6), [300, 80, 4, 1, 215, 200])
RNG = np.random.default_rng(0)
X = RNG.standard_normal((800, 3)).cumsum(axis=0) / 10 + 3


def explicit(X: Any, lags: Any, epochs: Any) -> Any:
    """Windows of rows, row by row."""
    Z = np.zeros((len(X), len(lags), X.shape[1]), X.dtype)
    begins = np.append(True, epochs[1:] != epochs[:-1])
    run = begins.cumsum()
    for t in range(len(X)):
        for i, lag in enumerate(lags):
            if 0 <= t - lag < len(X) and run[t - lag] == run[t]:
                Z[t, i] = X[t - lag]
    return Z.reshape(len(X), -1)


Z = explicit(X, LAGS, EPOCHS)
Y = Z @ RNG.standard_normal((15, 4)) + RNG.standard_normal((800, 4))
w = RNG.integers(0, 4, 800).astype(float)


def drawn() -> Iterator[tuple[Any, Any, Any]]:
    """Rows, lags and epochs of any kind: one row, far lags, lags with gaps, epochs shorter than the lags."""
    rng = np.random.default_rng(1)
    for _ in range(60):
        n, reach = int(rng.integers(1, 500)), int(rng.choice([4, 30, 200]))
        lags = rng.choice(np.arange(-reach, reach), int(rng.integers(1, 7)), replace=False)
        lags = np.arange(len(lags)) - 2 if rng.random() < 0.4 else lags
        offset = rng.choice([0, 10, 1e5])
        yield rng.standard_normal((n, 2)) + offset, lags, np.sort(rng.integers(0, rng.integers(1, 7), n))


def test_entries_products_and_moments_are_those_of_the_matrix_of_all_lags() -> None:
    for rows, lags, epochs in drawn():
        A, B = ls.lagged(rows, lags, epochs), explicit(rows, lags, epochs)
        assert np.array_equal(A.dense(), B)
        numbers = np.random.default_rng(2).integers(0, len(B), 9)
        assert np.array_equal(A[numbers].dense(), B[numbers])
        beside = ls.lagged(rows[:, :1], [-1, 2], epochs), explicit(rows[:, :1], [-1, 2], epochs)
        held = Moments([view.in_blocks() for view in (A, beside[0])]).gram()
        U = np.random.default_rng(3).standard_normal((len(B), 2))
        assert A.matmat(B[:0].T).shape == (len(B), 0)
        pairs = [(A.matmat(B[:2].T), B @ B[:2].T), (A.rmatmat(U), B.T @ U)]
        pairs += [(held[0][0], B.T @ B), (held[0][1], B.T @ beside[1])]
        sizes = np.linalg.norm(B) * np.array([1, 0, 1, 0]) + np.linalg.norm(rows) * np.array([0, 1, 0, 1])
        for (found, exact), size in zip(pairs, sizes, strict=True):
            assert np.abs(found - exact).max() <= 1e-13 * size * max(np.linalg.norm(B), 10)
        assert np.array_equal(held[0][0], held[0][0].T)


def test_a_large_first_row_costs_no_digits_of_lags_that_do_not_meet_it() -> None:
    rows = X.copy()
    rows[0] = 1e9
    (held,) = Moments([ls.lagged(rows, range(-8, 1)).in_blocks()]).gram()[0]
    exact = rows[8:].astype(np.longdouble)  # at lag -8
    assert np.abs(held[:3, :3] - (exact.T @ exact).astype(float)).max() < 1e-12 * np.abs(held[:3, :3]).max()


@pytest.mark.parametrize(
    ("mean", "options"),
    [
        (0.0, {}),
        (0.0, {"center": True}),
        (1e6, {"center": True}),
        (1e6, {"center": True, "scale": True, "sample_weight": w, "ridge": 1.0}),
    ],
)
def test_answers_are_those_of_the_matrix_of_all_lags(mean: float, options: dict[str, Any]) -> None:
    """With a mean of a million, rows are those whose windows are whole: zeros would be far from the others."""
    whole = slice(5, 297) if mean else slice(800)
    rows, all_lags = (A[whole] for A in (ls.lagged(X + mean, LAGS, EPOCHS), explicit(X + mean, LAGS, EPOCHS)))
    options = {name: value[whole] if name == "sample_weight" else value for name, value in options.items()}
    targets, third = Y[whole], X[whole]
    sparse = scipy.sparse.csr_array(np.maximum(targets - 2, 0))
    for solver in ("direct", "cg", "lsqr", "sketch-precondition"):
        found, exact = (
            ls.solve(ls.LeastSquares(A, targets, **options), solver, rng=0) for A in (rows, all_lags)
        )
        assert found.converged == exact.converged
        assert np.linalg.norm(found.x - exact.x) <= 1e-5 * np.linalg.norm(exact.x)
    options = {"ridge": 0.1} | options | {"center": True}
    for other in (targets, sparse, ls.lagged(targets, [0, 1], EPOCHS[whole])):
        pair = [ls.solve(ls.CCA(A, other, k=2, **options), "gram").correlations for A in (rows, all_lags)]
        assert np.allclose(*pair, rtol=1e-9, atol=1e-9)
    for views in ([rows, targets, third], [targets, rows]):
        dense = [all_lags if view is rows else view for view in views]
        pair = [ls.solve(ls.MultisetCCA(some, k=2, ridge=0.1)).eigenvalues for some in (views, dense)]
        assert np.allclose(*pair, rtol=1e-8)


def test_folds_of_epochs_bootstrap_and_targets_know_windows_by_their_rows() -> None:
    A, grid = ls.lagged(X, LAGS, EPOCHS), {"ridges": [0.1, 10.0], "groups": EPOCHS, "splitter": 3, "rng": 0}
    for weights in (None, w):
        pair = [
            ls.cross_validate(ls.LeastSquares(B, Y, center=True, sample_weight=weights), **grid).scores
            for B in (A, Z)
        ]
        assert np.allclose(*pair, rtol=1e-9)
    half = EPOCHS < 4
    fitted = ls.solve(
        ls.LeastSquares(ls.lagged(X[half], LAGS, EPOCHS[half]), Y[half], ridge=10.0, center=True)
    )
    score = ls.cross_validate(
        ls.LeastSquares(A, Y, center=True),
        ridges=[10.0],
        splitter=[(np.flatnonzero(half), np.flatnonzero(~half))],
    )
    errors = fitted.predict(ls.lagged(X[~half], LAGS, EPOCHS[~half])) - Y[~half]
    assert np.isclose(
        float(np.squeeze(score.mean)), (errors**2).mean()
    )  # no window of one half meets the other
    many = [ls.solve(ls.RidgeManyTargets(B, Y, [1.0, 10.0], groups=EPOCHS)).scores for B in (A, Z)]
    drawn = [ls.bootstrap(ls.LeastSquares(B, Y), draws=50, groups=EPOCHS, rng=0).errors for B in (A, Z)]
    for pair in (many, drawn):
        assert np.allclose(*pair, rtol=1e-6)


def test_permutations_leave_windows_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = ls.lagged(X, LAGS, EPOCHS)
    monkeypatch.setattr(type(windows), "_dense", None)  # no matrix of all lags
    found, explicit_ones = (
        ls.permutation_test(ls.PLS(A, Y, k=2, center=True), permutations=19, rng=0).drawn
        for A in (windows, Z)
    )
    np.testing.assert_allclose(found, explicit_ones)


def test_files_are_read_with_the_rows_before_them(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linspec.blocks.lagged.LARGEST_BLOCK_BYTES", 24 * 100)  # blocks of a hundred rows
    np.save(tmp_path / "rows.npy", X)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(64, 3))
    exact = ls.solve(ls.CCA(Z, Y, 2))
    for source in ("rows.npy", "rows.h5"):
        A = ls.lagged(ls.open_rows(tmp_path / source), LAGS, EPOCHS)
        assert not A.resident
        assert np.array_equal(A[7:700].dense(), Z[7:700])
        assert np.allclose(ls.solve(ls.CCA(A, Y, 2)).correlations, exact.correlations)


def test_every_array_library_has_lagged_rows() -> None:
    for rows in (strict.asarray(X), X.astype(np.float32), (10 * X).astype(np.int16)):
        entries = explicit(np.asarray(to_host(rows), np.float64), LAGS, EPOCHS)
        A = ls.lagged(rows, LAGS, EPOCHS)
        assert not check_operator(A, entries=entries)
        pair = [to_host(ls.solve(ls.SVD(B, 2, center=True)).S) for B in (A, entries)]
        assert np.allclose(*pair, rtol=1e-5)


def test_names_have_lags_and_answers_are_kept(tmp_path: Any) -> None:
    A = ls.lagged(ls.labelled(X, columns=["fp1", "fp2", "cz"]), LAGS, EPOCHS)
    found = ls.solve(ls.LeastSquares(A, Y, center=True))
    found.save(tmp_path / "answer")
    again = ls.load_solution(tmp_path / "answer")
    assert again.column_names["A"][:4] == ("fp1@0", "fp2@0", "cz@0", "fp1@1")
    assert again.column_names["A"][-1] == "cz@-3"
    assert np.allclose(again.predict(ls.lagged(X, LAGS, EPOCHS)[20:40]), found.predict(Z[20:40]))


def test_what_has_no_lagged_rows_is_refused() -> None:
    for lags in ([], 3, [1, 1], [0.5], "ab", [True], [[0, 1]]):
        with pytest.raises(InvalidProblem, match="different integers"):
            ls.lagged(X, lags)
    texts = np.array(["a", None] * 400, dtype=object)
    missing = (pd.Series(texts, dtype="string"), texts, np.where(EPOCHS == 3, np.nan, EPOCHS))
    for epochs in (EPOCHS[1:], EPOCHS[:, None], 5, *missing):
        with pytest.raises(
            InvalidProblem, match=r"epochs must be .* a label for each row of 800, and none missing"
        ):
            ls.lagged(X, [0, 1], epochs)
    frame, turned = pd.DataFrame(X), pd.Series(EPOCHS).iloc[::-1]
    with pytest.raises(InvalidProblem, match="the rows of epochs and X must be in the same order"):
        ls.lagged(frame, [0, 1], turned)
    for data in (scipy.sparse.csr_array(X), lambda: iter([X])):
        with pytest.raises(UnsupportedData, match="dense rows"):
            ls.lagged(data, [0, 1])
    rows = X.copy()
    rows[7, 1] = np.nan
    with pytest.raises(NonFiniteData, match="row 7, column 1"):
        ls.solve(ls.SVD(ls.lagged(rows, [0, 2]), 1))
