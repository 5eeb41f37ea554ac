"""Puts the sites of several versions into one folder, with the list from which a reader chooses.

    python docs/site/versions.py SITE dev=docs/_build/html stable=stable/docs/_build/html --stable 0.1.0 --base /linspec

The folder SITE then has `dev` and `stable`, `bench` where pages of asv are named, `switcher.json`, and an `index.html`
that leads to `stable`, or to `dev` before the first release. The theme reads `../switcher.json` from each version
(`docs/conf.py`). Its addresses begin with the path of the site on its host, which the host names when it publishes:
no host stands in them.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

VERSIONS = ("stable", "dev")
"""The versions, the first one that exists is where the site opens."""

BENCH = "bench"
"""The pages of asv, which the list of versions leads to as well."""

INDEX = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>linspec</title>
<meta http-equiv="refresh" content="0; url={first}/index.html">
</head>
<body><a href="{first}/index.html">linspec</a></body>
</html>
"""


def switcher(there: list[str], stable: str, base: str) -> list[dict[str, object]]:
    """The entries of `switcher.json` for the parts that are there."""
    entries: list[dict[str, object]] = []
    for name in VERSIONS:
        if name in there:
            version = stable if name == "stable" else name
            label = f"{version} (stable)" if name == "stable" else name
            entry: dict[str, object] = {
                "name": label,
                "version": version,
                "url": f"{base.rstrip('/')}/{name}/",
            }
            entries.append({**entry, "preferred": True} if name == "stable" else entry)
    if BENCH in there:
        entries.append({"name": "benchmarks", "version": BENCH, "url": f"{base.rstrip('/')}/{BENCH}/"})
    return entries


def assemble(site: Path, parts: dict[str, Path], stable: str = "", base: str = "") -> None:
    """Copy the parts to a new folder, and write the list and the first page."""
    there = [name for name in VERSIONS if name in parts]
    if not there:
        raise SystemExit("versions.py needs stable=FOLDER or dev=FOLDER.")
    if bool(stable) != ("stable" in there):
        raise SystemExit("versions.py needs stable=FOLDER and --stable VERSION together.")
    site.mkdir(parents=True)
    for name, folder in parts.items():
        shutil.copytree(folder, site / name)
    (site / "switcher.json").write_text(
        json.dumps(switcher(list(parts), stable, base), indent=2) + "\n", "utf-8"
    )
    (site / "index.html").write_text(INDEX.format(first=there[0]), "utf-8")
    (site / ".nojekyll").touch()  # folders such as _static are published as they are


def main() -> None:
    """Assemble the site of the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("site", type=Path, metavar="SITE")
    parser.add_argument("parts", nargs="+", metavar="NAME=FOLDER", help="stable, dev or bench")
    parser.add_argument("--stable", default="", metavar="VERSION", help="the version of stable")
    parser.add_argument("--base", default="", metavar="PATH", help="the path of the site on its host")
    given = parser.parse_args()
    parts = {name: Path(folder) for name, _, folder in (part.partition("=") for part in given.parts)}
    assemble(given.site, parts, given.stable, given.base)


if __name__ == "__main__":
    main()
