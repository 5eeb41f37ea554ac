"""Rotations of components, against R, against what they do to rows, and against samples from one source."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from fuzz import Draw

import linspec as ls

M1 = np.array(
    [
        [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 4, 5, 6],
        [1, 2, 1, 1, 1, 1, 2, 1, 2, 1, 3, 4, 3, 3, 3, 4, 6, 5],
        [3, 3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 5, 4, 6],
        [3, 3, 4, 3, 3, 1, 1, 2, 1, 1, 1, 1, 2, 1, 1, 5, 6, 4],
        [1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 1, 1, 1, 1, 1, 6, 4, 5],
        [1, 1, 1, 2, 1, 3, 3, 3, 4, 3, 1, 1, 1, 2, 1, 6, 5, 4],
    ]
).T
"""The data of ?factanal, as v1 to v6."""

R = """
m1 <- cbind(v1, v2, v3, v4, v5, v6)
turned <- function(L, ...) { for (i in 1:50) L <- varimax(L, ..., eps = 1e-14)$loadings; L }
L <- loadings(factanal(m1, factors = 3, rotation = "none"))  # L, L_VARIMAX, L_PROMAX:
L; turned(L); promax(turned(L))$loadings
S <- loadings(factanal(~ ., 2, data = swiss))  # ?varimax: S, S_RAW, S_PROMAX
S; turned(S, normalize = FALSE); promax(turned(S))$loadings
pca <- prcomp(m1); turned(pca$rotation[, 1:2] %*% diag(pca$sdev[1:2]))  # PCA_VARIMAX
"""
"""What R 4.2.2 has printed the numbers below for. `varimax` stops early: with eps = 1e-14 its loadings are 2e-8 from
where it leads, so it goes on from its own answer."""


def table(numbers: str) -> np.ndarray:
    return np.array([[float(number) for number in row.split()] for row in numbers.strip().split("\n")])


L = table("""
0.8083380458306 -0.3852764946914 0.4395067856492
0.7518285543136 -0.2903572633148 0.4995460338646
0.8134981540872 -0.2288880114073 -0.5299590400597
0.7291645730975 -0.1391325723843 -0.4742449352069
0.8017411464671 0.5209022452350 0.0397714394554
0.7639030672030 0.6361303322316 0.0825563590210""")
L_VARIMAX = table("""
0.943574064317 0.182528573698 -0.267143956066
0.904481738190 0.235409154496 -0.159984595041
0.234968106758 0.209790912199 -0.946468866142
0.179352488902 0.242402923011 -0.827659720881
0.241392437844 0.880803911191 -0.285699043415
0.192053620054 0.958965943887 -0.196277796939""")
L_PROMAX = table("""
0.9844854258771 -0.0464503686400 -0.0708687093602
0.9508943541598 0.0497770902287 0.0593119766152
0.0269749108890 -0.0359326032775 -1.0025656804521
-0.0187817177793 0.0428647671555 -0.8673017471194
0.0296278382674 0.9097758665458 -0.0621000527114
-0.0247374579461 1.0333031449912 0.0516288819429""")
S = table("""
-0.6523851155148 0.3933522596698
-0.6305443863295 0.3327506309631
0.6849814148857 -0.5103643306121
0.9970085001246 -0.0312826769693
-0.1241783059946 0.9611809294976
-0.0946629423001 0.1748373404420""")
S_RAW = table("""
-0.6495643739986 0.3979930441155
-0.6281562219758 0.3372372552538
0.6813256792231 -0.5152345170222
0.9967601546290 -0.0383894431195
-0.1173230001577 0.9620417582119
-0.0934141411685 0.1755077391100""")
S_PROMAX = table("""
-0.5953641832961 0.2269629340628
-0.5989391769110 0.1602971467155
0.5768626636288 -0.3595419533153
1.1922763699135 0.3627799605930
0.3259115656552 1.1469079237670
-0.0280291996036 0.1795787686568""")
PCA_VARIMAX = table("""
0.343567126276 -1.487248471129
0.296485531703 -1.411983543140
0.945730777055 -0.848385218126
0.900003977009 -0.790941611511
1.467860433618 -0.320454643794
1.450604876652 -0.247159914896""")


def matched(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Ours in the order and with the signs of theirs."""
    products = theirs.T @ ours
    order = np.abs(products).argmax(axis=1)
    return ours[:, order] * np.sign(products[np.arange(len(order)), order])


@pytest.mark.parametrize(
    ("loadings", "method", "normalize", "theirs"),
    [
        (L, "varimax", True, L_VARIMAX),
        (L, "promax", True, L_PROMAX),
        (S, "varimax", False, S_RAW),
        (S, "promax", True, S_PROMAX),
        (1e-200 * L, "varimax", True, 1e-200 * L_VARIMAX),
    ],
)
def test_published_examples_of_r(loadings, method, normalize, theirs):
    rotated = ls.rotate(loadings, method, normalize=normalize)
    assert rotated.converged
    assert np.abs(rotated.loadings - theirs).max() < 1e-8 * np.abs(theirs).max()
    assert rotated.explained_variance.sum() == pytest.approx((loadings**2).sum())


def test_components_of_rows_are_those_of_r_and_scores_belong_to_the_loadings():
    rotated = ls.rotate(ls.solve(ls.SVD(M1, k=2, center=True)))
    assert np.abs(matched(rotated.loadings, PCA_VARIMAX) - PCA_VARIMAX).max() < 1e-8
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 8)) + rng.standard_normal((200, 8)) + 5
    frame = ls.labelled(A, columns=list("abcdefgh"))
    for method in ("varimax", "promax", rng.standard_normal((8, 3))):
        solution = ls.solve(ls.SVD(frame, k=3, center=True))
        rotated = ls.rotate(solution, method)
        scores = rotated.transform(frame)
        assert np.allclose(scores.mean(axis=0), 0)
        assert np.allclose(np.cov(scores.T), rotated.correlations)  # of variance 1
        assert np.allclose(
            scores @ rotated.loadings.T, solution.inverse_transform(solution.transform(frame)) - A.mean(0)
        )
        assert np.isclose(rotated.explained_variance.sum(), solution.explained_variance.sum())
        row = rotated.loadings_table(library="")[1]
        assert row["column"] == "b"
        assert np.allclose([row[f"component{i}"] for i in (1, 2, 3)], rotated.loadings[1])
        assert rotated.converged


def test_no_rotation_of_two_components_is_better():
    rng = np.random.default_rng(1)
    loadings = rng.standard_normal((30, 6))
    rotated = ls.rotate(loadings, normalize=False)
    criterion = lambda Z: np.var(Z**2, axis=0).sum()  # noqa: E731
    for angle in np.linspace(0, np.pi / 2, 40):
        for i, j in zip(*np.triu_indices(6, 1), strict=True):
            turn = np.eye(6)
            turn[np.ix_([i, j], [i, j])] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
            assert criterion(rotated.loadings @ turn) <= criterion(rotated.loadings) * (1 + 1e-12)
    # a minimum, where the derivative is 0 as well
    assert np.allclose(
        np.abs(ls.rotate([[1.0, 1.0], [1.0, -1.0]]).loadings), np.sqrt(2) * np.eye(2)[::-1], atol=1e-12
    ) or (
        np.allclose(np.abs(ls.rotate([[1.0, 1.0], [1.0, -1.0]]).loadings), np.sqrt(2) * np.eye(2), atol=1e-12)
    )


@pytest.mark.parametrize("trial", range(40))
def test_random_loadings(trial):
    """No turn of two components increases the criterion, what is explained stays, order and signs change nothing."""
    d = Draw(3, trial)
    p, k = d.size(3, 30), d.size(1, 6)
    pattern = np.eye(k)[d.rng.integers(0, k, p)] * d.rng.uniform(0.5, 1.5, (p, 1))
    kinds = {
        "simple": pattern + d.power(-12, -1) * d.rng.standard_normal((p, k)),
        "dense": d.rng.standard_normal((p, k)),
        "dependent": d.rng.standard_normal((p, 1)) * d.rng.standard_normal(k),
        "graded": pattern * np.geomspace(1, d.power(-5, 0), k),
        "integers": d.rng.integers(-2, 3, (p, k)).astype(float),
    }
    kind = d.pick(*kinds)
    L = kinds[kind] @ np.linalg.qr(d.rng.standard_normal((k, k)))[0] * d.power(-150, 150)
    L[d.rng.random(p) < 0.1] = 0.0
    normalize = d.chance(0.5)
    lengths = np.linalg.norm(L, axis=1, keepdims=True) if normalize else np.linalg.norm(L)
    unit = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    criterion = lambda T: np.var(((L * unit) @ T) ** 2, axis=0).sum()  # noqa: E731
    rotated = ls.rotate(L, normalize=normalize)
    T = rotated.rotation
    assert rotated.converged, kind
    np.testing.assert_allclose(T.T @ T, np.eye(k), atol=1e-12)
    np.testing.assert_allclose(rotated.loadings, L @ T, atol=1e-12 * np.abs(L).max())
    for i, j in zip(*np.triu_indices(k, 1), strict=True):
        for angle in (-1.0, -0.1, -1e-3, 1e-3, 0.1, 0.5, np.pi / 4):
            turn = np.eye(k)
            turn[np.ix_([i, j], [i, j])] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
            assert criterion(T @ turn) <= criterion(T) + 1e-13, (kind, angle)
    order, signs = d.rng.permutation(k), d.pick(np.ones(k), d.rng.choice([-1.0, 1.0], k))
    other = ls.rotate((L * signs)[:, order], normalize=normalize).rotation
    if kind != "dense":  # which may have several maxima
        assert np.isclose(criterion((np.eye(k) * signs)[:, order] @ other), criterion(T), atol=1e-10), kind
    well = p >= k and np.linalg.cond(L / np.abs(L).max()) < 1e5
    try:
        oblique = ls.rotate(L, "promax", normalize=normalize)
    except ls.errors.InvalidProblem:
        assert not well
        return
    U = oblique.rotation
    assert np.isfinite(oblique.loadings).all()
    if well:
        Phi = oblique.correlations
        np.testing.assert_allclose(Phi, np.linalg.inv(U.T @ U), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(np.diag(Phi), 1, rtol=1e-9)
        scale = np.abs(L).max()
        np.testing.assert_allclose(
            (oblique.loadings / scale) @ Phi @ (oblique.loadings / scale).T,
            (L / scale) @ (L / scale).T,
            atol=1e-9,
        )


def test_a_target_is_reached_and_not_left():
    rng = np.random.default_rng(2)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    loadings = rng.standard_normal((12, 3))
    rotated = ls.rotate(loadings, loadings @ turn)
    assert np.allclose(rotated.rotation, turn)
    assert rotated.converged
    noisy = loadings @ turn + rng.standard_normal((12, 3))
    nearest = np.linalg.norm(ls.rotate(loadings, noisy).loadings - noisy)
    for _ in range(50):
        near = np.linalg.qr(np.eye(3) + 0.05 * rng.standard_normal((3, 3)))[0]
        near = near * np.sign(np.diag(near))
        assert np.linalg.norm(ls.rotate(loadings, noisy).loadings @ near - noisy) >= nearest


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array, lambda A: lambda: iter(np.split(A, 4))])
def test_any_data(kind):
    rng = np.random.default_rng(3)
    A = np.kron(np.eye(2), np.ones((20, 3))) + rng.standard_normal((40, 6)) / 9
    rotated = ls.rotate(ls.solve(ls.SVD(kind(A), k=2)))
    expected = ls.rotate(ls.solve(ls.SVD(A, k=2)))
    assert np.allclose(matched(rotated.loadings, expected.loadings), expected.loadings)
    assert np.allclose(matched(rotated.transform(A), expected.transform(A)), expected.transform(A))


def test_arrays_of_other_libraries():
    strict = pytest.importorskip("array_api_strict")
    A = strict.asarray(np.random.default_rng(4).standard_normal((50, 6)))
    scores = ls.rotate(ls.solve(ls.SVD(A, k=2, center=True)), "promax").transform(A)
    assert type(scores) is type(A)
    assert np.allclose(strict.std(scores, axis=0, correction=1), 1)


@pytest.mark.parametrize("method", ["varimax", "promax"])
def test_errors_of_the_bootstrap_are_those_of_samples(method):
    """Of loadings of 150 independent samples of the source, rotated and matched."""
    rng = np.random.default_rng(5)
    pattern = np.kron(np.eye(3), np.ones((1, 4))) * np.linspace(0.6, 1.4, 12)

    def sample() -> ls.SVD:
        A = rng.standard_normal((300, 3)) @ pattern + 0.5 * rng.standard_normal((300, 12))
        return ls.SVD(A, k=3, center=True)

    problem = sample()
    rotated = ls.rotate(ls.solve(problem), method)
    intervals = ls.bootstrap(problem, solution=rotated, draws=150, rng=0)
    low, high = intervals.weights["A"]
    assert np.mean((low <= rotated.loadings) & (rotated.loadings <= high)) > 0.95
    others = [matched(ls.rotate(ls.solve(sample()), method).loadings, rotated.loadings) for _ in range(150)]
    ratio = intervals.weight_errors["A"] / np.std(others, axis=0)
    assert 0.85 < np.median(ratio) < 1.15
    assert 0.5 < ratio.min() < ratio.max() < 1.7
    row = intervals.weights_table(library="")[3]
    assert row["component2"] == pytest.approx(rotated.loadings[3, 1])
    assert np.allclose(intervals.solution.S, rotated.answer.S)


@pytest.mark.parametrize("unit", [1e-100, 1.0, 1e60])
def test_promax_keeps_what_components_explain_whatever_their_sizes(unit):
    rng = np.random.default_rng(7)
    for k in (1, 4, 7):
        loadings = unit * rng.standard_normal((24, k)) * 10.0 ** -np.arange(k)
        rotated = ls.rotate(loadings, "promax")
        explained = loadings @ loadings.T
        again = rotated.loadings @ rotated.correlations @ rotated.loadings.T
        assert np.abs(again - explained).max() < 1e-7 * np.abs(explained).max()
        assert np.allclose(np.diag(rotated.correlations), 1.0)
        assert rotated.explained_variance.sum() == pytest.approx(np.trace(explained))


def test_what_cannot_be_rotated_is_refused():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((40, 4))
    with pytest.raises(ls.errors.InvalidOption, match="method must be one of varimax, promax"):
        ls.rotate(L, "equamax")
    with pytest.raises(ls.errors.InvalidProblem, match="the shape of the loadings"):
        ls.rotate(L, L[:, :2])
    with pytest.raises(ls.errors.NonFiniteData):
        ls.rotate(np.nan * L)
    with pytest.raises(ls.errors.MissingCapability, match=r"Rotate an answer of linspec\.SVD"):
        ls.rotate(L).transform(X)
    with pytest.raises(ls.errors.InvalidProblem, match=r"loadings \(an array, or an answer of linspec.SVD\)"):
        ls.rotate(ls.solve(ls.CCA(X, X[:, :2], k=1, ridge=1.0)))
    with pytest.raises(ls.errors.InvalidProblem, match="solution must be a SVDSolution"):
        ls.bootstrap(ls.SVD(X, k=2), solution=ls.rotate(L))
    with pytest.raises(ls.errors.InvalidProblem, match="normalize must be True or False"):
        ls.rotate(L, normalize="no")
    for useless in (np.zeros((5, 2)), np.ones((5, 2)), np.ones((2, 3))):
        assert np.isfinite(ls.rotate(useless).loadings).all()
        with pytest.raises(ls.errors.InvalidProblem, match="promax needs loadings that do not depend"):
            ls.rotate(useless, "promax")
    assert np.allclose(ls.rotate(L[:, :1], "promax").loadings, L[:, :1])
