"""Wrong command lines: whatever a user gets wrong ends with exit status 2 and one line, never as a defect."""

from __future__ import annotations

from pathlib import Path

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


@pytest.mark.parametrize(("foreign", "here"), [("--n-components", "-k"), ("--alpha", "--ridge")])
def test_an_option_of_another_program_is_answered_with_that_of_the_command(folder, foreign, here):
    assert f"Did you mean '{here}'?" in refusal(f"solve {CCA} {foreign} 2")


# ---- nonsense: of files and outputs in tests/hostile ----------------------------------------------

TEXTS = ["abc", "", "nan", "inf", "-1", "1e999", "1,,2", "\0", "9" * 400, "[]", "\udcff"]
"""Texts in place of a number; some of them are numbers."""

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


@pytest.mark.parametrize("option", NUMBERED)
def test_nonsense_ends_as_a_user_may_expect(folder, option):
    for text in TEXTS:
        words = f"solve {CCA} -k 2 {option if '{}' in option else option + ' {}'}".split()
        result = CliRunner().invoke(main, [word.replace("{}", text) for word in words])
        assert result.exit_code in (0, 2), (text, result.exc_info)
        assert "Traceback" not in result.stderr
        errors = [said for said in result.stderr.splitlines() if said.startswith("Error: ")]
        assert len(errors) == (result.exit_code == 2), text
        assert len("".join(errors)) < 5000
