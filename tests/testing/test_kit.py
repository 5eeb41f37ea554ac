"""The kit against facts from outside it: planted answers, expected failures, reports, plugins of before."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import linspec as ls
from linspec import registry
from linspec.testing import check_operator, conformance, planted, references, run_checks
from tests import faulty_plugins as f


@pytest.fixture
def fresh_registry(monkeypatch):
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)


def test_references_have_the_answers_of_other_definitions():
    tall = {name: getattr(references, name).cases()[0] for name in ("CCA", "SVD", "PLS", "LEAST_SQUARES")}
    first = {name: next(iter(getattr(references, name).exact(case).values())) for name, case in tall.items()}
    X, Y = (A - A.mean(axis=0) for A in tall["CCA"].matrices)
    np.testing.assert_allclose(first["CCA"], np.sort(np.cos(scipy.linalg.subspace_angles(X, Y)))[:-4:-1])
    A, B = (M - M.mean(axis=0) for M in tall["LEAST_SQUARES"].matrices)
    np.testing.assert_allclose(first["LEAST_SQUARES"], np.linalg.pinv(A) @ B, rtol=1e-9)
    X, Y = (A - A.mean(axis=0) for A in tall["PLS"].matrices)
    (A,) = (A - A.mean(axis=0) for A in tall["SVD"].matrices)
    for name, matrix in (("SVD", A), ("PLS", X.T @ Y)):
        np.testing.assert_allclose(first[name], np.linalg.svd(matrix, compute_uv=False)[:3], rtol=1e-10)


def test_planted_matrices_share_four_variables():
    X, Y = (A - A.mean(axis=0) for A in planted(2000, 9, 7))
    cosines = np.sort(np.cos(scipy.linalg.subspace_angles(X, Y)))[::-1]
    assert (cosines[:4] > 0.6).all()
    assert (cosines[4:] < 0.2).all()


def test_expected_failures_must_fail_and_name_checks(fresh_registry):
    name = f.solver("least-squares/direct", change=lambda a, p: a | {"x": 1.001 * a["x"]})()
    report = run_checks(name, backends=["numpy"], expected_failures={"accuracy": "a thousandth too large"})
    assert report.expected == [("accuracy", "a thousandth too large")]
    assert "accuracy" not in dict(report.failed)
    with pytest.raises(ls.errors.InvalidOption, match="must name checks; got accurracy"):
        conformance(name, expected_failures={"accurracy": "misspelt"})
    report = run_checks(f.matrix()(), expected_failures={"draws": "nothing"})
    assert dict(report.failed) == {"draws": "it passes, and was expected to fail: nothing"}
    assert not report.ok


def test_operators_are_compared_with_their_entries():
    assert check_operator(np.eye(3)) == []
    assert check_operator(np.eye(3), entries=2 * np.eye(3)) == [
        "matmat must be linear, with the products of the entries; it is not"
    ]


def test_a_plugin_of_before_is_refused_by_one_message_that_names_the_page(fresh_registry):
    with pytest.raises(ImportError, match=r"no 'ProblemTesting'; docs/about/stability\.md"):
        from linspec.testing import ProblemTesting  # noqa: F401
    name = f.problem(testing="KEPT")()
    for part in (name, "faulty/direct"):
        ((check, fault),) = run_checks(part).failed
        assert check == "declaration"
        assert "must name a linspec.testing.Reference by testing='module:NAME'" in fault
        assert "docs/about/stability.md" in fault
