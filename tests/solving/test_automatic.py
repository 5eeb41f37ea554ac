"""What "auto" chooses: another solver where one falls short, one that fits, and what is recorded."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import scipy.sparse
from choices import FILE, MEMORY, choices

import linspec as ls
from linspec.errors import NoSuitableSolver
from linspec.process import machine


@pytest.mark.parametrize("attainable", [True, False])
def test_auto_warns_of_the_answer_that_it_returns_and_not_of_its_attempts(attainable):
    """Rows of condition 1e4 give more digits than Gram matrices of condition 1e8, and nothing gives sixty."""
    given_up = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        Q = np.linalg.qr(rng.standard_normal((8, 8)))[0]
        problem = ls.CCA(*(rng.standard_normal((200, 8)) * np.geomspace(1, 1e-4, 8) @ Q for _ in "XY"), 2)
        tol = ls.solve(problem, "gram").residual / 10 if attainable else 1e-60
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = ls.solve(problem, tol=tol)
        assert "gram was tried first" in found.message
        assert (found.residual <= tol) == attainable
        warned = found.status is ls.Status.INACCURATE
        assert [str(each.message).partition(":")[0] for each in caught] == ["direct"] * warned
        given_up += warned
    assert bool(given_up) != attainable


def test_what_cannot_fit_is_refused_by_name_too(monkeypatch):
    X = scipy.sparse.random(1000, 800, 0.01, format="csr", random_state=0)
    monkeypatch.setattr(machine, "available_memory", lambda: 10**7)
    with pytest.raises(NoSuitableSolver, match=r"gram .* would take .* MB .*10 MB are available.*iterative"):
        ls.solve(ls.CCA(X, X, 2, ridge=1.0), "gram")


def test_choices_are_those_that_are_recorded(monkeypatch):
    """A table that reviewers read: it does not say that a choice is right, only that it has changed."""
    monkeypatch.setattr(machine, "available_memory", lambda: MEMORY)
    recorded, found = json.loads(FILE.read_text(encoding="utf-8")), choices()
    changed = {
        label: (recorded.get(label), found.get(label))
        for label in {*recorded, *found}
        if recorded.get(label) != found.get(label)
    }
    assert not changed, (
        f"what auto chooses has changed (before, now): {changed}. If that is meant, run python tests/choices.py: "
        "changes need a changelog line."
    )
