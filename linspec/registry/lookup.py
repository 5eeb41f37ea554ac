"""The registry, which reads the tables of plugins once, finds records and imports their classes."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import threading
from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from importlib import metadata
from typing import Any, cast

from linspec.errors import (
    AmbiguousName,
    BrokenPlugin,
    InvalidDeclaration,
    LinspecError,
    PluginWarning,
    UnknownName,
    suggestion,
    warn,
)
from linspec.process.faults import Contained, one_line
from linspec.registry.kinds import KINDS, resolve
from linspec.registry.loading import BUILT_IN, LOCAL, RECORDS, Plugin, PluginInfo, read_all, within_limits
from linspec.registry.names import Entry, Index, is_built_in, misspelt, problem_name, split
from linspec.registry.options import RUN_ARGUMENTS, options_of
from linspec.registry.spec import Spec


class Registry:
    """All registered records, which are read from entry points on first use.

    Parameters
    ----------
    entry_points : iterable of importlib.metadata.EntryPoint, optional
        The entry points to read; by default the group ``linspec`` of every installed distribution.
    disabled : str, optional
        The plugins not to load, in the form of the environment variable LINSPEC_DISABLE_PLUGINS, which is the default.

    Notes
    -----
    Registries have no common state, so a test can have a registry of its own. Tables are read once, under a lock.
    Classes are imported outside the lock, so a slow import in one thread does not stop other threads.
    """

    def __init__(
        self, entry_points: Iterable[metadata.EntryPoint] | None = None, disabled: str | None = None
    ) -> None:
        self._entry_points = entry_points
        self._disabled = disabled
        self.lock = threading.RLock()
        self._loading = False
        self._local = Plugin("register", LOCAL)
        self._plugins = [self._local]
        self._index: Index | None = None

    def index(self) -> Index:
        """Return the records by their names; the first call reads the tables."""
        if self._index is not None:
            return self._index
        first = False
        with self.lock:
            if self._index is None:
                if self._loading:
                    raise LinspecError(
                        "a plugin's table asked for names, or registered one, while the tables were being read; "
                        "a table must only return records"
                    )
                self._loading = first = True
                try:
                    self._plugins = [*read_all(self._entry_points, self._disabled), self._local]
                finally:
                    self._loading = False
                self._index = Index(self._plugins)
            index = self._index
        if first:
            _warn_of_clashes(index.entries)  # last, so that the tables are read even if warnings are errors
        return index

    def plugins(self) -> list[PluginInfo]:
        """Return the plugins that were read, and the plugin "local" if a record was registered in this process."""
        self.index()
        with self.lock:
            return [plugin.info() for plugin in self._plugins if plugin is not self._local or plugin.specs]

    def register(self, spec: Spec) -> None:
        """Add a record to the plugin "local", or replace the record of the same name there."""
        if type(spec) not in RECORDS:
            names = " or ".join(record.__name__ for record in RECORDS)
            raise InvalidDeclaration(f"register takes a {names}; got {spec!r}")
        self.index()
        with self.lock:
            if fault := misspelt(spec, self.index().problems):
                raise InvalidDeclaration(fault)
            replaced = self._local.specs.get(spec.qualified)
            self._local.specs[spec.qualified] = spec
            for key in [key for key in self._local.faults if key[0] == spec.qualified]:
                del self._local.faults[key]
            self._index = index = Index(self._plugins)
        if replaced is None:
            _warn_of_clashes(entry for entry in index.entries if entry.spec is spec)

    def report(self, spec: Spec, what: str, fault: str) -> None:
        """Record a fault of the plugin that registers a record."""
        entry = self.index().entry_of(spec)
        if entry is not None:
            self._record(entry, what, f"{what} {fault}")

    def names(self, kind: str, problem: str | None = None) -> tuple[str, ...]:
        """Return the sorted names of one kind; if `problem` is None, names of solvers begin with their problem."""
        if kind == "solver" and problem is None:
            return self.index().solvers
        return self.index().listed.get(problem if kind == "solver" and problem else kind, ())

    def find(self, name: str, kinds: Collection[str], problem: Any = None) -> Entry:
        """Return the record that a name means; raise if no record or several records have the name.

        The name may be bare (``gram``), or begin with the problem or kind (``cca/gram``), with the distribution
        (``acme:gram``), or with both (``cca/acme:gram``).
        """
        found = self.find_all(name, kinds, problem)
        if len(found) > 1:
            alike = len({entry.scope for entry in found}) == 1
            named = " or ".join(repr(entry.listed if alike else entry.full) for entry in found)
            raise AmbiguousName(f"{name!r} may be {named}; ask for one of these")
        return found[0]

    def find_all(self, name: Any, kinds: Collection[str], problem: Any = None) -> list[Entry]:
        """Return all records that a name may mean, in the forms of `find`; raise if no record has the name.

        A bare name may mean solvers of several problems, or records of several kinds. `problem` restricts solvers to
        those of one problem.
        """
        for kind in kinds:
            if kind not in KINDS:
                raise UnknownName(f"there is no kind {kind!r}; the kinds are {', '.join(KINDS)}")
        if not isinstance(name, str):
            what = next(iter(kinds)).replace("-", " ")
            raise UnknownName(f"the name of a {what} must be a string; got {name!r}")
        scope = None if problem is None else problem_name(problem)
        found = self.index().meant(name, kinds, scope)
        if not found:
            raise UnknownName(self._not_found(name, kinds, scope))
        return found

    def implementation(self, entry: Entry) -> type[Any]:
        """Import and check the class of a record; if there is a fault, record it and raise `BrokenPlugin`."""
        spec, kind = entry.spec, KINDS[entry.spec.kind]
        target = cast("str", getattr(spec, "target"))  # noqa: B009  # adapters have none, and no implementation
        if entry.sound is not None and imported(target) is entry.sound:
            return entry.sound
        fault = ""
        with within_limits(spec.qualified):
            base = resolve(kind.base)
            with Contained(exits=True) as containment:
                cls = resolve(target)
                fault = _fault(cls, base, has_options=bool(kind.method))
        cause = containment.error
        if cause is not None:
            fault = f"it cannot be imported ({one_line(cause)})"
        self._record(entry, "target", fault and f"{target}: {fault}")  # a notebook may have corrected it
        if fault:
            entry.sound = None
            provider = entry.plugin.distribution
            remedy = "Correct it" if provider == LOCAL else f"Update {provider}, or tell its authors"
            raise BrokenPlugin(
                f"{spec.qualified}, registered by {entry.plugin.identity}, cannot be used. "
                f"Its target is {target!r} and {fault}. {remedy}."
            ) from cause
        entry.sound = cls
        return cast("type[Any]", cls)

    def no_such_problem(self, problem: str) -> str:
        """Return the message for a problem without solvers, which lists the problems that have solvers."""
        known = sorted({name.partition("/")[0] for name in self.index().solvers})
        parts = [f"no solver of a problem named {problem!r} is registered.{suggestion(problem, known)}"]
        parts += self._missing()
        if known:
            parts.append(f"Problems with solvers: {', '.join(known)}.")
        return " ".join(parts)

    def _record(self, entry: Entry, what: str, fault: str) -> None:
        """Record the fault of an entry under the key `what`, such as "target"; an empty text removes the fault."""
        key = (entry.spec.qualified, what)
        with self.lock:
            entry.plugin.faults.pop(key, None)
            if fault:
                entry.plugin.faults[key] = fault

    def _not_found(self, name: str, kinds: Collection[str], scope: str | None) -> str:
        """Return the message for a name that is not registered, with suggestions."""
        if scope and list(kinds) == ["solver"] and not self.names("solver", scope):
            return self.no_such_problem(scope)
        bare = split(name)[2]
        listed = [known for kind in kinds for known in self.names(kind, scope)]
        elsewhere = [entry.full for entry in self.index().named.get(bare, ()) if entry.full not in listed]
        what = " or ".join(kind.replace("-", " ") for kind in kinds)
        close = get_close_matches(bare.lower().replace("_", "-"), [split(known)[2] for known in listed], 3)
        near = [known for known in listed if split(known)[2] in close]
        parts = [f"no {scope} {what} is named {name!r}." if scope else f"no {what} is named {name!r}."]
        if near:
            parts.append(f"Did you mean {' or '.join(map(repr, near))}?")
        if elsewhere:
            parts.append(f"There is {', '.join(elsewhere)}.")
        parts += (
            self._missing()
        )  # before the long list: the name may belong to a plugin that could not be loaded
        parts.append(f"Available: {', '.join(listed)}." if listed else f"No {what} is registered.")
        return " ".join(parts)

    def _missing(self) -> Iterator[str]:
        """Yield sentences about plugins that could not be loaded and might have the missing name."""
        for info in self.plugins():
            if info.status == "broken":
                yield f"Plugin {info.identity} is broken ({info.error})."
            elif info.status == "disabled":
                yield f"Plugin {info.identity} is disabled."
        if not any(map(is_built_in, self._plugins)):
            yield "linspec's own methods are not registered: install it (in its source: pip install -e .)."


def imported(target: str) -> Any:
    """Return the object that a target names, if the module is already imported; else None."""
    module, _, path = target.partition(":")
    found: Any = sys.modules.get(module)
    with Contained():
        for attribute in path.split("."):
            found = getattr(found, attribute, None)
        return found
    return None


def _fault(cls: Any, base: type, *, has_options: bool) -> str:
    """Return the reason why a class is not a valid solver (normalizer, test matrix), or "" if it is valid."""
    if not (isinstance(cls, type) and issubclass(cls, base)):
        return f"it is not a class derived from linspec.{base.__name__}"
    if inspect.isabstract(cls):
        return f"it lacks the method {', '.join(sorted(getattr(cls, '__abstractmethods__', ())))}"
    if not has_options:
        return ""
    # An undecorated subclass inherits the parent's fields and silently drops its own.
    if "__dataclass_fields__" not in vars(cls) or not _is_frozen_and_keyword_only(cls):
        return "it is not decorated with @dataclass(frozen=True, kw_only=True)"
    try:
        names = [option.name for option in options_of(cls)]
    except InvalidDeclaration as error:
        return str(error)
    clash = sorted(RUN_ARGUMENTS.intersection(names))
    if clash:
        return f"its option {', '.join(clash)} has the name of an argument of linspec.solve; rename it"
    return ""


def _is_frozen_and_keyword_only(cls: Any) -> bool:
    return bool(cls.__dataclass_params__.frozen) and all(field.kw_only for field in dataclasses.fields(cls))


def _warn_of_clashes(entries: Iterable[Entry]) -> None:
    """Warn of records whose bare name belongs to a record of linspec; the warning states the name to use instead."""
    for entry in entries:
        if entry.hidden:
            warn(
                f"{entry.spec.qualified} is also registered by {entry.plugin.identity}: {entry.spec.name!r} "
                f"stays the one of {BUILT_IN}, the other is {entry.listed!r}.",
                PluginWarning,
            )
