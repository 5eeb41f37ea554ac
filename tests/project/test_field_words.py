"""The words of new files are those of the field, and no module above the kinds of data asks what kind it has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

LINSPEC = Path(__file__).parents[2] / "linspec"
FOLDERS = "blocks", "rows", "linalg", "certificates", "iteration"
NEW = sorted(path for folder in FOLDERS for path in (LINSPEC / folder).rglob("*.py"))
ABOVE = [path for path in NEW if "blocks" not in path.parts]

PRIVATE = {
    "adjustment",
    "beside",
    "found",
    "given",
    "home",
    "law",
    "ledger",
    "made",
    "other",
    "own",
    "sweep",
    "task",
}
PRIVATE |= {"told", "verdict", "witness"}
METHODS = {"gram": "other"}
"""Names of parameters that stay: Xᵀ diag(w) Y is of a block and another one."""

KINDS = re.compile(
    r"isinstance\([^)]*\b(?:\w*Block|Dense|Sparse|Slices|ByProducts)\b|hasattr\(|\.nnz\b|\.kind\b"
)


@pytest.mark.parametrize("path", NEW, ids=str)
def test_names_are_words_of_the_field(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    names = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    assert names & PRIVATE <= set(METHODS.values())


@pytest.mark.parametrize("path", ABOVE, ids=str)
def test_no_module_above_the_kinds_of_data_asks_for_one(path: Path) -> None:
    assert not KINDS.findall(path.read_text("utf-8"))
