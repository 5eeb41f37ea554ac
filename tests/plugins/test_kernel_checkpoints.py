"""Kernel CCA goes on from a checkpoint to the same answer, and with the same scales."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec import kernels

RNG = np.random.default_rng(0)
Z = RNG.standard_normal((240, 2))
X = np.hstack([Z, RNG.standard_normal((240, 2))]) @ RNG.standard_normal((4, 6))
Y = np.hstack([np.sin(Z), RNG.standard_normal((240, 1))]) @ RNG.standard_normal((3, 5))
KernelCCA = ls.get_problem("kernel-cca")


def cosine(x: Any, z: Any) -> Any:
    """1 + xᵀz / (|x| |z|)."""
    sizes = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(z, axis=1)[None, :]
    return 1 + x @ z.T / np.maximum(sizes, 1e-300)


def problem(x: Any = X, y: Any = Y, kernel_x: Any = "rbf", kernel_y: Any = "laplacian") -> Any:
    return KernelCCA(x, y, k=2, kernel_x=kernel_x, kernel_y=kernel_y, ridge=(1.0, 2.0))


SOLVERS: dict[str, dict[str, Any]] = {
    "kernel-appgrad": {"max_iterations": 12},
    "nystrom-lobpcg": {"landmarks": 20, "extra": 3, "tol": 1e-9},
    "knoi": {"features": 30, "batch": 60, "epochs": 7},
}
CASES: dict[str, Any] = {
    "scales of the rows": problem,  # rows are drawn for them, once
    "given scales": lambda: problem(kernel_x=kernels.rbf(1.5), kernel_y=kernels.laplacian(3.0)),
    "float32": lambda: problem(X.astype("f4"), Y.astype("f4")),
    "sparse": lambda: problem(scipy.sparse.csr_array(np.where(X > 1, X, 0.0))),
    "polynomial": lambda: problem(kernel_x="polynomial"),
    "functions": lambda: problem(kernel_x=kernels.function(cosine)),
    "precomputed": lambda: problem(X @ X.T + 1, kernel_x="precomputed"),
}
WITH_FEATURES = ("scales of the rows", "given scales", "float32", "sparse")
NEAR = {"kernel-appgrad": 1e-6, "nystrom-lobpcg": 1e-6, "knoi": 0.05}  # minibatches are drawn anew
pytestmark = pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_run_goes_on_to_the_answer_of_a_run_in_one_piece(solver: str, case: str, tmp_path: Path) -> None:
    if solver == "knoi" and case not in WITH_FEATURES:
        pytest.skip("the kernel has no Fourier features")
    state, options, path = CASES[case], SOLVERS[solver], tmp_path / "run.ckpt"
    whole = ls.solve(state(), solver, rng=0, **options)
    for stop in (0, whole.iterations // 2):
        cut = {"checkpoint": path, "callback": lambda progress, stop=stop: progress.iteration >= stop}
        ls.solve(state(), solver, rng=0, **cut, **options)
        rest = {"max_iterations": 12 - stop} if solver == "kernel-appgrad" else {}
        found = ls.solve(state(), solver, start=path, rng=1, **{**options, **rest})
        assert 0 < found.iterations <= whole.iterations + 1 - stop // 2
        np.testing.assert_allclose(found.correlations, whole.correlations, rtol=NEAR[solver])


@pytest.mark.parametrize("solver", [*SOLVERS, "kernel-ridge"])
def test_scales_from_rows_that_were_drawn_stay(solver: str, tmp_path: Path) -> None:
    x, y = (
        np.vstack([A + 0.1 * i for i in range(5)]) for A in (X, Y)
    )  # more rows than a scale is taken from
    path, cut = tmp_path / "run.ckpt", {"callback": lambda progress: progress.iteration >= 1}
    if solver == "kernel-ridge":
        given, options = ls.KernelRidge(x, y, 1e-4, "rbf"), {"landmarks": 20}
        first, found = (
            ls.solve(given, "nystrom-pcg", **options, **more)
            for more in ({"rng": 0, "checkpoint": path, **cut}, {"rng": 1, "start": path})
        )
        assert found.kernel == first.kernel
        return
    given, options = problem(x, y), SOLVERS[solver]
    first = ls.solve(given, solver, rng=0, checkpoint=path, **cut, **options)
    found = ls.solve(given, solver, rng=1, start=path, **options)
    assert (found.kernel_x, found.kernel_y) == (first.kernel_x, first.kernel_y)
