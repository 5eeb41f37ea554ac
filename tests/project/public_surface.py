"""The public surface of linspec, a line for each name: what docs/about/stability.md promises.

    python tests/project/public_surface.py [--record]

prints the lines, or writes them to `public_surface.txt`, with which a test compares the surface.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import linspec
from linspec.cli import main
from linspec.errors import LinspecError
from linspec.registry.options import options_of
from linspec.registry.queries import default_registry, get_part

RECORD = Path(__file__).with_name("public_surface.txt")

FOR_ALL = ("estimators", "targets", "metrics", "kernels", "features", "datasets", "plots", "errors")
FOR_AUTHORS = (
    *("arrays", "certificates", "cost", "iteration", "linalg", "operators", "process", "rows", "solving"),
    *("studies", "workers"),
)
OTHERS = ("families.cca", "families.discriminant", "testing")
MODULES = tuple(f"linspec.{name}" for name in (*FOR_ALL, *FOR_AUTHORS, *OTHERS))


def lines() -> list[str]:
    """The whole surface."""
    found = set()
    for module in ("linspec", *MODULES):
        for name in importlib.import_module(module).__all__:
            value = getattr(importlib.import_module(module), name)
            found |= set() if inspect.ismodule(value) else {*_of_name(f"{module}.{name}", value)}
    return [*sorted(found), "", *sorted(_of_records()), "", *_of_commands(main, "linspec")]


def _of_name(name: str, value: Any) -> Iterator[str]:
    """The line of a name, and of the public members of a class of linspec."""
    if not inspect.isclass(value):
        of_linspec = callable(value) and str(getattr(value, "__module__", "")).startswith("linspec")
        yield f"{name}{_signature(value)}" if of_linspec else f"{name}: {type(value).__name__}"
        return
    if issubclass(value, BaseException):
        bases = [each.__name__ for each in value.__mro__[1:] if each not in (BaseException, object)]
        yield f"{name}: {', '.join(bases)}"
    if issubclass(value, LinspecError):
        return
    of_linspec = value.__module__.startswith("linspec") and not issubclass(value, enum.Enum)
    yield f"{name}{_signature(value)}" if of_linspec else name  # Python changes signatures of its own classes
    for member in sorted(dir(value)):
        if member.startswith("_") or _owner(value, member) not in (value, None):
            continue
        found = inspect.getattr_static(value, member)
        plain = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
        yield f"{name}.{member}{_signature(plain)}" if inspect.isfunction(plain) else f"{name}.{member}"


def _owner(cls: type, member: str) -> type | None:
    """The class that defines a member, or `cls` if that is private; None for a field without a default."""
    owner = next((each for each in cls.__mro__ if member in vars(each)), None)
    if owner is None or owner is cls:
        return owner
    of_linspec = owner.__module__.startswith("linspec")
    return cls if of_linspec and owner.__name__ not in linspec.__all__ else owner


def _signature(value: Any) -> str:
    """The names and defaults of parameters, without annotations, which type checkers hold."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    plain = [_plain(each) for each in signature.parameters.values()]
    text = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return _without_places(text)


def _without_places(text: str) -> str:
    """A text without addresses in memory and files of modules, which differ between machines."""
    return re.sub(r" at 0x[0-9a-f]+| from '[^']*'(?=>)", "", text)


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter without its annotation; a set as its default is a sorted tuple, whose text is always the same."""
    default = parameter.default
    default = tuple(sorted(default)) if isinstance(default, (set, frozenset)) else default
    return parameter.replace(annotation=inspect.Parameter.empty, default=default)


def _of_records() -> Iterator[str]:
    """The names and options of records."""
    for entry in default_registry().entries():
        spec = entry.spec
        if spec.kind in ("operator", "problem"):
            yield f"{spec.kind} {entry.listed if spec.kind == 'problem' else spec.name}"
            continue
        try:
            options = options_of(get_part(spec.kind, entry.full))
        except LinspecError:  # an extra is missing here
            continue
        given = ", ".join(f"{option.name}={option.default!r}" for option in options)
        yield f"{spec.kind} {spec.qualified}({_without_places(given)})"


def _of_commands(command: click.Command, path: str) -> Iterator[str]:
    """The commands and their options."""
    context = click.Context(command)
    given = [each for each in command.get_params(context) if "--help" not in each.opts]
    own = [option for each in given for option in (*each.opts, *each.secondary_opts)]
    yield " ".join([f"$ {path}", *sorted(own)])
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                yield from _of_commands(found, f"{path} {name}")


if __name__ == "__main__":
    text = "\n".join(lines()) + "\n"
    if "--record" in sys.argv[1:]:
        RECORD.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
