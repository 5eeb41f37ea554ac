"""Scores of held-out rows where the training rows leave a choice."""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls
from linspec.errors import AccuracyWarning


@pytest.mark.parametrize("form", ["auto", "dense", "implicit"])
def test_a_score_that_depends_on_a_choice_is_uncertain(form: str) -> None:
    """Sixteen training rows and 12 + 9 columns: all correlations are 1, and any of them may come first."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 12)), rng.standard_normal((20, 9))
    with pytest.warns(AccuracyWarning, match="the next component is as good"):
        found = ls.cross_validate(ls.CCA(X, Y, 1, center=True), ks=[1], form=form)
    assert found.uncertain.all()
    wide = ls.CCA(rng.standard_normal((200, 12)), rng.standard_normal((200, 9)), 1, center=True)
    assert not ls.cross_validate(wide, ks=[1], form=form).uncertain.any()
