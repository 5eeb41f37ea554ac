"""The command line over several values, with rows held out, and what its pictures show."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

click = pytest.importorskip("click")

from click.testing import CliRunner  # noqa: E402

import linspec as ls  # noqa: E402
from linspec.cli import main, plots  # noqa: E402
from linspec.cli.outputs import Target  # noqa: E402
from linspec.studies.comparison import split  # noqa: E402

with_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch")


def run(*args: object, code: int = 0) -> SimpleNamespace:
    """The output of a command, whose exit status must be `code`."""
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert result.exit_code == code, f"{result.output}\n{result.stderr}\n{result.exc_info}"
    return SimpleNamespace(out=result.stdout, err=result.stderr)


def refusal(*args: object) -> str:
    """The one line with which a command refuses before any work."""
    result = run(*args, code=2)
    assert result.out == ""
    assert result.err.startswith("Error: ")
    assert result.err.count("\n") == 1
    return result.err


@pytest.fixture
def curved(tmp_path: Path) -> SimpleNamespace:
    """Two views related by a square, as files: no linear weights see it."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((300, 3)), rng.standard_normal((300, 2))
    Y[:, 0] = X[:, 0] ** 2 + 0.2 * Y[:, 0]
    for name, view in (("X", X), ("Y", Y)):
        np.save(tmp_path / f"{name}.npy", view)
    return SimpleNamespace(X=X, Y=Y, folder=tmp_path, files=(tmp_path / "X.npy", tmp_path / "Y.npy"))


def figures(path: Path) -> list[dict]:
    return json.loads(path.read_text())["rows"]


# ---- several values ---------------------------------------------------------------------------


def test_kernels_scales_and_ridges_are_crossed_and_judged_on_held_out_rows(curved):
    out = curved.folder / "c.json"
    args = ("--kernel", "rbf", "--kernel", "polynomial,linear", "--scale-factor", "0.5,1", "--ridge", "1,0.1")
    told = run("compare", "kernel-cca", *curved.files, "-k", 1, *args, "--held-out", 0.3, "--solvers", "kcca", "--out", out).out  # noqa: E501  # fmt: skip
    rows = figures(out)
    # Of the three kernels only rbf has a scale: (2 + 1 + 1) x 2 ridges.
    assert len(rows) == len({row["variant"] for row in rows}) == 8
    assert all(row["status"] == "CONVERGED" for row in rows)
    best = max(rows, key=lambda row: row["score"])
    assert best["score"] > 0.9  # the square is found
    assert max(row["score"] for row in rows if row["values"]["kernel"] == "linear") < 0.3
    assert f"the best is kcca, {best['variant']}" in told
    assert "kernel-cca, k = 1, centred, 0.3 of the rows held out" in told
    for row in rows:
        line = next(line for line in told.splitlines() if f"  {row['variant']}  " in line)
        assert f"{row['score']:.6f}" in line


def test_the_command_does_what_the_function_does(curved):
    out = curved.folder / "c.json"
    args = ("compare", "cca", *curved.files, "-k", 2, "--ridge", "0,30", "--solvers", "gram,als")
    run(*args, "--held-out", 0.25, "--seed", 4, "--out", out, "-o", "form=implicit", "--tol", 1e-9)
    problems = {f"ridge {r}": ls.CCA(curved.X, curved.Y, k=2, ridge=float(r)) for r in (0, 30)}
    found = ls.compare(problems, ["gram", "als"], held_out=0.25, rng=4, form="implicit", tol=1e-9)
    for told, expected in zip(figures(out), found.rows, strict=True):
        assert (told["variant"], told["solver"]) == (expected["problem"], expected["solver"])
        exact = ("status", "passes", "iterations", "products")
        assert [told[name] for name in exact] == [expected[name] for name in exact]
        for name in ("score", "objective"):
            assert told[name] == pytest.approx(expected[name], rel=1e-12)
    assert json.loads(out.read_text())["about"]["seed"] == 4


def test_an_option_that_is_given_twice_is_tried_twice(curved):
    out = curved.folder / "c.json"
    args = ("compare", "cca", *curved.files, "-k", 1, "--solvers", "gram,als", "--out", out)
    told = run(*args, "-o", "als.oversample=0", "-o", "als.oversample=1").out
    assert [(row["solver"], row["variant"]) for row in figures(out)] == [
        ("gram", ""),
        ("als", "als.oversample 0"),
        ("als", "als.oversample 1"),
    ]
    assert "PCC" in told  # the problem is one, so shares of the best mean something


def test_a_solver_that_runs_out_of_memory_leaves_the_others(curved, monkeypatch):
    def solve(self, problem, run):
        raise MemoryError

    monkeypatch.setattr(ls.get_solver("svd/lanczos"), "solve", solve)
    out = curved.folder / "c.json"
    told = run("compare", "svd", curved.files[0], "-k", 1, "--solvers", "lanczos,direct", "--out", out).out
    assert [row["status"] for row in figures(out)] == ["FAILED", "CONVERGED"]
    assert "lanczos ran out of memory" in told


def test_what_is_wrong_with_any_value_is_told_before_the_first_run(curved):
    kernel = ("compare", "kernel-cca", *curved.files, "-k", 1, "--ridge", "1")
    assert "must be above 0 for both views; got 0" in refusal(*kernel[:-1], "1,0")
    assert "'some' is not a valid float" in refusal(*kernel[:-1], "1,some")
    assert "'rbg' is not one of" in refusal(*kernel, "--kernel", "rbf,rbg")
    assert "'' is not a valid float" in refusal(*kernel, "--scale-factor", "1,")
    assert "not a fraction between 0 and 1" in refusal(*kernel, "--held-out", 1)
    assert "at least 2 rows must be held out" in refusal(*kernel, "--held-out", 1e-4)
    assert "factor" in refusal(*kernel, "--scale-factor", "1,-1")
    assert "a number > 0" in refusal(*kernel, "--solvers", "nystrom-lobpcg", "-o", "tol=1", "-o", "tol=0")
    assert "must end in .json" in refusal(*kernel, "--out", "c.npz")
    assert "No such option" in refusal("compare", "svd", curved.files[0], "-k", 1, "--held-out", 0.2)
    assert "n x n; got 300 x 3" in refusal(*kernel, "--kernel", "rbf,precomputed")


def test_the_help_says_what_takes_several_values():
    told = run("compare", "kernel-cca", "--help").out
    assert "--scale-factor NUMBER,…" in told
    assert "default: rbf" in told
    assert "--held-out" in told
    assert "NUMBER,…" not in run("solve", "kernel-cca", "--help").out
    assert "--held-out" not in run("solve", "svd", "--help").out


# ---- one solve, rows held out -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "given", "message"),
    [
        ("kernel-cca", ("--degree", 3), "--degree has no effect with --kernel rbf. Leave it out."),
        (
            "kernel-cca",
            ("--kernel", "linear", "--kernel-scale", 3),
            "--kernel-scale has no effect with --kernel linear",
        ),
        ("kernel-ridge", ("--offset", 0), "--offset has no effect with --kernel rbf"),
        ("preimage-cca", ("--scale-factor", 2), "--scale-factor has no effect with --kernel linear"),
    ],
)
@pytest.mark.parametrize("command", ["solve", "compare", "cross-validate"])
def test_a_parameter_that_the_kernel_does_not_have_is_refused(curved, command, problem, given, message):
    k = () if problem == "kernel-ridge" else ("-k", 1)
    ridge = () if problem == "preimage-cca" else ("--ridge", 1)
    assert message in refusal(command, problem, *curved.files, *k, *ridge, *given)


def test_a_parameter_of_one_of_two_kernels_is_taken(curved):
    given = ("-k", 1, "--ridge", 1, "--kernel", "linear", "--kernel-y", "polynomial", "--degree", 3)
    assert "polynomial" in run("solve", "kernel-cca", *curved.files, *given).out


def test_classes_of_held_out_rows_are_predicted(tmp_path):
    """The accuracy is that of scikit-learn's discriminant of the same rows."""
    analysis = pytest.importorskip("sklearn.discriminant_analysis").LinearDiscriminantAnalysis
    rng = np.random.default_rng(0)
    y = np.arange(200) % 3
    X = rng.standard_normal((200, 4)) + np.eye(3, 4)[y]
    files = tmp_path / "X.npy", tmp_path / "y.npy"
    for file, array in zip(files, (X, y), strict=True):
        np.save(file, array)
    out = run("solve", "discriminant", *files, "-k", 2, "--held-out", 0.3, "--seed", 4).out
    problem = ls.Discriminant(X, ls.targets.lda(y), 2)
    training, rows = split(problem, 0.3, 4)
    held = rows.labels.astype(int)
    peer = analysis().fit(np.asarray(training.X.dense()), training.labels.astype(int))
    accuracy = peer.score(np.asarray(rows.matrices[0].dense()), held)
    assert f", accuracy {accuracy:.6f}, on 60 rows not fitted" in out


@pytest.mark.parametrize("problem", ["cca", "kernel-cca"])
def test_solve_scores_rows_that_it_has_not_fitted(curved, problem: str):
    out = curved.folder / "r.json"
    told = run("solve", problem, *curved.files, "-k", 1, "--ridge", 1, "--held-out", 0.2, "--out", out).out
    saved = json.loads(out.read_text())["about"]
    line = next(line for line in told.splitlines() if line.startswith("held out"))
    assert line.split()[2:6] == ["total", "correlation", "captured", f"{saved['score']:.6f},"]
    assert "on 60 rows not fitted" in line
    assert (saved["score"] > 0.9) == (problem == "kernel-cca")


# ---- deep CCA ---------------------------------------------------------------------------------


@with_torch
def test_deep_cca_is_solved_and_its_nets_are_varied(curved):
    out = curved.folder / "d.json"
    nets = ("--depth", 1, "--epochs", 3, "--batch", 100)
    told = run(
        "solve", "deep-cca", *curved.files, "-k", 1, "--width", 6, *nets, "--held-out", 0.2, "--out", out
    )
    saved = json.loads(out.read_text())
    assert saved["iterations"] == 3
    assert "Net(3-6-1) and Net(2-6-1)" in told.out
    assert saved["about"]["options"]["batch"] == 100
    assert -1 <= saved["about"]["score"] <= 1
    run(
        "compare",
        "deep-cca",
        *curved.files,
        "-k",
        1,
        "--width",
        "4,6",
        *nets,
        "--held-out",
        0.2,
        "--out",
        out,
    )
    assert [row["variant"] for row in figures(out)] == ["width 4", "width 6"]
    assert figures(out)[1]["score"] == saved["about"]["score"]
    assert "has no option" not in told.err


def test_deep_cca_says_what_it_lacks(curved, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    said = refusal("solve", "deep-cca", *curved.files, "-k", 1)
    assert "needs torch" in said
    assert "pip install linspec[torch]" in said
    assert "an integer >= 1" in refusal("solve", "deep-cca", *curved.files, "-k", 1, "--width", 0)


# ---- pictures ---------------------------------------------------------------------------------


@pytest.fixture
def drawn(monkeypatch) -> list:
    """The figures that commands write."""
    pytest.importorskip("matplotlib")
    found = []

    def keep(figure, stream, suffix):
        figure.canvas.draw()  # whatever cannot be drawn fails here
        found.append(figure)

    monkeypatch.setattr(plots, "save", keep)
    return found


def all_axes(figure) -> list:
    return [axes for axes in figure.findobj() if type(axes).__name__ == "Axes"]


def test_variates_of_fitted_and_held_out_rows_are_drawn(curved, drawn):
    target = curved.folder / "p.png"
    run("solve", "kernel-cca", *curved.files, "-k", 2, "--ridge", 1, "--solver", "kcca", "--held-out", 0.2, "--plot", target)  # noqa: E501  # fmt: skip
    numbers, first, second = all_axes(drawn[0])
    problem = ls.get_problem("kernel-cca")(curved.X, curved.Y, k=2, ridge=1.0)
    found = ls.compare(problem, "kcca", held_out=0.2, rng=0)
    solution = found.solutions[0]
    lines = {line.get_label(): line.get_ydata() for line in numbers.get_lines()}
    np.testing.assert_allclose(lines["fitted"], solution.correlations, rtol=1e-12)
    assert (
        abs(lines["held-out rows"][0] - found.entries[0].score) < 0.2
    )  # of one pair, and not of the best rotation
    for axes in (first, second):
        fitted, held_out = (part.get_offsets() for part in axes.collections)
        assert (len(fitted), len(held_out)) == (240, 60)
        np.testing.assert_allclose(np.std(fitted, axis=0), 1.0)  # standard deviations of the fitted rows
    correlation = np.corrcoef(first.collections[1].get_offsets().T)[0, 1]
    assert correlation == pytest.approx(lines["held-out rows"][0], abs=1e-10)
    assert f"{correlation:.2f} held out" in first.get_title()
    assert first.get_xlabel().startswith("variate of X")
    assert first.get_ylabel().startswith("variate of Y")


@pytest.mark.parametrize("solver", ["als", "gram"])
def test_pairs_stand_below_the_course_of_a_run_or_beside_its_correlations(curved, drawn, solver: str):
    target = curved.folder / "p.png"
    run("solve", "cca", *curved.files, "-k", 2, "--solver", solver, "--plot", target)
    labels = [axes.get_ylabel() for axes in all_axes(drawn[0])]
    assert ("residual" in labels) == (solver == "als")
    assert labels.count("variate of Y / st. dev.") == 1
    assert len(labels) == (4 if solver == "als" else 3)


def test_many_rows_are_thinned_in_a_picture(tmp_path: Path, drawn):
    pytest.importorskip("matplotlib")
    from linspec.plots.answers import MOST_POINTS, Cloud

    rng = np.random.default_rng(0)
    clouds = [Cloud("fitted rows", *rng.standard_normal((2, 5000, 1)))]
    outcome = SimpleNamespace(direct=True, status="CONVERGED", solver="gram")
    layout = SimpleNamespace(value="S", value_label="value", at_most=1.0, certified=True)
    answer = type("Answer", (), {"layout": layout})()
    answer.S = [0.5]
    plots.draw_run(SimpleNamespace(name="cca"), answer, outcome, clouds, None, ".png")
    assert len(all_axes(drawn[0])[1].collections[0].get_offsets()) == MOST_POINTS


def test_runs_of_several_problems_have_a_line_each(curved, drawn):
    args = ("--kernel", "rbf,linear", "--ridge", "1,9", "--solvers", "kcca,nystrom-kcca", "--held-out", 0.3)
    out = curved.folder / "c.json"
    run(
        "compare",
        "kernel-cca",
        *curved.files,
        "-k",
        1,
        *args,
        "--out",
        out,
        "--plot",
        curved.folder / "c.png",
    )
    score, residual, seconds = all_axes(drawn[0])
    rows = figures(out)
    assert [tick.get_text() for tick in score.get_yticklabels()] == [
        f"{row['solver']}, {row['variant']}" for row in rows
    ]
    for axes, name in ((score, "score"), (residual, "residual"), (seconds, "seconds")):
        points = [line.get_xydata()[0] for line in axes.get_lines() if line.get_marker() == "o"]
        np.testing.assert_allclose(points, [(row[name], place) for place, row in enumerate(rows)])
    assert [axes.get_xlabel() for axes in (score, residual, seconds)] == [
        "score of the held-out rows",
        "residual",
        "seconds",
    ]
    (legend,) = drawn[0].legends
    assert [text.get_text() for text in legend.get_texts()][:2] == ["kcca", "nystrom-kcca"]


def test_held_out_scores_stand_beside_the_curves_of_one_problem(curved, drawn):
    run("compare", "cca", *curved.files, "-k", 1, "--held-out", 0.3, "--solvers", "als,gram", "--plot", curved.folder / "c.png")  # noqa: E501  # fmt: skip
    labels = [axes.get_xlabel() for axes in all_axes(drawn[0])]
    assert labels[-1] == "score of the held-out rows"
    assert len(labels) == 3


def test_a_picture_of_a_comparison_can_be_written(curved):
    pytest.importorskip("matplotlib")
    target = Target("--plot", "c.svg", curved.folder / "c.svg")
    run(
        "compare", "cca", *curved.files, "-k", 1, "--ridge", "1,2", "--solvers", "gram", "--plot", target.path
    )
    assert b"<svg" in target.path.read_bytes()
