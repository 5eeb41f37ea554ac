"""AppGrad for kernels: the published iteration on the features, the exact answers, and what an iteration takes."""

from __future__ import annotations

import numpy as np
import pytest
from planted import related

import linspec as ls
from linspec.rows import Passes
from linspec_kernel.problem import KernelCCA

RBF = ls.kernels.rbf()
RIDGE = 0.5


def views(n=120, seed=0):
    return related(n, 4, 3, seed)


def root(G):
    values, vectors = np.linalg.eigh(G)
    return (vectors / np.sqrt(values)) @ vectors.T


def published(blocks, starts, metrics, step, *, steps):
    """Algorithm 4 of Ma, Lu & Foster (2015): the sum of the correlations within the blocks after each step.

    Gradients are X'(XΦ̃ − YΨ) + penalty Φ̃; `metrics` are X'X + penalty, and gradients are those by Φ̃.
    """

    def normalized(V, i):
        return V @ root(V.T @ metrics[i] @ V)

    (X, Y), tilde = blocks, [0 * V for V in starts]
    normal = [normalized(V, i) for i, V in enumerate(starts)]
    found = []
    for _ in range(steps):
        tilde[0] = tilde[0] - step * (metrics[0] @ tilde[0] - X.T @ (Y @ normal[1]))
        normal[0] = normalized(tilde[0], 0)
        tilde[1] = tilde[1] - step * (metrics[1] @ tilde[1] - Y.T @ (X @ normal[0]))
        normal[1] = normalized(tilde[1], 1)
        found.append(np.linalg.svd((X @ normal[0]).T @ (Y @ normal[1]), compute_uv=False).sum())
    return found


def test_iterates_are_those_of_the_published_algorithm():
    """On the columns with the linear kernel."""
    X, Y = (A - A.mean(axis=0) for A in views())
    problem = KernelCCA(X, Y, 2, "linear", ridge=RIDGE)
    moments, seen = problem.moments_of_its_own(Passes()), []

    def watch(progress):
        now = progress.current()
        if progress.iteration == 0:
            seen.append([now["x_weights"], now["y_weights"]])
        else:
            seen.append(problem.certify(moments, now, 1e-6).fields["correlations"].sum())
        return progress.iteration == 6

    step = 1e-4
    ls.solve(
        problem,
        "kernel-appgrad",
        rng=0,
        extra=0,
        step=step,
        tol=1e-30,
        callback=watch,
    )
    starts, sums = seen[0], seen[1:]
    blocks = [X, Y]
    starts = [A.T @ V for A, V in zip(blocks, starts, strict=True)]
    metrics = [A.T @ A + RIDGE * np.eye(A.shape[1]) for A in blocks]
    signed = [published(blocks, [starts[0], sign * starts[1]], metrics, step, steps=6) for sign in (1, -1)]
    assert min(np.abs(np.subtract(sums, expected)).max() for expected in signed) < 1e-8


@pytest.mark.parametrize("storage", ["held", "tiled"])
def test_it_finds_the_answer_of_the_eigenvectors(storage):
    problem = KernelCCA(*views(), 3, RBF, ridge=RIDGE)
    exact = ls.solve(problem, "kcca", rng=0).correlations
    found = ls.solve(problem, "kernel-appgrad", rng=0, tol=1e-11, storage=storage)
    assert found.converged
    np.testing.assert_allclose(found.correlations, exact, rtol=0, atol=1e-9)


def test_the_residual_of_an_iteration_is_at_least_the_law():
    """It comes from a product that is one iteration old, by Jensen's inequality; the certificate's bound is tighter."""
    problem = KernelCCA(*views(), 3, RBF, ridge=RIDGE)
    for limit in (10, 30, 50):
        with pytest.warns(ls.errors.ConvergenceWarning):
            found = ls.solve(problem, "kernel-appgrad", rng=0, tol=1e-12, max_iterations=limit)
        assert found.residual < 1.2 * found.history["residual"][-1] < 4 * found.residual


def test_a_step_beyond_the_limit_of_stability_is_not_taken():
    problem = KernelCCA(*views(), 2, RBF, ridge=RIDGE)
    options = {"rng": 0, "max_iterations": 40}
    with pytest.warns(ls.errors.ConvergenceWarning):
        usual = ls.solve(problem, "kernel-appgrad", **options)
    with pytest.warns(ls.errors.ConvergenceWarning):
        found = ls.solve(problem, "kernel-appgrad", step=1e9, **options)
    np.testing.assert_allclose(found.correlations, usual.correlations, atol=1e-12)
