"""The registry: records of solvers and other components, the options of classes, and the search for a name.

Read `spec` first, which defines the records and the hooks by which a package declares them, then `options`, which
suggests the right name for a wrong one. `queries` has the functions to call, which this package exports, too. These
functions are loaded on first use: code that reads data needs options, but not the list of installed plugins.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "KINDS": "linspec.registry.spec",
    "Description": "linspec.registry.queries",
    "PluginInfo": "linspec.registry.queries",
    "Registry": "linspec.registry.queries",
    "default_registry": "linspec.registry.queries",
    "describe": "linspec.registry.queries",
    "get_part": "linspec.registry.queries",
    "get_problem": "linspec.registry.queries",
    "get_solver": "linspec.registry.queries",
    "get_spec": "linspec.registry.queries",
    "normalizers": "linspec.registry.queries",
    "operator_adapters": "linspec.registry.queries",
    "plugins": "linspec.registry.queries",
    "problems": "linspec.registry.queries",
    "records_of_solvers": "linspec.registry.queries",
    "register": "linspec.registry.queries",
    "resolve": "linspec.registry.spec",
    "solver_and_record": "linspec.registry.queries",
    "solvers": "linspec.registry.queries",
    "spec_of": "linspec.registry.queries",
    "test_matrices": "linspec.registry.queries",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
