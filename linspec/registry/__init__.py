"""The registry: records of what is declared, the options of classes, and how a name is found.

Read `spec` first, which has the records, then `options`; `kinds` says what records there are, and `hookspecs` how a
package hands them over. `queries` has the functions that are asked, and their names are here, too. They are loaded
with their first use: who reads data needs options, and not what is installed.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "Description": "linspec.registry.description",
    "PluginInfo": "linspec.registry.loading",
    "Registry": "linspec.registry.lookup",
    "SolverRecords": "linspec.registry.names",
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
    "provider_of": "linspec.registry.queries",
    "records_of_solvers": "linspec.registry.queries",
    "register": "linspec.registry.queries",
    "report": "linspec.registry.queries",
    "solvers": "linspec.registry.queries",
    "spec_of": "linspec.registry.queries",
    "test_matrices": "linspec.registry.queries",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
