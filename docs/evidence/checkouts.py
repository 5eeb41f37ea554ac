"""The part that scripts share which measure another checkout: its modules and its plugins, and no others."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path


def environment_of(folder: Path, declared: Path) -> dict[str, str]:
    """The environment of a process that imports linspec and its plugins from a checkout.

    Parameters
    ----------
    folder : pathlib.Path
        The checkout.
    declared : pathlib.Path
        An empty folder, which says what plugins the checkout has: an installed distribution may have others.
    """
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    info = declared / "linspec-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: linspec\nVersion: 0\n", encoding="utf-8")
    points = [f"{name} = {target}" for name, target in project["entry-points"]["linspec"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[linspec]", *points, ""]), encoding="utf-8")
    path = os.pathsep.join(map(str, (declared, folder, folder / "plugins")))
    return {**os.environ, "PYTHONPATH": path}
