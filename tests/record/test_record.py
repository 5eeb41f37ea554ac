"""The record: one solver recorded and compared, and planted differences reported."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import linspec as ls
from record.cases import hard, plain, stated, weighted
from record.compare import differences, report
from record.oracles import exact

HERE = Path(__file__).parent
NAME = "svd/gram, weighted, dense"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A record of this checkout, made by the command."""
    out = tmp_path_factory.mktemp("record")
    what = ["--parts", "answers", "--only", "svd/gram, weighted", "--quick", "--python-of-this-environment"]
    command = [sys.executable, str(HERE), "--commit", str(HERE.parents[1]), "--out", str(out), *what]
    subprocess.run(command, check=True, capture_output=True)
    return out


def test_a_solver_is_recorded_with_its_errors(recorded, capsys):
    entries = json.loads((recorded / "answers.json").read_text())
    assert len(entries) == 4
    assert max(entries[NAME]["errors"].values()) < 1e-12
    assert np.load(recorded / "answers" / "answers.npz")[NAME].shape == (60, 3)
    assert report(recorded, recorded) == 0
    assert "broken: nothing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"passes": 9.0}, "passes"),
        ({"status": "ITERATION_LIMIT"}, "no longer converged"),
        ({"errors": {"values": 1e-3, "span": 0.0, "unit": 0.0}}, "values"),
        ({"errors": {"values": 0.0, "span": float("nan"), "unit": 0.0}}, "span"),
        ({"values": [1.0, 0.5]}, "components"),
        ({"refused": "InvalidProblem"}, "refused"),
        ({"shortfalls": [0.1] * 5}, "sum"),
    ],
)
def test_a_planted_difference_breaks_a_rule(recorded, change, rule):
    before = {NAME: {**json.loads((recorded / "answers.json").read_text())[NAME], "shortfalls": [0.0] * 5}}
    after = copy.deepcopy(before)
    after[NAME].update(change)
    assert rule in [each for each, _ in differences("answers", before, after)]


def test_an_answer_that_loads_with_other_arrays_is_reported():
    old = {"svd": {"S": [2.0, 1.0]}}
    same, other = ({"earlier/svd": {"S": [2.0, last]}} for last in (1.0, 1.0 + 1e-9))
    assert list(differences("saved", old, old | same)) == []
    assert [rule for rule, _ in differences("saved", old, old | other)] == ["arrays"]


def test_the_oracle_of_canonical_correlations_agrees_with_what_was_planted():
    case = next(case for case in hard() if case.name == "hidden")
    assert np.allclose(exact("cca", case).values[:4], [0.95, 0.5, 0.4, 0.3], atol=1e-12)


@pytest.mark.parametrize("case", [plain(), weighted()], ids=lambda case: case.name)
def test_oracles_agree_with_each_other_and_with_a_solver(case):
    """Reduced rank regression of full rank is least squares."""
    full, alone = (exact(problem, case, k=15) for problem in ("reduced-rank-regression", "least-squares"))
    assert np.allclose(full.scores, alone.scores, atol=1e-8)
    correlations = ls.solve(stated("cca", case)).correlations
    assert np.allclose(correlations, exact("cca", case).values[:3], atol=1e-10)
