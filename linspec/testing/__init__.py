"""The public conformance kit, which tells whether a solver, normalizer, test matrix or adapter keeps the contract.

The whole test file of a plugin::

    from linspec.testing import conformance

    test_conformance = conformance("mysolver")

and likewise ``conformance("normalizer/mine")``, ``conformance("test-matrix/mine")``, ``conformance("operator/mine")``.
Without pytest, `run_checks("mysolver")` gives a report and `interface_issues("mysolver")` what is wrong with the
declaration. `check_operator` holds an operator to its laws. pytest is imported when `conformance` is called.
"""

from __future__ import annotations

from linspec.testing.backends import BACKENDS, Backend
from linspec.testing.operators import CountingOperator, ProductsOnly, check_operator
from linspec.testing.problems import (
    Case,
    cases,
    planted_cca,
    planted_discriminant,
    planted_least_squares,
    planted_svd,
)
from linspec.testing.suite import (
    Check,
    CheckFailed,
    Report,
    Suite,
    conformance,
    interface_issues,
    run_checks,
)

__all__ = [
    "BACKENDS",
    "Backend",
    "Case",
    "Check",
    "CheckFailed",
    "CountingOperator",
    "ProductsOnly",
    "Report",
    "Suite",
    "cases",
    "check_operator",
    "conformance",
    "interface_issues",
    "planted_cca",
    "planted_discriminant",
    "planted_least_squares",
    "planted_svd",
    "run_checks",
]
