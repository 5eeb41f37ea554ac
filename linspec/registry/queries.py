"""The registry: the records of all plugins by their names, and the functions that users and authors call.

Problem: methods come from linspec and from any installed package. Names must be listed quickly, without importing the
implementations. Two packages may choose the same name. A package may be broken, and must not harm other packages.
Method: one entry-point group, ``linspec``, whose entries name tables of records (:mod:`linspec.registry.spec`). The
first listing imports the tables, and the first use of a name imports its class. A plugin that fails gives one warning;
:func:`plugins` reports the fault, and so do the errors about names that are not registered. linspec's own methods are
registered in the same way.

Names: ``gram`` | ``cca/gram`` | ``acme:gram`` | ``cca/acme:gram``, with the distribution before the colon. If several
distributions register a name, the first keeps the bare name, and a warning says so: linspec itself, then the others in
the order of their names. Every name can be requested in the form in which it is listed.
Source: pluggy, whose marker of hooks is used.
Where we differ: ``pluggy.load_setuptools_entrypoints`` silently drops the second of two entry points of the same name,
and one ImportError stops it. So the marked functions of each table are called one by one, without a manager.
"""

from __future__ import annotations

import inspect
import os
import re
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib import metadata
from typing import Any, Literal, NamedTuple

from linspec.errors import (
    AmbiguousName,
    BrokenPlugin,
    InvalidDeclaration,
    InvalidProblem,
    PluginWarning,
    UnknownName,
    one_line,
    warn,
)
from linspec.registry.options import COUNTERPARTS, RUN_ARGUMENTS, Option, options_of
from linspec.registry.spec import (
    HOOKS,
    KINDS,
    PROJECT,
    Needs,
    OperatorSpec,
    SolverSpec,
    Spec,
    resolve,
)

LOCAL = "local"
"""The distribution of records that were passed to :func:`register`."""


@dataclass(frozen=True)
class PluginInfo:
    """The result of loading one entry point.

    Parameters
    ----------
    name : str
        Name of the entry point.
    distribution : str
        Distribution that has the entry point; ``"local"`` for records passed to ``linspec.register``.
    version : str
        Version of the distribution, or "" if it has none.
    status : {"loaded", "broken", "disabled"}
        "broken" if the table could not be read.
    error : str or None
        A text about the fault of a broken plugin, else None.
    provides : tuple of str
        The names that the plugin registers, such as ``"cca/gram"``, ``"normalizer/cholesky-qr"``,
        ``"test-matrix/gaussian"``, ``"operator/dask"``.

    Examples
    --------
    >>> import linspec as ls
    >>> [info.name for info in ls.plugins() if "cca/gram" in info.provides]
    ['cca']
    """

    name: str
    distribution: str
    version: str
    status: Literal["loaded", "broken", "disabled"]
    error: str | None
    provides: tuple[str, ...]

    @property
    def identity(self) -> str:
        """``distribution:name``, which is unique, and which the variable LINSPEC_DISABLE_PLUGINS accepts."""
        return f"{self.distribution}:{self.name}"


@dataclass(frozen=True, kw_only=True)
class Description:
    """The declaration of a solver, normalizer, test matrix, adapter or problem; ``str()`` is its help text.

    Parameters
    ----------
    kind : {"solver", "normalizer", "test-matrix", "operator", "problem"}
        The kind of the record.
    name, summary, reference, traits
        The fields of the record.
    problem : str or None
        For a solver: the problem it solves.
    needs : Needs or None
        For a solver: the access to the data that it needs.
    provider : str
        ``distribution:entry`` of the plugin that registers it.
    version : str
        Version of the provider, or "".
    options : tuple of Option or None
        The options in order of declaration; None for an adapter or a problem.
    statement : str, default ""
        For a problem: its constructor, ``"SVD(A, k, center=False, left=False)"``.
    solvers : tuple of str, default ()
        For a problem: the names of its solvers.
    """

    kind: str
    name: str
    summary: str
    problem: str | None = None
    reference: str = ""
    needs: Needs | None = None
    traits: tuple[str, ...] = ()
    provider: str = ""
    version: str = ""
    options: tuple[Option, ...] | None = None
    statement: str = ""
    solvers: tuple[str, ...] = ()

    def __str__(self) -> str:
        facts = {
            "stated as": self.statement,
            "solvers": ", ".join(self.solvers),
            "problem": self.problem,
            "reference": self.reference,
            "needs": self.needs,
            "traits": ", ".join(self.traits),
            "provider": f"{self.provider} {self.version}".strip(),
        }
        lines = [f"{self.name} ({self.kind.replace('-', ' ')})", "", self.summary, ""]
        lines += [f"{label:<11}{fact}" for label, fact in facts.items() if fact]
        lines += [] if self.options is None else ["", "options" if self.options else "no options"]
        lines += [f"  {o.name} = {o.default!r}\n      {o.help} [{o.expects}]" for o in self.options or ()]
        return "\n".join(lines)


class Entry(NamedTuple):
    """A record, and the name under which it is listed: ``acme:gram`` if another record has the bare name."""

    spec: Any
    plugin: PluginInfo
    scope: str  # the problem of a solver; the kind of any other record
    listed: str

    @property
    def full(self) -> str:
        """The shortest name that means only this record, whatever the problem."""
        return f"{self.scope}/{self.listed}"


class Registry:
    """All registered records, which are read from entry points on first use.

    Parameters
    ----------
    entry_points : iterable of importlib.metadata.EntryPoint, optional
        The entry points to read; by default the group ``linspec`` of every installed distribution.
    disabled : str, optional
        The plugins not to load, ``dist[:entry],...``, or ``*`` for all except linspec's own; by default the value of
        the environment variable LINSPEC_DISABLE_PLUGINS.
    """

    def __init__(
        self, entry_points: Iterable[metadata.EntryPoint] | None = None, disabled: str | None = None
    ) -> None:
        self._entry_points = entry_points
        self._disabled = disabled
        self._lock = threading.RLock()
        self._tables: list[tuple[PluginInfo, list[Spec]]] | None = None
        self._entries: list[Entry] = []
        self._named: dict[str, list[Entry]] = {}

    def entries(self) -> list[Entry]:
        """Return all records, those of one plugin after those of another; the first call reads the tables."""
        if self._tables is None:
            with self._lock:
                if self._tables is None:
                    tables = list(self._read())
                    (self._entries, self._named), self._tables = _entries(tables), tables
                    for info, _ in tables:  # last, so that the tables are read even if warnings are errors
                        if info.error:
                            warn(f"The plugin {info.identity} cannot be used: {info.error}.", PluginWarning)
                    self._warn_about(self._entries)
        return self._entries

    def plugins(self) -> list[PluginInfo]:
        """Return the plugins that were read, and the plugin "local" if a record was registered in this process."""
        self.entries()
        return [info for info, _ in self._tables or ()]

    def register(self, spec: Spec) -> None:
        """Add a record to the plugin "local", or replace the record of the same name there."""
        if type(spec) not in HOOKS.values():
            names = " or ".join(record.__name__ for record in HOOKS.values())
            raise InvalidDeclaration(f"register takes a {names}; got {spec!r}")
        specs = {e.spec.qualified: e.spec for e in self.entries() if e.plugin.distribution == LOCAL}
        specs[spec.qualified] = spec
        tables = [table for table in self._tables or () if table[0].distribution != LOCAL]
        local = PluginInfo("register", LOCAL, "", "loaded", None, tuple(sorted(specs)))
        self._tables = [*tables, (local, [*specs.values()])]
        self._entries, self._named = _entries(self._tables)
        self._warn_about(entry for entry in self._entries if entry.spec is spec)

    def _warn_about(self, entries: Iterable[Entry]) -> None:
        """Warn of records whose bare name belongs to another record."""
        for spec, info, _, listed in entries:
            if listed != spec.name:
                warn(
                    f"{spec.qualified}, registered by {info.identity}, is listed as {listed!r}: another record has the "
                    f"name {spec.name!r}.",
                    PluginWarning,
                )

    def names(self, kind: str, problem: str | None = None) -> tuple[str, ...]:
        """Return the sorted names of one kind; if `problem` is None, names of solvers begin with their problem."""
        return tuple(
            sorted(
                entry.full if kind == "solver" and problem is None else entry.listed
                for entry in self.entries()
                if entry.spec.kind == kind and problem in (None, entry.scope)
            )
        )

    def find(self, name: Any, kinds: Collection[str], problem: Any = None) -> Entry:
        """Return the record that a name means; raise if no record or several records have the name.

        The name may be bare (``gram``), or begin with the problem or kind (``cca/gram``), with the distribution
        (``acme:gram``), or with both (``cca/acme:gram``). `problem` restricts solvers to those of one problem.
        """
        if not isinstance(name, str):
            what = next(iter(kinds)).replace("-", " ")
            raise UnknownName(f"the name of a {what} must be a string; got {name!r}")
        scope = None if problem is None else problem_name(problem)
        prefix, _, rest = name.rpartition("/")  # cca/acme:gram; a missing part is ""
        distribution, _, bare = rest.rpartition(":")
        self.entries()
        entries = [
            entry
            for entry in self._named.get(bare, ())
            if entry.spec.kind in kinds
            and (prefix or entry.scope) == entry.scope
            and (scope in (None, entry.scope) or entry.spec.kind != "solver")
            and (
                _normalized(distribution) == _normalized(entry.plugin.distribution)
                if distribution
                else entry.listed == bare
            )
        ]
        if not entries:
            raise UnknownName(self._not_found(name, kinds, scope))
        if len({entry.scope for entry in entries}) > 1:
            names = " or ".join(repr(entry.full) for entry in entries)
            raise AmbiguousName(f"{name!r} may be {names}; ask for one of these")
        return entries[0]

    def _read(self) -> Iterator[tuple[PluginInfo, list[Spec]]]:
        """Read the table of every plugin, those of linspec first; a plugin that fails keeps its fault."""
        entry_points = _installed() if self._entry_points is None else self._entry_points
        listed = os.environ.get("LINSPEC_DISABLE_PLUGINS", "") if self._disabled is None else self._disabled
        disabled = {_normalized(text) for text in listed.split(",")}
        facts = [(*_described(entry.dist), entry.name, entry) for entry in entry_points]
        facts.sort(key=lambda fact: (_normalized(fact[0]) != PROJECT, _normalized(fact[0]), fact[2]))
        for distribution, version, name, entry in facts:
            names = {_normalized(distribution), _normalized(f"{distribution}:{name}")}
            if PROJECT not in names:
                names.add("*")
            status: Literal["loaded", "broken", "disabled"] = "disabled" if disabled & names else "loaded"
            fault, specs = None, list[Spec]()
            try:
                specs = _table(entry.load()) if status == "loaded" else specs
            except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever the table raises
                status, fault = "broken", one_line(error)
            provides = tuple(sorted(spec.qualified for spec in specs))
            yield PluginInfo(name, distribution, version, status, fault, provides), specs

    def _not_found(self, name: str, kinds: Collection[str], scope: str | None) -> str:
        """Return the message for a name that is not registered, with suggestions."""
        listed = [known for kind in kinds for known in self.names(kind, scope if kind == "solver" else None)]
        near = get_close_matches(name.lower().replace("_", "-"), listed, 1)
        message = f"no {' '.join(filter(None, (scope, *kinds)))} is named {name!r}."
        message += f" Did you mean {near[0]!r}?" if near else ""
        for (
            info
        ) in self.plugins():  # before the long list: the name may be of a plugin that could not be loaded
            if info.status != "loaded":
                message += (
                    f" Plugin {info.identity} is {info.status}{f' ({info.error})' if info.error else ''}."
                )
        return f"{message} Available: {', '.join(listed) or 'none'}."


@lru_cache(maxsize=256)
def _described(dist: metadata.Distribution | None) -> tuple[str, str]:
    """Name and version of a distribution, whose metadata take a millisecond to read."""
    return (dist.metadata["Name"] or "unknown", dist.metadata["Version"] or "") if dist else ("unknown", "")


def _installed() -> Iterator[metadata.EntryPoint]:
    """Yield the entry points of every distribution with readable metadata; the first of a name on the path counts."""
    seen = set()
    for dist in metadata.distributions():
        with suppress(Exception):  # a partly removed package
            entries = dist.entry_points.select(group=PROJECT)
            if entries and _normalized(_described(dist)[0]) not in seen:
                seen.add(_normalized(_described(dist)[0]))
                yield from entries


def _table(table: object) -> list[Spec]:
    """Call the hooks of one table and check every record they return."""
    marked = {
        name: function
        for name, function in inspect.getmembers(table, inspect.isroutine)
        if hasattr(function, f"{PROJECT}_impl")
    }
    if not marked or marked.keys() - HOOKS.keys():
        raise InvalidDeclaration(
            f"it must mark some of the hooks {', '.join(HOOKS)} with @linspec.hookimpl; got "
            f"{', '.join(marked) or 'none'}"
        )
    specs: list[Spec] = []
    for hook, hooked in marked.items():
        returned = hooked()
        records: list[Any] = list(returned) if isinstance(returned, Iterable) else [None]
        if any(type(spec) is not HOOKS[hook] for spec in records):
            raise InvalidDeclaration(f"{hook} must return a list of {HOOKS[hook].__name__}; got {returned!r}")
        specs += records
    return specs


def _entries(
    tables: Iterable[tuple[PluginInfo, list[Spec]]],
) -> tuple[list[Entry], dict[str, list[Entry]]]:
    """Return the records as they are listed, the first of several by its bare name; and those of each name."""
    entries: list[Entry] = []
    named: dict[str, list[Entry]] = {}
    taken: set[str] = set()
    for info, specs in tables:
        for spec in specs:
            listed = f"{info.distribution}:{spec.name}" if spec.qualified in taken else spec.name
            taken.add(spec.qualified)
            entries.append(Entry(spec, info, spec.qualified.partition("/")[0], listed))
            named.setdefault(spec.name, []).append(entries[-1])
    return entries, named


def _implementation(entry: Entry) -> type[Any]:
    """Import and check the class of a record; if there is a fault, raise `BrokenPlugin`."""
    spec, info = entry.spec, entry.plugin
    cause: BaseException | None = None
    try:
        cls = resolve(spec.target)
        fault = _fault(cls, resolve(spec.base), has_options=bool(spec.method))
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever the import raises
        cause, fault = error, f"it cannot be imported ({one_line(error)})"
    if fault:
        raise BrokenPlugin(
            f"{spec.qualified}, registered by {info.identity}, cannot be used. Its target is {spec.target!r} and "
            f"{fault}. Update {info.distribution}, or tell its authors."
        ) from cause
    return cls


@lru_cache(maxsize=256)
def _fault(cls: Any, base: type, *, has_options: bool) -> str:
    """Return the reason why a class is not a valid solver (normalizer, test matrix), or "" if it is valid."""
    if not (isinstance(cls, type) and issubclass(cls, base)) or inspect.isabstract(cls):
        return f"it is not a class derived from linspec.{base.__name__} with all of its methods"
    params: Any = vars(cls).get(
        "__dataclass_params__"
    )  # its own: a subclass inherits, and drops its own fields
    if not has_options:
        return ""
    if not (params and params.frozen):
        return "it is not decorated with @dataclass(frozen=True, kw_only=True)"
    clash = sorted(RUN_ARGUMENTS.intersection(option.name for option in options_of(cls)))
    return f"its option {', '.join(clash)} has the name of an argument of linspec.solve" if clash else ""


def _normalized(distribution: str) -> str:
    """Return a distribution's name as packaging tools compare names: ``acme-solvers`` for ``Acme_Solvers``."""
    return re.sub(r"[-_.]+", "-", distribution.strip()).lower()


def problem_name(problem: Any) -> str:
    """Return the name of a problem given by name, class or instance."""
    name = problem if isinstance(problem, str) else getattr(problem, "name", None)
    if not isinstance(name, str):
        raise InvalidProblem(
            f"a problem is a name such as 'cca', a problem class or an instance of one; got {problem!r}"
        )
    return name


_DEFAULT = Registry()


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
    scope = None if problem is None else problem_name(problem)
    names = default_registry().names("solver", scope)
    if not names and isinstance(problem, str):  # a class or an instance is a problem even if it has no solver
        default_registry().find(problem, ["problem"])  # raises
    return names


def records_of_solvers(problem: Any) -> dict[str, SolverSpec]:
    """Return the records of a problem's solvers by the names under which they are listed."""
    scope = problem_name(problem)
    specs = {e.listed: e.spec for e in default_registry().entries() if e.scope == scope}
    return {name: specs[name] for name in sorted(specs) if isinstance(specs[name], SolverSpec)}


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
    return tuple(entry.spec for entry in default_registry().entries() if isinstance(entry.spec, OperatorSpec))


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
    return _implementation(default_registry().find(name, [kind], problem))


def solver_and_record(name: str, problem: Any = None) -> tuple[type[Any], Any]:
    """Import a solver's class, and find its record; errors as for `get_solver`."""
    entry = default_registry().find(name, ["solver"], problem)
    return _implementation(entry), entry.spec


def get_spec(kind: str | None, name: str, problem: Any = None) -> Any:
    """Find a record of a kind (None: of any kind), without importing its class; errors as for `get_solver`."""
    return default_registry().find(name, KINDS if kind is None else [kind], problem).spec


def spec_of(cls: type, problem: Any = None) -> Any:
    """Return the record of a class if it is registered, for `problem` if that is passed; else None."""
    target = f"{cls.__module__}:{cls.__qualname__}"
    scope = problem and problem_name(problem)
    specs = [
        entry.spec for entry in default_registry().entries() if getattr(entry.spec, "target", "") == target
    ]
    return next((spec for spec in specs if scope in (None, getattr(spec, "problem", scope))), None)


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
        The fields of the record and the options; ``print`` shows them as help.

    Raises
    ------
    UnknownName, AmbiguousName, BrokenPlugin
        As for :func:`get_solver`.

    Examples
    --------
    >>> import linspec as ls
    >>> print(ls.describe("cca/gram").reference)
    Lu 2015, Fast linear algorithms for machine learning (thesis), Lemma 4.1.2
    """
    entry = default_registry().find(name, KINDS)
    spec: Any = entry.spec
    cls: Any = _implementation(entry) if spec.base else None
    facts = ("kind", "name", "summary", "problem", "reference", "needs", "traits")
    return Description(
        **{fact: getattr(spec, fact) for fact in facts if hasattr(spec, fact)},
        provider=entry.plugin.identity,
        version=entry.plugin.version,
        options=options_of(cls) if spec.method else None,
        statement=_statement(cls) if spec.kind == "problem" else "",
        solvers=default_registry().names("solver", spec.name) if spec.kind == "problem" else (),
    )


def _statement(cls: Any) -> str:
    """Return the constructor of a problem as text: its class with the arguments; those with a default show it."""
    arguments = [
        p.name if p.default is p.empty or p.name in cls.stated.needed else f"{p.name}={p.default!r}"
        for p in inspect.signature(cls).parameters.values()
    ]
    return f"{cls.__name__}({', '.join(arguments)})"


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
    ...     def iterate(self, problem, moments, context, start):
    ...         x = moments.operators[0].backend.blocks.zeros(tuple(moments.widths))
    ...         yield ls.Iterate(1.0, lambda: {"x": x}, final=True)
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


def problem_classes() -> dict[str, str]:
    """The targets of all registered problems by the names of their classes, such as ``"KernelCCA"``."""
    targets = [entry.spec.target for entry in default_registry().entries() if entry.spec.kind == "problem"]
    return {target.rpartition(":")[2]: target for target in reversed(targets)}


def class_of_problem(name: str, public: Collection[str]) -> type[Any]:
    """Return the class of this name of a registered problem, for ``linspec.KernelCCA``.

    Parameters
    ----------
    name : str
        The name of an attribute that `linspec` itself does not have.
    public : collection of str
        The public names of `linspec`, for suggestions.

    Raises
    ------
    AttributeError
        There is no such problem.
    """
    classes = problem_classes() if name[0].isupper() else {}
    if name in classes:
        return resolve(classes[name])
    known = {text.casefold(): text for text in (*classes, *public)}
    hints = [f". Use {here}." for foreign, here in COUNTERPARTS.items() if name in foreign.split()]
    hints += [f". Did you mean {known[match]!r}?" for match in get_close_matches(name.casefold(), known, 1)]
    raise AttributeError(f"module 'linspec' has no attribute {name!r}{hints[0] if hints else ''}")
