"""The pages for authors of plugins: what they import is public and in their tables."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import linspec as ls

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/extend"
PAGES = {page.name: page.read_text("utf-8") for page in sorted(FOLDER.glob("*.md"))}

OF_THE_SOURCE = {"architecture.md", "printed-algorithms.md"}
"""Pages that show how linspec itself is written, and so name its files."""

TABLES = {
    "write-a-plugin.md": "## What there is for authors",
    "a-problem-of-your-own.md": "## What there is for authors of problems",
}
"""The pages with a table of public names, and its heading."""


@cache
def public_modules() -> set[str]:
    """The modules of the one list, on the page about stability."""
    section = (ROOT / "docs/about/stability.md").read_text("utf-8").partition("## Public")[2]
    lines = section.partition("\n## ")[0].splitlines()
    table = " ".join(line.split("|")[1] for line in lines if line.startswith("|"))
    found = re.findall(r"`(linspec(?:\.[a-z_.]+)?|\.[a-z_]+)`", table)
    return {f"linspec{name}" if name.startswith(".") else name for name in found}


def tabled() -> dict[str, set[str]]:
    """The names of the tables of both pages, by module."""
    found: dict[str, set[str]] = {}
    for page, heading in TABLES.items():
        section = PAGES[page].partition(f"\n{heading}\n")[2].partition("\n## ")[0]
        for line in section.splitlines():
            if line.startswith("| `linspec"):
                modules, names = line.split("|")[1:3]
                for module in re.findall(r"`([\w.]+)`", modules):
                    found.setdefault(module, set()).update(re.findall(r"`([A-Za-z_]\w*)`", names))
    return found


def imports() -> list[tuple[str, str, str]]:
    """Place, module and name of every import from linspec in blocks of pages and files of templates."""
    sources = [
        (name, code)
        for name, text in PAGES.items()
        for code in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    ]
    templates = sorted((ROOT / "linspec/templates").glob("**/*.py"))
    found = []
    for place, code in sources + [(file.name, file.read_text("utf-8")) for file in templates]:
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "linspec":
                found += [(place, node.module or "", alias.name) for alias in node.names]
            elif isinstance(node, ast.Import):
                found += [
                    (place, alias.name, "") for alias in node.names if alias.name.startswith("linspec.")
                ]
    return found


def is_public(module: str, name: str) -> bool:
    return module in public_modules() and (not name or name in importlib.import_module(module).__all__)


def test_authors_import_public_names_alone_which_are_in_a_table() -> None:
    used, names = imports(), tabled()
    assert len(used) > 50
    assert [one for one in used if not is_public(*one[1:])] == []
    of_modules = [one for one in used if one[1].startswith("linspec.")]
    assert [one for one in of_modules if one[2] not in names.get(one[1], set())] == []
    assert [(m, name) for m in names for name in names[m] if not is_public(m, name)] == []


def test_no_page_sends_to_a_private_module() -> None:
    """A dotted name is a public module, a name in it, or an attribute of this name."""
    private = []
    for page in PAGES.keys() - OF_THE_SOURCE:
        text = re.sub(r"```.*?```", "", PAGES[page], flags=re.DOTALL)
        for dotted in set(re.findall(r"\blinspec(?:_[a-z]+)?(?:\.\w+)+", text)):
            first, *rest = dotted.split(".")
            splits = [(".".join([first, *rest[:i]]), (*rest, "")[i]) for i in range(len(rest) + 1)]
            plugin = first != "linspec" and rest[0] in importlib.import_module(first).__all__
            private += [] if plugin or any(is_public(*split) for split in splits) else [(page, dotted)]
    assert private == []


def test_every_problem_has_a_table_of_its_arrays() -> None:
    tables = re.findall(r"<!-- arrays: ([a-z-]+) -->\n(?:\|.*\n)+", PAGES["what-problems-ask.md"])
    shipped = {"linspec", *(folder.name for folder in (ROOT / "plugins").iterdir())}
    named = {name for name in ls.problems() if ls.get_problem(name).__module__.partition(".")[0] in shipped}
    assert set(tables) == named
