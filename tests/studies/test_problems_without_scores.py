"""Cross-validation and ridge paths of problems that declare their fields and nothing more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidOption, InvalidProblem
from tests.studies.paired_problems import MCA, related


@dataclass(frozen=True, eq=False, repr=False)
class Unscored(ls.CCA):
    """A CCA that names no scores; its answer has a method `score`."""

    held_out_scores: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, eq=False, repr=False)
class Agreement(ls.MultisetCCA):
    """A CCA of several views that names no scores."""

    held_out_scores: ClassVar[dict[str, str]] = {}


@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.parametrize(("score", "named"), [("correlations", "correlations"), ("score", "tcc")])
def test_scores_by_fields_are_those_that_cca_names(center, score, named):
    (X, Y), rng = related(60, (5, 4), (2.0, 1.0), 0), np.random.default_rng(0)
    grid = {"ks": [1, 2, 3], "ridges": [1.0, (2.0, 3.0)], "form": "solve", "rng": 0}
    rows = {"sample_weight": rng.integers(0, 3, 60), "confounds": rng.standard_normal((60, 2))}
    rows["center"] = center
    expected = ls.cross_validate(ls.CCA(X, Y, k=3, **rows), score=named, **grid)
    found = ls.cross_validate(Unscored(X, Y, k=3, **rows), score=score, solver="gram", **grid)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-9)
    assert found.label == expected.label


def test_three_views_are_scored_by_the_correlations_of_their_pairs():
    """By hand: rows about training means, correlations with their signs, summed over pairs and components."""
    views, ridges, labels = related(50, (4, 3, 3), (2.0, 1.0), 1), [1.0, (1.0, 2.0, 3.0)], np.arange(50) % 2
    found = ls.cross_validate(Agreement(views, 3), ks=[1, 3], ridges=ridges, splitter=labels)
    for split in (0, 1):
        for i, ridge in enumerate(ridges):
            answer = ls.solve(Agreement([V[labels != split] for V in views], 3, ridge=ridge))
            parts = zip(views, answer.weights, strict=True)
            P = [(V[labels == split] - V[labels != split].mean(axis=0)) @ W for V, W in parts]
            units = [S / np.linalg.norm(S, axis=0) for S in P]
            by_hand = sum(np.sum(units[a] * units[b], axis=0) for a, b in ((0, 1), (0, 2), (1, 2)))
            np.testing.assert_allclose(found.scores[split, i], [by_hand[0], by_hand.sum()])


def test_what_has_no_score_is_refused():
    X, Y = related(20, (3, 3), (1.0,), 4)
    with pytest.raises(InvalidOption, match="score must be one of correlations for MCA; got 'mse'"):
        ls.cross_validate(MCA(X, Y, k=1), score="mse")
    halves = Unscored(X, Y, k=1, sample_weight=np.full(20, 0.5))
    with pytest.raises(InvalidProblem, match=r"takes no weights, so it permutes rows|Round the weights"):
        ls.cross_validate(halves, score="score", solver="gram", rng=0)


def test_test_rows_without_a_method_are_scored_by_correlations():
    views = related(80, (4, 3, 3), (1.5,), 6)
    fitted, rest = ([V[rows] for V in views] for rows in (slice(40), slice(40, None)))
    path = ls.ridge_path(Agreement(fitted, 2), [1.0, 100.0], test=rest)
    given = {"ridges": [1.0, 100.0], "splitter": [(np.arange(40), np.arange(40, 80))]}
    scores = ls.cross_validate(Agreement(views, 2), **given).scores
    np.testing.assert_allclose(path.totals, scores[0, :, 0])


def test_what_has_no_path_is_refused():
    X, Y = related(20, (3, 3), (1.0,), 7)
    with pytest.raises(InvalidProblem, match=r"takes a problem with one ridge.*; got MCA"):
        ls.ridge_path(MCA(X, Y, k=1), [1.0])
    with pytest.raises(InvalidProblem, match="or one for each of X1, X2, X3; got 2 numbers"):
        ls.ridge_path(Agreement([X, Y, X], 1), [(1.0, 2.0)])
