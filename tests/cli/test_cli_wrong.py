"""Wrong command lines: whatever a user gets wrong ends with exit status 2 and one line, never as a defect."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click")

from cli.running import refusal, run
from click.testing import CliRunner

from linspec.cli import main

pytestmark = pytest.mark.filterwarnings("default::RuntimeWarning")  # as where no test runs: of infinite steps

CCA = "cca X.npy Y.npy"
LINES = f"""
solve svd people.csv:agee -k 1 | no column is called 'agee'
solve svd people.csv:score..age -k 1 | ends before it begins
solve svd people.csv -k 1 | a number is needed
solve svd people.csv:age --columns age -k 1 | Name them once
solve svd X.npy -k 1,2 | -k must be one value here
solve svd X.npy -k 2 --option oops | --option must be NAME=VALUE
solve svd X.npy -k 2 --out a.txt | --out must end in .npz or .json
solve svd X.npy -k 2 --out no/a.npz | cannot be written
solve cca X.npy -k 2 | Missing argument 'Y-FILE'
solve {CCA} -k 2 --ridge 1,2 | --ridge must be one value here
solve kernel-cca X.npy Y.npy -k 1 | Missing option '--ridge'
solve discriminant people.csv --target-column kind --columns age --target none | --target none
cross-validate least-squares X.npy y.npy --method gcv --folds 7 | no rows; got splitter. Leave
cross-validate {CCA} -k 1 --groups y.npy:0 | y.npy
cross-validate {CCA} -k 1 --out scores.npz | --out must end in .csv or .json
transform s.npz X.npy --predict | answers to svd have no predictions
transform s.npz people.csv --ids id --out o.npy | Name a .csv file
transform lda.npz people.csv --predict --probabilities | got both. Leave one of them out
transform lda.npz people.csv --predict --out o.npy | classes are texts
transform opls.npz people.csv --predict | the answer has no classes
"""
REFUSED = [tuple(line.split(" | ")) for line in LINES.strip().splitlines()]


@pytest.mark.parametrize(("line", "words"), REFUSED)
def test_refusals_are_one_line(folder, line, words):
    if line.startswith("transform"):
        run("solve svd people.csv --columns age..score -k 1 --out s.npz")
        for target in ("lda", "opls"):
            columns = "--columns age..score --target-column kind"
            run(f"solve discriminant people.csv {columns} --target {target} --out {target}.npz")
    assert words in refusal(line)
    assert not Path("o.npy").exists()


# ---- nonsense: of outputs in tests/hostile/test_outputs.py --------------------------------------

TEXTS = ["abc", "", "nan", "inf", "-1", "1e999", "1,,2", "\0", "9" * 400, "[]", "\udcff"]
"""Texts in place of a number; some of them are numbers."""

FILES = [
    *("missing.npy", "", "\0", "a\0b.npy", "folder.npy", "/dev/null", "empty.csv", "empty.npy", "empty.npz"),
    *("X.npy:1", "X.csv:zz", "X.csv:", "X.csv:..", "X.csv:a\nb", 'X.csv:"', "*.none", "X.npy/x", "~", "-"),
    *("r.npz:nothing", "\udcff.npy", "x" * 5000 + ".npy", "short.npy", "["),
]
"""Names in place of a file to read; some are files."""

NUMBERED = [
    "-k",
    "--ridge",
    "--tol",
    "--seed",
    "--max-passes",
    "--max-seconds",
    "--held-out",
    "--solver",
    "-o tol={}",
]
READ = ["--sample-weight", "--confounds", "--columns", "--start", "--drop-missing --sample-weight"]
NONSENSE = {
    **{f"solve cca X.npy Y.npy -k 2 {option}": TEXTS for option in NUMBERED},
    **{f"solve cca X.npy Y.npy -k 2 {option}": FILES for option in READ},
    **{f"{command} {{}}": FILES for command in ("transform", "solve svd -k 2", "describe")},
    "transform r.npz {}": FILES,
    "transform r.npz X.npy --confounds": FILES,
    "compare svd X.npy -k 2 --solvers": TEXTS,
}
"""The rest of a line, and what stands in the place of {}."""


@pytest.mark.parametrize("line", NONSENSE)
def test_nonsense_ends_as_a_user_may_expect(folder, line):
    np.save("short.npy", np.load("X.npy")[:7])
    np.savetxt("X.csv", np.load("X.npy"), delimiter=",", header="a,b,c,d,e", comments="")
    for suffix in ("csv", "npy", "npz"):
        Path(f"empty.{suffix}").write_bytes(b"")
    Path("folder.npy").mkdir()
    run("solve svd X.npy -k 2 --out r.npz")
    for text in NONSENSE[line]:
        words = [word.replace("{}", text) for word in line.split()]
        result = CliRunner().invoke(main, words if "{}" in line else [*words, text])
        assert result.exit_code in (0, 2), (text, result.exc_info)
        assert "Traceback" not in result.stderr
        errors = [said for said in result.stderr.splitlines() if said.startswith("Error: ")]
        assert len(errors) == (result.exit_code == 2), text
        assert len("".join(errors)) < 5000
