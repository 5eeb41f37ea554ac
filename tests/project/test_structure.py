"""The house is open: families of problems stand in their folders, and nothing else of the core knows one.

Read from the source by `ast`: identifiers, attributes, imported names and texts, but for docstrings.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

import linspec as ls

CORE = Path(ls.__file__).parent
ROOT = CORE.parent
FAMILIES = CORE / "families"
TEMPLATES = CORE / "templates"
BENCHMARKS = Path(__file__).parents[2] / "asv_bench" / "benchmarks"
FOR_ALL = {"base.py", "records.py"}
"""The modules of the benchmarks that serve every family."""

CLASSES = frozenset(
    name
    for path in FAMILIES.glob("*/*.py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body
    if path.stem in {"problem", "solution"} and isinstance(node, ast.ClassDef)
    for name in [node.name]
)

EXEMPT = frozenset(
    {
        CORE / "__init__.py",  # the table of public names: a line for each shipped family
        *(CORE / "estimators").glob("*.py"),  # an estimator states a problem of its family
    }
)


def modules() -> list[Path]:
    every = (path for path in CORE.rglob("*.py") if not {FAMILIES, TEMPLATES} & set(path.parents))
    return sorted(path for path in every if path not in EXEMPT)


def named(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Identifiers of classes and texts with their lines; docstrings and functions such as NumPy's svd left out."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    skipped = {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(node, documented)
        for statement in node.body
        if isinstance(statement, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            yield node.lineno, name if name in CLASSES else ""
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def test_every_list_of_packages_has_all_of_them():
    packages = {path.parent.name for path in (ROOT / "plugins").glob("*/__init__.py")}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert set(wheel) == {"linspec", *(f"plugins/{name}" for name in packages)}
    linter = settings["tool"]["importlinter"]
    assert set(linter["root_packages"]) == {"linspec", *packages}
    lists = {
        "core": ("forbidden_modules", packages),
        "plugins": ("modules", packages),
        "public": ("source_modules", packages),
        "arrays": ("source_modules", {"linspec", *packages}),
        "cli": ("source_modules", {"linspec", *packages}),
        "scikit-learn": ("source_modules", {"linspec", *packages}),
    }
    for contract in linter["contracts"]:
        if contract["id"] in lists:
            field, wanted = lists.pop(contract["id"])
            assert set(contract[field]) == wanted, contract["id"]
    assert not lists
    tables = {target.partition(".")[0] for target in settings["project"]["entry-points"]["linspec"].values()}
    with_tables = {name for name in packages if (ROOT / "plugins" / name / "plugin.py").exists()}
    assert tables == {"linspec", *with_tables}


def test_plugins_import_what_the_page_promises_to_authors():
    table = (
        (ROOT / "docs" / "about" / "stability.md").read_text("utf-8").split("## Public")[1].split("\n\n")[1]
    )
    promised: dict[str, set[str]] = {}
    for row in table.splitlines()[2:]:
        names, whom = row.strip("| ").split(" | ")
        found = re.findall(r"`(?:linspec)?\.([a-z][\w.]+)`", names)
        promised.setdefault("everybody" if whom == "everybody" else "authors", set()).update(found)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (ignored,) = [one["ignore_imports"] for one in contracts if one["id"] == "public"]
    allowed = {line.removeprefix("** -> linspec.") for line in ignored}
    assert promised["authors"] <= allowed <= promised["authors"] | promised["everybody"]


def test_the_classes_are_found():
    assert {"CCA", "SVD", "LeastSquares", "Discriminant", "CCASolution"} <= CLASSES


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(CORE).as_posix())
def test_no_module_of_the_core_names_a_family(path):
    """Neither its class, nor its name as a problem: what families have of their own is found through records."""
    forbidden = CLASSES | set(ls.problems())
    allowed = {"cca"} if path.name == "targets.py" else set()  # a kind of target, after its method
    allowed |= (
        CLASSES if path.name == "references.py" else set()
    )  # one for each family, which its record names
    found = [
        f"line {line}: {text!r}"
        for line, text in named(ast.parse(path.read_text(encoding="utf-8")))
        if text in forbidden - allowed
    ]
    assert not found


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.name)
def test_no_benchmark_names_the_class_of_a_family(path):
    """The record has it. Modules that serve every family name no problem either."""
    forbidden = CLASSES | (set(ls.problems()) if path.name in FOR_ALL else set())
    found = [
        f"line {line}: {text!r}"
        for line, text in named(ast.parse(path.read_text(encoding="utf-8")))
        if text in forbidden
    ]
    assert not found


def test_no_import_leads_back():
    """Nor one inside a function; imports for types alone are none when the program runs."""
    plugins = (path.name for path in (CORE.parent / "plugins").iterdir() if (path / "plugin.py").exists())
    graph = grimp.build_graph("linspec", *plugins, exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle
