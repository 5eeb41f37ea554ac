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
from importlib import import_module, metadata
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
    "provider_of",
    "register",
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

_HOOKS: dict[str, type] = {
    "linspec_solvers": SolverSpec,
    "linspec_normalizers": NormalizerSpec,
    "linspec_test_matrices": TestMatrixSpec,
    "linspec_operators": OperatorSpec,
}
_SPEC_TYPES = tuple(_HOOKS.values())
_KINDS = [spec.kind for spec in (SolverSpec, NormalizerSpec, TestMatrixSpec, OperatorSpec)]
# The kinds that have a class behind their record, and what it must derive from: imported with it, not before.
_BASES = {
    "solver": "linspec.solver:Solver",
    "normalizer": "linspec.normalizer:Normalizer",
    "test-matrix": "linspec.test_matrix:TestMatrix",
}
# A plugin that calls sys.exit on import is as broken as one that raises; an interrupt is the user's.
_FAULTS = (Exception, SystemExit)


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
        "broken" also when the table was read but a class it names cannot be used; the others can.
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
    """All that is declared of a solver, normalizer, test matrix or adapter; ``str()`` gives the help text.

    Parameters
    ----------
    kind : {"solver", "normalizer", "test-matrix", "operator"}
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
    specs: list[Spec] = field(default_factory=list)
    unusable: dict[str, str] = field(default_factory=dict)  # qualified name -> what is wrong with its class

    @property
    def identity(self) -> str:
        return f"{self.distribution}:{self.name}"

    def info(self) -> PluginInfo:
        errors = [self.error] if self.error else [f"{name}: {error}" for name, error in self.unusable.items()]
        return PluginInfo(
            name=self.name,
            distribution=self.distribution,
            version=self.version,
            status="disabled" if self.disabled else "broken" if errors else "loaded",
            error="; ".join(errors) or None,
            provides=tuple(sorted(spec.qualified for spec in self.specs)),
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
        self._found: dict[tuple[str, tuple[str, ...], str | None], _Claim] = {}

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
        specs = [claim.spec for claims in self._claims().values() for claim in claims]
        return tuple(spec for spec in specs if isinstance(spec, OperatorSpec))

    def get_solver(self, name: str, problem: Any = None) -> type[Solver]:
        """Import a solver; see :func:`linspec.get_solver`."""
        return self.get_part("solver", name, problem)

    def get_part(self, kind: str, name: str, problem: Any = None) -> type[Any]:
        """Import a solver, normalizer or test matrix; see :func:`get_part`."""
        if kind not in _BASES:
            raise UnknownName(f"there is no kind {kind!r} of parts; the kinds are {', '.join(_BASES)}")
        return self._implementation(self._find(name, [kind], problem))

    def get_spec(self, kind: str | None, name: str, problem: Any = None) -> Any:
        """Look up a record without importing its class; see :func:`get_spec`."""
        return self._find(name, _KINDS if kind is None else [kind], problem).spec

    def provider_of(self, spec: Spec) -> str:
        """Tell who registers a record; see :func:`provider_of`."""
        plugins = (plugin for plugin in self._loaded() if any(own is spec for own in plugin.specs))
        return next((plugin.identity for plugin in plugins), "")

    def spec_of(self, cls: type, problem: Any = None) -> Spec | None:
        """Find the record of a class; see :func:`spec_of`."""
        scope = None if problem is None else _problem_name(problem)
        for claims in self._claims().values():
            for claim in claims:
                target, of = getattr(claim.spec, "target", ""), getattr(claim.spec, "problem", scope)
                if scope in (None, of) and _imported(target) is cls:
                    return claim.spec
        return None

    def describe(self, name: str) -> Description:
        """Describe a solver, normalizer, test matrix or adapter; see :func:`linspec.describe`."""
        claim = self._find(name, _KINDS)
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
            options=options_of(self._implementation(claim)) if spec.kind in _BASES else (),
        )

    def register(self, spec: Spec) -> None:
        """Add one record; see :func:`linspec.register`."""
        if not isinstance(spec, _SPEC_TYPES):
            raise InvalidDeclaration(
                f"register takes a SolverSpec, NormalizerSpec, TestMatrixSpec or OperatorSpec; got {spec!r}"
            )
        with self._lock:
            kept = [other for other in self._local.specs if other.qualified != spec.qualified]
            self._local.specs = [*kept, spec]
            self._found.clear()
            self._local.unusable.pop(spec.qualified, None)
            # Before the first listing there is nothing to compare with; the listing will warn.
            clashes = [] if self._plugins is None else self._new_clashes()
        _warn(clashes)

    def plugins(self) -> list[PluginInfo]:
        """Report every plugin; see :func:`linspec.plugins`."""
        found = self._loaded()
        with self._lock:
            return [plugin.info() for plugin in found]

    def _loaded(self) -> list[_Plugin]:
        """All plugins, with what was registered by hand last; reads the tables the first time."""
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
                    self._plugins = _read_all(self._entry_points, self._disabled)
                finally:
                    self._loading = False
                clashes = self._new_clashes()
            plugins = [*self._plugins, self._local] if self._local.specs else list(self._plugins)
        _warn(clashes)  # last: under "warnings are errors" the tables are then read all the same
        return plugins

    def _claims(self) -> dict[str, list[_Claim]]:
        """Records by qualified name, in order of their plugins."""
        claims: dict[str, list[_Claim]] = {}
        for plugin in self._loaded():
            for spec in plugin.specs:
                claims.setdefault(spec.qualified, []).append(_Claim(spec, plugin))
        return claims

    def _new_clashes(self) -> list[str]:
        """One sentence for each record that linspec keeps from its bare name and that was not told before."""
        sentences = []
        for qualified, claims in self._claims().items():
            if not any(_is_built_in(claim) for claim in claims):
                continue
            for claim in claims:
                if not _is_built_in(claim) and (qualified, claim.plugin.identity) not in self._warned:
                    self._warned.add((qualified, claim.plugin.identity))
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
            if claims[0].spec.kind == kind and prefix in (None, scope):
                front = f"{scope}/" if prefix is None else ""
                names += [front + name for name in _shown(claims)]
        return tuple(sorted(names))

    def _find(self, name: str, kinds: list[str], problem: Any = None) -> _Claim:
        """Resolve a name of any form among some kinds, or say why it cannot be."""
        for kind in kinds:
            if kind not in _KINDS:
                raise UnknownName(f"there is no kind {kind!r}; the kinds are {', '.join(_KINDS)}")
        if not isinstance(name, str):
            raise UnknownName(f"a {_words(kinds[0])} is asked for by its name, a string; got {name!r}")
        scope = None if problem is None else _problem_name(problem)
        key = (name, tuple(kinds), scope)
        if key not in self._found:
            self._found[key] = self._resolved(name, kinds, scope)
        return self._found[key]

    def _resolved(self, name: str, kinds: list[str], scope: str | None) -> _Claim:
        """The one record that a name means; what has been found stays so until something is registered."""
        registered = self._claims()
        matches = {
            qualified: chosen
            for qualified, claims in registered.items()
            if claims[0].spec.kind in kinds and (chosen := _matching(name, claims, scope))
        }
        if not matches:
            raise UnknownName(self._not_found(name, kinds, scope))
        if len(matches) > 1:
            full = [
                _full(claim, registered[qualified]) for qualified in matches for claim in matches[qualified]
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
        base = _resolve(_BASES[spec.kind])
        cause: BaseException | None = None
        try:
            cls = _resolve(spec.target)
            fault = _fault(cls, base)
        except _FAULTS as error:
            cause, fault = error, f"it cannot be imported ({_one_line(error)})"
        with self._lock:
            claim.plugin.unusable.pop(spec.qualified, None)  # a notebook may have mended it
            if fault:
                claim.plugin.unusable[spec.qualified] = f"{spec.target}: {fault}"
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
        elsewhere = [known for known in self._claims() if _bare(known) == bare and known not in listed]
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
        try:
            plugin.specs = _read_table(entry.load(), plugin, taken)
        except _FAULTS as error:
            plugin.error = _one_line(error)
    return plugins


def _installed() -> list[metadata.EntryPoint]:
    """The entry points of every distribution whose metadata can be read."""
    try:
        return list(metadata.entry_points(group=hookspecs.PROJECT))
    except _FAULTS:
        # One half-removed package spoils the whole answer: ask each distribution, first on the path first.
        found: dict[str, list[metadata.EntryPoint]] = {}
        for dist in metadata.distributions():
            with suppress(*_FAULTS):
                found.setdefault(
                    _normalized(dist.name), list(dist.entry_points.select(group=hookspecs.PROJECT))
                )
        return [entry for entries in found.values() for entry in entries]


def _described(entry: metadata.EntryPoint) -> _Plugin:
    """An entry point not read yet; a distribution without readable metadata is "unknown"."""
    try:
        dist = entry.dist
        return _Plugin(entry.name, (dist and dist.name) or "unknown", (dist and dist.version) or "")
    except _FAULTS:
        return _Plugin(entry.name, "unknown")


def _read_table(table: object, plugin: _Plugin, taken: dict[tuple[str, str], str]) -> list[Spec]:
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
        for returned in getattr(manager.hook, hook)():
            specs += _checked(hook, expected, returned)
    _take_names(specs, plugin, taken)
    return specs


def _checked(hook: str, expected: type, returned: object) -> list[Spec]:
    if not isinstance(returned, Iterable):
        raise InvalidDeclaration(f"{hook} must return a list of {expected.__name__}; got {returned!r}")
    specs = list(returned)
    for spec in specs:
        if not isinstance(spec, expected):
            raise InvalidDeclaration(f"{hook} must return records of type {expected.__name__}; got {spec!r}")
    return specs


def _take_names(specs: list[Spec], plugin: _Plugin, taken: dict[tuple[str, str], str]) -> None:
    """Refuse a name that the same distribution has used: qualification could not tell the two apart."""
    distribution = _normalized(plugin.distribution)
    names = [spec.qualified for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise InvalidDeclaration(f"it registers {name} twice")
        if (distribution, name) in taken:
            raise InvalidDeclaration(f"{name} is registered already by {taken[distribution, name]}")
    taken.update({(distribution, name): plugin.identity for name in names})


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


def _is_built_in(claim: _Claim) -> bool:
    return _normalized(claim.plugin.distribution) == BUILT_IN


def _owner(claims: list[_Claim]) -> _Claim | None:
    """Whose the bare name is: linspec's, or the only one's, or nobody's."""
    built_in = [claim for claim in claims if _is_built_in(claim)]
    if built_in:
        return built_in[0]
    return claims[0] if len(claims) == 1 else None


def _shown(claims: list[_Claim]) -> list[str]:
    """The names under which the records of one qualified name can be requested."""
    owner = _owner(claims)
    return [claim.spec.name if claim is owner else claim.short for claim in claims]


def _split(name: str) -> tuple[str, str, str]:
    """Take ``cca/acme:gram`` apart into ("cca", "acme", "gram"); what is not there is ""."""
    prefix, _, rest = name.rpartition("/")
    distribution, _, bare = rest.rpartition(":")
    return prefix, distribution, bare


def _bare(name: str) -> str:
    return _split(name)[2]


def _matching(name: str, claims: list[_Claim], scope: str | None) -> list[_Claim]:
    """Those of the records of one qualified name that `name` may mean."""
    prefix, distribution, bare = _split(name)
    spec = claims[0].spec
    of = spec.qualified.partition("/")[0]
    # A problem restricts solvers only: a normalizer serves them all.
    out_of_scope = scope is not None and spec.kind == "solver" and of != scope
    if bare != spec.name or prefix not in ("", of) or out_of_scope:
        return []
    if distribution:
        wanted = _normalized(distribution)
        return [claim for claim in claims if _normalized(claim.plugin.distribution) == wanted]
    owner = _owner(claims)
    return [owner] if owner else claims


def _full(claim: _Claim, claims: list[_Claim]) -> str:
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


def _resolve(target: str) -> Any:
    module, _, path = target.partition(":")
    found: Any = import_module(module)
    for attribute in path.split("."):
        found = getattr(found, attribute)
    return found


def _imported(target: str) -> Any:
    """What a target names if its module is imported already, or None."""
    module, _, path = target.partition(":")
    found: Any = sys.modules.get(module)
    for attribute in path.split("."):
        found = getattr(found, attribute, None)
    return found


def _fault(cls: Any, base: type) -> str:
    """What keeps a class from being a solver (normalizer, test matrix), or ""."""
    if not (isinstance(cls, type) and issubclass(cls, base)):
        return f"it is not a class derived from linspec.{base.__name__}"
    if inspect.isabstract(cls):
        return f"it lacks the method {', '.join(sorted(getattr(cls, '__abstractmethods__', ())))}"
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


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


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
def get_spec(kind: str | None, name: str, problem: Any = None) -> Any: ...
def get_spec(kind: str | None, name: str, problem: Any = None) -> Any:
    """Look up a record; imports no implementation.

    Parameters
    ----------
    kind : {"solver", "normalizer", "test-matrix", "operator"} or None
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
    """Describe a solver, normalizer, test matrix or adapter.

    Parameters
    ----------
    name : str
        As for :func:`get_solver`, or with the kind in front, ``"normalizer/cholesky-qr"``, ``"operator/dask"``. A
        bare name will do where it means one thing.

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
