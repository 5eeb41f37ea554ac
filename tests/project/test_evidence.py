"""The scripts that print what linspec claims: what they have in common is right, and each of them runs."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "evidence"


@pytest.fixture
def common(monkeypatch: pytest.MonkeyPatch):
    """Give a module that scripts have in common."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for name in ("timing", "showing"):
        sys.modules.pop(name, None)


def test_a_process_of_its_own_answers_or_says_why_not(common, monkeypatch: pytest.MonkeyPatch) -> None:
    timing = common("timing")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FOLDER), *sys.path]))
    assert timing.apart(dict, [("a", 1)]) == {"a": 1}
    assert timing.apart(int, "x")["said"].startswith("ValueError: invalid literal")
    assert timing.apart(os._exit, 3) == {"said": "the process ended with 3"}
    assert timing.apart(time.sleep, 60, seconds=0.5) == {"said": "stopped after 0.5 s"}


def script(name: str, options: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FOLDER / f"{name}.py"), *options.split()]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def report(showing: ModuleType, monkeypatch: pytest.MonkeyPatch, *options: str):
    monkeypatch.setattr(sys, "argv", ["measure_something.py", *options])
    return showing.Report(showing.arguments("What."))


def test_claims_and_tables_are_printed_and_recorded_alike(common, monkeypatch, capsys, tmp_path) -> None:
    """A claim of our own that is missed is the exit status."""
    showing = common("showing")
    monkeypatch.setattr(showing, "HERE", tmp_path)
    (tmp_path / "recorded").mkdir()
    said = report(showing, monkeypatch, "--record")
    table = said.table("name", "share::.2f", "count", title="two of them")
    table.row("a", 0.123, 7)
    table.row("b", float("nan"))
    said.say([showing.Claim("a paper's", False, "0"), showing.at_most("ours", 1.0, 2.0, own=True)], "part")
    said.say([showing.Claim("of what is missing", None, "no data", own=True)])
    assert said.end() == 0
    found = json.loads((tmp_path / "recorded" / "measure_something.json").read_text("utf-8"))
    rows = [["a", "0.12", "7"], ["b", "-", ""]]
    assert found["tables"] == [{"title": "two of them", "head": ["name", "share", "count"], "rows": rows}]
    assert found["command"] == "python docs/evidence/measure_something.py --record"
    printed = capsys.readouterr().out
    assert "| name | share | count |\n|---|---|---|\n| a | 0.12 | 7 |\n| b | - |  |\n" in printed
    assert [line for line in printed.splitlines() if line.startswith("CLAIM")] == [
        "CLAIM (part) a paper's: FAILED (0)",
        "CLAIM (part) ours: HELD (1)",
        "CLAIM of what is missing: SKIPPED (no data)",
    ]
    said = report(showing, monkeypatch)
    said.say([showing.at_most("ours, too", 3.0, 2.0, "{value:g} of {bound:g}", own=True)])
    assert said.end() == 1
    assert "CLAIM ours, too: FAILED (3 of 2)" in capsys.readouterr().out
    assert not showing.at_most("not a number", float("nan"), 1.0).held


RECORDED = {
    "claims_on_cca": ("cca_at_equal_time", "cca_convergence", "sparse_kernel_cca"),
    "claims_on_svd": ("lazy_subspace", "lazy_accuracy", "lazy_stream", "sketch_quality"),
    "claims_on_least_squares": ("two_stage_equivalence", "two_stage_use"),
}
"""Studies whose records have all rows that their claims are judged from."""


@pytest.mark.parametrize(
    ("name", "study"), [(name, one) for name, studies in RECORDED.items() for one in studies]
)
def test_the_claims_of_a_record_are_those_of_its_rows(name: str, study: str) -> None:
    """But for those about ranks, which the record of `two_stage_equivalence` does not have."""
    done = script(name, f"{study} --recorded")
    assert done.returncode in (0, 1), done.stderr
    judged = [line.removeprefix("CLAIM ") for line in done.stdout.splitlines() if line.startswith("CLAIM ")]
    judged = [re.sub(r"^\((\w+)\) ", "" if study == "lazy_accuracy" else r"\1: ", line) for line in judged]
    recorded = json.loads((FOLDER / "recorded" / f"{study}.json").read_text("utf-8"))["claims"]
    assert judged == [claim for claim in recorded if "as many directions" not in claim]


def test_other_libraries_find_the_same() -> None:
    """Where they have the best figures, too, it is said what time they take."""
    done = script("measure_peers", "--quick digits discriminant cross-validation")
    said = [line for line in done.stdout.splitlines() if line.startswith("CLAIM ")]
    assert sum("linspec's figures are the best: HELD" in line for line in said) == 3, done.stderr
    for rival in ("scikit-learn", "LSQR, as published", "SciPy by hand"):
        assert any(f"less time than {rival}, which has the same answer" in line for line in said), rival


RUNS = [
    *[("measure_beds", text) for text in ("spectra", "correlations", "least-squares --solvers auto,cg,lsqr")],
    *[("measure_defaults", options) for options in ("regret --only SVD", "columns")],
    *[("measure_elsewhere", options) for options in ("memory", "dask", "gpu")],
    *(("measure_peers", ""), ("measure_readme", "--only digits"), ("measure_small", "")),
]


def test_every_measurement_is_tried() -> None:
    scripts = {path.stem for path in FOLDER.glob("measure_*.py")}
    assert scripts == {*dict(RUNS), "measure_two_checkouts"}  # which takes another checkout


@pytest.mark.parametrize(("name", "options"), RUNS)
@pytest.mark.slow
def test_a_measurement_runs_on_small_data(name: str, options: str, tmp_path: Path) -> None:
    needed = {"dask": ("distributed", "psutil"), "gpu": ("cupy",), "--only digits": ("cca_zoo",)}
    for package in (*needed.get(options, ()), "sklearn"):
        pytest.importorskip(package)
    done = script(name, f"--quick {options}", cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert re.search(r"^\|( ?-+ ?\|)+$", done.stdout, re.MULTILINE), done.stderr
    if name == "measure_peers":
        assert "CLAIM" in done.stdout
        assert not re.search(r"the best: FAILED", done.stdout)
