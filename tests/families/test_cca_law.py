"""The certificate of canonical pairs on views whose canonical pairs are planted.

X = Qx A and Y = Qy B with orthonormal Qx, Qy and QxᵀQy = diag(ρ): in the coordinates A Φ and B Ψ the metrics are
identities, and law and loss are sums that NumPy makes without any of the library.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec import Moments, Status
from linspec.families.cca.law import answer, evidence
from linspec.families.cca.law import judging as cca_law
from linspec.solving.conclusion import Terms

TOL = 1e-6


@dataclass
class Planted:
    rho: np.ndarray
    X: np.ndarray
    Y: np.ndarray
    A: np.ndarray
    B: np.ndarray

    def judged(
        self, U, V, *, form="implicit", known=None, sparse=False, room=float("inf"), ridge=0.0, complete=False
    ):
        """Return the conclusion on the pairs with coordinates U and V, as many as requested."""
        views = [scipy.sparse.csr_array(M) for M in (self.X, self.Y)] if sparse else [self.X, self.Y]
        problem = ls.CCA(*views, U.shape[1], ridge=ridge, center=False)
        moments = Moments(problem.X, problem.Y, form=form)
        weights = {"x_weights": np.linalg.solve(self.A, U), "y_weights": np.linalg.solve(self.B, V)}
        more = {} if known is None else {"evidence": known}
        return problem.conclude(moments, Terms(TOL, room, complete=complete), **weights, **more)

    def law(self, fields):
        U, V, rho = self.A @ fields["x_weights"], self.B @ fields["y_weights"], fields["correlations"]
        T = np.zeros((len(self.A), len(self.B)))
        np.fill_diagonal(T, self.rho)
        return (np.sum((T @ V - U * rho) ** 2) + np.sum((T.T @ U - V * rho) ** 2)) / rho.sum()

    def loss(self, fields):
        found = fields["correlations"]
        total = np.sort(self.rho)[::-1][: len(found)].sum()
        return (total - found.sum()) / total


def planted(rho, p, q, seed, *, condition=1.0):
    rng = np.random.default_rng(seed)
    W = np.linalg.qr(rng.standard_normal((p + q + 30, p + q)))[0]
    every = np.pad(np.asarray(rho, dtype=float), (0, q - len(rho)))
    Qx, Qy = W[:, :p], W[:, :q] * every + W[:, p:] * np.sqrt(1 - every**2)
    A, B = (
        np.linalg.qr(rng.standard_normal((m, m)))[0]
        * np.geomspace(1, 1 / condition, m)
        @ np.linalg.qr(rng.standard_normal((m, m)))[0]
        for m in (p, q)
    )
    return Planted(every, Qx @ A, Qy @ B, A, B), rng


def near(columns, order, off, rng):
    """Coordinates of the pairs named, turned a little."""
    return np.eye(order)[:, columns] + off * rng.standard_normal((order, len(columns)))


def test_half_way_between_two_pairs_the_bound_is_the_distance():
    """A symmetric matrix with eigenvalues a and b: half-way the residual is as long as the distance to either."""
    data, _ = planted([0.9, 0.5, 0.2, 0.1], 4, 4, 3)
    between = np.array([[1.0], [1.0], [0.0], [0.0]]) / np.sqrt(2)
    fields = data.judged(between, between).fields
    np.testing.assert_allclose(fields["correlations"], [0.7], rtol=1e-12)
    np.testing.assert_allclose(fields["bounds"], [0.2], rtol=1e-9)


@pytest.fixture
def large(monkeypatch):
    """Views as if they were too wide for their Gram matrices to be formed, or all of their correlations."""
    monkeypatch.setattr(cca_law, "SMALL_FLOPS", 0.0)
    monkeypatch.setattr(answer, "REDUCTION", 0.0)
    monkeypatch.setattr(cca_law, "CERTIFIED_SHARE", 0.0)
    monkeypatch.setattr(answer, "CERTIFIED_SHARE", 0.0)
    monkeypatch.setattr(evidence, "MOMENT", 0.0)
    monkeypatch.setattr(evidence, "SKETCH", 10)
    monkeypatch.setattr(evidence, "CERTIFICATE", 0.0)


def assert_bounds_hold(case, fields):
    law, loss, slack = case.law(fields), case.loss(fields), 1e-10
    low, high = fields["law_bounds"]
    assert low <= law * 1.001 + slack
    assert law <= high * 1.001 + slack
    low, high = fields["loss_bounds"]
    assert low <= loss + slack
    assert high is None or loss <= high + slack
    if fields["bounds"] is not None:
        nearest = np.abs(case.rho[:, None] - fields["correlations"]).min(axis=0)
        assert np.all(nearest <= fields["bounds"] + slack)
    assert (
        fields["correlations"].sum() <= np.sort(case.rho)[::-1][: len(fields["correlations"])].sum() + slack
    )


@pytest.mark.parametrize("form", ["implicit", "dense", "sparse"])
@pytest.mark.parametrize("off", [1e-2, 1e-4, 1e-6])
def test_residual_and_loss_of_small_views_are_exact(form, off):
    for seed in range(6):
        rho = np.sort(np.random.default_rng(seed).uniform(0, 1, 9))[::-1]
        case, rng = planted(rho, 12, 9, seed, condition=10.0 ** (seed % 4))
        found = case.judged(
            near([0, 1, 2], 12, off, rng), near([0, 1, 2], 9, off, rng), form=form, sparse=form == "sparse"
        )
        fields = found.fields
        low = 0.85 if found.kind == "quadrature" else 1 - 1e-3
        assert low * case.law(fields) - 1e-16 <= found.residual <= (1 + 1e-3) * case.law(fields) + 1e-16
        # At condition 1e3 squares round correlations by some 1e-9, and that is part of the estimate.
        assert fields["loss_estimate"] == pytest.approx(case.loss(fields), rel=0.3, abs=1e-8)
        assert_bounds_hold(case, fields)


@pytest.mark.parametrize("ridge", [0.0, 1e-3, 1.0])
def test_bounds_hold_where_little_is_known(large, ridge):
    for seed in range(6):
        rho = np.sort(np.random.default_rng(seed).uniform(0, 1, 40))[::-1]
        case, rng = planted(rho, 50, 40, seed, condition=10.0 ** (seed % 3))
        if ridge:
            # Rows of the ridge beside the data: the same Gram matrices, and correlations from an SVD.
            found, exact = ridged(case, ridge, rng)
        else:
            found = case.judged(near([0, 1], 50, 1e-3, rng), near([0, 1], 40, 1e-3, rng))
            exact = case.law(found.fields)
            assert_bounds_hold(case, found.fields)
        assert found.kind == "preconditioned"
        low, high = found.fields["law_bounds"]
        assert low * 0.999 <= exact <= high * 1.001
        assert np.isfinite(high) == (ridge > 0)


def ridged(case, ridge, rng):
    """A conclusion with a ridge, and the law by solves with the Gram matrices."""
    X, Y = case.X, case.Y
    found = case.judged(near([0, 1], 50, 1e-2, rng), near([0, 1], 40, 1e-2, rng), ridge=ridge)
    Sx, Sy = X.T @ X + ridge * np.eye(50), Y.T @ Y + ridge * np.eye(40)
    phi, psi, rho = (found.fields[name] for name in ("x_weights", "y_weights", "correlations"))
    gaps = X.T @ Y @ psi - Sx @ phi * rho, Y.T @ X @ phi - Sy @ psi * rho
    return found, sum(
        np.sum(g * np.linalg.solve(S, g)) for g, S in zip(gaps, (Sx, Sy), strict=True)
    ) / rho.sum()


@pytest.mark.parametrize("form", ["implicit", "dense"])
def test_a_missed_pair_is_found_by_a_second_block(form):
    case, rng = planted([0.95, 0.9, 0.7, 0.5, 0.3], 30, 20, 0)
    found = case.judged(near([0, 2], 30, 1e-9, rng), near([0, 2], 20, 1e-9, rng), form=form)
    assert found.residual < TOL
    assert Status.INCOMPLETE in [status for status, _ in found.findings]
    assert found.fields["loss_bounds"][0] == pytest.approx(case.loss(found.fields), rel=1e-3)


@pytest.mark.parametrize("form", ["implicit", "dense"])
def test_a_missed_pair_is_found_where_all_correlations_would_take_too_long(monkeypatch, form):
    """The Gram matrices are there, held or by the identity; some steps of a power iteration are made with them."""
    monkeypatch.setattr(cca_law, "SMALL_FLOPS", 0.0)
    monkeypatch.setattr(cca_law, "CERTIFIED_SHARE", 0.0)
    monkeypatch.setattr(answer, "CERTIFIED_SHARE", 0.0)
    monkeypatch.setattr(answer, "REDUCTION", 0.0)
    case, rng = planted([0.95, 0.9, 0.7, 0.5, 0.3], 60, 50, 0)
    found = case.judged(near([0, 2], 60, 1e-9, rng), near([0, 2], 50, 1e-9, rng), form=form)
    assert found.residual < TOL
    assert Status.INCOMPLETE in [status for status, _ in found.findings]
    assert 0 < found.fields["loss_bounds"][0] <= case.loss(found.fields)


@pytest.mark.parametrize(("gap", "clustered"), [(3e-3, True), (0.3, False)])
def test_correlations_close_behind_are_said(gap, clustered):
    """200 of them. What pairs have of those behind is left of the residual times the gap, and of its square."""
    rho = [0.802, 0.801, 0.8, *np.full(200, 0.8 - gap)]
    case, rng = planted(rho, 210, 205, 0)
    off = np.zeros((210, 3))
    off[3:203] = np.sqrt(1e-7 * sum(rho[:3]) / (2 * 600)) / gap * rng.standard_normal((200, 3))
    U = np.eye(210)[:, :3] + off
    found = case.judged(U, U[:205], form="dense")
    assert found.residual < TOL
    statuses = [status for status, _ in found.findings]
    assert (Status.CLUSTERED in statuses) == clustered
    loss = case.loss(found.fields)
    assert (loss > 10 * TOL) == clustered
    assert 0.3 * loss <= found.fields["loss_estimate"] <= 3 * loss
    assert_bounds_hold(case, found.fields)


def test_completeness_is_shown_by_inertia_and_not_where_a_pair_is_missed(large):
    case, rng = planted([0.95, 0.9, 0.7, 0.5, 0.3], 30, 20, 0, condition=100.0)
    for pairs, shown in (([0, 1], True), ([0, 2], False)):
        U, V = near(pairs, 30, 1e-4, rng), near(pairs, 20, 1e-4, rng)
        plain = case.judged(U, V, form="dense").fields
        asked = case.judged(U, V, form="dense", complete=True).fields
        assert plain["loss_bounds"][1] is None
        assert (asked["loss_bounds"][1] is not None) == shown
        assert_bounds_hold(case, asked)


@pytest.mark.parametrize("size", [1e-8, 1e-9, 1e-10, 1e-11])
def test_a_correlation_in_a_short_direction_is_not_lost_in_silence(size):
    rng = np.random.default_rng(1)
    W = np.linalg.qr(rng.standard_normal((200, 11)))[0]
    last = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    X = W[:, :6] * [1, 1, 1, 1, 1, size] @ last
    Y = np.hstack([0.99 * W[:, 5:6] + np.sqrt(1 - 0.99**2) * W[:, 6:7], W[:, 7:]])
    # Only the rows show what rounding of the entries of X leaves of .99.
    Qx, Qy = (np.linalg.qr(M)[0] for M in (X, Y))
    truth = np.linalg.svd(Qx.T @ Qy, compute_uv=False)[:2]
    squared = ls.solve(ls.CCA(X, Y, 2, center=False), "gram")
    assert not squared.converged or squared.correlations[0] == pytest.approx(truth[0], abs=1e-5)
    found = ls.solve(ls.CCA(X, Y, 2, center=False))
    assert found.converged
    assert found.correlations[0] == pytest.approx(truth[0], abs=1e-15 / size)


def test_without_room_for_a_look_at_what_was_cut_nothing_is_certain():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 6)) @ np.diag([1, 1, 1, 1, 1, 1e-10]) @ rng.standard_normal((6, 6))
    Y = rng.standard_normal((100, 4))
    found = ls.solve(ls.CCA(X, Y, 2, center=False), "gram", max_passes=1)
    assert found.passes <= 1
    assert (found.status, found.converged) == (Status.ILL_CONDITIONED, False)


def test_one_small_correlation_with_nothing_beside_it_loses_what_its_other_weights_lack():
    """X has one column: all that a pair can lose is in the direction of Y, beside which all correlations are 0."""
    case, _ = planted([1e-5], 1, 6, 0)
    V = np.zeros((6, 1))
    V[:2, 0] = 1, 1e-2
    found = case.judged(np.ones((1, 1)), V)
    loss = case.loss(found.fields)
    assert loss == pytest.approx(5e-5, rel=0.01)
    assert found.residual < TOL
    assert loss / 2 <= found.fields["loss_estimate"] <= 2 * loss
    assert Status.CLUSTERED in [status for status, _ in found.findings]


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("ridge", [1e2, 1e5, 1e6])
@pytest.mark.parametrize("small", [1e-5, 3e-6, 1e-6])
@pytest.mark.parametrize("seed", range(3))
def test_rounding_of_a_small_correlation_is_estimated_where_the_residual_does_not_show_it(seed, small, ridge):
    """The columns of Y span all centred rows: the first correlation is s/√(s² + ridge), with ‖X‖ = s."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((5, 9)), rng.standard_normal((5, 4))
    Y[:, 1] = Y[:, 0] + small * Y[:, 1]
    s = np.linalg.norm(X - X.mean(axis=0), 2)
    exact = s / np.sqrt(s**2 + ridge)
    found = ls.solve(ls.CCA(X, Y, 1, ridge=(ridge, 0.0)), "two-stage", rng=0)
    loss = (exact - found.correlations[0]) / exact
    assert found.status is not Status.CONVERGED or loss <= 10 * max(found.residual, found.loss_estimate)


@pytest.mark.parametrize(("small", "missed"), [(1e-4, True), (1e-9, False)])
def test_fewer_pairs_than_asked_are_incomplete_where_the_others_have_a_share_of_the_sum(small, missed):
    case, _ = planted([0.9, 0.5, small, small], 12, 8, 0)
    problem = ls.CCA(case.X, case.Y, 4, center=False)
    weights = (np.linalg.solve(M, np.eye(len(M))[:, :2]) for M in (case.A, case.B))
    x, y = weights
    found = problem.conclude(
        Moments(problem.X, problem.Y, form="dense"), Terms(TOL, 9.0), x_weights=x, y_weights=y
    )
    assert (Status.INCOMPLETE in [status for status, _ in found.findings]) == missed
    assert found.lost == missed


@pytest.mark.parametrize(("p", "q"), [(1, 4), (4, 1), (2, 5)])
@pytest.mark.parametrize("share", [1e-6, 1e-3, 0.1])
def test_bounds_hold_beside_the_zeros_of_the_wider_view(p, q, share):
    """Variates along directions that the other view does not see have a correlation of about 0, which is none.

    The exact correlations come from the eigenvalues of the small dense pencil, by hand.
    """
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((200, p)), rng.standard_normal((200, q))
    Y[:, 0] += X[:, 0]
    X[:, -1] += 0.5 * Y[:, -1]
    Sx, Sy, C = X.T @ X + np.eye(p), Y.T @ Y + np.eye(q), X.T @ Y
    exact = np.linalg.svd(
        np.linalg.solve(np.linalg.cholesky(Sx), C) @ np.linalg.inv(np.linalg.cholesky(Sy)).T, compute_uv=False
    )
    seen = np.linalg.solve(Sy, C.T)[:, :1] if q > p else np.linalg.solve(Sx, C)[:, :1]
    hidden = np.linalg.svd(C if q > p else C.T)[2][-1:].T  # the other view has no correlation with it
    wide, narrow = hidden + share * seen / np.linalg.norm(seen), np.eye(min(p, q), 1)
    x, y = (narrow, wide) if q > p else (wide, narrow)
    problem = ls.CCA(X, Y, 1, 1.0, center=False)
    found = problem.conclude(problem.moments("dense", (1, 1)), x_weights=x, y_weights=y).fields
    nearest = np.min(np.abs(exact[:, None] - found["correlations"][None, :]), axis=0)
    assert np.all(nearest <= found["bounds"] * (1 + 1e-9))


@pytest.mark.parametrize("unit", [2.0**-60, 2.0**60, 2.0**190])
def test_the_law_of_scaled_columns_has_no_unit(unit: float) -> None:
    """Powers of two change no digit of columns that are divided by their deviations."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((9, 19)) + 1.0, rng.standard_normal((9, 10))
    far, near = (ls.solve(ls.CCA(X * u, Y, 1, ridge=0.01, scale=True), "dw-cca", rng=0) for u in (unit, 1.0))
    assert near.residual < 1
    np.testing.assert_allclose(far.residual, near.residual, rtol=1e-6)
    np.testing.assert_allclose(far.law_bounds, near.law_bounds, rtol=1e-6)
