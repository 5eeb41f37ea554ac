"""The record of texts: a case is recorded, and a planted difference is seen."""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls
from record.commands import outcome as of_commands
from record.commands import processes
from record.texts import outcome
from record.wording import differences, normalised


def test_an_error_is_recorded_with_its_class_and_text(tmp_path):
    entry = outcome("ls.SVD(X, 9)", {"ls": ls, "X": np.eye(5), "folder": tmp_path})
    assert entry["raises"] == "InvalidProblem"
    assert "got 9" in entry["text"]


def test_commands_are_recorded_with_exit_codes_and_files(tmp_path):
    (tmp_path / "inputs").mkdir()
    np.save(tmp_path / "inputs" / "X.npy", np.eye(5))
    line = "solve svd X.npy -k 1 --out s.npz && solve svd X.npy -k 9"
    with processes() as two:
        entry = two.submit(of_commands, line, tmp_path / "inputs", tmp_path / "run").result()
    assert [entry["1"]["exit"], entry["2"]["exit"], list(entry["files"])] == [0, 2, ["s.npz"]]


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [("raises", "KeyError", "hard"), ("text", "k is 9", "wording"), ("text", "k must be 8; got 9.", "hard")],
)
def test_a_planted_difference_is_seen(key, value, kind):
    old = {"raises": "InvalidProblem", "text": "k must be 5; got 9.", "warns": []}
    (line,) = differences({"case": old}, {"case": {**old, key: value}})
    assert line.startswith(f"{kind}: case > {key}")
    assert not list(differences({"case": old}, {"case": old}))


def test_what_differs_from_run_to_run_does_not_count():
    before = normalised("took 3.1 ms and 12 kB in /a\n\nk  seconds\n-  -------\n1    0.123", {"/a": "FOLDER"})
    assert before == normalised(
        "took 9 s and 1 GB in /c\n\nk  seconds\n-  -------\n1    9.456", {"/c": "FOLDER"}
    )
