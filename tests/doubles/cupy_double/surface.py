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


def held_to(name: str, text: str | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes no other arguments than the signature, and TypeError for those."""
    if text is None:
        return function
    told = signature(text)

    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            told.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}({told}): {error}") from None
        return function(*args, **kwargs)

    checked.__name__ = checked.__qualname__ = name.rpartition(".")[2]
    checked.__signature__ = told  # type: ignore[attr-defined]
    return checked


def method_held_to(name: str, text: str | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """Check calls of a method like those of a function; its dumped signature lacks `self`."""
    if text is None:
        return function
    told = signature(text)

    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            told.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}({told}): {error}") from None
        return function(self, *args, **kwargs)

    checked.__name__ = checked.__qualname__ = name.rpartition(".")[2]
    return checked


def hold(kind: type, name: str, attributes: dict[str, list[str | None]]) -> None:
    """Take from a class what the real one lacks, and hold its methods to their signatures."""
    for attribute, thing in list(vars(kind).items()):
        if attribute.startswith("_"):
            continue
        if attribute not in attributes:
            delattr(kind, attribute)
        elif inspect.isfunction(thing):
            setattr(kind, attribute, method_held_to(f"{name}.{attribute}", attributes[attribute][1], thing))
    for attribute in attributes:
        if not attribute.startswith("_") and not hasattr(kind, attribute):
            setattr(kind, attribute, property(partial_absence(f"{name}.{attribute}")))


def partial_absence(name: str) -> Callable[..., Any]:
    """A function that says what the double lacks, and CuPy has."""

    def absent(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"the double of CuPy has no {name}: add it, or test this on a GPU.")

    return absent


def stand_for_the_rest(cupy: ModuleType, api: Api) -> None:
    """Raise a clear error for names that CuPy has and the double lacks; remove names that CuPy lacks."""
    for name, (kind, _) in api["modules"]["cupy"].items():
        if not hasattr(cupy, name) and kind in {"function", "ufunc"}:
            setattr(cupy, name, partial_absence(f"cupy.{name}"))
    for name in [name for name in vars(cupy) if not name.startswith("_")]:
        if name not in api["modules"]["cupy"]:
            delattr(cupy, name)
