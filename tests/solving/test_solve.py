"""The one call: names and instances, random numbers, progress, and proofs of completeness."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidOption

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


def test_random_state_of_numpy_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    ls.solve(ls.CCA(*VIEWS, 3), "als")
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


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
