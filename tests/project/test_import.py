"""``import linspec``: what it costs, what it offers, and that no import order breaks a public name."""

from __future__ import annotations

import ast
import importlib
import operator
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import linspec
from linspec.registry.options import COUNTERPARTS

FOLDER = Path(linspec.__file__).parent
SUBMODULES = sorted(module.name for module in pkgutil.iter_modules([str(FOLDER)]))
STUBS = sorted({*FOLDER.rglob("*.pyi")} - {FOLDER / "__init__.pyi"})
FUNCTIONS = ("solvers", "normalizers", "test_matrices", "plugins", "describe", "register", "solve", "select")


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_importing_loads_nothing() -> None:
    run = python("import sys, linspec; print([m for m in sys.modules if m.startswith(('linspec', 'numpy'))])")
    assert run.stdout.strip() == "['linspec']", run.stderr


PLUGINS = sorted(folder.name for folder in (Path(__file__).parents[2] / "plugins").glob("linspec_*"))


@pytest.mark.parametrize("package", PLUGINS)
def test_a_plugin_gives_its_names_before_anything_of_it_is_loaded(package: str) -> None:
    run = python(f"from {package} import *; import {package} as p; print(hasattr(p, 'no_such_name'))")
    assert run.stdout.strip() == "False", run.stderr


@pytest.mark.parametrize(
    "code",
    [
        "linspec.solvers()",
        "linspec.normalizers()",
        "linspec.test_matrices()",
        "linspec.plugins()",
        "linspec.SolverSpec, linspec.Needs, linspec.hookimpl, linspec.option, linspec.part, linspec.errors",
        "dir(linspec)",
    ],
)
def test_listing_and_declaring_load_no_array_library(code: str) -> None:
    heavy = ("numpy", "scipy", "array_api_compat", "cupy", "torch", "click")
    run = python(f"import sys, linspec; {code}; print([m for m in {heavy} if m in sys.modules])")
    assert run.stdout.strip() == "[]", run.stderr


def test_no_submodule_has_the_name_of_a_public_function() -> None:
    """Importing it would put the module in the function's place."""
    shadowed = {name for name in linspec.__all__ if name in SUBMODULES}
    modules = {
        "datasets",
        "errors",
        "estimators",
        "features",
        "kernels",
        "metrics",
        "plots",
        "targets",
        "testing",
    }
    assert shadowed == modules & set(SUBMODULES)


@pytest.mark.parametrize(
    "name",
    [
        "solving.solver",
        "solving.select",
        "solving.solve",
        "solving.parts",
        "registry",
        "registry.spec",
        "registry.options",
    ],
)
@pytest.mark.parametrize("first", ["module", "function"])
@pytest.mark.slow(keep=2)
def test_functions_stay_functions_in_every_order_of_imports(name: str, first: str) -> None:
    ask = f"import linspec; assert all(callable(getattr(linspec, f)) for f in {FUNCTIONS})"
    bind = f"import linspec.{name}"
    run = python("; ".join([bind, ask, ask] if first == "module" else [ask, bind, ask]))
    assert run.returncode == 0, run.stderr


@pytest.mark.slow
def test_functions_stay_functions_when_every_submodule_is_imported() -> None:
    imports = "; ".join(f"import linspec.{name}" for name in SUBMODULES if not name.startswith("_"))
    run = python(f"{imports}; import linspec; assert all(callable(getattr(linspec, f)) for f in {FUNCTIONS})")
    assert run.returncode == 0, run.stderr


def test_the_stub_and_the_table_offer_the_same_names() -> None:
    stub = ast.parse((FOLDER / "__init__.pyi").read_text())
    imported = {
        (alias.asname, node.module)
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
    }
    # What the registry gives has no class there; the stub says which it is.
    imported |= {
        (node.name, "linspec.registry.queries") for node in stub.body if isinstance(node, ast.FunctionDef)
    }
    table = {
        (name, "linspec" if module == f"linspec.{name}" else module)
        for name, module in linspec._PUBLIC.items()
    }
    assert imported == table


def test_names_are_found_listed_and_kept() -> None:
    assert callable(linspec.solvers)
    assert vars(linspec)["solvers"] is linspec.solvers  # the second use does not search
    assert {"solvers", "errors", "CCA", "__version__"} <= set(dir(linspec))
    assert len(linspec.__all__) == len(set(linspec.__all__))
    assert linspec.errors.LinspecError is not None
    assert isinstance(linspec.__version__, str)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("sovlers", r"Did you mean 'solvers'\?"),
        ("svd", r"Did you mean 'SVD'\?"),
        ("KernelCAC", r"Did you mean 'KernelCCA'\?"),
        ("PCA", r"Use linspec\.SVD\(A, k, center=True\), or linspec\.estimators\.PCA\."),
        ("lstsq", r"Use linspec\.LeastSquares\(A, B\)\."),
    ],
)
def test_an_unknown_attribute(name: str, remedy: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'.*{remedy}"):
        getattr(linspec, name)


@pytest.mark.parametrize("name", ["__wrapped__", "_private"])
def test_a_private_attribute_is_not_searched_in_records(name: str) -> None:
    run = python(f"import sys, linspec; hasattr(linspec, {name!r}); print('linspec.registry' in sys.modules)")
    assert run.stdout.strip() == "False", run.stderr


def test_a_table_that_holds_linspec_itself_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hooks of a table are its marked functions; the module `linspec` is not asked whether it is one."""
    record = tmp_path / "own-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text("[linspec]\nown = own\n")
    (tmp_path / "own.py").write_text(
        "import linspec\n\n@linspec.hookimpl\ndef linspec_solvers():\n"
        '    return [linspec.SolverSpec(name="own", problem="svd", target="a:B", summary="S.", reference="N 2000")]\n'
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert python("import linspec; print('own' in linspec.solvers('svd'))").stdout.strip() == "True"


def test_every_counterpart_of_a_foreign_name_is_there() -> None:
    for text in COUNTERPARTS.values():
        for name in re.findall(r"linspec((?:\.\w+)+)", text):
            assert operator.attrgetter(name[1:])(linspec) is not None


def test_classes_of_registered_problems_are_attributes() -> None:
    for name in linspec.problems():
        cls = linspec.get_problem(name)
        assert getattr(linspec, cls.__name__) is cls
        assert cls.__name__ in dir(linspec)


def test_dir_lists_names_of_users() -> None:
    assert not {"annotations", "hookimpl", "SolverSpec", "workers", "tol_option"} & set(dir(linspec))
    assert not hasattr(linspec, "numpy")


def test_pytest_does_not_collect_the_listing_of_test_matrices() -> None:
    assert linspec.test_matrices.__test__ is False


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: str(stub.relative_to(FOLDER)))
def test_a_package_hands_on_what_its_stub_says(stub: Path) -> None:
    face = importlib.import_module(
        ".".join(("linspec", *stub.relative_to(FOLDER).with_suffix("").parts)).removesuffix(".__init__")
    )
    said = {
        alias.asname: node.module
        for node in ast.parse(stub.read_text("utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert said == face._HOLDERS
    assert set(face.__all__) <= set(said) <= set(dir(face))
    assert all(getattr(face, name) is getattr(importlib.import_module(said[name]), name) for name in said)
    with pytest.raises(AttributeError, match=f"module '{face.__name__}' has no attribute 'nothing'"):
        face.nothing  # noqa: B018
    beside = {module.name for module in pkgutil.iter_modules(getattr(face, "__path__", ()))}
    assert not beside & set(said)  # importing the module would put it in the place of the name


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: str(stub.relative_to(FOLDER)))
def test_a_package_loads_none_of_its_names_before_they_are_used(stub: Path) -> None:
    name = ".".join(("linspec", *stub.relative_to(FOLDER).with_suffix("").parts)).removesuffix(".__init__")
    run = python(
        f"import sys, {name}; loaded = set(sys.modules); from {name} import _HOLDERS; "
        "print(sorted(loaded & set(_HOLDERS.values()) | loaded & {'numpy', 'scipy', 'click'}))"
    )
    assert run.stdout.strip() == "[]", run.stderr
