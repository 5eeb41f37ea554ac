"""The names and signatures of real releases of CuPy, and what holds the double to them."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

VERSIONS = ("13.4.0", "14.2.0")
"""The oldest release that pyproject.toml allows, and the newest that was dumped."""

Api = dict[str, Any]


def load(version: str) -> Api:
    """Read the names and signatures of a release, as `dump.py` has written them."""
    if version not in VERSIONS:
        raise ValueError(f"the double has the surface of {' and '.join(VERSIONS)}; got {version!r}.")
    api: Api = json.loads(Path(__file__).with_name(f"api-{version}.json").read_text("utf-8"))
    return api


def module(name: str, **contents: Any) -> ModuleType:
    """A module that `importlib.util.find_spec` finds."""
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, None)
    made.__dict__.update(contents)
    return made


@cache
def signature(text: str) -> inspect.Signature:
    """Return the signature of a dumped text."""
    parsed = ast.parse(f"def f({text}): pass").body[0]
    assert isinstance(parsed, ast.FunctionDef)
    space: dict[str, Any] = {}
    exec(compile(ast.Module([parsed], []), "<signature>", "exec"), space)
    return inspect.signature(space["f"])


def held_to(name: str, text: str | None, function: Callable[..., Any], bound: int = 0) -> Callable[..., Any]:
    """A function that takes no other arguments than the signature, which lacks the `self` of methods (bound=1)."""
    if text is None:
        return function
    told = signature(text)

    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            told.bind(*args[bound:], **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}({told}): {error}") from None
        return function(*args, **kwargs)

    checked.__name__ = checked.__qualname__ = name.rpartition(".")[2]
    return checked


def hold(kind: type, name: str, attributes: dict[str, list[str | None]]) -> None:
    """Hold the methods of a class to their signatures, and raise a clear error for those that it lacks."""
    for attribute, (_, told) in attributes.items():
        if attribute.startswith("_"):
            continue
        thing = inspect.getattr_static(kind, attribute, None)
        if thing is None:
            setattr(kind, attribute, property(absence(f"{name}.{attribute}")))
        elif inspect.isfunction(thing):
            setattr(kind, attribute, held_to(f"{name}.{attribute}", told, thing, 1))


def absence(name: str) -> Callable[..., Any]:
    """A function that says what the double lacks, and CuPy has."""

    def absent(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"the double of CuPy has no {name}: add it, or test this on a GPU.")

    return absent


def stand_for_the_rest(made: ModuleType, api: Api) -> None:
    """Raise a clear error for functions that CuPy has and the double lacks."""
    for name, (kind, _) in api["modules"][made.__name__].items():
        if not hasattr(made, name) and kind in {"function", "ufunc", "class"}:
            setattr(made, name, absence(f"{made.__name__}.{name}"))
