"""Names: ``gram``, ``cca/gram``, ``acme:gram`` and ``cca/acme:gram``, and the records that each may mean.

If linspec itself uses a bare name, the name means linspec's record. If two other distributions use a bare name, it
must be qualified by the distribution.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from linspec.errors import InvalidProblem, suggestion
from linspec.registry.loading import BUILT_IN, Plugin, normalized
from linspec.registry.spec import ProblemSpec, SolverSpec, Spec

#: A name this similar to that of a problem, as difflib measures it, counts as misspelt.
MISSPELT = 0.8


@dataclass(eq=False)
class Entry:
    """A record with the name under which it is listed.

    Attributes
    ----------
    spec, plugin
        The record and the plugin that provides it.
    scope : str
        The problem of a solver; the kind of any other record.
    listed : str
        ``gram``, or ``acme:gram`` if other distributions use the bare name.
    hidden : bool
        Whether the bare name means a record of linspec instead of this record.
    sound : type or None
        The class, once it has been imported and has passed the check; else None.
    """

    spec: Spec
    plugin: Plugin
    scope: str
    listed: str
    hidden: bool
    sound: type[Any] | None = None

    @property
    def full(self) -> str:
        """The shortest name that means only this record, whatever the problem."""
        return f"{self.scope}/{self.listed}"


class SolverRecords(NamedTuple):
    """The solvers of a problem, in the groups from which "auto" chooses; a solver may be in several groups.

    Attributes
    ----------
    automatic : tuple of (str, SolverSpec)
        Names and records of solvers that estimate time and memory (trait "automatic").
    rough : frozenset of str
        Names of solvers with approximate answers (trait "approximate").
    iterative : tuple of str
        Names of iterative solvers, except those that are kept only to show a failure (trait "demonstration").
    """

    automatic: tuple[tuple[str, SolverSpec], ...]
    rough: frozenset[str]
    iterative: tuple[str, ...]


class Index:
    """The records of all plugins by their names.

    When a record is registered, a new index is made; the records of an index never change, and what it has looked up
    is kept. So a thread that reads the index while another thread registers a record sees either the old or the new
    state.
    """

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        records = [(spec, plugin) for plugin in plugins for spec in plugin.specs.values()]
        self.problems = {name for spec, plugin in records for name in _known_problem(spec, plugin)}
        alike: defaultdict[str, list[Plugin]] = defaultdict(list)
        for spec, plugin in records:
            plugin.faults.pop((spec.qualified, "problem"), None)
            if fault := misspelt(spec, self.problems):
                plugin.faults[spec.qualified, "problem"] = fault
            else:
                alike[spec.qualified].append(plugin)
        self.entries = [
            _entry(spec, plugin, alike[spec.qualified])
            for spec, plugin in records
            if plugin in alike[spec.qualified]
        ]
        self.named: defaultdict[str, list[Entry]] = defaultdict(list)
        listed: defaultdict[str, list[str]] = defaultdict(list)
        for entry in self.entries:
            self.named[entry.spec.name].append(entry)
            listed[entry.scope].append(entry.listed)
        self.listed = {scope: tuple(sorted(names)) for scope, names in listed.items()}
        self.solvers = tuple(sorted(entry.full for entry in self.entries if entry.spec.kind == "solver"))
        self.solving: dict[str, SolverRecords] = {}  # by problem, filled on first use
        self._meant: dict[
            tuple[str, tuple[str, ...], str | None], list[Entry]
        ] = {}  # a solve asks five times

    def meant(self, name: str, kinds: Iterable[str], problem: str | None = None) -> list[Entry]:
        """Return the records that a name of any form may mean; `problem` restricts only solvers."""
        key = name, tuple(kinds), problem
        if key not in self._meant:
            self._meant[key] = self._found(*key)
        return self._meant[key]

    def _found(self, name: str, kinds: Iterable[str], problem: str | None) -> list[Entry]:
        prefix, distribution, bare = split(name)
        wanted = distribution and normalized(distribution)
        return [
            entry
            for entry in self.named.get(bare, ())
            if (problem is None or entry.scope == problem or entry.spec.kind != "solver")
            and prefix in ("", entry.scope)
            and entry.spec.kind in kinds
            and (normalized(entry.plugin.distribution) == wanted if wanted else not entry.hidden)
        ]

    def entry_of(self, spec: Spec) -> Entry | None:
        """Return the entry of exactly this record object, or None; an equal record does not count."""
        return next((entry for entry in self.named.get(spec.name, ()) if entry.spec is spec), None)


def _entry(spec: Spec, plugin: Plugin, alike: list[Plugin]) -> Entry:
    """Make the entry of a record; `alike` are all plugins that have a record of the same qualified name."""
    scope = spec.qualified.partition("/")[0]
    if len(alike) == 1 or is_built_in(plugin):
        return Entry(spec, plugin, scope, spec.name, hidden=False)
    qualified = f"{plugin.distribution}:{spec.name}"
    return Entry(spec, plugin, scope, qualified, hidden=any(map(is_built_in, alike)))


def is_built_in(plugin: Plugin) -> bool:
    """Whether a plugin belongs to the distribution linspec itself."""
    return normalized(plugin.distribution) == BUILT_IN


def _known_problem(spec: Spec, plugin: Plugin) -> list[str]:
    """Return the name of the problem that a record makes known, in a list of one; else an empty list.

    A `ProblemSpec` and the record of a solver of linspec itself make their problem known. Records of other solvers do
    not, because their problem may be misspelt.
    """
    if isinstance(spec, ProblemSpec):
        return [spec.name]
    return [spec.problem] if isinstance(spec, SolverSpec) and is_built_in(plugin) else []


def misspelt(spec: Spec, problems: set[str]) -> str:
    """Return the message if a solver's record names a problem that seems misspelt, else ""."""
    if not isinstance(spec, SolverSpec) or spec.problem in problems:
        return ""
    meant = suggestion(spec.problem, sorted(problems), cutoff=MISSPELT)
    return f"no problem is named {spec.problem!r}.{meant}" if meant else ""


def split(name: str) -> tuple[str, str, str]:
    """Split ``cca/acme:gram`` into ("cca", "acme", "gram"); a missing part is ""."""
    prefix, _, rest = name.rpartition("/")
    distribution, _, bare = rest.rpartition(":")
    return prefix, distribution, bare


def problem_name(problem: Any) -> str:
    """Return the name of a problem given by name, class or instance."""
    name = problem if isinstance(problem, str) else getattr(problem, "name", None)
    if not isinstance(name, str):
        raise InvalidProblem(
            f"a problem is a name such as 'cca', a problem class or an instance of one; got {problem!r}"
        )
    return name
