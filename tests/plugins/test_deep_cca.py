"""Deep CCA: what it finds, what it promises of its answers, and what it does where torch is not installed."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidOption, InvalidProblem, MissingCapability
from linspec_deep.nets import Net
from linspec_deep.problem import DeepCCA

with_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch")

NEW = slice(1500, 2000)
"""Rows that train nothing."""


@pytest.fixture(scope="module")
def views():
    """Views with z and z² in common, which are uncorrelated, in other coordinates and beside noise."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((2000, 2))
    X = np.hstack([z, rng.standard_normal((2000, 4))]) @ np.linalg.qr(rng.standard_normal((6, 6)))[0]
    Y = np.hstack([z**2, rng.standard_normal((2000, 3))]) @ np.linalg.qr(rng.standard_normal((5, 5)))[0]
    return X + 3.0, Y - 1.0


@pytest.fixture(scope="module")
def found(views):
    X, Y = views
    return ls.solve(DeepCCA(X[:1500], Y[:1500], k=2), "dcca", rng=0)


def quick(X, Y, k=2, **settings):
    """Two epochs of small nets."""
    return ls.solve(DeepCCA(X, Y, k), "dcca", **{"epochs": 2, "width": 16, "rng": 0, **settings})


@with_torch
def test_a_relation_that_linear_cca_misses_is_found(views, found):
    X, Y = views
    linear = ls.solve(ls.CCA(X[:1500], Y[:1500], k=2))
    assert linear.score(X[NEW], Y[NEW]).total < 0.4  # z and z² are uncorrelated
    score = found.score(X[NEW], Y[NEW])
    assert score.rows == 500
    assert score.total > 1.9  # the relation has no noise: 2 is the most
    assert found.correlations.min() > 0.95


@with_torch
def test_independent_views_have_nothing_on_new_rows(views):
    X, Y = views[0], np.random.default_rng(5).standard_normal((2000, 4))
    solution = ls.solve(DeepCCA(X[:1500], Y[:1500], k=2), "dcca", held_out=0.2, rng=0)
    assert solution.iterations < 100  # the held-out rows end it
    assert solution.score(X[NEW], Y[NEW]).total < 0.4


@with_torch
def test_held_out_rows_keep_the_nets_of_the_best_epoch(views):
    X, Y = views
    said = []
    solution = quick(X, Y, epochs=12, held_out=0.25, callback=lambda p: said.append(p.residual))
    best = int(np.argmin(said[1:])) + 1
    assert said[best] < 0.9 < said[0]  # of rows that are there: the residual of no rows is 1
    again = quick(X, Y, epochs=12, held_out=0.25, callback=lambda p: p.iteration == best)
    assert np.array_equal(solution.x_net.weights[0], again.x_net.weights[0])
    assert np.array_equal(solution.correlations, again.correlations)
    assert solution.rows == 2000  # the end is made on all rows


@with_torch
def test_more_features_than_columns_and_features_that_depend_on_each_other(views):
    X, Y = views
    assert len(quick(X[:, :1], Y, k=4).correlations) == 4
    nothing = quick(np.ones((50, 3)), Y[:50])
    assert len(nothing.correlations) == 0
    assert "0 of the 2 asked for are returned" in nothing.message


@with_torch
def test_variates_of_the_training_rows_have_the_correlations_of_the_answer(views, found):
    X, Y = (A[:1500] for A in views)
    P, Q = found.transform(X, Y)
    for V in (P, Q):
        assert np.allclose(V.mean(axis=0), 0, atol=1e-12)
        assert np.allclose(V.T @ V, np.eye(2), atol=1e-10)
    assert np.allclose(P.T @ Q, np.diag(found.correlations), atol=1e-10)
    bases = [np.linalg.qr(F - F.mean(axis=0))[0] for F in (found.x_net(X), found.y_net(Y))]
    assert np.allclose(found.correlations, np.linalg.svd(bases[0].T @ bases[1])[1], atol=1e-10)


@with_torch
def test_nets_are_evaluated_as_torch_evaluates_them(views, found):
    import torch

    net = found.x_net
    H = torch.from_numpy((views[0] - net.shift) / net.scale)
    for layer, (W, b) in enumerate(zip(net.weights, net.biases, strict=True)):
        H = torch.nn.functional.linear(H, *(torch.from_numpy(A.T.copy()).double() for A in (W, b)))
        H = torch.relu(H) if layer < 2 else H
    assert np.allclose(net(views[0]), H.numpy(), atol=1e-12)


@with_torch
def test_callbacks_and_interrupts_end_a_run(views, ctrl_c):
    X, Y = views
    first = quick(X, Y, callback=lambda p: True)
    cut = quick(X, Y, epochs=50, callback=lambda p: p.iteration == 2 and signal.raise_signal(signal.SIGINT))
    assert (first.iterations, len(first.correlations)) == (0, 2)
    assert (cut.status, cut.iterations) == (ls.Status.INTERRUPTED, 2)
    for solution in (first, cut):
        assert not solution.converged
        assert "better nets may exist" in solution.message


@with_torch
def test_covariances_that_cannot_be_factored_end_the_run_with_the_nets_before_them(views):
    X, Y = views
    # Ten features of one hidden column depend on each other, and the ridge is far below the rounding.
    with pytest.warns(ls.errors.ConvergenceWarning, match="broke down"):
        solution = quick(X, Y, k=10, width=1, depth=1, ridge=1e-30)
    assert solution.status is ls.Status.BREAKDOWN
    assert len(solution.correlations) == 1
    assert np.isfinite(solution.transform(X)).all()


@with_torch
@pytest.mark.parametrize("options", [{"batch": 3}, {"held_out": 0.001}])
def test_options_that_leave_too_few_rows(views, options):
    with pytest.raises(InvalidOption, match="must be at least 2k = 4 rows"):
        quick(*views, **options)


def test_problems_that_cannot_be_stated(views):
    X, Y = views
    with pytest.raises(InvalidProblem, match="k must be between 1 and 5"):
        DeepCCA(X[:5], Y[:5], k=6)
    with pytest.raises(MissingCapability, match="readable several times"):
        DeepCCA(iter([X]), Y, k=2)
    with pytest.raises(InvalidProblem, match="follow one another"):
        Net(np.zeros(3), 1.0, (np.zeros((3, 4)), np.zeros((5, 2))), (np.zeros(4), np.zeros(2)))
    assert DeepCCA(lambda: iter([X]), lambda: iter([X]), k=7).k == 7  # rows are not counted yet


BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, Blocked())
import numpy as np
import linspec as ls
"""


def run_without_torch(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", BLOCKED + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_torch_a_solve_says_what_to_install():
    said = run_without_torch("""
X, Y = np.random.default_rng(0).standard_normal((2, 50, 3))
try:
    ls.solve(ls.DeepCCA(X, Y, 2), "dcca")
except ls.errors.MissingPackage as error:
    print(isinstance(error, ImportError), isinstance(error, ls.errors.LinspecError), error)
""")
    assert said.startswith("True True deep-cca/dcca needs torch")
    assert "pip install linspec[torch]" in said


@with_torch
def test_a_saved_solution_transforms_rows_without_torch(views, found, tmp_path):
    found.save(tmp_path / "deep.npz")
    np.save(tmp_path / "X.npy", views[0])
    run_without_torch(f"""
loaded = ls.load_solution({str(tmp_path / "deep.npz")!r})
np.save({str(tmp_path / "P.npy")!r}, loaded.transform(np.load({str(tmp_path / "X.npy")!r})))
""")
    assert np.array_equal(np.load(tmp_path / "P.npy"), found.transform(views[0]))
