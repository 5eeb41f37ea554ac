"""The pages for authors of plugins: what they import is public and in their tables."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

import linspec as ls

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/extend"
PAGES = sorted(FOLDER.glob("*.md"))

OF_THE_SOURCE = {"architecture.md", "printed-algorithms.md"}
"""Pages that show how linspec itself is written, and so name its files."""

TABLES = {
    "write-a-plugin.md": "## What there is for authors",
    "a-problem-of-your-own.md": "## What there is for authors of problems",
}
"""The pages with a table of public names, and its heading."""

PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"\blinspec(?:_[a-z]+)?(?:\.\w+)+")
ARRAYS = re.compile(r"<!-- arrays: ([a-z-]+) -->\n((?:\|.*\n)+)")


def public_modules() -> set[str]:
    """The modules of the one list, on the page about stability."""
    section = (ROOT / "docs/about/stability.md").read_text("utf-8").partition("## Public")[2]
    table = [
        line.split("|")[1] for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")
    ]
    found = re.findall(r"`(linspec(?:_fuzz)?(?:\.[a-z_.]+)?|\.[a-z_]+)`", " ".join(table))
    return {f"linspec{name}" if name.startswith(".") else name for name in found}


def tabled() -> dict[str, set[str]]:
    """The names of the tables of both pages, by module."""
    found: dict[str, set[str]] = {}
    for page, heading in TABLES.items():
        section = (FOLDER / page).read_text("utf-8").partition(f"\n{heading}\n")[2].partition("\n## ")[0]
        for line in section.splitlines():
            if not line.startswith("| `linspec"):
                continue
            modules, names = line.split("|")[1:3]
            for module in re.findall(r"`([\w.]+)`", modules):
                found.setdefault(module, set()).update(re.findall(r"`([A-Za-z_]\w*)`", names))
    return found


def imports(code: str) -> list[tuple[str, str]]:
    """Module and name of every import from linspec."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "linspec":
            found += [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names if alias.name.startswith("linspec.")]
    return found


def sources() -> list[tuple[str, str]]:
    """The Python code that authors read: blocks of pages and files of templates."""
    blocks = [(page.name, code) for page in PAGES for code in PYTHON.findall(page.read_text("utf-8"))]
    templates = sorted((ROOT / "linspec/templates").glob("**/*.py"))
    return blocks + [(file.relative_to(ROOT).as_posix(), file.read_text("utf-8")) for file in templates]


def is_public(module: str, name: str) -> bool:
    return module in public_modules() and (not name or name in importlib.import_module(module).__all__)


def test_the_list_is_that_of_the_import_contract() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    (public,) = (one for one in tools["importlinter"]["contracts"] if one["id"] == "public")
    allowed = {line.removeprefix("** -> ") for line in public["ignore_imports"]}
    assert allowed <= public_modules()


def test_authors_import_public_names_alone() -> None:
    used = [(place, *one) for place, code in sources() for one in imports(code)]
    assert len(used) > 50
    assert [one for one in used if not is_public(one[1], one[2])] == []


def test_every_imported_name_is_in_a_table() -> None:
    names = tabled()
    used = {one for place, code in sources() for one in imports(code) if one[0].startswith("linspec.")}
    assert sorted((module, name) for module, name in used if name not in names.get(module, set())) == []


@pytest.mark.parametrize("module", sorted(tabled()))
def test_the_tables_name_public_names(module: str) -> None:
    assert module in public_modules()
    known = importlib.import_module(module).__all__
    assert sorted(name for name in tabled()[module] if name not in known) == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in OF_THE_SOURCE], ids=lambda p: p.name
)
def test_no_page_sends_to_a_private_module(page: Path) -> None:
    """A dotted name is a public module, a name in it, or an attribute of this name."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    private = []
    for dotted in set(NAME.findall(text)):
        parts = dotted.split(".")
        if parts[0] != "linspec":
            found = importlib.import_module(parts[0])
            public = parts[1] in getattr(found, "__all__", ())
        else:
            splits = [
                (".".join(parts[:i]), parts[i] if i < len(parts) else "") for i in range(1, len(parts) + 1)
            ]
            public = any(is_public(*split) for split in splits)
        private += [] if public else [dotted]
    assert sorted(private) == []


def tables() -> dict[str, str]:
    return dict(ARRAYS.findall((FOLDER / "what-problems-ask.md").read_text("utf-8")))


def test_every_problem_has_a_table_of_its_arrays() -> None:
    shipped = {"linspec", *(folder.name for folder in (ROOT / "plugins").iterdir())}
    named = {name for name in ls.problems() if ls.get_problem(name).__module__.partition(".")[0] in shipped}
    assert set(tables()) == named
