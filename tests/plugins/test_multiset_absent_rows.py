"""Rows that some views lack: the dense objective in G, rows that do not count, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator

import linspec as ls
from linspec.errors import InvalidProblem, NonFiniteData

N, WIDTHS = 60, (4, 5, 3)
RNG = np.random.default_rng(7)
COMMON = RNG.standard_normal((N, 2))
VIEWS = [COMMON @ RNG.standard_normal((2, p)) + RNG.standard_normal((N, p)) + 3.0 for p in WIDTHS]
PRESENT = [RNG.random(N) < 0.7, None, RNG.random(N) < 0.6]
COUNTS = RNG.integers(0, 3, N).astype(float)
CONFOUNDS = RNG.standard_normal((N, 2))


def dense(
    k, ridge=(0.0, 0.0, 0.0), view_weights=(1.0, 1.0, 1.0), sample_weight=None, confounds=None, center=True
):
    """The k leading solutions G of max tr Gᵀ(Σωᵢ KᵢPᵢKᵢ)G under Gᵀ(ΣωᵢKᵢ)G = I; a ridge adds rows of view i alone."""
    weights, rows = np.ones(N) if sample_weight is None else sample_weight, N + sum(WIDTHS)
    T, seen, at = np.zeros((rows, rows)), np.zeros(rows), N
    for X, mask, r, w in zip(VIEWS, PRESENT, ridge, view_weights, strict=True):
        own = np.ones(N) if mask is None else mask.astype(float)
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
    {"ridge": (2.0, 0.5, 1.0)},
    {"view_weights": (1.0, 2.0, 3.0)},
    {"sample_weight": COUNTS},
    {"confounds": CONFOUNDS},
    {"center": False},
    {
        "center": False,
        "confounds": CONFOUNDS,
        "sample_weight": COUNTS,
        "ridge": (1.0, 1.0, 1.0),
        "view_weights": (3, 1, 2),
    },
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=lambda p: "-".join(p) or "plain")
@pytest.mark.parametrize("solver", ["gram", "lobpcg", "swept"])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_answer_is_that_of_the_dense_objective(parameters, solver, sparse):
    views = [scipy.sparse.csr_array(V) for V in VIEWS] if sparse else VIEWS
    problem = ls.MultisetCCA(views, k=3, present=PRESENT, **parameters)
    options = {"gram": {}, "lobpcg": {"rng": 0}, "swept": {"rng": 0, "form": "implicit"}}[solver]
    found = ls.solve(problem, "lobpcg" if solver == "swept" else solver, **options)
    values, _ = dense(3, **parameters)
    assert found.converged
    np.testing.assert_allclose(
        found.eigenvalues / sum(parameters.get("view_weights", (1, 1, 1))), values, atol=1e-12
    )


def test_the_variates_are_those_of_the_dense_objective():
    """G is N⁻¹ Σ KᵢXᵢwᵢ up to lengths; it is centred in the metric N, and has unit length there."""
    found = ls.solve(ls.MultisetCCA(VIEWS, k=3, present=PRESENT))
    masks = [np.ones(N) if mask is None else mask.astype(float) for mask in PRESENT]
    seen = np.sum(masks, axis=0)
    scores = found.transform(VIEWS)
    G = sum(S * mask[:, None] for S, mask in zip(scores, masks, strict=True)) / seen[:, None]
    G = G * np.sqrt(3 / found.eigenvalues)
    _, exact = dense(3)
    exact = exact[:N]
    np.testing.assert_allclose(G * np.sign(np.sum(G * exact, axis=0)), exact, atol=1e-11)
    np.testing.assert_allclose(G.T @ (seen[:, None] * G), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(seen @ G, 0.0, atol=1e-12)
    for S, mask in zip(scores, masks, strict=True):
        np.testing.assert_allclose(mask @ S, 0.0, atol=1e-12)


def test_masks_without_absent_rows_change_no_bit():
    plain = ls.solve(ls.MultisetCCA(VIEWS, k=3))
    masked = ls.solve(ls.MultisetCCA(VIEWS, k=3, present=[np.ones(N, bool), None, [True] * N]))
    assert masked.eigenvalues.tobytes() == plain.eigenvalues.tobytes()
    assert all(W.tobytes() == V.tobytes() for W, V in zip(masked.weights, plain.weights, strict=True))


def test_a_row_that_no_view_has_is_left_out():
    nowhere = np.arange(N) != 3
    found = ls.solve(ls.MultisetCCA(VIEWS, k=3, present=[nowhere] * 3))
    shorter = ls.solve(ls.MultisetCCA([np.delete(V, 3, axis=0) for V in VIEWS], k=3))
    np.testing.assert_allclose(found.eigenvalues, shorter.eigenvalues, rtol=1e-12)
    for W, V in zip(found.weights, shorter.weights, strict=True):
        np.testing.assert_allclose(W, V, atol=1e-12)


def test_what_stands_in_absent_rows_does_not_count():
    junk = [V.copy() for V in VIEWS]
    junk[0][~PRESENT[0]] = 7e9
    for solver, options in (("gram", {}), ("lobpcg", {"rng": 0, "form": "implicit"})):
        plain, other = (
            ls.solve(ls.MultisetCCA(V, k=3, present=PRESENT), solver, **options) for V in (VIEWS, junk)
        )
        np.testing.assert_allclose(other.eigenvalues, plain.eigenvalues, rtol=1e-12)
        for W, V in zip(other.weights, plain.weights, strict=True):
            np.testing.assert_allclose(W, V, atol=1e-9)


def test_weights_are_repeated_rows():
    numbers = np.repeat(np.arange(N), COUNTS.astype(int))
    masks = [None if mask is None else mask[numbers] for mask in PRESENT]
    weighted = ls.solve(ls.MultisetCCA(VIEWS, k=3, present=PRESENT, sample_weight=COUNTS))
    repeated = ls.solve(ls.MultisetCCA([V[numbers] for V in VIEWS], k=3, present=masks))
    np.testing.assert_allclose(weighted.eigenvalues, repeated.eigenvalues, rtol=1e-12)
    for W, V in zip(weighted.weights, repeated.weights, strict=True):
        np.testing.assert_allclose(W, V, atol=1e-11)


def test_scaled_columns_have_the_scale_of_their_own_rows():
    found = ls.solve(ls.MultisetCCA(VIEWS, k=3, present=PRESENT, scale=True, ridge=5.0))
    scaled = []
    for V, mask in zip(VIEWS, PRESENT, strict=True):
        own = V if mask is None else V[mask]
        scaled.append((V - own.mean(axis=0)) / own.std(axis=0))
    beforehand = ls.solve(ls.MultisetCCA(scaled, k=3, present=PRESENT, ridge=5.0))
    np.testing.assert_allclose(found.eigenvalues, beforehand.eigenvalues, rtol=1e-12)


# ---- kinds of data --------------------------------------------------------------------------------


def slices(V):
    return (V[i : i + 17] for i in range(0, N, 17))


@pytest.mark.parametrize("solver", ["gram", "lobpcg"])
def test_slices_and_blocks(solver):
    exact = ls.solve(ls.MultisetCCA(VIEWS, k=3, present=PRESENT)).eigenvalues
    kinds = [
        [lambda V=V: slices(V) for V in VIEWS],
        [VIEWS[0], scipy.sparse.csr_array(VIEWS[1]), lambda: slices(VIEWS[2])],
    ]
    da = pytest.importorskip("dask.array")
    kinds.append([da.from_array(V, chunks=(20, -1)) for V in VIEWS])
    for views in kinds:
        found = ls.solve(ls.MultisetCCA(views, k=3, present=PRESENT), solver, rng=0)
        np.testing.assert_allclose(found.eigenvalues, exact, rtol=1e-10)
        assert found.converged


def test_products_alone_will_do():
    exact = ls.solve(ls.MultisetCCA(VIEWS, k=3, present=PRESENT)).eigenvalues
    found = ls.solve(
        ls.MultisetCCA([aslinearoperator(V) for V in VIEWS], k=3, present=PRESENT), "lobpcg", rng=0
    )
    np.testing.assert_allclose(found.eigenvalues, exact, rtol=1e-10)


# ---- studies --------------------------------------------------------------------------------------


def test_held_out_correlations_are_those_of_shared_rows():
    problem = ls.MultisetCCA(VIEWS, k=1, present=PRESENT, ridge=3.0)
    labels = np.arange(N) % 2
    found = ls.cross_validate(problem, splitter=labels)
    scores = []
    for fold in range(2):
        fitted = ls.solve(problem.on_rows(np.flatnonzero(labels != fold)))
        S = [s[:, 0] for s in fitted.transform([V[labels == fold] for V in VIEWS])]
        masks = [np.ones(N, bool) if m is None else m for m in PRESENT]
        total = 0.0
        for i in range(3):
            for j in range(i):
                both = (masks[i] & masks[j])[labels == fold]
                a, b = S[i][both], S[j][both]
                total += a @ b / np.sqrt(a @ a * (b @ b))
        scores.append(total)
    np.testing.assert_allclose(np.ravel(found.scores), scores, rtol=1e-10)


def test_permutations_are_refused():
    with pytest.raises(InvalidProblem, match="absent rows of X1 and X3"):
        ls.permutation_test(ls.MultisetCCA(VIEWS, k=1, present=PRESENT), permutations=9)


# ---- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("present", "message"),
    [
        (3, "a list with a mask, or None, for each of the 3 views"),
        ([None], "for each of the 3 views"),
        ([np.ones(N), None, None], "present must have True or False for each row"),
        ([None, np.zeros(N, bool), None], "X2 must have a row that counts"),
        ([None, np.ones(N - 1, bool), None], "59 and 60 rows"),
        ([np.ones((N, 1), bool), None, None], "present must have True or False for each row"),
    ],
)
def test_masks_are_checked(present, message):
    with pytest.raises(InvalidProblem, match=message):
        ls.MultisetCCA(VIEWS, k=1, present=present)


def test_absent_rows_must_be_finite():
    holes = [V.copy() for V in VIEWS]
    holes[0][~PRESENT[0]] = np.nan
    with pytest.raises(NonFiniteData, match="X1 must be finite"):
        ls.solve(ls.MultisetCCA(holes, k=1, present=PRESENT))


def test_moments_have_their_rows_already():
    with pytest.raises(InvalidProblem, match="moments that are made already"):
        ls.MultisetCCA(ls.Moments(*VIEWS, center=True), k=1, present=PRESENT)


def test_masks_of_frames_have_the_order_of_the_rows():
    pd = pytest.importorskip("pandas")
    names = [f"row {i}" for i in range(N)]
    frames = [pd.DataFrame(V, index=names) for V in VIEWS]
    mask = pd.Series(PRESENT[0], index=names)
    found = ls.solve(ls.MultisetCCA(frames, k=2, present=[mask, None, None]))
    plain = ls.solve(ls.MultisetCCA(VIEWS, k=2, present=[PRESENT[0], None, None]))
    np.testing.assert_allclose(found.eigenvalues, plain.eigenvalues, rtol=1e-12)
    with pytest.raises(InvalidProblem, match="order"):
        ls.MultisetCCA(frames, k=2, present=[mask[::-1], None, None])


def test_sparse_gram_matrices_are_refused():
    with pytest.raises(InvalidProblem, match='form "sparse" holds no Gram matrices'):
        ls.solve(
            ls.MultisetCCA([scipy.sparse.csr_array(V) for V in VIEWS], k=1, present=PRESENT),
            "lobpcg",
            form="sparse",
        )


def test_scores_where_a_view_is_absent():
    found = ls.solve(ls.MultisetCCA(VIEWS, k=2, present=PRESENT))
    some = found.transform(X1=VIEWS[0][:4], X3=VIEWS[2][:4])
    own = VIEWS[0][PRESENT[0]].mean(axis=0)
    np.testing.assert_allclose(some[0], (VIEWS[0][:4] - own) @ found.weights[0], atol=1e-12)
    assert len(some) == 2


@pytest.mark.parametrize("center", [True, False])
def test_each_view_is_less_what_confounds_explain_in_its_own_rows(center, tmp_path):
    Z, seen = CONFOUNDS + 5.0, [CONFOUNDS[:, 0] > 0.3, None, CONFOUNDS[:, 1] < 0.2]
    views = [V + 2.0 * Z[:, :1] for V in VIEWS]
    problem = ls.MultisetCCA(views, k=2, present=seen, confounds=Z, sample_weight=COUNTS, center=center)
    ls.solve(problem).save(tmp_path / "answer.npz")
    found = ls.load_solution(tmp_path / "answer.npz")
    design = np.hstack([np.ones((N, int(center))), Z])
    for X, mask, W, scores in zip(
        views, seen, found.weights, found.transform(views, confounds=Z), strict=True
    ):
        root = np.sqrt(COUNTS * (1.0 if mask is None else mask))[:, None]
        slopes = np.linalg.lstsq(design * root, X * root)[0]
        np.testing.assert_allclose(scores, (X - design @ slopes) @ W, atol=1e-11)


@pytest.mark.parametrize("solver", ["gram", "lobpcg"])
def test_a_view_that_is_constant_in_its_present_rows_is_one_that_is_zero(solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    Y, still = X[:, :1] + rng.standard_normal((60, 4)), X[:, :2].copy()
    still[11:] = 3.3
    masks = [np.ones(60, bool), np.arange(60) < 50, np.arange(60) > 10]
    found, zero = (
        ls.solve(ls.MultisetCCA([X, Y, view], k=2, present=masks), solver, rng=0)
        for view in (still, 0 * still)
    )
    np.testing.assert_allclose(found.eigenvalues, zero.eigenvalues, rtol=1e-8)
    assert "columns of X3 are constant" in found.message


def test_rows_of_all_views_count_once_whatever_the_weights_of_views():
    """With D = 1 nothing is in excess, although 1/Σω is rounded: the answer is that of views with all rows."""
    rng = np.random.default_rng(0)
    views = [rng.standard_normal((40, p)) for p in (4, 1, 3)]
    present = [np.arange(40) != 7, None, None]
    weights = (2.0553709949100933, 0.6805857474956903, 3.079072233800237)
    for solver in ("gram", "lobpcg"):
        found = ls.solve(ls.MultisetCCA(views, 1, present=present, view_weights=weights), solver, rng=0)
        assert found.converged
        assert np.isfinite(found.eigenvalues).all()
