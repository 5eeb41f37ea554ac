"""The kit against facts from outside it: planted answers, expected failures, reports, plugins of before."""

from __future__ import annotations

import re
from pkgutil import resolve_name

import numpy as np
import pytest
import scipy.linalg

import linspec as ls
from linspec import registry
from linspec.testing import check_operator, conformance, kit, planted, references, run_checks
from tests import faulty_plugins as f


@pytest.fixture
def fresh_registry(monkeypatch):
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)


def test_references_have_the_answers_of_other_definitions():
    tall = references.CCA.cases()[0]
    X, Y = (A - A.mean(axis=0) for A in tall.matrices)
    cosines = np.cos(scipy.linalg.subspace_angles(X, Y))[::-1]
    np.testing.assert_allclose(
        references.CCA.exact(tall)["correlations"], np.sort(cosines)[::-1][:3], rtol=1e-10
    )
    for name, matrix in (("SVD", X), ("PLS", X.T @ Y)):
        known = getattr(references, name)
        values = next(iter(known.exact(known.cases()[0]).values()))
        if name == "SVD":
            A = known.cases()[0].matrices[0]
            matrix = A - A.mean(axis=0)
        np.testing.assert_allclose(values, np.linalg.svd(matrix, compute_uv=False)[:3], rtol=1e-10)
    case = references.LEAST_SQUARES.cases()[0]
    A, B = (M - M.mean(axis=0) for M in case.matrices)
    np.testing.assert_allclose(references.LEAST_SQUARES.exact(case)["x"], np.linalg.pinv(A) @ B, rtol=1e-9)


def test_each_problem_that_ships_has_a_reference_whose_first_case_is_gentle():
    for name in ls.problems():
        reference = resolve_name(registry.get_spec("problem", name).testing)
        first = reference.cases()[0]
        assert first.gentle, name
        assert reference.exact(first), name


def test_planted_matrices_share_four_variables():
    X, Y = (A - A.mean(axis=0) for A in planted(2000, 9, 7))
    cosines = np.sort(np.cos(scipy.linalg.subspace_angles(X, Y)))[::-1]
    assert (cosines[:4] > 0.6).all()
    assert (cosines[4:] < 0.2).all()


def test_expected_failures_must_fail_and_name_checks(fresh_registry):
    name = f.solver(f.after(f.Honest, given=lambda self, x: {"x": 1.001 * x}))()
    reason = {"accuracy": "a thousandth too large"}
    report = run_checks(name, backends=["numpy"], expected_failures=reason)
    assert report.expected == [("accuracy", "a thousandth too large")]
    assert "accuracy" not in dict(report.failed)
    with pytest.raises(ls.errors.InvalidOption, match="must name checks; got accurracy"):
        conformance(name, expected_failures={"accurracy": "misspelt"})
    honest = f.part(f.Normal)()
    report = run_checks(honest, expected_failures={"draws": "nothing"})
    assert dict(report.failed) == {"draws": "it passes, and was expected to fail: nothing"}
    assert not report.ok


def test_a_failure_names_file_and_line(fresh_registry):
    name = f.part(f.after(f.Orthonormal, twist=lambda self, V, Q, T: (Q, T * 2)))()
    outcome, text = kit.Checks(name).run("orthonormal")
    assert outcome == "failed"
    assert re.search(r"Return the T of this Q", text)


def test_operators_are_compared_with_their_entries():
    assert check_operator(np.eye(3)) == []
    assert check_operator(np.eye(3), entries=2 * np.eye(3)) == [
        "matmat must be linear, with the products of the entries; it is not"
    ]


def test_a_plugin_of_before_is_refused_by_one_message_that_names_the_page(fresh_registry):
    with pytest.raises(ImportError, match=r"no 'ProblemTesting'; docs/about/stability\.md"):
        from linspec.testing import ProblemTesting  # noqa: F401
    name = f.problem(testing="tests.faulty_plugins:KEPT")()
    for part in (name, "faulty/direct"):
        report = run_checks(part)
        ((check, fault),) = report.failed
        assert check == "declaration"
        assert "must name a linspec.testing.Reference" in fault
        assert "docs/about/stability.md" in fault


def test_a_problem_without_a_reference_says_what_is_needed(fresh_registry):
    report = run_checks(f.problem(testing="")())
    assert "testing='module:NAME'" in dict(report.failed)["declaration"]
