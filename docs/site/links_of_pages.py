"""Links that work on GitHub and on the site: pages, folders, and names in the tables of solvers.

Problem: the same Markdown is read in the repository, where a link may name a folder or a file outside `docs`, and on
the site, where only pages can be linked.
Method: when Sphinx reads a page, links to a folder become links to a page that lists its files, links to the files of
the repository that the site has become links to those pages, and the tables that `docs/site/records.py` writes get
links to the pages of solvers. The files themselves stay as they are.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from pages_of_records import Pages, solver_page
from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
ON_THE_SITE = {
    "README.md": "index.md",
    "CHANGELOG.md": "listings/changelog.md",
    "CONTRIBUTING.md": "listings/contributing.md",
}
"""Files of the repository, and the pages that have their place on the site."""

TEMPLATES = ("solver", "problem", "data")
"""Folders of `linspec/templates`, which pages link to."""

LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=(#[^)\s]*)?\))")
TABLE = re.compile(
    r"<!-- docs/site/records\.py: (problems|solvers) ?([a-z0-9-]*) -->\n.*?<!-- docs/site/records\.py: end -->",
    re.DOTALL,
)
LANGUAGES = {".py": "python", ".toml": "toml", ".md": "markdown"}


def write_listings(app: Sphinx, config: Any) -> None:
    """Write a page for each folder, with its files, and copies of files of the repository."""
    pages = Pages(Path(app.srcdir) / "listings")
    for name, page in ON_THE_SITE.items():
        if page.startswith("listings/"):
            text = (ROOT / name).read_text("utf-8")
            pages.write(Path(page).name, LINK.sub(lambda match: _from_listings(match[1]), text))
    for folder in TEMPLATES:
        lines = [
            f"# {folder}-template\n",
            f"The files of `linspec/templates/{folder}`. `linspec new` writes a copy under your own names.\n",
        ]
        for file in sorted((ROOT / "linspec" / "templates" / folder).rglob("*")):
            if file.suffix in LANGUAGES and file.stat().st_size:
                name = file.relative_to(ROOT / "linspec" / "templates" / folder).as_posix()
                lines += [
                    f"## {name}\n",
                    f"````{{literalinclude}} ../../linspec/templates/{folder}/{name}",
                    f":language: {LANGUAGES[file.suffix]}",
                    "````\n",
                ]
        pages.write(f"{folder}-template.md", "\n".join(lines))
    pages.finish()


def _from_listings(target: str) -> str:
    """A link of a file of the repository, as it is from the folder of the copy."""
    if "://" in target or target in ON_THE_SITE:
        return f"../{ON_THE_SITE[target]}" if target in ON_THE_SITE else target
    return os.path.relpath(ROOT / target, DOCS / "listings")


def rewrite(app: Sphinx, docname: str, source: list[str]) -> None:
    """Change the links of a page as Sphinx reads it."""
    page = Path(app.srcdir) / f"{docname}.md"
    if not page.exists():
        return
    up = "../" * docname.count("/")
    text = LINK.sub(lambda match: _target(match[1], page, up), source[0])
    source[0] = TABLE.sub(lambda match: _with_links(match, up), text)


def _target(target: str, page: Path, up: str) -> str:
    """The target on the site."""
    file = Path(os.path.normpath(page.parent / target))
    if file.parent == ROOT / "linspec" / "templates" and file.name in TEMPLATES:
        return f"{up}listings/{file.name}-template.md"
    if file.parent == ROOT and file.name in ON_THE_SITE:
        return up + ON_THE_SITE[file.name]
    return target


def _with_links(match: re.Match[str], up: str) -> str:
    """A table of `docs/site/records.py` whose names lead to the pages of what they name."""
    lines = []
    for line in match[0].splitlines():
        cells = line.split(" | ")
        if match[1] == "solvers":
            cells[0] = re.sub(r"`([^`]+)`", lambda name: _link(match[2], name[1], up), cells[0])
        elif problem := re.match(r"\| `([a-z0-9-]+)`", cells[0]):
            cells[0] = f"| [`{problem[1]}`]({up}solvers/{problem[1]}/index.rst)"
            cells[-1] = re.sub(r"`([^`]+)`", lambda name: _link(problem[1], name[1], up), cells[-1])
        lines.append(" | ".join(cells))
    return "\n".join(lines)


def _link(problem: str, name: str, up: str) -> str:
    return f"[`{name}`]({up}{solver_page(problem, name)}.rst)"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("config-inited", write_listings)
    app.connect("source-read", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
