"""Names of a package that are loaded with their first use.

Problem: a package hands on names of many files, and who needs one of them should not wait for all.
Method: a module-level ``__getattr__`` (PEP 562) over a table from name to the module that holds it. Type checkers
read the ``.pyi`` beside the package, which a test holds to the table.
Source: SPEC 1 (lazy loading) of the scientific Python ecosystem.
Where we differ: there is a table and no loader package. No submodule has the name of what its package hands on,
because importing a submodule binds its name in the package and would replace it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

__all__ = ["lazy_names"]


def lazy_names(
    package: str, holders: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    holders : mapping of str to str
        The module that holds each name. A module is handed on by its own name.

    Returns
    -------
    getattr, dir : functions
        As PEP 562 has them. A name that was loaded stays in the package, so that its next use does not search.
    """

    def load(name: str) -> object:
        if name not in holders:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(holders[name])
        value = module if holders[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *holders})

    return load, names
