"""Multiset CCA: its definition, its theorems, CCA for two views, cca-zoo, and what the law finds missing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from planted import common_views

import linspec as ls
from linspec import Status
from linspec.errors import InvalidProblem
from linspec.iteration import Iterate
from linspec.solving import Solver


def related(n=300, widths=(6, 5, 7), factors=3, seed=0, noise=1.0):
    """Draw views with normal variables in common."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n, factors)) * np.linspace(2.0, 0.7, factors)
    return [
        common @ rng.standard_normal((factors, p)) + noise * rng.standard_normal((n, p)) + 3.0 for p in widths
    ]


def pencil(views, ridges, weights):
    """A and B by their definitions."""
    X = [V - V.mean(axis=0) for V in views]
    S = [V.T @ V + r * np.eye(V.shape[1]) for V, r in zip(X, ridges, strict=True)]
    A = np.block([
        [w * v * (S[i] if i == j else X[i].T @ X[j]) for j, v in enumerate(weights)]
        for i, w in enumerate(weights)
    ])  # fmt: skip
    return A, scipy.linalg.block_diag(*(w * M for w, M in zip(weights, S, strict=True)))


def aligned(W, V):
    """W with the signs of V, both with columns of length 1."""
    W, V = W / np.linalg.norm(W, axis=0), V / np.linalg.norm(V, axis=0)
    return W * np.sign(np.sum(W * V, axis=0)), V


@pytest.mark.parametrize("solver", ["gram", "lobpcg"])
@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (0.3, 2.0, 5.0)])
@pytest.mark.parametrize("ridges", [(0.0, 0.0, 0.0), (1.0, 20.0, 0.0)])
def test_the_answer_solves_the_pencil_of_the_definition(solver, weights, ridges):
    views = related()
    A, B = pencil(views, ridges, weights)
    values, vectors = scipy.linalg.eigh(A, B)
    options = {} if solver == "gram" else {"tol": 1e-12, "rng": 0}
    found = ls.solve(ls.MultisetCCA(views, k=3, ridge=list(ridges), view_weights=weights), solver, **options)
    assert found.converged
    np.testing.assert_allclose(found.eigenvalues, values[::-1][:3], rtol=1e-12)
    W = np.concatenate(found.weights)
    np.testing.assert_allclose(W.T @ B @ W, np.eye(3), atol=1e-11)
    exact = vectors[:, ::-1][:, :3]
    np.testing.assert_allclose(W, exact * np.sign(np.sum(W * exact, axis=0)), atol=1e-10)


@pytest.mark.parametrize("ridge", [0.0, (2.0, 30.0)])
def test_two_views_are_cca(ridge):
    X, Y = related(widths=(8, 6))
    pairs = ls.solve(ls.CCA(X, Y, k=4, ridge=ridge), "direct")
    found = ls.solve(ls.MultisetCCA([X, Y], k=4, ridge=ridge))
    np.testing.assert_allclose(found.eigenvalues, 1 + pairs.correlations, atol=1e-10)
    for ours, theirs in zip(found.weights, (pairs.x_weights, pairs.y_weights), strict=True):
        np.testing.assert_allclose(2**0.5 * ours, theirs, atol=1e-10)


def test_views_of_one_column_have_the_eigenvalues_of_the_correlation_matrix():
    X = related(n=100, widths=(5,))[0]
    found = ls.solve(ls.MultisetCCA([X[:, [j]] for j in range(5)], k=5))
    np.testing.assert_allclose(found.eigenvalues, np.linalg.eigvalsh(np.corrcoef(X.T))[::-1], atol=1e-12)


def test_the_scores_are_eigenvectors_of_the_sum_of_projections():
    """Carroll 1968: the sum of the scores is the variable that is closest to all views."""
    views = related(n=80)
    centred = [V - V.mean(axis=0) for V in views]
    K = sum(V @ np.linalg.pinv(V) for V in centred)
    found = ls.solve(ls.MultisetCCA(views, k=3))
    G = sum(found.transform(views))
    np.testing.assert_allclose(K @ G, G * found.eigenvalues, atol=1e-11)
    np.testing.assert_allclose(G.T @ G, np.diag(found.eigenvalues), atol=1e-11)


def test_a_view_of_weight_two_counts_as_two_equal_views():
    X, Y, Z = related()
    twice = ls.solve(ls.MultisetCCA([X, X, Y, Z], k=3))
    weighted = ls.solve(ls.MultisetCCA([X, Y, Z], k=3, view_weights=[2, 1, 1]))
    np.testing.assert_allclose(weighted.eigenvalues, twice.eigenvalues, rtol=1e-12)
    for ours, theirs in zip(weighted.weights, twice.weights[1:], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-11)


def test_other_coordinates_of_a_view_do_not_change_the_scores():
    views, rng = related(), np.random.default_rng(1)
    moved = [V @ rng.standard_normal((V.shape[1], V.shape[1])) + 5.0 for V in views]
    one, other = (ls.solve(ls.MultisetCCA(each, k=3)) for each in (views, moved))
    np.testing.assert_allclose(one.eigenvalues, other.eigenvalues, rtol=1e-10)
    for S, T in zip(one.transform(views), other.transform(moved), strict=True):
        np.testing.assert_allclose(*aligned(S, T), atol=1e-9)


def test_views_that_share_a_column_agree_on_it_completely():
    views = related()
    shared = np.random.default_rng(2).standard_normal((300, 1))
    found = ls.solve(ls.MultisetCCA([np.hstack([V, shared]) for V in views], k=2))
    assert found.eigenvalues[0] == pytest.approx(3, abs=1e-10)
    assert found.eigenvalues[1] < 3 - 1e-3
    assert found.status is Status.DEGENERATE


def test_unrelated_views_have_eigenvalues_of_one():
    views = common_views(60, (5, 4, 6), (), own=3, seed=1)
    found = ls.solve(ls.MultisetCCA(views, k=4, ridge=0.5), "lobpcg", rng=0)
    np.testing.assert_allclose(found.eigenvalues, 1.0, atol=1e-12)


def test_more_components_than_columns_of_a_view():
    X, Y, z = related(widths=(6, 5, 1))
    found = ls.solve(ls.MultisetCCA([X, Y, z], k=4))
    A, B = pencil([X, Y, z], (0, 0, 0), (1, 1, 1))
    np.testing.assert_allclose(found.eigenvalues, scipy.linalg.eigh(A, B)[0][::-1][:4], rtol=1e-12)


@pytest.mark.parametrize("method", ["GCCA", "MCCA"])
def test_cca_zoo(method, monkeypatch):
    linear = pytest.importorskip("cca_zoo.linear")
    views = related(n=400, widths=(6, 5, 7, 4))
    cls = getattr(linear, method)
    monkeypatch.setattr(cls, "_EPS", 0.0)  # it floors eigenvalues of covariances
    theirs = cls(3).fit(views).weights_
    ours = ls.solve(ls.MultisetCCA(views, k=3)).weights
    for W, V in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(*aligned(W, np.asarray(V)), atol=1e-8)


def test_the_shrinkage_of_cca_zoo():
    linear = pytest.importorskip("cca_zoo.linear")
    views, c = related(n=400), 0.1
    theirs = linear.MCCA(3, shrinkage=c, pca=False).fit(views).weights_
    ours = ls.solve(ls.MultisetCCA(views, k=3, ridge=399 * c / (1 - c))).weights
    for W, V in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(*aligned(W, np.asarray(V)), atol=1e-8)


def test_weighted_views_of_cca_zoo(monkeypatch):
    linear = pytest.importorskip("cca_zoo.linear")
    monkeypatch.setattr(linear.GCCA, "_EPS", 0.0)
    views, weights = related(n=400), [0.5, 3.0, 1.0]
    theirs = linear.GCCA(3, view_weights=weights).fit(views).weights_
    ours = ls.solve(ls.MultisetCCA(views, k=3, view_weights=weights)).weights
    for W, V in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(*aligned(W, np.asarray(V)), atol=1e-8)


# ---- the iteration --------------------------------------------------------------------------------


def sparse_views(n=3000, p=400, count=5, seed=0):
    """Draw word counts of several languages: topics in common, each with words of its own."""
    rng = np.random.default_rng(seed)
    topic, found = rng.integers(0, 6, n), []
    for _ in range(count):
        words = rng.permutation(p)[:240].reshape(6, 40)
        columns = rng.integers(0, p, (n, 12))
        chosen = rng.random((n, 12)) < (0.5 - 0.06 * topic)[:, None]
        columns = np.where(chosen, words[topic][np.arange(n)[:, None], rng.integers(0, 40, (n, 12))], columns)
        said = (
            rng.random((n, 12)) < 0.8
        )  # rows of different lengths, or the columns would have a constant sum
        entries = (np.ones(said.sum()), (np.nonzero(said)[0], columns[said]))
        found.append(scipy.sparse.csr_array(entries, shape=(n, p)))
    return found


@pytest.mark.parametrize("form", ["implicit", "dense", "sparse"])
def test_sparse_views_are_swept(form):
    views = sparse_views()
    problem = ls.MultisetCCA(views, k=4, ridge=1.0)
    exact = ls.solve(problem, "gram")
    found = ls.solve(problem, "lobpcg", form=form, rng=0)
    assert found.converged
    assert np.abs(found.eigenvalues - exact.eigenvalues).max() <= found.residual * exact.eigenvalues[0]
    np.testing.assert_allclose(found.eigenvalues, exact.eigenvalues, rtol=1e-10)
    if form == "implicit":  # the first block, one pass an iteration, and the certificate
        assert found.passes == found.iterations + 2


def test_a_swept_answer_has_the_residual_of_the_factors():
    """With views too wide for Gram matrices, a sketch or a preconditioner measures: near the exact residual."""
    views = related(n=2000, widths=(700, 650, 720), noise=4.0)
    problem = ls.MultisetCCA(views, k=2, ridge=50.0)
    found = ls.solve(problem, "lobpcg", form="implicit", rng=0, max_iterations=9, tol=1e-2)
    A, B = pencil(views, (50.0,) * 3, (1.0,) * 3)
    W = np.concatenate(found.weights)
    R = A @ W - B @ W * found.eigenvalues
    exact = np.sqrt(np.sum(R * np.linalg.solve(B, R), axis=0)).max() / found.eigenvalues[0]
    assert found.residual_kind in {"exact", "sketched", "preconditioned"}
    assert exact / 3 <= found.residual <= 3 * exact


# ---- what the law finds ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SkipsTheFirst(Solver):
    """Returns exact components, but not the first."""

    def iterate(self, problem, moments, context, start):
        exact = ls.solve(ls.MultisetCCA(problem.views, k=problem.k + 1), "gram")
        yield Iterate(0.0, lambda: {"weights": tuple(W[:, 1:] for W in exact.weights)}, final=True)


@pytest.mark.parametrize("widths", [(6, 5, 7), (120, 130, 140)])
def test_a_missing_component_is_found(widths):
    found = ls.solve(ls.MultisetCCA(related(widths=widths, n=900), k=2), SkipsTheFirst())
    assert found.status is Status.INCOMPLETE
    assert not found.converged
    assert found.residual < 1e-8


def test_the_law_rotates_what_a_solver_returns():
    """Any basis of the span has the same answer."""
    problem = ls.MultisetCCA(related(), k=3)
    exact = ls.solve(problem)

    @dataclass(frozen=True, kw_only=True)
    class Turned(Solver):
        def iterate(self, problem, moments, context, start):
            T = np.random.default_rng(0).standard_normal((3, 3))
            yield Iterate(0.0, lambda: {"weights": tuple(W @ T for W in exact.weights)}, final=True)

    turned = ls.solve(problem, Turned())
    assert turned.converged
    for W, V in zip(turned.weights, exact.weights, strict=True):
        np.testing.assert_allclose(W, V, atol=1e-11)


def test_dependent_columns_get_weights_of_least_norm():
    """Equal columns share their weight, and the answer is that without the copy."""
    X, Y, Z = related()
    doubled = ls.solve(ls.MultisetCCA([np.hstack([X, X]), Y, Z], k=2))
    plain = ls.solve(ls.MultisetCCA([X, Y, Z], k=2))
    np.testing.assert_allclose(doubled.eigenvalues, plain.eigenvalues, rtol=1e-12)
    np.testing.assert_allclose(doubled.weights[0], np.vstack([plain.weights[0]] * 2) / 2, atol=1e-10)


def test_directions_that_squaring_hides_are_reported():
    X, Y, Z = related()
    hidden = np.hstack([X, X[:, :1] + 1e-11 * np.random.default_rng(3).standard_normal((300, 1))])
    found = ls.solve(ls.MultisetCCA([hidden, Y, Z], k=2), "gram")
    assert found.status is Status.ILL_CONDITIONED
    assert not found.converged


# ---- the problem ----------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [[1, 2], [1, 0, 1], [1, -1, 1], [1, np.nan, 1], "abc", 3])
def test_weights_of_views_are_checked(weights):
    with pytest.raises(
        InvalidProblem, match="view_weights must be a positive number for each of the 3 views"
    ):
        ls.MultisetCCA(related(), k=1, view_weights=weights)


def test_a_single_view_is_refused():
    with pytest.raises(InvalidProblem, match="at least two"):
        ls.MultisetCCA(related()[:1], k=1)


def test_agreement_is_the_squared_correlation_with_the_consensus():
    views = related()
    found = ls.solve(ls.MultisetCCA(views, k=3, view_weights=[1, 2, 1]))
    scores = found.transform(views)
    consensus = sum(w * S for S, w in zip(scores, (1, 2, 1), strict=True))
    for own, S in zip(found.agreement, scores, strict=True):
        exact = [np.corrcoef(S[:, j], consensus[:, j])[0, 1] ** 2 for j in range(3)]
        np.testing.assert_allclose(own, exact, atol=1e-12)
    np.testing.assert_allclose([1, 2, 1] @ found.agreement, found.eigenvalues, rtol=1e-12)
