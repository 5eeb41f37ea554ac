"""Preimage CCA goes on from a checkpoint to the same answer, and climbs nothing again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec import kernels

PreimageCCA = ls.get_problem("preimage-cca")
SQUARE, RATIO = kernels.polynomial(2, 0.0, 1.0), ("ratio", 1.5)
pytestmark = pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")


def views(n: int, p: int = 6) -> list[Any]:
    """Y₁ = (X₁ + X₂)² − Y₂ and noise, columns standardised."""
    rng = np.random.default_rng(0)
    X, Y = rng.uniform(-1, 1, (n, p)), rng.uniform(-1, 1, (n, p))
    Y[:, 0] = X[:, :2].sum(axis=1) ** 2 - Y[:, 1] + 0.05 * rng.standard_normal(n)
    return [(A - A.mean(axis=0)) / A.std(axis=0) for A in (X, Y)]


X, Y = views(200)
FEW, MANY = (X, Y), tuple(views(2600))


def problem(k: int = 2, data: Any = FEW, kernel: Any = SQUARE, **more: Any) -> Any:
    return PreimageCCA(*data, k, kernel, bound_x=RATIO, **more)


def each(change: Callable[[Any], Any], data: Any = FEW) -> list[Any]:
    return [change(A) for A in data]


CASES: dict[str, tuple[str, Callable[[], Any], dict[str, Any]]] = {
    "pairs": ("gradkcca", problem, {}),
    "one pair": ("gradkcca", lambda: problem(1), {}),
    "scales and lengths of rows": ("gradkcca", lambda: problem(kernel="rbf"), {}),
    "starts on some rows": ("gradkcca", lambda: problem(data=MANY), {}),
    "lengths of many rows": ("gradkcca", lambda: problem(data=MANY, kernel="rbf"), {}),
    "starts on all rows": ("gradkcca", lambda: problem(data=MANY), {"sample": 0}),
    "float32": ("gradkcca", lambda: problem(data=each(lambda A: A.astype("f4"))), {"tol": 1e-4}),
    "sparse": ("gradkcca", lambda: problem(data=each(lambda A: scipy.sparse.csr_array(A * (A > 0.5)))), {}),
    "slices": ("gradkcca", lambda: problem(1, each(lambda A: lambda: iter([A[:80], A[80:]]))), {}),
    "products": ("gradkcca", lambda: problem(1, each(scipy.sparse.linalg.aslinearoperator)), {}),
    "features": ("scca-hsic", lambda: problem(kernel="linear", objective="hsic"), {"repeats": 8}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_goes_on_to_the_answer_of_a_run_in_one_piece(case: str, tmp_path: Path) -> None:
    """Also in the midst of the second pair, and where the best start is polished."""
    solver, state, options = CASES[case]
    path = tmp_path / "run.ckpt"
    options = {"tol": 1e-7, **options}
    whole = ls.solve(state(), solver, rng=0, **options)
    for stop in (0, whole.iterations // 2, whole.iterations - 2):
        cut = {"checkpoint": path, "callback": lambda progress, stop=stop: progress.iteration >= stop}
        ls.solve(state(), solver, rng=0, **cut, **options)
        found = ls.solve(state(), solver, start=path, **options)
        same = max(1e-6, 10 * whole.residual)
        np.testing.assert_allclose(found.correlations, whole.correlations, rtol=same)
        assert found.status is whole.status
        assert found.iterations <= whole.iterations - stop + 15, (stop, found.iterations, whole.iterations)


def test_a_run_whose_passes_were_used_up_goes_on_to_the_pairs_that_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    whole = ls.solve(problem(3), "gradkcca", rng=0, tol=1e-7)
    part = ls.solve(problem(3), "gradkcca", rng=0, tol=1e-7, checkpoint=path, max_passes=whole.passes // 2)
    assert part.status is ls.Status.BUDGET
    found = ls.solve(problem(3), "gradkcca", start=path, tol=1e-7)
    np.testing.assert_allclose(found.correlations, whole.correlations, rtol=1e-6)
    assert found.iterations < whole.iterations
