"""The benchmarks: none of the solvers is missing, what cannot run is skipped with a reason, errors are right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import linspec as ls

FOLDER = Path(__file__).parents[2] / "asv_bench"
TIMED = {
    "cca": ("x_weights", ["gram", "als"]),
    "discriminant": ("weights", ["direct", "two-stage"]),
    "kernel-cca": ("x_weights", ["kcca", "nystrom-lobpcg"]),
    "kernel-ridge": ("dual", ["direct", "nystrom-pcg"]),
    "least-squares": ("x", ["direct", "cg"]),
    "pls": ("x_weights", ["block-krylov"]),
    "pls-regression": ("x_weights", ["nipals"]),
    "preimage-cca": ("x_preimages", ["gradkcca"]),
    "reduced-rank-regression": ("weights", ["direct", "two-stage"]),
    "svd": ("Vh", ["gram", "lanczos"]),
}
"""The problems that are timed, each with an array of its answers, and solvers to try."""


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch):
    """Give the benchmark of a problem, imported as asv imports it."""
    monkeypatch.syspath_prepend(str(FOLDER))

    def make(problem: str):
        module = __import__(f"benchmarks.{problem.replace('-', '_')}", fromlist=["benchmarks"])
        return getattr(module, f"{ls.get_problem(problem).__name__}Solvers")()

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
        del sys.modules[name]


@pytest.mark.parametrize("problem", TIMED)
def test_every_registered_solver_is_timed(benchmark, problem):
    benchmark(problem)
    module = sys.modules[f"benchmarks.{problem.replace('-', '_')}"]
    traits = {name: {*ls.describe(f"{problem}/{name}").traits} for name in ls.solvers(problem)}
    assert [*traits] == module.SOLVERS
    if problem == "svd":
        assert [name for name in traits if "one-pass" in traits[name]] == module.ONE_PASS
    if problem == "cca":
        able = {
            name for name in traits if "iterative" in traits[name] and "demonstration" not in traits[name]
        }
        assert [name for name in traits if name in able] == module.ITERATIVE


def test_a_blas_is_held_to_one_thread_and_imports_are_timed_in_new_interpreters():
    """The variables are read when NumPy is loaded: the package must set them before."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import benchmarks; assert 'numpy' not in sys.modules\n"
        "import benchmarks.cca, benchmarks.imports, threadpoolctl\n"
        "benchmarks.imports.Imports().setup()\n"
        "print(*{pool['num_threads'] for pool in threadpoolctl.threadpool_info()})\n"
    )
    plain = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", code, str(FOLDER)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=plain)
    assert run.stdout.split() == ["1"]


@pytest.mark.parametrize("data", ["tall", "words", "one-hot"])
@pytest.mark.parametrize(("problem", "solver"), [(each, one) for each in TIMED for one in TIMED[each][1]])
@pytest.mark.slow(keep=4)
def test_solvers_run_and_their_errors_are_small_and_not_zero_by_construction(
    benchmark, problem, solver, data
):
    bench = benchmark(problem)
    if data == "tall":  # array-api-strict stands for the libraries that are timed and not installed here
        bench.setup(solver, "array-api-strict", "tall")
        assert bench.track_error(solver, "array-api-strict", "tall") < 1e-2
        assert type(bench.answer(bench.run())).__module__.startswith("array_api_strict")
    bench.setup(solver, "numpy", data)
    bench.time_solve(solver, "numpy", data)
    assert bench.track_passes(solver, "numpy", data) >= 1
    exact = solver in {"gram", "direct"}
    assert bench.track_error(solver, "numpy", data) < (1e-12 if exact else 1e-2)
    solution = bench.run()
    wrong = getattr(solution, TIMED[problem][0])
    wrong[:] = np.random.default_rng(0).standard_normal(wrong.shape)
    assert bench.error(solution, data) > 0.1
