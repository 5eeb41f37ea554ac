"""Find first sentences of docstrings that must be read twice: ``python tests/project/first_sentences.py --warn``.

Reads the docstrings of modules, classes and functions and the notes below constants. Without ``--warn`` the exit
status is 1 if a sentence breaks a rule.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (ROOT / "linspec", ROOT / "plugins")

RULES = {
    "begin with a verb, or with the noun that is returned": r"\A((What|Of|So|That|Both)\b|The same( of| for|[.,;:]))",
    "write 'report', 'record' or 'return'": r"\b(told|tells?)\b",
    "write 'centred', 'removed' or 'subtracted'": r"\btaken out\b",
    "give the symbol or the number": r"\bso (many|much)\b",
    "write 'available', or name who provides it": r"\b(to|can) be had\b",
    "make it two sentences": r", of which\b",
}
"""Advice for each pattern that a first sentence must not contain."""

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Finding(NamedTuple):
    """A first sentence that breaks a rule, with the line on which its docstring begins."""

    line: int
    sentence: str
    advice: str


def first_sentences(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and first sentence of each docstring, and of each note below a constant or a field."""
    for node in ast.walk(tree):
        body = node.body if isinstance(node, DOCUMENTED) else []
        for before, statement in pairwise([None, *body]):
            described = before is None or isinstance(before, ast.Assign | ast.AnnAssign)
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))) if described:
                    paragraph = " ".join(re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0].split())
                    yield statement.lineno, re.split(r"(?<=[.?!])\s", paragraph, maxsplit=1)[0]


def notes(source: str) -> list[Finding]:
    """Return the first sentences of a module that break a rule, once for each rule, by line."""
    return sorted(
        Finding(line, sentence, advice)
        for line, sentence in first_sentences(ast.parse(source))
        for advice, pattern in RULES.items()
        if re.search(pattern, sentence)
    )


if __name__ == "__main__":
    count = 0
    for path in sorted(path for folder in FOLDERS for path in folder.rglob("*.py")):
        for line, sentence, advice in notes(path.read_text("utf-8")):
            count += 1
            print(f"{path.relative_to(ROOT)}:{line}: {sentence!r}: {advice}")
    print(f"{count} first sentences to rewrite")
    sys.exit(count > 0 and "--warn" not in sys.argv)
