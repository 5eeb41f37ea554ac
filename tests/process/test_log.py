"""The log at DEBUG has the choice, the passes and the ending; nothing is logged where nobody reads."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import scipy.sparse

import linspec as ls

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((300, 8)), RNG.standard_normal((300, 5))
DATA = [X, scipy.sparse.csr_array(X), lambda: iter([X[:100], X[100:]])]


def test_the_choice_and_its_figures_are_told(caplog):
    caplog.set_level(logging.DEBUG, "linspec")
    problem = ls.CCA(X, Y, 2)
    solution = ls.solve(problem)
    assert {record.name for record in caplog.records} == {"linspec"}
    messages = [record.getMessage() for record in caplog.records]
    assert f"auto: {ls.select(problem).reason}" in messages
    assert any(f"ends as {solution.status.name}" in text and solution.message in text for text in messages)


@pytest.mark.parametrize("data", DATA, ids=["dense", "sparse", "stream"])
def test_every_pass_is_told_with_its_columns_and_seconds(data, caplog):
    caplog.set_level(logging.DEBUG, "linspec")
    moments = ls.Moments(data, form="implicit")
    for columns in (3, 7):
        moments.products(np.ones((8, columns)))
    passes = [
        text for text in map(logging.LogRecord.getMessage, caplog.records) if text.startswith("pass over X")
    ]
    assert [text.split(":")[0] for text in passes] == [f"pass over X with {k} columns" for k in (3, 7)]
    assert all(text.endswith(" s") for text in passes)


def test_nothing_is_told_and_nothing_made_for_it_by_default(monkeypatch, capfd):
    def made(self):
        raise AssertionError("a text was made that nobody reads")

    monkeypatch.setattr(logging.getLogger("linspec"), "level", logging.INFO)
    monkeypatch.setattr(ls.CCA, "__repr__", made)
    ls.solve(ls.CCA(X, Y, 2))
    assert capfd.readouterr() == ("", "")
