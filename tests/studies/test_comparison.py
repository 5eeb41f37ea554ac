"""`linspec.compare`: which rows judge which answers, what a row of the table says, and what is refused beforehand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import linspec as ls
from linspec.errors import (
    AccuracyWarning,
    InvalidOption,
    InvalidProblem,
    MissingCapability,
    SweptOnce,
    UnknownOption,
)
from linspec.studies.comparison import split

N = 240


@pytest.fixture
def views() -> tuple[np.ndarray, np.ndarray]:
    """Two views with one direction in common, and many columns for chance."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((N, 1))
    return z + rng.standard_normal((N, 20)), z + rng.standard_normal((N, 15))


def test_the_score_is_that_of_rows_that_were_not_fitted(views):
    X, Y = views
    problems = {f"{r:g}": ls.CCA(X[:160], Y[:160], k=1, ridge=r) for r in (0.0, 50.0, 1000.0)}
    found = ls.compare(problems, ["gram", "direct"], held_out=(X[160:], Y[160:]))
    for entry in found.entries:
        weights = entry.solution.x_weights, entry.solution.y_weights
        p, q = (((V - V[:160].mean(axis=0)) @ W)[160:, 0] for V, W in zip(views, weights, strict=True))
        assert entry.score == pytest.approx(abs(p @ q) / np.sqrt((p @ p) * (q @ q)), rel=1e-8)
    assert found.held_out == 80
    assert found.best.problem == "1000"  # with 35 columns for 160 rows, chance is fitted without a ridge
    assert any(found.best.solution is solution for solution in found.solutions[4:])
    objectives = [entry.objective for entry in found.entries if entry.solver == "gram"]
    assert objectives == sorted(objectives, reverse=True)  # on fitted rows the least ridge seems best


def test_equal_rows_are_held_out_of_every_problem_and_every_run(views):
    moments = ls.CCA(ls.Moments(*views, center=True), k=1, ridge=1.0)  # given, so that their rows are taken
    problems = [ls.CCA(*views, k=1, ridge=1.0), moments, ls.CCA(*views, k=1, ridge=9.0)]
    one, same, _ = ls.compare(problems, ["gram"], held_out=0.25, rng=3).entries
    alone = ls.compare(problems[0], "gram", held_out=0.25, rng=3)
    assert alone.entries[0].score == one.score == same.score
    assert alone.held_out == 60


def test_held_out_targets_may_be_a_vector(views):
    X, y = views[0], views[1][:, 0]
    problem = ls.LeastSquares(X[:160], y[:160])
    (entry,) = ls.compare(problem, "direct", held_out=(X[160:], y[160:])).entries
    off = y[160:] - X[160:] @ np.linalg.lstsq(X[:160], y[:160])[0]
    about = y[160:] - y[160:].mean()
    assert entry.score == pytest.approx(1 - (off @ off) / (about @ about), rel=1e-8)


def as_dense(A) -> np.ndarray:
    return np.asarray(A.matmat(np.eye(A.shape[1])), dtype=float)


def test_a_fraction_parts_the_rows_and_keeps_pairs_weights_and_confounds_together():
    number = np.arange(100)
    X, Y = sparse.csr_array(np.outer(number, [1.0, 0.0, 2.0])), np.outer(number, [1.0, 3.0])
    weights, confounds = 1.0 + number, np.cos(number)[:, None]
    problem = ls.CCA(X, Y, k=1, sample_weight=weights, confounds=confounds)
    parts = split(problem, 0.3, 5)
    drawn = [np.rint(as_dense(part.Y)[:, 0]).astype(int) for part in parts]
    assert [len(rows) for rows in drawn] == [70, 30]
    np.testing.assert_array_equal(np.sort(np.concatenate(drawn)), number)
    for part, rows in zip(parts, drawn, strict=True):
        np.testing.assert_array_equal(as_dense(part.X), X.toarray()[rows])
        np.testing.assert_array_equal(part.sample_weight, weights[rows])
        np.testing.assert_array_equal(part.confounds, confounds[rows])
    again, other = (as_dense(split(problem, 0.3, seed)[1].Y) for seed in (5, 6))
    np.testing.assert_array_equal(again[:, 0], drawn[1])
    assert not np.array_equal(other, again)


@pytest.mark.parametrize("unlabelled", [False, True])
def test_targets_of_classes_are_those_of_the_training_rows(unlabelled: bool):
    """Those of all rows are others."""
    rng = np.random.default_rng(3)
    y = rng.permutation(np.repeat(["b", "a", "d", "c"], [40, 9, 7, 4]))
    X = rng.standard_normal((60, 6)) + rng.standard_normal((4, 6))[np.unique(y, return_inverse=True)[1]]
    labels = np.where(np.arange(60) % 7 == 0, None, y.astype(object)) if unlabelled else y
    problem, number = ls.Discriminant(X, ls.targets.lda(labels), 2, ridge=3.0), np.arange(60.0)[:, None]
    parts = split(ls.CCA(number, number, k=1), 0.4, 8)  # equal seeds hold out the same rows
    train, test = (np.rint(as_dense(part.X)[:, 0]).astype(int) for part in parts)
    one_hot, F = (labels[:, None] == np.unique(y)).astype(float), X[train] - X[train].mean(axis=0)
    C = F.T @ (one_hot[train] / np.sqrt(one_hot[train].sum(axis=0)))
    W = scipy.linalg.eigh(C @ C.T, F.T @ F + 3.0 * np.eye(6))[1][:, :-3:-1]
    P, T = (scipy.linalg.orth(Z - Z.mean(axis=0), rcond=1e-8) for Z in (X[test] @ W, one_hot[test]))
    wanted = pytest.approx(np.sum((P.T @ T) ** 2), rel=1e-9)  # Pillai's trace
    (entry,) = ls.compare(problem, "direct", held_out=0.4, rng=8).entries
    solved = ls.cross_validate(problem, splitter=[(train, test)], form="solve", solver="direct").scores
    assert entry.score == wanted == solved.item()
    if not unlabelled:
        assert list(entry.solution.classes) == ["a", "b", "c", "d"]
        np.testing.assert_allclose(entry.solution.class_sizes, one_hot[train].sum(axis=0), rtol=1e-12)


def test_rows_of_a_single_class_choose_nothing():
    X = np.random.default_rng(4).standard_normal((30, 3))
    y = np.repeat([0, 1, 2], 10)
    problem = ls.Discriminant(X, ls.targets.lda(y), 1, ridge=1.0)
    for form in ("dense", "solve"):
        with pytest.warns(AccuracyWarning, match="3 splits of 3"):
            found = ls.cross_validate(problem, splitter=y, form=form)  # nothing to distinguish
        with pytest.raises(MissingCapability):
            _ = found.best


def test_confounds_of_the_held_out_rows(views):
    Z = np.random.default_rng(2).standard_normal((N, 1))
    X, Y = (view + 30.0 * Z for view in views)  # what both views share through Z alone
    problem = ls.CCA(X, Y, k=1, confounds=Z)
    assert ls.compare(problem, "gram", held_out=0.3, rng=0).entries[0].score < 0.95
    rows = {"X": X[:50], "Y": Y[:50], "confounds": Z[:50]}
    assert ls.compare(problem, "gram", held_out=rows).held_out == 50
    with pytest.raises(InvalidProblem, match="rows of X and Y and confounds"):
        ls.compare(problem, "gram", held_out=(X[:50], Y[:50]))


def test_figures_are_those_of_the_solutions(views):
    problem, options = ls.CCA(*views, k=2), {"rng": 1, "tol": 1e-4, "form": "implicit"}
    found = ls.compare(problem, ["als", "gram"], **options)
    (als, gram), alone = found.entries, ls.solve(problem, "als", **options)
    np.testing.assert_array_equal(als.solution.x_weights, alone.x_weights)
    assert (als.passes, als.iterations, als.residual) == (alone.passes, alone.iterations, alone.residual)
    assert (als.tol, gram.products) == (1e-4, None)
    assert als.products > 0
    assert als.objective == pytest.approx(float(alone.correlations.sum()))
    row = found.rows[0]
    assert (row["status"], row["score"], "solution" in row) == ("CONVERGED", None, False)
    assert row["cpu_seconds"] >= 0
    with pytest.raises(InvalidProblem, match="held_out"):
        _ = found.best


def test_a_solver_that_fails_has_a_row_and_harms_no_other(views):
    problem = ls.SVD(aslinearoperator(views[0]), k=1)
    direct, krylov = ls.compare(problem, ["direct", "block-krylov"], rng=0).entries
    assert direct.failed
    assert "needs the entries" in direct.message
    assert direct.solution is None
    assert krylov.status == "CONVERGED"


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_the_table_of_a_comparison_has_a_row_for_each_solver(views, library):
    pytest.importorskip("narwhals", reason="frames are read by narwhals")
    module = pytest.importorskip(library, reason=f"no {library}")
    data = dict(zip("abcd", views[0].T[:4], strict=True))
    frame = module.table(data) if library == "pyarrow" else module.DataFrame(data)
    compared = ls.compare(ls.SVD(frame, k=1), ["gram", "lanczos"], rng=0)
    table = compared.table()
    assert type(table) is type(frame)
    assert [*table["solver"].to_numpy()] == ["gram", "lanczos"]
    np.testing.assert_array_equal(table["passes"].to_numpy(), [row["passes"] for row in compared.rows])
    assert np.isnan(table["score"].to_numpy()).all()  # no rows were held out
    failed = ls.compare(ls.SVD(aslinearoperator(views[0]), k=1), ["direct"]).table(library="")
    assert (failed[0]["status"], np.isnan(failed[0]["residual"])) == ("FAILED", True)


def test_an_interrupt_ends_the_series_with_what_there_is(views):
    calls, options = [], {"form": "implicit", "tol": 1e-12}

    def press(progress):
        calls.append(progress)
        if len(calls) > 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ls.compare(ls.CCA(*views, k=1), ["als"], callback=press, **options)
    calls.clear()
    found = ls.compare(ls.CCA(*views, k=1), ["gram", "als", "direct"], callback=press, **options)
    assert [entry.solver for entry in found.entries] == ["gram"]
    assert found.interrupted


def test_refusals_before_any_solve(views):
    X, Y = views
    problem, begun = ls.CCA(X, Y, k=1), []
    slices = ls.CCA(lambda: iter([X]), lambda: iter([Y]), k=1)
    precomputed = ls.KernelCCA(X @ X.T, X @ X.T, k=1, kernel_x="precomputed", ridge=1.0)
    for kind, match, of, named in (
        (InvalidOption, "is no solver of cca", problem, {"solvers": [ls.get_solver("svd/gram")()]}),
        (UnknownOption, "has an option 'steps'", problem, {"solvers": ["gram", "als"], "steps": 3}),
        (InvalidProblem, "rows of X and Y", problem, {"held_out": (X,)}),
        (SweptOnce, "read once for each solver", problem, {"held_out": (iter([X[:9]]), Y[:9])}),
        (InvalidProblem, "SVDSolution has no score", ls.SVD(X, k=1), {"held_out": 0.2}),
        (InvalidProblem, "held_out=.X_test, Y_test", slices, {"held_out": 0.2}),
        (InvalidProblem, "its columns belong to them", precomputed, {"held_out": 0.2}),
    ):
        with pytest.raises(kind, match=match):
            ls.compare(of, callback=begun.append, **named)
    assert begun == []


def test_a_comparison_is_shown_as_a_table(views):
    problems = {"<b>": ls.CCA(*views, k=1), "other": ls.CCA(*views, k=1, ridge=2.0)}
    lines = repr(ls.compare(problems, "gram", held_out=0.2, rng=0)).splitlines()
    assert "2 runs, scores on 48 held-out rows" in lines[0]
    assert lines[2].split()[:4] == ["problem", "solver", "score", "objective"]
    assert lines[3].index("CONVERGED") == lines[4].index("CONVERGED")
    again = ls.compare([problems["<b>"]] * 2, "gram")
    assert [entry.problem for entry in again.entries] == ["cca", "cca (2)"]
