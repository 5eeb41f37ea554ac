"""The one call: names and instances, budgets, endings, histories, callbacks, interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.process import machine


@pytest.fixture(scope="module")
def views():
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((400, 4))
    X = shared @ rng.standard_normal((4, 12)) + rng.standard_normal((400, 12))
    Y = shared @ rng.standard_normal((4, 9)) + rng.standard_normal((400, 9))
    return X, Y


def test_names_and_instances_agree(views):
    problem = ls.CCA(*views, 3, ridge=1.0)
    als = ls.get_solver("als", ls.CCA)
    answers = [
        ls.solve(problem, solver, rng=5)
        for solver in (
            "als",
            "cca/als",
            "linspec:als",
            als(),
            als(lstsq=ls.get_solver("cg", ls.LeastSquares)()),
        )
    ]
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer.x_weights, answers[0].x_weights)
        assert answer.solver == "als"


def test_auto_holds_solvers_without_a_tolerance_to_that_of_the_call():
    """A Gram matrix of condition 1e15 gives six digits; if ten are requested, "auto" goes on to the rows."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.standard_normal((46, 7)))[0]
    X, Y = U @ rng.standard_normal((7, 1)), U[:, :6] * np.geomspace(1, 5e-7, 6)
    Y = Y @ np.linalg.qr(rng.standard_normal((6, 6)))[0]
    problem = ls.CCA(X, Y, 1, center=False)
    assert ls.solve(problem, "gram").status is ls.Status.ILL_CONDITIONED
    found = ls.solve(problem, tol=1e-10)
    assert found.converged
    assert found.residual <= 1e-10


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
    with pytest.raises(
        ls.errors.NoSuitableSolver, match=r"gram .* would take .* MB .*10 MB are available.*iterative"
    ):
        ls.solve(ls.CCA(X, X, 2, ridge=1.0), "gram")


def test_callback_sees_and_stops(views):
    seen = []

    def stop_at_three(progress):
        seen.append((progress.iteration, progress.current()["x_weights"].shape))
        return progress.iteration == 3

    solution = ls.solve(ls.CCA(*views, 3), "als", tol=1e-15, oversample=0, callback=stop_at_three, rng=0)
    assert solution.status is ls.Status.STOPPED
    assert seen == [(i, (12, 3)) for i in range(4)]
    assert list(solution.history["iteration"]) == [0, 1, 2, 3]


def test_shared_moments_are_paid_once(views):
    moments = ls.Moments(*views, center=True, form="dense")
    first = ls.solve(ls.CCA(moments, k=3), "gram")
    second = ls.solve(ls.CCA(moments, k=2, ridge=5.0), "als", rng=0)
    assert first.passes == 1
    assert second.passes == 0
    with pytest.raises(ls.errors.InvalidProblem, match="center=True"):
        ls.CCA(moments, k=3, center=False)


def test_interrupt_ends_with_the_best_iterate(views):
    """Ctrl-C during a run: the first one ends it cleanly, and Python's own handler is back afterwards."""

    def interrupt(progress):
        if progress.iteration == 4:
            os.kill(os.getpid(), signal.SIGINT)

    # A shell lets what it runs in the background ignore Ctrl-C; here it must not.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        solution = ls.solve(ls.CCA(*views, 3), "als", tol=1e-15, oversample=0, callback=interrupt, rng=0)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, usual)
    assert solution.status is ls.Status.INTERRUPTED
    assert solution.iterations in (4, 5)


def test_random_state_of_numpy_is_left_alone(views):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    ls.solve(ls.CCA(*views, 3), "als")
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
    problem = ls.CCA(X, Y, 2, ridge=5.0)
    found = ls.solve(problem, solver, rng=0, tol=1e-9, complete=True)
    bases = [np.linalg.cholesky(np.cov(A.T, bias=True) * 400 + 5.0 * np.eye(A.shape[1])) for A in (X, Y)]
    C = (X - X.mean(0)).T @ (Y - Y.mean(0))
    T = np.linalg.solve(bases[0], np.linalg.solve(bases[1], C.T).T)
    total = np.linalg.svd(T, compute_uv=False)[:2].sum()
    assert found.loss_estimate == pytest.approx((total - found.correlations.sum()) / total, abs=1e-6)
    assert found.converged


def test_completeness_is_refused_where_nothing_proves_it():
    problem = ls.SVD(np.eye(4), 2)
    with pytest.raises(ls.errors.InvalidOption, match=r"such as linspec\.CCA; got SVD\. Leave it out"):
        ls.solve(problem, complete=True)
