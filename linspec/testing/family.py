"""What the kit must be told of a family of problems: planted cases, an oracle, and checks of its own.

The record of a family (`linspec.ProblemSpec`) names one `ProblemTesting`. The kit asks nothing else of a family, and
names none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from linspec import registry
from linspec.errors import InvalidDeclaration
from linspec.kinds import resolve
from linspec.testing.oracle import Reading
from linspec.testing.problems import Case

__all__ = ["KINDS", "ProblemTesting", "testing_of"]

KINDS = frozenset({"recomputed", "from-gram", "in-pass", "unavailable"})
"""What `residual_kind` of a solution may be."""


@dataclass(frozen=True, kw_only=True)
class ProblemTesting:
    """How the solvers of a family are judged.

    Attributes
    ----------
    cases : callable
        Makes the planted cases that every solver is given.
    oracle : callable
        Takes a case and a `Reading`; has the exact answer and the law (see `linspec.testing.oracle`).
    shapes : callable
        Takes a case and a solution; the shapes that arrays of the solution must have, by name.
    moved : callable
        Takes a case, a factor and a seed; the same problem in other units or coordinates, whose answer follows.
    companions : frozenset of str
        Matrices that are dense arrays whatever the others are, such as right-hand sides.
    residual_kinds : frozenset of str
        What `residual_kind` may be.
    start_case : callable, optional
        A case on which a warm start shows: an iteration takes more than a step or two.
    answer_checks : mapping
        By name, checks of an answer beside those of every family: each takes a `Trial` and yields what is wrong.
    behaviour_checks : mapping
        By name, checks of a solver: each takes a `Subject`, yields what is wrong, and may raise `Skip`.
    """

    cases: Callable[[], Sequence[Case]]
    oracle: Callable[[Case, Reading], Any]
    shapes: Callable[[Case, Any], Mapping[str, tuple[int, ...]]]
    moved: Callable[[Case, float, int], Case]
    companions: frozenset[str] = frozenset()
    residual_kinds: frozenset[str] = KINDS
    start_case: Callable[[], Case] | None = None
    answer_checks: Mapping[str, Callable[[Any], Iterator[str]]] = field(default_factory=dict)
    behaviour_checks: Mapping[str, Callable[[Any], Iterator[str]]] = field(default_factory=dict)


def testing_of(problem: str) -> ProblemTesting:
    """What the record of a family names.

    Parameters
    ----------
    problem : str

    Raises
    ------
    UnknownName
        Nobody registers the family.
    InvalidDeclaration
        Its record names no cases and no oracle: its solvers cannot be judged.
    """
    spec = registry.get_spec("problem", problem)
    if not spec.testing:
        raise InvalidDeclaration(
            f"the record of the problem {problem!r} names no ProblemTesting, so that its solvers cannot be judged. "
            "Give it testing='package.module:NAME'."
        )
    found = resolve(spec.testing)
    if not isinstance(found, ProblemTesting):
        raise InvalidDeclaration(f"{spec.testing} must be a ProblemTesting; got {type(found).__name__}.")
    return found


testing_of.__test__ = False  # type: ignore[attr-defined]  # its name must not make pytest collect it
