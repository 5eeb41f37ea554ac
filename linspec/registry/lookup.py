"""The registry: it lists, finds and imports parts, and reports plugins."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import metadata
from typing import Any, cast
from weakref import WeakSet

from linspec.errors import (
    AmbiguousName,
    BrokenPlugin,
    InvalidDeclaration,
    LinspecError,
    PluginWarning,
    UnknownName,
    warn,
)
from linspec.faults import Contained, one_line
from linspec.kinds import KINDS, resolve
from linspec.options import RUN_ARGUMENTS, Option, options_of
from linspec.registry.loading import (
    BUILT_IN,
    LOCAL,
    RECORDS,
    Plugin,
    PluginInfo,
    normalized,
    plain,
    read_all,
    within_limits,
)
from linspec.registry.names import (
    Claim,
    Claims,
    Index,
    SolverRecords,
    bare_name,
    either,
    full_name,
    indexed,
    kind_of,
    matching,
    misspelt,
    problem_name,
    shown,
)
from linspec.spec import Needs, NormalizerSpec, OperatorSpec, ProblemSpec, SolverSpec, Spec, TestMatrixSpec

_KINDS = list(KINDS)
#: The kinds that have a class behind their record.
_IMPLEMENTED = [name for name, kind in KINDS.items() if kind.base]


@dataclass(frozen=True, kw_only=True)
class Description:
    """The declaration of a solver, normalizer, test matrix, adapter or problem; ``str()`` is its help text.

    Parameters
    ----------
    kind : {"solver", "normalizer", "test-matrix", "operator", "problem"}
        What it is; "" for namesakes of several kinds.
    name, summary, reference, traits
        As in its record.
    problem : str or None
        For a solver: the problem it solves.
    needs : Needs or None
        For a solver: what it needs of the data.
    provider : str
        ``distribution:entry`` of the plugin that registers it.
    version : str
        Version of the provider, or "".
    options : tuple of Option
        In order of declaration.
    statement : str, default ""
        For a problem: its constructor, ``"SVD(A, k, center=False, left=False)"``.
    solvers : tuple of str, default ()
        For a problem: the names of its solvers.
    namesakes : tuple of (str, str), default ()
        For a name that means several things: the full name and the summary of each. Then `summary` says how many there
        are, and the fields of a single record are empty.
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
    statement: str = ""
    solvers: tuple[str, ...] = ()
    namesakes: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        if self.namesakes:
            width = max(len(name) for name, _ in self.namesakes)
            listed = [f"  {name:<{width}}  {summary}" for name, summary in self.namesakes]
            return "\n".join([self.name, "", self.summary, "", *listed])
        facts = {
            "stated as": self.statement,
            "solvers": ", ".join(self.solvers),
            "problem": self.problem,
            "reference": self.reference,
            "needs": self.needs,
            "traits": ", ".join(self.traits),
            "provider": f"{self.provider} {self.version}".strip(),
        }
        lines = [f"{self.name} ({_words(self.kind)})", "", self.summary, ""]
        lines += [f"{label:<11}{fact}" for label, fact in facts.items() if fact]
        if KINDS[self.kind].method:
            lines += ["", "options" if self.options else "no options"]
        for option in self.options:
            lines += [f"  {option.name} = {option.default!r}", f"      {option.help} [{option.expects}]"]
        return "\n".join(lines)


class Registry:
    """All registered records, which are read from entry points at the first query.

    Parameters
    ----------
    entry_points : iterable of importlib.metadata.EntryPoint, optional
        By default the group ``linspec`` of every installed distribution.
    disabled : str, optional
        In the form of the environment variable LINSPEC_DISABLE_PLUGINS, which is the default.

    Notes
    -----
    Registries share nothing, so a test can have its own. Tables are read once, under a lock. Classes are
    imported outside the lock, so a slow import in one thread does not stop other threads.
    """

    def __init__(
        self, entry_points: Iterable[metadata.EntryPoint] | None = None, disabled: str | None = None
    ) -> None:
        self._entry_points = entry_points
        self._disabled = disabled
        self.lock = threading.RLock()
        self._plugins: list[Plugin] | None = None
        self._loading = False
        self._local = Plugin("register", LOCAL)
        self._warned: set[tuple[str, str]] = set()
        self._index = Index()
        self._sound: defaultdict[str, WeakSet[Any]] = defaultdict(
            WeakSet
        )  # classes that keep the contract, by kind

    def solvers(self, problem: Any = None) -> tuple[str, ...]:
        """List the solvers of a problem, or all; see :func:`linspec.solvers`."""
        if problem is None:
            return self._listed("solver")
        wanted = problem_name(problem)
        names = self._listed("solver", wanted)
        # A class or an instance is a problem even if it has no solver; a text may be misspelt.
        if not names and isinstance(problem, str):
            raise UnknownName(self._no_such_problem(wanted))
        return names

    def records_of_solvers(self, problem: Any) -> SolverRecords:
        """The records of a problem's solvers, sorted by their names; made once until a record is registered."""
        self._load()
        scope, solving = problem_name(problem), self._index.solving
        if scope not in solving:
            specs = {name: self.get_spec("solver", name, scope) for name in self.solvers(problem)}
            solving[scope] = SolverRecords.of(specs)
        return solving[scope]

    def normalizers(self) -> tuple[str, ...]:
        """List the normalizers; see :func:`linspec.normalizers`."""
        return self._listed("normalizer", "normalizer")

    def test_matrices(self) -> tuple[str, ...]:
        """List the test matrices; see :func:`linspec.test_matrices`."""
        return self._listed("test-matrix", "test-matrix")

    def operator_adapters(self) -> tuple[OperatorSpec, ...]:
        """List the adapters for foreign data; see :func:`operator_adapters`."""
        # All adapters: they are not looked up by name, so two of the same name do no harm.
        specs = [claim.spec for claims in self._claims().values() for claim in claims.values()]
        return tuple(spec for spec in specs if isinstance(spec, OperatorSpec))

    def problems(self) -> tuple[str, ...]:
        """List the families of problems; see :func:`linspec.problems`."""
        return self._listed("problem", "problem")

    def get_problem(self, name: str) -> type[Any]:
        """Import the class of a family of problems; see :func:`linspec.get_problem`."""
        return self.get_part("problem", name)

    def get_solver(self, name: str, problem: Any = None) -> type[Any]:
        """Import a solver; see :func:`linspec.get_solver`."""
        return self.get_part("solver", name, problem)

    def get_part(self, kind: str, name: str, problem: Any = None) -> type[Any]:
        """Import a solver, normalizer or test matrix; see :func:`get_part`."""
        if kind not in _IMPLEMENTED:
            raise UnknownName(f"there is no kind {kind!r} of parts; the kinds are {', '.join(_IMPLEMENTED)}")
        return self._implementation(self._find(name, [kind], problem))

    def get_spec(self, kind: str | None, name: str, problem: Any = None) -> Any:
        """Look up a record without importing its class; see :func:`get_spec`."""
        return self._find(name, _KINDS if kind is None else [kind], problem).spec

    def provider_of(self, spec: Spec) -> str:
        """Tell which plugin registers a record; see :func:`provider_of`."""
        claims = self._claims().get(spec.qualified, {}).values()
        return next((claim.plugin.identity for claim in claims if claim.spec is spec), "")

    def spec_of(self, cls: type, problem: Any = None) -> Spec | None:
        """Find the record of a class; see :func:`spec_of`."""
        scope = None if problem is None else problem_name(problem)
        for claims in self._claims().values():
            for claim in claims.values():
                target, of = getattr(claim.spec, "target", ""), getattr(claim.spec, "problem", scope)
                if scope in (None, of) and _imported(target) is cls:
                    return claim.spec
        return None

    def report(self, spec: Spec, what: str, fault: str) -> None:
        """Record a fault of a plugin; see :func:`report`."""
        self._load()
        with self.lock:
            for claim in self._index.claims.get(spec.qualified, {}).values():
                if claim.spec is spec:
                    claim.plugin.faults[spec.qualified, what] = f"{what} {fault}"

    def describe(self, name: str) -> Description:
        """Describe the part with a name; see :func:`linspec.describe`."""
        matches = self._matches(name, _KINDS)
        if len(matches) > 1 or any(len(chosen) > 1 for chosen in matches.values()):
            return self._several(name, matches)
        claim = self._find(name, _KINDS)
        spec = claim.spec
        a_problem = isinstance(spec, ProblemSpec)
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
            statement=_statement(self._implementation(claim)) if a_problem else "",
            solvers=tuple(self.solvers(spec.name)) if a_problem else (),
        )

    def register(self, spec: Spec) -> None:
        """Add one record; see :func:`linspec.register`."""
        if not isinstance(spec, RECORDS):
            names = " or ".join(record.__name__ for record in RECORDS)
            raise InvalidDeclaration(f"register takes a {names}; got {spec!r}")
        spec = plain(spec)
        with self.lock:
            if self._plugins is not None and (fault := misspelt(spec, self._index.problems)):
                raise InvalidDeclaration(fault)
            self._local.specs[spec.qualified] = spec
            for key in [key for key in self._local.faults if key[0] == spec.qualified]:
                del self._local.faults[key]
            clashes = []
            if self._plugins is not None:  # otherwise the first listing enters it, and warns
                self._index.add(spec.qualified, Claim(spec, self._local))
                clashes = self._new_clashes([spec.qualified])
        _warn(clashes)

    def plugins(self) -> list[PluginInfo]:
        """Report every plugin; see :func:`linspec.plugins`."""
        self._load()
        with self.lock:
            found = [*(self._plugins or ()), *([self._local] if self._local.specs else [])]
            return [plugin.info() for plugin in found]

    def _load(self) -> None:
        """Read the tables, in the first call."""
        if self._plugins is not None:
            return
        clashes: list[str] = []
        with self.lock:
            if self._plugins is None:
                if self._loading:
                    raise LinspecError(
                        "a plugin's table asked for names while the tables were being read; "
                        "a table must only return records"
                    )
                self._loading = True
                try:
                    found = read_all(self._entry_points, self._disabled)
                finally:
                    self._loading = False
                self._index, self._plugins = indexed([*found, self._local]), found
                clashes = self._new_clashes(self._index.claims)
        _warn(clashes)  # last, so that the tables are read even if warnings are errors

    def _claims(self) -> dict[str, Claims]:
        """A copy of the records by qualified name and distribution, in order of their plugins."""
        self._load()
        with self.lock:
            return dict(self._index.claims)

    def _new_clashes(self, names: Iterable[str]) -> list[str]:
        """One sentence, only once, for each record whose bare name stays linspec's."""
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
        """The names of one problem or kind, or all names with their problem in front."""
        self._load()
        listed = self._index.listed  # a record that is registered meanwhile starts another table
        if (kind, prefix) in listed:
            return listed[kind, prefix]
        names = []
        for qualified, claims in self._claims().items():
            scope = qualified.partition("/")[0]
            if prefix in (None, scope) and kind_of(claims) == kind:
                front = f"{scope}/" if prefix is None else ""
                names += [front + name for name in shown(claims)]
        if names:  # names of problems that nobody has are not collected
            listed[kind, prefix] = tuple(sorted(names))
        return tuple(sorted(names))

    def _find(self, name: str, kinds: list[str], problem: Any = None) -> Claim:
        """Resolve a name of any form among some kinds, or raise an error that says why not."""
        for kind in kinds:
            if kind not in _KINDS:
                raise UnknownName(f"there is no kind {kind!r}; the kinds are {', '.join(_KINDS)}")
        if not isinstance(name, str):
            raise UnknownName(f"the name of a {_words(kinds[0])} must be a string; got {name!r}")
        scope = None if problem is None else problem_name(problem)
        matches = self._matches(name, kinds, scope)
        if not matches:
            raise UnknownName(self._not_found(name, kinds, scope))
        if len(matches) > 1:
            full = either(full for full, _ in self._full_names(matches))
            raise AmbiguousName(f"{name!r} may be {full}; ask for one of these")
        (claims,) = matches.values()
        if len(claims) > 1:
            names = either(claim.short for claim in claims)
            raise AmbiguousName(f"{name!r} is registered by several plugins; ask for {names}")
        return claims[0]

    def _matches(self, name: Any, kinds: list[str], scope: str | None = None) -> dict[str, list[Claim]]:
        """The records that a name of any form may mean, by qualified name."""
        self._load()
        if not isinstance(name, str):
            return {}
        index = self._index
        meant, key = index.meant, (name, *kinds, scope)
        if key in meant:
            return meant[key]
        found = {
            qualified: chosen
            for qualified in index.named(name, kinds, scope)
            if (chosen := matching(name, index.claims[qualified], kinds, scope))
        }
        if found:
            meant[key] = found
        return found

    def _full_names(self, matches: dict[str, list[Claim]]) -> list[tuple[str, Claim]]:
        """Each record with the shortest name that means it alone."""
        claims = self._index.claims
        return [
            (full_name(claim, claims[name]), claim) for name, chosen in matches.items() for claim in chosen
        ]

    def _several(self, name: str, matches: dict[str, list[Claim]]) -> Description:
        """What is said of a name that several records have."""
        found = sorted(
            ((full, claim.spec) for full, claim in self._full_names(matches)), key=lambda of: of[0]
        )
        kinds = {spec.kind for _, spec in found}
        problems = [spec.problem for _, spec in found if isinstance(spec, SolverSpec)]
        if kinds == {"solver"} and len(set(problems)) == len(found):
            summary = f"A solver of {len(found)} problems has this name: {', '.join(problems)}."
        else:
            summary = f"{len(found)} records have this name."
        return Description(
            kind=kinds.pop() if len(kinds) == 1 else "",
            name=bare_name(name),
            problem=None,
            summary=f"{summary} Describe one of them by its full name.",
            reference="",
            needs=None,
            traits=(),
            provider="",
            version="",
            options=(),
            namesakes=tuple((full, spec.summary) for full, spec in found),
        )

    def _implementation(self, claim: Claim) -> type[Any]:
        """Import the class of a record and check the contract; a fault is recorded."""
        spec = cast("SolverSpec | NormalizerSpec | TestMatrixSpec", claim.spec)
        kind = KINDS[spec.kind]
        if not claim.plugin.faults:
            module, _, path = spec.target.partition(":")
            found = getattr(sys.modules.get(module), path, None)
            if isinstance(found, type) and found in self._sound[spec.kind]:
                return found
        fault = ""
        with within_limits(spec.qualified):
            base = resolve(kind.base)
        with within_limits(spec.qualified), Contained(exits=True) as containment:
            cls = resolve(spec.target)
            if cls not in self._sound[spec.kind]:
                fault = _fault(cls, base, has_options=bool(kind.method))
                if not fault:
                    self._sound[spec.kind].add(cls)
        cause = containment.error
        if cause is not None:
            fault = f"it cannot be imported ({one_line(cause)})"
        with self.lock:
            claim.plugin.faults.pop((spec.qualified, "target"), None)  # a notebook may have corrected it
            if fault:
                claim.plugin.faults[spec.qualified, "target"] = f"{spec.target}: {fault}"
        if fault:
            provider = claim.plugin.distribution
            remedy = "Correct it" if provider == LOCAL else f"Update {provider}, or tell its authors"
            raise BrokenPlugin(
                f"{spec.qualified}, registered by {claim.plugin.identity}, cannot be used. "
                f"Its target is {spec.target!r} and {fault}. {remedy}."
            ) from cause
        return cast("type[Any]", cls)

    def _not_found(self, name: str, kinds: list[str], scope: str | None) -> str:
        """The message for a name that is not registered, with suggestions."""
        if scope and kinds == ["solver"] and not self._listed("solver", scope):
            return self._no_such_problem(scope)
        bare = bare_name(name)
        listed = [
            known for kind in kinds for known in self._listed(kind, scope if kind == "solver" else kind)
        ]
        close = get_close_matches(bare.lower().replace("_", "-"), map(bare_name, listed), 3)
        near = [known for known in listed if bare_name(known) in close]
        elsewhere = [known for known in self._index.qualified.get(bare, ()) if known not in listed]
        what = " or ".join(_words(kind) for kind in kinds)
        parts = [f"no {scope} {what} is named {name!r}." if scope else f"no {what} is named {name!r}."]
        if near:
            parts.append(f"Did you mean {either(near)}?")
        if elsewhere:
            parts.append(f"There is {', '.join(elsewhere)}.")
        parts += (
            self._missing()
        )  # the name may be that of a plugin that could not be loaded: before the long list
        parts.append(f"Available: {', '.join(listed)}." if listed else f"No {what} is registered.")
        return " ".join(parts)

    def _no_such_problem(self, problem: str) -> str:
        """The message for a problem without solvers, with the problems that have some."""
        known = sorted({name.partition("/")[0] for name in self._listed("solver")})
        near = get_close_matches(problem, known, 1)
        parts = [f"no solver of a problem named {problem!r} is registered."]
        if near:
            parts.append(f"Did you mean {near[0]!r}?")
        parts += self._missing()
        if known:
            parts.append(f"Problems with solvers: {', '.join(known)}.")
        return " ".join(parts)

    def _missing(self) -> Iterator[str]:
        """Sentences on plugins that could not be loaded and might have the name."""
        found = self.plugins()
        for info in found:
            if info.status == "broken":
                yield f"Plugin {info.identity} is broken ({info.error})."
            elif info.status == "disabled":
                yield f"Plugin {info.identity} is disabled."
        if not any(normalized(info.distribution) == BUILT_IN for info in found):
            yield "linspec's own methods are not registered: install it (in its source: pip install -e .)."


def _imported(target: str) -> Any:
    """The object that a target names if its module is imported already, or None."""
    module, _, path = target.partition(":")
    found: Any = sys.modules.get(module)
    for attribute in path.split("."):
        with Contained():
            found = getattr(found, attribute, None)
    return found


def _fault(cls: Any, base: type, *, has_options: bool) -> str:
    """Why a class is not a solver (normalizer, test matrix), or "" if it is one."""
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


def _statement(cls: Any) -> str:
    """The constructor of a problem: its class with the arguments."""
    parameters = inspect.signature(cls).parameters.values()
    taken = (p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters)
    return f"{cls.__name__}({', '.join(taken)})"


def _words(kind: str) -> str:
    return kind.replace("-", " ")


def _warn(sentences: list[str]) -> None:
    for sentence in sentences:
        warn(sentence, PluginWarning)
