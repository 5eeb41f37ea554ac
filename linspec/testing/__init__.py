"""The public conformance kit, which tests whether a solver, normalizer, test matrix or adapter keeps the contract.

The whole test file of a plugin::

    from linspec.testing import conformance

    test_conformance = conformance("mysolver")

and likewise ``conformance("normalizer/mine")``, ``conformance("test-matrix/mine")``, ``conformance("operator/mine")``,
``conformance("problem/mine")``.
Without pytest, `run_checks("mysolver")` returns a report, and `interface_issues("mysolver")` the faults of the
declaration. `check_operator` tests an operator against its laws. pytest is imported when `conformance` is called.

Read `suite` first, which lists the checks, then `solving` and `answers`.
"""

from __future__ import annotations

from linspec.testing.backends import BACKENDS, Backend
from linspec.testing.family import ProblemTesting, testing_of
from linspec.testing.operators import CountingOperator, ProductsOnly, check_operator
from linspec.testing.oracle import ROUNDING, Law, Reading, as_host, precision, shift_of
from linspec.testing.problems import Case, orthonormal, stated
from linspec.testing.spectral import Spectrum, common_views, spectral_testing
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
    "ROUNDING",
    "Backend",
    "Case",
    "Check",
    "CheckFailed",
    "CountingOperator",
    "Law",
    "ProblemTesting",
    "ProductsOnly",
    "Reading",
    "Report",
    "Spectrum",
    "Suite",
    "as_host",
    "cases",
    "check_operator",
    "common_views",
    "conformance",
    "interface_issues",
    "orthonormal",
    "precision",
    "run_checks",
    "shift_of",
    "spectral_testing",
    "stated",
    "testing_of",
]


def cases(problem: str) -> tuple[Case, ...]:
    """Return the test cases on which the kit tests every solver of a kind of problem.

    Parameters
    ----------
    problem : str
        A name from `linspec.problems`.

    Returns
    -------
    tuple of Case
        Small data, and the parameters of the problem. Most data are planted: made from chosen factors, so that the
        exact answer is known beforehand (`Case.truth`).

    Examples
    --------
    >>> from linspec.testing import cases
    >>> case = cases("cca")[0]
    >>> case.problem, sorted(case.arrays)
    ('cca', ['X', 'Y'])
    """
    return tuple(testing_of(problem).cases())
