"""Names of a package that are loaded at their first use.

Problem: a package exports names of many files, and code that needs one name should not import all files.
Method: a module-level ``__getattr__`` (PEP 562) over a table from name to the module that defines it. Type checkers
read the ``.pyi`` beside the package, which a test compares with the table.
Source: SPEC 1 (lazy loading) of the scientific Python ecosystem.
Where we differ: there is a table and no loader package. No submodule has a name that its package exports, because
importing a submodule binds its name in the package and would replace the export.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    package: str, holders: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        The ``__name__`` of the package.
    holders : mapping of str to str
        The module that defines each name. A submodule is exported under its own name.

    Returns
    -------
    getattr, dir : functions
        The functions of PEP 562. A loaded name is stored in the package, so that later uses do not call `getattr`.
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
