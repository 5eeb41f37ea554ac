"""Distributions installed in a folder as installers leave them: package and metadata, so nothing is downloaded."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

TEMPLATES = Path(__file__).parents[1] / "linspec" / "templates"
PACKAGE = TEMPLATES / "solver" / "linspec_two_point"

PROBLEM = """
import json, warnings
import numpy as np
import linspec as ls
rng = np.random.default_rng(0)
A = rng.standard_normal((60, 6)) * np.arange(1.0, 7.0)
problem = ls.LeastSquares(A, rng.standard_normal(60))
exact = np.linalg.lstsq(A, problem.B.dense()[:, 0], rcond=None)[0]
def good(solution):
    return bool(solution.converged and np.linalg.norm(solution.x - exact) < 1e-6 * np.linalg.norm(exact))
def message(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except Exception as error:
        return type(error).__name__ + ": " + str(error)
"""


class Site:
    """A folder of installed distributions, and interpreters that see it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, distribution: str, entries: dict[str, str], version: str = "0.1.0") -> None:
        """Write the metadata of a distribution."""
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        points = "".join(f"{name} = {module}\n" for name, module in entries.items())
        (info / "entry_points.txt").write_text(f"[linspec]\n{points}")

    def install_template(self, package: Path = PACKAGE) -> None:
        """Install a template under the names in its own pyproject.toml."""
        project = tomllib.loads((package.parent / "pyproject.toml").read_text("utf-8"))["project"]
        shutil.copytree(package, self.folder / package.name, ignore=shutil.ignore_patterns("__pycache__"))
        self.install(project["name"], project["entry-points"]["linspec"], project["version"])

    def install_copy(self, distribution: str, *names: str) -> None:
        """Install the template's code as another author would have it: same solver names, other package."""
        package = distribution.replace("-", "_")
        shutil.copytree(PACKAGE, self.folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        table = self.folder / package / "plugin.py"
        (spec,) = [
            node
            for node in ast.walk(ast.parse(table.read_text("utf-8")))
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "SolverSpec"
        ]
        record = ast.unparse(spec).replace("linspec_two_point", package)
        records = [record.replace("name='two-point'", f"name={name!r}") for name in names]
        table.write_text(
            "from linspec import SolverSpec, hookimpl\n\n"
            f"@hookimpl\ndef linspec_solvers():\n    return [{', '.join(records)}]\n"
        )
        self.install(distribution, {"solvers": f"{package}.plugin"})

    def install_wreck(self, distribution: str) -> None:
        """Install a plugin that fails on import."""
        package = distribution.replace("-", "_")
        (self.folder / f"{package}.py").write_text("import a_library_that_is_not_there\n")
        self.install(distribution, {"solvers": package})

    def run(self, *arguments: str, cwd: Path | None = None, **environment: str) -> Any:
        path = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        return subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", **environment},
            cwd=cwd or self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def ask(self, expression: str, **environment: str) -> Any:
        """The value of an expression in an interpreter that has a problem and its exact solution."""
        done = self.run("-c", f"{PROBLEM}\nprint(json.dumps({expression}))", **environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])
