"""The answers that `linspec solve` shows: shares, intercepts, warnings, and what is said once."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("click")

from click.testing import CliRunner

import linspec as ls
from linspec.cli import main
from linspec.cli.columns import without_columns
from linspec.solving.solution import without_figures

N = 80
RNG = np.random.default_rng(4)
SHARED = RNG.standard_normal((N, 2))
X = SHARED @ RNG.standard_normal((2, 5)) + RNG.standard_normal((N, 5)) + 2.0
Y = np.hstack([SHARED + RNG.standard_normal((N, 2)), RNG.standard_normal((N, 1))]) + 5.0


def run(*args: object, code: int = 0) -> SimpleNamespace:
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert result.exit_code == code, f"{result.output}\n{result.stderr}\n{result.exc_info}"
    return SimpleNamespace(out=result.stdout, err=result.stderr)


def fact(out: str, label: str) -> str:
    """Return the text beside a label."""
    return next(line for line in out.splitlines() if line.startswith(label))[len(label) :].strip()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    np.save("Y.npy", Y)
    np.save("y.npy", Y[:, 0])
    return tmp_path


def write(name: str, columns: dict[str, np.ndarray]) -> str:
    table = np.column_stack(list(columns.values()))
    lines = [",".join(f'"{head}"' for head in columns), *(",".join(map(repr, row)) for row in table.tolist())]
    Path(name).write_text("\n".join(lines) + "\n")
    return name


def test_shares_of_an_svd_are_those_of_scikit_learn(folder: Path) -> None:
    pytest.importorskip("sklearn")
    from sklearn.decomposition import PCA

    out = run("solve", "svd", "X.npy", "-k", 3, "--center", "--explained").out
    assert out.splitlines()[-5].split() == ["component", "of", "the", "variance", "cumulative"]
    expected = PCA(3).fit(X).explained_variance_ratio_
    for line, share, total in zip(out.splitlines()[-3:], expected, np.cumsum(expected), strict=True):
        assert line.split()[1::2] == [f"{100 * share:.3f}", f"{100 * total:.3f}"]


def test_shares_of_an_svd_take_weights(folder: Path) -> None:
    w = np.arange(N) % 3 + 1.0
    np.save("w.npy", w)
    out = run("solve", "svd", "X.npy", "-k", 1, "--center", "--sample-weight", "w.npy", "--explained").out
    repeated = np.repeat(X, w.astype(int), axis=0)
    S = np.linalg.svd(repeated - repeated.mean(axis=0), compute_uv=False)
    assert out.splitlines()[-1].split()[1] == f"{100 * S[0] ** 2 / np.sum(S**2):.3f}"


@pytest.mark.parametrize("ridge", [0.0, 30.0])
def test_least_squares_has_an_intercept_as_in_scikit_learn(folder: Path, ridge: float) -> None:
    pytest.importorskip("sklearn")
    from sklearn.linear_model import Ridge

    out = run("solve", "least-squares", "X.npy", "y.npy", "--ridge", ridge, "--out", "r.npz").out
    fitted = Ridge(ridge).fit(X, Y[:, 0])
    assert float(fact(out, "intercept")) == pytest.approx(fitted.intercept_, rel=1e-5)
    assert "with an intercept" in fact(out, "problem")
    np.testing.assert_allclose(ls.load_solution("r.npz").x, fitted.coef_, rtol=1e-8)


def test_residuals_have_the_words_of_the_summary(folder: Path) -> None:
    """The certificate of a saved answer and the line of the command say the same of the residual."""
    np.save("two.npy", Y)
    for solver, option in (("gram", ()), ("als", ("-o", "form=implicit"))):
        out = run(
            "solve", "cca", "X.npy", "two.npy", "-k", 1, "--solver", solver, *option, "--out", "c.npz"
        ).out
        solution = ls.load_solution("c.npz")
        words = str(solution.summary()).split("residual", 1)[1].split("(", 1)[1].split(")")[0]
        assert f"({words})" in fact(out, "residual")
        assert words == solution.about_residual
        assert words.startswith("squared, ")


def test_without_an_intercept_the_problem_says_so(folder: Path) -> None:
    out = run("solve", "least-squares", "X.npy", "y.npy", "--no-center", "--out", "r.npz").out
    assert "without an intercept" in fact(out, "problem")
    assert "\nintercept" not in out
    expected = np.linalg.lstsq(X, Y[:, 0], rcond=None)[0]
    np.testing.assert_allclose(ls.load_solution("r.npz").x, expected, rtol=1e-8)


def test_several_ridges_and_right_hand_sides_make_a_row_each_with_names(folder: Path) -> None:
    columns = {f"x {j}": X[:, j] for j in range(5)} | {f"y{j}": Y[:, j] for j in range(3)}
    path = write("table.csv", columns)
    out = run("solve", "least-squares", path, "--target-column", "y0..y2", "--ridge", "1,10").out
    head, _, *rows = out.splitlines()[-4:]
    assert re.split(r"  +", head)[-3:] == ["largest, y0", "largest, y1", "largest, y2"]
    assert "intercept" not in head  # there are three
    C = X - X.mean(axis=0)
    for row, ridge in zip(rows, (1.0, 10.0), strict=True):
        x = np.linalg.solve(C.T @ C + ridge * np.eye(5), C.T @ Y)
        assert row.split()[:2] == [f"{ridge:g}", f"{np.linalg.norm(x):.6g}"]
        best = int(np.argmax(np.abs(x[:, 0])))
        assert f"  x {best} {x[best, 0]:.4g},  x " in row


def test_estimates_are_shown_only_if_asked_for(folder: Path) -> None:
    command = ("solve", "svd", "X.npy", "-k", 1)
    assert "chosen" not in run(*command).out
    assert "takes the least time" in fact(run(*command, "--verbose").out, "chosen")


def test_a_residual_is_said_once_with_its_tolerance(folder: Path) -> None:
    out = run("solve", "cca", "X.npy", "Y.npy", "-k", 1).out
    assert "tolerance 1e-06" in fact(out, "residual")
    assert "residual" not in fact(out, "status").removeprefix(
        "converged: The residual of the returned arrays"
    )
    assert "tolerance 1e-06" not in fact(out, "status")
    single = "Done. (residual 1e-05, tolerance 0.0001 (the least that products in float32 allow))"
    assert "".join(without_figures(single, 1e-5, 1e-4)) == "Done. (the least that products in float32 allow)"


def test_values_that_a_ridge_has_shrunk_are_said_to_be_so(folder: Path) -> None:
    for ridge, said in ((0, False), (5, True)):
        out = run("solve", "cca", "X.npy", "Y.npy", "-k", 1, "--ridge", ridge).out
        assert fact(out, "correlations").endswith("with the ridge") is said
        out = run("bootstrap", "cca", "X.npy", "Y.npy", "-k", 1, "--ridge", ridge, "--draws", 5).out
        assert ("canonical correlation, with the ridge" in out) is said
    out = run("solve", "cca", "X.npy", "Y.npy", "-k", 1, "--ridge-y", 5).out
    assert fact(out, "correlations").endswith("with the ridge")
    assert "with the ridge" not in run("solve", "least-squares", "X.npy", "y.npy", "--ridge", 5).out


def test_a_json_result_states_its_tolerance_also_if_it_is_the_default(folder: Path) -> None:
    for options, tol in (((), 1e-6), (("--tol", 1e-3), 1e-3)):
        run("solve", "svd", "X.npy", "-k", 1, "--solver", "block-krylov", *options, "--out", "r.json")
        assert json.loads(Path("r.json").read_text())["tol"] == tol


# ---- one unscaled column ------------------------------------------------------------------------


def test_a_column_that_makes_up_the_first_component_is_named_with_remedies_that_work(folder: Path) -> None:
    columns = {f"x{j}": X[:, j] for j in range(5)} | {"row id": 40.0 * np.arange(N)}
    path = write("table.csv", columns)
    command = ("solve", "svd", path, "-k", 1, "--center")
    said = run(*command).err
    assert said.startswith("Warning: the column 'row id' has ")
    assert said.count("\n") == 1
    assert "--scale" in said
    assert """--columns '~"row id"' leaves it out""" in said
    assert run(*command, "--scale").err == ""
    assert run(*command, "--columns", '~"row id"').err == ""
    np.save("wide.npy", np.column_stack(list(columns.values())))
    assert "the column number 5, from 0, has" in run("solve", "svd", "wide.npy", "-k", 1, "--center").err


def test_ordinary_columns_two_columns_and_no_centring_give_no_warning(folder: Path) -> None:
    assert run("solve", "svd", "X.npy", "-k", 1, "--center").err == ""
    np.save("two.npy", np.column_stack([X[:, 0], 1000.0 * np.arange(N)]))
    assert run("solve", "svd", "two.npy", "-k", 1, "--center").err == ""
    np.save("three.npy", np.column_stack([X[:, :2], 1000.0 * np.arange(N)]))
    assert run("solve", "svd", "three.npy", "-k", 1).err == ""


def test_names_are_quoted_for_the_shell() -> None:
    assert without_columns("my_id") == "--columns '~my_id'"
    assert without_columns("it's", "b") == """--columns '~"it'"'"'s","b"'"""


# ---- remedies -----------------------------------------------------------------------------------


def test_remedies_for_missing_values_name_the_column_and_work(folder: Path) -> None:
    path = write("gaps.csv", {"a": X[:, 0], "b": X[:, 1], "empty one": np.full(N, np.nan)})
    Path(path).write_text(Path(path).read_text().replace(",nan", ","))
    said = run("solve", "svd", path, "-k", 1, code=2).err
    assert "--drop-missing" in said
    assert """'FILE:~"empty one"'""" in said
    said = run("solve", "svd", path, "-k", 1, "--drop-missing", code=2).err
    assert """Leave columns with many gaps out: 'gaps.csv:~"empty one"'.""" in said
    run("solve", "svd", 'gaps.csv:~"empty one"', "-k", 1)


def test_remedies_for_missing_values_of_the_second_file_work(folder: Path) -> None:
    write("x.csv", {"a": X[:, 0], "b": X[:, 1]})
    write("y.csv", {"u": np.full(N, np.nan), "v": Y[:, 0], "w": Y[:, 1], "x's": Y[:, 2]})
    Path("y.csv").write_text(Path("y.csv").read_text().replace("nan", "").replace("x's", "it's, x"))
    command = ("solve", "cca", "x.csv")
    said = run(*command, "y.csv", "-k", 1, code=2).err
    assert "'FILE:~u'" in said
    for second in ("y.csv", "y.csv:u..w", 'y.csv:~"it\'s, x"'):
        said = run(*command, second, "-k", 1, "--drop-missing", code=2).err
        (remedy,) = shlex.split(said.partition("many gaps out: ")[2].strip().removesuffix("."))
        assert remedy.startswith("y.csv:")
        assert run(*command, remedy, "-k", 1).err == ""
    said = run(*command, "y.csv:u", "-k", 1, "--drop-missing", code=2).err
    assert "Leave columns with many gaps out." in said


def test_infinities_are_no_missing_values(folder: Path) -> None:
    data = X.copy()
    for value, missing in ((np.inf, False), (-np.inf, False), (np.nan, True)):
        data[3, 2] = value
        np.save("bad.npy", data)
        assert ("--drop-missing" in run("solve", "svd", "bad.npy", "-k", 1, code=2).err) is missing


# ---- compare ------------------------------------------------------------------------------------


def test_compare_names_the_solvers_that_it_leaves_out_or_stops(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = run("compare", "cca", "X.npy", "Y.npy", "-k", 1, "--max-passes", 3).out
    assert out.splitlines()[-1].startswith("naive-gradient left out, as a demonstration of failure.")
    monkeypatch.setattr("linspec.cli.compare.LEAST_SECONDS", 1e-9)
    monkeypatch.setattr("linspec.cli.compare.TIMES", 1.5)
    out = run("compare", "cca", "X.npy", "Y.npy", "-k", 1, "--max-passes", 3, "--max-seconds", 60).out
    left, named = out.splitlines()[-1].split(". To run them, name them: --solvers ")
    assert "left out, as estimated to take more than" in left
    assert set(named.split(",")) >= {"naive-gradient", "direct", "lobpcg"}
    assert not re.search(r"^(direct|lobpcg) ", out, re.MULTILINE)


def test_compare_stops_a_slow_solver_but_not_one_that_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("linspec.cli.compare.LEAST_SECONDS", 0.2)
    rng = np.random.default_rng(0)
    np.save("X.npy", rng.standard_normal((3000, 120)))
    np.save("Y.npy", rng.standard_normal((3000, 120)))
    command = ("compare", "cca", "X.npy", "Y.npy", "-k", 5)
    out = run(*command, "--out", "rows.json").out
    saved = json.loads(Path("rows.json").read_text())
    limit = saved["about"]["max_seconds"]
    stopped = [row["solver"] for row in saved["rows"] if row["status"] == "BUDGET"]
    assert stopped
    said = f"{', '.join(stopped)} stopped after {limit:.3g} s. Named solvers run without a limit of time: "
    assert said in out
    last = run(*command, "--max-passes", 10**6).out.splitlines()[-1]
    assert re.search(r" stopped after [0-9.]+ s\. Named solvers run without a limit of time: ", last)
    last = run(*command, "--max-seconds", limit).out.splitlines()[-1]
    assert "stopped" not in last  # by a limit of the user's own, which named solvers have, too
    monkeypatch.setattr("linspec.cli.compare.LEAST_SECONDS", 600.0)
    last = run(*command, "--max-passes", 2).out.splitlines()[-1]
    assert "stopped" not in last
    out = run(*command, "--solvers", "gram,als", "--max-passes", 5).out
    assert "stopped" not in out
    assert "left out" not in out


# ---- columns of one file ------------------------------------------------------------------------


def test_the_target_is_no_predictor_of_itself(folder: Path) -> None:
    """`--columns ~id` leaves ids out; the target of the same file was left in, with coefficient 1."""
    file = write("one.csv", {"id": np.arange(N), "a": X[:, 0], "b": X[:, 1], "y": Y[:, 0]})
    run("solve", "least-squares", file, "--columns", "~id", "--target-column", "y", "--out", "a.npz")
    found = ls.load_solution("a.npz")
    assert found.column_names["A"] == ("a", "b")
    design = np.column_stack([np.ones(N), X[:, :2]])
    np.testing.assert_allclose(found.x.ravel(), np.linalg.lstsq(design, Y[:, 0])[0][1:], rtol=1e-9)


@pytest.mark.parametrize(
    "arguments", [("--columns", "a,y", "--target-column", "y"), ("--columns", "a..y", "--target-column", "b")]
)
def test_a_column_of_both_matrices_is_refused(folder: Path, arguments: tuple[str, ...]) -> None:
    file = write("one.csv", {"a": X[:, 0], "b": X[:, 1], "y": Y[:, 0]})
    shared = arguments[-1]
    refused = run("solve", "least-squares", file, *arguments, code=2)
    assert f"A and B both have the column '{shared}' of one.csv, which would explain itself" in refused.err


INPUTS = {"weights": "--sample-weight", "confounds": "--confounds", "groups": "--groups", "begun": "--start"}


@pytest.mark.parametrize(
    ("command", "suffix", "name"),
    [
        ("solve", ".npz", "weights"),
        ("solve", ".npz", "confounds"),
        ("solve", ".npz", "begun"),
        ("compare", ".json", "weights"),
        ("cross-validate", ".csv", "confounds"),
        ("cross-validate", ".csv", "groups"),
        ("permute", ".csv", "weights"),
        ("bootstrap", ".csv", "groups"),
    ],
)
def test_no_file_that_is_read_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, suffix: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", np.eye(5))
    path = Path(f"{name}{suffix}")
    path.write_bytes(b"1\n2\n3\n4\n5\n")
    said = run(command, "cca", "X.npy", "X.npy", "-k", 1, INPUTS[name], path, "--out", path, code=2).err
    assert f"--out: '{path}' is read by this command. Name another file." in said
    assert path.read_bytes() == b"1\n2\n3\n4\n5\n"


# ---- requests that were answered with something else --------------------------------------------


def test_the_reason_of_the_first_of_several_ridges_is_shown(folder: Path) -> None:
    command = ("solve", "cca", "X.npy", "Y.npy", "-k", 1, "--ridge")
    reason = fact(run(*command, 1, "--verbose").out, "chosen")
    out = run(*command, "1,10", "--verbose").out
    assert fact(out, "chosen, first ridge") == reason
    assert "chosen" not in run(*command, "1,10").out


@pytest.mark.parametrize(
    "command", [("solve", "pca", "X.npy", "-k", 1), ("PCA",), ("compare", "pca", "--help")]
)
def test_principal_components_are_named_by_their_command(folder: Path, command: tuple[object, ...]) -> None:
    said = run(*command, code=2).err
    assert said.count("\n") == 1
    assert "`linspec solve svd FILE -k K --center`" in said
    assert "Did you mean" not in said
