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
ANSWERS = {
    "cca": "x_weights",
    "discriminant": "weights",
    "kernel-cca": "x_weights",
    "kernel-ridge": "dual",
    "least-squares": "x",
    "pls": "x_weights",
    "pls-regression": "x_weights",
    "preimage-cca": "x_preimages",
    "reduced-rank-regression": "weights",
    "svd": "Vh",
}
"""The problems that are timed, each with an array of its answers."""

RUNS = [
    ("cca", "gram"), ("cca", "als"), ("discriminant", "direct"), ("discriminant", "two-stage"),
    ("kernel-cca", "kcca"), ("kernel-cca", "nystrom-lobpcg"),
    ("kernel-ridge", "direct"), ("kernel-ridge", "nystrom-pcg"),
    ("least-squares", "direct"), ("least-squares", "cg"), ("svd", "gram"), ("svd", "lanczos"),
    ("preimage-cca", "gradkcca"), ("pls", "block-krylov"), ("pls-regression", "nipals"),
    ("reduced-rank-regression", "direct"), ("reduced-rank-regression", "two-stage"),
]  # fmt: skip


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


def able(problem: str, *traits: str) -> list[str]:
    """The solvers of a problem with all of these traits, and without those that have a minus."""
    return [
        name
        for name in ls.solvers(problem)
        for found in [ls.describe(f"{problem}/{name}").traits]
        if all((trait[1:] not in found) if trait[0] == "-" else trait in found for trait in traits)
    ]


@pytest.mark.parametrize("problem", ANSWERS)
def test_every_registered_solver_is_timed(benchmark, problem):
    benchmark(problem)
    module = sys.modules[f"benchmarks.{problem.replace('-', '_')}"]
    assert able(problem) == module.SOLVERS
    if problem == "svd":
        assert able(problem, "one-pass") == module.ONE_PASS
    if problem == "cca":
        assert able(problem, "iterative", "-demonstration") == module.ITERATIVE


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
@pytest.mark.parametrize(("problem", "solver"), RUNS)
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
    wrong = getattr(solution, ANSWERS[problem])
    wrong[:] = np.random.default_rng(0).standard_normal(wrong.shape)
    assert bench.error(solution, data) > 0.1


@pytest.mark.parametrize("slices", ["dense", "sparse"])
@pytest.mark.parametrize("solver", ["gram", "lazy-spca"])
@pytest.mark.slow(keep=2)
def test_slices_are_read_once_and_the_error_is_that_of_the_answer(benchmark, solver, slices):
    benchmark("svd")
    bench = sys.modules["benchmarks.svd"].StreamedSVD()
    bench.setup(solver, slices)
    bench.time_solve(solver, slices)
    assert bench.track_passes(solver, slices) == 1
    assert bench.track_error(solver, slices) < (1e-12 if solver == "gram" else 0.2)


@pytest.mark.slow
def test_shares_of_the_correlations_are_met_where_they_are_said_to_be(benchmark, monkeypatch):
    """By an independent measure: the correlations of the images of the weights."""
    benchmark("cca")
    cca = sys.modules["benchmarks.cca"]
    monkeypatch.setattr(cca, "ITERATIVE", ["lobpcg", "nw-cca", "no-such-solver"])
    monkeypatch.setattr(cca, "HARD", ["texts"])
    tracked, timed = cca.PassesToShares(), cca.SecondsTo99()
    found = timed.setup_cache()
    tracked.setup(found, "lobpcg", "texts")
    first = tracked.track_passes_to_99(found, "lobpcg", "texts")
    assert 2 < first < tracked.track_passes_to_999(found, "lobpcg", "texts") < cca.MOST_PASSES
    timed.setup(found, "lobpcg", "texts")
    solution = timed.run("lobpcg")
    assert first <= solution.passes <= first + 1
    views = [A.todense() for A in cca.hard_views("texts")]
    exact = cca.exact_correlations(*map(np.asarray, views))[: cca.PAIRS].sum()
    share = (
        cca.exact_correlations(*map(np.asarray, views), solution.x_weights, solution.y_weights).sum() / exact
    )
    assert 0.99 <= share < 0.9999
    for solver, words in (("nw-cca", r"has not 0\.99 after 50 passes"), ("no-such-solver", "no-such-solver")):
        with pytest.raises(NotImplementedError, match=words):
            timed.setup(found, solver, "texts")
