"""The registry of solvers, normalizers, test matrices, operator adapters and problems, with their providers.

Problem: methods come from linspec and from any installed package. Names must be listed quickly, without importing the
implementations. Two packages may choose the same name. A package may be broken, and must not harm other packages.
Method: one entry-point group, ``linspec``, whose entries name tables of records (:mod:`linspec.registry.hookspecs`).
The first listing imports the tables, and the first use of a name imports its class. Every plugin is read by its own
pluggy manager, and its exceptions are contained and recorded with its name. :func:`plugins` reports these faults, and
so do the errors about names that were not found. linspec's own methods are registered in the same way.

Names: ``gram`` | ``cca/gram`` | ``acme:gram`` | ``cca/acme:gram``, with the distribution before the colon. If linspec
itself uses a bare name, the name means linspec's record, and one warning says so. If two other distributions use a
bare name, it must be qualified. Every name can be requested in the form in which it is listed.
"""

from __future__ import annotations

from typing import Any, Literal, overload

from linspec.errors import UnknownName
from linspec.process.forks import wait_before_forks
from linspec.registry import description
from linspec.registry.description import Description
from linspec.registry.kinds import KINDS
from linspec.registry.loading import PluginInfo
from linspec.registry.lookup import Registry, imported
from linspec.registry.names import SolverRecords, problem_name
from linspec.registry.options import options_of
from linspec.registry.spec import NormalizerSpec, OperatorSpec, SolverSpec, Spec, TestMatrixSpec

#: The kinds whose records name a class.
_WITH_CLASS = [name for name, kind in KINDS.items() if kind.base]

_DEFAULT = Registry()
wait_before_forks(_DEFAULT.lock)


def default_registry() -> Registry:
    """Return the registry that the functions of this module use."""
    return _DEFAULT


def solvers(problem: Any = None) -> tuple[str, ...]:
    """List the solvers.

    Parameters
    ----------
    problem : str, problem class or problem, optional
        The problem of the solvers; by default all problems.

    Returns
    -------
    tuple of str
        Sorted names, such as ``"gram"``; without `problem`, sorted names that begin with their problem, such as
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
    if problem is None:
        return default_registry().names("solver")
    scope = problem_name(problem)
    names = default_registry().names("solver", scope)
    # A class or an instance is a problem even if it has no solver; a text may be misspelt.
    if not names and isinstance(problem, str):
        raise UnknownName(default_registry().no_such_problem(scope))
    return names


def records_of_solvers(problem: Any) -> SolverRecords:
    """Return the records of a problem's solvers, for the choice of "auto"; cached until a record is registered."""
    scope, known = problem_name(problem), default_registry().index().solving
    if scope not in known:
        specs = {name: get_spec("solver", name, scope) for name in solvers(problem)}
        known[scope] = SolverRecords(
            tuple((name, spec) for name, spec in specs.items() if "automatic" in spec.traits),
            frozenset(name for name, spec in specs.items() if "approximate" in spec.traits),
            tuple(
                name
                for name, spec in specs.items()
                if "iterative" in spec.traits and "demonstration" not in spec.traits
            ),
        )
    return known[scope]


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
    return default_registry().names("normalizer")


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
    return default_registry().names("test-matrix")


test_matrices.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it where it is imported


def operator_adapters() -> tuple[OperatorSpec, ...]:
    """Return the adapters for foreign data in the order in which they are tried; the first that matches is used."""
    return tuple(
        entry.spec for entry in default_registry().index().entries if isinstance(entry.spec, OperatorSpec)
    )


def get_solver(name: str, problem: Any = None) -> type[Any]:
    """Import a solver's class.

    Parameters
    ----------
    name : str
        ``"gram"``, ``"cca/gram"``, ``"acme:gram"`` or ``"cca/acme:gram"``.
    problem : str, problem class or problem, optional
        The problem to solve. It is required if solvers of several problems have the name.

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
        The class cannot be imported, or is not a valid solver.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.get_solver("gram", "cca").__name__
    'GramCCA'
    """
    return get_part("solver", name, problem)


def problems() -> tuple[str, ...]:
    """List the families of problems.

    Returns
    -------
    tuple of str
        Names that `get_problem` and `solvers` accept.

    Examples
    --------
    >>> import linspec as ls
    >>> "cca" in ls.problems()
    True
    """
    return default_registry().names("problem")


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
    return get_part("problem", name)


def get_part(kind: str, name: str, problem: Any = None) -> type[Any]:
    """Import the class of a solver, normalizer, test matrix or problem; errors as for `get_solver`."""
    if kind not in _WITH_CLASS:
        raise UnknownName(f"there is no kind {kind!r} of parts; the kinds are {', '.join(_WITH_CLASS)}")
    registry = default_registry()
    return registry.implementation(registry.find(name, [kind], problem))


@overload
def get_spec(kind: Literal["solver"], name: str, problem: Any = None) -> SolverSpec: ...
@overload
def get_spec(kind: Literal["normalizer"], name: str, problem: Any = None) -> NormalizerSpec: ...
@overload
def get_spec(kind: Literal["test-matrix"], name: str, problem: Any = None) -> TestMatrixSpec: ...
@overload
def get_spec(kind: str | None, name: str, problem: Any = None) -> Any: ...
def get_spec(kind: str | None, name: str, problem: Any = None) -> Any:
    """Find a record of a kind (None: of any kind), without importing its class; errors as for `get_solver`."""
    return default_registry().find(name, KINDS if kind is None else [kind], problem).spec


def provider_of(spec: Spec) -> str:
    """Return the plugin that registers a record, as ``distribution:entry``; "" if no plugin registers it."""
    entry = default_registry().index().entry_of(spec)
    return "" if entry is None else entry.plugin.identity


def spec_of(cls: type, problem: Any = None) -> Any:
    """Return the record of a class if it is registered, for `problem` if that is passed; else None."""
    scope = None if problem is None else problem_name(problem)
    for entry in default_registry().index().entries:
        spec = entry.spec
        if scope in (None, getattr(spec, "problem", scope)) and imported(getattr(spec, "target", "")) is cls:
            return spec
    return None


def describe(name: str) -> Description:
    """Describe a solver, problem, normalizer, test matrix or adapter.

    Parameters
    ----------
    name : str
        A name as for :func:`get_solver`, or one that begins with the kind: ``"normalizer/cholesky-qr"``,
        ``"test-matrix/gaussian"``, ``"problem/cca"``, or ``"operator/hdf5"`` for an adapter.

    Returns
    -------
    Description
        The fields of the record and the options; ``print`` shows them as help. For a bare name that several records
        have, such as "gram", `Description.namesakes` lists these records.

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
    registry = default_registry()
    found = registry.find_all(name, KINDS)
    if len(found) > 1:
        return description.of_namesakes(name, found)
    (entry,) = found
    kind, of = entry.spec.kind, entry.spec.name
    if kind == "problem":
        stated = description.statement(registry.implementation(entry))
        return description.of_one(entry, statement=stated, solvers=registry.names("solver", of))
    return description.of_one(
        entry, options=options_of(registry.implementation(entry)) if KINDS[kind].method else ()
    )


def report(spec: Spec, what: str, fault: str) -> None:
    """Record a fault that `plugins` then reports: the record concerned, what failed in it, and the fault as text."""
    default_registry().report(spec, what, fault)


def register(spec: Spec) -> None:
    """Register a record in this process, for notebooks and for plugins that are not packaged yet.

    Parameters
    ----------
    spec : SolverSpec or NormalizerSpec or TestMatrixSpec or OperatorSpec
        The record. Its target may be a class defined in the session, ``"__main__:MySolver"``. A second record of the
        same name replaces the first. The provider is ``local``: if linspec has a method of the same name, request
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
