"""The record: one solver, one command and one text are recorded, and planted differences are reported."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import linspec as ls
from record import commands, texts
from record.compare import differences, report

HERE = Path(__file__).parent
NAME = "svd/gram, weighted, dense"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A record of this checkout, made by the command."""
    out = tmp_path_factory.mktemp("record")
    what = ["--parts", "answers", "--only", "svd/gram, weighted", "--quick"]
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
    assert rule in [each for each, _ in differences("answers", before, after)]


def test_an_answer_that_loads_with_other_arrays_is_reported():
    old = {"svd": {"S": [2.0, 1.0]}}
    same, other = ({"earlier/svd": {"S": [2.0, last]}} for last in (1.0, 1.0 + 1e-9))
    assert list(differences("saved", old, old | same)) == []
    assert [rule for rule, _ in differences("saved", old, old | other)] == ["arrays"]


def test_errors_and_commands_are_recorded_with_texts_exit_codes_and_files(tmp_path):
    entry = texts.outcome("ls.SVD(X, 9)", {"ls": ls, "X": np.eye(5), "folder": tmp_path})
    assert entry["raises"] == "InvalidProblem"
    assert "got 9" in entry["text"][0]
    (tmp_path / "inputs").mkdir()
    np.save(tmp_path / "inputs" / "X.npy", np.eye(5))
    line = "solve svd X.npy -k 1 --out s.npz && solve svd X.npy -k 9"
    entry = commands.outcome(line, tmp_path / "inputs", tmp_path / "run")
    assert [entry["1"]["exit"], entry["2"]["exit"], list(entry["files"])] == [0, 2, ["s.npz"]]


def test_other_classes_and_numbers_are_reported_and_other_words_are_not():
    old = {"raises": "InvalidProblem", "text": "k must be 5; got 9.", "warns": [], "norm": 1.0}
    same = {"case": {**old, "text": "k is 9", "norm": 1.0 + 1e-6}}
    assert not list(differences("texts", {"case": old}, same))
    for change in ({"raises": "KeyError"}, {"norm": 1.1}, {"warns": ["UserWarning"]}):
        ((rule, line),) = differences("texts", {"case": old}, {"case": {**old, **change}})
        assert (rule, line[:5]) == ("texts", "case:")
