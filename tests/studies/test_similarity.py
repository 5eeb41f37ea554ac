"""Similarities of layers, against their definitions with n x n matrices, and against what they leave unchanged."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from fuzz import KINDS as FORMS
from fuzz import Draw

import linspec as ls

MEASURES = ["cka", "cka-unbiased", "svcca", "pwcca", "procrustes"]
NAMES = ["wide", "narrow", "shifted", "input"]


def centred(X: np.ndarray) -> np.ndarray:
    return X - X.mean(axis=0)


def cka(X: np.ndarray, Y: np.ndarray) -> float:
    n = len(X)
    H = np.eye(n) - 1 / n
    K, L = H @ X @ X.T @ H, H @ Y @ Y.T @ H
    return np.trace(K @ L) / np.sqrt(np.trace(K @ K) * np.trace(L @ L))


def hsic1(X: np.ndarray, Y: np.ndarray) -> float:
    """Song et al. 2012, eq. 5, of kernels that are not centred."""
    n, one = len(X), np.ones(len(X))
    K, L = X @ X.T, Y @ Y.T
    np.fill_diagonal(K, 0)
    np.fill_diagonal(L, 0)
    sums = (one @ K @ one) * (one @ L @ one) / ((n - 1) * (n - 2))
    return (np.trace(K @ L) + sums - 2 / (n - 2) * one @ K @ L @ one) / (n * (n - 3))


def unbiased(X: np.ndarray, Y: np.ndarray) -> float:
    """NaN where the estimate of a square is not positive."""
    squares = [hsic1(Z, Z) / np.linalg.norm(Z) ** 4 for Z in (X, Y)]
    size = np.linalg.norm(X) ** 2 * np.linalg.norm(Y) ** 2
    return hsic1(X, Y) / size / np.sqrt(squares[0] * squares[1]) if min(squares) > 1e-15 else np.nan


def svcca(X: np.ndarray, Y: np.ndarray) -> float:
    bases = []
    for A in (X, Y):
        U, s, _ = np.linalg.svd(centred(A), full_matrices=False)
        bases.append(U[:, : 1 + np.searchsorted(np.cumsum(s**2) / np.sum(s**2), 0.99)])
    return np.linalg.svd(bases[0].T @ bases[1], compute_uv=False).mean()


def pwcca(X: np.ndarray, Y: np.ndarray) -> float:
    """With the weights of X."""
    bases = []
    for A in (X, Y):
        U, s, _ = np.linalg.svd(centred(A), full_matrices=False)
        bases.append(U[:, s > 1e-9 * s[0]])
    P, rho, _ = np.linalg.svd(bases[0].T @ bases[1], full_matrices=False)
    alpha = np.abs((bases[0] @ P).T @ centred(X)).sum(axis=1)
    return np.sum(alpha * rho) / alpha.sum()


def tied(X: np.ndarray, Y: np.ndarray) -> bool:
    """Whether canonical correlations are equal, or 0: variates are then any basis, and PWCCA has no one value."""
    bases = []
    for A in (X, Y):
        U, s, _ = np.linalg.svd(centred(A), full_matrices=False)
        bases.append(U[:, s > 1e-9 * s[0]])
    rho = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    return bool((np.diff(rho) > -1e-5).any() or rho[-1] < 1e-5)


def procrustes(X: np.ndarray, Y: np.ndarray) -> float:
    """The least squared distance of layers of length 1, over orthogonal matrices."""
    A, B = (centred(Z) / np.linalg.norm(centred(Z)) for Z in (X, Y))
    B = np.pad(B, [(0, 0), (0, max(0, A.shape[1] - B.shape[1]))])
    A = np.pad(A, [(0, 0), (0, max(0, B.shape[1] - A.shape[1]))])
    U, _, Vt = np.linalg.svd(A.T @ B)
    return np.linalg.norm(A @ U @ Vt - B) ** 2


DEFINITIONS = dict(zip(MEASURES, [cka, unbiased, svcca, pwcca, procrustes], strict=True))


def layers_of(n: int = 200) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((n, 12)) * np.linspace(0.4, 2, 12) + 1
    wide, narrow = (np.maximum(Z @ rng.standard_normal((12, p)), 0) for p in (30, 9))
    return [
        wide,
        np.column_stack([narrow, np.zeros(n)]),
        Z @ rng.standard_normal((12, 15)) + 50,
        Z,
    ]  # a dead unit


LAYERS = layers_of()
EXACT = {name: np.array([[f(X, Y) for Y in LAYERS] for X in LAYERS]) for name, f in DEFINITIONS.items()}


def batches():
    return zip(*[np.array_split(X, 9) for X in LAYERS], strict=True)


KINDS = {
    "arrays": lambda: LAYERS,
    "files": None,
    "stream": lambda: ls.paired(batches, names=NAMES),
    "read once": lambda: ls.paired(batches(), names=NAMES),
    "sparse": lambda: [*map(scipy.sparse.csr_array, LAYERS[:2]), *LAYERS[2:]],
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_measures_are_their_definitions(kind, tmp_path):
    if kind == "files":
        for name, X in zip(NAMES, LAYERS, strict=True):
            np.save(tmp_path / f"{name}.npy", X)
        layers = [ls.open_rows(tmp_path / f"{name}.npy") for name in NAMES]
    else:
        layers = KINDS[kind]()
    found = ls.similarity(dict(zip(NAMES, layers, strict=True)), MEASURES)
    assert found.rows == 200
    for measure in MEASURES:
        assert np.abs(found.values[measure] - EXACT[measure]).max() < 1e-10, measure
        row = found.table(measure, library="")[1]
        assert list(row) == ["layer", *NAMES]
        assert list(row.values()) == ["narrow", *found.values[measure][1].tolist()]


ONCE = {"iterator", "scipy-operator", "products-only"}


def drawn(trial: int) -> tuple[Draw, list[np.ndarray], list[str]]:
    """Layers that share variables, with means, units and zeros, and a kind of data for each."""
    d = Draw(7, trial)
    n = d.size(5, 90)
    Z = d.rng.standard_normal((n, d.size(1, 8)))
    layers, kinds = [], []
    for _ in range(d.size(2, 4)):
        p = d.size(1, 12)
        X = Z @ d.rng.standard_normal((Z.shape[1], p)) + d.power(-2, 1) * d.rng.standard_normal((n, p))
        X = d.pick(X, np.maximum(X, 0), np.tanh(X), X > 0.5).astype(float)
        X[:, 0] = np.where(np.ptp(X, axis=0)[0] > 0, X[:, 0], np.arange(n))
        kinds.append(d.pick(*FORMS))
        layers.append(d.power(-12, 12) * (X + d.pick(0.0, d.power(0, 3))))
    return d, layers, kinds


@pytest.mark.filterwarnings("ignore:units of a layer nearly depend")
@pytest.mark.parametrize("trial", range(60))
def test_random_layers_of_all_kinds_of_data(trial):
    """Values of the definitions, and the same after turns, sizes and another order of rows."""
    d, layers, kinds = drawn(trial)
    measures = [name for name in MEASURES if len(layers[0]) > 5 or name != "cka-unbiased"]
    given = [FORMS[kind](X) for kind, X in zip(kinds, layers, strict=True)]
    if "blocks" in kinds and ONCE & {*kinds}:  # rows of other processes stay there
        with pytest.raises((ls.errors.SweptOnce, ls.errors.MissingCapability)):
            ls.similarity(given, measures)
        return
    found = ls.similarity(given, measures).values
    unique = np.array([[not tied(X, Y) for Y in layers] for X in layers])
    exact = {
        name: [[definition(X, Y) for Y in map(centred, layers)] for X in map(centred, layers)]
        for name, definition in DEFINITIONS.items()
    }
    back = ls.similarity(layers[::-1], measures).values
    order = d.rng.permutation(len(layers[0]))
    turns = [np.linalg.qr(d.rng.standard_normal(2 * X.shape[1:]))[0] for X in layers]
    turned = [d.power(-3, 3) * (X @ turn)[order] for X, turn in zip(layers, turns, strict=True)]
    again = ls.similarity(turned, measures).values
    for measure in measures:
        same = lambda other, on=measure: np.testing.assert_allclose(  # noqa: E731
            found[on][(on != "pwcca") | unique], np.array(other)[(on != "pwcca") | unique], rtol=0, atol=1e-10
        )
        same(exact[measure])
        same(back[measure][::-1, ::-1])
        if measure != "pwcca":  # whose weights are those of single units
            same(again[measure])


def test_other_array_libraries_and_float32():
    strict = pytest.importorskip("array_api_strict")
    found = ls.similarity([strict.asarray(X) for X in LAYERS], MEASURES)
    narrow = ls.similarity([X.astype(np.float32) for X in LAYERS], MEASURES)
    for measure in MEASURES:
        assert np.abs(found.values[measure] - EXACT[measure]).max() < 1e-10
        assert np.abs(narrow.values[measure] - EXACT[measure]).max() < 1e-4


def test_a_stream_whose_first_rows_are_far_from_the_mean():
    """Sums about these rows must be corrected to fourth order."""
    rng = np.random.default_rng(1)
    drift = np.linspace(0, 5, 200)[:, None]
    X, Y = LAYERS[0] + drift, LAYERS[2] @ rng.standard_normal((15, 4)) - 3 * drift
    slices = ((X[i : i + 1], Y[i : i + 1]) for i in range(200))
    for measure, values in ls.similarity(ls.paired(slices), MEASURES).values.items():
        assert values[0, 1] == pytest.approx(DEFINITIONS[measure](X, Y), abs=1e-10)


def test_what_does_not_change_the_measures():
    """Rotations, sizes and shifts of units; canonical correlations take any linear map (Kornblith et al. 2019)."""
    rng = np.random.default_rng(2)
    X, Y = LAYERS[0], LAYERS[2]
    turned = 1e-4 * X @ np.linalg.qr(rng.standard_normal((30, 30)))[0] - 7
    found = ls.similarity([X, Y, turned, Y @ rng.standard_normal((15, 15))], MEASURES).values
    for measure in set(MEASURES) - {"pwcca"}:
        assert found[measure][0, 1] == pytest.approx(found[measure][2, 1], abs=1e-9)
    assert found["procrustes"][0, 2] == pytest.approx(0, abs=1e-12)
    assert found["pwcca"][0, 1] == pytest.approx(found["pwcca"][0, 3], abs=1e-7)  # weights of the first
    assert found["cka"][1, 3] < 0.99


def test_layers_that_share_directions_have_one_value():
    rng = np.random.default_rng(5)
    shared, first, second = (rng.standard_normal((200, p)) for p in (3, 4, 5))
    X = np.hstack([shared, first]) @ rng.standard_normal((7, 7))
    few = rng.standard_normal((12, 9))  # with 6 columns they span more than the 11 dimensions of centred rows
    for Y, Z in ((X, np.hstack([shared, second])), (few, rng.standard_normal((12, 6)))):
        turned = [
            Z @ rng.standard_normal((Z.shape[1],) * 2) for _ in range(4)
        ]  # which pwcca of Y does not see
        values = [ls.similarity([Y, T], "pwcca").values["pwcca"][0, 1] for T in turned]
        assert np.ptp(values) < 1e-9


@pytest.mark.parametrize("unit", [1e-55, 1e-10, 1e10, 1e55])
def test_units_do_not_change_the_measures(unit):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((60, 4))
    Y = X[:, :3] + rng.standard_normal((60, 3))
    plain, scaled = (ls.similarity([A, Y], MEASURES).values for A in (X, unit * X))
    for name in MEASURES:
        assert np.allclose(scaled[name], plain[name], rtol=0, atol=1e-12)
    assert not np.isnan(np.sqrt(scaled["procrustes"])).any()


def test_unbiased_cka_of_unrelated_layers_is_near_zero_and_biased_is_not():
    rng = np.random.default_rng(3)
    layers = [rng.standard_normal((100, 400)) for _ in range(2)]
    found = ls.similarity(layers, ["cka", "cka-unbiased"]).values
    assert found["cka"][0, 1] > 0.7
    assert abs(found["cka-unbiased"][0, 1]) < 0.05


def test_what_is_refused_or_said():
    for none in ({}, []):
        with pytest.raises(ls.errors.InvalidProblem, match="layers must hold at least one value"):
            ls.similarity(none)
    X, Y = LAYERS[0], LAYERS[3]
    with pytest.raises(ls.errors.InvalidOption, match="measures must be one of cka, "):
        ls.similarity([X, Y], "CKA")
    with pytest.raises(ls.errors.InvalidOption, match="share must be between 0 and 1"):
        ls.similarity([X, Y], "svcca", share=1.0)
    with pytest.raises(ls.errors.InvalidProblem, match="b must vary"):
        ls.similarity({"a": X, "b": np.full((200, 3), 0.1)})
    with pytest.raises(ls.errors.InvalidProblem, match="X1 and X2 must have equally many rows"):
        ls.similarity([X, Y[:9]])
    with pytest.raises(ls.errors.InvalidProblem, match="needs 4 rows; got 3"):
        ls.similarity([X[:3], Y[:3]], "cka-unbiased")
    with pytest.raises(ls.errors.NonFiniteData, match="b must be finite; got nan at row 4, column 1"):
        ls.similarity(
            {"a": X, "b": np.where(np.arange(12) + 100 * np.arange(200)[:, None] == 401, np.nan, Y)}
        )
    with pytest.raises(ls.errors.InvalidProblem, match="has 3 of a and 3 of b and 2 of c"):
        ls.similarity(ls.paired(iter([(X[:3], X[:3], X[:2])]), names="abc"))
    alone = ls.similarity([X, np.eye(200, 2)], "cka-unbiased").values[
        "cka-unbiased"
    ]  # rows without a product
    assert np.isnan(alone[1]).all()
    near = np.column_stack([Y, Y[:, 0] + 1e-6 * X[:, 0]])
    with pytest.warns(ls.errors.AccuracyWarning, match="nearly depend on each other"):
        rounded = ls.similarity([near, X], "pwcca")
    assert np.abs(rounded.values["pwcca"][0, 1] - pwcca(near, X)) < rounded.rounding["pwcca"][0]
