"""``import linspec``: what it costs, what it offers, and that no import order breaks a public name."""

from __future__ import annotations

import ast
import importlib
import operator
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import linspec
from linspec.registry.options import COUNTERPARTS

FOLDER = Path(linspec.__file__).parent
PLUGINS = sorted(folder.name for folder in (Path(__file__).parents[2] / "plugins").glob("linspec_*"))
STUBS = sorted({*FOLDER.rglob("*.pyi")} - {FOLDER / "__init__.pyi"})


def module_of(stub: Path) -> str:
    place = stub.relative_to(FOLDER).with_suffix("").parts
    return ".".join(("linspec", *place)).removesuffix(".__init__")


def imported(stub: Path) -> dict[str, str]:
    """The names that a stub imports, with their modules."""
    nodes = [node for node in ast.parse(stub.read_text("utf-8")).body if isinstance(node, ast.ImportFrom)]
    return {alias.asname: node.module for node in nodes for alias in node.names if node.module != "typing"}


HEAVY = ("numpy", "scipy", "array_api_compat", "cupy", "torch", "click", "sklearn")
LISTINGS = (
    *(f"linspec.{name}()" for name in ("solvers", "normalizers", "test_matrices", "plugins")),
    "linspec.SolverSpec, linspec.Needs, linspec.hookimpl, linspec.option, linspec.part, linspec.errors",
    "dir(linspec)",
)
LOADED = "print([m for m in sys.modules if m.startswith(('linspec', 'numpy'))])"
HOLDERS = "print(sorted(before & set(_HOLDERS.values()) | before & {'numpy', 'scipy', 'click'}))"
QUIET = {f"import linspec; {LOADED}": "['linspec']"}
QUIET |= {
    f"import linspec; {code}; print([m for m in {HEAVY} if m in sys.modules])": "[]" for code in LISTINGS
}
for _name in ("__wrapped__", "_private"):  # which are not searched in records
    QUIET[f"import linspec; hasattr(linspec, {_name!r}); print('linspec.registry' in sys.modules)"] = "False"
for _name in PLUGINS:
    QUIET[f"from {_name} import *; import {_name} as p; print(hasattr(p, 'no_such_name'))"] = "False"
for _line in ("--help", "solvers", "plugins", "solve --help"):  # print much
    QUIET[
        f"import io; out, sys.stdout = sys.stdout, io.StringIO(); from linspec.cli import main; "
        f"main({_line.split()}, standalone_mode=False); sys.stdout = out; "
        "print(sorted({'numpy', 'rich', 'matplotlib', 'sklearn'} & set(sys.modules)))"
    ] = "[]"
for _name in map(module_of, STUBS):
    QUIET[f"import {_name}; before = set(sys.modules); from {_name} import _HOLDERS; {HOLDERS}"] = "[]"
"""What a fresh interpreter runs, and what it prints."""


@pytest.mark.parametrize(("code", "printed"), QUIET.items())
def test_what_is_not_used_is_not_loaded(code: str, printed: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}"], capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == printed, run.stderr


def test_no_submodule_has_the_name_of_a_public_function() -> None:
    """Importing it would put the module in the function's place."""
    submodules = {module.name for module in pkgutil.iter_modules([str(FOLDER)])}
    modules = "datasets errors estimators features kernels metrics plots targets testing"
    assert {*linspec.__all__} & submodules == {*modules.split()}


def test_the_stub_and_the_table_offer_the_same_names() -> None:
    stub = FOLDER / "__init__.pyi"
    names = imported(stub)
    # What the registry gives has no class there; the stub says which it is.
    functions = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.FunctionDef)]
    names |= {node.name: "linspec.registry.queries" for node in functions}
    table = linspec._PUBLIC.items()
    assert names == {name: "linspec" if module == f"linspec.{name}" else module for name, module in table}


def test_names_are_found_listed_and_kept() -> None:
    assert linspec.solvers is vars(linspec)["solvers"]  # the second use does not search
    assert {"solvers", "errors", "CCA", "__version__"} <= set(dir(linspec))
    assert not {"annotations", "hookimpl", "SolverSpec", "workers", "tol_option"} & set(dir(linspec))
    assert not hasattr(linspec, "numpy")
    assert len(linspec.__all__) == len(set(linspec.__all__))
    assert linspec.test_matrices.__test__ is False  # or pytest would collect it
    for name in linspec.problems():
        cls = linspec.get_problem(name)
        assert getattr(linspec, cls.__name__) is cls
        assert cls.__name__ in dir(linspec)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("sovlers", r"Did you mean 'solvers'\?"),
        ("PCA", r"Use linspec\.SVD\(A, k, center=True\), or linspec\.estimators\.PCA\."),
        ("lstsq", r"Use linspec\.LeastSquares\(A, B\)\."),
    ],
)
def test_an_unknown_attribute(name: str, remedy: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'.*{remedy}"):
        getattr(linspec, name)


def test_every_counterpart_of_a_foreign_name_is_there() -> None:
    for text in COUNTERPARTS.values():
        for name in re.findall(r"linspec((?:\.\w+)+)", text):
            assert operator.attrgetter(name[1:])(linspec) is not None


@pytest.mark.parametrize("stub", STUBS, ids=module_of)
def test_a_package_hands_on_what_its_stub_says(stub: Path) -> None:
    face, said = importlib.import_module(module_of(stub)), imported(stub)
    assert said == face._HOLDERS
    assert set(face.__all__) <= set(said) <= set(dir(face))
    assert all(getattr(face, name) is getattr(importlib.import_module(said[name]), name) for name in said)
    with pytest.raises(AttributeError, match=f"module '{face.__name__}' has no attribute 'nothing'"):
        face.nothing  # noqa: B018
    beside = {module.name for module in pkgutil.iter_modules(getattr(face, "__path__", ()))}
    assert not beside & set(said)  # importing the module would put it in the place of the name
