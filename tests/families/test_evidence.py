"""Blocks that share a product, and the norms that are made from it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec import Moments
from linspec.families.cca.law import evidence
from linspec.families.cca.law.evidence import inverse_norms, probes

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((300, 60)), RNG.standard_normal((300, 20))
R = RNG.standard_normal((60, 3))


def norms(form, *, ridge, sparse=False):
    views = [scipy.sparse.csr_array(A) for A in (X, Y)] if sparse else [X, Y]
    problem = ls.CCA(*views, 2, ridge=ridge, center=False)
    moments = Moments(problem.X, problem.Y, form=form)
    sent = probes(problem, moments)
    made = [moments.view(i).products(probe.block)[0] + probe.block * ridge for i, probe in enumerate(sent)]
    return sent, inverse_norms(problem, moments, sent, made, judging=True)


def exact(ridge):
    S = X.T @ X + ridge * np.eye(60)
    return np.sum(R * np.linalg.solve(S, R), axis=0)


@pytest.mark.parametrize("ridge", [0.0, 10.0])
def test_few_columns_are_multiplied_by_the_identity(ridge):
    sent, (x, _) = norms("implicit", ridge=ridge)
    assert all(probe.whole for probe in sent)
    assert x.kind == "exact"
    np.testing.assert_allclose(x.squares(R), exact(ridge), rtol=1e-10)


@pytest.mark.parametrize("ridge", [0.0, 10.0, 1e4])
def test_many_columns_are_multiplied_by_signs(monkeypatch, ridge):
    monkeypatch.setattr(evidence, "MOMENT", 0.0)
    monkeypatch.setattr(evidence, "SKETCH", 30)
    sent, (x, y) = norms("implicit", ridge=ridge)
    assert [probe.whole for probe in sent] == [False, True]
    assert sent[0].block.shape == (60, 32)
    assert (x.kind, y.kind) == ("preconditioned", "exact")
    share = x.squares(R) / exact(ridge)
    assert np.all((share > 1 / 3) & (share < 3))


def test_held_gram_matrices_need_no_riders():
    sent, (x, y) = norms("dense", ridge=1.0)
    assert [probe.block.shape[1] for probe in sent] == [0, 0]
    assert (x.kind, y.kind) == ("exact", "exact")
    np.testing.assert_allclose(x.squares(R), exact(1.0), rtol=1e-10)


def test_sparse_gram_matrices_are_iterated_on(monkeypatch):
    monkeypatch.setattr(evidence, "MOMENT", 0.0)
    monkeypatch.setattr(evidence, "SKETCH", 10)
    _, (x, _) = norms("sparse", ridge=1.0, sparse=True)
    assert x.kind == "quadrature"
    share = x.squares(R) / exact(1.0)
    assert np.all((share > 0.85) & (share < 1 + 1e-9))
