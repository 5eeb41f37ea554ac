"""Kernel CCA goes on from a checkpoint to the same answer; reading the rows again counts."""

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
        found = ls.solve(state(), solver, start=path, **options)
        assert found.iterations == whole.iterations > 0
        np.testing.assert_allclose(found.correlations, whole.correlations, rtol=1e-6)
        again = 1 + (SOLVERS[solver].get("landmarks", 0) / 240)  # the rows, and the landmarks' columns
        assert found.passes - whole.passes == pytest.approx(again)
