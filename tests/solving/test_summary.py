"""Tables of answers: the certificate first, then one row for each component."""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls


def rows(n: int = 50, p: int = 6) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, p)) * np.arange(1, p + 1)


def test_a_summary_has_the_numbers_of_each_component():
    A = rows()
    solution = ls.solve(ls.SVD(A, k=3, center=True))
    table = solution.summary()
    exact = np.linalg.svd(A - A.mean(axis=0), compute_uv=False)
    assert [row["component"] for row in table] == [1, 2, 3]
    assert [row["singular value"] for row in table] == pytest.approx(exact[:3])
    assert [row["explained variance"] for row in table] == pytest.approx(exact[:3] ** 2 / 49)
    assert [row["explained variance ratio"] for row in table] == pytest.approx(
        exact[:3] ** 2 / (exact**2).sum()
    )
    text = repr(table)
    assert text.index("CONVERGED") < text.index("singular value")
    assert f"{exact[0]:.6g}" in text


def facts(solution) -> dict[str, str]:
    return dict(solution.summary().facts)


def test_a_summary_shows_the_residual_and_what_it_is():
    A = rows()
    for problem, kind in (
        (ls.SVD(A, k=2), "relative"),
        (ls.CCA(A, A[:, ::-1] ** 2, k=2), "squared"),
        (ls.LeastSquares(A, A[:, 0]), "relative gradient"),
        (ls.Discriminant(A, A[:, :2] ** 2), "relative"),
    ):
        solution = ls.solve(problem)
        said = facts(solution)
        assert said["residual"].startswith(f"{solution.residual:.2g} ({kind}, ")
        assert said["residual"].endswith(f"tolerance {solution.tol:.2g}")
        assert said["message"] == solution.message
