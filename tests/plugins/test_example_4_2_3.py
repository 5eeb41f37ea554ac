"""Example 4.2.3 of Lu (2015): a 4 x 2 pair whose canonical pairs are known.

The numbers were recomputed independently; the printed ones carry rounding and one slip.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle

import numpy as np
import pytest

import linspec as ls

X = np.array([[1.0, 5.0], [2.0, -6.0], [3.0, 7.0], [4.0, -8.0]])
Y = np.array([[9.0, 1.0], [10.0, -1.0], [11.0, -1.0], [12.0, 1.0]])
CORRELATIONS = np.array([0.958535, 0.155320])
PHI = np.array([[0.187063, 0.023380], [0.009950, 0.077643]])
PSI = np.array([[0.047341, -0.000983], [-0.010380, -0.499892]])
NAIVE_MOVE = np.array([-0.225273, 0.067834])


def problem(k):
    return ls.CCA(X, Y, k, center=False)


@pytest.mark.parametrize("solver", ["direct", "gram", "als", "appgrad"])
def test_known_pairs(solver):
    options = {"rng": 0, "tol": 1e-13} if solver in ("als", "appgrad") else {}
    solution = ls.solve(problem(2), solver, **options)
    np.testing.assert_allclose(solution.correlations, CORRELATIONS, atol=6e-7)
    np.testing.assert_allclose(np.abs(solution.x_weights), np.abs(PHI), atol=2e-6)
    np.testing.assert_allclose(np.abs(solution.y_weights), np.abs(PSI), atol=2e-6)


def given(x, y):
    """A start that is given: X's block at the first draw, Y's at the second, and so on."""
    blocks = cycle([x, y])

    @dataclass(frozen=True, kw_only=True)
    class Given(ls.TestMatrix):
        def draw(self, rows, columns, rng):
            return next(blocks)[:, :columns]

    return Given()


def first_iterate(solver, **options):
    """The weights of X before and after one step from the exact first pair."""
    exact, iterates = ls.solve(problem(1), "direct"), []

    def keep(progress):
        iterates.append(np.array(progress.current()["x_weights"][:, 0]))
        return len(iterates) == 2

    start = given(exact.x_weights, exact.y_weights)
    instance = ls.get_solver(solver, ls.CCA)(test_matrix=start, tol=1e-300, **options)
    ls.solve(problem(1), instance, callback=keep)
    return exact.x_weights[:, 0], iterates[1]


def cross(a, b):
    """The sine of the angle between two plane vectors."""
    return (a[0] * b[1] - a[1] * b[0]) / np.linalg.norm(a) / np.linalg.norm(b)


def test_naive_step_leaves_the_answer():
    s = 0.01  # a step on the Gram matrix itself; the option counts it per row
    before, after = first_iterate("naive-gradient", step=s * len(X))
    expected = before + s * NAIVE_MOVE * np.sign(before[0] * PHI[0, 0])
    assert abs(cross(after, expected)) < 1e-6
    assert abs(cross(after, before)) > 1e-3


@pytest.mark.parametrize("update", ["simultaneous", "alternating"])
def test_canonical_pair_is_a_fixed_point_of_appgrad(update):
    """Ma, Lu & Foster (2015), Proposition 2.2: (φ₁, ψ₁, λ₁φ₁, λ₁ψ₁) stays."""
    before, after = first_iterate("appgrad", step=0.01, update=update, auxiliary="start")
    assert abs(cross(after, before)) < 1e-12
