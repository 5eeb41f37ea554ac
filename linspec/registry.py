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

Source: pluggy for the hooks; conda's loader for the guard.
Where we differ: ``pluggy.load_setuptools_entrypoints`` silently drops the second of two entry points of one
name and lets one ImportError abort all, hence our own loop over ``importlib.metadata`` with the identity
``distribution:entry``. A plugin is taken whole or not at all: half a table would make a mistake look like a
missing feature.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import pluggy

from linspec import hookspecs
from linspec.errors import (
    AmbiguousName,
    BrokenPlugin,
    InvalidDeclaration,
    InvalidProblem,
    LinspecError,
    PluginWarning,
    UnknownName,
)
from linspec.faults import Contained, one_line
from linspec.kinds import KINDS, resolve
from linspec.options import RUN_ARGUMENTS, Option, options_of
from linspec.spec import Needs, NormalizerSpec, OperatorSpec, SolverSpec, Spec, TestMatrixSpec

if TYPE_CHECKING:
    from linspec.normalizer import Normalizer
    from linspec.solver import Solver
    from linspec.test_matrix import TestMatrix

__all__ = [
    "Description",
    "PluginInfo",
    "Registry",
    "default_registry",
    "describe",
    "get_part",
    "get_solver",
    "get_spec",
    "normalizers",
    "operator_adapters",
    "plugins",
    "register",
    "report",
    "solvers",
    "spec_of",
    "test_matrices",
]

#: The distribution whose bare names stay its own.
BUILT_IN = "linspec"
#: Stands for a distribution where a record was given to :func:`register`.
LOCAL = "local"
#: Environment variable: ``dist[:entry],...`` not to load, or ``*`` for every distribution but linspec.
DISABLE = "LINSPEC_DISABLE_PLUGINS"

_HOOKS = {kind.hook: kind.record for kind in KINDS.values()}
_RECORDS = tuple(_HOOKS.values())
#: The kinds that have a class behind their record.
_IMPLEMENTED = [name for name, kind in KINDS.items() if kind.base]
#: More records than any table has: one that goes on is a generator without an end.
MOST_RECORDS = 2**15
#: So like the name of a problem that it is a slip of the pen, as difflib measures it.
MISSPELT = 0.8


@dataclass(frozen=True, kw_only=True)
class PluginInfo:
    """What became of one entry point.

    Parameters
    ----------
    name : str
        Name of the entry point.
    distribution : str
        Distribution that has it; ``"local"`` for records given to ``linspec.register``.
    version : str
        Version of the distribution, or "" where there is none.
    status : {"loaded", "broken", "disabled"}
        "broken" also when the table was read but something that it provides cannot be used, or has failed; the
        rest can be used.
    error : str or None
        What is wrong, for a broken one.
    provides : tuple of str
        What it registers: ``"cca/gram"``, ``"normalizer/cholesky-qr"``, ``"test-matrix/gaussian"``,
        ``"operator/dask"``.
    """

    name: str
    distribution: str
    version: str
    status: Literal["loaded", "broken", "disabled"]
    error: str | None
    provides: tuple[str, ...]

    @property
    def identity(self) -> str:
        """``distribution:name``, which is unique and is what LINSPEC_DISABLE_PLUGINS takes."""
        return f"{self.distribution}:{self.name}"


@dataclass(frozen=True, kw_only=True)
class Description:
    """All that is declared of a solver, normalizer or test matrix; ``str()`` gives the help text.

    Parameters
    ----------
    kind : {"solver", "normalizer", "test-matrix"}
        What it is.
    name, summary, reference, traits
        As in its record.
    problem : str or None
        For a solver: the problem it solves.
    needs : Needs or None
        For a solver: what it asks of the data.
    provider : str
        ``distribution:entry`` of the plugin that registers it.
    version : str
        Version of the provider, or "".
    options : tuple of Option
        In order of declaration.
    """

    kind: str
    name: str
    problem: str | None
    summary: str
    reference: str
    needs: Needs | None
    traits: tuple[str, ...]
    provider: str
    version: str
    options: tuple[Option, ...]

    def __str__(self) -> str:
        facts = {
            "problem": self.problem,
            "reference": self.reference,
            "needs": self.needs,
            "traits": ", ".join(self.traits),
            "provider": f"{self.provider} {self.version}".strip(),
        }
        lines = [f"{self.name} ({_words(self.kind)})", "", self.summary, ""]
        lines += [f"{label:<11}{fact}" for label, fact in facts.items() if fact]
        lines += ["", "options" if self.options else "no options"]
        for option in self.options:
            lines += [f"  {option.name} = {option.default!r}", f"      {option.help} [{option.expects}]"]
        return "\n".join(lines)


@dataclass
class _Plugin:
    """One entry point while the registry holds it."""

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


@dataclass(frozen=True)
class _Claim:
    """A record and the plugin that stands behind it."""

    spec: Spec
    plugin: _Plugin

    @property
    def short(self) -> str:
        """Name with the provider: ``acme:gram``."""
        return f"{self.plugin.distribution}:{self.spec.name}"


#: The records of one qualified name by distribution, written as packaging tools compare it.
_Claims = dict[str, _Claim]


class _Index:
    """Records by every form of their names, so that no look-up goes through all of them.

    What the tables hold is replaced, never changed: who reads them in one thread while another thread registers
    a record sees the one state or the other.
    """

    def __init__(self) -> None:
        self.claims: dict[str, _Claims] = {}  # by qualified name, in order of their plugins
        self.qualified: dict[str, tuple[str, ...]] = {}  # by bare name
        self.problems: set[str] = set()  # those that are known

    def add(self, qualified: str, claim: _Claim) -> None:
        """Enter a record; it replaces one of the same name and distribution."""
        if qualified not in self.claims:
            self.qualified[claim.spec.name] = (*self.qualified.get(claim.spec.name, ()), qualified)
        self.claims[qualified] = {
            **self.claims.get(qualified, {}),
            _normalized(claim.plugin.distribution): claim,
        }

    def named(self, name: str, kinds: list[str], scope: str | None) -> Iterator[str]:
        """Qualified names that a name of any form may mean: one where the problem is stated."""
        prefix, _, bare = _split(name)
        stated = prefix or (scope if kinds == ["solver"] else None)
        if stated is None:
            yield from self.qualified.get(bare, ())
        elif f"{stated}/{bare}" in self.claims:
            yield f"{stated}/{bare}"


class Registry:
    """All that is registered, read from entry points at the first question.

    Parameters
    ----------
    entry_points : iterable of importlib.metadata.EntryPoint, optional
        By default the group ``linspec`` of every installed distribution.
    disabled : str, optional
        As the environment variable LINSPEC_DISABLE_PLUGINS, which is the default.

    Notes
    -----
    Registries share nothing, so a test can have its own. Tables are read once, under a lock; classes are
    imported outside it, so a slow import in one thread stops no other.
    """

    def __init__(
        self, entry_points: Iterable[metadata.EntryPoint] | None = None, disabled: str | None = None
    ) -> None:
        self._entry_points = entry_points
        self._disabled = disabled
        self._lock = threading.RLock()
        self._plugins: list[_Plugin] | None = None
        self._loading = False
        self._local = _Plugin("register", LOCAL)
        self._warned: set[tuple[str, str]] = set()
        self._index = _Index()

    def solvers(self, problem: Any = None) -> tuple[str, ...]:
        """List the solvers of a problem, or all; see :func:`linspec.solvers`."""
        if problem is None:
            return self._listed("solver")
        wanted = _problem_name(problem)
        names = self._listed("solver", wanted)
        # A class or an instance is a problem even when nobody solves it; a text may be a slip of the pen.
        if not names and isinstance(problem, str):
            raise UnknownName(self._no_such_problem(wanted))
        return names

    def normalizers(self) -> tuple[str, ...]:
        """List the normalizers; see :func:`linspec.normalizers`."""
        return self._listed("normalizer", "normalizer")

    def test_matrices(self) -> tuple[str, ...]:
        """List the test matrices; see :func:`linspec.test_matrices`."""
        return self._listed("test-matrix", "test-matrix")

    def operator_adapters(self) -> tuple[OperatorSpec, ...]:
        """List the adapters for foreign data; see :func:`operator_adapters`."""
        # All of them: nobody asks for an adapter by name, so a name that two use harms neither.
        specs = [claim.spec for claims in self._claims().values() for claim in claims.values()]
        return tuple(spec for spec in specs if isinstance(spec, OperatorSpec))

    def get_solver(self, name: str, problem: Any = None) -> type[Solver]:
        """Import a solver; see :func:`linspec.get_solver`."""
        return self.get_part("solver", name, problem)

    def get_part(self, kind: str, name: str, problem: Any = None) -> type[Any]:
        """Import a solver, normalizer or test matrix; see :func:`get_part`."""
        return self._implementation(self._find(name, [kind], problem))

    def get_spec(self, kind: str, name: str, problem: Any = None) -> Any:
        """Look up a record without importing its class; see :func:`get_spec`."""
        return self._find(name, [kind], problem).spec

    def spec_of(self, cls: type, problem: Any = None) -> Spec | None:
        """Find the record of a class; see :func:`spec_of`."""
        scope = None if problem is None else _problem_name(problem)
        for claims in self._claims().values():
            for claim in claims.values():
                target, of = getattr(claim.spec, "target", ""), getattr(claim.spec, "problem", scope)
                if scope in (None, of) and _imported(target) is cls:
                    return claim.spec
        return None

    def report(self, spec: Spec, what: str, fault: str) -> None:
        """Write down what a plugin has done wrong; see :func:`report`."""
        self._load()
        with self._lock:
            for claim in self._index.claims.get(spec.qualified, {}).values():
                if claim.spec is spec:
                    claim.plugin.faults[spec.qualified, what] = f"{what} {fault}"

    def describe(self, name: str) -> Description:
        """Describe a solver, normalizer or test matrix; see :func:`linspec.describe`."""
        claim = self._find(name, _IMPLEMENTED)
        spec = claim.spec
        return Description(
            kind=spec.kind,
            name=spec.name,
            problem=getattr(spec, "problem", None),
            summary=spec.summary,
            reference=getattr(spec, "reference", ""),
            needs=getattr(spec, "needs", None),
            traits=getattr(spec, "traits", ()),
            provider=claim.plugin.identity,
            version=claim.plugin.version,
            options=options_of(self._implementation(claim)) if KINDS[spec.kind].method else (),
        )

    def register(self, spec: Spec) -> None:
        """Add one record; see :func:`linspec.register`."""
        if not isinstance(spec, _RECORDS):
            names = " or ".join(record.__name__ for record in _RECORDS)
            raise InvalidDeclaration(f"register takes a {names}; got {spec!r}")
        spec = _plain(spec)
        with self._lock:
            if self._plugins is not None and (fault := _misspelt(spec, self._index.problems)):
                raise InvalidDeclaration(fault)
            self._local.specs[spec.qualified] = spec
            for key in [key for key in self._local.faults if key[0] == spec.qualified]:
                del self._local.faults[key]
            clashes = []
            if self._plugins is not None:  # otherwise the first listing enters it, and warns
                self._index.add(spec.qualified, _Claim(spec, self._local))
                clashes = self._new_clashes([spec.qualified])
        _warn(clashes)

    def plugins(self) -> list[PluginInfo]:
        """Report every plugin; see :func:`linspec.plugins`."""
        self._load()
        with self._lock:
            found = [*(self._plugins or ()), *([self._local] if self._local.specs else [])]
            return [plugin.info() for plugin in found]

    def _load(self) -> None:
        """Read the tables, the first time."""
        if self._plugins is not None:
            return
        clashes: list[str] = []
        with self._lock:
            if self._plugins is None:
                if self._loading:
                    raise LinspecError(
                        "a plugin's table asked for names while the tables were being read; "
                        "a table must only return records"
                    )
                self._loading = True
                try:
                    found = _read_all(self._entry_points, self._disabled)
                finally:
                    self._loading = False
                self._index, self._plugins = _indexed([*found, self._local]), found
                clashes = self._new_clashes(self._index.claims)
        _warn(clashes)  # last: under "warnings are errors" the tables are then read all the same

    def _claims(self) -> dict[str, _Claims]:
        """Records by qualified name and distribution, in order of their plugins: a copy to go through."""
        self._load()
        with self._lock:
            return dict(self._index.claims)

    def _new_clashes(self, names: Iterable[str]) -> list[str]:
        """One sentence for each record that linspec keeps from its bare name and that was not told before."""
        sentences = []
        for qualified in names:
            claims = self._index.claims[qualified]
            for distribution, claim in claims.items():
                told = (qualified, claim.plugin.identity)
                if BUILT_IN in claims and distribution != BUILT_IN and told not in self._warned:
                    self._warned.add(told)
                    sentences.append(
                        f"{qualified} is also registered by {claim.plugin.identity}: {claim.spec.name!r} "
                        f"stays the one of {BUILT_IN}, the other is {claim.short!r}."
                    )
        return sentences

    def _listed(self, kind: str, prefix: str | None = None) -> tuple[str, ...]:
        """Names to ask for, those of one problem (or kind), or all with their problem in front."""
        names = []
        for qualified, claims in self._claims().items():
            scope = qualified.partition("/")[0]
            if prefix in (None, scope) and _kind(claims) == kind:
                front = f"{scope}/" if prefix is None else ""
                names += [front + name for name in _shown(claims)]
        return tuple(sorted(names))

    def _find(self, name: str, kinds: list[str], problem: Any = None) -> _Claim:
        """Resolve a name of any form among some kinds, or say why it cannot be."""
        for kind in kinds:
            if kind not in _IMPLEMENTED:
                raise UnknownName(f"there is no kind {kind!r}; the kinds are {', '.join(_IMPLEMENTED)}")
        if not isinstance(name, str):
            raise UnknownName(f"a {_words(kinds[0])} is asked for by its name, a string; got {name!r}")
        scope = None if problem is None else _problem_name(problem)
        self._load()
        matches = {
            qualified: chosen
            for qualified in self._index.named(name, kinds, scope)
            if (chosen := _matching(name, self._index.claims[qualified], kinds, scope))
        }
        if not matches:
            raise UnknownName(self._not_found(name, kinds, scope))
        if len(matches) > 1:
            full = [
                _full(claim, self._index.claims[qualified])
                for qualified, chosen in matches.items()
                for claim in chosen
            ]
            raise AmbiguousName(f"{name!r} may be {_either(full)}; ask for one of these")
        (claims,) = matches.values()
        if len(claims) > 1:
            names = _either(claim.short for claim in claims)
            raise AmbiguousName(f"{name!r} is registered by several plugins; ask for {names}")
        return claims[0]

    def _implementation(self, claim: _Claim) -> type[Any]:
        """Import the class of a record and hold it to the contract; remember what is wrong with it."""
        spec = cast("SolverSpec | NormalizerSpec | TestMatrixSpec", claim.spec)
        kind = KINDS[spec.kind]
        base = resolve(kind.base)
        fault = ""
        with Contained(exits=True) as containment:
            cls = resolve(spec.target)
            fault = _fault(cls, base, has_options=bool(kind.method))
        cause = containment.error
        if cause is not None:
            fault = f"it cannot be imported ({one_line(cause)})"
        with self._lock:
            claim.plugin.faults.pop((spec.qualified, "target"), None)  # a notebook may have mended it
            if fault:
                claim.plugin.faults[spec.qualified, "target"] = f"{spec.target}: {fault}"
        if fault:
            provider = claim.plugin.distribution
            remedy = "Mend it" if provider == LOCAL else f"Update {provider}, or tell its authors"
            raise BrokenPlugin(
                f"{spec.qualified}, registered by {claim.plugin.identity}, cannot be used. "
                f"Its target is {spec.target!r} and {fault}. {remedy}."
            ) from cause
        return cast("type[Any]", cls)

    def _not_found(self, name: str, kinds: list[str], scope: str | None) -> str:
        """Say that nobody registers a name, and what might have been meant."""
        if scope and kinds == ["solver"] and not self._listed("solver", scope):
            return self._no_such_problem(scope)
        bare = _bare(name)
        listed = [
            known for kind in kinds for known in self._listed(kind, scope if kind == "solver" else kind)
        ]
        close = get_close_matches(bare.lower().replace("_", "-"), map(_bare, listed), 3)
        near = [known for known in listed if _bare(known) in close]
        elsewhere = [known for known in self._index.qualified.get(bare, ()) if known not in listed]
        what = " or ".join(_words(kind) for kind in kinds)
        parts = [f"no {scope} {what} is named {name!r}." if scope else f"no {what} is named {name!r}."]
        if near:
            parts.append(f"Did you mean {_either(near)}?")
        if elsewhere:
            parts.append(f"There is {', '.join(elsewhere)}.")
        parts.append(f"Available: {', '.join(listed)}." if listed else f"No {what} is registered.")
        return " ".join([*parts, *self._missing()])

    def _no_such_problem(self, problem: str) -> str:
        """Say that nobody solves a problem, and which there are."""
        known = sorted({name.partition("/")[0] for name in self._listed("solver")})
        near = get_close_matches(problem, known, 1)
        parts = [f"no solver of a problem named {problem!r} is registered."]
        if near:
            parts.append(f"Did you mean {near[0]!r}?")
        if known:
            parts.append(f"Problems with solvers: {', '.join(known)}.")
        return " ".join([*parts, *self._missing()])

    def _missing(self) -> Iterator[str]:
        """Sentences on plugins that are not there and might have had the name."""
        found = self.plugins()
        for info in found:
            if info.status == "broken":
                yield f"Plugin {info.identity} is broken ({info.error})."
            elif info.status == "disabled":
                yield f"Plugin {info.identity} is disabled."
        if not any(_normalized(info.distribution) == BUILT_IN for info in found):
            yield "linspec's own methods are not registered: install it (in its source: pip install -e .)."


def _read_all(entry_points: Iterable[metadata.EntryPoint] | None, disabled: str | None) -> list[_Plugin]:
    """Read every table, in order of identity; what goes wrong with one is written on it."""
    found = _installed() if entry_points is None else entry_points
    stated = os.environ.get(DISABLE, "") if disabled is None else disabled
    unwanted = {_pattern(text) for text in stated.split(",") if text.strip()}
    plugins: list[_Plugin] = []
    taken: dict[tuple[str, str], str] = {}
    pairs = [(_described(entry), entry) for entry in found]
    for plugin, entry in sorted(pairs, key=lambda pair: (_normalized(pair[0].distribution), pair[0].name)):
        plugins.append(plugin)
        if _is_unwanted(plugin, unwanted):
            plugin.disabled = True
            continue
        with Contained(exits=True) as containment:
            plugin.specs = _read_table(entry.load(), plugin, taken)
        if containment.error is not None:
            plugin.error = one_line(containment.error)
    return plugins


def _installed() -> list[metadata.EntryPoint]:
    """The entry points of every distribution whose metadata can be read."""
    with suppress(Exception):
        return list(metadata.entry_points(group=hookspecs.PROJECT))
    # One half-removed package spoils the whole answer: ask each distribution, first on the path first.
    found: dict[str, list[metadata.EntryPoint]] = {}
    for dist in metadata.distributions():
        with suppress(Exception):
            found.setdefault(_normalized(dist.name), list(dist.entry_points.select(group=hookspecs.PROJECT)))
    return [entry for entries in found.values() for entry in entries]


def _described(entry: metadata.EntryPoint) -> _Plugin:
    """An entry point not read yet; a distribution without readable metadata is "unknown"."""
    with suppress(Exception):
        dist = entry.dist
        return _Plugin(entry.name, (dist and dist.name) or "unknown", (dist and dist.version) or "")
    return _Plugin(entry.name, "unknown")


def _read_table(table: object, plugin: _Plugin, taken: dict[tuple[str, str], str]) -> dict[str, Spec]:
    """Call the hooks of one plugin and check every record they return."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(table, name=plugin.identity)
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise InvalidDeclaration(f"{error}; the hooks are {', '.join(_HOOKS)}") from None
    if not manager.get_hookcallers(table):
        raise InvalidDeclaration(
            f"it implements no hook; mark one of {', '.join(_HOOKS)} with @linspec.hookimpl"
        )
    specs: list[Spec] = []
    for hook, expected in _HOOKS.items():
        caller = getattr(manager.hook, hook)
        answers = caller()
        # pluggy drops the answer None: a function that has forgotten its return would provide nothing.
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
    specs: list[Spec] = []
    for spec in returned:
        if not isinstance(spec, expected):
            raise InvalidDeclaration(f"{hook} must return records of type {expected.__name__}; got {spec!r}")
        if len(specs) == MOST_RECORDS:
            raise InvalidDeclaration(f"{hook} returned more than {MOST_RECORDS:,} records; a table must end")
        specs.append(_plain(cast("Spec", spec)))
    return specs


def _plain(spec: Spec) -> Spec:
    """A record of its declared class itself, read once: what a derived class computes may fail any time later."""
    record = next(record for record in _RECORDS if isinstance(spec, record))
    if type(spec) is record:
        return spec
    names = [fact.name for fact in dataclasses.fields(record)]
    read = {}
    for name in ("kind", "qualified", *names):
        with Contained() as containment:
            read[name] = getattr(spec, name)
        if containment.error is not None:
            raise InvalidDeclaration(
                f"{name} of a {type(spec).__name__} cannot be read ({one_line(containment.error)})"
            ) from containment.error
    return record(**{name: read[name] for name in names})


def _indexed(plugins: Iterable[_Plugin]) -> _Index:
    """The records of all plugins; a solver whose problem is misspelt is written down as a fault instead."""
    index = _Index()
    claims = [(name, _Claim(spec, plugin)) for plugin in plugins for name, spec in plugin.specs.items()]
    for _, claim in claims:
        index.problems |= _known_problem(claim)
    for name, claim in claims:
        fault = _misspelt(claim.spec, index.problems)
        if fault:
            claim.plugin.faults[name, "problem"] = fault
        else:
            index.add(name, claim)
    return index


def _known_problem(claim: _Claim) -> set[str]:
    """The problem that a record makes known: every one that linspec itself solves."""
    built_in = _normalized(claim.plugin.distribution) == BUILT_IN
    return {claim.spec.problem} if built_in and isinstance(claim.spec, SolverSpec) else set()


def _misspelt(spec: Spec, problems: set[str]) -> str:
    """What is wrong with the problem of a solver's record, or ""."""
    if not isinstance(spec, SolverSpec) or spec.problem in problems:
        return ""
    near = get_close_matches(spec.problem, sorted(problems), 1, MISSPELT)
    return f"no problem is named {spec.problem!r}. Did you mean {near[0]!r}?" if near else ""


def _take_names(specs: list[Spec], plugin: _Plugin, taken: dict[tuple[str, str], str]) -> dict[str, Spec]:
    """Refuse a name that the same distribution has used: qualification could not tell the two apart."""
    distribution = _normalized(plugin.distribution)
    named: dict[str, Spec] = {}
    for spec in specs:
        name = spec.qualified
        if name in named:
            raise InvalidDeclaration(f"it registers {name} twice")
        if (distribution, name) in taken:
            raise InvalidDeclaration(f"{name} is registered already by {taken[distribution, name]}")
        named[name] = spec
    taken.update({(distribution, name): plugin.identity for name in named})
    return named


def _pattern(text: str) -> tuple[str, str]:
    """One item of LINSPEC_DISABLE_PLUGINS as (distribution, entry point or "")."""
    distribution, _, entry = text.strip().partition(":")
    return _normalized(distribution), entry.strip()


def _is_unwanted(plugin: _Plugin, unwanted: set[tuple[str, str]]) -> bool:
    distribution = _normalized(plugin.distribution)
    if ("*", "") in unwanted and distribution != BUILT_IN:
        return True
    return (distribution, "") in unwanted or (distribution, plugin.name) in unwanted


def _normalized(distribution: str) -> str:
    """A distribution's name as packaging tools compare it: ``Acme_Solvers`` is ``acme-solvers``."""
    return re.sub(r"[-_.]+", "-", distribution.strip()).lower()


def _kind(claims: _Claims) -> str:
    """What the records of one qualified name declare."""
    return next(iter(claims.values())).spec.kind


def _owner(claims: _Claims) -> _Claim | None:
    """Whose the bare name is: linspec's, or the only one's, or nobody's."""
    if len(claims) == 1:
        return next(iter(claims.values()))
    return claims.get(BUILT_IN)


def _shown(claims: _Claims) -> list[str]:
    """The names under which the records of one qualified name can be requested."""
    owner = _owner(claims)
    return [claim.spec.name if claim is owner else claim.short for claim in claims.values()]


def _split(name: str) -> tuple[str, str, str]:
    """Take ``cca/acme:gram`` apart into ("cca", "acme", "gram"); what is not there is ""."""
    prefix, _, rest = name.rpartition("/")
    distribution, _, bare = rest.rpartition(":")
    return prefix, distribution, bare


def _bare(name: str) -> str:
    return _split(name)[2]


def _matching(name: str, claims: _Claims, kinds: list[str], scope: str | None) -> list[_Claim]:
    """Those of the records of one qualified name that `name` may mean."""
    prefix, distribution, _ = _split(name)
    kind, spec = _kind(claims), next(iter(claims.values())).spec
    of = spec.qualified.partition("/")[0]
    # A problem restricts solvers only: a normalizer serves them all.
    out_of_scope = scope is not None and kind == "solver" and of != scope
    if kind not in kinds or prefix not in ("", of) or out_of_scope:
        return []
    if distribution:
        wanted = claims.get(_normalized(distribution))
        return [wanted] if wanted else []
    owner = _owner(claims)
    return [owner] if owner else list(claims.values())


def _full(claim: _Claim, claims: _Claims) -> str:
    """The shortest name that means one record whatever the problem."""
    scope = claim.spec.qualified.partition("/")[0]
    return claim.spec.qualified if claim is _owner(claims) else f"{scope}/{claim.short}"


def _either(names: Iterable[str]) -> str:
    return " or ".join(map(repr, names))


def _problem_name(problem: Any) -> str:
    """The name of a problem given by name, class or instance."""
    name = problem if isinstance(problem, str) else getattr(problem, "name", None)
    if not isinstance(name, str):
        raise InvalidProblem(
            f"a problem is a name such as 'cca', a problem class or an instance of one; got {problem!r}"
        )
    return name


def _imported(target: str) -> Any:
    """What a target names if its module is imported already, or None."""
    module, _, path = target.partition(":")
    found: Any = sys.modules.get(module)
    for attribute in path.split("."):
        with Contained():
            found = getattr(found, attribute, None)
    return found


def _fault(cls: Any, base: type, *, has_options: bool) -> str:
    """What keeps a class from being a solver (normalizer, test matrix), or ""."""
    if not (isinstance(cls, type) and issubclass(cls, base)):
        return f"it is not a class derived from linspec.{base.__name__}"
    if inspect.isabstract(cls):
        return f"it lacks the method {', '.join(sorted(getattr(cls, '__abstractmethods__', ())))}"
    if not has_options:
        return ""
    # An undecorated subclass inherits the parent's fields and drops its own without a word.
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


def _words(kind: str) -> str:
    return kind.replace("-", " ")


def _warn(sentences: list[str]) -> None:
    for sentence in sentences:
        warnings.warn(sentence, PluginWarning, stacklevel=2)


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


def get_solver(name: str, problem: Any = None) -> type[Solver]:
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


@overload
def get_part(kind: Literal["solver"], name: str, problem: Any = None) -> type[Solver]: ...
@overload
def get_part(kind: Literal["normalizer"], name: str, problem: Any = None) -> type[Normalizer]: ...
@overload
def get_part(kind: Literal["test-matrix"], name: str, problem: Any = None) -> type[TestMatrix]: ...
@overload
def get_part(kind: str, name: str, problem: Any = None) -> type[Any]: ...
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
def get_spec(kind: str, name: str, problem: Any = None) -> Any: ...
def get_spec(kind: str, name: str, problem: Any = None) -> Any:
    """Look up a record; imports no implementation.

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
    SolverSpec or NormalizerSpec or TestMatrixSpec

    Raises
    ------
    UnknownName, AmbiguousName
        As for :func:`get_solver`.
    """
    return default_registry().get_spec(kind, name, problem)


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
        name replaces the first. Its provider is ``local``, so a name that linspec has is to be had as
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
