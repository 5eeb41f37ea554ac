"""The conformance kit for authors of plugins.

The whole test file of a plugin::

    from linspec.testing import conformance

    test_conformance = conformance("cca/mine")

and likewise ``"normalizer/mine"``, ``"test-matrix/mine"``, ``"operator/mine"``, ``"problem/mine"``. Without pytest,
`run_checks` returns a report. A problem of your own names a `Reference`, for which `spectral` and `cases` are made.

Read `checks` first: each function is a check, and its docstring a line of the contract.
A check ends at its first fault.
"""

from __future__ import annotations

from linspec.testing.checks import BACKENDS, Backend, CheckFailed, check_operator
from linspec.testing.kit import Report, conformance, run_checks
from linspec.testing.references import Case, Reference, cases, planted, second_moments, spectral

__all__ = [
    "BACKENDS",
    "Backend",
    "Case",
    "CheckFailed",
    "Reference",
    "Report",
    "cases",
    "check_operator",
    "conformance",
    "planted",
    "run_checks",
    "second_moments",
    "spectral",
]
