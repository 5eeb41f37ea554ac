"""The truth about families without one in extended precision: the oracle that their records name.

Problem: families of other plugins, and problems without a known best answer, must be tried, too.
Method: the record of a family (`linspec.testing.ProblemTesting`) has an oracle in float64, which computes the law
anew and names errors that the residual of the answer does not explain.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from linspec.testing import Case as Planted
from linspec.testing import Law, Reading, testing_of
from linspec_fuzz.problems import Case

__all__ = ["UNREADABLE", "Recorded"]

UNREADABLE = frozenset({"products", "operator", "scaled", "factored"})
"""Kinds of data that give only products."""

SPARSE = frozenset({"csr", "csc"})


class Recorded:
    """The oracle of a family's record, for one case.

    Parameters
    ----------
    case : Case
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        kinds = {matrix.kind for matrix in case.matrices.values()}
        reading = Reading(readable=not kinds & (UNREADABLE | SPARSE), subtracted=bool(kinds & SPARSE))
        self.planted = Planted(
            name=str(case),
            problem=case.family,
            arrays={name: matrix.entries for name, matrix in case.matrices.items()},
            parameters=case.parameters,
            dense_offset=True,
        )
        self.oracle = testing_of(case.family).oracle(self.planted, reading)

    def law(self, solution: Any) -> Law:
        """Compute the residual of the returned arrays by the oracle's law."""
        found: Law = self.oracle.law(solution)
        return found

    def errors(self, solution: Any, *, converged: bool) -> list[str]:
        """Return errors that the residual does not explain: by the oracle if converged, and by the family's checks.

        Checks that need more than the case, its oracle and the solution are left to the conformance kit.
        """
        issues = list(self.oracle.errors(solution)) if converged else []
        trial = SimpleNamespace(case=self.planted, oracle=self.oracle, solution=solution)
        for check in testing_of(self.case.family).answer_checks.values():
            try:
                issues += check(trial)
            except AttributeError as error:
                if error.obj is not trial:
                    raise
        return issues
