"""Iterations that share products, and iterations in other variables, give what each gives alone."""

from __future__ import annotations

import numpy as np

from linspec.linalg import Step, block_cg, cg_steps, in_variables, side_by_side

rng = np.random.default_rng(0)
p = 30
R = rng.standard_normal((50, p)) * np.geomspace(1, 1e-2, p)
S, B = R.T @ R, rng.standard_normal((p, 2))


def test_iterations_side_by_side_are_those_apart() -> None:
    widths = []

    def product(V: np.ndarray) -> np.ndarray:
        widths.append(V.shape[1])
        return S @ V

    each = [cg_steps(B, (r,)) for r in (0.1, 10.0)]
    *_, now = side_by_side(product, each, lambda _, step: bool(step.lengths.max() < 1e-8))
    for step, r in zip(now, (0.1, 10.0), strict=True):
        *_, (alone, _) = block_cg(lambda V: S @ V, B, (r,))
        np.testing.assert_allclose(step.X()[0], alone[0], rtol=1e-7)
        np.testing.assert_allclose(step.X()[0], np.linalg.solve(S + r * np.eye(p), B), rtol=1e-7)
    assert widths[0] == 4
    assert 2 in widths  # the easier one waits


class Scaled:
    """x = y / d, for (S + I) x = B."""

    d = np.sqrt(np.diagonal(S) + 1.0)[:, None]

    def forward(self, P: np.ndarray) -> np.ndarray:
        return P / self.d

    def back(self, V: np.ndarray, SV: np.ndarray) -> np.ndarray:
        return (SV + V) / self.d

    def answer(self, Y: np.ndarray) -> np.ndarray:
        return Y / self.d

    def lengths(self, step: Step) -> np.ndarray:
        return np.linalg.norm(step.residual() * self.d, axis=0)


def test_other_variables_lead_to_the_same_answer() -> None:
    steps = in_variables(cg_steps(B / Scaled.d), Scaled())
    for (step,) in side_by_side(lambda V: S @ V, [steps], lambda *_: False):
        (X,) = step.X()
        left = np.linalg.norm(B - S @ X - X, axis=0)
        np.testing.assert_allclose(step.lengths, left, atol=1e-12 * np.linalg.norm(B))
    np.testing.assert_allclose(X, np.linalg.solve(S + np.eye(p), B), rtol=1e-10)
