"""The conformance kit for authors of plugins.

The whole test file of a plugin::

    from linspec.testing import conformance

    test_conformance = conformance("cca/mine")

and likewise ``"normalizer/mine"``, ``"test-matrix/mine"``, ``"operator/mine"``, ``"problem/mine"``. Without pytest,
`run_checks` returns a report. A problem of your own names a `Reference`, for which `spectral` and `cases` are made.

Read `solvers` first: each function is a check, and its docstring a line of the contract.
"""

from __future__ import annotations

from typing import Any

from linspec.testing.data import BACKENDS, Backend
from linspec.testing.kit import CheckFailed, Report, conformance, run_checks
from linspec.testing.parts import check_operator
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


_GONE = {
    *(
        "ROUNDING",
        "Check",
        "CountingOperator",
        "Law",
        "ProblemTesting",
        "ProductsOnly",
        "Reading",
        "Spectrum",
        "Suite",
    ),
    *("as_host", "common_views", "interface_issues", "orthonormal", "planted_cca", "planted_discriminant"),
    *(
        "planted_least_squares",
        "planted_svd",
        "precision",
        "shift_of",
        "spectral_testing",
        "stated",
        "testing_of",
    ),
}
"""Names that plugins may have imported before 0.1.0."""


def __getattr__(name: str) -> Any:
    if name in _GONE:
        raise ImportError(
            f"linspec.testing has no {name!r} any more; docs/about/stability.md says what there is instead."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
