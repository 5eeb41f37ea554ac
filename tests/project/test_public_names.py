"""The pages of the public names: every name has a docstring with an example, and all examples run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("click")

from project import public_surface

import linspec

ROOT = Path(__file__).parents[2]

MODULES = [*(name.removeprefix("linspec.") for name in public_surface.MODULES), "cli"]
"""Public modules: those of `linspec.__all__`, and those that are imported by their own name. Each has a page."""

WITHOUT_EXAMPLE = {
    "hookimpl",  # pluggy's marker, with its own docstring
    "cli.main",  # a command of click: its docstring is what `linspec --help` shows
    "operators.CupySparseOperator",  # needs a GPU; `as_operator` makes it of a matrix of cupyx
}
"""Names without an example."""

LATER = {
    "certificates": """
        LinearCertificate Metric NearDiagonal Preconditioned certify_linear digits gram_pays metric_pays
        needs_metric noise_of rounding_of short_directions sketch_pays weakest
    """,
    "iteration": "Outcome Progress ritz_iterates run",
    "linalg": """
        Bidiagonal RitzBlocks RitzPairs Step Variables driven golub_kahan in_variables lsqr search side_by_side
        stacked
    """,
    "rows": """
        Block Cell Executor Fitted Minibatch Moments OutOfPasses Passes Preprocessing Reduction Rows check_products
        random_order row_gram rows_at_once
    """,
}
"""Names of the core without an example yet; the list only shrinks."""

WITHOUT_EXAMPLE |= {f"{module}.{name}" for module, names in LATER.items() for name in names.split()}


def modules_with_examples() -> list[str]:
    return [
        ".".join(file.relative_to(base).with_suffix("").parts).removesuffix(".__init__")
        for base in (ROOT, ROOT / "plugins")
        for file in sorted(base.glob("linspec*/**/*.py"))
        if re.search(r"^\s*>>> ", file.read_text("utf-8"), re.MULTILINE)
    ]


def lacking(name: str, found: object) -> list[str]:
    """What the docstring of a public name lacks."""
    text = (found.__doc__ or "").strip()
    wanted = not inspect.ismodule(found) and name not in WITHOUT_EXAMPLE
    right = text and (inspect.ismodule(found) or (">>> " in text) == wanted)
    if text.count("\n") >= 60:
        return [f"{name}: more than 60 lines, whose prose belongs into the guide"]
    return [] if right else [f"{name}: {'no example, or one more' if text else 'no docstring'}"]


def test_every_public_name_has_a_docstring_with_an_example() -> None:
    names = {name: getattr(linspec, name) for name in linspec.__all__ if name != "__version__"}
    assert [fault for name, found in names.items() for fault in lacking(name, found)] == []


@pytest.mark.parametrize("name", MODULES)
def test_every_name_of_a_public_module_has_a_docstring_with_an_example(name: str) -> None:
    pytest.importorskip({"estimators": "sklearn", "plots": "matplotlib"}.get(name, "linspec"))
    module = importlib.import_module(f"linspec.{name}")
    assert (module.__doc__ or "").strip()
    assert module.__all__, f"{name} lists nothing: whoever reads that list finds no fault"
    members = {f"{name}.{member}": getattr(module, member) for member in module.__all__}
    own = {each: found for each, found in members.items() if "linspec" in getattr(found, "__module__", "")}
    assert [fault for each, found in own.items() if callable(found) for fault in lacking(each, found)] == []


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_of_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # for what they write
    monkeypatch.setenv("MPLBACKEND", "Agg")
    for place, optional in {"linspec.estimators": "sklearn", "linspec.plots": "matplotlib"}.items():
        if name.startswith(place):
            pytest.importorskip(optional)
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0
    assert found.attempted > 0
