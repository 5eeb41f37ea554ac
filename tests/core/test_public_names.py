"""What the pages of the public names show: every name has a docstring with an example, and all examples run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import linspec

ROOT = Path(__file__).parents[2]

OTHERS = {"hookimpl"}
"""Names whose docstring is another library's: pluggy's marker."""


def modules_with_examples() -> list[str]:
    return [
        ".".join(file.relative_to(base).with_suffix("").parts).removesuffix(".__init__")
        for base in (ROOT, ROOT / "plugins")
        for file in sorted(base.glob("linspec*/**/*.py"))
        if re.search(r"^\s*>>> ", file.read_text("utf-8"), re.MULTILINE)
    ]


def test_every_public_name_has_a_docstring_with_an_example() -> None:
    lacking = []
    for name in set(linspec.__all__) - OTHERS - {"__version__"}:
        found = getattr(linspec, name)
        if not (found.__doc__ or "").strip():
            lacking.append(f"{name}: no docstring")
        elif not inspect.ismodule(found) and ">>> " not in found.__doc__:
            lacking.append(f"{name}: no example")
    assert sorted(lacking) == []


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
