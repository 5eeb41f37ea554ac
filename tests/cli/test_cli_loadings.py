"""`solve --loadings`: the correlations of columns with scores, with names, for every problem that has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click")

from click.testing import CliRunner

import linspec as ls
from linspec.cli import main
from linspec.cli.offered import kind_named, offered

N = 80
RNG = np.random.default_rng(5)
SHARED = RNG.standard_normal((N, 2))
X = SHARED @ RNG.standard_normal((2, 4)) + RNG.standard_normal((N, 4)) + 2.0
Y = SHARED @ RNG.standard_normal((2, 3)) + RNG.standard_normal((N, 3))
Z = RNG.standard_normal((N, 2))
NAMES = {"X": ("height", "weight", "shoe size", "age"), "Y": ("u", "v", "w")}


def run(*args: object, code: int = 0) -> str:
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert result.exit_code == code, f"{result.output}\n{result.exc_info}"
    return result.stdout if code == 0 else result.stderr


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, matrix in (("X", X), ("Y", Y)):
        np.savetxt(
            f"{name}.csv", matrix, delimiter=",", header=",".join(NAMES[name]), comments="", fmt="%.17g"
        )
    np.save("X.npy", X)
    np.save("Z.npy", Z)
    np.savetxt("y.csv", np.repeat([0, 1], N // 2), header="class", comments="", fmt="%d")
    return tmp_path


def tables(text: str) -> dict[str, tuple[list[str], np.ndarray]]:
    """Return the printed tables by matrix: names of the columns, and loadings."""
    found = {}
    for part in text.split("\nloadings of ")[1:]:
        name, head, _, *lines = part.rstrip("\n").splitlines()
        width = len(head.split()) - 1
        cells = [line.rsplit(maxsplit=width) for line in lines if line]
        found[name] = [row[0] for row in cells], np.array([[float(c) for c in row[1:]] for row in cells])
    return found


def correlations(A: np.ndarray, scores: np.ndarray) -> np.ndarray:
    k = scores.shape[1]
    return np.corrcoef(A, scores, rowvar=False)[:-k, -k:]


def test_loadings_of_canonical_pairs_are_correlations_with_the_variates() -> None:
    found = tables(run("solve", "cca", "X.csv", "Y.csv", "-k", 2, "--loadings"))
    assert {name: tuple(names) for name, (names, _) in found.items()} == NAMES
    Qx, Qy = (np.linalg.qr(A - A.mean(axis=0))[0] for A in (X, Y))
    U, _, Vt = np.linalg.svd(Qx.T @ Qy)
    for name, A, scores in (("X", X, Qx @ U[:, :2]), ("Y", Y, Qy @ Vt[:2].T)):
        np.testing.assert_allclose(np.abs(found[name][1]), np.abs(correlations(A, scores)), atol=6e-5)


def test_loadings_are_those_of_what_confounds_leave() -> None:
    found = tables(run("solve", "svd", "X.csv", "-k", 2, "--center", "--confounds", "Z.npy", "--loadings"))
    D = np.column_stack([np.ones(N), Z])
    rest = X - D @ np.linalg.lstsq(D, X, rcond=None)[0]
    scores = rest @ np.linalg.svd(rest)[2][:2].T
    np.testing.assert_allclose(np.abs(found["A"][1]), np.abs(correlations(rest, scores)), atol=6e-5)


def test_columns_without_names_are_numbered() -> None:
    found = tables(run("solve", "svd", "X.npy", "-k", 1, "--center", "--loadings"))
    assert found["A"][0] == ["0", "1", "2", "3"]


ARGUMENTS = {
    "cca": ("X.csv", "Y.csv", "-k", 1),
    "deep-cca": ("X.csv", "Y.csv", "-k", 1, "--width", 4, "--epochs", 1),
    "discriminant": ("X.csv", "y.csv"),
    "kernel-cca": ("X.csv", "Y.csv", "-k", 1, "--ridge", 1),
    "multiset-cca": ("X.csv", "Y.csv", "-k", 1),
    "preimage-cca": ("X.csv", "Y.csv", "-k", 1),
    "pls": ("X.csv", "Y.csv", "-k", 1),
    "pls-regression": ("X.csv", "Y.csv", "-k", 1),
    "svd": ("X.csv", "-k", 1),
}


@pytest.mark.parametrize("problem", ARGUMENTS)
def test_every_problem_whose_answers_have_loadings_shows_them(problem: str) -> None:
    if problem == "deep-cca":
        pytest.importorskip("torch")
    found = tables(run("solve", problem, *ARGUMENTS[problem], "--loadings"))
    assert next(iter(found.values()))[0] == list(NAMES["X"])
    assert all(np.abs(values).max() <= 1 for _, values in found.values())


def test_records_for_the_command_line_say_what_answers_can_do() -> None:
    """A record that loads no class repeats what the class of the answers has: `loadings_table` and `score`."""
    for name in offered():
        kind, answer = kind_named(name), ls.get_problem(name).solution
        assert kind.loadings == hasattr(answer, "loadings_table"), name
        assert kind.scored == hasattr(answer, "score"), name


def test_loadings_are_of_one_answer() -> None:
    assert "--loadings is for one answer" in run(
        "solve", "cca", "X.csv", "Y.csv", "-k", 1, "--ridge", "1,2", "--loadings", code=2
    )
    assert "No such option" in run("solve", "least-squares", "X.csv", "Y.csv", "--loadings", code=2)
