"""Rows that some views lack: the dense objective in G, rows that do not count, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import InvalidProblem, NonFiniteData

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


def dense(
    k, ridge=(0.0, 0.0, 0.0), view_weights=(1.0, 1.0, 1.0), sample_weight=None, confounds=None, center=True
):
    """The k leading solutions G of max tr Gᵀ(Σωᵢ KᵢPᵢKᵢ)G under Gᵀ(ΣωᵢKᵢ)G = I; a ridge adds rows of view i alone."""
    weights, rows = np.ones(N) if sample_weight is None else sample_weight, N + sum(WIDTHS)
    T, seen, at = np.zeros((rows, rows)), np.zeros(rows), N
    for X, own, r, w in zip(VIEWS, MASKS, ridge, view_weights, strict=True):
        root = np.sqrt(weights * own)[:, None]
        taken = np.hstack([np.ones((N, int(center))), np.zeros((N, 0)) if confounds is None else confounds])
        Y = np.zeros((rows, X.shape[1]))
        Y[:N] = root * X - root * taken @ np.linalg.pinv(root * taken) @ (root * X)
        Y[at : at + X.shape[1]] = np.sqrt(r) * np.eye(X.shape[1])
        at += X.shape[1]
        T += w * Y @ np.linalg.pinv(Y)
        seen += w * np.concatenate([own, np.ones(rows - N)])
    half = np.sqrt(np.divide(1.0, seen, out=np.zeros(rows), where=seen > 0))[:, None]
    values, F = np.linalg.eigh(half * T * half.T)
    return values[::-1][:k], (half * F)[:, ::-1][:, :k]


PARAMETERS = [
    {},
    {"ridge": (2.0, 0.5, 1.0), "view_weights": (1.0, 2.0, 3.0)},
    {"sample_weight": COUNTS, "confounds": CONFOUNDS},
    {"center": False, "confounds": CONFOUNDS, "sample_weight": COUNTS, "ridge": (1.0, 1.0, 1.0)},
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=lambda p: "-".join(p) or "plain")
@pytest.mark.parametrize("solver", ["gram", "lobpcg", "swept"])
@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
def test_the_answer_is_that_of_the_dense_objective(parameters, solver, wrap):
    problem = stated([wrap(V) for V in VIEWS], **parameters)
    options = {"form": "implicit"} if solver == "swept" else {}
    found = ls.solve(problem, "gram" if solver == "gram" else "lobpcg", rng=0, **options)
    assert found.converged
    total = sum(parameters.get("view_weights", (1, 1, 1)))
    np.testing.assert_allclose(found.eigenvalues / total, dense(3, **parameters)[0], atol=1e-12)


def test_the_variates_are_those_of_the_dense_objective():
    """G is N⁻¹ Σ KᵢXᵢwᵢ up to lengths; it is centred in the metric N, and has unit length there."""
    found, seen = ls.solve(stated()), np.sum(MASKS, axis=0)
    scores = found.transform(VIEWS)
    G = sum(S * mask[:, None] for S, mask in zip(scores, MASKS, strict=True)) / seen[:, None]
    G = G * np.sqrt(3 / found.eigenvalues)
    exact = dense(3)[1][:N]
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


@pytest.mark.parametrize(("solver", "options"), [("gram", {}), ("lobpcg", {"form": "implicit"})])
def test_what_stands_in_absent_rows_does_not_count(solver, options):
    junk = [V.copy() for V in VIEWS]
    junk[0][~PRESENT[0]] = 7e9
    plain, other = (ls.solve(stated(views), solver, rng=0, **options) for views in (VIEWS, junk))
    np.testing.assert_allclose(other.eigenvalues, plain.eigenvalues, rtol=1e-12)
    for W, V in zip(other.weights, plain.weights, strict=True):
        np.testing.assert_allclose(W, V, atol=1e-9)


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


HOLES = [np.where(MASKS[0][:, None], VIEWS[0], np.nan), *VIEWS[1:]]
REFUSED = [
    (lambda: stated(present=3), InvalidProblem, "a list with a mask, or None, for each of the 3 views"),
    (lambda: stated(present=[None]), InvalidProblem, "for each of the 3 views"),
    (lambda: stated(present=[np.ones(N), None, None]), InvalidProblem, "have True or False for each row"),
    (lambda: stated(present=[None, np.zeros(N, bool), None]), InvalidProblem, "X2 must have a row that cou"),
    (lambda: stated(present=[None, np.ones(N - 1, bool), None]), InvalidProblem, "59 and 60 rows"),
    (lambda: ls.solve(stated(HOLES)), NonFiniteData, "X1 must be finite"),
    (lambda: stated(ls.Moments(*VIEWS, center=True)), InvalidProblem, "moments that are made already"),
    (lambda: ls.permutation_test(stated(), permutations=9), InvalidProblem, "absent rows of X1 and X3"),
    (
        lambda: ls.solve(stated(), "lobpcg", form="sparse"),
        InvalidProblem,
        'form "sparse" holds no Gram matri',
    ),
]


@pytest.mark.parametrize(("make", "error", "words"), REFUSED)
def test_masks_are_checked_and_what_they_cannot_be_used_with_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()
