"""Rows that lack a value: `linspec.drop_missing` keeps those that pandas keeps, of every kind of data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import InvalidProblem, MissingCapability, NonFiniteData, UnsupportedData
from linspec.solving.fields import parts_of

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

RNG, N = np.random.default_rng(5), 80
X, W, Z = RNG.standard_normal((N, 4)), RNG.random(N), RNG.standard_normal(N)
Y = X[:, :3] + RNG.standard_normal((N, 3))
CLASSES = np.array(["ash", "elm", None, "oak"] * (N // 4), dtype=object)
X[[3, 60], [1, 0]] = Y[7, 2] = W[9] = Z[[0, 79]] = np.nan
NAMED = {"x": X, "y": Y, "w": W[:, None], "z": Z[:, None]}
WHOLE = pd.concat([pd.DataFrame(A).add_prefix(name) for name, A in NAMED.items()], axis=1)


def dropped(*data: Any) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        complete = ls.drop_missing(*data)
    return complete, [str(warning.message) for warning in caught]


def columns(prefix: str, frame: Any) -> Any:
    return frame.filter(regex=f"^{prefix}").to_numpy()


KINDS: dict[str, Any] = {
    "array": lambda A: A,
    "float32": lambda A: A.astype(np.float32),
    "list": lambda A: A.tolist(),
    "pandas": lambda A: pd.DataFrame(A, index=[f"row {i}" for i in range(N)]),
    "polars": pl.DataFrame,
    "pyarrow": lambda A: pl.DataFrame(A).fill_nan(None).to_arrow(),
    "sparse": scipy.sparse.coo_array,
    "operator": lambda A: ls.labelled(A, rows=[f"row {i}" for i in range(N)]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_are_those_that_pandas_keeps(kind):
    kept = WHOLE.dropna()
    (x, y, w, z), said = dropped(KINDS[kind](X), Y, pd.Series(W), pl.Series(Z))
    assert said == [f"{N - len(kept)} of {N} rows lack a value and are left out."]
    np.testing.assert_allclose(ls.as_operator(x).dense(), columns("x", kept), rtol=1e-6)
    np.testing.assert_array_equal(y, columns("y", kept))
    np.testing.assert_array_equal(w, columns("w", kept)[:, 0])
    np.testing.assert_array_equal(z, columns("z", kept)[:, 0])
    names = ls.as_operator(x).row_names
    assert names is None or list(names) == [f"row {i}" for i in kept.index]


def test_every_problem_is_that_of_the_complete_rows():
    kept = WHOLE.dropna()
    x, y, w, z = (columns(name, kept) for name in "xywz")
    (X_, Y_, W_, Z_), _ = dropped(X, Y, W, Z)
    for make in (
        lambda X, Y, w, Z: ls.CCA(X, Y, 2, sample_weight=w, confounds=Z),
        lambda X, Y, w, Z: ls.PLS(X, Y, 2, sample_weight=w, confounds=Z),
        lambda X, Y, w, Z: ls.LeastSquares(X, Y, sample_weight=w, confounds=Z),
        lambda X, Y, w, Z: ls.MultisetCCA([X, Y, X**2], 2, sample_weight=w, confounds=Z),
    ):
        found, plain = ls.solve(make(X_, Y_, W_, Z_)), ls.solve(make(x, y, w[:, 0], z))
        for name, _ in type(found).layout.weights.values():
            for V, U in zip(parts_of(getattr(found, name)), parts_of(getattr(plain, name)), strict=True):
                np.testing.assert_allclose(V, U, rtol=1e-9, atol=1e-12)
    (A, labels), said = dropped(X, CLASSES)
    assert said == [f"{N // 4 + 2} of {N} rows lack a value and are left out."]
    whole = pd.DataFrame(X).assign(kind=CLASSES).dropna()
    plain = ls.solve(ls.Discriminant(whole[[0, 1, 2, 3]].to_numpy(), ls.targets.lda(whole["kind"].tolist())))
    found = ls.solve(ls.Discriminant(A, ls.targets.lda(labels)))
    np.testing.assert_allclose(found.weights, plain.weights, rtol=1e-9)


def test_files_are_opened_and_lists_of_views_are_several_arguments(tmp_path):
    np.save(tmp_path / "x.npy", X)
    pd.DataFrame(Y, columns=list("abc")).to_csv(tmp_path / "y.csv", index=False)
    pd.DataFrame(Y, columns=list("abc")).to_parquet(tmp_path / "y.parquet")
    kept = WHOLE.drop(columns=["w0", "z0"]).dropna()
    (x, y, z), _ = dropped(str(tmp_path / "x.npy"), tmp_path / "y.csv", tmp_path / "y.parquet")
    for A, name in ((x, "x"), (y, "y"), (z, "y")):
        np.testing.assert_array_equal(A.dense(), columns(name, kept))
    assert y.column_names == z.column_names == ("a", "b", "c")
    pd.DataFrame(W[:5]).to_parquet(tmp_path / "w.parquet")  # nothing lacks
    assert dropped(tmp_path / "w.parquet")[1] == []
    assert dropped(W[:5], None) == ((pytest.approx(W[:5]), None), [])


def test_chunks_of_dask_stay_chunks():
    da = pytest.importorskip("dask.array")
    (x, z), _ = dropped(da.from_array(X, chunks=(30, 4)), Z)
    assert type(x).__module__.startswith("dask")
    np.testing.assert_array_equal(x.compute(), columns("x", WHOLE.drop(columns=["y2", "w0"]).dropna()))
    assert len(z) == N - 4


EMPTY = np.where(np.arange(4) == 1, np.nan, X)
REFUSED: list[tuple[Any, type[Exception], str]] = [
    ((X, Y[:-1]), InvalidProblem, r"got 80 of data\[0\], 79 of data\[1\]"),
    ((np.where(np.eye(4)[np.arange(N) % 4] > 0, np.nan, Y[:, [0] * 4]),), InvalidProblem, "80 of 80 rows"),
    ((EMPTY,), NonFiniteData, "column 1 holds no number in any row: leave it out"),
    (([X, Y],), MissingCapability, r"drop_missing\(\*views\)"),
    ((lambda: iter([X]),), MissingCapability, "cannot be left out by their numbers"),
    ((X, ls.targets.lda(CLASSES.tolist())), InvalidProblem, "Drop rows of the classes"),
    ((np.ma.masked_invalid(X),), UnsupportedData, "not masked"),
    ((pd.DataFrame(X), pd.DataFrame(Y)[::-1]), InvalidProblem, "in the same order"),
]


@pytest.mark.parametrize(("data", "error", "words"), REFUSED)
def test_what_cannot_be_dropped_is_refused(data, error, words):
    with pytest.raises(error, match=words):
        dropped(*data)


def test_infinity_is_no_gap():
    far = np.where(np.arange(N)[:, None] == 5, np.inf, np.ones((N, 2)))
    assert dropped(far)[1] == []
    with pytest.raises(NonFiniteData, match="got inf at row 5"):
        ls.solve(ls.SVD(ls.drop_missing(far), k=1))


def test_a_problem_leaves_out_rows_in_all_its_matrices_weights_and_confounds():
    rng = np.random.default_rng(5)
    X, Y, Z, w = (rng.standard_normal((40, c)) for c in (3, 2, 1, 1))
    X[3, 1], Y[7, 0], w = np.nan, np.nan, np.abs(w[:, 0])
    keep = np.delete(np.arange(40), [3, 7])
    expected = ls.solve(ls.CCA(X[keep], Y[keep], 2, sample_weight=w[keep], confounds=Z[keep])).correlations
    problem = ls.CCA(X, Y, 2, sample_weight=w, confounds=Z)
    with pytest.warns(UserWarning, match="2 of 40 rows lack a value and are left out"):
        found = ls.solve(problem, missing="drop")
    with pytest.warns(UserWarning, match="2 of 40 rows"):
        complete = ls.drop_missing(problem)
    np.testing.assert_allclose(found.correlations, expected, rtol=1e-12)
    np.testing.assert_allclose(ls.solve(complete).correlations, expected, rtol=1e-12)
    assert ls.drop_missing(complete) is complete
    with pytest.raises(ls.errors.InvalidOption, match=r"linspec\.drop_missing\(problem\) to the study"):
        ls.bootstrap(ls.CCA(X, Y, 2), "gram", draws=5, missing="drop")
    with pytest.raises(ls.errors.InvalidOption, match="missing must be one of error, drop"):
        ls.solve(problem, missing="skip")


def test_groups_beside_a_problem_leave_out_the_same_rows():
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((60, 3)), rng.standard_normal(60)
    X[4, 0], groups = np.nan, np.repeat(np.arange(20), 3).astype(object)
    groups[30] = None
    with pytest.warns(UserWarning, match="2 of 60 rows"):
        problem, chosen = ls.drop_missing(ls.LeastSquares(X, y, center=True), groups)
    keep = np.delete(np.arange(60), [4, 30])
    assert chosen.tolist() == groups[keep].tolist()
    np.testing.assert_array_equal(problem.A.dense(), X[keep])
