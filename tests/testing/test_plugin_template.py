"""The templates and `linspec new`: under their own name and another one, installed as other distributions are."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("click")

from click.testing import CliRunner
from hostile.outcomes import apart

from linspec.cli import main

TEMPLATES = Path(__file__).parents[2] / "linspec" / "templates"
PAGES = TEMPLATES.parents[1] / "docs" / "extend"
PACKAGES = {
    "solver": TEMPLATES / "solver" / "linspec_two_point",
    "problem": TEMPLATES / "problem" / "linspec_mca",
    "data": TEMPLATES / "data" / "linspec_npz_shards",
}
EXAMPLES = {"solver": "two.?point", "problem": "mca", "data": "npz.?shards"}
"""What is asked for, and a pattern for every form of the name of the template's example."""

RECORDS = {
    "solver": ["least-squares/two-stage-7"],
    "problem": ["problem/two-stage-7", "two-stage-7/power"],
    "data": ["operator/two-stage-7"],
}


def installed(package: Path, folder: Path) -> dict[str, str]:
    """Leave a template in a folder as installers do; the environment that sees it."""
    project = tomllib.loads((package.parent / "pyproject.toml").read_text("utf-8"))["project"]
    shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    points = project["entry-points"]["linspec"].items()
    info = folder / f"{package.name}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    lines = ["[linspec]", *(f"{name} = {module}" for name, module in points)]
    (info / "entry_points.txt").write_text("\n".join(lines))
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": path, "LINSPEC_DISABLE_PLUGINS": ""}


# ---- linspec new --------------------------------------------------------------------------------


def new(*arguments: object, code: int = 0) -> str:
    """What the command says."""
    result = CliRunner().invoke(main, ["new", *map(str, arguments)])
    assert result.exit_code == code, f"{result.output}\n{result.exc_info}"
    assert code == 0 or (result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1)
    return result.stdout if code == 0 else result.stderr


CHECKED = """
import sys, warnings
from linspec.testing import run_checks
warnings.simplefilter("ignore")
for record in sys.argv[1:]:
    report = run_checks(record, backends=["numpy"])
    assert report.ok and report.passed >= 3, report
"""


@pytest.mark.parametrize("kind", PACKAGES)
def test_a_package_under_another_name_is_registered_and_passes_the_kit(kind: str, tmp_path: Path) -> None:
    """On arrays of NumPy; the tests of the package take every kind of data."""
    new(kind, "two-stage-7", "--folder", tmp_path / "new")
    written = tmp_path / "new" / "linspec-two-stage-7"
    for path in (path for path in written.rglob("*") if path.is_file()):
        place = path.relative_to(written).as_posix()
        for line in [place, *path.read_text("utf-8").splitlines()]:
            assert not re.search(EXAMPLES[kind], line, re.IGNORECASE), f"{place}: {line}"
    (tmp_path / "wreck-1.0.dist-info").mkdir()
    (tmp_path / "wreck-1.0.dist-info" / "entry_points.txt").write_text("[linspec]\nnonsense\n")
    apart(CHECKED, *RECORDS[kind], env=installed(written / "linspec_two_stage_7", tmp_path))


def test_names_that_cannot_be_or_are_taken(tmp_path: Path) -> None:
    for name in ("TwoStep", "two_step", "two--step", "2-step", "Größe", "a/b", "", "lambda", "none"):
        for kind in PACKAGES:
            assert repr(name) in new(kind, name, "--folder", tmp_path, code=2)
    for kind, name in [("problem", "svd"), ("solver", "lstsq"), ("solver", "plugin"), ("data", "samples")]:
        said = new(kind, name, "--folder", tmp_path, code=2)
        assert f"the name {name!r} is taken" in said
        assert f"such as 'my-{name}'" in said
    assert not list(tmp_path.iterdir())
    new("data", "my-samples", "--folder", tmp_path)
    kept = tmp_path / "linspec-my-samples" / "README.md"
    kept.write_text("mine")
    said = new("data", "my-samples", "--folder", tmp_path, code=2)
    assert f"{kept.parent} exists already. Choose another name or --folder" in said
    assert kept.read_text() == "mine"


# ---- the templates ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", PACKAGES)
def test_the_tests_of_the_template_pass(kind: str, tmp_path: Path) -> None:
    """The public kit among them, as an author runs it; `nox -s template` does the same with a wheel."""
    program = "import pytest, sys\nsys.exit(pytest.main(['-q', '-p', 'no:cacheprovider']))"
    apart(program, cwd=PACKAGES[kind].parent, env=installed(PACKAGES[kind], tmp_path))


def test_the_pages_show_the_templates_as_they_are() -> None:
    package, page = PACKAGES["solver"], (PAGES / "write-a-plugin.md").read_text("utf-8")
    for name in ("two_point.py", "plugin.py"):
        assert f"```python\n{(package / name).read_text('utf-8')}```" in page
    config = (package.parent / "pyproject.toml").read_text("utf-8")
    table = config[config.index("[project.entry-points") : config.index("[tool.hatch")].strip()
    assert f"```toml\n{table}\n```" in page
    test = (package.parent / "tests" / "test_two_point.py").read_text("utf-8")
    assert 'test_conformance = conformance("least-squares/two-point")\n' in test
