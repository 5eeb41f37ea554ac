"""The scripts that print what linspec claims: what they have in common is right, and each of them runs."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "evidence"


def script(name: str, options: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FOLDER / f"{name}.py"), *options.split()]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


RECORDED = {
    "claims_on_cca": ("cca_at_equal_time", "cca_convergence", "sparse_kernel_cca"),
    "claims_on_svd": ("lazy_subspace", "lazy_accuracy", "lazy_stream", "sketch_quality"),
    "claims_on_least_squares": ("two_stage_equivalence", "two_stage_use"),
}
"""Studies whose records have all rows that their claims are judged from."""


@pytest.mark.parametrize(
    ("name", "study"), [(name, one) for name, studies in RECORDED.items() for one in studies]
)
def test_the_claims_of_a_record_are_those_of_its_rows(
    name: str, study: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """But for those about ranks, which the record of `two_stage_equivalence` does not have."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "argv", [name, study, "--recorded"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert ended.value.code in (0, 1)
    printed = capsys.readouterr().out.splitlines()
    judged = [line.removeprefix("CLAIM ") for line in printed if line.startswith("CLAIM ")]
    judged = [re.sub(r"^\((\w+)\) ", "" if study == "lazy_accuracy" else r"\1: ", line) for line in judged]
    recorded = json.loads((FOLDER / "recorded" / f"{study}.json").read_text("utf-8"))["claims"]
    assert judged == [claim for claim in recorded if "as many directions" not in claim]


RUNS = [
    *[("measure_beds", text) for text in ("spectra", "correlations", "least-squares --solvers auto,cg,lsqr")],
    *[("measure_defaults", options) for options in ("regret --only SVD", "columns")],
    *[("measure_elsewhere", options) for options in ("memory", "dask", "gpu")],
    *(("measure_peers", ""), ("measure_readme", "--only digits"), ("measure_small", "")),
    ("measure_similarity", ""),
    ("measure_growth", "--rounds 1"),
    *[("measure_lagged", text) for text in ("cost", "answers")],
    ("measure_rivals", "digits-PCA ridge-1200x800x1 folds-1200x800 words images pls batches --rounds 1"),
    ("measure_share", "numbers --only wine"),
    *(("measure_standard_errors", ""), ("measure_resampling", "coverage"), ("measure_resampling", "levels")),
    *[("measure_incomplete", f"{part} --seeds 1") for part in ("passes", "seconds")],
    ("measure_sparse_weights", "path"),
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
