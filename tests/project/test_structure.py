"""What guards the repository: its structure, size and public surface."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from project.public_surface import FOR_ALL, FOR_AUTHORS, OTHERS, RECORD, lines
from project.size import DENSEST, ceiling, size_of, total

import linspec as ls

CORE = Path(ls.__file__).parent
ROOT = CORE.parent
FAMILIES = CORE / "families"
CLASSES = {
    node.name
    for path in [*FAMILIES.glob("*/problem.py"), *FAMILIES.glob("*/solution.py")]
    for node in ast.parse(path.read_text(encoding="utf-8")).body
    if isinstance(node, ast.ClassDef)
}


def modules() -> list[Path]:
    """All but the families, the table of public names, and the estimators, which state a problem of their family."""
    apart = {FAMILIES, CORE / "templates", CORE / "estimators"}
    every = {path for path in CORE.rglob("*.py") if not apart & {*path.parents}}
    return sorted(every - {CORE / "__init__.py"})


def named(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Identifiers of classes, imported names and texts with their lines; not functions such as NumPy's svd."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            yield node.lineno, name if name in CLASSES else ""
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
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
    """The page has the names of `public_surface`, as a test below says."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    (ignored,) = [
        one["ignore_imports"] for one in tools["importlinter"]["contracts"] if one["id"] == "public"
    ]
    allowed = {line.removeprefix("** -> linspec.") for line in ignored}
    assert {*FOR_AUTHORS} <= allowed <= {*FOR_AUTHORS, *FOR_ALL, *OTHERS}
    named = {name for name in ls.__all__ if inspect.ismodule(getattr(ls, name))}
    assert named <= {*FOR_ALL, *FOR_AUTHORS, *OTHERS}


def test_no_module_of_the_core_names_a_family():
    """Neither its class, nor its name as a problem: what families have of their own is found through records."""
    assert {"CCA", "SVD", "LeastSquares", "Discriminant", "CCASolution"} <= CLASSES
    found, forbidden = [], CLASSES | set(ls.problems())
    for path in modules():
        allowed = {"cca"} if path.name == "targets.py" else set()  # a kind of target, after its method
        allowed |= CLASSES if path.name == "references.py" else set()  # which records of problems name
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [(path, line, text) for line, text in named(tree) if text in forbidden - allowed]
    assert found == []


PRIVATE = "adjustment beside found given home law ledger made own sweep told verdict witness"
"""Words that name nothing in the field."""

PUBLIC = {"found", "given"}
"""Parameters of public methods, such as ``start(given)``, in these folders and plugins."""
WITH_PUBLIC = {"families", "kernels", "solving", "workers"}
WITH_PUBLIC |= {
    "linspec_dask",
    "linspec_kernel",
    "linspec_many_targets",
    "linspec_reduced_rank",
    "linspec_svd",
}

KINDS = re.compile(
    r"isinstance\([^)]*\b(?:\w*Block|Dense|Sparse|Slices|ByProducts)\b|hasattr\(|\.nnz\b|\.kind\b"
)


def test_names_are_words_of_the_field():
    for path in [*CORE.rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]:
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        names |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        assert names & {*PRIVATE.split()} <= (PUBLIC if WITH_PUBLIC & {*path.parts} else set()), path


@pytest.mark.parametrize("folder", ["rows", "linalg", "certificates", "iteration"])
def test_no_module_above_the_kinds_of_data_asks_for_one(folder):
    for path in sorted((CORE / folder).rglob("*.py")):
        assert not KINDS.findall(path.read_text("utf-8")), path


def test_no_import_leads_back():
    """Nor one inside a function; imports for types alone are none when the program runs."""
    plugins = (path.name for path in (CORE.parent / "plugins").iterdir() if (path / "plugin.py").exists())
    graph = grimp.build_graph("linspec", *plugins, exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle


def test_the_page_on_the_architecture_has_the_layers_and_the_frames_of_today():
    """But for numbers, which may have moved a little."""
    script, page = (ROOT / "docs" / name for name in ("site/draw_architecture.py", "extend/architecture.md"))
    printed = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout
    today, shown = (re.sub(r"\d+", "", text) for text in (printed, page.read_text("utf-8")))
    assert today.strip() in shown, "run `python docs/site/draw_architecture.py --write`"


# ---- size, public surface ----------------- ----------------------------------------------------------


def test_the_size_is_at_most_the_ceiling_which_follows_it():
    now, limits = total(), ceiling()
    assert now.statements <= limits["statements"], "take a mechanism out, or size.py --rise"
    assert now.nodes <= min(limits["nodes"], DENSEST * now.statements)
    lower = "lower the ceiling: python tests/project/size.py --record"
    assert now.statements >= 0.99 * limits["statements"], lower


def test_statements_are_counted_and_not_lines_comments_and_docstrings():
    source = '"""Title."""\n\n\ndef f(x):\n    """Doc."""\n    # a comment\n    return (\n        x\n    )\n'
    assert size_of(source) == size_of("def f(x): return x")


def test_the_public_surface_is_the_recorded_one():
    """`python tests/project/public_surface.py --record` after a change, with a line in the changelog."""
    pytest.importorskip("sklearn")
    found, recorded = lines(), RECORD.read_text(encoding="utf-8").splitlines()
    assert sorted(set(recorded) - set(found)) == []
    assert sorted(set(found) - set(recorded)) == []
    page = (ROOT / "docs" / "about" / "stability.md").read_text(encoding="utf-8")
    for row, names in (("everybody", FOR_ALL), ("authors of plugins", FOR_AUTHORS)):
        assert f"| `linspec.{names[0]}`, " + ", ".join(f"`.{name}`" for name in names[1:]) in page, row
