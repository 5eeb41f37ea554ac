"""What a user of the commands sees: answers by an exact reference, studies, files, exit codes, Ctrl-C."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click")

import scipy.linalg
import scipy.sparse
import scipy.stats
from cli.running import NAMES, TOWN, N, X, Y, refusal, run

import linspec as ls

PATIENCE = 120


# ---- answers ------------------------------------------------------------------------------------


def correlations(X: np.ndarray, Y: np.ndarray, ridge: float = 0.0) -> np.ndarray:
    C = [V - V.mean(axis=0) for V in (X, Y)]
    roots = [scipy.linalg.sqrtm(V.T @ V + ridge * np.eye(V.shape[1])).real for V in C]
    return np.linalg.svd(np.linalg.solve(roots[0], C[0].T @ C[1]) @ np.linalg.inv(roots[1]), compute_uv=False)


COMMANDS: dict[str, list[str]] = {
    "cca X.npy Y.npy -k 2": [f"{value:.5g}" for value in correlations(X, Y)[:2]],
    "cca X.npy Y.npy -k 2 --ridge 10 --solver als": [f"{correlations(X, Y, 10.0)[0]:.4f}"],
    "cca people.csv --columns age..score --y-columns a..d -k 1": [
        *(f"{correlations(X, Y)[0]:.5g}", "largest weights"),
    ],
    "cca X.npy Y.npy -k 2 --loadings": ["loadings of X", "loadings of Y"],
    "cca X.npy Y.npy -k 2 --held-out 0.25": ["held out", "on 30 rows not fitted"],
    "svd X.npy -k 2": [f"{value:.5g}" for value in np.linalg.svd(X, compute_uv=False)[:2]],
    "svd S.npz -k 2": ["SparseOperator", "singular value"],
    "svd both.npz:Y -k 1 --solver lanczos --tol 1e-8": [f"{np.linalg.norm(Y, 2):.5g}"],
    "svd big.csv -k 1 --center": ["+ big 1"],
    "least-squares X.npy y.npy": ["center=True", "residual"],
    "discriminant people.csv --columns age..score --target-column kind": ["elm", "oak", "rows)"],
    "discriminant X.npy Y.npy --target none -k 1": ["eigenvalue"],
    "kernel-cca X.npy Y.npy -k 1 --ridge 1 --kernel rbf(scale=2)": ["RBF(scale=2, factor=1.0)"],
    "preimage-cca X.npy Y.npy -k 1 --bound 1.5": ["PreimageCCA(", "starts that agree"],
    "reduced-rank-regression X.npy Y.npy -k 2 --ridge 1": ["explained"],
    "ridge-many-targets X.npy Y.npy --ridges 1,10 --bands 2,3": ["held-out R²", "band2"],
    "multiset-cca X.npy Y.npy Z.npy -k 1 --view-weights 1,2,1": ["view_weights=", "agreement of X3"],
    "sumcor-cca X.npy Y.npy Z.npy -k 1": ["upper bound"],
}
"""What `linspec solve` shows; the first figures of some are those of a dense reference."""


@pytest.mark.parametrize("line", COMMANDS)
def test_solve_shows_the_answer(folder, line):
    out, _ = run(f"solve {line}")
    for fact in [*COMMANDS[line], "residual"]:
        assert fact in out


def test_files_have_the_answer_and_the_request(folder):
    run("solve cca X.npy Y.npy -k 2 --ridge 1 --ridge-y 2 --out a.npz --seed 3")
    exact = ls.solve(ls.CCA(X, Y, 2, ridge=(1.0, 2.0)))
    np.testing.assert_allclose(ls.load_solution("a.npz").x_weights, exact.x_weights, rtol=1e-9)
    run("solve cca X.npy Y.npy -k 2 --held-out 0.25 --out a.json --drop-missing")
    saved = json.loads(Path("a.json").read_text())
    about = saved["about"]
    assert (about["files"], about["k"], about["center"]) == ({"X": "X.npy", "Y": "Y.npy"}, 2, True)
    assert about["drop_missing"] == f"--drop-missing: 0 of {N} rows lack a value and are left out."
    assert (saved["status"], about["held_out"], about["linspec"]) == ("CONVERGED", 0.25, ls.__version__)
    found = ls.compare(ls.CCA(X, Y, 2), ["gram"], held_out=0.25, rng=0)
    assert about["score"] == pytest.approx(found.entries[0].score, rel=1e-12)


def test_compare_does_what_the_function_does(folder):
    files = "compare cca X.npy Y.npy -k 2"
    out, _ = run(f"{files} --ridge 0,10 --solvers gram,als -o oversample=0 --held-out 0.25 --out c.json")
    rows = json.loads(Path("c.json").read_text())["rows"]
    problems = {f"ridge {r:g}": ls.CCA(X, Y, 2, ridge=r) for r in (0.0, 10.0)}
    expected = ls.compare(problems, ["gram", "als"], held_out=0.25, rng=0, oversample=0)
    for row, entry in zip(rows, expected.entries, strict=True):
        assert (row["solver"], row["variant"], row["status"]) == (entry.solver, entry.problem, entry.status)
        assert row["score"] == pytest.approx(entry.score, rel=1e-9)
        assert f"{entry.score:.6g}" in out
    assert rows[1]["options"] == ["oversample=0"]
    out, _ = run(f"{files} --solvers als -o oversample=0 -o oversample=4")
    assert out.count("als, oversample=") == 2
    assert "left out as demonstrations of failure: naive-gradient" in run(files)[0]


def test_options_of_parts_and_checkpoints_reach_the_solver(folder):
    run("solve cca X.npy Y.npy -k 2 --solver als -o lstsq=cg -o lstsq.max_iterations=3 --out a.json")
    assert "max_iterations=3" in json.loads(Path("a.json").read_text())["about"]["options"]["lstsq"]
    np.save("W.npy", np.random.default_rng(1).standard_normal((N, 40)))
    options = "--solver block-krylov -o form=implicit --max-passes 3 --checkpoint c.ckpt"
    assert "--start" in run(f"solve svd W.npy -k 4 {options}")[0]
    out, _ = run("solve svd W.npy -k 4 -o form=implicit --start c.ckpt")
    assert "block-krylov" in out


# ---- studies --------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
SHARED = RNG.standard_normal((N, 1))
ONE = {
    "U.npy": SHARED @ RNG.standard_normal((1, 4)) + RNG.standard_normal((N, 4)) + 3.0,
    "V.npy": np.hstack([SHARED + 0.5 * RNG.standard_normal((N, 1)), RNG.standard_normal((N, 2))]),
}
"""Two views that share one variable."""


@pytest.fixture
def views(folder):
    for name, view in ONE.items():
        np.save(name, view)


def test_the_table_marks_the_setting_with_the_best_mean(views):
    out, _ = run("cross-validate cca U.npy V.npy --ks 1,2 --ridges 0,1000 --seed 3 --out scores.json")
    means: dict[tuple[float, int], list[float]] = {}
    for row in json.loads(Path("scores.json").read_text())["rows"]:
        means.setdefault((row["ridge"], row["k"]), []).append(row["score"])
    ridge, k = max(means, key=lambda setting: float(np.mean(means[setting])))
    (best,) = (line for line in out.splitlines() if line.endswith(" True"))
    assert best.split()[1:4] == [f"{ridge:g}", str(k), f"{np.mean(means[ridge, k]):.5g}"]
    assert float(best.split()[4]) == pytest.approx(scipy.stats.sem(means[ridge, k]), rel=0.05)
    assert f"The chosen setting: ridge {ridge:g}, {ridge:g} k {k}" in out


def test_a_file_of_scores_says_all_that_was_requested(views):
    line = "cross-validate cca X.npy Y.npy --ks 2,1 --ridges 0,1000 --ridge-y 3 --folds 3"
    run(f"{line} --out s.json")
    found = json.loads(Path("s.json").read_text())["about"]
    given = {"ks": [2, 1], "ridges": [0.0, 1000.0], "ridge_y": 3.0, "folds": 3, "method": "folds"}
    assert given.items() <= found.items()
    assert not {"k", "ridge"} & set(found)


def test_one_planted_pair_is_found_and_its_p_value_is_no_bare_zero(views):
    out, _ = run("permute cca U.npy V.npy -k 3 --permutations 199")
    assert "by wilks, 199 permutations: 1 of 3 canonical correlations at 5 %" in out
    (first,) = (line for line in out.splitlines() if line.split()[:1] == ["1"])
    assert re.search(r" 0\.005 +0\.005$", first)
    assert " 0\n" not in out
    found, _ = run("permute cca U.npy V.npy --permutations 199")  # without -k
    assert "1 of 3 canonical correlations" in found


def test_intervals_of_all_weights_are_written_by_the_names_of_columns(views):
    options = "--draws 30 --seed 2 --level 0.8 --groups people.csv:town --out b.csv"
    out, _ = run(f"bootstrap svd people.csv --columns age..score -k 2 --center {options}")
    expected = ls.bootstrap(ls.SVD(X, 2, center=True), draws=30, rng=2, level=0.8, groups=TOWN)
    with Path("b.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["matrix"], row["column"]) for row in rows] == [("A", name) for name in NAMES]
    for j, row in enumerate(rows):
        for i in range(2):
            ends = [float(row[f"component{i + 1} {end}"]) for end in ("lower", "upper")]
            np.testing.assert_allclose(ends, expected.weights["A"][:, j, i], rtol=1e-9)
    for i, value in enumerate(expected.solution.S):
        assert f"{value:.6g}" in out
        assert f"{expected.values[0, i]:.6g}" in out
    assert "80 %>" in out


def test_rotated_loadings_and_scores_are_those_of_the_function(folder):
    run("solve svd people.csv --columns age..score -k 2 --center --out a.npz")
    for method in ("varimax", "promax"):
        rotated = ls.rotate(ls.solve(ls.SVD(X, 2, center=True)), method)
        out, _ = run(f"rotate a.npz --method {method} --out loadings.csv")
        assert f"residual            {rotated.residual:.2g}" in out
        with Path("loadings.csv").open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        assert [row["column"] for row in rows] == NAMES
        loadings = [[float(row[f"component{i}"]) for i in (1, 2)] for row in rows]
        np.testing.assert_allclose(loadings, rotated.loadings, rtol=1e-7)
        run(f"transform a.npz people.csv --rotate {method} --ids id --out scores.csv")
        with Path("scores.csv").open(newline="") as stream:
            scores = [[float(row["component1"]), float(row["component2"])] for row in csv.DictReader(stream)]
        np.testing.assert_allclose(np.cov(np.transpose(scores)), rotated.correlations, atol=1e-9)
        np.testing.assert_allclose(scores, rotated.transform(X), atol=1e-7)
    run("solve cca X.npy Y.npy -k 2 --out c.npz")
    assert "an answer of linspec.SVD" in refusal("rotate c.npz")
    assert "an answer of linspec.SVD" in refusal("transform c.npz X.npy --rotate promax")
    assert "one of varimax, promax" in refusal("rotate a.npz --method quartimax")


def test_similarities_of_files_are_those_of_the_function(folder):
    files = ["people.csv:age..score", "Y.npy", "S.npz"]
    layers = dict(zip(files, [X, Y, np.where(abs(X) > 1, X, 0.0)], strict=True))
    out, _ = run(["similarity", *files, "--out", "s.json"])
    assert f"{ls.similarity(layers).values['cka'][0, 1]:.5g}" in out
    run(
        [
            "similarity",
            *files,
            "--measure",
            "pwcca",
            "--measure",
            "procrustes",
            "--rows",
            "9:",
            "--out",
            "s.csv",
        ]
    )
    found = ls.similarity({name: A[9:] for name, A in layers.items()}, ["pwcca", "procrustes"]).values
    with Path("s.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["measure"], row["layer"]) for row in rows] == [
        (name, file) for name in found for file in files
    ]
    values = [[float(row[file]) for file in files] for row in rows]
    np.testing.assert_allclose(values, np.vstack([*found.values()]), atol=1e-10)
    assert "two files or more" in refusal("similarity X.npy")
    assert "one of cka," in refusal("similarity X.npy Y.npy --measure CKA")
    np.save("few.npy", X[:9])
    assert "equally many rows" in refusal("similarity X.npy few.npy")


# ---- columns and files --------------------------------------------------------------------------


PICKED = {
    "age..weight": [0, 1, 2],
    "score,age": [4, 0],
    "~id,a..d,kind,town": [0, 1, 2, 3, 4],
    "height..height": [1],
    '"age"': [0],
}


def test_columns_by_name(folder):
    for text, picked in PICKED.items():
        run(f"solve svd people.csv:{text} -k 1 --out s.npz")
        saved = ls.load_solution("s.npz")
        assert saved.column_names["A"] == tuple(NAMES[j] for j in picked)
        assert saved.S[0] == pytest.approx(np.linalg.norm(X[:, picked], 2), rel=1e-12)


@pytest.mark.parametrize(
    "line",
    [
        "solve cca X.npy Y.npy -k 1 --start answer.npz --out answer.npz",
        "cross-validate svd X.npy -k 1 --groups people.csv:kind --out people.csv",
        "transform answer.npz X.npy Y.npy --out Y.npy",
        "solve svd X.npy -k 1 --out ./link.npz --start answer.npz",
        "solve svd day*.npz -k 1 --out day1.npz",
        "solve cca X.npy Y.npy -k 1 --plot link.png",
        "compare cca X.npy Y.npy -k 1 --solvers gram --plot hard.svg",
        "similarity X.npy people.csv:age --out people.csv",
    ],
)
def test_an_input_is_never_overwritten(folder, line):
    run("solve cca X.npy Y.npy -k 1 --out answer.npz")
    Path("answer.json").write_text("{}")
    Path("link.npz").symlink_to("answer.npz")
    Path("link.png").symlink_to("X.npy")
    Path("hard.svg").hardlink_to("Y.npy")
    scipy.sparse.save_npz("day1.npz", scipy.sparse.csr_array(np.eye(3)))
    before = {path: path.read_bytes() for path in Path().iterdir()}
    assert "is read by this command" in refusal(line)
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


# ---- the program --------------------------------------------------------------------------------


def test_listings_and_help():
    assert "least-squares/cg" in run("solvers")[0]
    assert "gram (solver)" in run("describe cca/gram")[0]
    assert "linspec" in run("plugins")[0]
    out, _ = run("--version")
    for name in ("linspec", "Python", "numpy", "scipy"):
        assert name in out
    for command in ("solve", "compare", "cross-validate", "permute", "bootstrap"):
        for problem in ls.problems():
            assert f"{problem} [OPTIONS]" in run(f"{command} {problem} --help")[0]


def test_check_has_an_exit_code(monkeypatch):
    class Report:
        ok = False

        def __str__(self):
            return "normalizer/qr: 1 failed"

    calls = []
    monkeypatch.setattr(
        "linspec.testing.run_checks", lambda name, **given: calls.append((name, given)) or Report()
    )
    assert "1 failed" in run("check normalizer/qr --expected accuracy=known", code=1)[0]
    assert calls == [("normalizer/qr", {"expected_failures": {"accuracy": "known"}})]


def test_a_defect_has_its_own_exit_code_and_a_traceback_on_request(folder, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("broken inside")

    monkeypatch.setattr("linspec.cli.solving.measured", broken)
    assert "defect of linspec or of a plugin" in refusal("solve svd X.npy -k 1", code=70)
    assert "Traceback" in run("solve svd X.npy -k 1 --debug", code=70)[1]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_with_what_there_is(folder):
    options = "--solver als --out r.npz -o form=implicit -o max_iterations=100000000 --tol 1e-300 --progress"
    process = subprocess.Popen(
        [sys.executable, "-m", "linspec", "solve", *f"cca X.npy Y.npy -k 2 {options}".split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # no threads here
    )
    seen, deadline = "", time.monotonic() + PATIENCE
    while "iteration 1" not in seen and time.monotonic() < deadline:
        seen += process.stderr.read(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in seen + err
    assert re.search("interrupted", out, re.IGNORECASE)
    assert ls.load_solution("r.npz").status is ls.Status.INTERRUPTED
