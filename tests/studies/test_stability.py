"""Stability selection: solves of the very rows, its theorem on columns without a signal, and planted columns."""

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidOption
from linspec.studies import folds_of


def data(seed=0, n=120, p=25):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, p)) + 3, rng.standard_normal((n, 10))
    X[:, :3] += rng.standard_normal((n, 1))
    Y[:, :2] += X[:, [0]]
    return X, Y


GIVEN = {
    "plain": {},
    "uncentred": {"center": False},
    "scaled": {"scale": True},
    "weights": {"sample_weight": np.random.default_rng(1).integers(0, 3, 120).astype(float)},
    "confounds": {"confounds": np.random.default_rng(2).standard_normal((120, 2))},
}


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("kind", ["SparsePLS", "SparseCCA"])
def test_two_blocks_are_solves_of_the_rows_of_each(kind, name):
    X, Y = data()
    problem, given = getattr(ls, kind), GIVEN[name]
    settings = [{"bound_x": 1.2}, {"bound_x": 2.0}]
    found = ls.stability_selection(
        problem(X, Y, 1, 1.5, 1.5, **given), settings, pairs=1, blocks=2, rng=np.random.default_rng(0)
    )
    rows = [held for _, held in folds_of(2, 120, rng=np.random.default_rng(0)).splits]
    kept = set()
    for some in rows:
        part = {key: value[some] if np.ndim(value) else value for key, value in given.items()}
        answers = [ls.solve(problem(X[some], Y[some], 1, s["bound_x"], 1.5, **part), rng=0) for s in settings]
        kept.add(tuple(tuple(np.flatnonzero(answer.x_weights).tolist()) for answer in answers))
    assert kept == {tuple(tuple(np.flatnonzero(s).tolist()) for s in draw) for draw in found.kept["X"]}
    assert found.passes == 1


def test_slices_are_read_once_and_give_the_same():
    X, Y = data()
    slices = lambda A: lambda: iter(np.array_split(A, 7))  # noqa: E731
    labels = np.arange(120) % 10
    whole = ls.stability_selection(ls.SparsePLS(X, Y, 1, 1.5, 1.5), pairs=5, blocks=labels, rng=0)
    parts = ls.stability_selection(
        ls.SparsePLS(slices(X), slices(Y), 1, 1.5, 1.5), pairs=5, blocks=labels, rng=0
    )
    np.testing.assert_array_equal(whole.kept["X"], parts.kept["X"])
    assert parts.passes == 1


def test_planted_columns_are_stable_and_few_others():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((300, 60))
    A[:, [5, 20, 40]] += 1.5 * rng.standard_normal((300, 1))
    found = ls.stability_selection(ls.SparsePCA(A, 1, 1.6), pairs=20, rng=0)
    columns, false = found.stable("A")
    np.testing.assert_array_equal(columns, [5, 20, 40])
    q = found.kept["A"].sum(axis=(1, 2)).mean()
    assert false == pytest.approx(q**2 / (0.8 * 60))


def test_false_columns_are_no_more_than_the_theorem_says():
    counts, bounds = [], []
    for seed in range(20):
        A = np.random.default_rng(seed).standard_normal((100, 40))
        columns, false = ls.stability_selection(ls.SparsePCA(A, 1, 2.0), pairs=10, rng=0).stable("A", 0.7)
        counts.append(len(columns))
        bounds.append(false)
    assert np.mean(counts) <= np.mean(bounds)


def test_options_that_do_not_fit_are_refused():
    A = data()[0]
    with pytest.raises(InvalidOption, match="pairs must be"):
        ls.stability_selection(ls.SparsePCA(A, 1, 2.0), pairs=0)
    with pytest.raises(ls.errors.InvalidProblem, match="bound must be at least 1"):
        ls.stability_selection(ls.SparsePCA(A, 1, 2.0), [{"bound": 0.5}], pairs=1)
    found = ls.stability_selection(ls.SparsePCA(A, 1, 2.0), pairs=1, rng=0)
    with pytest.raises(InvalidOption, match="threshold must be above"):
        found.stable("A", 0.5)
