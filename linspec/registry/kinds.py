"""The kinds of records that plugins declare: one table, from which all other tables of kinds are made.

A kind has a record class and a hook that returns such records. If its records name implementing classes, it has the
base class of these. If an instance of such a class can be an option of another class (a "part"), the kind names a
method that identifies these instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from linspec.registry.spec import NormalizerSpec, OperatorSpec, ProblemSpec, SolverSpec, Spec, TestMatrixSpec

__all__ = ["KINDS", "Kind", "resolve"]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """The facts about one kind of records.

    Parameters
    ----------
    record : type
        Class of the records, whose attribute ``kind`` is the name of the kind.
    hook : str
        Name of the function in a plugin's table that returns the records; :mod:`linspec.registry.hookspecs` declares
        it.
    base : str, default ""
        Base class of the implementing classes, as ``"package.module:Class"``. It is imported with the first such
        class. Empty if the records name no classes.
    method : str, default ""
        The method that identifies an instance when it is an option of another class. Classes of such a kind have
        options themselves. Empty if an instance cannot be an option.
    """

    record: type[Spec]
    hook: str
    base: str = ""
    method: str = ""


#: Every kind by its name.
KINDS: dict[str, Kind] = {
    kind.record.kind: kind
    for kind in (
        Kind(record=SolverSpec, hook="linspec_solvers", base="linspec.solving.solver:Solver", method="solve"),
        Kind(
            record=NormalizerSpec,
            hook="linspec_normalizers",
            base="linspec.solving.normalizer:Normalizer",
            method="orthonormalize",
        ),
        Kind(
            record=TestMatrixSpec,
            hook="linspec_test_matrices",
            base="linspec.solving.random_test_matrix:TestMatrix",
            method="draw",
        ),
        Kind(record=OperatorSpec, hook="linspec_operators"),
        Kind(record=ProblemSpec, hook="linspec_problems", base="linspec.solving.problem:Problem"),
    )
}


def resolve(target: str) -> Any:
    """Import the object that a record names.

    Parameters
    ----------
    target : str
        ``"package.module:Class"``.

    Returns
    -------
    object
        Usually a class; its type is not checked.
    """
    module, _, path = target.partition(":")
    found: Any = import_module(module)
    for attribute in path.split("."):
        found = getattr(found, attribute)
    return found
