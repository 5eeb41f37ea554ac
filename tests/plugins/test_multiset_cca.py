"""Several views: multiset CCA by its definition and theorems, also of absent rows; SUMCOR by exhaustive maxima."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.sparse
from fuzz import Case
from judging import faults
from planted import sharing
from truths import EPS, truth_of

import linspec as ls
from linspec import Status
from linspec.errors import InvalidProblem, NonFiniteData
from linspec.iteration import Iterate
from linspec.solving import Solver


def related(n=300, widths=(6, 5, 7), noise=1.0):
    return sharing(n, widths, noise=noise, mean=3.0)


def returning(made):
    """A solver that returns what a function makes of the views and k."""

    @dataclass(frozen=True, kw_only=True)
    class Returning(Solver):
        def iterate(self, problem, moments, context, start):
            yield Iterate(0.0, lambda: {"weights": tuple(made(problem.views, problem.k))}, final=True)

    return Returning()


@pytest.mark.parametrize("ridge", [0.0, (2.0, 30.0)])
def test_two_views_are_cca(ridge):
    X, Y = related(widths=(8, 6))
    pairs = ls.solve(ls.CCA(X, Y, k=4, ridge=ridge), "direct")
    several = ls.solve(ls.MultisetCCA([X, Y], k=4, ridge=ridge))
    np.testing.assert_allclose(several.eigenvalues, 1 + pairs.correlations, atol=1e-10)
    sums = ls.solve(ls.SumcorCCA([X, Y], k=4, ridge=ridge), rng=0, tol=1e-10)
    np.testing.assert_allclose(sums.sums, pairs.correlations, atol=1e-12)
    np.testing.assert_allclose(sums.bounds, pairs.correlations, atol=1e-9)
    for W, V in zip(sums.weights, (pairs.x_weights, pairs.y_weights), strict=True):
        np.testing.assert_allclose(W * np.sign(np.sum(W * V, axis=0)), V, atol=1e-8)


def test_views_that_share_a_column_agree_on_it_completely():
    shared = np.random.default_rng(2).standard_normal((300, 1))
    found = ls.solve(ls.MultisetCCA([np.hstack([V, shared]) for V in related()], k=2))
    assert found.eigenvalues[0] == pytest.approx(3, abs=1e-10)
    assert found.eigenvalues[1] < 3 - 1e-3
    assert found.status is Status.DEGENERATE


def test_sparse_views_are_swept_once_an_iteration():
    views = related(n=1500, widths=(60, 50, 70), noise=3.0)
    sparse = [scipy.sparse.csr_array(np.where(np.abs(V - 3.0) > 4, V, 0.0)) for V in views]
    problem = ls.MultisetCCA(sparse, k=2, ridge=1.0)
    found = ls.solve(problem, "lobpcg", form="implicit", rng=0)
    np.testing.assert_allclose(found.eigenvalues, ls.solve(problem, "gram").eigenvalues, rtol=1e-10)
    assert found.passes == found.iterations + 2  # the first block, and the certificate


def test_a_swept_answer_has_the_residual_of_the_factors():
    """With views too wide for Gram matrices, a sketch or a preconditioner measures: near the exact residual."""
    views = related(n=2000, widths=(700, 650, 720), noise=4.0)
    problem = ls.MultisetCCA(views, k=2, ridge=50.0)
    found = ls.solve(problem, "lobpcg", form="implicit", rng=0, max_iterations=9, tol=1e-2)
    X = [V - V.mean(axis=0) for V in views]
    B = scipy.linalg.block_diag(*(V.T @ V + 50.0 * np.eye(V.shape[1]) for V in X))
    A = np.block([[V.T @ W if V is not W else V.T @ V + 50.0 * np.eye(V.shape[1]) for W in X] for V in X])
    W = np.concatenate(found.weights)
    R = A @ W - B @ W * found.eigenvalues
    exact = np.sqrt(np.sum(R * np.linalg.solve(B, R), axis=0)).max() / found.eigenvalues[0]
    assert found.residual_kind in {"exact", "sketched", "preconditioned"}
    assert exact / 3 <= found.residual <= 3 * exact


@pytest.mark.parametrize("widths", [(6, 5, 7), (120, 130, 140)])
def test_a_missing_component_is_found(widths):
    exact = lambda views, k: ls.solve(ls.MultisetCCA(views, k=k + 1), "gram").weights  # noqa: E731
    skipping = returning(lambda views, k: [W[:, 1:] for W in exact(views, k)])
    found = ls.solve(ls.MultisetCCA(related(widths=widths, n=900), k=2), skipping)
    assert found.status is Status.INCOMPLETE
    assert not found.converged
    assert found.residual < 1e-8


def test_dependent_columns_get_weights_of_least_norm():
    """Equal columns share their weight, and the answer is that without the copy."""
    X, Y, Z = related()
    doubled = ls.solve(ls.MultisetCCA([np.hstack([X, X]), Y, Z], k=2))
    plain = ls.solve(ls.MultisetCCA([X, Y, Z], k=2))
    np.testing.assert_allclose(doubled.eigenvalues, plain.eigenvalues, rtol=1e-12)
    np.testing.assert_allclose(doubled.weights[0], np.vstack([plain.weights[0]] * 2) / 2, atol=1e-10)


def best_of_three_planes(views):
    """The largest sum of three views of two columns: two angles on a grid, polished; the third view has its best."""
    Q = [np.linalg.qr(V - V.mean(axis=0))[0] for V in views]
    C = [[P.T @ R for R in Q] for P in Q]

    def value(t):
        u, v = np.array([np.cos(t), np.sin(t)]).T
        return -(u @ C[0][1] @ v + np.linalg.norm(C[2][0] @ u + C[2][1] @ v))

    grid = itertools.product(np.linspace(0, 2 * np.pi, 61), repeat=2)
    ends = [
        scipy.optimize.minimize(value, t, method="BFGS", options={"gtol": 1e-12})
        for t in sorted(grid, key=value)[:5]
    ]
    return -min(end.fun for end in ends)


@pytest.mark.parametrize("seed", range(6))
def test_the_best_of_three_planes(seed):
    views = list(np.random.default_rng(seed).standard_normal((3, 25, 2)))
    found = ls.solve(ls.SumcorCCA(views, k=1), rng=0)
    assert found.converged
    assert found.sums[0] == pytest.approx(best_of_three_planes(views), abs=1e-10)
    assert found.bounds[0] >= found.sums[0]


def test_single_columns_have_the_best_of_all_signs():
    X = np.random.default_rng(1).standard_normal((40, 9))
    R = np.corrcoef(X.T) - np.eye(9)
    best = max(np.array(z) @ R @ np.array(z) / 2 for z in itertools.product((1, -1), repeat=9))
    found = ls.solve(ls.SumcorCCA([X[:, [j]] for j in range(9)], k=1), rng=0)
    assert found.sums[0] == pytest.approx(best, abs=1e-12)
    assert found.passes == 1


def test_no_start_ends_above_a_bound():
    """With noise alone there are local maxima; no other start ends above the best of 40, nor above the bound."""
    problem = ls.SumcorCCA(list(np.random.default_rng(3).standard_normal((6, 40, 4))), k=1)
    found = ls.solve(problem, "horst", rng=0, starts=40)
    ends = [ls.solve(problem, "horst", starts=2, rng=seed) for seed in range(1, 40)]
    assert max(end.sums[0] for end in ends) <= found.sums[0] * (1 + 1e-9)
    assert found.sums[0] <= found.bounds[0] < 1.01 * found.sums[0]
    assert 1 <= found.agreeing[0] < 40
    assert "no more: the best sums may be larger" in found.message
    assert "40 starts" in found.message


def test_a_stationary_point_that_is_no_maximum_is_no_answer():
    """One view with the other sign: a residual with five views, and a negative sum with three."""

    def saddle(views, k):
        best = ls.solve(ls.SumcorCCA(views, k=k), "horst", rng=0).weights
        return -best[0], *best[1:]

    with pytest.warns(ls.errors.ConvergenceWarning):
        five = ls.solve(ls.SumcorCCA(related(widths=(4,) * 5), k=1), returning(saddle))
    assert not five.converged
    assert five.residual > 0.1
    three = ls.solve(ls.SumcorCCA(related(), k=1), returning(saddle))
    assert three.status is Status.INCOMPLETE
    assert not three.converged


def test_agreement_by_chance_is_reported_and_unrelated_views_have_no_component():
    chance = ls.solve(ls.SumcorCCA(list(np.random.default_rng(0).standard_normal((3, 10, 12))), k=1), rng=0)
    assert chance.status is Status.DEGENERATE
    assert chance.sums[0] == pytest.approx(3)
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((120, 9)))[0]
    for views in ([Q[:, :3], Q[:, 3:6], Q[:, 6:]], [Q[:, :3], *(view - view for view in DEAD)]):
        found = ls.solve(ls.SumcorCCA(views, k=1, center=False), rng=0)
        assert len(found.sums) == 0
        assert found.status is Status.RANK_DEFICIENT


DEAD = [np.full((120, 2), 98.6), np.zeros((120, 3))]


@pytest.mark.parametrize("ridge", [0.0, 2.0])
@pytest.mark.parametrize("places", [(0, 1), (2, 3), (0,), (2,)])
@pytest.mark.parametrize(("problem", "values"), [(ls.SumcorCCA, "sums"), (ls.MultisetCCA, "eigenvalues")])
def test_views_that_do_not_vary_leave_the_components_of_the_others(problem, values, places, ridge):
    views = related(n=120, widths=(4, 3))
    given = views.copy()
    for place, view in zip(places, DEAD, strict=False):
        given.insert(place, view)
    found, without = (ls.solve(problem(each, k=2, ridge=ridge), rng=0) for each in (given, views))
    assert found.converged
    np.testing.assert_allclose(getattr(found, values), getattr(without, values), rtol=1e-6)
    for place in places:
        assert not np.abs(found.weights[place]).max() > 1e-12
        assert f"columns of X{place + 1} are constant" in found.message


@pytest.mark.parametrize("problem", [ls.MultisetCCA, ls.SumcorCCA])
def test_directions_that_squaring_hides_are_reported(problem):
    X, Y, Z = related()
    hidden = np.hstack([X, X[:, :1] + 1e-11 * np.random.default_rng(3).standard_normal((300, 1))])
    found = ls.solve(problem([hidden, Y, Z], k=2), "gram" if problem is ls.MultisetCCA else "auto", rng=0)
    assert found.status is Status.ILL_CONDITIONED
    assert not found.converged


def test_what_is_refused():
    for weights in ([1, 2], [1, 0, 1]):
        with pytest.raises(InvalidProblem, match="a positive number for each of the 3 views"):
            ls.MultisetCCA(related(), k=1, view_weights=weights)
    with pytest.raises(InvalidProblem, match="at least two"):
        ls.MultisetCCA(related()[:1], k=1)


# ---- absent rows -------------------------------------------------------------------------------


N, WIDTHS = 60, (4, 5, 3)
RNG = np.random.default_rng(7)
COMMON = RNG.standard_normal((N, 2))
VIEWS = [COMMON @ RNG.standard_normal((2, p)) + RNG.standard_normal((N, p)) + 3.0 for p in WIDTHS]
PRESENT = [RNG.random(N) < 0.7, None, RNG.random(N) < 0.6]
MASKS = [np.ones(N, bool) if mask is None else mask for mask in PRESENT]
COUNTS = RNG.integers(0, 3, N).astype(float)
CONFOUNDS = RNG.standard_normal((N, 2))


def stated(views=VIEWS, k=3, **parameters):
    return ls.MultisetCCA(views, k=k, **{"present": PRESENT, **parameters})


def dense(k):
    """The k leading solutions G of max tr Gᵀ(ΣKᵢPᵢKᵢ)G under Gᵀ(ΣKᵢ)G = I."""
    T, half = np.zeros((N, N)), np.sum(MASKS, axis=0)[:, None] ** -0.5
    for X, own in zip(VIEWS, MASKS, strict=True):
        A = own[:, None] * (X - X[own].mean(axis=0))
        T += A @ np.linalg.pinv(A)
    return (half * np.linalg.eigh(half * T * half.T)[1])[:, ::-1][:, :k]


PARAMETERS = [
    {},
    {"ridge": (2.0, 0.5, 1.0), "view_weights": (1.0, 2.0, 3.0)},
    {"sample_weight": COUNTS, "confounds": CONFOUNDS},
    {"center": False, "confounds": CONFOUNDS, "sample_weight": COUNTS, "ridge": (1.0, 1.0, 1.0)},
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=lambda p: "-".join(p) or "plain")
@pytest.mark.parametrize("solver", ["gram", "lobpcg", "swept"])
@pytest.mark.parametrize("kind", ["numpy", "scipy-csr"])
@pytest.mark.skipif(EPS > 1e-18, reason="longdouble is float64 here: nothing can be decided")
def test_the_answer_solves_the_equations(parameters, solver, kind):
    arrays, given = {f"X{i + 1}": V for i, V in enumerate(VIEWS)}, {"k": 3, "present": MASKS, **parameters}
    case = Case("multiset-cca", arrays, given, kinds=tuple((name, kind) for name in arrays))
    options = {"form": "implicit"} if solver == "swept" else {}
    found = ls.solve(case.state(), "gram" if solver == "gram" else "lobpcg", rng=0, **options)
    assert found.converged
    assert not faults(truth_of(case), found)


def test_the_variates_are_those_of_the_dense_objective():
    """G is N⁻¹ Σ KᵢXᵢwᵢ up to lengths; it is centred in the metric N, and has unit length there."""
    found, seen = ls.solve(stated()), np.sum(MASKS, axis=0)
    scores = found.transform(VIEWS)
    G = sum(S * mask[:, None] for S, mask in zip(scores, MASKS, strict=True)) / seen[:, None]
    G = G * np.sqrt(3 / found.eigenvalues)
    exact = dense(3)
    np.testing.assert_allclose(G * np.sign(np.sum(G * exact, axis=0)), exact, atol=1e-11)
    np.testing.assert_allclose(G.T @ (seen[:, None] * G), np.eye(3), atol=1e-12)
    some = found.transform(X1=VIEWS[0][:4], X3=VIEWS[2][:4])  # of rows that lack a view
    np.testing.assert_allclose(some, [scores[0][:4], scores[2][:4]], atol=1e-12)


def test_masks_without_absent_rows_change_no_bit_and_a_row_that_no_view_has_is_left_out():
    plain = ls.solve(stated(present=None))
    masked = ls.solve(stated(present=[np.ones(N, bool), None, [True] * N]))
    assert masked.eigenvalues.tobytes() == plain.eigenvalues.tobytes()
    nowhere = ls.solve(stated(present=[np.arange(N) != 3] * 3))
    shorter = ls.solve(stated([np.delete(V, 3, axis=0) for V in VIEWS], present=None))
    for W, V in zip(nowhere.weights, shorter.weights, strict=True):
        np.testing.assert_allclose(W, V, atol=1e-12)


def filled(value):
    return [np.where(mask[:, None], V, value) for mask, V in zip(MASKS, VIEWS, strict=True)]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=lambda p: "-".join(p) or "plain")
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array, np.float32])
def test_what_stands_in_absent_rows_does_not_count(parameters, kind):
    for solver in ("gram", "lobpcg"):
        answers = [
            ls.solve(stated([kind(V) for V in filled(value)], **parameters), solver, rng=0)
            for value in (0.0, 1e6, np.nan, np.inf)
        ]
        for answer in answers[1:]:
            np.testing.assert_allclose(answer.eigenvalues, answers[0].eigenvalues, rtol=1e-12)
            for W, V in zip(answer.weights, answers[0].weights, strict=True):
                np.testing.assert_allclose(W, V, atol=1e-12)


def test_absent_rows_of_files_and_of_folds_are_not_read(tmp_path):
    pd = pytest.importorskip("pandas")
    np.save(tmp_path / "x1.npy", filled(np.nan)[0])
    pd.DataFrame(filled(np.nan)[2], columns=list("abc")).to_csv(tmp_path / "x3.csv", index=False)
    views = [str(tmp_path / "x1.npy"), VIEWS[1], ls.open_rows(tmp_path / "x3.csv", missing="nan")]
    gaps, plain = (ls.solve(stated(V)) for V in (views, VIEWS))
    np.testing.assert_allclose(gaps.eigenvalues, plain.eigenvalues, rtol=1e-12)
    assert gaps.column_names == {"X3": ("a", "b", "c")}
    scores = [
        ls.cross_validate(stated(V, k=2), ridges=[1.0, 2.0], splitter=3, rng=0).scores
        for V in (filled(np.nan), VIEWS)
    ]
    np.testing.assert_allclose(*scores, rtol=1e-10)


@pytest.mark.parametrize("center", [True, False])
def test_each_view_is_less_what_confounds_explain_in_its_own_rows(center, tmp_path):
    Z, seen = CONFOUNDS + 5.0, [CONFOUNDS[:, 0] > 0.3, None, CONFOUNDS[:, 1] < 0.2]
    views = [V + 2.0 * Z[:, :1] for V in VIEWS]
    ls.solve(stated(views, present=seen, confounds=Z, sample_weight=COUNTS, center=center)).save(
        tmp_path / "answer.npz"
    )
    found = ls.load_solution(tmp_path / "answer.npz")
    design = np.hstack([np.ones((N, int(center))), Z])
    scores = found.transform(views, confounds=Z)
    for X, mask, W, S in zip(views, seen, found.weights, scores, strict=True):
        root = np.sqrt(COUNTS * (1.0 if mask is None else mask))[:, None]
        slopes = np.linalg.lstsq(design * root, X * root)[0]
        np.testing.assert_allclose(S, (X - design @ slopes) @ W, atol=1e-11)


@pytest.mark.parametrize("solver", ["gram", "lobpcg"])
def test_a_view_that_is_constant_in_its_present_rows_is_one_that_is_zero(solver):
    still = VIEWS[0][:, :2].copy()
    still[11:] = 3.3
    given = {"k": 2, "present": [None, np.arange(N) < 50, np.arange(N) > 10]}
    found, zero = (
        ls.solve(stated([*VIEWS[:2], view], **given), solver, rng=0) for view in (still, 0 * still)
    )
    np.testing.assert_allclose(found.eigenvalues, zero.eigenvalues, rtol=1e-8)
    assert "columns of X3 are constant" in found.message


@pytest.mark.parametrize("solver", ["gram", "lobpcg"])
def test_rows_of_all_views_count_once_whatever_the_weights_of_views(solver):
    """With D = 1 nothing is in excess, although 1/Σω is rounded: the answer is that of views with all rows."""
    rng = np.random.default_rng(0)
    views = [rng.standard_normal((40, p)) for p in (4, 1, 3)]
    given = {"present": [np.arange(40) != 7, None, None], "k": 1}
    weights = (2.0553709949100933, 0.6805857474956903, 3.079072233800237)
    found = ls.solve(stated(views, view_weights=weights, **given), solver, rng=0)
    assert found.converged
    assert np.isfinite(found.eigenvalues).all()


def test_held_out_correlations_are_those_of_shared_rows():
    problem, labels = stated(k=1, ridge=3.0), np.arange(N) % 2
    found = ls.cross_validate(problem, splitter=labels)
    scores = np.zeros(2)
    for fold in range(2):
        fitted = ls.solve(problem.on_rows(np.flatnonzero(labels != fold)))
        S = [s[:, 0] for s in fitted.transform([V[labels == fold] for V in VIEWS])]
        for i in range(3):
            for j in range(i):
                both = (MASKS[i] & MASKS[j])[labels == fold]
                a, b = S[i][both], S[j][both]
                scores[fold] += a @ b / np.sqrt(a @ a * (b @ b))
    np.testing.assert_allclose(np.ravel(found.scores), scores, rtol=1e-10)


def test_masks_of_frames_have_the_order_of_the_rows():
    pd = pytest.importorskip("pandas")
    names = [f"row {i}" for i in range(N)]
    frames, mask = [pd.DataFrame(V, index=names) for V in VIEWS], pd.Series(PRESENT[0], index=names)
    found = ls.solve(stated(frames, present=[mask, None, None]))
    plain = ls.solve(stated(present=[PRESENT[0], None, None]))
    np.testing.assert_allclose(found.eigenvalues, plain.eigenvalues, rtol=1e-12)
    with pytest.raises(InvalidProblem, match="order"):
        stated(frames, present=[mask[::-1], None, None])


HOLES = [VIEWS[0], np.where(VIEWS[1] < 5.0, VIEWS[1], np.nan), VIEWS[2]]  # in present rows
REFUSED = [
    (lambda: stated(present=[None]), InvalidProblem, "for each of the 3 views"),
    (lambda: stated(present=[np.ones(N), None, None]), InvalidProblem, "have True or False for each row"),
    (lambda: stated(present=[None, np.zeros(N, bool), None]), InvalidProblem, "X2 must have a row that cou"),
    (lambda: stated(present=[None, np.ones(N - 1, bool), None]), InvalidProblem, "59 and 60 rows"),
    (lambda: ls.solve(stated(HOLES)), NonFiniteData, "X2 must be finite"),
    (lambda: stated(ls.Moments(*VIEWS, center=True)), InvalidProblem, "moments that are made already"),
    (lambda: ls.permutation_test(stated(), permutations=19), InvalidProblem, "absent rows of X1 and X3"),
]


@pytest.mark.parametrize(("make", "error", "words"), REFUSED)
def test_masks_are_checked_and_what_they_cannot_be_used_with_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()
