"""Which families and solvers are timed: those that records name, of this checkout and of what is installed beside it.

asv asks for a parameter by its number, in an environment of each commit that it times. If the lists followed the
commit, one number would stand for two solvers. So the records of linspec are read where the benchmarks are read, in
this checkout, whichever commit is timed; a solver which that commit lacks is skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def solvers(problem: str, having: str | None = None, lacking: str | None = None) -> list[str]:
    """The solvers of a family, all or those that have one trait and lack another."""
    return [
        name
        for name, traits in _listed()["solvers"].get(problem, {}).items()
        if (having is None or having in traits) and lacking not in traits
    ]


@cache
def _listed() -> dict[str, Any]:
    spec = find_spec("linspec")
    if spec is not None and Path(str(spec.origin)).resolve().parent == ROOT / "linspec":
        return read()
    return _read_in_checkout()


def read() -> dict[str, Any]:
    """Return the registered solvers by problem, with their traits."""
    from linspec import registry

    found: dict[str, dict[str, list[str]]] = {problem: {} for problem in registry.problems()}
    for name in registry.solvers():
        problem, _, solver = name.partition("/")
        if problem in found:  # a record may name a problem that nobody registers
            found[problem][solver] = list(registry.get_spec("solver", solver, problem).traits)
    return {"solvers": found}


def _read_in_checkout() -> dict[str, Any]:
    """Return `read()` of this checkout, from an interpreter of its own, because this one has another linspec."""
    with TemporaryDirectory() as folder:
        code = "import json; from benchmarks.records import read; print(json.dumps(read()))"
        path = os.pathsep.join((import_path(ROOT, Path(folder)), str(ROOT / "asv_bench")))
        run = subprocess.run(  # noqa: S603
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": path},
            cwd=folder,  # a folder without another linspec
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def import_path(checkout: Path, folder: Path) -> str:
    """PYTHONPATH with which a checkout is imported, with its plugins, whichever linspec is installed.

    Metadata are written into the folder, and hide those of the linspec that is installed, because they come first.
    """
    project = tomllib.loads((checkout / "pyproject.toml").read_text("utf-8"))["project"]
    entries = [f"{name} = {module}" for name, module in project["entry-points"]["linspec"].items()]
    metadata = folder / "linspec-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: linspec\nVersion: 0\n", "utf-8")
    (metadata / "entry_points.txt").write_text("\n".join(["[linspec]", *entries, ""]), "utf-8")
    path = [checkout, checkout / "plugins", folder, os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(str(place) for place in path if str(place) not in {"", "."})
