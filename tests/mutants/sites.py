"""The places where a mutant can be put, and what stands there instead.

In functions, an operator is exchanged, a comparison includes or leaves out its bound, a condition is negated, or a
number becomes another. A site is named by file, function, text and count, so that it is found after lines have moved.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

OTHERS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Div, ast.Mod: ast.Mult, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn,
    ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
"""Each operator, and the one that takes its place."""


@dataclass(frozen=True)
class Site:
    """A place for a mutant."""

    file: str
    where: str  # the function
    before: str
    after: str
    nth: int  # its number among the sites of the same text in the function


def files() -> list[str]:
    """The files of linspec and its plugins, from the root; no templates, which have tests of their own."""
    found = [*(ROOT / "linspec").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]
    templates = ROOT / "linspec" / "templates"
    return sorted(str(path.relative_to(ROOT)) for path in found if templates not in path.parents)


def sites(file: str, tree: ast.Module) -> Iterator[tuple[Site, ast.AST, ast.AST]]:
    """Every site of a file, the node there, and the node instead."""
    counts: dict[tuple[str, str, str], int] = {}
    uses = list(_uses_of_constants(tree))
    for where, node in _nodes(tree, "", inside=False):
        for other in [*_instead(node), *(other for use, other in uses if use is node)]:
            key = where, ast.unparse(node).splitlines()[0], ast.unparse(other).splitlines()[0]
            counts[key] = counts.get(key, -1) + 1
            yield Site(file, *key, counts[key]), node, other


def _nodes(node: ast.AST, where: str, *, inside: bool) -> Iterator[tuple[str, ast.AST]]:
    """The nodes of functions, with the names of these, but for messages, annotations, defaults and declarations."""
    if isinstance(node, ast.JoinedStr | ast.Raise | ast.arguments | ast.Assert):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        where = f"{where}.{node.name}".lstrip(".")
        inside = inside or not isinstance(node, ast.ClassDef)
        for child in node.body:
            yield from _nodes(child, where, inside=inside)
        return
    if inside:
        yield where, node
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns"} or (isinstance(node, ast.Expr) and _is_text(node.value)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _nodes(child, where, inside=inside)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _instead(node: ast.AST) -> list[ast.AST]:
    """Return the replacements of a node."""
    other = copy.deepcopy(node)
    if isinstance(other, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(other.op) in OTHERS:
        other.op = OTHERS[type(other.op)]()  # type: ignore[assignment]
        return [other]
    if isinstance(other, ast.Compare) and len(other.ops) == 1 and type(other.ops[0]) in OTHERS:
        other.ops = [OTHERS[type(other.ops[0])]()]  # type: ignore[list-item]
        return [other]
    if isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.Not | ast.USub):
        return [other.operand]
    if isinstance(other, ast.If | ast.While | ast.IfExp):
        other.test = ast.UnaryOp(ast.Not(), other.test)
        return [other]
    if isinstance(other, ast.Constant) and isinstance(other.value, bool | int | float):
        return [_another(other)]
    return []


def _another(number: ast.Constant) -> ast.Constant:
    value = number.value
    if isinstance(value, bool):
        return ast.Constant(not value)
    if isinstance(value, int):
        return ast.Constant(value + 1)
    return ast.Constant(2.0 * value if value else 1.0)  # type: ignore[operator]


def _uses_of_constants(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The names of numeric constants of a module, where they are used, and another number."""
    numbers = {
        target.id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        for target in statement.targets
        if isinstance(target, ast.Name) and isinstance(statement.value.value, int | float)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in numbers:
            yield node, _another(numbers[node.id])
