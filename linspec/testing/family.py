"""The contribution of a family of problems to the kit: planted cases, an oracle, and its own checks.

The record of a family (`linspec.ProblemSpec`) names one `ProblemTesting`. The kit needs nothing else of a
family, and it does not name any family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from linspec import registry
from linspec.errors import InvalidDeclaration
from linspec.registry.spec import resolve
from linspec.testing.oracle import Reading
from linspec.testing.problems import Case, in_units

__all__ = ["KINDS", "ProblemTesting", "testing_of"]

KINDS = frozenset({"recomputed", "from-gram", "in-pass", "unavailable"})
"""The values that `residual_kind` of a solution may have."""


def declared_shapes(case: Case, solution: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of vectors and means that the declared fields of an answer require."""
    layout = solution.layout
    found: dict[str, tuple[int, ...]] = {}
    columns = {name: A.shape[1] for name, A in case.arrays.items() if A.ndim > 1}
    count = len(getattr(solution, layout.value)) if layout.value else int(case.parameters["k"])
    for matrix, (name, axis) in layout.weights.items():
        if matrix in columns:  # and not one of several views in a field, whose law checks its shapes
            found[name] = (count, columns[matrix]) if axis else (columns[matrix], count)
    if case.parameters.get("center", False):
        found |= {name: (columns[matrix],) for matrix, name in layout.means.items() if matrix in columns}
    return found


def in_other_units(case: Case, factor: float, seed: int) -> Case:
    """Return a case with its rows in another order and its first matrix multiplied by a factor."""
    rows = np.random.default_rng(seed).permutation(len(case.main))
    shuffled = replace(case, arrays={name: A[rows] for name, A in case.arrays.items()}, truth={})
    return in_units(shuffled, {next(iter(case.arrays)): factor})


@dataclass(frozen=True, kw_only=True)
class ProblemTesting:
    """The functions by which the kit judges the solvers of a family.

    Attributes
    ----------
    cases : callable
        Makes the planted cases on which every solver is tested.
    oracle : callable
        Takes a case and a `Reading`. Returns an object with the exact answer and the law (see
        `linspec.testing.oracle`).
    shapes : callable, optional
        Takes a case and a solution. Returns the shapes that arrays of the solution must have, by name. By default they
        follow from the declared fields.
    moved : callable, optional
        Takes a case, a factor and a seed. Returns the same problem in other units or coordinates; the oracle knows its
        answer. By default the rows are in another order, and the first matrix is multiplied by the factor.
    bounded_entries : bool, default True
        Whether data are refused if their largest entry is out of range. False for kernels, where the range applies to
        the values of the kernel matrix. Then data in extreme units must be solved rightly or be refused.
    companions : frozenset of str
        Matrices that are always dense arrays, such as right-hand sides.
    residual_kinds : frozenset of str
        The values that `residual_kind` may have.
    start_case : callable, optional
        Makes a case for the check of warm starts. Without a start, solvers must need more than one or two iterations
        for this case, so that a start can save some.
    answer_checks : mapping
        Additional checks of an answer, by name. Each takes a `Trial` and yields the faults that it finds.
    behaviour_checks : mapping
        Additional checks of a solver, by name. Each takes a `Subject`, yields the faults that it finds, and may raise
        `Skip`.
    missing : callable, optional
        Returns the reason why the solvers cannot run here, such as a package that is not installed, or "" if they can.
        Their checks are then skipped with this reason; declarations are still checked.

    Examples
    --------
    >>> from linspec.testing import Reading, testing_of
    >>> testing = testing_of("svd")
    >>> case = testing.cases()[0]
    >>> oracle = testing.oracle(case, Reading())  # the exact answer
    >>> oracle.count == case.parameters["k"]
    True
    """

    cases: Callable[[], Sequence[Case]]
    oracle: Callable[[Case, Reading], Any]
    shapes: Callable[[Case, Any], Mapping[str, tuple[int, ...]]] = declared_shapes
    moved: Callable[[Case, float, int], Case] = in_other_units
    bounded_entries: bool = True
    companions: frozenset[str] = frozenset()
    residual_kinds: frozenset[str] = KINDS
    start_case: Callable[[], Case] | None = None
    answer_checks: Mapping[str, Callable[[Any], Iterator[str]]] = field(default_factory=dict)
    behaviour_checks: Mapping[str, Callable[[Any], Iterator[str]]] = field(default_factory=dict)
    missing: Callable[[], str] = lambda: ""

    def __post_init__(self) -> None:
        """Cache the cases, so that every solver of the family gets the same objects."""
        object.__setattr__(self, "cases", cache(self.cases))


def testing_of(problem: str) -> ProblemTesting:
    """Return the `ProblemTesting` of a family, which its record names.

    Parameters
    ----------
    problem : str

    Raises
    ------
    UnknownName
        No record has this name.
    InvalidDeclaration
        The record names no cases and no oracle, so the family's solvers cannot be judged.

    Examples
    --------
    >>> from linspec.testing import testing_of
    >>> len(testing_of("cca").cases()) > 0
    True
    """
    spec = registry.get_spec("problem", problem)
    if not spec.testing:
        raise InvalidDeclaration(
            f"the record of the problem {problem!r} must name a ProblemTesting; it has none, so its solvers "
            "cannot be judged. Give the record testing='package.module:NAME'."
        )
    found = resolve(spec.testing)
    if not isinstance(found, ProblemTesting):
        raise InvalidDeclaration(f"{spec.testing} must be a ProblemTesting; got {type(found).__name__}.")
    return found


testing_of.__test__ = False  # type: ignore[attr-defined]  # its name must not make pytest collect it
