"""The two-stage approach: the theorems of its paper, its choices, and what it does where the paper is silent."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from planted import orthonormal

import linspec as ls
from linspec import Status, targets
from linspec.errors import InvalidOption, InvalidProblem

RNG = np.random.default_rng(0)
LABELS = (RNG.random((200, 6)) < 0.3).astype(float)
LABELS[:, 5] = LABELS[:, 4]  # dependent
CLASSES = RNG.integers(0, 4, 200)
TALL = RNG.standard_normal((200, 30)) * np.geomspace(1, 30, 30) + LABELS[:, :3] @ RNG.standard_normal((3, 30))
WIDE = RNG.standard_normal((60, 150)) + LABELS[:60, :2] @ RNG.standard_normal((2, 150))
both_solvers = pytest.mark.parametrize("solver", ["direct", "two-stage"])


def exact(X, H, ridge):
    """W₀ of Theorem 4 and the eigenvalues, from the SVD of the centred data."""
    Xc = X - X.mean(axis=0)
    U, s, Vt = np.linalg.svd(Xc, full_matrices=False)
    keep = s > 1e-12 * s[0]
    U, s, V = U[:, keep], s[keep], Vt[keep].T
    root = np.sqrt(s**2 + ridge)
    P, t, _ = np.linalg.svd((s / root)[:, None] * (U.T @ H), full_matrices=False)
    keep = t > 1e-10 * t[0]
    least = ridge if ridge and len(s) < X.shape[1] else s[-1] ** 2 + ridge
    return V @ (P[:, keep] / root[:, None]), t[keep] ** 2, (s[0] ** 2 + ridge) / least


def distance(W, W0):
    """‖WWᵀ − W₀W₀ᵀ‖ / ‖W₀W₀ᵀ‖ in the spectral norm."""
    return np.linalg.norm(W @ W.T - W0 @ W0.T, 2) / np.linalg.norm(W0 @ W0.T, 2)


def quiet(problem, solver="two-stage", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ls.solve(problem, solver, rng=0, **options)


TARGETS = {
    "lda": lambda n: targets.lda(CLASSES[:n]),
    "opls": lambda n: targets.opls(LABELS[:n]),
    "cca": lambda n: targets.cca(LABELS[:n]),
    "cca-sparse": lambda n: targets.cca(scipy.sparse.csr_array(LABELS[:n])),
    "zhou": lambda n: targets.hsl(LABELS[:n]),
    "clique": lambda n: targets.hsl(LABELS[:n], laplacian="clique"),
    "star": lambda n: targets.hsl(LABELS[:n], laplacian="star"),
}


def entries(H):
    return H.toarray() if scipy.sparse.issparse(H) else H.dense() if isinstance(H, ls.LinearOperator) else H


@pytest.mark.parametrize("ridge", [0.0, 1e-4, 1.0, 1e6])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("X", [TALL, WIDE], ids=["tall", "wide"])
@pytest.mark.slow(keep=16)
def test_theorems_2_and_4(X, target, ridge):
    """The two stages give the subspace of the eigenproblem, for every ridge and every target."""
    H = TARGETS[target](len(X))
    W0, values, condition = exact(X, entries(H), ridge)
    two_stage = [("two-stage", {"tol": 1e-12}), ("two-stage", {"lstsq": "direct"})]
    for solver, options in [("direct", {}), *two_stage]:
        s = quiet(ls.Discriminant(X, H, ridge=ridge), solver, **options)
        assert len(s.eigenvalues) == len(values)
        np.testing.assert_allclose(s.eigenvalues, values, rtol=1e-9)
        # Rounding alone moves an eigenvector by eps times the condition number over the gap to zero.
        bound = 1e3 * np.finfo(float).eps * condition * values[0] / values[-1]
        assert distance(s.weights, W0) < max(bound, 1e-9 if solver == "two-stage" else 0.0)


@pytest.mark.parametrize(
    ("lstsq", "ridge", "nearness"), [("direct", 1e-6, 1e-12), ("direct", 1e-4, 1e-12), ("lsqr", 1e-4, 1e-8)]
)
def test_a_small_ridge_divides_no_rounding_with_more_columns_than_rows(lstsq, ridge, nearness):
    """Means of targets are not carried along, and directions stay in the span of the rows."""
    H = targets.hsl(LABELS[:60], laplacian="star")
    W0, _, _ = exact(WIDE, H, ridge)
    s = quiet(ls.Discriminant(WIDE, H, ridge=ridge), lstsq=lstsq, tol=1e-14)
    assert distance(s.weights, W0) < nearness


@both_solvers
def test_dependent_columns_without_a_ridge_give_weights_of_least_norm(solver):
    """They have no part that the rows of X annihilate."""
    X = np.hstack([TALL, TALL[:, :5] @ RNG.standard_normal((5, 5)), np.full((200, 1), 3.0)])
    s = quiet(ls.Discriminant(X, targets.lda(CLASSES)), solver)
    assert (s.rank, s.status) == (30, Status.RANK_DEFICIENT)
    assert "numerical rank 30 of 36" in s.message
    null = np.linalg.svd(X - X.mean(axis=0))[2][30:]
    assert np.abs(null @ s.weights).max() < 1e-8 * np.abs(s.weights).max()
    W0, values, _ = exact(X, entries(targets.lda(CLASSES)), 0.0)
    np.testing.assert_allclose(s.eigenvalues, values, rtol=1e-9)
    assert distance(s.weights, W0) < 1e-6


@both_solvers
def test_as_many_independent_columns_as_rows_fit_anything(solver):
    """Then labels drawn by lot have eigenvalues of 1, and the status says so."""
    s = quiet(ls.Discriminant(WIDE, targets.lda(RNG.integers(0, 3, 60))), solver)
    np.testing.assert_allclose(s.eigenvalues, 1.0, rtol=1e-9)
    assert s.status in {Status.DEGENERATE, Status.RANK_DEFICIENT}
    assert "any targets are met exactly" in s.message


@both_solvers
@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_classes_without_any_direction_are_told_as_such(ridge, solver):
    """Of a balanced design the columns have the same means in both classes, and a constant has no others."""
    design = np.array([[(-1.0) ** ((i >> j) & 1) for j in range(3)] for i in range(16)])
    for X in (design[:, :2], 1e8 * design[:, :2] + 1e9, np.full((16, 2), 98.6), np.zeros((16, 30))):
        found = ls.solve(ls.Discriminant(X, targets.lda(design[:, 2] > 0), ridge=ridge), solver)
        assert found.status is Status.RANK_DEFICIENT
        assert found.message.startswith("0 of the 1 asked for are returned: there are no directions")


def test_what_cannot_be_asked_is_said():
    for arguments, words in (
        ((CLASSES.astype(float),), r"Make targets of classes with linspec\.targets\.lda"),
        ((targets.lda(CLASSES), 5), "between 1 and 4"),
    ):
        with pytest.raises(InvalidProblem, match=words):
            ls.Discriminant(TALL, *arguments)
    with pytest.raises(InvalidOption, match="has the method begins"):  # components are not the solution
        ls.solve(ls.Discriminant(TALL, targets.lda(CLASSES), 3), "two-stage", lstsq="pcr")


def test_correlations_are_the_roots_of_the_eigenvalues():
    """CCA of data with labels is the discriminant of the CCA target (Sun, Ceran & Ye 2010, section 2.1)."""
    values = quiet(ls.Discriminant(TALL, targets.cca(LABELS), 4)).eigenvalues
    rho = quiet(ls.CCA(TALL, LABELS[:, :5], 4), tol=1e-12).correlations
    np.testing.assert_allclose(rho**2, values, rtol=1e-8)


def planted(kappa, short, p=24, n=150):
    """(X, H, eigenvalues) with known singular vectors: half of H is in the `short` shortest directions."""
    rng = np.random.default_rng(short)
    U, V = orthonormal(rng, n, p + 3, centered=True), orthonormal(rng, p, p)
    X = U[:, :p] * np.repeat([1.0, 1 / kappa], [p - short, short]) @ V.T
    mix = rng.standard_normal((p, 3)) / np.sqrt(np.repeat([p - short, short], [p - short, short]))[:, None]
    H = U[:, :p] @ mix + U[:, p : p + 3]
    return X, H, np.linalg.svd(mix, compute_uv=False) ** 2


@pytest.mark.parametrize("form", ["dense", "implicit"])
@pytest.mark.parametrize("lstsq", ["cg", "lsqr", "direct"])
@pytest.mark.parametrize("kappa", [1e3, 1e7, 1e11, 1e13])
@pytest.mark.parametrize("short", [1, 8])
@pytest.mark.slow(keep=12)
def test_what_short_directions_say_is_found_or_missed_aloud(kappa, short, lstsq, form):
    """The square of the residual is the share of the eigenvalues that is lost, however short a direction is."""
    X, H, values = planted(kappa, short)
    for ridge in (0.0, 1e-12 / kappa**2):
        s = quiet(ls.Discriminant(X, H, ridge=ridge), form=form, lstsq=lstsq)
        squared = kappa**2 if kappa < 1e4 else 0.0  # Gram matrices
        rounding = np.finfo(float).eps * (100 * kappa + squared)
        lost = abs(s.eigenvalues.sum() / values.sum() - 1)
        assert lost <= 3 * s.residual**2 + rounding
        if s.converged:
            np.testing.assert_allclose(s.eigenvalues, values, rtol=1e-6 + rounding)


@pytest.mark.parametrize("kind", ["wider", "slices", "products"])
def test_what_only_products_or_long_rows_show_is_not_lost_unsaid(kind):
    """Rows that take longer to reduce than products have taken are reduced where their squares are rounding."""
    X, H, values = planted(1e11, 8, p=400, n=1500) if kind == "wider" else planted(1e10, 2)
    data = {"slices": lambda: iter([X[:80], X[80:]]), "products": scipy.sparse.linalg.aslinearoperator(X)}
    s = quiet(ls.Discriminant(data.get(kind, X), H), form="implicit")
    lost = 1 - s.eigenvalues.sum() / values.sum()
    assert lost <= 1e-5 or not s.converged
    assert lost <= 3 * s.residual**2 + 1e-5


@pytest.mark.parametrize("form", ["auto", "implicit"])
def test_columns_of_very_different_lengths_are_solved_for(form):
    """They end the iteration of stage 1, which goes on from a solution in the exact metric."""
    H, units = targets.lda(CLASSES), 10.0 ** np.random.default_rng(3).uniform(-8, 8, 30)
    s = quiet(ls.Discriminant(TALL * units, H), form=form, lstsq="cg")
    assert (s.status, s.rank) == (Status.CONVERGED, 30)
    np.testing.assert_allclose(s.eigenvalues, exact(TALL, entries(H), 0.0)[1], rtol=1e-9)


def test_a_run_that_ends_before_short_directions_are_judged_is_not_converged():
    """The largest eigenvalue is in a direction 1e-10 of the others, which the plain norm does not show."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 6))
    X[:, 5] = X[:, 0] + 1e-10 * rng.standard_normal(80)
    short = X[:, 5] - X[:, 0]
    H = np.column_stack([short / np.linalg.norm(short), 0.3 * X[:, 1] / np.linalg.norm(X[:, 1])])
    stopped = quiet(ls.Discriminant(X, H, k=1), callback=lambda progress: progress.iteration >= 4)
    whole = quiet(ls.Discriminant(X, H, k=1), "direct")
    assert stopped.eigenvalues[0] < 0.9 * whole.eigenvalues[0]
    assert not stopped.converged
