"""Which solver is chosen, for the sizes of the data and the memory."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.process import machine


@pytest.mark.parametrize(
    ("n", "p", "density", "expected"),
    [(2000, 40, None, "gram"), (40, 60, None, "gram"), (5000, 3000, 0.001, "lobpcg")],
)
def test_select_takes_the_least_time(n, p, density, expected):
    sparse = scipy.sparse.random(n, p, density or 0.0, format="csr", random_state=0)
    X = np.zeros((n, p)) if density is None else sparse
    assert ls.select(ls.CCA(X, X, 2)).name == expected


def test_select_refuses_what_does_not_fit(monkeypatch):
    X = scipy.sparse.random(1000, 800, 0.01, format="csr", random_state=0)
    problem = ls.CCA(X, X, 2)
    need = 8.0 * (2 * 3 + 1) * 800**2
    monkeypatch.setattr(machine, "available_memory", lambda: int(2.1 * need))
    assert ls.select(problem).name == "gram"
    monkeypatch.setattr(machine, "available_memory", lambda: int(0.5 * need))
    with pytest.raises(ls.errors.NoSuitableSolver, match="als"):
        ls.select(problem)
