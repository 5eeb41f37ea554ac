"""The size of linspec and its plugins, which only falls.

    python tests/project/size.py [--record] [--rise REASON]

prints statements and nodes of the syntax trees by folder; docstrings are neither. `--record` lowers the ceiling in
`ceiling.json` to today's size, and raises it only with a reason, which the file keeps.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterable
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
    nodes = list(ast.walk(ast.parse(source)))
    documented = [
        node
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
    ]
    statements = sum(isinstance(node, ast.stmt) for node in nodes) - len(documented)
    return Size(statements, len(nodes) - 2 * len(documented))


def sizes(root: Path = ROOT) -> dict[str, Size]:
    """The size of each folder of linspec and of each plugin."""
    found: dict[str, Size] = {}
    for path in sorted((*root.glob("linspec/**/*.py"), *root.glob("plugins/**/*.py"))):
        parts = path.relative_to(root).parts
        folder = "/".join(parts[:2]) if len(parts) > 2 else parts[0]
        found[folder] = _sum([found.get(folder, Size(0, 0)), size_of(path.read_text("utf-8"))])
    return found


def _sum(every: Iterable[Size]) -> Size:
    return Size(*map(sum, zip(*every, strict=True)))


def total(root: Path = ROOT) -> Size:
    """The size of all."""
    return _sum(sizes(root).values())


def ceiling() -> dict[str, Any]:
    """The recorded limits, and the reasons of their rises."""
    limits: dict[str, Any] = json.loads(CEILING.read_text("utf-8"))
    return limits


def main() -> str | None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="lower the ceiling to today's size")
    parser.add_argument("--rise", metavar="REASON", help="why the ceiling may rise")
    options = parser.parse_args()
    every = sizes()
    for folder, size in sorted(every.items(), key=lambda item: -item[1].statements):
        print(f"{folder:32}{size.statements:8}{size.nodes:10}")
    now, limits = _sum(every.values()), ceiling()
    print(f"{'all':32}{now.statements:8}{now.nodes:10}   {now.nodes / now.statements:.2f} nodes a statement")
    if options.record:
        higher = now.statements > limits["statements"] or now.nodes > limits["nodes"]
        if higher and not options.rise:
            return "the size is above the ceiling, which only falls"
        reasons = limits["rises"] + [f"{now.statements}: {options.rise}"] * higher
        CEILING.write_text(json.dumps({**now._asdict(), "rises": reasons}, indent=1) + "\n", "utf-8")
    return None


if __name__ == "__main__":
    sys.exit(main())
