"""What the page on stability calls deprecated warns at the line that uses it, and works as before."""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.errors import deprecated

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "about" / "stability.md").read_text(encoding="utf-8")
A = np.random.default_rng(0).standard_normal((30, 4))
B = np.random.default_rng(1).standard_normal((30, 3))


def rows() -> list[tuple[str, str]]:
    """The calls of the table: the deprecated one, and the one that replaces it."""
    table = re.search(r"^\| deprecated \| instead \|\n\|[-|]+\|\n((?:\|.*\|\n)*)", PAGE, re.MULTILINE)
    assert table is not None, "the page has no table of deprecated names"
    found = [re.fullmatch(r"\| `(.+)` \| `(.+)` \|", line) for line in table[1].splitlines()]
    assert all(found), "a row names a call, and the call that replaces it"
    return [(row[1], row[2]) for row in found if row]


def arguments(call: str) -> dict[str, Any]:
    """What the names in a call of the table stand for; a new row may need another one here."""
    known = {"Moments": ls.Moments(A, B), "V": np.eye(3 if "cross" in call else 4)}
    used = {node.id for node in ast.walk(ast.parse(call)) if isinstance(node, ast.Name)}
    assert used <= known.keys() | {"ls", "linspec"}, f"say here what the names in {call} stand for"
    return {"__name__": __name__, "ls": ls, "linspec": ls, **known}


@pytest.mark.parametrize(("old", "new"), rows())
def test_a_deprecated_call_warns_its_caller_and_returns_what_the_new_one_returns(old: str, new: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = eval(compile(old, __file__, "eval"), arguments(old))  # the calls of a page of ours
    np.testing.assert_array_equal(found, eval(new, arguments(new)))
    (warning,) = caught
    assert (warning.category, warning.filename) == (DeprecationWarning, __file__)
    assert str(warning.message) == f"{old} is deprecated and will be removed: call {new}."


def test_the_table_has_every_deprecated_name() -> None:
    """Uses of the decorator in the sources, whose arguments are the two calls of a row."""
    found = set()
    for path in [*(ROOT / "linspec").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for use in getattr(node, "decorator_list", ()):
                if isinstance(use, ast.Call) and getattr(use.func, "id", "") == deprecated.__name__:
                    found.add(tuple(ast.literal_eval(one) for one in use.args))
    assert found == set(rows())
