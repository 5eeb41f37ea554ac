"""The pages of the public names: every name has a docstring with an example, and all examples run."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import tomllib
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

import linspec

ROOT = Path(__file__).parents[2]

OTHERS = {"hookimpl"}
"""Names whose docstring is another library's: pluggy's marker."""

MODULES = (
    "arrays",
    "certificates",
    "cli",
    "cost",
    "datasets",
    "errors",
    "estimators",
    "families.cca",
    "families.discriminant",
    "features",
    "iteration",
    "kernels",
    "linalg",
    "metrics",
    "operators",
    "plots",
    "process",
    "rows",
    "solving",
    "studies",
    "workers",
    "targets",
    "testing",
)
"""Public modules: those of `linspec.__all__`, and those that are imported by their own name. Each has a page."""

LATER = {
    *(
        f"certificates.{name}"
        for name in (
            "LinearCertificate",
            "Metric",
            "NearDiagonal",
            "Preconditioned",
            "certify_linear",
            "digits",
            "enclosure",
            "gram_pays",
            "metric_pays",
            "needs_metric",
            "noise_of",
            "rounding_of",
            "short_directions",
            "sketch_pays",
            "weakest",
        )
    ),
    *(f"iteration.{name}" for name in ("Outcome", "Progress", "ritz_iterates", "run")),
    *(
        f"linalg.{name}"
        for name in (
            "Bidiagonal",
            "RitzBlocks",
            "RitzPairs",
            "Step",
            "Variables",
            "cg_steps",
            "driven",
            "golub_kahan",
            "in_variables",
            "lsqr",
            "search",
            "side_by_side",
            "stacked",
        )
    ),
    *(
        f"rows.{name}"
        for name in (
            "Block",
            "Cell",
            "Executor",
            "Fitted",
            "Minibatch",
            "Moments",
            "OutOfPasses",
            "Passes",
            "Preprocessing",
            "Reduction",
            "Rows",
            "check_products",
            "random_order",
            "row_gram",
            "rows_at_once",
        )
    ),
}
"""Names of the core without an example yet; the list only shrinks."""

WITHOUT_EXAMPLE = {
    "cli.main": "a command of click: its docstring is what `linspec --help` shows",
    "operators.CupySparseOperator": "needs a GPU; `as_operator` makes it of a matrix of cupyx",
    **dict.fromkeys(LATER, "of the core, which the pages for authors show at work"),
}
"""Classes and functions of these modules that have no example, and why."""


def modules_with_examples() -> list[str]:
    return [
        ".".join(file.relative_to(base).with_suffix("").parts).removesuffix(".__init__")
        for base in (ROOT, ROOT / "plugins")
        for file in sorted(base.glob("linspec*/**/*.py"))
        if re.search(r"^\s*>>> ", file.read_text("utf-8"), re.MULTILINE)
    ]


def holder_of(module: ModuleType, member: str) -> ModuleType:
    """The module that defines what another one hands on."""
    imports = (node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ImportFrom))
    holders = {alias.name: node.module for node in imports for alias in node.names if node.module}
    holders |= getattr(module, "_HOLDERS", {})
    return importlib.import_module(holders[member]) if member in holders else module


def constants_of(module: ModuleType) -> dict[str, bool]:
    """The names to which a module assigns a value, and whether a docstring stands below them."""
    found: dict[str, bool] = {}
    for statement, below in pairwise(ast.parse(inspect.getsource(module)).body):
        targets = (
            statement.targets
            if isinstance(statement, ast.Assign)
            else [statement.target]
            if isinstance(statement, ast.AnnAssign)
            else []
        )
        text = below.value if isinstance(below, ast.Expr) else None
        documented = isinstance(text, ast.Constant) and isinstance(text.value, str)
        found |= {target.id: documented for target in targets if isinstance(target, ast.Name)}
    return found


def test_every_public_name_has_a_docstring_with_an_example() -> None:
    lacking = []
    for name in set(linspec.__all__) - OTHERS - {"__version__"}:
        found = getattr(linspec, name)
        if not (found.__doc__ or "").strip():
            lacking.append(f"{name}: no docstring")
        elif not inspect.ismodule(found) and ">>> " not in found.__doc__:
            lacking.append(f"{name}: no example")
    assert sorted(lacking) == []


@pytest.mark.parametrize("name", MODULES)
def test_every_name_of_a_public_module_has_a_docstring_with_an_example(name: str) -> None:
    """Constants, such as `linspec.testing.BACKENDS`, have their docstring below them in the source."""
    if name in {"estimators", "plots"}:
        pytest.importorskip({"estimators": "sklearn", "plots": "matplotlib"}[name])
    module = importlib.import_module(f"linspec.{name}")
    assert (module.__doc__ or "").strip()
    assert module.__all__, f"{name} lists nothing: whoever reads that list finds no fault"
    lacking = []
    for member in module.__all__:
        found = getattr(module, member)
        constants = constants_of(holder_of(module, member))
        if member in constants:
            lacking += [] if constants[member] else [f"{name}.{member}: no docstring below it"]
            continue
        if not callable(found):
            continue
        if not (found.__doc__ or "").strip():
            lacking.append(f"{name}.{member}: no docstring")
        elif ">>> " not in found.__doc__ and f"{name}.{member}" not in WITHOUT_EXAMPLE:
            lacking.append(f"{name}.{member}: no example")
    assert sorted(lacking) == []


def test_the_exceptions_have_no_example() -> None:
    for name in WITHOUT_EXAMPLE:
        module, _, member = name.rpartition(".")
        found = getattr(importlib.import_module(f"linspec.{module}"), member)
        assert ">>> " not in found.__doc__


def test_all_public_modules_are_looked_at() -> None:
    named = {name for name in linspec.__all__ if inspect.ismodule(getattr(linspec, name))}
    assert named <= set(MODULES)


def test_all_modules_that_plugins_may_import_are_looked_at() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (public,) = (contract for contract in contracts if contract["id"] == "public")
    assert {allowed.removeprefix("** -> linspec.") for allowed in public["ignore_imports"]} <= set(MODULES)


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_of_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # for what they write
    monkeypatch.setenv("MPLBACKEND", "Agg")
    for optional in ("sklearn", "matplotlib"):
        if name.startswith({"sklearn": "linspec.estimators", "matplotlib": "linspec.plots"}[optional]):
            pytest.importorskip(optional)
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0
    assert found.attempted > 0
