"""`linspec cross-validate`, `permute` and `bootstrap`: their figures and files."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

pytest.importorskip("click")

from cli.running import NAMES, TOWN, X, run

import linspec as ls

N = 120
RNG = np.random.default_rng(5)
SHARED = RNG.standard_normal((N, 1))
ONE = {
    "U.npy": SHARED @ RNG.standard_normal((1, 4)) + RNG.standard_normal((N, 4)) + 3.0,
    "V.npy": np.hstack([SHARED + 0.5 * RNG.standard_normal((N, 1)), RNG.standard_normal((N, 2))]),
}
"""Two views that share one variable."""


@pytest.fixture(autouse=True)
def views(folder):
    for name, view in ONE.items():
        np.save(name, view)


def test_the_table_marks_the_setting_with_the_best_mean():
    out, _ = run("cross-validate cca U.npy V.npy --ks 1,2 --ridges 0,1000 --seed 3 --out scores.json")
    means: dict[tuple[float, int], list[float]] = {}
    for row in json.loads(Path("scores.json").read_text())["rows"]:
        means.setdefault((row["ridge"], row["k"]), []).append(row["score"])
    ridge, k = max(means, key=lambda setting: float(np.mean(means[setting])))
    (best,) = (line for line in out.splitlines() if line.endswith(" True"))
    assert best.split()[1:4] == [f"{ridge:g}", str(k), f"{np.mean(means[ridge, k]):.5g}"]
    assert float(best.split()[4]) == pytest.approx(scipy.stats.sem(means[ridge, k]), rel=0.05)
    assert f"The chosen setting: ridge {ridge:g}, {ridge:g} k {k}" in out
    options = "--scale --no-center --drop-missing --columns age..weight --y-columns score --ridge-y 2"
    rule = "--solver gram --rule one-standard-error"
    out, _ = run(f"cross-validate cca people.csv {options} -k 1 --ridges 1,2.5 {rule}")
    assert "The chosen setting: ridge 2.5, 2 k 1" in out


def test_a_file_of_scores_says_all_that_was_requested():
    def about(line):
        run(f"{line} --out s.json")
        return json.loads(Path("s.json").read_text())["about"]

    folds = "--ks 2,1 --ridges 0,1000 --ridge-y 3 --folds 3 --rule one-standard-error"
    found = about(f"cross-validate cca X.npy Y.npy {folds}")
    given = {"ks": [2, 1], "ridges": [0.0, 1000.0], "ridge_y": 3.0, "folds": 3, "method": "folds"}
    expected = given | {"rule": "one-standard-error", "score": None, "groups": None, "drop_missing": False}
    assert {name: found.get(name, "absent") for name in expected} == expected
    assert not {"k", "ridge"} & set(found)
    found = about("cross-validate least-squares X.npy y.npy --ridges 1,10 --method gcv --drop-missing")
    assert (found["ridges"], found["method"], found["drop_missing"]) == ([1.0, 10.0], "gcv", True)
    assert not {"folds", "groups", "ks"} & set(found)
    found = about("permute cca X.npy Y.npy -k 1 --permutations 19")
    assert (found["k"], found["permutations"]) == (1, 19)


def test_one_planted_pair_is_found_and_its_p_value_is_no_bare_zero():
    out, _ = run("permute cca U.npy V.npy -k 3 --permutations 199")
    assert "by wilks, 199 permutations: 1 of 3 canonical correlations at 5 %" in out
    (first,) = (line for line in out.splitlines() if line.split()[:1] == ["1"])
    assert re.search(r" 0\.005 +0\.005$", first)
    assert " 0\n" not in out
    found, _ = run("permute cca U.npy V.npy --permutations 199")  # without -k
    assert "1 of 3 canonical correlations" in found


def test_intervals_of_all_weights_are_written_by_the_names_of_columns():
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
