"""The kinds of what plugins declare: one table, from which all others that concern kinds follow.

A kind has a record class, a hook that returns such records, and, where a record names an implementation, the base
class of all implementations. What can be an option of another implementation (a part) has a method by which an
instance is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from linspec.spec import NormalizerSpec, OperatorSpec, ProblemSpec, SolverSpec, Spec, TestMatrixSpec

__all__ = ["KINDS", "Kind", "resolve"]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What linspec knows of one kind.

    Parameters
    ----------
    record : type
        Class of its records, whose ``kind`` is the name of the kind.
    hook : str
        Function of a plugin's table that returns them; :mod:`linspec.hookspecs` declares it.
    base : str, default ""
        Base class of the implementations, as ``"package.module:Class"``: imported with the first of them. Empty
        where the record itself is all there is.
    method : str, default ""
        Method by which an instance is known where it is an option of another implementation. Such implementations
        have options themselves. Empty where it cannot be an option.
    """

    record: type[Spec]
    hook: str
    base: str = ""
    method: str = ""


#: Every kind by its name.
KINDS: dict[str, Kind] = {
    kind.record.kind: kind
    for kind in (
        Kind(record=SolverSpec, hook="linspec_solvers", base="linspec.solver:Solver", method="solve"),
        Kind(
            record=NormalizerSpec,
            hook="linspec_normalizers",
            base="linspec.normalizer:Normalizer",
            method="orthonormalize",
        ),
        Kind(
            record=TestMatrixSpec,
            hook="linspec_test_matrices",
            base="linspec.test_matrix:TestMatrix",
            method="draw",
        ),
        Kind(record=OperatorSpec, hook="linspec_operators"),
        Kind(record=ProblemSpec, hook="linspec_problems", base="linspec.problem:Problem"),
    )
}


def resolve(target: str) -> Any:
    """Import what a record names.

    Parameters
    ----------
    target : str
        ``"package.module:Class"``.

    Returns
    -------
    object
        Usually a class; nothing has been checked of it.
    """
    module, _, path = target.partition(":")
    found: Any = import_module(module)
    for attribute in path.split("."):
        found = getattr(found, attribute)
    return found
