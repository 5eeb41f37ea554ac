"""Weights are repeated rows, and confounds are residuals: in the moments and in the answers of every problem.

The oracles are written out here: rows repeated as often as they count, and rows less their projection on the
confounds (computed by a QR factorisation, twice).
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from backends import backends
from in_blocks import rows_of

import linspec as ls
from linspec import errors
from linspec.iteration import Iterate
from linspec.operators import as_operator
from linspec.operators.weights import weights_and_confounds
from linspec.rows import Moments, Preprocessing
from linspec.solving import Solver

N, P, Q, C = 700, 9, 5, 3
EPS = np.finfo(np.float64).eps


def data(seed=0, n=N):
    """Two views with means, a shared part, and confounds in both."""
    rng = np.random.default_rng(seed)
    shared, Z = rng.standard_normal((n, 2)), rng.standard_normal((n, C)) @ rng.standard_normal((C, C)) + 4
    X = (
        shared @ rng.standard_normal((2, P))
        + Z @ rng.standard_normal((C, P))
        + rng.standard_normal((n, P))
        + 2
    )
    Y = (
        shared @ rng.standard_normal((2, Q))
        + Z @ rng.standard_normal((C, Q))
        + rng.standard_normal((n, Q))
        - 1
    )
    w = rng.integers(0, 4, n).astype(float)
    w[: n // 5] = 0  # a whole block of rows that count nothing
    return X, Y, Z, w


def thinned(A, seed=1):
    return A * (np.random.default_rng(seed).random(A.shape) < 0.3)


def residual(A, Z, w, *, center):
    """D A less its projection on the columns of D [1 Z]."""
    roots = np.sqrt(np.ones(len(A)) if w is None else w)[:, None]
    taken = ([np.ones((len(A), 1))] if center else []) + ([] if Z is None else [Z])
    if not taken:
        return roots * A
    basis, _ = np.linalg.qr(roots * np.hstack(taken))
    found = roots * A
    for _ in range(2):
        found = found - basis @ (basis.T @ found)
    return found


class KnownByProducts(ls.LinearOperator):
    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def _matmat(self, V):
        return self.array @ V

    def _rmatmat(self, U):
        return self.array.T @ U


def slices(array):
    return lambda: (array[start : start + 61] for start in range(0, len(array), 61))


def mapped(array, folder, name):
    path = folder / f"{name}.npy"
    np.save(path, array)
    return path


KINDS = {
    "dense": lambda array, folder, name: array,
    "fortran": lambda array, folder, name: np.asfortranarray(array),
    "csr": lambda array, folder, name: sp.csr_array(array),
    "slices": lambda array, folder, name: slices(array),
    "iterator": lambda array, folder, name: slices(array)(),
    "map": mapped,
    "products": lambda array, folder, name: KnownByProducts(array),
}
ROWS = {
    "weights": (True, False, True),
    "weights, no centre": (True, False, False),
    "confounds": (False, True, True),
    "confounds, no centre": (False, True, False),
    "both": (True, True, True),
}


def pre_of(rows, Z, w, scale=False):
    weighted, confounded, center = ROWS[rows]
    given = weights_and_confounds(w if weighted else None, Z if confounded else None, len(w))
    return Preprocessing.of(center=center, weights=given[0], confounds=given[1], scale=scale)


def moments_of(given, pre):
    return Moments([rows_of(as_operator(A), name) for name, A in given.items()], pre)


def left_of(A, rows, Z, w):
    weighted, confounded, center = ROWS[rows]
    return residual(A, Z if confounded else None, w if weighted else None, center=center)


@pytest.mark.parametrize("scale", [False, True], ids=["plain", "scaled"])
@pytest.mark.parametrize("rows", list(ROWS))
@pytest.mark.parametrize("form", ["dense", "implicit", "sparse"])
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.slow(keep=60)
def test_moments_are_those_of_residuals(kind, form, rows, scale, tmp_path):
    X, Y, Z, w = data()
    if kind == "csr":
        X, Y = thinned(X), thinned(Y)
    elif form == "sparse":
        pytest.skip("only sparse matrices have sparse Gram matrices")
    if kind == "iterator" and (form == "implicit" or scale):
        pytest.skip("an iterator is read once")
    if kind == "products" and scale and form == "implicit":
        pytest.skip("the lengths of columns are not known")
    pre = pre_of(rows, Z, w, scale)
    wanted = [left_of(A, rows, Z, w) for A in (X, Y)]
    if scale:
        total = N if pre.w is None else pre.w.sum()
        wanted = [A / np.sqrt((A**2).sum(axis=0) / total) for A in wanted]
    moments = moments_of({name: KINDS[kind](A, tmp_path, name) for name, A in (("X", X), ("Y", Y))}, pre)
    if form != "implicit":
        moments.gram(sparse=form == "sparse")
    rng = np.random.default_rng(3)
    V, W = rng.standard_normal((P, 4)), rng.standard_normal((Q, 4))
    for _ in range(
        2 if kind != "iterator" or form != "implicit" else 1
    ):  # the first pass learns, the second knows
        found = moments.products(V, W)
        for i, A in enumerate(wanted):
            for j, (B, block) in enumerate(zip(wanted, (V, W), strict=True)):
                size = np.linalg.norm(A) * np.linalg.norm(B) * np.linalg.norm(block)
                assert np.linalg.norm(found[j][i] - A.T @ (B @ block)) <= 1e-13 * size
    if kind != "products" or form == "dense":
        for i, A in enumerate(wanted):
            np.testing.assert_allclose(moments.squares(i), (A**2).sum(axis=0), rtol=1e-11)


@pytest.mark.parametrize("kind", ["dense", "csr", "slices", "map"])
@pytest.mark.parametrize("form", ["dense", "implicit"])
def test_weights_and_centring_cost_no_pass(kind, form, tmp_path):
    X, Y, Z, w = data()
    for rows in ("weights", "both"):
        given = {name: KINDS[kind](thinned(A), tmp_path, name) for name, A in (("X", X), ("Y", Y))}
        moments = moments_of(given, pre_of(rows, Z, w))
        if form == "dense":
            moments.gram()
        moments.products(np.eye(P, 3), np.eye(Q, 3))
        assert moments.passes.count == 1.0


@pytest.mark.parametrize("rows", list(ROWS))
@pytest.mark.parametrize("kind", ["dense", "csr", "slices", "map", "products"])
def test_the_operator_itself_multiplies_residuals(kind, rows, tmp_path):
    X, _, Z, w = data()
    X = thinned(X) if kind == "csr" else X
    moments = moments_of({"X": KINDS[kind](X, tmp_path, "X")}, pre_of(rows, Z, w))
    A, wanted = moments.operator(), left_of(X, rows, Z, w)
    rng = np.random.default_rng(4)
    V, U = rng.standard_normal((P, 3)), rng.standard_normal((N, 3))
    np.testing.assert_allclose(A.matmat(V), wanted @ V, atol=1e-11)
    np.testing.assert_allclose(A.rmatmat(U), wanted.T @ U, atol=1e-10)
    assert moments.passes.count == 2.0


@pytest.mark.parametrize("backend", [b for b in backends() if b.is_array], ids=lambda b: b.name)
def test_on_every_backend(backend):
    if backend.missing():
        pytest.skip(backend.missing())
    X, Y, Z, w = (each.astype(float if backend.float64 else np.float32) for each in data())
    problem = ls.CCA(
        backend.wrap(X), backend.wrap(Y), 3, ridge=2.0, sample_weight=w, confounds=backend.wrap(Z)
    )
    tol = 1e-10 if backend.float64 else None  # products in float32 reach the tolerance for their dtype
    found = ls.solve(problem, "lobpcg", rng=0, form="implicit", tol=tol)
    A, B = (residual(V.astype(float), Z.astype(float), w, center=True) for V in (X, Y))
    exact = ls.solve(ls.CCA(A, B, 3, ridge=2.0, center=False), "direct")
    tight = 1e-8 if backend.float64 else 1e-5
    np.testing.assert_allclose(
        found.correlations, exact.correlations, rtol=0, atol=tight
    )  # by Weyl's inequality


# ---- problems ---------------------------------------------------------------------------------


def repeated(A, w):
    return np.repeat(A, w.astype(int), axis=0)


EXACT = {
    "cca": ("gram", "direct"),
    "svd": ("gram", "direct"),
    "least-squares": ("direct",),
    "discriminant": ("direct",),
}


@pytest.mark.parametrize("scale", [False, True], ids=["plain", "scaled"])
@pytest.mark.parametrize("center", [True, False], ids=["centred", "about zero"])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_weights_are_repeated_rows(kind, center, scale):
    X, Y, _, w = data()
    X = thinned(X) if kind == "csr" else X
    make = KINDS[kind]
    options = {"center": center, "scale": scale}
    y = np.random.default_rng(5).integers(0, 3, N)
    H = {"weighted": ls.targets.lda(y, sample_weight=w), "repeated": ls.targets.lda(repeated(y, w))}
    weighted = {
        "cca": ls.CCA(make(X, None, ""), Y, 3, ridge=1.0, sample_weight=w, **options),
        "svd": ls.SVD(make(X, None, ""), 4, sample_weight=w, **options),
        "least-squares": ls.LeastSquares(make(X, None, ""), Y, ridge=1.0, sample_weight=w, **options),
        "discriminant": ls.Discriminant(
            make(X, None, ""), H["weighted"], 2, ridge=1.0, sample_weight=w, **options
        ),
    }
    X, Y = repeated(X, w), repeated(Y, w)
    whole = {
        "cca": ls.CCA(make(X, None, ""), Y, 3, ridge=1.0, **options),
        "svd": ls.SVD(make(X, None, ""), 4, **options),
        "least-squares": ls.LeastSquares(make(X, None, ""), Y, ridge=1.0, **options),
        "discriminant": ls.Discriminant(make(X, None, ""), H["repeated"], 2, ridge=1.0, **options),
    }
    for name, problem in weighted.items():
        for solver in EXACT[name]:
            found, wanted = ls.solve(problem, solver), ls.solve(whole[name], solver)
            assert found.passes <= wanted.passes + scale, (name, solver)
            fields = [*found.layout.arrays, *filter(None, [found.layout.value])]
            for field in fields:
                one, other = getattr(found, field), getattr(wanted, field)
                if one is None or field == "U":
                    continue
                kappa = np.linalg.cond(X)
                assert np.abs(one - other).max() <= 100 * EPS * kappa * np.abs(other).max(), (
                    name,
                    solver,
                    field,
                )


@pytest.mark.parametrize("kind", ["dense", "csr", "slices", "map"])
def test_confounds_are_residuals(kind, tmp_path):
    X, Y, Z, w = data()
    X = thinned(X) if kind == "csr" else X
    A, B = (residual(V, Z, w, center=True) for V in (X, Y))
    given = KINDS[kind](X, tmp_path, "X")
    options = {"sample_weight": w, "confounds": Z, "center": True}
    found = ls.solve(ls.CCA(given, Y, 3, ridge=1.0, **options), "gram")
    wanted = ls.solve(ls.CCA(A, B, 3, ridge=1.0, center=False), "direct")
    np.testing.assert_allclose(found.correlations, wanted.correlations, rtol=1e-11)
    np.testing.assert_allclose(found.x_weights, wanted.x_weights, atol=1e-11)
    assert found.passes == 1.0
    found = ls.solve(ls.SVD(KINDS[kind](X, tmp_path, "X"), 3, **options), "gram")
    wanted = ls.solve(ls.SVD(A, 3), "direct")
    np.testing.assert_allclose(found.S, wanted.S, rtol=1e-12)
    np.testing.assert_allclose(np.abs(np.sum(found.Vh * wanted.Vh, axis=1)), 1.0, rtol=1e-12)


def test_regression_coefficients_are_those_beside_the_confounds():
    """Frisch, Waugh and Lovell: the coefficients of the regression on [1 Z A], and its intercept."""
    X, Y, Z, w = data()
    solution = ls.solve(ls.LeastSquares(X, Y, center=True, sample_weight=w, confounds=Z), "direct")
    roots = np.sqrt(w)[:, None]
    beta = np.linalg.lstsq(roots * np.hstack([X, Z, np.ones((N, 1))]), roots * Y, rcond=None)[0]
    np.testing.assert_allclose(solution.x, beta[:P], atol=1e-10)


def test_iterators_with_weights_and_confounds_are_read_once():
    X, Y, Z, w = data()
    problem = ls.CCA(slices(X)(), slices(Y)(), 3, ridge=1.0, sample_weight=w, confounds=Z)
    found = ls.solve(problem, "gram")
    A, B = (residual(V, Z, w, center=True) for V in (X, Y))
    np.testing.assert_allclose(
        found.correlations,
        ls.solve(ls.CCA(A, B, 3, ridge=1.0, center=False), "direct").correlations,
        rtol=1e-11,
    )
    assert found.passes == 1.0
    with pytest.raises(errors.InvalidProblem, match="sample_weight must have a number for each row; got 650"):
        ls.solve(ls.CCA(slices(X)(), slices(Y)(), 3, sample_weight=w[:650]), "gram")
    with pytest.raises(errors.InvalidProblem, match="got 750 for 700 rows"):
        ls.solve(ls.CCA(slices(X)(), slices(Y)(), 3, sample_weight=np.ones(750)), "gram")


@pytest.mark.parametrize("solver", ["gram", "lobpcg", "als", "direct"])
def test_what_an_earlier_solve_has_read_of_slices_is_not_taken_for_weighted(solver):
    """`als` counts the rows of a callable and keeps their means; they are no weighted means, and know no confounds."""
    X, Y, Z, w = data()
    views = [as_operator(slices(A)) for A in (X, Y)]
    ls.solve(ls.CCA(*views, 2, ridge=1.0), "als", rng=0)
    options = {"ridge": 1.0, "sample_weight": w, "confounds": Z}
    found = ls.solve(ls.CCA(*views, 2, **options), solver, rng=0)
    wanted = ls.solve(ls.CCA(X, Y, 2, **options), "direct")
    np.testing.assert_allclose(found.correlations, wanted.correlations, rtol=1e-5)
    np.testing.assert_allclose(found.x_mean, wanted.x_mean, rtol=1e-12)


SOLVERS = [
    (problem, solver)
    for problem in ("cca", "svd", "least-squares", "discriminant")
    for solver in ls.solvers(problem)
    if solver != "naive-gradient"  # a demonstration, which converges to no canonical pairs and warns
]


@pytest.mark.filterwarnings("ignore::linspec.errors.AccuracyWarning")  # of d-cca: means couple columns
@pytest.mark.parametrize(("name", "solver"), SOLVERS, ids=[f"{a}/{b}" for a, b in SOLVERS])
@pytest.mark.slow(keep=11)
def test_every_solver_sees_weights_and_confounds(name, solver):
    """Its answer to the problem with weights and confounds is as good as its answer to the residuals."""
    X, Y, Z, w = data(n=300)
    A, B = (residual(V, Z, w, center=True) for V in (X, Y))
    options = {"sample_weight": w, "confounds": Z, "center": True}
    pairs = {
        "cca": (ls.CCA(X, Y, 2, ridge=20.0, **options), ls.CCA(A, B, 2, ridge=20.0, center=False)),
        "svd": (ls.SVD(X, 2, **options), ls.SVD(A, 2)),
        "least-squares": (ls.LeastSquares(X, Y, ridge=20.0, **options), ls.LeastSquares(A, B, ridge=20.0)),
        "discriminant": (
            ls.Discriminant(X, Y, 2, ridge=20.0, **options),
            ls.Discriminant(A, B, 2, ridge=20.0, center=False),
        ),
    }
    found, wanted = (ls.solve(problem, solver, rng=0) for problem in pairs[name])
    assert found.status == wanted.status
    assert found.residual <= max(3 * wanted.residual, pairs[name][0].default_tol)
    if found.layout.value:
        values, others = (getattr(each, found.layout.value) for each in (found, wanted))
        np.testing.assert_allclose(values, others, atol=1e-2 * others.max())


def test_a_solver_of_a_third_party_needs_to_know_nothing():
    """One that multiplies by the matrix gets the residuals."""

    class PowerIteration(Solver):
        def iterate(self, problem, moments, context, start):
            V, A = context.rng.standard_normal((problem.A.shape[1], problem.k)), moments.operator()
            for _ in range(200):
                V, _ = np.linalg.qr(A.rmatmat(A.matmat(V)))
            yield Iterate(0.0, lambda: {"Vh": V.T}, final=True)

    X, _, Z, w = data()
    found = ls.solve(ls.SVD(X, 2, center=True, sample_weight=w, confounds=Z), PowerIteration(), rng=0)
    np.testing.assert_allclose(found.S, np.linalg.svd(residual(X, Z, w, center=True))[1][:2], rtol=1e-10)
    assert (
        found.passes == 400 + 1
    )  # products, of which the first learns means and slopes, and the certificate


# ---- what is refused and what is said -----------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"sample_weight": -np.ones(N)}, errors.InvalidProblem, "zero or more; got -1 for row 0"),
        ({"sample_weight": np.zeros(N)}, errors.InvalidProblem, "zeros only"),
        (
            {"sample_weight": np.ones(3)},
            errors.InvalidProblem,
            r"each of the 700 rows; got shape \(3,\)",
        ),
        ({"sample_weight": np.full(N, np.nan)}, errors.NonFiniteData, "got nan for row 0"),
        ({"sample_weight": ["a"] * N}, errors.InvalidProblem, "real numbers"),
        ({"confounds": np.ones((3, 2))}, errors.InvalidProblem, r"each of the 700 rows; got shape \(3, 2\)"),
        ({"confounds": np.full((N, 2), np.inf)}, errors.NonFiniteData, "row 0, column 0"),
        ({"scale": "yes"}, errors.InvalidProblem, "scale must be True or False"),
        ({"weights": np.ones(N)}, TypeError, "Its parameters: .*sample_weight"),
        ({"covariates": np.ones(N)}, TypeError, "Its parameters: .*confounds"),
    ],
)
def test_bad_rows_are_refused(given, error, said):
    X, Y, _, _ = data()
    for make in (
        lambda **k: ls.CCA(X, Y, 2, **k),
        lambda **k: ls.SVD(X, 2, **k),
        lambda **k: ls.LeastSquares(X, Y, **k),
    ):
        with pytest.raises(error, match=said):
            make(**given)


def test_made_moments_take_no_weights():
    X, Y, _, w = data()
    with pytest.raises(errors.InvalidProblem, match="moments that are made already"):
        ls.CCA(ls.Moments(X, Y, center=True), None, 2, sample_weight=w)


@pytest.mark.parametrize("kind", ["dense", "csr", "slices"])
def test_a_column_that_confounds_explain_is_named(kind, tmp_path):
    X, Y, Z, _ = data()
    X = X.copy()
    X[:, 4] = Z @ [1.0, -2.0, 0.5] + 3
    found = ls.solve(ls.CCA(KINDS[kind](X, tmp_path, "X"), Y, 2, confounds=Z, ridge=1e-6), "gram")
    assert found.status is ls.Status.ILL_CONDITIONED
    assert "columns of X" in found.message
    assert ": 4." in found.message
    A, B = residual(np.delete(X, 4, axis=1), Z, None, center=True), residual(Y, Z, None, center=True)
    wanted = ls.solve(ls.CCA(A, B, 2, ridge=1e-6, center=False), "direct")
    np.testing.assert_allclose(found.correlations, wanted.correlations, rtol=1e-9)
    assert found.x_weights[4].max() == 0.0


def test_confounds_that_depend_on_each_other_count_once():
    X, Y, Z, w = data()
    more = np.hstack([Z, Z @ np.ones((C, 2)), np.ones((N, 1)), Z[:, :1] * 1e8])
    one, other = (ls.solve(ls.CCA(X, Y, 2, sample_weight=w, confounds=each), "gram") for each in (Z, more))
    np.testing.assert_allclose(one.correlations, other.correlations, rtol=1e-10)


@pytest.mark.parametrize("form", ["dense", "implicit"])
def test_weights_beside_large_means(form):
    """Means 1e6 times the spread cost the weighted moments no digits."""
    X, _, _, w = data()
    near = np.round(X * 2**20) / 2**20
    far = near + np.random.default_rng(2).integers(-(10**6), 10**6, P)  # exact
    A = residual(near, None, w, center=True)
    moments = moments_of({"X": far}, Preprocessing.of(center=True, weights=w))
    found = moments.gram()[0][0] if form == "dense" else moments.products(np.eye(P))[0][0]
    assert np.abs(found - A.T @ A).max() <= 1e-9 * np.abs(A.T @ A).max()


def test_the_sweep_that_settles_is_in_the_budget():
    X, _, Z, w = data()
    problem = ls.LeastSquares(X, X[:, :1] * 2, sample_weight=w, confounds=Z, center=True)
    for passes in (3, 4, 7, 12):
        try:
            found = ls.solve(problem, "lsqr", max_passes=passes)
        except errors.BudgetTooSmall:
            continue
        assert found.passes <= passes


def test_as_many_columns_as_rows_that_count_are_said():
    """Twelve rows that count, a mean and three confounds leave eight directions, which twenty columns fill."""
    rng = np.random.default_rng(0)
    X, y, Z = rng.standard_normal((40, 20)), rng.integers(0, 3, 40), rng.standard_normal((40, C))
    w = np.where(np.arange(40) < 12, 2.0, 0.0)
    H = ls.targets.lda(y, sample_weight=w)
    found = ls.solve(ls.Discriminant(X, H, sample_weight=w, confounds=Z), "direct")
    A, B = (residual(V, Z, w, center=True)[:12] for V in (X, H.toarray()))
    assert found.rank == np.linalg.matrix_rank(A) == 8
    assert "any targets are met exactly" in found.message
    np.testing.assert_allclose(A @ np.linalg.lstsq(A, B, rcond=None)[0], B, atol=1e-12)


# ---- new rows, tests by permutation -------------------------------------------------------------


def test_new_rows_lose_what_the_training_rows_say_of_their_confounds():
    X, Y, Z, w = data()
    train, test = slice(0, 500), slice(500, N)
    solution = ls.solve(ls.CCA(X[train], Y[train], 2, sample_weight=w[train], confounds=Z[train]), "gram")
    roots, ones = np.sqrt(w[train])[:, None], np.ones((N, 1))
    B = np.linalg.lstsq(roots * np.hstack([ones, Z])[train], roots * X[train], rcond=None)[0]
    P = solution.transform(X[test], confounds=Z[test])
    np.testing.assert_allclose(P, (X - np.hstack([ones, Z]) @ B)[test] @ solution.x_weights, atol=1e-12)
    score = solution.score(X[test], Y[test], confounds=Z[test])
    assert score.total > 1.0  # the shared part is found again
    A = residual(X[test], Z[test], None, center=True)
    wanted = [np.corrcoef(A[:, 0], A @ v)[0, 1] for v in solution.x_weights.T]
    np.testing.assert_allclose(solution.loadings(X[test], confounds=Z[test])[0], wanted, atol=1e-12)
    with pytest.raises(errors.InvalidProblem, match=r"a row for each row and 3 columns, .*; got 0 columns"):
        solution.transform(X[test])
    with pytest.raises(errors.InvalidProblem, match=r"a row for each row and 3 columns, .*; got 2"):
        solution.transform(X[test], confounds=Z[test, :2])
    with pytest.raises(errors.InvalidProblem, match=r"each row and 0 columns, as the solved problem had"):
        ls.solve(ls.CCA(X, Y, 2)).transform(X, confounds=Z)


def test_permutations_of_rows_that_count_are_those_of_repeated_rows():
    X, Y, Z, w = data(n=120)
    one = ls.permutation_test(ls.CCA(X, Y, sample_weight=w, confounds=Z), permutations=50, rng=0)
    R = repeated(np.arange(120), w)
    other = ls.permutation_test(ls.CCA(X[R], Y[R], confounds=Z[R]), permutations=50, rng=0)
    np.testing.assert_array_equal(one.p_values, other.p_values)
    A, B = (residual(V[R], Z[R], None, center=True) for V in (X, Y))
    exact = np.linalg.svd(np.linalg.qr(A)[0].T @ np.linalg.qr(B)[0])[1]
    np.testing.assert_allclose(one.correlations, exact, atol=1e-12)
    for function in (ls.permutation_test, ls.null_correlations):
        with pytest.raises(errors.InvalidProblem, match=r"got 0\.5 for row 0"):
            function(ls.CCA(X, Y, 2, sample_weight=np.full(120, 0.5)), permutations=2)


@pytest.mark.slow
def test_the_level_of_the_test_holds_beside_many_confounds():
    """Without a pair the least p-value is uniform: 200 data sets, 20 confounds in 60 rows, within three deviations."""
    rng = np.random.default_rng(7)
    found = []
    for _ in range(200):
        Z = rng.standard_normal((60, 20))
        X, Y = (Z @ rng.standard_normal((20, 3)) + rng.standard_normal((60, 3)) for _ in range(2))
        test = ls.permutation_test(ls.CCA(X, Y, confounds=Z), permutations=99, rng=rng)
        found.append(test.p_values[0] <= 0.05)
    assert abs(np.mean(found) - 0.05) <= 3 * np.sqrt(0.05 * 0.95 / 200)


def test_correlations_by_chance_do_not_contain_the_confounds():
    X, Y, Z, w = data(n=300)
    problem = ls.CCA(
        Z @ np.ones((C, P)) + 1e-1 * X, Z @ np.ones((C, Q)) + 1e-1 * Y, 2, confounds=Z, sample_weight=w
    )
    chance = ls.null_correlations(problem, "gram", permutations=5, rng=0)
    assert chance.max() < 0.5
    assert ls.null_correlations(ls.CCA(problem.X, problem.Y, 2), "gram", permutations=5, rng=0).max() < 0.5


def test_a_path_of_ridges_has_weights_and_confounds():
    X, Y, Z, w = data()
    path = ls.ridge_path(ls.CCA(X, Y, 2, sample_weight=w, confounds=Z, scale=True), [1.0, 10.0])
    for ridge, found in zip((1.0, 10.0), path.solutions, strict=True):
        alone = ls.solve(ls.CCA(X, Y, 2, ridge=ridge, sample_weight=w, confounds=Z, scale=True), "gram")
        np.testing.assert_allclose(found.correlations, alone.correlations, rtol=1e-9)
        np.testing.assert_allclose(np.abs(found.x_weights), np.abs(alone.x_weights), atol=1e-5)
        np.testing.assert_allclose(found.x_slopes, alone.x_slopes, atol=1e-12)


# ---- predictions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [False, True], ids=["plain", "scaled"])
def test_predictions_contain_the_confounds(scale):
    """Regressions predict like a regression on [1 Z A]; CCAs like one on the variates beside [1 Z]."""
    X, Y, Z, w = data()
    train, test = slice(0, 500), slice(500, N)
    roots, ones = np.sqrt(w[train])[:, None], np.ones((N, 1))
    options = {"sample_weight": w[train], "confounds": Z[train], "scale": scale}
    solution = ls.solve(ls.LeastSquares(X[train], Y[train], center=True, **options), "direct")
    whole = np.hstack([X, Z, ones])
    beta = np.linalg.lstsq(roots * whole[train], roots * Y[train], rcond=None)[0]
    np.testing.assert_allclose(solution.predict(X[test], confounds=Z[test]), whole[test] @ beta, atol=1e-9)
    np.testing.assert_allclose(solution.confound_coefficients, beta[P : P + C], atol=1e-9)
    solution = ls.solve(ls.CCA(X[train], Y[train], 2, ridge=1.0, **options), "gram")
    beside = np.hstack([Z, ones])
    variates = solution.transform(X, confounds=Z)
    whole = np.hstack([variates, beside])
    for target, found in (
        (Y, solution.predict(X[test], confounds=Z[test])),
        (X, solution.inverse_transform(variates[test], confounds=Z[test])),
    ):
        beta = np.linalg.lstsq(roots * whole[train], roots * target[train], rcond=None)[0]
        np.testing.assert_allclose(found, whole[test] @ beta, atol=1e-8)


@pytest.mark.parametrize("scale", [False, True], ids=["plain", "scaled"])
def test_scores_of_components_restore_rows(scale):
    X, _, Z, w = data()
    solution = ls.solve(ls.SVD(X, P, center=True, sample_weight=w, confounds=Z, scale=scale), "direct")
    scores = solution.transform(X, confounds=Z)
    np.testing.assert_allclose(solution.inverse_transform(scores, confounds=Z), X, atol=1e-10)
    np.testing.assert_allclose(np.sum(w[:, None] * scores**2, axis=0), solution.S**2, rtol=1e-10)


def test_weighted_classes_are_repeated_rows():
    X, _, _, w = data()
    y = np.random.default_rng(5).integers(0, 3, N)
    X = X + 2 * np.eye(3, P)[y]
    solution = ls.solve(ls.Discriminant(X, ls.targets.lda(y, sample_weight=w), sample_weight=w), "direct")
    R = repeated(np.arange(N), w)
    wanted = ls.solve(ls.Discriminant(X[R], ls.targets.lda(y[R])), "direct")
    np.testing.assert_allclose(solution.probabilities(X), wanted.probabilities(X), atol=1e-10)
    foreign = ls.solve(ls.Discriminant(X, ls.targets.lda(y), sample_weight=np.ones(N)), "direct")
    with pytest.raises(
        errors.MissingCapability, match="classifier"
    ):  # targets that were made for other weights
        foreign.predict(X)


# ---- minibatches ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "csr", "map"])
@pytest.mark.slow(keep=1)
def test_minibatches_reach_the_weighted_answer(kind, tmp_path):
    X, Y, Z, w = data(n=2000)
    X = thinned(X) if kind == "csr" else X
    outweighed = w * np.where(np.arange(2000) % 97 == 0, 200.0, 1.0)  # some rows outweigh all others
    given = KINDS[kind](X, tmp_path, "X")
    options = {"sample_weight": outweighed, "confounds": Z, "center": True}
    exact = ls.solve(ls.LeastSquares(X, Y, ridge=1.0, **options), "direct")
    found = ls.solve(ls.LeastSquares(given, Y, ridge=1.0, **options), "svrg", rng=0, tol=1e-6, max_passes=400)
    assert found.converged
    np.testing.assert_allclose(found.x, exact.x, atol=1e-4 * np.abs(exact.x).max())
    options["sample_weight"] = w
    exact = ls.solve(ls.CCA(X, Y, 2, ridge=1.0, **options), "gram").correlations.sum()
    found = ls.solve(ls.CCA(given, Y, 2, ridge=1.0, **options), "stochastic-appgrad", rng=0, epochs=15.0)
    assert found.correlations.sum() > 0.97 * exact


# ---- direct, and triangles, of slices ---------------------------------------------------------------


@pytest.mark.parametrize("scale", [False, True], ids=["plain", "scaled"])
@pytest.mark.parametrize("kind", ["slices", "iterator"])
def test_direct_of_slices_with_weights_and_confounds(kind, scale, tmp_path):
    """One triangle has means, slopes and lengths of columns: an iterator is read once, scaled columns included."""
    X, Y, Z, w = data()
    options = {"sample_weight": w, "confounds": Z, "scale": scale, "center": True}

    def views(*arrays):
        return [KINDS[kind](A, tmp_path, "") for A in arrays]

    for make, arrays in (
        (lambda X, Y: ls.CCA(X, Y, 3, ridge=1.0, **options), (X, Y)),
        (lambda X, Y: ls.LeastSquares(X, Y, ridge=1.0, **options), (X, Y)),
        (lambda X: ls.SVD(X, 4, **options), (X,)),
        (lambda X, Y: ls.Discriminant(X, Y, 2, ridge=1.0, **options), (X, Y)),
    ):
        found, wanted = ls.solve(make(*views(*arrays)), "direct"), ls.solve(make(*arrays), "direct")
        for field in (*found.layout.arrays, "a_mean", "b_mean", "a_slopes", "mean", "slopes", "scale"):
            one, other = getattr(found, field, None), getattr(wanted, field, None)
            if other is not None:
                np.testing.assert_allclose(one, other, atol=1e-10 * np.abs(other).max(), err_msg=field)
        assert found.passes == (1.0 if kind == "iterator" else found.passes)
        assert found.passes <= 2.0


@pytest.mark.parametrize("scale", [False, True], ids=["plain", "scaled"])
def test_components_of_a_map_with_weights_and_confounds(scale, tmp_path):
    X, _, Z, w = data()
    options = {"sample_weight": w, "confounds": Z, "scale": scale, "center": True}
    for left in (False, True):
        problem = ls.SVD(mapped(X, tmp_path, "X"), 3, left=left, **options)
        found = ls.solve(problem, "spca", rng=0, power_iterations=6)
        wanted = ls.solve(ls.SVD(X, 3, left=left, **options), "direct")
        np.testing.assert_allclose(found.S, wanted.S, rtol=1e-8)
        np.testing.assert_allclose(np.abs(np.sum(found.Vh * wanted.Vh, axis=1)), 1.0, rtol=1e-8)
        if left:
            np.testing.assert_allclose(np.abs(np.sum(found.U * wanted.U, axis=0)), 1.0, rtol=1e-8)


def test_pairs_of_slices_with_weights():
    X, Y, Z, w = data()
    opened = []

    def batches():
        opened.append(1)
        return zip(slices(X)(), slices(Y)(), strict=True)

    A, B = ls.paired(batches)
    found = ls.solve(ls.CCA(A, B, 2, sample_weight=w, confounds=Z, ridge=1.0), "gram")
    assert len(opened) == found.passes == 1
    wanted = ls.solve(ls.CCA(X, Y, 2, sample_weight=w, confounds=Z, ridge=1.0), "gram")
    np.testing.assert_allclose(found.correlations, wanted.correlations, rtol=1e-12)


def test_every_ridge_of_a_path_has_its_coefficients_where_columns_are_scaled():
    rng = np.random.default_rng(7)
    A, b = rng.standard_normal((40, 5)) * [1.0, 9.0, 0.1, 3.0, 1.0], rng.standard_normal(40)
    ridges = (0.5, 3.0, 70.0)
    path = ls.solve(ls.LeastSquares(A, b, ridges, center=True, scale=True)).x
    F = (A - A.mean(axis=0)) / A.std(axis=0)
    for x, ridge in zip(path, ridges, strict=True):
        expected = np.linalg.solve(F.T @ F + ridge * np.eye(5), F.T @ (b - b.mean())) / A.std(axis=0)
        np.testing.assert_allclose(x, expected, rtol=1e-9)
