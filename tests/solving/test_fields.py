"""Declared fields of problems and of answers of any number of views: solving, scores, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidDeclaration, InvalidProblem
from tests.studies.paired_problems import MCA, related

VIEWS = [X + i for i, X in enumerate(related(80, (5, 4, 3), (2.0, 1.0), seed=11))]


def test_scores_are_passed_as_a_list_or_by_name():
    found = ls.solve(ls.MultisetCCA(VIEWS, 2, ridge=1.0), "gram")
    assert [W.shape for W in found.weights] == [(5, 2), (4, 2), (3, 2)]
    parts = found.transform(VIEWS)
    np.testing.assert_allclose(parts[2], (VIEWS[2] - VIEWS[2].mean(0)) @ found.weights[2])
    in_order = found.transform(X3=VIEWS[2], X1=VIEWS[0])  # of the problem, however they are passed
    np.testing.assert_array_equal(np.hstack(in_order), np.hstack([parts[0], parts[2]]))
    correlation = np.corrcoef(VIEWS[0][:, 1], parts[0][:, 0])[0, 1]
    np.testing.assert_allclose(found.loadings(VIEWS)[0][1, 0], correlation, atol=1e-10)
    for given, named, words in (
        ((), {"X9": VIEWS[0]}, r"transform takes rows of X1, X2, X3, .*; got X9"),
        ((), {}, "takes rows of X1, X2, X3, .*; got none"),
        ((VIEWS,), {"X1": VIEWS[0]}, "takes rows of X1, X2, X3, each once"),
    ):
        with pytest.raises(InvalidProblem, match=words):
            found.transform(*given, **named)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ls.MultisetCCA(VIEWS[0], 1), "views must be a list of views"),
        (lambda: ls.MultisetCCA([], 1), "views must be a list of views"),
        (
            lambda: ls.MultisetCCA([VIEWS[0], VIEWS[1][:9]], 1),
            "X1 and X2 must have equally many rows; got 80 and 9",
        ),
        (lambda: ls.MultisetCCA(VIEWS, 1, ridge=(1.0, 2.0)), "a number or one for each of X1, X2, X3; got 2"),
        (lambda: ls.MultisetCCA(VIEWS, 13), "k must be between 1 and 12"),
        (lambda: ls.MultisetCCA(VIEWS, 1, center="no"), "center must be True or False"),
        (lambda: ls.MultisetCCA(VIEWS, 1, sample_weight=np.ones(9)), "sample_weight"),
        (lambda: MCA(VIEWS[0]), "MCA needs two views; got no Y. Call MCA\\(X, Y, k\\)"),
        (lambda: MCA(*VIEWS[:2]), "k must be an integer; got None"),
        (lambda: MCA(ls.Moments(VIEWS[0], center=True), None, 1), "moments of 2 matrices; got moments of 1"),
    ],
)
def test_what_cannot_be_is_refused(make, says):
    with pytest.raises(InvalidProblem, match=says):
        make()


@pytest.mark.parametrize(("field", "wanted"), [("penalty", "'ridge'"), ("n_components", "'k'")])
def test_a_ridge_and_a_number_under_other_names_are_refused(field, wanted):
    """Cross-validation would set a field `ridge` that nobody reads, and score one ridge many times."""
    declared = ls.ridge() if field == "penalty" else ls.count("components")
    with pytest.raises(InvalidDeclaration, match=f"Other.{field} is declared by .*must be {wanted}"):
        type("Other", (ls.Problem,), {field: declared, "__annotations__": {field: Any}})
