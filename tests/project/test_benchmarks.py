"""The benchmarks: none of the solvers is missing, what cannot run is skipped with a reason, errors are right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import linspec as ls
from linspec.registry import Registry

FOLDER = Path(__file__).parents[2] / "asv_bench"
MODULES = {
    "cca": "cca",
    "discriminant": "discriminant",
    "kernel-cca": "kernel_cca",
    "kernel-ridge": "kernel_ridge",
    "least-squares": "least_squares",
    "pls": "pls",
    "pls-regression": "pls_regression",
    "preimage-cca": "preimage_cca",
    "reduced-rank-regression": "reduced_rank_regression",
    "svd": "svd",
}
CLASSES = {
    "cca": "CCASolvers",
    "discriminant": "DiscriminantSolvers",
    "kernel-cca": "KernelCCASolvers",
    "kernel-ridge": "KernelRidgeSolvers",
    "least-squares": "LeastSquaresSolvers",
    "pls": "PLSSolvers",
    "pls-regression": "PLSRegressionSolvers",
    "preimage-cca": "PreimageCCASolvers",
    "reduced-rank-regression": "ReducedRankRegressionSolvers",
    "svd": "SVDSolvers",
}
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
RUNS = [
    ("cca", "gram"), ("cca", "als"), ("discriminant", "direct"), ("discriminant", "two-stage"),
    ("kernel-cca", "kcca"), ("kernel-cca", "nystrom-lobpcg"),
    ("kernel-ridge", "direct"), ("kernel-ridge", "nystrom-pcg"),
    ("least-squares", "direct"), ("least-squares", "cg"), ("svd", "gram"), ("svd", "lanczos"),
    ("preimage-cca", "gradkcca"), ("pls", "block-krylov"), ("pls-regression", "nipals"),
    ("reduced-rank-regression", "direct"), ("reduced-rank-regression", "two-stage"),
]  # fmt: skip

of_the_session = pytest.mark.slow
"""Whole measurements, of seconds each: the session `bench` runs them with the benchmarks that they are part of."""


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch):
    """Give the benchmark of a problem, imported as asv imports it."""
    monkeypatch.syspath_prepend(str(FOLDER))

    def make(problem: str):
        module = __import__(f"benchmarks.{MODULES[problem]}", fromlist=["benchmarks"])
        return getattr(module, CLASSES[problem])()

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
        del sys.modules[name]


def lists(module: str, name: str) -> list[str]:
    return getattr(sys.modules[f"benchmarks.{module}"], name)


def traits(problem: str) -> dict[str, tuple[str, ...]]:
    return {name: ls.describe(f"{problem}/{name}").traits for name in ls.solvers(problem)}


@pytest.mark.parametrize("problem", MODULES)
def test_every_registered_solver_is_timed(benchmark, problem):
    benchmark(problem)
    assert lists(MODULES[problem], "SOLVERS") == list(ls.solvers(problem))


def test_every_one_pass_solver_is_timed_on_slices(benchmark):
    benchmark("svd")
    assert lists("svd", "ONE_PASS") == [name for name, has in traits("svd").items() if "one-pass" in has]


def test_every_cca_solver_that_iterates_is_followed_to_its_shares(benchmark):
    benchmark("cca")
    able = [n for n, has in traits("cca").items() if "iterative" in has and "demonstration" not in has]
    assert lists("cca", "ITERATIVE") == able


def test_every_shipped_family_has_data_of_its_own():
    assert {*MODULES, "deep-cca", "multiset-cca", "ridge-many-targets", "sumcor-cca"} == set(
        Registry(disabled="*").names("problem")
    )


def install(folder: Path, distribution: str, table: str) -> None:
    """Write the metadata of a plugin, as installers do."""
    metadata = folder / f"{distribution}-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text(f"[linspec]\nplugin = {table}\n")


TABLE = """
from linspec import SolverSpec, hookimpl

def record(**facts):
    return SolverSpec(name="acme", summary="One more.", reference="Nobody 2024", **facts)

@hookimpl
def linspec_solvers():
    return [
        record(problem="svd", target="linspec_svd.gram:GramSVD", traits=("direct", "one-pass")),
        record(problem="cca", target="linspec_cca.als:ALS", traits=("iterative",)),
    ]
"""

DISCOVERED = """
import io, json, sys
from asv_runner.discovery import list_benchmarks
written = io.StringIO()
list_benchmarks(sys.argv[1], written)
print(json.dumps({b["name"]: b["params"] for b in json.loads(written.getvalue())}))
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with a plugin: one more solver of families that linspec ships."""
    (tmp_path / "acme.py").write_text(TABLE)
    install(tmp_path, "acme", "acme")
    return tmp_path


@pytest.mark.slow
def test_a_plugin_s_solver_is_timed_once_it_is_installed(site):
    pytest.importorskip("asv_runner")
    alone, beside = (
        json.loads(python(DISCOVERED, str(FOLDER / "benchmarks"), *path)) for path in ([], [str(site)])
    )
    assert set(beside) == set(alone)
    more = {
        name for name in alone if alone[name] and set(beside[name][0]) == {*alone[name][0], "'acme'"}
    }  # as one more solver
    assert {name.rpartition(".")[0] for name in more} == {
        *("svd.SVDSolvers", "svd.StreamedSVD", "cca.CCASolvers"),
        *("cca.PassesToShares", "cca.SecondsTo99", "cca.SecondsTo999"),
    }
    assert all(beside[name] == alone[name] for name in set(alone) - more)


def test_parameters_do_not_follow_the_commit_that_is_timed(tmp_path):
    """asv asks for them by their numbers."""
    (tmp_path / "linspec").mkdir()
    (tmp_path / "linspec" / "__init__.py").write_text('__version__ = "0.0.1"\n')
    code = (
        f"import json, sys; sys.path[:0] = [{str(tmp_path)!r}, sys.argv[1]]\n"
        "import linspec; assert linspec.__version__ == '0.0.1'\n"
        "from benchmarks import base, cca; print(json.dumps(cca.SOLVERS))\n"
        "try: base.problem_class('cca')\n"
        "except NotImplementedError as error: print(error)\n"
    )
    listed, reason = python(code, str(FOLDER)).splitlines()
    assert json.loads(listed) == list(Registry(disabled="*").names("solver", "cca"))
    assert reason == "this commit has no linspec.get_problem"


def test_asv_finds_the_four_measurements_of_each_problem_and_nothing_of_the_base(tmp_path):
    pytest.importorskip("asv_runner")
    code = (
        "import sys; from asv_runner.discovery import disc_benchmarks, update_sys_path\n"
        "root = sys.argv[1]; update_sys_path(root)\n"
        "print(*(b.name for b in disc_benchmarks(root)))\n"
    )
    found = python(code, str(FOLDER / "benchmarks")).split()
    for name in (f"{module}.{CLASSES[problem]}" for problem, module in MODULES.items()):
        for measurement in ("time_solve", "peakmem_solve", "track_passes", "track_error"):
            assert f"{name}.{measurement}" in found
    assert "discriminant.PassesToSubspace.track_passes" in found
    shares = {
        name for name in found if name.startswith("cca.") and not name.startswith(f"cca.{CLASSES['cca']}.")
    }
    assert shares == {
        "cca.PassesToShares.track_passes_to_99",
        "cca.PassesToShares.track_passes_to_999",
        "cca.SecondsTo99.time_to_99",
        "cca.SecondsTo999.time_to_999",
    }
    assert {"imports.Imports.time_import_linspec", "imports.Imports.time_list_solvers"} <= set(found)
    assert not [name for name in found if name.startswith("base.")]


def test_a_blas_is_held_to_one_thread():
    """The variables are read when NumPy is loaded: the package must set them before."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import benchmarks; assert 'numpy' not in sys.modules\n"
        "import benchmarks.cca, threadpoolctl\n"
        "print(*{pool['num_threads'] for pool in threadpoolctl.threadpool_info()})\n"
    )
    assert python(code, str(FOLDER)).split() == ["1"]


def python(code: str, argument: str, *path: str) -> str:
    """Return the output of an interpreter that has folders before its path."""
    plain = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    plain["PYTHONPATH"] = os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    run = subprocess.run(
        [sys.executable, "-c", code, argument], capture_output=True, text=True, check=False, env=plain
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_rise_of_passes_or_of_an_error_is_found_and_rounding_is_none(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    from compare_commits import rises

    before = {
        "same": {"passes": 3.0, "error": 1e-6},
        "slower": {"passes": 3.0, "error": 1e-6},
        "worse": {"passes": 3.0, "error": 1e-6},
        "a little": {"passes": 3.0, "error": 1e-6},
        "exact": {"passes": 1.0, "error": 2e-16},
        "broken": {"passes": 1.0, "error": 1e-6},
        "nothing": {"passes": 1.0, "error": 1e-6},
        "mended": {"raised": "ValueError: no"},
        "gone": {"passes": 1.0, "error": 0.0},
    }
    after = {
        **{label: dict(figures) for label, figures in before.items() if label != "gone"},
        "slower": {"passes": 4.0, "error": 1e-7},
        "worse": {"passes": 2.0, "error": 1.2e-6},
        "a little": {"passes": 3.0, "error": 1.05e-6},
        "exact": {"passes": 1.0, "error": 9e-14},
        "broken": {"raised": "ValueError: no"},
        "nothing": {"passes": 1.0, "error": float("nan")},
        "mended": {"passes": 9.0, "error": 1.0},
        "new": {"passes": 9.0, "error": 1.0},
    }
    found = rises(before, after, 0.1)
    assert [line.partition(":")[0] for line in found] == ["broken", "nothing", "slower", "worse"]
    assert found[2] == "slower: passes 3 -> 4"


def test_backends_are_chosen_by_a_variable(monkeypatch):
    monkeypatch.setenv("LINSPEC_BENCH_BACKENDS", "numpy,array-api-strict")
    code = "import sys; sys.path.insert(0, sys.argv[1]); from benchmarks import base; print(*base.BACKENDS)"
    assert python(code, str(FOLDER)).split() == ["numpy", "array-api-strict"]


@pytest.mark.parametrize("data", ["tall", "words", "one-hot"])
@pytest.mark.parametrize(("problem", "solver"), RUNS)
@pytest.mark.slow(keep=4)
def test_solvers_run_and_their_errors_are_small_and_not_zero_by_construction(
    benchmark, problem, solver, data
):
    bench = benchmark(problem)
    bench.setup(solver, "numpy", data)
    bench.time_solve(solver, "numpy", data)
    assert bench.track_passes(solver, "numpy", data) >= 1
    exact = solver in {"gram", "direct"}
    assert bench.track_error(solver, "numpy", data) < (1e-12 if exact else 1e-2)
    solution = bench.run()
    wrong = getattr(solution, ANSWERS[problem])
    wrong[:] = np.random.default_rng(0).standard_normal(wrong.shape)
    assert bench.error(solution, data) > 0.1


@pytest.mark.parametrize(("problem", "solver"), RUNS)
@pytest.mark.slow(keep=2)
def test_arrays_of_another_library_go_the_same_way(benchmark, problem, solver):
    """array-api-strict stands for the libraries that are timed and not installed here."""
    bench = benchmark(problem)
    bench.setup(solver, "array-api-strict", "tall")
    assert bench.track_error(solver, "array-api-strict", "tall") < 1e-2
    assert type(bench.answer(bench.run())).__module__.startswith("array_api_strict")


@pytest.mark.parametrize("slices", ["dense", "sparse"])
@pytest.mark.parametrize("solver", ["gram", "lazy-spca", "spca"])
@pytest.mark.slow(keep=2)
def test_slices_are_read_once_and_the_error_is_that_of_the_answer(benchmark, solver, slices):
    benchmark("svd")
    bench = sys.modules["benchmarks.svd"].StreamedSVD()
    bench.setup(solver, slices)
    bench.time_solve(solver, slices)
    assert bench.track_passes(solver, slices) == 1
    assert bench.track_error(solver, slices) < (1e-12 if solver == "gram" else 0.2)


@of_the_session
@pytest.mark.parametrize("problem", ["texts", "scenes"])
def test_shares_of_the_correlations_are_met_where_they_are_said_to_be(benchmark, problem, monkeypatch):
    """By an independent measure: the correlations of the images of the weights."""
    benchmark("cca")
    cca = sys.modules["benchmarks.cca"]
    views = cca.hard_views(problem)
    grams = cca.Grams(*views)
    monkeypatch.setattr(cca, "ITERATIVE", ["lobpcg", "nw-cca", "no-such-solver"])
    monkeypatch.setattr(cca, "HARD", [problem])
    found = cca.SecondsTo99().setup_cache()
    assert "this commit has no solver" in found["no-such-solver", problem]
    with pytest.raises(NotImplementedError, match="no-such-solver"):
        cca.PassesToShares().setup(found, "no-such-solver", problem)

    tracked = cca.PassesToShares()
    tracked.setup(found, "lobpcg", problem)
    first, second = (
        getattr(tracked, f"track_passes_to_{share}")(found, "lobpcg", problem) for share in ("99", "999")
    )
    assert 2 < first < second < cca.MOST_PASSES
    timed = cca.SecondsTo99()
    timed.setup(found, "lobpcg", problem)
    timed.time_to_99(found, "lobpcg", problem)
    solution = timed.run("lobpcg")
    assert first <= solution.passes <= first + 1
    dense = [np.asarray(A.todense() if hasattr(A, "todense") else A) for A in views]
    exact = cca.exact_correlations(*dense)[: cca.PAIRS].sum()
    assert grams.total == pytest.approx(exact, rel=1e-10)
    share = cca.exact_correlations(*dense, solution.x_weights, solution.y_weights).sum() / exact
    assert 0.99 <= share < 0.9999

    tracked.setup(found, "nw-cca", problem)
    assert np.isnan(tracked.track_passes_to_99(found, "nw-cca", problem))
    with pytest.raises(NotImplementedError, match=r"nw-cca has not 0\.99 after 50 passes"):
        timed.setup(found, "nw-cca", problem)


@of_the_session
@pytest.mark.parametrize("problem", ["texts", "scenes"])
def test_discriminant_subspaces_are_there_after_so_many_passes_and_not_before(benchmark, problem):
    """The exact subspace is that of the pencil."""
    benchmark("discriminant")
    module = sys.modules["benchmarks.discriminant"]
    bench = module.PassesToSubspace()
    bench.setup("two-stage", problem)
    X, H = (np.asarray(A.todense() if hasattr(A, "todense") else A) for A in bench.data)
    X = X - X.mean(axis=0)
    W, C = bench.best, X.T @ H
    MW = X.T @ (X @ W) + module.RIDGE * W
    np.testing.assert_allclose(W.T @ MW, np.eye(W.shape[1]), atol=1e-10)
    values = np.linalg.norm(C.T @ W, axis=0) ** 2
    np.testing.assert_allclose(C @ (C.T @ W), MW * values, atol=1e-10 * values.max())
    passes = bench.track_passes("two-stage", problem)
    assert 4 < passes < module.MOST_PASSES
    enough, less = (
        module.hard_solve(bench.data, "two-stage", budget).weights for budget in (passes, passes - 1)
    )
    assert module.distance(enough, bench.best) <= module.REACHED < module.distance(less, bench.best)
    by_hand = np.linalg.norm(less @ less.T - W @ W.T, 2) / np.linalg.norm(W @ W.T, 2)
    assert module.distance(less, bench.best) == pytest.approx(by_hand, rel=1e-6)
    bench.time_solve("direct", problem)


@pytest.mark.parametrize("data", ["tall", "words", "one-hot"])
def test_data_are_the_same_in_every_run(benchmark, data):
    benchmark("cca")
    base = sys.modules["benchmarks.base"]
    first, second = ([np.asarray(base.dense(view)) for view in base.views(data)] for _ in range(2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
        assert len(a) == len(first[0])


@pytest.mark.parametrize(
    ("solver", "backend", "data", "missing", "words"),
    [
        ("gram", "torch", "tall", "torch", "torch is not installed"),
        ("gram", "cupy", "words", "cupy", "cupy is not installed"),
        ("gram", "torch", "words", "", "no sparse matrices of torch"),
        ("no-such-solver", "numpy", "tall", "", "this commit has no solver cca/no-such-solver"),
        ("gram", "numpy", "tall", "linspec", "this commit has no linspec"),
    ],
)
def test_what_is_missing_is_skipped_with_its_reason(
    benchmark, monkeypatch, solver, backend, data, missing, words
):
    bench = benchmark("cca")
    base = sys.modules["benchmarks.base"]
    there = base.optional
    monkeypatch.setattr(base, "optional", lambda name: None if name == missing else there(name))
    with pytest.raises(NotImplementedError, match=words):  # what asv takes for "skip"
        bench.setup(solver, backend, data)


def test_a_new_interpreter_imports_and_lists(benchmark):
    benchmark("cca")
    imports = __import__("benchmarks.imports", fromlist=["imports"])
    imports.Imports().setup()
    assert imports.python("import linspec; linspec.solvers()") == 0
    assert imports.python("import linspec; linspec.no_such_name") != 0


def measured(script: str, *arguments: str) -> list[list[str]]:
    """The rows of the tables that a script prints, heads left out."""
    command = [sys.executable, str(FOLDER.parent / "docs" / "evidence" / script), "--quick", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    rows = [line.strip("| ").split(" | ") for line in run.stdout.splitlines() if line.startswith("|")]
    return [
        row
        for row, after in zip(rows, [*rows[1:], [""]], strict=True)
        if not (row[0].startswith("---") or after[0].startswith("---"))
    ]


@of_the_session
def test_cross_validation_is_measured():
    """Gram matrices that are held cost one pass for the whole grid."""
    passes = {row[0].split(",")[0]: float(row[1]) for row in measured("measure_crossval.py", "--ridges", "2")}
    assert passes["images"] == 1
    assert passes["titles"] > 1


@of_the_session
def test_other_libraries_are_measured_and_find_the_same():
    rows = measured("measure_cca_peers.py", "--rounds", "1", "--sets", "titles")
    answers = {row[0]: row[-1] for row in rows}
    exact = float(answers["linspec gram"])
    for name in ("linspec auto", "linspec lobpcg", "SciPy by hand"):
        assert float(answers[name]) == pytest.approx(exact, rel=1e-5), name
    if "scikit-learn CCA" in answers:
        assert answers["scikit-learn CCA"].startswith("TypeError")


@of_the_session
def test_discriminants_are_measured_beside_lsqr_and_scikit_learn():
    methods = ("two-stage", "direct", "LSQR", "svd")
    rows = measured(
        "measure_discriminant.py", "--sets", "newsgroups20", "--ridges", "1", "--methods", *methods
    )
    ours = {row[1]: row for row in rows if row[0] == "1"}
    for name in ("two-stage", "direct"):
        assert float(ours[name][8]) < 1e-8, name
        assert float(ours[name][9]) < 1e-7, name
    by_columns = next(
        row for row in rows if row[1] == "LSQR, 20 of 20"
    )  # the words that scikit-learn can take
    assert float(by_columns[9]) < 1e-6
    refused = next((row for row in rows if row[1] == "scikit-learn, svd"), None)
    assert refused is None or "Sparse data" in refused[-1] or "No module" in refused[-1]
