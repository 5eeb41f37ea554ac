"""The record: one solver is recorded, and planted differences are reported."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from record.compare import differences, report

HERE = Path(__file__).parent
NAME = "svd/gram, 1"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A record of this checkout, made by the command."""
    out = tmp_path_factory.mktemp("record")
    what = ["--only", "svd/gram", "--quick", "--python-of-this-environment"]
    command = [sys.executable, str(HERE), "--commit", str(HERE.parents[1]), "--out", str(out), *what]
    subprocess.run(command, check=True, capture_output=True)
    return out


def test_a_solver_is_recorded_with_its_errors(recorded, capsys):
    entries = json.loads((recorded / "answers.json").read_text())
    assert len(entries) == 4
    assert entries[NAME]["errors"]["law"] < 1e-10
    assert len(entries["svd/gram, 0"]["shortfalls"]) == 5
    assert report(recorded, recorded) == 0
    assert "broken: nothing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"passes": 9.0}, "passes"),
        ({"status": "ITERATION_LIMIT"}, "no longer converged"),
        ({"errors": {"law": 1e-3, "loss": 0.0}}, "law"),
        ({"errors": {"law": 0.0, "loss": float("nan")}}, "loss"),
        ({"values": [1.0, 0.5]}, "components"),
        ({"refused": "InvalidProblem"}, "refused"),
        ({"shortfalls": [0.1] * 5}, "sum"),
    ],
)
def test_a_planted_difference_breaks_a_rule(recorded, change, rule):
    before = {NAME: {**json.loads((recorded / "answers.json").read_text())[NAME], "shortfalls": [0.0] * 5}}
    after = copy.deepcopy(before)
    after[NAME].update(change)
    assert rule in [each for each, _ in differences(before, after)]
