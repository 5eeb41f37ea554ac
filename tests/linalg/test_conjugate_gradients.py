"""Block conjugate gradients against dense solutions: paths of ridges, dependent columns, starts, few products."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest

from linspec.linalg import cg_steps, driven, side_by_side

rng = np.random.default_rng(0)
p, ridges = 60, (1e-4, 0.0, 1e-2, 1.0, 100.0)
A = rng.standard_normal((300, p)) * np.logspace(0, -2, p)
S = A.T @ A
B = A.T @ rng.standard_normal((300, 5))
B[:, 3] = B[:, 0] + B[:, 1]
B[:, 4] = 0.0


def last(steps: Any, most: int = 300) -> Any:
    return list(islice(steps, most))[-1]


def exact(right: Any, ridge: float) -> Any:
    return np.linalg.solve(S + ridge * np.eye(p), right)


@pytest.mark.parametrize("columns", [None, [np.arange(3), [3, 4], [0], [1, 3], [2]]])
def test_a_path_of_ridges_with_dependent_columns(columns: Any) -> None:
    """Each ridge has all of the columns, or some of its own."""
    step = last(driven(lambda V: S @ V, cg_steps(B, ridges, columns)))
    X, lengths = step.X(), step.lengths
    chosen = columns or [range(5)] * 5
    own = np.split(lengths, np.cumsum([len(each) for each in chosen])[:-1])
    for x, length, ridge, some in zip(X, own, ridges, chosen, strict=True):
        right = B[:, some]
        assert np.abs(x - exact(right, ridge)).max() <= 1e-9 * np.abs(exact(right, ridge)).max()
        residual = np.linalg.norm(right - S @ x - ridge * x, axis=0)
        assert np.abs(residual - length).max() <= 1e-12 * np.linalg.norm(B)


def test_iterations_side_by_side_are_those_apart() -> None:
    widths = []

    def product(V: np.ndarray) -> np.ndarray:
        widths.append(V.shape[1])
        return S @ V

    each = [cg_steps(B[:, :2], (r,)) for r in (0.1, 10.0)]
    *_, now = side_by_side(product, each, lambda _, step: bool(step.lengths.max() < 1e-8))
    for step, r in zip(now, (0.1, 10.0), strict=True):
        np.testing.assert_allclose(step.X()[0], exact(B[:, :2], r), rtol=1e-7)
    assert widths[0] == 4
    assert 2 in widths  # the easier one waits


def test_one_column_takes_as_many_steps_as_the_preconditioned_matrix_has_eigenvalues() -> None:
    """W M = I plus rank 3 has four eigenvalues, whatever the units; the residuals are those of x itself."""
    F = rng.standard_normal((p, 3))
    d = np.logspace(-4, 4, p)
    M, b = np.sqrt(d)[:, None] * (np.eye(p) + F @ F.T) * np.sqrt(d), 1e-90 * rng.standard_normal((p, 1))
    steps = cg_steps(b, (0.0,), preconditioner=lambda V: V / d[:, None])
    found = list(islice(driven(lambda V: M @ V, steps), 6))
    for step in found:
        residual = np.linalg.norm(b - M @ step.X()[0])
        assert abs(residual - step.lengths[0]) <= 1e-11 * np.linalg.norm(b)
    assert found[3].lengths[0] > 1e-6 * np.linalg.norm(b) > 1e6 * found[4].lengths[0]


def test_a_ridge_that_is_solved_stands_still_while_others_go_on() -> None:
    b = B[:, :1]
    moved: dict[float, list[Any]] = {ridge: [] for ridge in (1e-2, 1.0, 100.0)}
    for step in driven(lambda V: S @ V, cg_steps(b, tuple(moved), enough=1e-6)):
        for ridge, x in zip(moved, step.X(), strict=True):
            moved[ridge].append(x)
    still = {ridge: sum(x is y for x, y in pairwise(xs)) for ridge, xs in moved.items()}
    assert still[1e-2] == 0 < still[1.0] < still[100.0]
    for ridge, xs in moved.items():
        residual = np.linalg.norm(b - S @ xs[-1] - ridge * xs[-1])
        assert residual <= 1e-6 * np.linalg.norm(b)
