"""Canonical pairs that are hard to find, and their certificate: digits and ranks that are there, and what is said.

Without a ridge as many correlations are 1 as dim(col X ∩ col Y) = rank X + rank Y − rank [X Y], of the columns about
their means where the problem centres; there are min(rank X, rank Y) pairs in all, and no noise beyond them.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.linalg
from planted import Case, planted_cca
from truths import EPS, adjusted, extended, truth_of

import linspec as ls
from linspec import Status
from linspec.iteration import Iterate
from linspec.solving import Solver

pytestmark = pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")

N = 60


def shared_directions(g):
    """Two directions are in both views."""
    S = g((N, 2))
    return np.hstack([S, g((N, 6))]) @ rotation(g, 8), np.hstack([S, g((N, 5))]) @ rotation(g, 7)


def low_rank(g):
    """Rank 4 of 12 and 9 columns, one direction in both."""
    F = g((N, 4))
    return F @ g((4, 12)), np.hstack([F[:, :1], g((N, 3))]) @ g((4, 9))


def both_wide(g):
    """Fewer rows than either view has columns: everything is shared, by chance."""
    return g((20, 30)), g((20, 25))


def duplicates(g):
    """Repeated, zero and constant columns."""
    X = g((N, 6))
    Y = np.hstack([X[:, :1] + g((N, 1)), g((N, 4))])
    return np.hstack([X, X[:, :3], np.zeros((N, 2)), np.full((N, 1), 3.0)]), Y


def one_hot(g):
    """Indicators add up to ones: shared without centring, dependent with it."""
    return tuple(np.eye(m)[np.argmax(g((N, m)), axis=1)] for m in (5, 4))


def scaled_apart(g):
    """A shared direction made of columns a million times shorter than the rest."""
    X, Y = shared_directions(g)
    return X * np.geomspace(1, 1e-6, 8), Y * np.geomspace(1e6, 1, 7)


def rotation(g, p):
    return np.linalg.qr(g((p, p)))[0]


CASES = [shared_directions, low_rank, both_wide, duplicates, one_hot, scaled_apart]
TIGHT = {"rng": 0, "tol": 1e-11}
OPTIONS = {"direct": {}, "gram": {}, "als": TIGHT, "lobpcg": TIGHT, "auto": {}}


class Truth:
    """Ranks and correlations by SVDs of the dense columns, scaled alike."""

    def __init__(self, X, Y, center):
        X, Y = (A - A.mean(axis=0) if center else A for A in (X, Y))
        X, Y = (A / np.maximum(np.linalg.norm(A, axis=0), 1e-9) for A in (X, Y))
        self.ranks = tuple(np.linalg.matrix_rank(A, tol=1e-9) for A in (X, Y))
        self.ones = sum(self.ranks) - np.linalg.matrix_rank(np.hstack([X, Y]), tol=1e-9)
        bases = [scipy.linalg.orth(A, rcond=1e-9 / np.linalg.norm(A, 2)) for A in (X, Y)]
        self.correlations = np.cos(np.sort(scipy.linalg.subspace_angles(*bases)))


def said(found, truth, k, shape):
    """The status and its advice."""
    ones, pairs = min(truth.ones, k), min(truth.ranks)
    if ones:
        told = f"{ones} of {len(found.correlations)} correlations {'is' if ones == 1 else 'are'} 1"
        assert told in found.message
        assert "ridge" in found.message
        assert found.status in (Status.DEGENERATE, Status.RANK_DEFICIENT)
    else:
        assert "correlations are 1" not in found.message
    if k > pairs:
        assert found.status is Status.RANK_DEFICIENT
        assert f"{pairs} of the {k} asked for are returned" in found.message
    if truth.ranks != shape and found.ranks is not None:
        assert found.status is Status.RANK_DEFICIENT
        assert "numerical rank" in found.message


@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("solver", OPTIONS)
@pytest.mark.slow(keep=15)
def test_as_many_ones_as_shared_dimensions(solver, case, center):
    for seed in range(2):
        X, Y = case(np.random.default_rng(seed).standard_normal)
        truth = Truth(X, Y, center)
        for k in (min(3, *truth.ranks), min(*X.shape, *Y.shape)):
            found = ls.solve(ls.CCA(X, Y, k, center=center), solver, **OPTIONS[solver])
            assert len(found.correlations) == min(k, *truth.ranks)
            np.testing.assert_allclose(found.correlations, truth.correlations[:k], atol=1e-9)
            assert found.converged
            assert found.ranks in (None, truth.ranks)
            assert np.sum(found.correlations > 1 - 1e-8) == min(truth.ones, k)
            said(found, truth, k, (X.shape[1], Y.shape[1]))
            # The variates are what the numbers say.
            np.testing.assert_allclose(found.score(X, Y).correlations, truth.correlations[:k], atol=1e-7)


@pytest.mark.parametrize("solver", ["direct", "gram"])
def test_the_ridge_that_is_suggested_puts_what_is_there_first(solver):
    """One direction in 30 and 25 columns, 20 rows: without a ridge it is lost among what is shared by chance."""
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((400, 1))
    X, Y = rng.standard_normal((400, 30)) + shared, rng.standard_normal((400, 25)) + shared
    alarmed = ls.solve(ls.CCA(X[:20], Y[:20], 3), solver)
    assert np.abs(alarmed.score(X[20:], Y[20:]).correlations).max() < 0.3
    rx, ry = suggested(ls.solve(ls.CCA(1e-3 * X[:20], 1e3 * Y[:20], 3), solver))  # one for each view
    assert ry / rx == pytest.approx(1e12, rel=0.5)
    found = ls.solve(ls.CCA(X[:20], Y[:20], 3, ridge=max(suggested(alarmed))), solver)
    correlations, _ = found.score(X[20:], Y[20:])
    assert correlations[0] > 0.9
    assert np.abs(correlations[1:]).max() < 0.3
    assert found.correlations.min() > 0.999  # in the rows fitted all of them look alike


@pytest.mark.parametrize("solver", [*OPTIONS, "two-stage"])
def test_a_constant_view_has_no_pairs_about_its_mean_and_one_about_zero(solver):
    X, Y = np.full((N, 4), 0.1), np.random.default_rng(0).standard_normal((N, 3))
    options = OPTIONS.get(solver, TIGHT)
    found = ls.solve(ls.CCA(X, Y, 2), solver, **options)
    assert (found.status, found.residual, found.x_weights.shape) == (Status.RANK_DEFICIENT, 0, (4, 0))
    assert "0 of the 2 asked for" in found.message
    assert found.score(X, Y).total == 0.0
    found = ls.solve(ls.CCA(X, Y, 2, center=False), solver, **options)
    projected = Y @ np.linalg.lstsq(Y, np.ones(N), rcond=None)[0]
    assert found.correlations == pytest.approx([np.linalg.norm(projected) / np.sqrt(N)], abs=1e-9)


def suggested(found):
    """The ridges in the message."""
    return [float(part) for part in found.message.split("A ridge of about (")[1].split(")")[0].split(", ")]


# ---- ill-conditioned views ------------------------------------------------------------------------

RHO = np.array([0.9, 0.7, 0.4, 0.1])


def planted(condition):
    """Two centred views of 7 columns, whose condition no scaling of columns can mend."""
    values = np.geomspace(1, 1 / condition, 7)
    case = planted_cca(300, 7, 7, RHO, 4, values_x=values, values_y=values)
    return [A - A.mean(axis=0) for A in case.arrays.values()]


@pytest.mark.parametrize("condition", [1, 1e2, 1e5, 1e6, 1e9])
def test_direct_loses_one_power_of_the_condition_and_gram_two_and_says_so(condition):
    problem = ls.CCA(*planted(condition), 4)
    direct, gram, auto = (ls.solve(problem, name) for name in ("direct", "gram", "auto"))
    np.testing.assert_allclose(direct.correlations, RHO, atol=1e-13 * condition + 1e-13)
    assert direct.ranks == (7, 7)
    if gram.bounds is not None:
        error = np.abs(gram.correlations - RHO).max()
        assert error <= min(1e-14 * condition**2 + 1e-13, gram.bounds.max())
    if condition > 1e5:
        assert gram.status is Status.ILL_CONDITIONED
        assert 'Choose "direct"' in gram.message
    elif condition < 1e3:
        assert gram.status is Status.CONVERGED
    np.testing.assert_allclose(auto.correlations, RHO, atol=1e-13 * condition + 1e-9)
    assert auto.converged
    if condition == 1e9:
        assert auto.solver == "direct"
        assert "gram was tried first" in auto.message


@pytest.mark.skipif(EPS > 1e-18, reason="longdouble is float64 here: nothing can be decided")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.slow(keep=2)
def test_bounds_hold_for_float32_with_a_ridge_below_its_rounding(seed):
    """The ridge keeps directions that are shorter than the rounding of float32; entries count as exact."""
    rng = np.random.default_rng(100 + seed)
    p, q = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    condition = 10 ** rng.uniform(5.5, 7.5)
    spectrum = np.diag(np.logspace(0, -np.log10(condition), p))
    X = rng.standard_normal((60, p)) @ spectrum @ np.linalg.qr(rng.standard_normal((p, p)))[0]
    Y = X[:, :1] @ rng.standard_normal((1, q)) + rng.standard_normal((60, q))
    X, Y = X.astype(np.float32), Y.astype(np.float32)
    ridge, k = 10 ** rng.uniform(-16, -9), min(p, q)
    given = {"k": k, "ridge": ridge}
    exact = truth_of(Case("cca", {"X": X, "Y": Y}, given)).s[:k].astype(float)
    for solver in ("gram", "direct", "lobpcg"):
        found = ls.solve(ls.CCA(X, Y, k, ridge=ridge), solver, rng=0)
        if found.bounds is not None:
            off = np.abs(found.correlations[:, None] - exact[None, :]).min(axis=1)
            assert (off <= found.bounds + 1e-15).all()
        if found.converged:
            np.testing.assert_allclose(found.correlations, exact[: len(found.correlations)], atol=1e-6)
        if solver == "direct":
            np.testing.assert_allclose(found.correlations, exact, atol=1e-8)


# ---- certificate -------------------------------------------------------------------------------


HELD = ["nothing", "gram", "triangle"]


def judged(problem, x, y, held="nothing", **limits):
    """The solution of a solver that returns these weights, of columns as they are preprocessed, whatever they are."""

    class Given(Solver):
        def iterate(self, problem, moments, context, start):
            if held != "nothing":
                getattr(moments, held)()
            yield Iterate(0.0, lambda: {"x_weights": x, "y_weights": y}, final=True)

    return ls.solve(problem, Given(), **limits)


def views(rho, p, q, seed, *, condition=1.0, rows=30):
    """Two views with these correlations, others 0, and the weights of all pairs."""
    rng = np.random.default_rng(seed)
    W = np.linalg.qr(rng.standard_normal((p + q + rows, p + q)))[0]
    every = np.pad(np.asarray(rho, dtype=float), (0, q - len(rho)))
    Qx, Qy = W[:, :p], W[:, :q] * every + W[:, p:] * np.sqrt(1 - every**2)
    turns = [np.linalg.qr(rng.standard_normal((m, m)))[0] for m in (p, p, q, q)]
    A, B = (U * np.geomspace(1, 1 / condition, len(U)) @ V for U, V in (turns[:2], turns[2:]))
    return Qx @ A, Qy @ B, np.linalg.inv(A), np.linalg.inv(B), rng


def oracle(X, Y, x, y, **stated):
    """Residual, correlations of the weights and all exact correlations, by dense algebra, of preprocessed columns."""
    terms = {"center": False, **stated}
    ridge, w = terms.pop("ridge", 0.0), terms.pop("sample_weight", np.ones(len(X)))
    Z = terms.pop("confounds", None)
    Z = None if Z is None else extended(Z)
    X, Y = (adjusted(extended(M), w, Z, **terms).entries.astype(float) for M in (X, Y))
    Lx, Ly = (np.linalg.cholesky(M.T @ M + ridge * np.eye(M.shape[1])) for M in (X, Y))
    T = np.linalg.solve(Ly, np.linalg.solve(Lx, X.T @ Y).T).T
    # canonical pairs within the spans
    U, V = np.linalg.qr(Lx.T @ x)[0], np.linalg.qr(Ly.T @ y)[0]
    P, rho, Qt = np.linalg.svd(U.T @ T @ V)
    U, V = U @ P, V @ Qt.T
    squares = np.sum((T @ V - U * rho) ** 2, axis=0) + np.sum((T.T @ U - V * rho) ** 2, axis=0)
    return squares.sum() / rho.sum(), rho, np.linalg.svd(T, compute_uv=False)


rng = np.random.default_rng(7)
CERTIFICATE_CASES = {
    "plain": {},
    "ridge": {"ridge": 0.5},
    "weights, confounds, scale": {
        "sample_weight": rng.integers(1, 4, 60).astype(float),
        "confounds": rng.standard_normal((60, 2)),
        "scale": True,
        "center": True,
    },
    "few rows": {"ridge": 0.1, "rows": 12},
    "float32": {"ridge": 0.5, "dtype": np.float32},
}


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("name", CERTIFICATE_CASES)
def test_residual_and_bounds_are_those_of_dense_algebra(name, held):
    terms = {"center": False, **CERTIFICATE_CASES[name]}
    rows, dtype = terms.pop("rows", 60), terms.pop("dtype", float)
    close = 1e-3 if dtype is np.float32 else 1e-7
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, Y = rng.standard_normal((rows, 14)).astype(dtype), rng.standard_normal((rows, 9)).astype(dtype)
        Y[:, :3] += X[:, :3]
        start = ls.solve(ls.CCA(X, Y, 3, **terms), "direct")
        scales = [1.0 if s is None else s[:, None] for s in (start.x_scale, start.y_scale)]
        x, y = (
            W * scale * (1 + 0.05 * rng.standard_normal(W.shape))
            for W, scale in zip((start.x_weights, start.y_weights), scales, strict=True)
        )
        found = judged(ls.CCA(X, Y, 3, **terms), x, y, held)
        residual, rho, exact = oracle(X, Y, x, y, **terms)
        np.testing.assert_allclose(found.correlations, rho, atol=close)
        if held != "nothing":
            assert found.residual_kind == "exact"
            assert found.residual == pytest.approx(residual, rel=10 * close)
        assert residual / 3 <= found.residual <= 4 * residual
        assert found.bounds is not None or held == "nothing"
        if found.bounds is not None:
            assert np.all(np.abs(exact[:, None] - rho).min(axis=0) <= found.bounds * (1 + close))


def test_half_way_between_two_pairs_the_bound_is_the_distance():
    """A symmetric matrix with eigenvalues a and b: half-way the residual is as long as the distance to either."""
    X, Y, A, B, _ = views([0.9, 0.5, 0.2, 0.1], 4, 4, 3)
    between = np.array([[1.0], [1.0], [0.0], [0.0]]) / np.sqrt(2)
    found = judged(ls.CCA(X, Y, 1, center=False), A @ between, B @ between, "gram")
    np.testing.assert_allclose(found.correlations, [0.7], rtol=1e-12)
    np.testing.assert_allclose(found.bounds, [0.2], rtol=1e-9)


@pytest.mark.parametrize(("p", "q"), [(1, 4), (4, 1), (2, 5)])
@pytest.mark.parametrize("share", [1e-6, 1e-3, 0.1])
def test_bounds_hold_beside_the_zeros_of_the_wider_view(p, q, share):
    """Variates along directions that the other view does not see have a correlation of about 0, which is none."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((200, p)), rng.standard_normal((200, q))
    Y[:, 0] += X[:, 0]
    X[:, -1] += 0.5 * Y[:, -1]
    wide, narrow = (X, Y) if p > q else (Y, X)
    C = narrow.T @ wide
    seen = np.linalg.solve(wide.T @ wide + np.eye(max(p, q)), C.T)[:, :1]
    hidden = np.linalg.svd(C)[2][-1:].T  # the other view has no correlation with it
    of_wide, of_narrow = hidden + share * seen / np.linalg.norm(seen), np.eye(min(p, q), 1)
    x, y = (of_wide, of_narrow) if p > q else (of_narrow, of_wide)
    found = judged(ls.CCA(X, Y, 1, 1.0, center=False), x, y, "gram")
    exact = oracle(X, Y, x, y, ridge=1.0)[2]
    assert np.min(np.abs(exact - found.correlations[0])) <= found.bounds[0] * (1 + 1e-9)


@pytest.mark.parametrize(("size", "held"), [((30, 20), "gram"), ((30, 20), "triangle"), ((250, 230), "gram")])
@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_a_pair_that_is_missing_is_said_where_matrices_are_held(seed, missing, size, held):
    """In large views a Krylov space looks for it, as all correlations take too long."""
    rho = np.sort(np.random.default_rng(seed).uniform(0.3, 0.98, 8))[::-1]
    X, Y, A, B, rng = views(rho, *size, seed, condition=10.0 ** (seed % 3))
    kept = [i for i in range(4) if i != missing]
    x, y = (M[:, kept] + 1e-9 * rng.standard_normal((len(M), 3)) @ np.eye(3) for M in (A, B))
    found = judged(ls.CCA(X, Y, 3, center=False), x, y, held)
    assert (found.status, found.converged) == (Status.INCOMPLETE, False)
    named = float(re.search(r"sum is about (\S+) too small", found.message)[1])
    assert named == pytest.approx(rho[:3].sum() - found.correlations.sum(), rel=0.1)


def test_a_pair_that_is_missing_is_said_of_products_where_it_is_asked():
    X, Y, A, B, _ = views([0.9, 0.8, 0.7, 0.5], 30, 20, 0)
    problem, second = ls.CCA(X, Y, 2, center=False), (A[:, 1:3], B[:, 1:3])
    assert judged(problem, *second).converged
    asked = judged(problem, *second, complete=True)
    assert (asked.status, asked.converged) == (Status.INCOMPLETE, False)
    assert judged(problem, A[:, :2], B[:, :2], complete=True).converged


def test_a_tie_at_the_cut_is_said():
    X, Y, A, B, _ = views([0.9, 0.5, 0.5, 0.2], 8, 6, 0)
    for rho_next, said in ((2, True), (3, False)):
        found = judged(ls.CCA(X, Y, rho_next, center=False), A[:, :rho_next], B[:, :rho_next], "gram")
        assert found.converged
        assert ("span at the cut is a choice" in found.message) == said


@pytest.mark.parametrize(("gap", "clustered"), [(3e-3, True), (0.3, False)])
def test_correlations_close_behind_are_said(gap, clustered):
    """200 of them. What pairs have of those behind is left of the residual times the gap, and of its square."""
    rho = [0.802, 0.801, 0.8, *np.full(200, 0.8 - gap)]
    X, Y, A, B, rng = views(rho, 210, 205, 0)
    off = np.zeros((210, 3))
    off[3:203] = np.sqrt(1e-7 * sum(rho[:3]) / (2 * 600)) / gap * rng.standard_normal((200, 3))
    U = np.eye(210)[:, :3] + off
    found = judged(ls.CCA(X, Y, 3, center=False), A @ U, B @ U[:205], "gram")
    loss = 1 - found.correlations.sum() / sum(rho[:3])
    assert found.residual < 1e-6
    assert ("close to those returned" in found.message) == clustered == (loss > 1e-5)
    assert 0.3 * loss <= found.loss_estimate <= 3 * loss


def test_without_room_for_a_look_at_what_was_cut_nothing_is_certain():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 6)) @ np.diag([1, 1, 1, 1, 1, 1e-10]) @ rng.standard_normal((6, 6))
    Y = rng.standard_normal((100, 4))
    found = ls.solve(ls.CCA(X, Y, 2, center=False), "gram", max_passes=1)
    assert found.passes <= 1
    assert (found.status, found.converged) == (Status.ILL_CONDITIONED, False)


@pytest.mark.parametrize(("small", "missed"), [(1e-4, True), (1e-9, False)])
def test_fewer_pairs_than_asked_are_incomplete_where_the_others_have_a_share_of_the_sum(small, missed):
    X, Y, A, B, _ = views([0.9, 0.5, small, small], 12, 8, 0)
    found = judged(ls.CCA(X, Y, 4, center=False), A[:, :2], B[:, :2], "gram")
    assert ("Larger correlations exist" in found.message) == missed
    assert found.converged != missed
    assert "the numerical ranks of the views allow more canonical pairs" in found.message


@pytest.mark.parametrize("p", [30, 1700], ids=["sketched", "preconditioned"])
def test_blocks_may_have_different_widths(p: int) -> None:
    """The pairs within a block of X and all of Y, as two-stage methods hand them over."""
    rng = np.random.default_rng(4)
    X, Y = rng.standard_normal((60, p)), rng.standard_normal((60, 9))
    A, B = X - X.mean(axis=0), Y - Y.mean(axis=0)
    W = np.linalg.solve(A.T @ A + 5 * np.eye(p), A.T @ B)[:, :4]
    Wx, Wy = (np.linalg.cholesky(G).T for G in (W.T @ (A.T @ (A @ W) + 5 * W), B.T @ B + 5 * np.eye(9)))
    exact = np.linalg.svd(np.linalg.solve(Wx.T, W.T @ A.T @ B) @ np.linalg.inv(Wy), compute_uv=False)[:3]
    found = judged(ls.CCA(X, Y, 3, ridge=5.0), W, np.eye(9))
    np.testing.assert_allclose(found.correlations, exact, rtol=1e-9)
