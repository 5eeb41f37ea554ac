"""Linear structure in large data: least squares, truncated SVD, canonical correlations.

Problem: a library with many methods and several array backends is slow to import, and a shell that completes a name or
lists the solvers should not wait for an array library.
Method: a module-level ``__getattr__`` (PEP 562) over one table from public name to module. ``import linspec`` imports
nothing else; the first use of a name imports the module that holds it. Type checkers read ``__init__.pyi``.
Source: SPEC 1 (lazy loading) of the scientific Python ecosystem.
Where we differ: no loader package, just the table; and no submodule has the name of a public function, because importing
a submodule binds its name here and would replace the function. Hence ``linspec.solver`` beside ``linspec.solvers()``.
"""

from __future__ import annotations

from typing import Any

_MODULES = {
    "linspec.hookspecs": ("hookimpl",),
    "linspec.moments": ("Moments",),
    "linspec.normalizer": ("Normalizer",),
    "linspec.operators": ("LinearOperator", "as_operator"),
    "linspec.options": ("option", "part"),
    "linspec.problems": ("CCA", "SVD", "LeastSquares"),
    "linspec.registry": (
        "PluginInfo",
        "describe",
        "get_solver",
        "normalizers",
        "plugins",
        "register",
        "solvers",
        "test_matrices",
    ),
    "linspec.run": ("Run",),
    "linspec.solution": ("Solution", "Status"),
    "linspec.solver": ("LeastSquaresState", "Selection", "Solver", "select", "solve"),
    "linspec.spec": ("Needs", "NormalizerSpec", "OperatorSpec", "SolverSpec", "TestMatrixSpec"),
    "linspec.test_matrix": ("TestMatrix",),
}
_SUBMODULES = ("errors", "metrics", "testing")
_WHERE = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted([*_WHERE, *_SUBMODULES, "__version__"])


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _WHERE:
        value = getattr(import_module(_WHERE[name]), name)
    elif name in _SUBMODULES:
        value = import_module(f"linspec.{name}")
    elif name == "__version__":
        value = _version()
    else:
        raise AttributeError(f"module 'linspec' has no attribute {name!r}")
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("linspec")
    except PackageNotFoundError:
        return "0+unknown"  # a source tree on the path, not installed
