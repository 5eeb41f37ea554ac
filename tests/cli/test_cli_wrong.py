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
solve svd absent.npy -k 1 | absent.npy: no such file
solve svd people.csv:agee -k 1 | no column is called 'agee'
solve svd people.csv:score..age -k 1 | ends before it begins
solve svd people.csv:age,age -k 1 | Name each once
solve svd people.csv -k 1 | a number is needed
solve svd people.csv:age --columns age -k 1 | Name them once
solve svd X.npy -k 0 | k must be between 1 and 5
solve svd X.npy -k 1,2 | -k must be one value here
solve svd X.npy -k 2 --tol -1 | --tol
solve svd X.npy -k 2 --solver nothing | Available: block-krylov
solve svd X.npy -k 2 --option oops | --option must be NAME=VALUE
solve svd X.npy -k 2 -o block=3 | "auto" takes only tol
solve svd X.npy -k 2 --out a.txt | --out must end in .npz or .json
solve svd X.npy -k 2 --out no/a.npz | cannot be written
solve svd X.npy -k 2 --nothing | No such option
solve cca X.npy -k 2 | Missing argument 'Y-FILE'
solve {CCA} -k 2 --ridge 1,2 | --ridge must be one value here
solve {CCA} -k 2 --solver als -o lstsq.nothing=3 | has no option 'nothing'
solve kernel-cca X.npy Y.npy -k 1 | Missing option '--ridge'
solve pca X.npy -k 2 | pca
solve discriminant people.csv --target-column kind --columns age --target none | --target none
solve kernel-cca X.npy Y.npy -k 1 --ridge 1 --kernel __import__('os').mkdir('sprung') | kernel
compare {CCA} -k 2 --solvers als -o nothing=2 | has an option 'nothing'
check normalizer/nothing | nothing
cross-validate {CCA} --ks 1,x | 'x' is not a valid integer
cross-validate {CCA} -k 1 --folds 1 | --folds
cross-validate {CCA} -k 1 --folds 500 | folds must be between 2 and
cross-validate {CCA} -k 1 --method gcv | least squares
cross-validate least-squares X.npy y.npy --method gcv --folds 7 | no rows; got splitter. Leave
cross-validate {CCA} -k 1 --score fit | score must be one of correlations, tcc
cross-validate {CCA} -k 1 --groups y.npy:0 | y.npy
cross-validate {CCA} -k 1 --out scores.npz | --out must end in .csv or .json
permute least-squares X.npy y.npy | least-squares have no values of components
permute deep-cca X.npy Y.npy | Missing option '-k'
permute {CCA} -k 1 --max-seconds 0 | max_seconds must be a positive number
permute {CCA} -k 1 --max-seconds 1e-9 | Raise max_seconds
permute {CCA} -k 1 --tol 1e-3 --statistic roy | has no option 'tol'
bootstrap kernel-cca X.npy Y.npy -k 1 --ridge 1 | kernel-cca come from rows without weights
bootstrap svd X.npy -k 1 --level 2 | level must be between 0 and 1
bootstrap svd X.npy -k 1 --groups nowhere.csv | nowhere.csv
bootstrap svd X.npy -k 1 --solver lanczoz | Did you mean
transform s.npz X.npy --predict | answers to svd have no predictions
transform s.npz X.npy --probabilities | answers to svd have no probabilities
transform s.npz people.csv --ids cod | no column is called 'cod'
transform s.npz X.npy --ids code | X.npy: its columns have no names
transform s.npz people.csv --ids id --out o.npy | Name a .csv file
transform lda.npz people.csv --predict --probabilities | got both. Leave one of them out
transform lda.npz people.csv --predict --out o.npy | classes are texts
transform opls.npz people.csv --predict | the answer has no classes
transform opls.npz people.csv --probabilities | --target lda
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
    assert not Path("sprung").exists()


# ---- nonsense -----------------------------------------------------------------------------------

TEXTS = [
    *(
        "abc",
        "",
        "nan",
        "inf",
        "-inf",
        "-1",
        "0",
        "1e999",
        "1,2",
        "1,,2",
        "\0",
        "9" * 5000,
        "[]",
        "0x10",
        "\udcff",
    ),
    *("1.5", "-1e-400", "٣x", "\x1b[31m"),
]
"""Texts in place of a number; some of them are numbers."""

FILES = [
    *("missing.npy", "", "\0", "a\0b.npy", "folder", "folder.npy", "/dev/null", "empty.csv", "empty.npy"),
    *("empty.npz", "X.npy:1", "X.csv:zz", "X.csv:", "X.csv:~", "X.csv:..", "X.csv:a\nb", 'X.csv:"', "*.none"),
    *("r.npz:nothing", "X.npy/", "X.npy/x", "~", "-", "\udcff.npy", "x" * 5000 + ".npy", "short.npy", "["),
]
"""Names in place of a file to read."""

OUTPUTS = [
    *("missing/o.npz", "o.txt", "o", "", "folder", "folder.npz", "/dev/null", "\0.npz", "o.npz/", "X.npy"),
    *("/proc/o.npz", "x" * 300 + ".npz", "\udcff\ud800.npz"),
]
"""Names in place of a file to write."""

LIMITS = ["nan", "inf", "-inf", "-1", "1e400", "x"]
NUMBERED = (
    "-k",
    "--ridge",
    "--tol",
    "--seed",
    "--max-passes",
    "--max-seconds",
    "--held-out",
    "-o tol={}",
    "-o {}",
)
PROBLEMS = ["svd X.npy -k 2", "cca X.npy Y.npy -k 2", "least-squares X.npy Y.npy"]
TAKES = {  # the rest of a line, and what stands in the place of {}
    **{f"solve {problem} {option}": TEXTS for problem in PROBLEMS for option in NUMBERED},
    **{
        f"solve {problem} {option}": FILES
        for problem in PROBLEMS
        for option in ("--sample-weight", "--confounds", "--columns")
    },
    "solve svd {} -k 2 --drop-missing": FILES,
    "solve cca {} Y.npy -k 2": FILES,
    "transform r.npz {}": FILES,
    "compare svd X.npy --solvers gram -k": TEXTS,
}
"""Lines that may be right."""

NEVER = {
    **{f"solve {problem} --solver": TEXTS for problem in PROBLEMS},
    **{f"solve {problem} --start": FILES for problem in PROBLEMS},
    **{f"{command} {{}}": FILES for command in ("transform", "solve", "compare", "describe")},
    **{f"solve {problem} --tol": [*LIMITS, "-1e-400", ""] for problem in PROBLEMS},
    "solve svd X.npy -k 2 --seed": ["-1", "1.5", "nan", ""],
    "solve svd X.npy -k": ["0", "-1", "6", "9" * 5000, "nan", "1.5"],
    "solve svd X.npy -k 2 --max-passes": ["nan", "-inf", "-1", "0"],
    "solve svd X.npy -k 2 --max-seconds": ["nan", "-inf", "-1", "0"],
    "solve least-squares X.npy Y.npy --ridge": LIMITS,
    "solve cca X.npy Y.npy -k 2 --ridge-y": LIMITS,
    "solvers": [name for name in FILES if name],
    "transform {} X.npy": FILES,
    "transform r.npz X.npy --confounds": FILES,
    "compare svd X.npy -k 2 --solvers": TEXTS,
    "solve svd X.npy -k 2 --out": OUTPUTS,
    "solve svd X.npy -k 2 --plot": [name.replace(".npz", ".png") for name in OUTPUTS],
    "transform r.npz X.npy --out": [name.replace(".npz", ".csv") for name in OUTPUTS],
    "compare svd X.npy -k 2 --out": [name.replace(".npz", ".json") for name in OUTPUTS],
}
"""Lines that are wrong with each of these."""


@pytest.mark.parametrize("line", [*TAKES, *NEVER])
def test_nonsense_ends_as_a_user_may_expect(folder, line):
    np.save("short.npy", np.load("X.npy")[:7])
    np.savetxt("X.csv", np.load("X.npy"), delimiter=",", header="a,b,c,d,e", comments="")
    for suffix in ("csv", "npy", "npz"):
        Path(f"empty.{suffix}").write_bytes(b"")
    for suffix in ("", ".npy", ".npz", ".png", ".csv", ".json"):
        Path(f"folder{suffix}").mkdir()
    run("solve svd X.npy -k 2 --out r.npz")
    for text in (TAKES | NEVER)[line]:
        words = [word.replace("{}", text) for word in line.split()]
        result = CliRunner().invoke(main, words if "{}" in line else [*words, text])
        assert result.exit_code == 2 or (line in TAKES and result.exit_code == 0), (text, result.exc_info)
        assert "Traceback" not in result.stderr
        errors = [said for said in result.stderr.splitlines() if said.startswith("Error: ")]
        assert len(errors) == (result.exit_code == 2), text
        assert len("".join(errors)) < 5000
        assert "".join(errors).isprintable()
