"""`linspec new`: packages under other names than the templates', installed, tested by the kit; and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("click")

from click.testing import CliRunner
from installed import TEMPLATES, Site

from linspec.cli import main

EXAMPLES = {
    "solver": "two.?point",
    "problem": "mca",
    "data": "npz.?shards",
}
"""What is asked for, and a pattern for every form of the name of the template's example."""

RECORDS = {
    "solver": "least-squares/two-stage-7",
    "problem": "problem/two-stage-7",
    "data": "operator/two-stage-7",
}


def run(*arguments: object, code: int = 0) -> str:
    """The output of the command."""
    result = CliRunner().invoke(main, ["new", *map(str, arguments)])
    assert result.exit_code == code, f"{result.output}\n{result.stderr}\n{result.exc_info}"
    return result.stdout if code == 0 else result.stderr


def refusal(*arguments: object) -> str:
    """The one line with which the command refuses."""
    said = run(*arguments, code=2)
    assert said.startswith("Error: ")
    assert said.count("\n") == 1
    return said


@pytest.fixture(params=EXAMPLES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def written(kind: str, tmp_path: Path) -> Path:
    """A package of each kind."""
    run(kind, "two-stage-7", "--folder", tmp_path)
    return tmp_path / "linspec-two-stage-7"


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_nothing_has_the_name_of_the_example(kind: str, written: Path) -> None:
    for path in files_of(written):
        place = path.relative_to(written).as_posix()
        for line in [place, *path.read_text("utf-8").splitlines()]:
            assert not re.search(EXAMPLES[kind], line, re.IGNORECASE), f"{place}: {line}"


def test_it_is_registered_and_passes_the_kit(kind: str, written: Path, tmp_path: Path) -> None:
    """On arrays of NumPy; the tests of the package take every kind of data."""
    site = Site(tmp_path / "site")
    site.install_template(written / "linspec_two_stage_7")
    passed, failed = site.ask(
        f"(lambda report: [report.passed, report.failed])"
        f"(__import__('linspec.testing').testing.run_checks({RECORDS[kind]!r}, backends=['numpy']))"
    )
    assert failed == []
    assert passed >= 3
    if kind == "problem":
        report = "__import__('linspec.testing').testing.run_checks('two-stage-7/power', backends=['numpy'])"
        assert site.ask(f"{report}.failed") == []


def test_the_example_s_own_name_gives_the_template(tmp_path: Path) -> None:
    run("solver", "two-point", "--folder", tmp_path)
    for path in files_of(tmp_path / "linspec-two-point"):
        place = path.relative_to(tmp_path / "linspec-two-point")
        assert path.read_bytes() == (TEMPLATES / "solver" / place).read_bytes()


@pytest.mark.parametrize(
    "name", ["TwoStep", "two_step", "two--step", "2-step", "Größe", "a/b", "", "lambda", "none"]
)
def test_a_name_that_cannot_be_one(kind: str, name: str, tmp_path: Path) -> None:
    assert repr(name) in refusal(kind, name, "--folder", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("problem", "svd"),
        ("solver", "lstsq"),
        ("solver", "plugin"),
        ("data", "samples"),
    ],
)
def test_a_name_that_is_taken(kind: str, name: str, tmp_path: Path) -> None:
    assert f"the name {name!r} is taken" in (said := refusal(kind, name, "--folder", tmp_path))
    assert f"such as 'my-{name}'" in said
    run(kind, f"my-{name}", "--folder", tmp_path)


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    run("data", "mine", "--folder", tmp_path)
    kept = tmp_path / "linspec-mine" / "README.md"
    kept.write_text("mine")
    said = refusal("data", "mine", "--folder", tmp_path)
    assert f"{tmp_path / 'linspec-mine'} exists already. Choose another name or --folder" in said
    assert kept.read_text() == "mine"
