"""A sweep over views whose rows have weights and means of their own."""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidProblem
from linspec.solving import adjusted
from linspec.sweeps import Task

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((40, 3)) + 5.0, RNG.standard_normal((40, 2)) - 2.0
WEIGHTS = RNG.integers(0, 3, 40).astype(float), RNG.integers(0, 2, 40).astype(float)


class Cross(Task):
    """XᵀY of the rows."""

    def part(self, rows, first_row=0, into=None):
        found = rows[0].dense().T @ rows[1].dense()
        return found if into is None else into + found

    def merge(self, left, right):
        return left + right


def of(A, weights):
    return ls.Moments(adjusted(ls.SVD(A, k=1, center=True, sample_weight=weights)).A, form="implicit")


def test_each_view_keeps_its_own_rows():
    moments = [of(A, w) for A, w in zip((X, Y), WEIGHTS, strict=True)]
    for each in moments:
        each.columns.adjustment(0)
    found = ls.Moments.side_by_side(moments).over_rows(Cross())
    own = [
        np.sqrt(w)[:, None] * (A - np.average(A, axis=0, weights=w))
        for A, w in zip((X, Y), WEIGHTS, strict=True)
    ]
    np.testing.assert_allclose(found, own[0].T @ own[1], atol=1e-12)


def test_a_sweep_is_counted_in_each_view():
    moments = [of(A, w) for A, w in zip((X, Y), WEIGHTS, strict=True)]
    assert moments[0].columns.adjustment_cost == 1
    for each in moments:
        each.columns.adjustment(0)
    assert moments[0].columns.adjustment_cost == 0
    ls.Moments.side_by_side(moments).over_rows(Cross())
    assert [each.passes for each in moments] == [2, 2]


def test_rows_must_be_equally_many():
    with pytest.raises(InvalidProblem, match="equally many rows"):
        ls.Moments.side_by_side([ls.Moments(X), ls.Moments(Y[:30])])
