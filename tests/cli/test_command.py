"""The commands in this process: what they compute, print, write and refuse."""

from __future__ import annotations

import inspect
import json
import platform
import re
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pluggy
import pytest
import scipy
import threadpoolctl
from scipy import sparse

click = pytest.importorskip("click")

from click.testing import CliRunner  # noqa: E402

import linspec  # noqa: E402
from linspec.cli import main  # noqa: E402
from linspec.cli.tables import percent, plain_table  # noqa: E402
from linspec.process.progress import Goal  # noqa: E402
from linspec.testing import BACKENDS, Suite  # noqa: E402
from tests.test_kit_catches_liars import Hangs, declare  # noqa: E402

PNG = b"\x89PNG\r\n\x1a\n"
RIDGE = 2.0
K = 3


def run(*args: object, code: int = 0) -> SimpleNamespace:
    """The output of a command, whose exit status must be `code`."""
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert result.exit_code == code, f"{result.output}\n{result.stderr}\n{result.exc_info}"
    return SimpleNamespace(out=result.stdout, err=result.stderr)


def refusal(*args: object) -> str:
    """The one line with which a command refuses."""
    result = run(*args, code=2)
    assert result.out == ""
    assert result.err.startswith("Error: ")
    assert result.err.count("\n") == 1
    return result.err


def fact(out: str, label: str) -> str:
    """Return the text beside a label."""
    return next(line for line in out.splitlines() if line.startswith(label))[len(label) :].strip()


@pytest.fixture
def views(tmp_path: Path) -> tuple[str, str]:
    """Two views that share three directions, as files."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((200, 3)) * [3, 2, 1]
    paths = (str(tmp_path / "X.npy"), str(tmp_path / "Y.npy"))
    for path, columns in zip(paths, (8, 6), strict=True):
        np.save(path, Z @ rng.standard_normal((3, columns)) + rng.standard_normal((200, columns)) + 1.0)
    return paths


@pytest.mark.parametrize(("flags", "label"), [((), "of the squares"), (("--center",), "of the variance")])
def test_shares_of_components_are_of_squares_about_zero_or_the_means(
    flags: tuple[str, ...], label: str, views: tuple[str, str]
) -> None:
    X = np.load(views[0])
    X = X - X.mean(axis=0) if flags else X
    S = np.linalg.svd(X, compute_uv=False)
    together = percent(float(np.sum(S[:2] ** 2) / np.sum(S**2)))
    assert fact(run("solve", "svd", views[0], "-k", 2, *flags).out, label).endswith(f"together {together}")


def whitened(X: np.ndarray, ridge: float) -> np.ndarray:
    """X (XᵀX + ridge)^(-1/2) of centred data."""
    X = X - X.mean(axis=0)
    values, vectors = np.linalg.eigh(X.T @ X + ridge * np.eye(X.shape[1]))
    return X @ vectors / np.sqrt(values)


def exact(views: tuple[str, str], ridge: float = RIDGE, ridge_y: float | None = None) -> np.ndarray:
    """The correlations by whitening and an SVD."""
    X, Y = (np.load(path) for path in views)
    other = ridge if ridge_y is None else ridge_y
    return np.linalg.svd(whitened(X, ridge).T @ whitened(Y, other), compute_uv=False)[:K]


# ---- solve ------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "direct", "gram", "als", "cca/gram", "linspec:gram"])
def test_solve_cca_finds_the_exact_correlations(views, tmp_path: Path, solver: str):
    out = run(
        "solve", "cca", *views, "-k", K, "--ridge", RIDGE, "--solver", solver, "--out", tmp_path / "r.npz"
    ).out
    with np.load(tmp_path / "r.npz", allow_pickle=False) as saved:
        np.testing.assert_allclose(saved["correlations"], exact(views), atol=1e-5)
        assert saved["status"] == "CONVERGED"
        assert saved["x_weights"].shape == (8, K)
        assert saved["history"].dtype.names[0] == "iteration"
        assert json.loads(str(saved["about"]))["files"] == dict(zip("XY", views, strict=True))
    assert float(fact(out, "sum")) == pytest.approx(exact(views).sum(), abs=1e-5)
    assert fact(out, "status").startswith("converged")
    assert fact(out, "passes")
    assert fact(out, "seconds")
    assert fact(out, "residual")


def test_solve_cca_with_two_ridges_and_without_centring(views, tmp_path: Path):
    run("solve", "cca", *views, "-k", K, "--ridge", 2, "--ridge-y", 5, "--out", tmp_path / "r.npz")
    np.testing.assert_allclose(
        np.load(tmp_path / "r.npz")["correlations"], exact(views, 2.0, 5.0), atol=1e-10
    )
    out = run("solve", "cca", *views, "-k", K, "--no-center", "--out", tmp_path / "u.npz").out
    X, Y = (np.load(path) for path in views)
    qs = [np.linalg.qr(view)[0] for view in (X, Y)]
    expected = np.linalg.svd(qs[0].T @ qs[1], compute_uv=False)[:K]
    np.testing.assert_allclose(np.load(tmp_path / "u.npz")["correlations"], expected, atol=1e-8)
    assert "not centred" in fact(out, "problem")


@pytest.mark.parametrize("vector", [False, True])
def test_solve_least_squares_is_ridge_regression(tmp_path: Path, vector: bool):
    rng = np.random.default_rng(1)
    A, B = rng.standard_normal((50, 5)), rng.standard_normal((50,) if vector else (50, 2))
    np.savez(tmp_path / "A.npz", A)
    np.save(tmp_path / "B.npy", B)
    files = (tmp_path / "A.npz", tmp_path / "B.npy")
    out = run(
        *("solve", "least-squares", *files, "--ridge", 1, "--no-center", "--solver", "cg"),
        *("--out", tmp_path / "x.json"),
    ).out
    saved = json.loads((tmp_path / "x.json").read_text())
    expected = np.linalg.solve(A.T @ A + np.eye(5), A.T @ B)
    np.testing.assert_allclose(saved["x"], expected, atol=1e-7)
    assert saved["status"] == "CONVERGED"
    assert saved["about"]["problem"] == "least-squares"
    assert len(saved["history"]["residual"]) == saved["iterations"] + 1
    assert f"norm {np.linalg.norm(expected):.6g}" in fact(out, "coefficients")


def test_a_seed_means_the_same_numbers(views, tmp_path: Path):
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        run(
            "solve",
            "cca",
            *views,
            "-k",
            K,
            "--solver",
            "als",
            "--seed",
            seed,
            "--out",
            tmp_path / f"{name}.npz",
        )
    a, b, c = (np.load(tmp_path / f"{name}.npz")["x_weights"] for name in "abc")
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_options_reach_the_solver_and_its_parts(views, tmp_path: Path):
    args = ("solve", "cca", *views, "-k", K, "--solver", "als", "--ridge", RIDGE, "--out", tmp_path / "r.npz")
    run(*args, "-o", "lstsq=gd", "-o", "lstsq.max-iterations=1", "--option", "oversample=0", "--tol", "1e-3")
    with np.load(tmp_path / "r.npz") as saved:
        assert saved["residual"] <= 1e-3
        options = json.loads(str(saved["about"]))["options"]
    assert options["oversample"] == 0
    assert "max_iterations=1" in options["lstsq"]
    run(*args, "-o", "max_iterations=1", "-o", "tol=none", "-o", "form=implicit")
    assert np.load(tmp_path / "r.npz")["iterations"] == 1


def test_a_budget_is_a_labelled_ending_without_a_warning(views):
    result = run(
        "solve",
        "cca",
        *views,
        "-k",
        K,
        "--solver",
        "als",
        "-o",
        "form=implicit",
        "--tol",
        1e-14,
        "--max-passes",
        9,
    )
    assert fact(result.out, "status").startswith("budget: ")
    assert "raise max_passes" in result.out
    assert float(fact(result.out, "passes").split()[0]) <= 9
    assert result.err == ""


def test_a_warning_is_one_line(views):
    result = run("solve", "cca", *views, "-k", K, "--solver", "naive-gradient", "-o", "max_iterations=3")
    assert result.err.startswith("Warning: naive-gradient: The solver reached its own limit")
    assert result.err.count("\n") == 1
    assert fact(result.out, "status") == "iteration limit"


def test_sparse_data_and_labels_as_classes(tmp_path: Path):
    """Supervised CCA of a file and its own classes, against the dense computation."""
    rng = np.random.default_rng(3)
    classes = rng.integers(0, 3, 60)
    X = (rng.random((60, 6)) < 0.4) * 1.0
    X[:, 0] += classes
    lines = [
        f"{label} " + " ".join(f"{j + 1}:{value}" for j, value in enumerate(row) if value)
        for label, row in zip(classes, X, strict=True)
    ]
    (tmp_path / "d.svm").write_text("\n".join(lines))
    file = f"{tmp_path / 'd.svm'}"
    run("solve", "cca", file, f"{file}:classes", "-k", 2, "--ridge", 1, "--out", tmp_path / "r.json")
    Y = np.eye(3)[classes]
    expected = np.linalg.svd(whitened(X, 1.0).T @ whitened(Y, 1.0), compute_uv=False)[:2]
    np.testing.assert_allclose(
        json.loads((tmp_path / "r.json").read_text())["correlations"], expected, atol=1e-8
    )


# ---- discriminants ----------------------------------------------------------------------------


@pytest.fixture
def labelled(tmp_path: Path) -> SimpleNamespace:
    """Make rows of four classes, the classes as files of several kinds, and labels with several in some rows."""
    rng = np.random.default_rng(4)
    classes = np.arange(120) % 4
    X = rng.standard_normal((4, 7))[classes] + rng.standard_normal((120, 7))
    labels = (rng.random((120, 3)) < 0.4).astype(np.int8)
    for name, array in (("X", X), ("classes", classes), ("labels", labels)):
        np.save(tmp_path / f"{name}.npy", array)
    np.savetxt(tmp_path / "classes.csv", classes, fmt="%d")
    (tmp_path / "classes.svm").write_text("".join(f"{label} 1:{label + 1}\n" for label in classes))
    sparse.save_npz(tmp_path / "labels.npz", sparse.csr_array(labels))
    return SimpleNamespace(X=X, classes=classes, labels=labels, folder=tmp_path)


def discriminant_values(X: np.ndarray, H: np.ndarray, ridge: float = 0.0) -> np.ndarray:
    """The eigenvalues that are not zero, by whitening and an SVD."""
    values = np.linalg.svd(whitened(X, ridge).T @ H, compute_uv=False) ** 2
    return values[values > 1e-10]


def targets_of(name: str, Y: np.ndarray) -> np.ndarray:
    """H by its definition; rows without labels are rows of zeros."""
    Y = Y.astype(float)
    inverse = lambda d: np.divide(1.0, d, out=np.zeros_like(d), where=d > 0)  # noqa: E731
    size = Y.sum(axis=0)
    about = Y - Y.mean(axis=0)
    if name == "cca":
        U, s, _ = np.linalg.svd(about, full_matrices=False)
        return U[:, s > 1e-10]
    edges = {"hsl-zhou": np.ones_like(size), "hsl-clique": size, "hsl-star": 1 / size}
    if name in edges:
        columns = {"hsl-zhou": size**-0.5, "hsl-clique": np.ones_like(size), "hsl-star": 1 / size}
        return np.sqrt(inverse(Y @ edges[name]))[:, None] * Y * columns[name]
    return {"lda": Y / np.sqrt(np.maximum(size, 1)), "opls": about, "none": Y}[name]


TARGETS = ("lda", "opls", "cca", "hsl-zhou", "hsl-clique", "hsl-star", "none")


@pytest.mark.parametrize("target", TARGETS)
def test_solve_discriminant_with_every_target(labelled, target: str):
    """With labels, dense and sparse, if rows may have several; with classes if not."""
    Y = np.eye(4)[labelled.classes] if target == "lda" else labelled.labels
    np.save(labelled.folder / "Y.npy", Y)
    expected = discriminant_values(labelled.X, targets_of(target, Y), 1.5)
    files = ["Y.npy"] if target == "lda" else ["Y.npy", "labels.npz"]
    for file in files:
        args = ("discriminant", labelled.folder / "X.npy", labelled.folder / file, "--ridge", 1.5)
        out = run("solve", *args, "--target", target, "--out", labelled.folder / "r.npz").out
        with np.load(labelled.folder / "r.npz") as saved:
            np.testing.assert_allclose(saved["eigenvalues"], expected, rtol=1e-8)
            assert saved["weights"].shape == (7, len(expected))
            assert json.loads(str(saved["about"]))["target"] == target
        shown, shrunken = fact(out, "eigenvalues").split(", ")
        assert shown.split() == [f"{value:.5g}" for value in expected]
        assert shrunken == "with the ridge"
        assert float(fact(out, "sum")) == pytest.approx(expected.sum(), rel=1e-5)
        assert "k by rank, ridge 1.5, centred" in fact(out, "problem")
        assert (target in fact(out, "problem")) == (target != "none")


@pytest.mark.parametrize("file", ["classes.npy", "classes.csv", "classes.svm:labels"])
@pytest.mark.parametrize("solver", linspec.solvers("discriminant"))
def test_a_single_column_holds_the_classes(labelled, file: str, solver: str):
    args = ("discriminant", labelled.folder / "X.npy", labelled.folder / file, "--solver", solver)
    run("solve", *args, "-k", 2, "--out", labelled.folder / "r.json")
    expected = discriminant_values(labelled.X, targets_of("lda", np.eye(4)[labelled.classes]))
    saved = json.loads((labelled.folder / "r.json").read_text())
    np.testing.assert_allclose(saved["eigenvalues"], expected[:2], rtol=1e-6)


def test_compare_discriminant_scores_by_the_eigenvalues(labelled):
    pytest.importorskip("matplotlib")
    target = labelled.folder / "c.png"
    files = (labelled.folder / "X.npy", labelled.folder / "classes.npy")
    out = run("compare", "discriminant", *files, "--plot", target).out
    assert out.startswith("discriminant, lda, k by rank, centred: ")
    total = discriminant_values(labelled.X, targets_of("lda", np.eye(4)[labelled.classes])).sum()
    for solver in linspec.solvers("discriminant"):
        score, share = fact(out, f"{solver} ").split()[:2]
        assert float(score) == pytest.approx(total, abs=1e-5)
        assert float(share) > 99.9
    assert target.read_bytes().startswith(PNG)
    run("solve", "discriminant", *files, "--plot", labelled.folder / "s.png")
    assert (labelled.folder / "s.png").read_bytes().startswith(PNG)


def test_refusals_of_labels(labelled):
    X, folder = labelled.folder / "X.npy", labelled.folder
    assert "at most one label for each row" in refusal("solve", "discriminant", X, folder / "labels.npy")
    assert "is not one of 'lda'" in refusal("solve", "discriminant", X, X, "--target", "pls")
    assert "column for each target" in refusal(
        "solve", "discriminant", X, folder / "classes.npy", "--target", "none"
    )
    np.save(folder / "short.npy", labelled.classes[:-1])
    assert "equally many rows; got 120 and 119" in refusal("solve", "discriminant", X, folder / "short.npy")


# ---- bars, pictures and files -----------------------------------------------------------------


def test_progress_can_be_forced_and_is_off_in_a_pipe(views):
    args = ("solve", "cca", *views, "-k", K, "--solver", "als", "-o", "form=implicit")
    assert run(*args).err == ""
    assert "als: iteration 0" in run(*args, "--progress").err


def test_plots_are_pictures(views, tmp_path: Path):
    pytest.importorskip("matplotlib")
    for solver in ("als", "gram"):
        target = tmp_path / f"{solver}.png"
        out = run("solve", "cca", *views, "-k", K, "--solver", solver, "--plot", target).out
        assert f"written: {target}" in out
        assert target.read_bytes().startswith(PNG)


def test_output_replaces_a_file_whole_or_not_at_all(views, tmp_path: Path, monkeypatch):
    target = tmp_path / "r.json"
    target.write_text("before")

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(json, "dumps", fail)
    assert "No space left" in run("solve", "cca", *views, "-k", K, "--out", target, code=2).err
    assert target.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["X.npy", "Y.npy", "r.json"]


@dataclass(frozen=True, kw_only=True)
class DenseSVD(linspec.Solver):
    """An SVD by NumPy, from outside linspec."""

    def solve(self, problem, run):
        A = problem.A.dense()
        A = A - A.mean(axis=0) if problem.center else A
        U, S, Vh = np.linalg.svd(A, full_matrices=False)
        k = problem.k
        return run.finish(Vh=Vh[:k], S=S[:k], U=U[:, :k] if problem.left else None)


def test_a_problem_is_offered_when_somebody_solves_it(monkeypatch, tmp_path: Path):
    from linspec import Needs, SolverSpec, registry

    fresh = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: fresh)
    target = f"{__name__}:DenseSVD"
    facts = {
        "summary": "By NumPy.",
        "reference": "Golub 1965",
        "needs": Needs(dense=True),
        "traits": ("direct",),
    }
    fresh.register(SolverSpec(name="dense", problem="svd", target=target, **facts))
    assert "svd" in run("solve", "--help").out
    A = np.random.default_rng(5).standard_normal((30, 4)) + 2.0
    np.save(tmp_path / "A.npy", A)
    args = ("svd", tmp_path / "A.npy", "-k", 2)
    out = run("solve", *args, "--center", "--left", "--solver", "dense", "--out", tmp_path / "r.npz").out
    expected = np.linalg.svd(A - A.mean(axis=0), compute_uv=False)[:2]
    with np.load(tmp_path / "r.npz") as saved:
        np.testing.assert_allclose(saved["S"], expected)
        assert saved["U"].shape == (30, 2)
    assert fact(out, "singular values").split() == [f"{value:.5g}" for value in expected]


# ---- refusals ---------------------------------------------------------------------------------


def test_refusals_of_the_request(views, tmp_path: Path):
    cca = ("solve", "cca", *views, "-k", K)
    assert "between 1 and 6" in refusal("solve", "cca", *views, "-k", 60)
    assert "Did you mean 'gram'" in refusal(*cca, "--solver", "gramm")
    assert "Did you mean 'lstsq'" in refusal(*cca, "--solver", "als", "-o", "lstq=cg")
    assert "Did you mean 'cg'" in refusal(*cca, "--solver", "als", "-o", "lstsq=cgg")
    assert "has no option 'rank'" in refusal(*cca, "--solver", "als", "-o", "lstsq.rank=3")
    assert "no part" in refusal(*cca, "--solver", "als", "-o", "tol.rank=3")
    assert "a number > 0" in refusal(*cca, "--solver", "als", "-o", "tol=-1")
    assert "an integer" in refusal(*cca, "--solver", "als", "-o", "oversample=some")
    assert "NAME=VALUE" in refusal(*cca, "--solver", "als", "-o", "oversample")
    assert "takes only tol" in refusal(*cca, "-o", "oversample=3")
    assert "at least 0" in refusal(*cca, "--ridge", -1)
    assert "'some' is not a valid float" in refusal(*cca, "--ridge", "some")
    assert "positive number" in refusal(*cca, "--max-passes", 0)
    assert "least" in refusal(*cca, "--solver", "als", "-o", "form=implicit", "--max-passes", 1)
    assert "'-k'" in refusal("solve", "cca", *views)
    assert "Y-FILE" in refusal("solve", "cca", views[0], "-k", 3)
    assert "No such option" in refusal(*cca, "--rigde", 1)
    assert "Did you mean 'cca'" in refusal("solve", "ccca", *views, "-k", 3)
    assert "No such command 'slove'" in refusal("slove")
    assert ".npz or .json" in refusal(*cca, "--out", "r.txt")
    assert "no folder" in refusal(*cca, "--out", tmp_path / "nowhere" / "r.npz")
    assert ".png" in refusal(*cca, "--plot", "r.bmp")


def test_refusals_of_a_comparison(views):
    cca = ("compare", "cca", *views, "-k", K)
    assert "Did you mean 'gram'" in refusal(*cca, "--solvers", "als,gramm")
    assert "none of gram, direct has an option 'step'" in refusal(
        *cca, "--solvers", "gram,direct", "-o", "step=1"
    )
    assert "has no option 'step'" in refusal(*cca, "--solvers", "gram,als", "-o", "als.step=1")
    assert "a number > 0" in refusal(*cca, "--solvers", "gram,appgrad", "-o", "step=0")
    assert "must name solvers" in refusal(*cca, "--solvers", " , ")


def test_refusals_of_data(views, tmp_path: Path):
    X = np.load(views[0])
    np.save(tmp_path / "short.npy", X[:-1])
    np.save(tmp_path / "flat.npy", X[:, 0])
    X[3, 2] = np.nan
    np.save(tmp_path / "nan.npy", X)
    np.savez(tmp_path / "nan.npz", X)
    assert "no such file" in refusal("solve", "cca", "missing.npz", views[1], "-k", K)
    assert "equally many rows; got 199 and 200" in refusal(
        "solve", "cca", tmp_path / "short.npy", views[1], "-k", K
    )
    assert "two dimensions" in refusal("solve", "cca", tmp_path / "flat.npy", views[1], "-k", K)
    for name in ("nan.npy", "nan.npz"):
        said = refusal("solve", "cca", tmp_path / name, views[1], "-k", K)
        assert "row 3, column 2" in said
        assert "nan" in said


def test_a_problem_that_only_python_can_state(monkeypatch, views):
    from linspec import SolverSpec, registry

    fresh = registry.Registry()
    spec = SolverSpec(
        name="any", problem="no-such-cca", target="nowhere:Any", summary="None.", reference="N 2000"
    )
    fresh.register(spec)
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: fresh)
    assert "cannot be stated on the command line" in refusal("solve", "no-such-cca", *views)


def test_debug_shows_the_traceback(views):
    result = run("solve", "cca", *views, "-k", 60, "--debug", code=2)
    assert "Traceback" in result.err
    assert result.err.splitlines()[-1].startswith("Error: k must be between")


def test_a_defect_is_told_from_a_wrong_request(monkeypatch, views):
    def broken(*args, **kwargs):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("linspec.studies.comparison.solve", broken)
    result = run("solve", "cca", *views, "-k", K, code=70)
    assert "unexpected ZeroDivisionError: oh" in result.err
    assert "Traceback" not in result.err


def test_plot_without_matplotlib_names_the_extra(monkeypatch, views):
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    for command in (("solve", "cca", *views, "-k", K), ("compare", "cca", *views, "-k", K), ("demo",)):
        assert "pip install 'linspec[cli]'" in refusal(*command, "--plot", "p.png")


# ---- lookups ----------------------------------------------------------------------------------


def test_help_of_every_command():
    assert "solve" in run().out
    for command in (["demo"], ["solve"], ["compare"], ["solvers"], ["describe"], ["plugins"], ["check"]):
        assert run(*command, "--help").out.startswith(f"Usage: main {command[0]}")
    for command in ("solve", "compare"):
        assert run(command).out == run(command, "--help").out
        for problem in ("cca", "discriminant", "least-squares"):
            assert "--max-passes" in run(command, problem, "--help").out


def test_versions_are_those_that_the_libraries_name():
    shown = dict(line.strip().split(maxsplit=1) for line in run("--version").out.splitlines())
    assert shown.pop("linspec") == linspec.__version__
    assert shown.pop("Python").startswith(platform.python_version())
    for distribution, module in (("numpy", np), ("scipy", scipy), ("pluggy", pluggy)):
        assert shown[distribution] == module.__version__
    assert "missing" not in shown.values()
    assert shown["BLAS"].split()[0] in {pool["internal_api"] for pool in threadpoolctl.threadpool_info()}


def test_solvers_lists_the_registry():
    out = run("solvers", "cca").out
    for name in linspec.solvers("cca"):
        assert any(line.split()[:1] == [name] for line in out.splitlines())
    every = run("solvers").out
    assert all(name in every for name in linspec.solvers())
    assert "Did you mean 'cca'" in refusal("solvers", "ccca")


def test_the_shell_completes_solvers():
    from click.shell_completion import ShellComplete

    shell = ShellComplete(main, {}, "linspec", "_LINSPEC_COMPLETE")
    found = shell.get_completions(["compare", "cca", "--solvers"], "gram,al")
    assert "gram,als" in [item.value for item in found]
    assert "cg" in [item.value for item in shell.get_completions(["solve", "least-squares", "--solver"], "c")]


def test_describe_one_several_and_none():
    out = run("describe", "als").out
    assert "Golub & Zha 1995" in out
    assert "lstsq = 'cg'" in out
    several = run("describe", "direct").out
    assert all(f"{problem}/direct" in several for problem in ("cca", "svd", "least-squares", "discriminant"))
    assert "Did you mean" in refusal("describe", "direkt")


def test_plugins_shows_a_broken_one(monkeypatch):
    from importlib.metadata import EntryPoint

    from linspec import registry

    broken = EntryPoint(name="acme", value="no_such_module_here", group="linspec")
    found = registry.Registry([broken])
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: found)
    out = run("plugins").out
    assert "broken" in out
    assert "ModuleNotFoundError" in out


def test_plugins_lists_the_built_in_ones():
    out = run("plugins").out
    assert "loaded" in out
    assert "normalizer/cholesky-qr" in out


@pytest.mark.parametrize(("failed", "code"), [([], 0), ([("signs", "wrong sign")], 1)])
def test_check_tells_the_report_of_the_kit(monkeypatch, failed: list, code: int):
    report = SimpleNamespace(
        name="cca/gram",
        passed=1,
        failed=failed,
        skipped=[("gpu", "no device")] * 2,
        missing={"cupy": "no cupy"},
    )
    kit = SimpleNamespace(run_checks=lambda name, backends: report)
    monkeypatch.setitem(sys.modules, "linspec.testing", kit)
    monkeypatch.setattr(linspec, "testing", kit, raising=False)
    out = run("check", "cca/gram", code=code).out
    assert f"cca/gram: 1 passed, {len(failed)} failed, 2 skipped (2 x no device)." in out
    assert "Not tried on cupy: " in out
    assert ("FAILED signs: wrong sign" in out) == bool(failed)


def test_check_of_a_normalizer_and_of_nothing():
    assert re.search(r"qr: [4-9]\d passed, 0 failed", run("check", "qr", "--backend", "all").out)
    assert re.search(r"srht: [1-9]\d passed, 0 failed", run("check", "srht").out)
    assert "Did you mean 'cca/gram'" in refusal("check", "grm")


def test_check_on_chosen_backends():
    of_parts = sum(not check.backend for check in Suite("qr").checks())  # these need no backend
    for chosen in (["numpy"], ["numpy", "array-api-strict"]):
        out = run("check", "qr", *(word for name in chosen for word in ("--backend", name))).out
        counts = [int(count) for count in re.findall(r"(\d+) (?:passed|failed|skipped)", out)]
        assert sum(counts) == of_parts + sum(check.backend in chosen for check in Suite("qr").checks())
    wrong = refusal("check", "qr", "--backend", "nympy")
    assert "no backend is named 'nympy'; the backends are numpy, " in wrong


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no interval timers")
def test_check_ends_tests_at_the_time_limit(monkeypatch):
    from linspec import registry

    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    name = declare(Hangs, linspec.Needs(), ("iterative",))
    out = run("check", name, "--backend", "numpy", "--time-limit", 0.2, code=1).out
    assert "FAILED process: the check must end within 0.2 s of CPU time" in out
    lines, first = inspect.getsourcelines(Hangs)
    ended = int(re.search(r"it was ended in tests/test_kit_catches_liars.py:(\d+)\.", out)[1])
    assert lines[ended - first].strip() in {"while True:", "pass"}
    assert "not run: the check 'process' took more than 0.2 s" in out


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf"])
def test_check_refuses_time_limits_that_are_none(value: str):
    wrong = refusal("check", "qr", "--backend", "numpy", f"--time-limit={value}")
    assert "time_limit must be a finite number of seconds above 0; got" in wrong


def test_check_takes_any_time_limit():
    assert " 0 failed" in run("check", "qr", "--backend", "numpy", "--time-limit", "1e300").out


def test_check_on_a_backend_that_is_not_here_is_refused(monkeypatch):
    absent = replace(BACKENDS[0], name="absent", missing=lambda: "no absent")
    monkeypatch.setattr("linspec.testing.BACKENDS", (*BACKENDS, absent))
    assert "the backend absent is not here (no absent)" in refusal("check", "qr", "--backend", "absent")


class Parcel:
    """Data of a foreign library."""


@pytest.mark.parametrize(("sample", "code"), [(f"{__name__}:Parcel", 0), (None, 1)])
def test_check_of_an_adapter(monkeypatch, sample: str | None, code: int):
    from linspec import registry

    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    spec = linspec.OperatorSpec(
        name="parcels",
        matches=lambda data: isinstance(data, Parcel),
        adapt=lambda _: linspec.as_operator(np.arange(12.0).reshape(4, 3)),
        summary="Parcels of another library.",
        sample=sample,
    )
    linspec.register(spec)
    assert "Parcels of another library." in run("describe", "operator/parcels").out
    out = run("check", "parcels", code=code).out
    assert ("FAILED sample: the record names no sample" in out) == bool(code)
    assert f"parcels: {1 if code else 15} passed, {code} failed" in out


# ---- the demonstration ------------------------------------------------------------------------


def test_demo_finds_the_exact_correlations_and_draws(tmp_path: Path, monkeypatch):
    datasets = pytest.importorskip("sklearn.datasets")
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    out = run("demo", "--save").out
    images = datasets.load_digits().images
    left, right = (half.reshape(len(images), -1) for half in (images[:, :, :4], images[:, :, 4:]))
    expected = np.linalg.svd(whitened(left, 1000.0).T @ whitened(right, 1000.0), compute_uv=False)[:10]
    assert fact(out, "exact correlations").split() == [f"{value:.3f}" for value in expected]
    assert float(fact(out, "gram").split()[0]) == pytest.approx(expected.sum(), abs=1e-6)
    for solver in ("gram", "als", "appgrad"):
        share = float(fact(out, solver).split()[1])
        assert 99 < share <= 100
    assert (tmp_path / "linspec-demo.png").read_bytes().startswith(PNG)
    assert str(tmp_path / "linspec-demo.png") in out
    assert "Try next" in out
    np.testing.assert_array_equal(np.load("left.npy"), left)


def test_demo_quick_leaves_no_picture(tmp_path: Path, monkeypatch):
    pytest.importorskip("sklearn.datasets")
    monkeypatch.chdir(tmp_path)
    out = run("demo", "--quick").out
    assert "picture" not in out
    assert list(tmp_path.iterdir()) == []


# ---- tables and bars --------------------------------------------------------------------------


def test_plain_tables_line_up():
    lines = plain_table(("name", "value"), [("a", "1.5"), ("longer", "20")], right=("value",))
    assert lines == ["name    value", "------  -----", "a         1.5", "longer     20"]


def test_shares_never_round_up_to_all():
    assert percent(1.0) == "100.000 %"
    assert percent(0.9999999) == "99.999 %"
    assert percent(0.5) == "50.000 %"


def test_tables_on_a_terminal(monkeypatch, capsys):
    pytest.importorskip("rich")
    from linspec.cli import tables

    monkeypatch.setattr(tables, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    tables.show_table(("name", "value"), [("[b]markup[/b]", "1")])
    tables.show_facts([("label", "word " * 30)])
    out = capsys.readouterr().out
    assert "[b]markup[/b]" in out
    assert max(map(len, out.splitlines())) <= 60
    monkeypatch.setitem(sys.modules, "rich", None)
    tables.show_table(("name", "value"), [("plain", "1")])
    assert "plain  1" in capsys.readouterr().out


def test_the_share_that_is_done():
    """Digits of the residual, or the part of a budget that is spent: what will end the run first."""
    goal = Goal(tol=1e-6)
    at = lambda residual, passes=0.0: SimpleNamespace(residual=residual, passes=passes, seconds=0.0)  # noqa: E731
    assert goal.share(at(1.0)) == 0.0
    assert goal.share(at(1e-3)) == pytest.approx(0.5)
    assert goal.share(at(1e-9)) == 1.0
    assert Goal(tol=1e-6, max_passes=10).share(at(1.0, passes=4)) == pytest.approx(0.4)
    assert Goal().share(at(float("inf"))) == 0.0
