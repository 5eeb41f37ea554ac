"""The commands of continuous integration exist, and can run on every system that the workflows name."""

from __future__ import annotations

import itertools
import re
import runpy
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="reads the workflows; pre-commit brings it")
nox = pytest.importorskip("nox", reason="knows the sessions")

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@cache
def noxfile() -> dict[str, Any]:
    """What the noxfile defines; nox refuses to read it twice."""
    return runpy.run_path(str(ROOT / "noxfile.py"))


def steps() -> Iterator[tuple[str, str]]:
    """System and command of every step of a workflow that runs one, for each entry of its job's matrix."""
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            matrix = job.get("strategy", {}).get("matrix", {})
            for values in itertools.product(*matrix.values()):
                for step in (step for step in job["steps"] if "run" in step):
                    text = f"{job['runs-on']}\n{step['run']}"
                    for name, value in zip(matrix, values, strict=True):
                        text = text.replace(f"${{{{ matrix.{name} }}}}", value)
                    yield tuple(text.split("\n", 1))


def test_every_session_of_a_workflow_is_one_of_the_noxfile() -> None:
    noxfile()
    known = {
        name if session.python is None else f"{name}-{python}"
        for name, session in nox.registry.get().items()
        for python in session.python or [None]
    }
    named = {found[1] for _, command in steps() if (found := re.search(r"nox --session (\S+)", command))}
    assert {"lint", "wheel", "docs"} < named <= known


def test_the_suite_runs_on_every_system_with_every_python_that_is_promised() -> None:
    ran = {(system, command) for system, command in steps() if "pythons-" in command}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = [line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)]
    for system, python in itertools.product(("ubuntu", "macos", "windows"), promised):
        assert (f"{system}-latest", f"nox --session pythons-{python}") in ran
