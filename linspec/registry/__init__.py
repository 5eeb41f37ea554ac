"""The registry of solvers, normalizers, test matrices, operator adapters and problems, with their providers.

Problem: methods come from linspec and from any installed package. Names must be listed at once, without
importing the implementations. Two packages may choose the same name. A package may be broken, and must not
harm another.
Method: one entry-point group, ``linspec``, whose entries name tables of records (:mod:`linspec.hookspecs`).
The first listing imports the tables, and the first use of a name imports its class. Every plugin is read
inside a guard and by its own pluggy manager. So its faults are recorded with its name. :func:`plugins`
reports them, and so do the errors about names that were not found. linspec's own methods are registered in
the same way.

Names: ``gram`` | ``cca/gram`` | ``acme:gram`` | ``cca/acme:gram``, with the distribution before the colon. If
linspec itself uses a bare name, the name stays linspec's, and one warning says so. If two others use a bare
name, it must be qualified. Every listed name can be requested as it is listed.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any, Literal, overload

from linspec.forks import wait_before_forks
from linspec.registry.loading import LOCAL, PluginInfo
from linspec.registry.lookup import Description, Registry
from linspec.registry.names import SolverRecords
from linspec.spec import NormalizerSpec, OperatorSpec, SolverSpec, Spec, TestMatrixSpec

__all__ = [
    "LOCAL",
    "Description",
    "PluginInfo",
    "Registry",
    "SolverRecords",
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
    "records_of_solvers",
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
    registry = Registry()
    wait_before_forks(registry.lock)
    return registry


wait_before_forks(_creating)


def solvers(problem: Any = None) -> tuple[str, ...]:
    """List the solvers.

    Parameters
    ----------
    problem : str, problem class or problem, optional
        The problem of the solvers; by default all problems.

    Returns
    -------
    tuple of str
        Sorted plain names, such as ``"gram"``; without `problem` sorted names with their problem,
        ``"cca/gram"``. An ambiguous name is listed with its provider: ``"acme:gram"``.

    Raises
    ------
    UnknownName
        No registered solver solves a problem of that name.

    Examples
    --------
    >>> import linspec as ls
    >>> "lobpcg" in ls.solvers("cca")
    True
    """
    return default_registry().solvers(problem)


def records_of_solvers(problem: Any) -> SolverRecords:
    """The records of a problem's solvers, for a choice among them.

    Parameters
    ----------
    problem : str, problem class or problem

    Returns
    -------
    SolverRecords
    """
    return default_registry().records_of_solvers(problem)


def normalizers() -> tuple[str, ...]:
    """List the normalizers.

    Returns
    -------
    tuple of str
        Sorted names.

    Examples
    --------
    >>> import linspec as ls
    >>> "cholesky-qr" in ls.normalizers()
    True
    """
    return default_registry().normalizers()


def test_matrices() -> tuple[str, ...]:
    """List the test matrices.

    Returns
    -------
    tuple of str
        Sorted names.

    Examples
    --------
    >>> import linspec as ls
    >>> "gaussian" in ls.test_matrices()
    True
    """
    return default_registry().test_matrices()


test_matrices.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it where it is imported


def operator_adapters() -> tuple[OperatorSpec, ...]:
    """List the adapters that turn foreign data into operators.

    Returns
    -------
    tuple of OperatorSpec
        In the order in which they are tried. The first with a true ``matches(data)`` adapts.
    """
    return default_registry().operator_adapters()


def get_solver(name: str, problem: Any = None) -> type[Any]:
    """Import a solver's class.

    Parameters
    ----------
    name : str
        ``"gram"``, ``"cca/gram"``, ``"acme:gram"`` or ``"cca/acme:gram"``.
    problem : str, problem class or problem, optional
        The problem to solve. It is needed if solvers of several problems have the name.

    Returns
    -------
    type
        A subclass of ``linspec.Solver``; its keyword arguments are the options.

    Raises
    ------
    UnknownName
        The name is not registered; the message suggests close names.
    AmbiguousName
        Several problems or several plugins use the name; the message lists the full names.
    BrokenPlugin
        The class cannot be imported or does not keep the contract.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.get_solver("gram", "cca").__name__
    'Gram'
    """
    return default_registry().get_solver(name, problem)


def problems() -> tuple[str, ...]:
    """List the families of problems.

    Returns
    -------
    tuple of str
        Names for `get_problem`, and for `solvers`.

    Examples
    --------
    >>> import linspec as ls
    >>> "cca" in ls.problems()
    True
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
        The name is not registered; the message suggests close names.
    BrokenPlugin
        The class cannot be imported, or is not a problem.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.get_problem("cca") is ls.CCA
    True
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
    """Look up a record, without importing its implementation.

    Parameters
    ----------
    kind : {"solver", "normalizer", "test-matrix", "operator", "problem"} or None
        The kind of the record; None for any kind.
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
    """Tell which plugin registers a record.

    Parameters
    ----------
    spec : SolverSpec or NormalizerSpec or TestMatrixSpec or OperatorSpec
        As :func:`get_spec` returns it.

    Returns
    -------
    str
        ``distribution:entry`` of the plugin, or "" if no plugin registers the record.
    """
    return default_registry().provider_of(spec)


def spec_of(cls: type, problem: Any = None) -> Any:
    """Look up the record of a class, for an instance that was made without its name.

    Parameters
    ----------
    cls : type
        A solver, normalizer or test matrix.
    problem : str, problem class or problem, optional
        For a solver that is registered for several problems, the problem.

    Returns
    -------
    SolverSpec or NormalizerSpec or TestMatrixSpec or None
        None if the class is not registered.
    """
    return default_registry().spec_of(cls, problem)


def describe(name: str) -> Description:
    """Describe a solver, normalizer or test matrix.

    Parameters
    ----------
    name : str
        As for :func:`get_solver`, or with the kind in front, ``"normalizer/cholesky-qr"``.

    Returns
    -------
    Description
        The record and the options; ``print`` it for help. For a bare name that several records have, such as "gram",
        it lists them, with the problems that have a solver of that name: `Description.namesakes`.

    Raises
    ------
    UnknownName, BrokenPlugin
        As for :func:`get_solver`.

    Examples
    --------
    >>> import linspec as ls
    >>> print(ls.describe("cca/gram").reference)
    Lu 2015, Fast linear algorithms for machine learning (thesis), Lemma 4.1.2
    """
    return default_registry().describe(name)


def report(spec: Spec, what: str, fault: str) -> None:
    """Record a fault in a part of a plugin; :func:`plugins` reports it.

    Parameters
    ----------
    spec : SolverSpec or NormalizerSpec or TestMatrixSpec or OperatorSpec
        The record of the part, as :func:`get_spec` or :func:`operator_adapters` returned it.
    what : str
        The method or function that failed: ``"estimate"``, ``"matches"``.
    fault : str
        The fault, in words: ``"raised ValueError: ..."``.
    """
    default_registry().report(spec, what, fault)


def register(spec: Spec) -> None:
    """Register a record in this process, for notebooks and for plugins that are not packaged yet.

    Parameters
    ----------
    spec : SolverSpec or NormalizerSpec or TestMatrixSpec or OperatorSpec
        Its target may be a class defined in the session, ``"__main__:MySolver"``. A second record of the same
        name replaces the first. Its provider is ``local``, so if linspec has the name, too, ask for
        ``"local:gram"``.

    Raises
    ------
    InvalidDeclaration
        The argument is not a record.

    Examples
    --------
    >>> import linspec as ls
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Zero(ls.Solver):
    ...     def solve(self, problem, run):
    ...         return run.finish(x=run.moments().home.zeros((problem.A.shape[1], problem.B.shape[1])))
    >>> record = ls.SolverSpec(
    ...     name="zero", problem="least-squares", target="__main__:Zero", summary="Zeros.", reference="An example"
    ... )
    >>> ls.register(record)                              # doctest: +SKIP
    >>> ls.solve(problem, "zero")                        # doctest: +SKIP
    """
    default_registry().register(spec)


def plugins() -> list[PluginInfo]:
    """Report every plugin found, loaded or not.

    Returns
    -------
    list of PluginInfo
        In order of distribution and entry point.

    Examples
    --------
    >>> import linspec as ls
    >>> {info.status for info in ls.plugins()} <= {"loaded", "broken", "disabled"}
    True
    """
    return default_registry().plugins()
