"""Beds of hard cases: what solvers say of right and of wrong answers, counted.

"silent" is a wrong answer that is called right, "alarm" a right one that is called otherwise, "overstated" a right one
that claims ten times less than its error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from showing import Claim, Report, arguments


def with_spectrum(n: int, p: int, s: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A matrix of shape (n, p) with these singular values."""
    U, V = (np.linalg.qr(rng.standard_normal((m, len(s))))[0] for m in (n, p))
    return (U * s) @ V.T


def counted_cases(
    description: str | None,
    solvers: Sequence[str],
    cases: Callable[[int], Iterable[Any]],
    counted: Callable[[str, Any, Any], tuple[str, Any, float]],
    left_out: Callable[[str, Any], bool],
) -> tuple[Report, dict[str, Counter[str]], int]:
    """Read the command line, solve the cases of the seed by every solver that is asked for, and count what is said.

    `--quick` takes every tenth case. Returned are the report, the counts by solver, and the number of cases.

    Parameters
    ----------
    counted : callable
        Takes a solver, a case and its exact answer; returns what the solver's answer counts as, it, and its error.
    left_out : callable
        Takes a solver and a case: whether it is not solved.
    """
    parser = arguments(description)
    parser.add_argument("--seed", type=int, default=0, help="of the cases")
    parser.add_argument("--solvers", default=",".join(solvers), help="names, between commas")
    report = Report(parser)
    every = list(cases(report.given.seed))[:: 10 if report.given.quick else 1]
    counts: dict[str, Counter[str]] = {name: Counter() for name in report.given.solvers.split(",")}
    odd = report.table("case", "solver", "status", "error::.1e", "residual::.1e", "accuracy", "what")
    for case in every:
        exact = case.exact()
        for name, count in counts.items():
            if left_out(name, case):
                continue
            what, found, error = counted(name, case, exact)
            count[what] += 1
            if what in ("silent", "alarm", "overstated"):
                odd.row(case.name, name, found.status.name, error, found.residual, found.accuracy, what)
    return report, counts, len(every)


def concluded(
    report: Report, counts: Mapping[str, Counter[str]], kinds: Sequence[str], cases: int, what: str
) -> int:
    """Print the counts of every solver and the claims on all of them; return the exit status."""
    table = report.table("solver", *kinds, title=f"{cases} cases")
    for name, count in counts.items():
        table.row(name, *(count[kind] for kind in kinds))
    total: Counter[str] = sum(counts.values(), Counter())
    right, solves = total["right"] + total["alarm"], total.total()
    claims = [(f"no wrong {what} are called converged", not total["silent"], "silent", f"{solves} answers")]
    if "overstated" in kinds:
        claims += [("no error is ten times what is claimed", not total["overstated"], "overstated", "")]
    rare = total["alarm"] <= 0.02 * right
    claims += [("at most 2 % of right ones are called otherwise", rare, "alarm", "")]
    report.say(
        [
            Claim(text, held, f"{total[kind]} of {among or f'{right} right answers'}", own=True)
            for text, held, kind, among in claims
        ]
    )
    return report.end()
