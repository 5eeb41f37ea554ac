"""Which solvers, normalizers, test matrices and operator adapters there are, and who provides them.

Problem: methods come from linspec and from any installed package. Names must be listed at once, without
importing what implements them; two packages may choose one name; one package may be broken; none may harm
another.
Method: one entry-point group, ``linspec``, whose entries name tables of records (:mod:`linspec.hookspecs`).
The first listing imports the tables, the first use of a name imports its class. Every plugin is read inside a
guard and by a pluggy manager of its own, so that what it does wrong is recorded with its name and reported by
:func:`plugins` and by the errors about names that were not found. linspec's own methods come through the same
door.

Names: ``gram`` | ``cca/gram`` | ``acme:gram`` | ``cca/acme:gram``, the distribution before the colon. A bare
name that linspec itself uses stays linspec's, with one warning; one that two others use must be qualified.
Every listed name can be requested as it is listed.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any, Literal, overload

from linspec.registry.loading import LOCAL, PluginInfo
from linspec.registry.lookup import Description, Registry
from linspec.spec import NormalizerSpec, OperatorSpec, SolverSpec, Spec, TestMatrixSpec

__all__ = [
    "LOCAL",
    "Description",
    "PluginInfo",
    "Registry",
    "default_registry",
    "describe",
    "get_part",
    "get_problem",
    "get_solver",
    "get_spec",
    "normalizers",
    "operator_adapters",
    "plugins",
    "problems",
    "provider_of",
    "register",
    "report",
    "solvers",
    "spec_of",
    "test_matrices",
]


_creating = threading.Lock()


def default_registry() -> Registry:
    """Give the registry behind ``linspec.solvers()`` and the other functions, made at its first use.

    Returns
    -------
    Registry
        The same one in every thread.
    """
    with _creating:  # a cached function may run twice when two threads come first together
        return _default_registry()


@cache
def _default_registry() -> Registry:
    return Registry()


def solvers(problem: Any = None) -> tuple[str, ...]:
    """List the solvers.

    Parameters
    ----------
    problem : str, problem class or problem, optional
        Whose solvers. By default those of all problems.

    Returns
    -------
    tuple of str
        Sorted plain names, such as ``"gram"``; without `problem` sorted names with their problem,
        ``"cca/gram"``. Names that need their provider to be told apart have it: ``"acme:gram"``.

    Raises
    ------
    UnknownName
        No registered solver solves a problem of that name.
    """
    return default_registry().solvers(problem)


def normalizers() -> tuple[str, ...]:
    """List the normalizers.

    Returns
    -------
    tuple of str
        Sorted names.
    """
    return default_registry().normalizers()


def test_matrices() -> tuple[str, ...]:
    """List the test matrices.

    Returns
    -------
    tuple of str
        Sorted names.
    """
    return default_registry().test_matrices()


test_matrices.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it where it is imported


def operator_adapters() -> tuple[OperatorSpec, ...]:
    """List the adapters that turn foreign data into operators.

    Returns
    -------
    tuple of OperatorSpec
        To be tried in this order; the first whose ``matches(data)`` is true adapts.
    """
    return default_registry().operator_adapters()


def get_solver(name: str, problem: Any = None) -> type[Any]:
    """Import a solver's class.

    Parameters
    ----------
    name : str
        ``"gram"``, ``"cca/gram"``, ``"acme:gram"`` or ``"cca/acme:gram"``.
    problem : str, problem class or problem, optional
        What it is to solve. Needed where solvers of several problems have the name.

    Returns
    -------
    type
        A subclass of ``linspec.Solver``; its keyword arguments are the options.

    Raises
    ------
    UnknownName
        Nobody registers it; the message suggests close names.
    AmbiguousName
        Several problems or several plugins use it; the message lists the full names.
    BrokenPlugin
        It cannot be imported or does not keep the contract.
    """
    return default_registry().get_solver(name, problem)


def problems() -> tuple[str, ...]:
    """List the families of problems.

    Returns
    -------
    tuple of str
        Names for `get_problem`, and for `solvers`.
    """
    return default_registry().problems()


def get_problem(name: str) -> type[Any]:
    """Import the class of a family of problems.

    Parameters
    ----------
    name : str
        As `problems` lists it, such as ``"cca"``.

    Returns
    -------
    type

    Raises
    ------
    UnknownName
        Nobody registers it; the message has what is near.
    BrokenPlugin
        It cannot be imported, or is no problem.
    """
    return default_registry().get_problem(name)


def get_part(kind: str, name: str, problem: Any = None) -> type[Any]:
    """Import the class of a solver, normalizer or test matrix.

    Parameters
    ----------
    kind : {"solver", "normalizer", "test-matrix"}
        What it is.
    name : str
        As for :func:`get_solver`.
    problem : str, problem class or problem, optional
        For a solver, what it is to solve.

    Returns
    -------
    type
        A subclass of ``linspec.Solver``, ``linspec.Normalizer`` or ``linspec.TestMatrix``.

    Raises
    ------
    UnknownName, AmbiguousName, BrokenPlugin
        As for :func:`get_solver`.
    """
    return default_registry().get_part(kind, name, problem)


@overload
def get_spec(kind: Literal["solver"], name: str, problem: Any = None) -> SolverSpec: ...
@overload
def get_spec(kind: Literal["normalizer"], name: str, problem: Any = None) -> NormalizerSpec: ...
@overload
def get_spec(kind: Literal["test-matrix"], name: str, problem: Any = None) -> TestMatrixSpec: ...
@overload
def get_spec(kind: str | None, name: str, problem: Any = None) -> Any: ...
def get_spec(kind: str | None, name: str, problem: Any = None) -> Any:
    """Look up a record; imports no implementation.

    Parameters
    ----------
    kind : {"solver", "normalizer", "test-matrix", "operator", "problem"} or None
        What it is; None: whatever has the name.
    name : str
        As for :func:`get_solver`.
    problem : str, problem class or problem, optional
        For a solver, what it is to solve.

    Returns
    -------
    SolverSpec or NormalizerSpec or TestMatrixSpec or OperatorSpec

    Raises
    ------
    UnknownName, AmbiguousName
        As for :func:`get_solver`.
    """
    return default_registry().get_spec(kind, name, problem)


def provider_of(spec: Spec) -> str:
    """Tell who registers a record.

    Parameters
    ----------
    spec : SolverSpec or NormalizerSpec or TestMatrixSpec or OperatorSpec
        As :func:`get_spec` gives it.

    Returns
    -------
    str
        ``distribution:entry`` of the plugin; "" where nobody does.
    """
    return default_registry().provider_of(spec)


def spec_of(cls: type, problem: Any = None) -> Any:
    """Look up the record of a class, for an instance that was made without its name.

    Parameters
    ----------
    cls : type
        A solver, normalizer or test matrix.
    problem : str, problem class or problem, optional
        For a solver that is registered for several problems, which.

    Returns
    -------
    SolverSpec or NormalizerSpec or TestMatrixSpec or None
        None where the class is not registered.
    """
    return default_registry().spec_of(cls, problem)


def describe(name: str) -> Description:
    """Describe a solver, normalizer or test matrix.

    Parameters
    ----------
    name : str
        As for :func:`get_solver`, or with the kind in front, ``"normalizer/cholesky-qr"``. A bare name will
        do where it means one thing.

    Returns
    -------
    Description
        Its record and its options; ``print`` it for help.

    Raises
    ------
    UnknownName, AmbiguousName, BrokenPlugin
        As for :func:`get_solver`.
    """
    return default_registry().describe(name)


def report(spec: Spec, what: str, fault: str) -> None:
    """Write down what was wrong with something that a plugin provides; :func:`plugins` tells of it.

    Parameters
    ----------
    spec : SolverSpec or NormalizerSpec or TestMatrixSpec or OperatorSpec
        Its record, as :func:`get_spec` or :func:`operator_adapters` gave it.
    what : str
        What failed: ``"estimate"``, ``"matches"``.
    fault : str
        What it did, in words: ``"raised ValueError: ..."``.
    """
    default_registry().report(spec, what, fault)


def register(spec: Spec) -> None:
    """Register a record in this process: for notebooks, and before a plugin is packaged.

    Parameters
    ----------
    spec : SolverSpec or NormalizerSpec or TestMatrixSpec or OperatorSpec
        Its target may be a class defined in the session, ``"__main__:MySolver"``. A second record of the same
        name replaces the first. Its provider is ``local``, so a name that linspec has, too, is asked for as
        ``"local:gram"``.

    Raises
    ------
    InvalidDeclaration
        Not a record.
    """
    default_registry().register(spec)


def plugins() -> list[PluginInfo]:
    """Report every plugin found, loaded or not.

    Returns
    -------
    list of PluginInfo
        In order of distribution and entry point.
    """
    return default_registry().plugins()
