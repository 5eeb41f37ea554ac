"""Declared fields of problems and of answers, above all those of any number of views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from click.testing import CliRunner

import linspec as ls
from linspec import registry
from linspec.cli import main
from linspec.errors import InvalidDeclaration, InvalidProblem
from tests.studies.paired_problems import MCA, Agreement, Dense

RNG = np.random.default_rng(11)
COMMON = RNG.standard_normal((80, 2))
VIEWS = [
    COMMON @ RNG.standard_normal((2, p)) + RNG.standard_normal((80, p)) + RNG.standard_normal(p)
    for p in (5, 4, 3)
]


def exact(views, ridges, weights=None):
    """Eigenvalues of the pencil by SciPy, with weights of rows."""
    w = np.ones(len(views[0])) if weights is None else weights
    parts = [np.sqrt(w)[:, None] * (X - np.average(X, axis=0, weights=w)) for X in views]
    S = np.hstack(parts).T @ np.hstack(parts)
    R = scipy.linalg.block_diag(*[r * np.eye(X.shape[1]) for r, X in zip(ridges, views, strict=True)])
    B = scipy.linalg.block_diag(*[P.T @ P for P in parts]) + R
    return scipy.linalg.eigh(S + R, B, eigvals_only=True)[::-1]


def solved(problem):
    return ls.solve(problem, Dense())


def test_views_are_any_number_of_matrices_with_a_ridge_each():
    found = solved(Agreement(VIEWS, 3, ridge=(1.0, 2.0, 0.5)))
    np.testing.assert_allclose(found.eigenvalues, exact(VIEWS, (1.0, 2.0, 0.5))[:3], rtol=1e-10)
    assert [W.shape for W in found.weights] == [(5, 3), (4, 3), (3, 3)]
    np.testing.assert_allclose(found.mean[1], VIEWS[1].mean(axis=0))


def test_two_views_are_canonical_correlations():
    found, pairs = solved(Agreement(VIEWS[:2], 2, ridge=1.0)), ls.solve(ls.CCA(*VIEWS[:2], 2, ridge=1.0))
    np.testing.assert_allclose(found.eigenvalues - 1, pairs.correlations, rtol=1e-10)


def test_scores_are_passed_as_a_list_or_by_name():
    found = solved(Agreement(VIEWS, 2, ridge=1.0))
    parts = found.transform(VIEWS)
    np.testing.assert_allclose(parts[2], (VIEWS[2] - VIEWS[2].mean(0)) @ found.weights[2])
    np.testing.assert_array_equal(found.transform(X3=VIEWS[2]), parts[2])
    with pytest.raises(InvalidProblem, match=r"transform takes rows of X1, X2, X3, .*; got X9"):
        found.transform(X9=VIEWS[0])
    with pytest.raises(InvalidProblem, match=r"takes rows of X1, X2, X3, .*; got none"):
        found.transform()
    with pytest.raises(InvalidProblem, match="takes rows of X1, X2, X3, each once"):
        found.transform(VIEWS, X1=VIEWS[0])
    in_order = found.transform(X3=VIEWS[2], X1=VIEWS[0])  # of the problem, however they are passed
    np.testing.assert_array_equal(in_order[0], parts[0])
    np.testing.assert_array_equal(in_order[1], parts[2])
    loadings = found.loadings(VIEWS)[0]
    scores = parts[0]
    np.testing.assert_allclose(loadings[1, 0], np.corrcoef(VIEWS[0][:, 1], scores[:, 0])[0, 1], atol=1e-10)


def test_the_commands_solve_and_transform_three_files(tmp_path, monkeypatch):
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    place, summary = "tests.studies.paired_problems", "What views have in common."
    ls.register(ls.ProblemSpec(name="agreement", target=f"{place}:Agreement", summary=summary))
    ls.register(
        ls.SolverSpec(
            name="dense",
            problem="agreement",
            target=f"{place}:Dense",
            summary="All eigenvectors of the dense pencil.",
            reference="Kettenring 1971, Biometrika 58",
            traits=("direct",),
        )
    )
    files = [str(tmp_path / f"{i}.npy") for i in range(3)]
    for file, X in zip(files, VIEWS, strict=True):
        np.save(file, X)
    out = str(tmp_path / "answer.npz")

    def run(*arguments):
        found = CliRunner().invoke(main, arguments, catch_exceptions=False)
        assert found.exit_code == 0, found.output
        return found.output

    shown = run("solve", "agreement", *files, "-k", "2", "--ridge", "1", "--solver", "dense", "--out", out)
    assert all(f" {value:.5g}\n" in shown for value in exact(VIEWS, [1.0] * 3)[:2])
    assert "0.5" in run("solve", "agreement", *files, "-k", "2", "--ridge", "0.5", "--solver", "dense")
    lines = run("transform", out, *files).splitlines()
    assert lines[0].split(",") == [f"x{i}_vector{j}" for i in (1, 2, 3) for j in (1, 2)]
    wanted = ls.load_solution(out).transform(VIEWS)
    np.testing.assert_allclose([float(x) for x in lines[1].split(",")], np.hstack(wanted)[0], rtol=1e-9)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Agreement(VIEWS[0], 1), "views must be a list of views"),
        (lambda: Agreement([], 1), "views must be a list of views"),
        (
            lambda: Agreement([VIEWS[0], VIEWS[1][:9]], 1),
            "X1 and X2 must have equally many rows; got 80 and 9",
        ),
        (
            lambda: Agreement(VIEWS, 1, ridge=(1.0, 2.0)),
            "ridge must be a number or one for each of X1, X2, X3; got 2",
        ),
        (lambda: Agreement(VIEWS, 4), "k must be between 1 and 3"),
        (lambda: Agreement(VIEWS, 1, center="no"), "center must be True or False"),
        (lambda: Agreement(VIEWS, 1, sample_weight=np.ones(9)), "sample_weight"),
        (lambda: MCA(VIEWS[0]), "MCA needs two views; got no Y. Call MCA\\(X, Y, k\\)"),
        (lambda: MCA(*VIEWS[:2]), "k must be an integer; got None"),
        (
            lambda: MCA(ls.Moments(VIEWS[0], center=True), None, 1),
            "needs moments of 2 matrices; got moments of 1",
        ),
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
