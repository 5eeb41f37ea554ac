"""The part that scripts share which measure another checkout: its modules and its plugins, and no others."""

from __future__ import annotations

import os
import re
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
    source = (folder / "linspec" / "__init__.py").read_text("utf-8")
    version = re.search(r'(?m)^__version__ = "(.+)"', source)
    about = {"Metadata-Version": "2.1", "Name": "linspec", "Version": version[1] if version else "0"}
    info = declared / f"linspec-{about['Version']}.dist-info"
    info.mkdir()
    lines = [f"{name}: {value}" for name, value in about.items()]
    (info / "METADATA").write_text("\n".join([*lines, ""]), encoding="utf-8")
    points = [f"{name} = {target}" for name, target in project["entry-points"]["linspec"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[linspec]", *points, ""]), encoding="utf-8")
    path = os.pathsep.join(map(str, (declared, folder, folder / "plugins")))
    return {**os.environ, "PYTHONPATH": path}
