"""The registry: records of what is declared, the options of classes, and how a name is found.

Read `spec` first, which has the records, then `options`; `kinds` says what records there are, and `hookspecs` how a
package hands them over. `queries` has the functions that are asked, and their names are here, too. They are loaded
with their first use: who reads data needs options, and not what is installed.
"""

from __future__ import annotations

from importlib import import_module

__all__ = [
    "Description",
    "PluginInfo",
    "Registry",
    "SolverRecords",
    "default_registry",
    "describe",
    "get_part",
    "get_problem",
    "get_solver",
    "get_spec",
    "normalizers",
    "operator_adapters",
    "plugins",
    "problems",
    "provider_of",
    "records_of_solvers",
    "register",
    "report",
    "solvers",
    "spec_of",
    "test_matrices",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'linspec.registry' has no attribute {name!r}")
    value = getattr(import_module("linspec.registry.queries"), name)
    globals()[name] = value  # the next use finds it without this function
    return value
