"""The certificate of canonical pairs, held to dense algebra on views whose canonical pairs are planted.

X = Qx A and Y = Qy B with orthonormal Qx, Qy and QxᵀQy = diag(ρ): in the coordinates A Φ and B Ψ the metrics are
identities. Where rows are weighted, columns scaled or a ridge is added, NumPy solves with the Gram matrices.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.linalg
from truths import adjusted, extended

import linspec as ls
from linspec import Status
from linspec.iteration import Iterate
from linspec.solving import Solver

HELD = ["nothing", "gram", "triangle"]
pytestmark = pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")


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
CASES = {
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
@pytest.mark.parametrize("name", CASES)
def test_residual_and_bounds_are_those_of_dense_algebra(name, held):
    terms = {"center": False, **CASES[name]}
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


@pytest.mark.parametrize("size", [1e-8, 1e-9, 1e-10, 1e-11])
def test_a_correlation_in_a_short_direction_is_not_lost_in_silence(size):
    rng = np.random.default_rng(1)
    W = np.linalg.qr(rng.standard_normal((200, 11)))[0]
    X = W[:, :6] * [1, 1, 1, 1, 1, size] @ np.linalg.qr(rng.standard_normal((6, 6)))[0]
    Y = np.hstack([0.99 * W[:, 5:6] + np.sqrt(1 - 0.99**2) * W[:, 6:7], W[:, 7:]])
    # Only the rows show what rounding of the entries of X leaves of .99.
    truth = np.cos(scipy.linalg.subspace_angles(X, Y)).max()
    squared, found = ls.solve(ls.CCA(X, Y, 2, center=False), "gram"), ls.solve(ls.CCA(X, Y, 2, center=False))
    assert squared.status is Status.ILL_CONDITIONED or abs(squared.correlations[0] - truth) < 1e-5
    assert found.converged
    assert found.correlations[0] == pytest.approx(truth, abs=1e-15 / size)


def test_without_room_for_a_look_at_what_was_cut_nothing_is_certain():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 6)) @ np.diag([1, 1, 1, 1, 1, 1e-10]) @ rng.standard_normal((6, 6))
    Y = rng.standard_normal((100, 4))
    found = ls.solve(ls.CCA(X, Y, 2, center=False), "gram", max_passes=1)
    assert found.passes <= 1
    assert (found.status, found.converged) == (Status.ILL_CONDITIONED, False)


def test_squared_digits_are_said_where_condition_numbers_are_large():
    for condition, said in ((1e3, False), (1e6, True)):
        X, Y, *_ = views([0.9, 0.5], 6, 5, 0, condition=condition)
        gram, direct = (ls.solve(ls.CCA(X, Y, 2, center=False), name) for name in ("gram", "direct"))
        assert (gram.status is Status.ILL_CONDITIONED and "may be off" in gram.message) == said
        assert direct.status is Status.CONVERGED
        np.testing.assert_allclose(direct.correlations, [0.9, 0.5], atol=1e-15 * condition)


@pytest.mark.parametrize(("small", "missed"), [(1e-4, True), (1e-9, False)])
def test_fewer_pairs_than_asked_are_incomplete_where_the_others_have_a_share_of_the_sum(small, missed):
    X, Y, A, B, _ = views([0.9, 0.5, small, small], 12, 8, 0)
    found = judged(ls.CCA(X, Y, 4, center=False), A[:, :2], B[:, :2], "gram")
    assert ("Larger correlations exist" in found.message) == missed
    assert found.converged != missed
    assert "the numerical ranks of the views allow more canonical pairs" in found.message


@pytest.mark.parametrize("unit", [2.0**-60, 2.0**60, 2.0**190])
def test_the_residual_of_scaled_columns_has_no_unit(unit: float) -> None:
    """Powers of two change no digit of columns that are divided by their deviations."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((9, 19)) + 1.0, rng.standard_normal((9, 10))
    far, near = (ls.solve(ls.CCA(X * u, Y, 1, ridge=0.01, scale=True), "dw-cca", rng=0) for u in (unit, 1.0))
    assert near.residual < 1
    np.testing.assert_allclose(far.residual, near.residual, rtol=1e-6)


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
