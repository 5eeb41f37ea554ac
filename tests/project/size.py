"""The size of linspec and its plugins, which only falls.

    python tests/project/size.py [--record] [--rise REASON]

prints statements and nodes of the syntax trees by folder. `--record` lowers the ceiling in `ceiling.json` to today's
size. It refuses to raise it, unless `--rise` gives the reason, which the file keeps.

A statement is an `ast.stmt`, a node whatever `ast.walk` yields; docstrings are neither. So longer lines, blank lines
and comments change nothing. Nodes a statement say how dense the code is: statements must not fall by being packed.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
CEILING = Path(__file__).with_name("ceiling.json")
DENSEST = 14.6
"""Nodes a statement, at most."""


class Size(NamedTuple):
    """What a reader must read."""

    statements: int
    nodes: int


def size_of(source: str) -> Size:
    """The size of one file."""
    tree = ast.parse(source)
    docstrings = {
        node.body[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
    }
    nodes = list(ast.walk(tree))
    statements = sum(isinstance(node, ast.stmt) for node in nodes) - len(docstrings)
    return Size(statements, len(nodes) - 2 * len(docstrings))


def sizes(root: Path = ROOT) -> dict[str, Size]:
    """The size of each folder of linspec and of each plugin."""
    statements, nodes = Counter[str](), Counter[str]()
    for path in sorted((*root.glob("linspec/**/*.py"), *root.glob("plugins/**/*.py"))):
        parts = path.relative_to(root).parts
        folder = "/".join(parts[:2]) if len(parts) > 2 else parts[0]
        size = size_of(path.read_text("utf-8"))
        statements[folder] += size.statements
        nodes[folder] += size.nodes
    return {folder: Size(count, nodes[folder]) for folder, count in statements.most_common()}


def total(root: Path = ROOT) -> Size:
    """The size of all."""
    every = sizes(root).values()
    return Size(sum(size.statements for size in every), sum(size.nodes for size in every))


def ceiling() -> dict[str, Any]:
    """The recorded limits, and the reasons of their rises."""
    limits: dict[str, Any] = json.loads(CEILING.read_text("utf-8"))
    return limits


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="lower the ceiling to today's size")
    parser.add_argument("--rise", metavar="REASON", help="why the ceiling may rise")
    options = parser.parse_args()
    for folder, size in sizes().items():
        print(f"{folder:32}{size.statements:8}{size.nodes:10}")
    now, limits = total(), ceiling()
    print(f"{'all':32}{now.statements:8}{now.nodes:10}   {now.nodes / now.statements:.2f} nodes a statement")
    if options.record:
        higher = now.statements > limits["statements"] or now.nodes > limits["nodes"]
        if higher and not options.rise:
            print("the size is above the ceiling, which only falls", file=sys.stderr)
            return 1
        reasons = limits["rises"] + ([f"{now.statements}: {options.rise}"] if higher else [])
        CEILING.write_text(json.dumps({**now._asdict(), "rises": reasons}, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
