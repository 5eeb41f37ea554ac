"""Ridge paths: each answer is that of its own problem, the data are read once where they can be, starts are warm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import array_api_strict
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

import linspec as ls
from linspec import metrics, registry
from linspec.errors import InvalidProblem, MissingCapability

RIDGES = [1.0, 300.0, 0.0, (30.0, 3.0), 10.0]


def a_pair(n=240, p=30, q=20, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((n, 4)) * [2.0, 1.5, 1.0, 0.7]
    X = shared @ rng.standard_normal((4, p)) + noise * rng.standard_normal((n, p)) + 3.0
    Y = shared @ rng.standard_normal((4, q)) + noise * rng.standard_normal((n, q)) - 1.0
    return X, Y


def exact(X, Y, ridge, k, center=True):
    """Singular values of Sx^(-1/2) C Sy^(-1/2), by eigenvalues of the product."""
    if center:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    rx, ry = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    Sx, Sy = X.T @ X + rx * np.eye(X.shape[1]), Y.T @ Y + ry * np.eye(Y.shape[1])
    C = X.T @ Y
    squares = np.linalg.eigvals(np.linalg.solve(Sx, C) @ np.linalg.solve(Sy, C.T)).real
    return np.sqrt(np.sort(squares)[::-1][:k])


def begins_at_an_answer(name):
    traits = registry.get_spec("solver", name, "cca").traits
    return "warm-start" in traits and "approximate" not in traits


SLOW = {"appgrad", "stochastic-appgrad", "sparse-appgrad"}  # a thousand sweeps
WARM = [name for name in ls.solvers("cca") if begins_at_an_answer(name) and name not in SLOW]


@pytest.mark.parametrize("solver", sorted({"auto", "gram", "direct", "als", *WARM}))
@pytest.mark.parametrize("form", ["auto", "implicit"])
def test_each_answer_is_that_of_its_own_problem_in_the_order_given(solver, form):
    X, Y = a_pair()
    path = ls.ridge_path(ls.CCA(X, Y, 3), RIDGES, solver=solver, form=form, rng=0)
    assert path.ridges == ((1.0, 1.0), (300.0, 300.0), (0.0, 0.0), (30.0, 3.0), (10.0, 10.0))
    for ridge, solution in zip(RIDGES, path.solutions, strict=True):
        np.testing.assert_allclose(solution.correlations, exact(X, Y, ridge, 3), atol=1e-5)
        assert solution.converged
    assert path.solver == path.solutions[0].solver != "auto"


@pytest.mark.parametrize("solver", sorted({"gram", "als", *WARM}))
@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("center", [True, False])
def test_a_gram_matrix_that_is_held_costs_one_pass_for_all_ridges(solver, convert, center):
    X, Y = a_pair()
    tol = {} if solver == "gram" else {"tol": 1e-10}
    views = convert(X), convert(Y)
    path = ls.ridge_path(ls.CCA(*views, 3, center=center), RIDGES, solver=solver, form="dense", rng=0, **tol)
    assert path.passes == 1.0
    assert sum(solution.passes for solution in path.solutions) == 1.0
    assert path.solutions[1].passes == 1.0  # the largest ridge is solved first, and pays
    for ridge, solution in zip(RIDGES, path.solutions, strict=True):
        np.testing.assert_allclose(solution.correlations, exact(X, Y, ridge, 3, center), atol=2e-6)


def test_moments_of_the_caller_are_used_and_stay_theirs():
    X, Y = a_pair()
    moments = ls.Moments(X, Y, center=True, form="dense")
    first = ls.ridge_path(ls.CCA(moments, k=2), [1.0, 2.0], solver="gram")
    again = ls.ridge_path(ls.CCA(moments, k=2), [3.0], solver="gram")
    assert (first.passes, again.passes, again.solutions[0].setup_passes) == (1.0, 0.0, 1.0)
    with pytest.raises(InvalidProblem, match="have a form already"):
        ls.ridge_path(ls.CCA(moments, k=2), [3.0], form="dense")
    with pytest.raises(InvalidProblem, match="made with center=True"):
        ls.ridge_path(ls.CCA(moments, k=2, center=False), [3.0])


@dataclass(frozen=True, kw_only=True)
class Recorder(ls.Solver):
    """Returns the exact answer and writes down where it was asked to begin."""

    seen: Any = ls.option(None, "a list", kind=str)

    def __post_init__(self) -> None:
        pass

    def solve(self, problem, run):
        run.plan(setup=1.0)
        Sx, C, Sy = run.moments("dense").dense()
        Lx, Ly = (
            np.linalg.cholesky(S + r * np.eye(len(S))) for S, r in zip((Sx, Sy), problem.ridge, strict=True)
        )
        U, _, Vt = np.linalg.svd(np.linalg.solve(Lx, np.linalg.solve(Ly, C.T).T))
        self.seen.append((problem.ridge[0], run.start))
        return run.finish(x_weights=np.linalg.solve(Lx.T, U), y_weights=np.linalg.solve(Ly.T, Vt.T))


@pytest.mark.parametrize("trait", ["warm-start", "direct"])
def test_each_solve_begins_at_the_answer_of_the_next_larger_ridge(monkeypatch, trait):
    spec = ls.SolverSpec(
        name="recorder",
        problem="cca",
        target=f"{__name__}:Recorder",
        summary="Writes down where it begins.",
        reference="None 2026",
        traits=(trait,),
    )
    monkeypatch.setattr(registry, "spec_of", lambda cls, problem=None: spec)
    X, Y = a_pair()
    seen: list[Any] = []
    path = ls.ridge_path(ls.CCA(X, Y, 2), [1.0, 100.0, 10.0], solver=Recorder(seen=seen))
    assert [ridge for ridge, _ in seen] == [100.0, 10.0, 1.0]
    starts = [start for _, start in seen]
    assert starts[0] is None
    if trait == "direct":
        assert starts == [None] * 3
    else:
        np.testing.assert_array_equal(starts[1]["x_weights"], path.solutions[1].x_weights)
        np.testing.assert_array_equal(starts[2]["y_weights"], path.solutions[2].y_weights)
        seen.clear()
        ls.ridge_path(ls.CCA(X, Y, 2), [1.0], solver=Recorder(seen=seen), start=path.solutions[2])
        np.testing.assert_array_equal(seen[0][1]["y_weights"], path.solutions[2].y_weights)


@pytest.mark.parametrize("solver", WARM)
@pytest.mark.slow
def test_warm_starts_save_passes(solver):
    X, Y = a_pair(n=900, p=300, q=200)  # as wide as a sketch, a cold start has little left to do
    ridges = np.geomspace(100, 50, 6)
    options = {"rng": 0, "form": "implicit", "tol": 1e-9}
    path = ls.ridge_path(ls.CCA(X, Y, 3), ridges, solver=solver, **options)
    cold = [ls.solve(ls.CCA(X, Y, 3, ridge=r), solver, **options).passes for r in ridges]
    assert path.passes < 0.8 * sum(cold)
    for ridge, solution in zip(ridges, path.solutions, strict=True):
        np.testing.assert_allclose(solution.correlations, exact(X, Y, ridge, 3), atol=1e-6)


def test_the_best_ridge_is_that_of_the_test_rows():
    """Few rows and many columns: fitted without a ridge everything correlates, and on new rows next to nothing."""
    X, Y = a_pair(n=1000, p=60, q=50, noise=4.0)
    fitted, new = slice(0, 80), slice(80, 1000)
    ridges = [0.0, 1e2, 1e3, 1e4, 1e7]
    test = X[new], Y[new]
    path = ls.ridge_path(ls.CCA(X[fitted], Y[fitted], 2), ridges, solver="direct", test=test)
    totals = [
        metrics.tcc(*test, s.x_weights, s.y_weights, center=(s.x_mean, s.y_mean)) for s in path.solutions
    ]
    np.testing.assert_allclose(path.totals, totals, atol=1e-12)
    assert path.best == int(np.argmax(totals)) not in (0, len(ridges) - 1)
    assert path.best_solution is path.solutions[path.best]
    assert path.best_ridge == (ridges[path.best],) * 2
    # What was fitted says the opposite.
    assert np.argmax([solution.correlations.sum() for solution in path.solutions]) == 0
    assert "(best)" in repr(path)


def test_test_rows_may_be_slices_and_sparse():
    X, Y = a_pair()
    fitted, new = slice(0, 150), slice(150, 240)
    dense = ls.ridge_path(ls.CCA(X[fitted], Y[fitted], 2), [1.0, 10.0], test=(X[new], Y[new]))
    read = lambda A: lambda: (A[a : a + 30] for a in range(0, 90, 30))  # noqa: E731
    sparse = ls.ridge_path(
        ls.CCA(X[fitted], Y[fitted], 2), [1.0, 10.0], test=(read(X[new]), scipy.sparse.csr_array(Y[new]))
    )
    np.testing.assert_allclose(sparse.totals, dense.totals, atol=1e-12)


KINDS = {
    "float32": lambda A: A.astype(np.float32),
    "csr": scipy.sparse.csr_array,
    "strict": array_api_strict.asarray,
    "operator": scipy.sparse.linalg.aslinearoperator,
    "slices": lambda A: lambda: (A[a : a + 50] for a in range(0, len(A), 50)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", sorted({"gram", "als", *WARM}))
@pytest.mark.parametrize("form", ["auto", "implicit"])
@pytest.mark.slow(keep=8)
def test_kinds_of_data(kind, solver, form):
    X, Y = a_pair()
    views = [KINDS[kind](view[:200]) for view in (X, Y)]
    tol = {} if solver == "gram" or kind == "float32" else {"tol": 1e-10}
    path = ls.ridge_path(
        ls.CCA(*views, 3), [1.0, 30.0], solver=solver, form=form, rng=0, test=(X[200:], Y[200:]), **tol
    )
    for ridge, solution in zip((1.0, 30.0), path.solutions, strict=True):
        np.testing.assert_allclose(
            solution.correlations, exact(X[:200], Y[:200], ridge, 3), atol=1e-4 if kind == "float32" else 1e-8
        )
    assert path.passes == sum(solution.passes for solution in path.solutions)
    assert path.totals.shape == (2,)


@pytest.mark.parametrize("solver", sorted({"gram", "als", *WARM}))
def test_views_without_pairs_have_a_path_all_the_same(solver):
    _, Y = a_pair()
    path = ls.ridge_path(
        ls.CCA(np.ones((240, 5)), Y, 2), [0.0, 1e-9], solver=solver, rng=0, test=(np.ones((9, 5)), Y[:9])
    )
    assert [len(solution.correlations) for solution in path.solutions] == [0, 0] or all(
        solution.correlations.max() < 1e-6 for solution in path.solutions if len(solution.correlations)
    )
    assert np.isnan(path.totals).all()  # held-out variates that do not vary have no correlation


def test_what_cannot_be_done_is_said_before_any_work():
    X, Y = a_pair()
    with pytest.raises(InvalidProblem, match="at least one value"):
        ls.ridge_path(ls.CCA(X, Y, 2), [])
    with pytest.raises(InvalidProblem, match=r"must be a sequence; got 3.0. Pass \[3.0\]"):
        ls.ridge_path(ls.CCA(X, Y, 2), 3.0)
    with pytest.raises(InvalidProblem, match="at least 0; got -1"):
        ls.ridge_path(ls.CCA(X, Y, 2), [1.0, -1.0])
    with pytest.raises(InvalidProblem, match="a number or a pair; got 3 numbers"):
        ls.ridge_path(ls.CCA(X, Y, 2), [(1.0, 2.0, 3.0)])
    with pytest.raises(InvalidProblem, match="k must be between 1 and 20"):
        ls.ridge_path(ls.CCA(X, Y, 21), [1.0])
    with pytest.raises(
        InvalidProblem,
        match=r"such as linspec\.CCA or linspec\.Discriminant; got ndarray\. Pass linspec\.CCA\(X, Y, k\)",
    ):
        ls.ridge_path(X, [1.0])  # type: ignore[arg-type]
    with pytest.raises(InvalidProblem, match="test rows of Y must have 20 columns; got 19"):
        ls.ridge_path(ls.CCA(X, Y, 2), [1.0], test=(X, Y[:, 1:]))
    with pytest.raises(InvalidProblem, match="equally many rows of X and Y"):
        ls.ridge_path(ls.CCA(X, Y, 2), [1.0], test=(X, Y[1:]))
    with pytest.raises(InvalidProblem, match="read once for each ridge; got an iterator"):
        ls.ridge_path(ls.CCA(X, Y, 2), [1.0], test=(X, iter([Y])))
    with pytest.raises(InvalidProblem, match="must be a pair"):
        ls.ridge_path(ls.CCA(X, Y, 2), [1.0], test=X)
    with pytest.raises(TypeError, match="takes only tol; got step"):
        ls.ridge_path(ls.CCA(X, Y, 2), [1.0], step=3)
    with pytest.raises(MissingCapability, match="does not begin at an earlier answer"):
        ls.ridge_path(ls.CCA(X, Y, 2), [1.0], solver="gram", start=ls.solve(ls.CCA(X, Y, 2)))
    path = ls.ridge_path(ls.CCA(X, Y, 2), [1.0], tol=1e-3, max_passes=50, rng=3)
    assert path.totals is None
    with pytest.raises(InvalidProblem, match="made without any"):
        path.best_ridge  # noqa: B018
    assert "best" not in repr(path)


# ---- discriminants --------------------------------------------------------------------------------------------------


def classes_in(n=200, p=25, c=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, n)
    return rng.standard_normal((c, p))[y] + rng.standard_normal((n, p)) + 2.0, y


def exact_discriminant(X, H, ridge, k):
    """Eigenvalues, and the projection onto the span of the weights in units of M, by a dense eigensolver."""
    X = X - X.mean(axis=0)
    M, C = X.T @ X + ridge * np.eye(X.shape[1]), X.T @ H
    values, W = scipy.linalg.eigh(C @ C.T, M)
    W = W[:, ::-1][:, :k]
    return values[::-1][:k], W @ W.T


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("p", [25, 300], ids=["tall", "wide"])
def test_a_path_of_discriminants_is_exact_and_takes_one_pass(p, convert):
    X, y = classes_in(p=p)
    H = ls.targets.lda(y)
    path = ls.ridge_path(ls.Discriminant(convert(X), H), [1.0, 300.0, 30.0], solver="direct", form="dense")
    assert path.passes == 1.0
    assert [solution.passes for solution in path.solutions] == [0.0, 1.0, 0.0]
    assert path.ridges == (1.0, 300.0, 30.0)
    for ridge, solution in zip(path.ridges, path.solutions, strict=True):
        values, onto = exact_discriminant(X, H.toarray(), ridge, 3)
        np.testing.assert_allclose(solution.eigenvalues, values, rtol=1e-10)
        np.testing.assert_allclose(solution.weights @ solution.weights.T, onto, atol=1e-10 * onto.max())
        assert solution.converged
        np.testing.assert_array_equal(solution.classes, range(4))


@pytest.mark.parametrize("solver", ["direct", "two-stage"])
@pytest.mark.parametrize("form", ["auto", "implicit"])
@pytest.mark.parametrize("p", [25, 300], ids=["tall", "wide"])
def test_each_discriminant_of_a_path_is_that_of_its_own_problem(solver, form, p):
    X, y = classes_in(p=p)
    Y = np.eye(4)[y] @ np.array([[1.0, 0, 0], [0, 1, 0], [0, 1, 1], [0, 0, 0]])
    w, ridges = np.random.default_rng(1).integers(1, 4, len(X)).astype(float), [2.0, 50.0]
    given = {"sample_weight": w, "scale": True, "confounds": np.arange(len(X)) / 100}
    H = ls.targets.cca(scipy.sparse.csr_array(Y), sample_weight=w)  # labels times a small block
    tol = {"tol": 1e-12} if solver == "two-stage" else {}
    path = ls.ridge_path(ls.Discriminant(X, H, 2, **given), ridges, solver=solver, form=form, rng=0, **tol)
    for ridge, solution in zip(ridges, path.solutions, strict=True):
        own = ls.solve(ls.Discriminant(X, H, 2, ridge=ridge, **given), solver, rng=0, **tol)
        np.testing.assert_allclose(solution.eigenvalues, own.eigenvalues, rtol=1e-10)
        np.testing.assert_allclose(solution.weights, own.weights, atol=1e-10 * np.abs(own.weights).max())
        np.testing.assert_allclose(solution.scale, own.scale)


def test_targets_of_other_rows_choose_the_ridge_of_a_discriminant():
    X, y = classes_in(n=260, p=90, seed=3)
    new = slice(110, None)
    test = X[new], ls.targets.lda(y[new])
    path = ls.ridge_path(
        ls.Discriminant(X[:110], ls.targets.lda(y[:110])), [0.01, 1.0, 100.0, 1e4], test=test
    )
    for solution, total in zip(path.solutions, path.totals, strict=True):
        P, H = solution.transform(X[new]), np.eye(4)[y[new]][:, 1:]
        P, H = np.linalg.qr(P - P.mean(axis=0))[0], np.linalg.qr(H - H.mean(axis=0))[0]
        assert total == pytest.approx(float(np.sum((P.T @ H) ** 2)), rel=1e-10)  # Pillai's trace by angles
    assert path.best == int(np.argmax(path.totals))
    assert path.best_ridge == path.ridges[path.best] > 0.01
    assert path.best_solution.score(*test) == path.totals[path.best]
    assert "(best)" in repr(path)


def test_the_score_of_a_discriminant_does_not_know_scales_and_can_be_computed_from_any_targets():
    X, y = classes_in(p=6)
    solution = ls.solve(ls.Discriminant(X, ls.targets.lda(y)))
    score = solution.score(X, ls.targets.lda(y))
    # without a ridge on the fitted rows, the eigenvalues are the squared canonical correlations
    assert score == pytest.approx(float(solution.eigenvalues.sum()), rel=1e-10)
    labels = np.eye(4)[y] * [1.0, 5.0, 100.0, 1e-3]
    for H in (labels, scipy.sparse.csr_array(labels), ls.targets.cca(labels), ls.targets.opls(labels)):
        assert solution.score(X, H) == pytest.approx(score, rel=1e-9)
    with pytest.raises(InvalidProblem, match="equally many rows"):
        solution.score(X[1:], labels)


def test_ridge_paths_are_for_cca_and_discriminants():
    X, y = classes_in()
    with pytest.raises(InvalidProblem, match="takes several ridges itself"):
        ls.ridge_path(ls.LeastSquares(X, X[:, :2]), [1.0])
    with pytest.raises(InvalidProblem, match="ridge must be a number"):
        ls.ridge_path(ls.Discriminant(X, ls.targets.lda(y)), [(1.0, 2.0)])
    with pytest.raises(InvalidProblem, match=r"\(X_test, H_test\)"):
        ls.ridge_path(ls.Discriminant(X, ls.targets.lda(y)), [1.0], test=X)
