"""The reader of the tables of plugins: it contains their exceptions, and accepts a table completely or not at all.

Source: pluggy for the hooks; conda's loader for the containment of exceptions.
Where we differ: ``pluggy.load_setuptools_entrypoints`` silently drops the second of two entry points of the same
name, and one ImportError stops it. So this module loops over ``importlib.metadata``, and identifies a plugin by
``distribution:entry``. If half a table were accepted, a mistake would look like a missing feature.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from typing import Literal

import pluggy

from linspec.errors import InvalidDeclaration, LinspecError, OutOfMemory
from linspec.process.faults import Contained, is_at_limit, is_out_of_memory, one_line
from linspec.registry import hookspecs
from linspec.registry.kinds import KINDS
from linspec.registry.spec import Spec

#: The distribution that keeps its bare names.
BUILT_IN = "linspec"

#: The distribution of records that were passed to :func:`register`.
LOCAL = "local"

#: Environment variable: the plugins not to load, ``dist[:entry],...``, or ``*`` for all except linspec's own.
DISABLE = "LINSPEC_DISABLE_PLUGINS"

HOOKS = {kind.hook: kind.record for kind in KINDS.values()}

RECORDS = tuple(HOOKS.values())


@dataclass(frozen=True, kw_only=True)
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
        "broken" also if the table was read, but one of the methods in it has failed or cannot be used. The other
        methods can be used.
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


@dataclass(eq=False)
class Plugin:
    """One entry point in the registry, with its records and its faults."""

    name: str
    distribution: str
    version: str = ""
    disabled: bool = False
    error: str | None = None
    specs: dict[str, Spec] = field(default_factory=dict)  # by qualified name
    faults: dict[tuple[str, str], str] = field(default_factory=dict)  # by qualified name and what failed

    @property
    def identity(self) -> str:
        return f"{self.distribution}:{self.name}"

    def info(self) -> PluginInfo:
        errors = (
            [self.error] if self.error else [f"{name}: {text}" for (name, _), text in self.faults.items()]
        )
        return PluginInfo(
            name=self.name,
            distribution=self.distribution,
            version=self.version,
            status="disabled" if self.disabled else "broken" if errors else "loaded",
            error="; ".join(errors) or None,
            provides=tuple(sorted(self.specs)),
        )


def read_all(entry_points: Iterable[metadata.EntryPoint] | None, disabled: str | None) -> list[Plugin]:
    """Read the table of every plugin, in order of identity; record a fault on the plugin that has it."""
    found = _installed() if entry_points is None else entry_points
    stated = os.environ.get(DISABLE, "") if disabled is None else disabled
    unwanted = {normalized(text) for text in stated.split(",")}
    plugins: list[Plugin] = []
    taken: dict[tuple[str, str], str] = {}
    pairs = [(_described(entry), entry) for entry in found]
    for plugin, entry in sorted(pairs, key=lambda pair: (normalized(pair[0].distribution), pair[0].name)):
        plugins.append(plugin)
        distribution = normalized(plugin.distribution)
        everyones = {"*"} if distribution != BUILT_IN else set()
        if not unwanted.isdisjoint({distribution, normalized(plugin.identity), *everyones}):
            plugin.disabled = True
            continue
        with within_limits(f"the table of {plugin.identity}"), Contained(exits=True) as containment:
            plugin.specs = _read_table(entry.load(), plugin, taken)
        if containment.error is not None:
            plugin.error = one_line(containment.error)
    return plugins


@contextmanager
def within_limits(what: str) -> Iterator[None]:
    """Raise a clear error if the process reaches a limit during an import; the plugin is not recorded as broken.

    Parameters
    ----------
    what : str
        What is imported, as a phrase for the message.

    Raises
    ------
    OutOfMemory
        The memory ran out.
    LinspecError
        The limit of open files, threads or disk space was reached.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, LinspecError) or not is_at_limit(error):
            raise
        if is_out_of_memory(error):
            raise OutOfMemory(
                f"{what} cannot be imported, because the memory ran out ({one_line(error)}). Give the process more "
                "memory, or hold less, and call again."
            ) from error
        raise LinspecError(
            f"{what} cannot be imported, because the system is at a limit ({one_line(error)}). Raise the limit, or use "
            "less of it, and call again."
        ) from error


def _installed() -> list[metadata.EntryPoint]:
    """Return the entry points of every distribution whose metadata can be read."""
    with Contained():
        return list(metadata.entry_points(group=hookspecs.PROJECT))
    # A partly removed package would spoil a common query, so query each distribution, in the order of the path.
    found: dict[str, list[metadata.EntryPoint]] = {}
    for dist in metadata.distributions():
        with Contained():
            found.setdefault(normalized(dist.name), list(dist.entry_points.select(group=hookspecs.PROJECT)))
    return [entry for entries in found.values() for entry in entries]


def _described(entry: metadata.EntryPoint) -> Plugin:
    """Return a `Plugin` without records for an entry point; without metadata its distribution is "unknown"."""
    with Contained():
        dist = entry.dist
        return Plugin(entry.name, (dist and dist.name) or "unknown", (dist and dist.version) or "")
    return Plugin(entry.name, "unknown")


def _read_table(table: object, plugin: Plugin, taken: dict[tuple[str, str], str]) -> dict[str, Spec]:
    """Call the hooks of one plugin and check every record they return."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(table, name=plugin.identity)
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise InvalidDeclaration(f"{error}; the hooks are {', '.join(HOOKS)}") from None
    if not manager.get_hookcallers(table):
        raise InvalidDeclaration(
            f"it implements no hook; mark one of {', '.join(HOOKS)} with @linspec.hookimpl"
        )
    specs: list[Spec] = []
    for hook, expected in HOOKS.items():
        caller = getattr(manager.hook, hook)
        answers = caller()
        # pluggy drops the answer None, so a function without a return statement would silently provide
        # nothing.
        if len(answers) < len(
            [one for one in caller.get_hookimpls() if not (one.wrapper or one.hookwrapper)]
        ):
            raise InvalidDeclaration(f"{hook} must return a list of {expected.__name__}; got None")
        for returned in answers:
            specs += _checked(hook, expected, returned)
    return _take_names(specs, plugin, taken)


def _checked(hook: str, expected: type, returned: object) -> list[Spec]:
    if not isinstance(returned, Iterable):
        raise InvalidDeclaration(f"{hook} must return a list of {expected.__name__}; got {returned!r}")
    specs = list(returned)
    for spec in specs:
        if type(spec) is not expected:  # what a derived class computes might fail later
            raise InvalidDeclaration(f"{hook} must return records of type {expected.__name__}; got {spec!r}")
    return specs


def _take_names(specs: list[Spec], plugin: Plugin, taken: dict[tuple[str, str], str]) -> dict[str, Spec]:
    """Return the records by qualified name; raise if the same distribution has used such a name already."""
    distribution = normalized(plugin.distribution)
    named: dict[str, Spec] = {}
    for spec in specs:
        name = spec.qualified
        owner = plugin.identity if name in named else taken.get((distribution, name))
        if owner:
            raise InvalidDeclaration(f"{name} is registered already by {owner}")
        named[name] = spec
    taken.update({(distribution, name): plugin.identity for name in named})
    return named


def normalized(distribution: str) -> str:
    """Return a distribution's name as packaging tools compare names: ``acme-solvers`` for ``Acme_Solvers``."""
    return re.sub(r"[-_.]+", "-", distribution.strip()).lower()
