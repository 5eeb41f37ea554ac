"""The templates and `linspec new`: under their own name and another one, installed as other distributions are."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("click")

from click.testing import CliRunner

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


class Site:
    """A folder of distributions as installers leave them, and interpreters that see it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "zzz-1.0.dist-info").mkdir()  # a wreck
        (folder / "zzz-1.0.dist-info" / "entry_points.txt").write_text("[linspec]\nnonsense\n")

    def install(self, distribution: str, entries: dict[str, str]) -> None:
        """Write the metadata of a distribution."""
        info = self.folder / f"{distribution.replace('-', '_')}-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.1.0\n")
        points = "".join(f"{name} = {module}\n" for name, module in entries.items())
        (info / "entry_points.txt").write_text(f"[linspec]\n{points}")

    def install_template(self, package: Path) -> None:
        """Install a template under the names in its own pyproject.toml."""
        project = tomllib.loads((package.parent / "pyproject.toml").read_text("utf-8"))["project"]
        shutil.copytree(package, self.folder / package.name, ignore=shutil.ignore_patterns("__pycache__"))
        self.install(project["name"], project["entry-points"]["linspec"])

    def run(self, *arguments: str, cwd: Path | None = None, **environment: str) -> str:
        path = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        env = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", **environment}
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command, env=env, cwd=cwd or self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr
        return done.stdout + done.stderr

    def ask(self, expression: str, **environment: str) -> Any:
        """The value of an expression."""
        code = f"import json\nimport linspec as ls\nprint(json.dumps({expression}))"
        return json.loads(self.run("-W", "ignore", "-c", code, **environment).splitlines()[-1])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.delenv("LINSPEC_DISABLE_PLUGINS", raising=False)
    (tmp_path / "site").mkdir()
    return Site(tmp_path / "site")


# ---- linspec new --------------------------------------------------------------------------------


def new(*arguments: object, code: int = 0) -> str:
    """What the command says."""
    result = CliRunner().invoke(main, ["new", *map(str, arguments)])
    assert result.exit_code == code, f"{result.output}\n{result.exc_info}"
    assert code == 0 or (result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1)
    return result.stdout if code == 0 else result.stderr


@pytest.mark.parametrize("kind", PACKAGES)
def test_a_package_under_another_name_is_registered_and_passes_the_kit(
    kind: str, tmp_path: Path, site: Site
) -> None:
    """On arrays of NumPy; the tests of the package take every kind of data."""
    new(kind, "two-stage-7", "--folder", tmp_path / "new")
    written = tmp_path / "new" / "linspec-two-stage-7"
    for path in (path for path in written.rglob("*") if path.is_file()):
        place = path.relative_to(written).as_posix()
        for line in [place, *path.read_text("utf-8").splitlines()]:
            assert not re.search(EXAMPLES[kind], line, re.IGNORECASE), f"{place}: {line}"
    site.install_template(written / "linspec_two_stage_7")
    for record in RECORDS[kind]:
        report = f"__import__('linspec.testing').testing.run_checks({record!r}, backends=['numpy'])"
        passed, failed = site.ask(f"(lambda report: [report.passed, report.failed])({report})")
        assert failed == []
        assert passed >= 3


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
def test_the_tests_of_the_template_pass(site: Site, kind: str) -> None:
    """The public kit among them, as an author runs it; `nox -s template` does the same with a wheel."""
    site.install_template(PACKAGES[kind])
    site.run("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=PACKAGES[kind].parent)


def test_the_pages_show_the_templates_as_they_are() -> None:
    package, page = PACKAGES["solver"], (PAGES / "write-a-plugin.md").read_text("utf-8")
    for name in ("two_point.py", "plugin.py"):
        assert f"```python\n{(package / name).read_text('utf-8')}```" in page
    config = (package.parent / "pyproject.toml").read_text("utf-8")
    table = config[config.index("[project.entry-points") : config.index("[tool.hatch")].strip()
    assert f"```toml\n{table}\n```" in page
    test = (package.parent / "tests" / "test_two_point.py").read_text("utf-8")
    assert 'test_conformance = conformance("least-squares/two-point")\n' in test
    page, shown = (PAGES / "a-problem-of-your-own.md").read_text("utf-8"), set()
    for path in PACKAGES["problem"].glob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                assert "\n".join(text.splitlines()[first - 1 : node.end_lineno]) in page, node.name
                shown.add(node.name)
    assert {"MCA", "MCASolution", "Gram", "Power", "pencil", "linspec_problems"} <= shown
