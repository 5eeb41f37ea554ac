"""The one call and its problems: names and instances, progress, completeness, pickle, without k, declared fields."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import InvalidDeclaration, InvalidOption, InvalidProblem
from tests.studies.paired_problems import MCA, related

rng = np.random.default_rng(0)
shared = rng.standard_normal((400, 4))
VIEWS = [shared @ rng.standard_normal((4, p)) + rng.standard_normal((400, p)) for p in (12, 9)]


def test_names_and_instances_agree():
    problem = ls.CCA(*VIEWS, 3, ridge=1.0)
    als, cg = ls.get_solver("als", ls.CCA), ls.get_solver("cg", ls.LeastSquares)
    named = ls.solve(problem, "als", rng=5)
    for solver in ("cca/als", "linspec:als", als(), als(lstsq=cg())):
        answer = ls.solve(problem, solver, rng=5)
        np.testing.assert_array_equal(answer.x_weights, named.x_weights)
        assert answer.solver == "als"


def test_progress_draws_on_standard_error_and_clears():
    script = (
        "import numpy as np, linspec as ls; rng = np.random.default_rng(0)\n"
        "X = rng.standard_normal((300, 20)); Y = X[:, ::-1] ** 2\n"
        "ls.solve(ls.CCA(X, Y, 3), 'naive-gradient', max_passes=9, form='implicit', progress=True)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert b"\rnaive-gradient: iteration" in done.stderr
    assert done.stderr.endswith(b" \r")
    assert done.stdout == b""


def test_progress_tells_the_rows_of_a_pass_and_the_time_that_is_left():
    script = (
        "import time, numpy as np, linspec as ls\n"
        "A = np.random.default_rng(0).standard_normal((5000, 1000))\n"
        "def slices():\n"
        "    for i in range(0, 5000, 500):\n"
        "        time.sleep(0.1)\n"
        "        yield A[i : i + 500]\n"
        "rows = ls.as_operator(slices, rows=5000)\n"
        "ls.solve(ls.SVD(rows, 2), 'gram', progress=True)\n"
        "ls.solve(ls.SVD(rows, 2), 'gram')"
    )
    wide = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True, env=wide
    )
    lines = done.stderr.replace("\r", "\n").split("\n")
    shown = [re.fullmatch(r"gram: pass 1, ([\d,]+) of 5,000 rows, (\d+) s left *", line) for line in lines]
    told = [(int(line[1].replace(",", "")), int(line[2])) for line in shown if line]
    assert len(told) >= 2  # of one pass, in one solve
    assert [read for read, _ in told] == sorted({read for read, _ in told})
    assert all(500 < read <= 5000 and left <= 10 for read, left in told)
    assert {len(line) for line in lines} <= {0, 79}  # the width of a terminal less one


@pytest.mark.parametrize("solver", ["als", "lobpcg", "whitened-svd"])
def test_completeness_is_proved_for_every_solver(solver):
    """What is missing is known by all correlations, and an oracle agrees."""
    rng = np.random.default_rng(4)
    X, Y = rng.standard_normal((400, 90)), rng.standard_normal((400, 80))
    X[:, 0] = Y[:, 0] + 0.1 * X[:, 0]
    X[:, 1] = Y[:, 1] + 0.3 * X[:, 1]
    found = ls.solve(ls.CCA(X, Y, 2, ridge=5.0), solver, rng=0, tol=1e-9, complete=True)
    bases = [np.linalg.cholesky(np.cov(A.T, bias=True) * 400 + 5.0 * np.eye(A.shape[1])) for A in (X, Y)]
    C = (X - X.mean(0)).T @ (Y - Y.mean(0))
    T = np.linalg.solve(bases[0], np.linalg.solve(bases[1], C.T).T)
    total = np.linalg.svd(T, compute_uv=False)[:2].sum()
    assert found.loss_estimate == pytest.approx((total - found.correlations.sum()) / total, abs=1e-6)
    assert found.converged


def test_completeness_is_refused_where_nothing_proves_it():
    with pytest.raises(InvalidOption, match=r"such as linspec\.CCA; got SVD\. Leave it out"):
        ls.solve(ls.SVD(np.eye(4), 2), complete=True)


# ---- problems as objects ------------------------------------------------------------------------

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 6))
Y = X[:, :3] @ RNG.standard_normal((3, 4)) + RNG.standard_normal((40, 4))
SPARSE = scipy.sparse.random(40, 6, 0.4, random_state=0, format="csr")


def test_a_file_is_pickled_with_its_entries(tmp_path):
    entries = RNG.standard_normal((3000, 8))
    rows, columns = tmp_path / "rows.npy", tmp_path / "columns.npy"
    np.save(rows, entries)
    np.save(columns, np.asfortranarray(entries))
    mapped = np.load(rows, mmap_mode="r")
    for data, expected in (
        (rows, entries),
        (columns, entries),
        (mapped[100:900, 1:7], entries[100:900, 1:7]),
        (mapped[::-3, ::2], entries[::-3, ::2]),
        (mapped[5:20].T, entries[5:20].T),
    ):
        twin = pickle.loads(pickle.dumps(ls.SVD(data, 2)))
        np.testing.assert_array_equal(twin.A.dense(), expected)


def test_without_k_an_answer_has_every_component_and_a_lower_rank_is_no_shortage():
    for data, entries in (
        (X, X),
        (X.T.copy(), X.T),
        (SPARSE, SPARSE.toarray()),
        (lambda: iter([X[:15], X[15:]]), X),
    ):
        found = ls.solve(ls.SVD(data))
        np.testing.assert_allclose(found.S, np.linalg.svd(entries, compute_uv=False), rtol=1e-10)
        assert found.status is ls.Status.CONVERGED
    low = X[:, :3] @ RNG.standard_normal((3, 6))
    found = ls.solve(ls.SVD(low), "direct")
    assert (len(found.S), found.status) == (3, ls.Status.CONVERGED)
    assert ls.solve(ls.SVD(low, 6), "direct").status is ls.Status.RANK_DEFICIENT
    assert len(ls.solve(ls.SVD(X.T, center=True), "direct").S) == 5  # of 6 rows, about their mean
    bases = [np.linalg.qr(A - A.mean(axis=0))[0] for A in (X, Y)]
    for solver in ("direct", "gram", "auto"):
        pairs = ls.solve(ls.CCA(X, Y), solver)
        exact = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
        np.testing.assert_allclose(pairs.correlations, exact, atol=1e-10)
        assert pairs.x_weights.shape == (6, 4)
    both = ls.solve(ls.CCA(low, Y), "gram")
    assert len(both.correlations) == 3
    assert "asked for" not in both.message


# ---- fields that a problem declares, and any number of views -------------------------------------

THREE = [A + i for i, A in enumerate(related(80, (5, 4, 3), (2.0, 1.0), seed=11))]


def test_scores_are_passed_as_a_list_or_by_name():
    found = ls.solve(ls.MultisetCCA(THREE, 2, ridge=1.0), "gram")
    assert [W.shape for W in found.weights] == [(5, 2), (4, 2), (3, 2)]
    parts = found.transform(THREE)
    np.testing.assert_allclose(parts[2], (THREE[2] - THREE[2].mean(0)) @ found.weights[2])
    in_order = found.transform(X3=THREE[2], X1=THREE[0])  # of the problem, however they are passed
    np.testing.assert_array_equal(np.hstack(in_order), np.hstack([parts[0], parts[2]]))
    correlation = np.corrcoef(THREE[0][:, 1], parts[0][:, 0])[0, 1]
    np.testing.assert_allclose(found.loadings(THREE)[0][1, 0], correlation, atol=1e-10)
    for given, named, words in (
        ((), {"X9": THREE[0]}, r"transform takes rows of X1, X2, X3, .*; got X9"),
        ((), {}, "takes rows of X1, X2, X3, .*; got none"),
        ((THREE,), {"X1": THREE[0]}, "takes rows of X1, X2, X3, each once"),
    ):
        with pytest.raises(InvalidProblem, match=words):
            found.transform(*given, **named)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ls.MultisetCCA(THREE[0], 1), "views must be a list of views"),
        (lambda: ls.MultisetCCA(THREE, 1, ridge=(1.0, 2.0)), "a number or one for each of X1, X2, X3; got 2"),
        (lambda: ls.MultisetCCA(THREE, 13), "k must be between 1 and 12"),
        (lambda: MCA(THREE[0]), "MCA needs two views; got no Y. Call MCA\\(X, Y, k\\)"),
        (lambda: MCA(ls.Moments(THREE[0], center=True), None, 1), "moments of 2 matrices; got moments of 1"),
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
