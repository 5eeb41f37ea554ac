"""Cross-validation and ridge paths of problems that declare their fields and nothing more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidOption, InvalidProblem, MissingCapability
from linspec.studies.held_out.scores import default_scores, first_components
from tests.studies.paired_problems import MCA, Agreement, Dense, Gram, related


@dataclass(frozen=True, eq=False, repr=False)
class Unscored(ls.CCA):
    """A CCA that names no scores; its answer has a method `score`."""

    held_out_scores: ClassVar[dict[str, str]] = {}


def beside(n, seed):
    """Weights and confounds."""
    rng = np.random.default_rng(seed)
    return {"sample_weight": rng.integers(0, 3, n), "confounds": rng.standard_normal((n, 2))}


@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.parametrize(("score", "named"), [("correlations", "correlations"), ("score", "tcc")])
def test_scores_by_fields_are_those_that_cca_names(center, score, named):
    X, Y = related(60, (5, 4), (2.0, 1.0), 0)
    grid = {"ks": [1, 2, 3], "ridges": [1.0, (2.0, 3.0)], "form": "solve", "rng": 0}
    rows = beside(60, 0)
    expected = ls.cross_validate(ls.CCA(X, Y, k=3, center=center, **rows), score=named, **grid)
    found = ls.cross_validate(Unscored(X, Y, k=3, center=center, **rows), score=score, solver="gram", **grid)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-9)
    assert found.label == expected.label
    assert list(default_scores(Unscored(X, Y, k=3))) == ["score", "correlations"]


def test_three_views_are_scored_by_the_correlations_of_their_pairs():
    """By hand: rows about training means, correlations with their signs, summed over pairs and components."""
    views = related(50, (4, 3, 3), (2.0, 1.0), 1)
    found = ls.cross_validate(
        Agreement(views, 3),
        ks=[1, 3],
        ridges=[1.0, (1.0, 2.0, 3.0)],
        splitter=np.arange(50) % 2,
        solver=Dense(),
    )
    for split in (0, 1):
        training, held_out = (np.arange(50) % 2 != split), (np.arange(50) % 2 == split)
        for i, ridge in enumerate([1.0, (1.0, 2.0, 3.0)]):
            answer = ls.solve(Agreement([V[training] for V in views], 3, ridge=ridge), Dense())
            P = [
                (V[held_out] - V[training].mean(axis=0)) @ W
                for V, W in zip(views, answer.weights, strict=True)
            ]
            units = [S / np.linalg.norm(S, axis=0) for S in P]
            by_hand = sum(np.sum(units[a] * units[b], axis=0) for a, b in ((0, 1), (0, 2), (1, 2)))
            np.testing.assert_allclose(found.scores[split, i], [by_hand[0], by_hand.sum()])


def test_the_best_k_is_the_number_of_planted_components():
    X, Y = related(200, (8, 7), (2.0, 1.5), 2)
    found = ls.cross_validate(MCA(X, Y, k=5), ks=range(1, 6), solver=Gram(), rng=0)
    assert found.best.k == 2
    assert found.mean[0, 1] - found.mean[0, 0] > 0.4


def test_the_first_components_of_an_answer_are_those_of_a_smaller_k():
    A = np.random.default_rng(3).standard_normal((20, 5))
    whole, part = (ls.solve(ls.SVD(A, k), "direct") for k in (4, 2))
    cut = first_components(whole, 2)
    np.testing.assert_allclose(cut.S, part.S)
    np.testing.assert_allclose(cut.Vh, part.Vh)
    np.testing.assert_allclose(cut.transform(A), part.transform(A))
    views = related(30, (4, 3, 3), (1.0,), 3)
    whole, part = (ls.solve(Agreement(views, k, ridge=1.0), Dense()) for k in (3, 1))
    for a, b in zip(first_components(whole, 1).weights, part.weights, strict=True):
        np.testing.assert_allclose(np.abs(a), np.abs(b), rtol=1e-6)
    assert first_components(whole, None) is whole


@dataclass(frozen=True, kw_only=True, repr=False)
class OfOneMatrix(ls.Solution):
    x: Any = ls.field(shape="p")


@dataclass(frozen=True, eq=False, repr=False)
class Scoreless(ls.Problem[OfOneMatrix]):
    A: Any = ls.matrix("data")

    name: ClassVar[str] = "scoreless"
    tolerance: ClassVar[float] = 1e-6
    solution: ClassVar[type[ls.Solution]] = OfOneMatrix

    def certify(self, moments, arrays, tol):
        raise NotImplementedError


def test_what_has_no_score_is_refused():
    X, Y = related(20, (3, 3), (1.0,), 4)
    with pytest.raises(MissingCapability, match="no method score, and no weights of two matrices"):
        ls.cross_validate(Scoreless(X))
    with pytest.raises(InvalidOption, match="score must be one of correlations for MCA; got 'mse'"):
        ls.cross_validate(MCA(X, Y, k=1), score="mse")
    with pytest.raises(
        InvalidProblem, match=r"score takes no weights, so it permutes rows|Round the weights"
    ):
        ls.cross_validate(
            Unscored(X, Y, k=1, sample_weight=np.full(20, 0.5)), score="score", solver="gram", rng=0
        )


# ---- ridge paths ------------------------------------------------------------------------------------


def test_test_rows_without_a_method_are_scored_by_correlations():
    views = related(80, (4, 3, 3), (1.5,), 6)
    fitted, rest = ([V[rows] for V in views] for rows in (slice(40), slice(40, None)))
    path = ls.ridge_path(Agreement(fitted, 2), [1.0, 100.0], solver=Dense(), test=rest)
    splitter = [(np.arange(40), np.arange(40, 80))]
    scores = ls.cross_validate(
        Agreement(views, 2), ridges=[1.0, 100.0], splitter=splitter, solver=Dense()
    ).scores
    np.testing.assert_allclose(path.totals, scores[0, :, 0])


def test_what_has_no_path_is_refused():
    X, Y = related(20, (3, 3), (1.0,), 7)
    for problem, says in {
        MCA(X, Y, k=1): "takes a problem with one ridge.*; got MCA",
        ls.LeastSquares(
            X, Y, ridge=1.0
        ): r"takes several ridges itself: LeastSquares\(\.\.\., ridge=\[\.\.\.\]\)",
    }.items():
        with pytest.raises(InvalidProblem, match=says):
            ls.ridge_path(problem, [1.0])
    with pytest.raises(InvalidProblem, match=r"rows of all matrices: \(X1_test, X2_test, X3_test\)"):
        ls.ridge_path(Agreement([X, Y, X], 1), [1.0], solver=Dense(), test=(X, Y))
    with pytest.raises(
        InvalidProblem, match="ridge must be a number or one for each of X1, X2, X3; got 2 numbers"
    ):
        ls.ridge_path(Agreement([X, Y, X], 1), [(1.0, 2.0)], solver=Dense())
