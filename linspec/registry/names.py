"""Names: ``gram``, ``cca/gram``, ``acme:gram`` and ``cca/acme:gram``, and the records that each may mean.

If linspec itself uses a bare name, the name stays linspec's. If two others use it, it must be qualified by
the distribution.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

from linspec.errors import InvalidProblem
from linspec.registry.loading import BUILT_IN, Plugin, normalized
from linspec.spec import ProblemSpec, SolverSpec, Spec

#: A name this similar to that of a problem, as difflib measures it, counts as misspelt.
MISSPELT = 0.8


@dataclass(frozen=True)
class Claim:
    """A record and the plugin that provides it."""

    spec: Spec
    plugin: Plugin

    @property
    def short(self) -> str:
        """Name with the provider: ``acme:gram``."""
        return f"{self.plugin.distribution}:{self.spec.name}"


#: The records of one qualified name by distribution, written as packaging tools compare it.
Claims = dict[str, Claim]


class SolverRecords(NamedTuple):
    """The solvers of a problem, by what a choice among them asks first.

    Attributes
    ----------
    automatic : tuple of (str, SolverSpec)
        Names and records of those that state what they take.
    rough : frozenset of str
        Those whose answer is approximate.
    iterative : tuple of str
        Those that iterate and are no demonstrations.
    """

    automatic: tuple[tuple[str, SolverSpec], ...]
    rough: frozenset[str]
    iterative: tuple[str, ...]

    @classmethod
    def of(cls, specs: Mapping[str, SolverSpec]) -> SolverRecords:
        """Of records by name."""
        return cls(
            tuple((name, spec) for name, spec in specs.items() if "automatic" in spec.traits),
            frozenset(name for name, spec in specs.items() if "approximate" in spec.traits),
            tuple(
                name
                for name, spec in specs.items()
                if "iterative" in spec.traits and "demonstration" not in spec.traits
            ),
        )


class Index:
    """Records by every form of their names, so that a look-up does not search all records.

    The contents of the tables are replaced and never changed. So a thread that reads them while another
    thread registers a record sees either the old or the new state.
    """

    def __init__(self) -> None:
        self.claims: dict[str, Claims] = {}  # by qualified name, in order of their plugins
        self.qualified: dict[str, tuple[str, ...]] = {}  # by bare name
        self.problems: set[str] = set()  # the known problems
        self.meant: dict[tuple[Any, ...], dict[str, list[Claim]]] = {}  # what names were found to mean
        self.listed: dict[tuple[str, str | None], tuple[str, ...]] = {}  # names by kind and problem
        self.solving: dict[str, SolverRecords] = {}  # by problem

    def add(self, qualified: str, claim: Claim) -> None:
        """Enter a record; it replaces one of the same name and distribution."""
        self.problems |= _known_problem(claim)
        if qualified not in self.claims:
            self.qualified[claim.spec.name] = (*self.qualified.get(claim.spec.name, ()), qualified)
        self.claims[qualified] = {
            **self.claims.get(qualified, {}),
            normalized(claim.plugin.distribution): claim,
        }
        self.meant, self.listed, self.solving = {}, {}, {}

    def named(self, name: str, kinds: list[str], scope: str | None) -> Iterator[str]:
        """Qualified names that a name of any form may mean; only one if the problem is given."""
        prefix, _, bare = split(name)
        stated = prefix or (scope if kinds == ["solver"] else None)
        if stated is None:
            yield from self.qualified.get(bare, ())
        elif f"{stated}/{bare}" in self.claims:
            yield f"{stated}/{bare}"


def indexed(plugins: Iterable[Plugin]) -> Index:
    """The records of all plugins. A solver with a misspelt problem is recorded as a fault instead."""
    index = Index()
    claims = [(name, Claim(spec, plugin)) for plugin in plugins for name, spec in plugin.specs.items()]
    for _, claim in claims:
        index.problems |= _known_problem(claim)
    for name, claim in claims:
        fault = misspelt(claim.spec, index.problems)
        if fault:
            claim.plugin.faults[name, "problem"] = fault
        else:
            index.add(name, claim)
    return index


def _known_problem(claim: Claim) -> set[str]:
    """The problem that a record declares, or that linspec itself solves."""
    spec, built_in = claim.spec, normalized(claim.plugin.distribution) == BUILT_IN
    if isinstance(spec, ProblemSpec):
        return {spec.name}
    return {spec.problem} if built_in and isinstance(spec, SolverSpec) else set()


def misspelt(spec: Spec, problems: set[str]) -> str:
    """What is wrong with the problem of a solver's record, or ""."""
    if not isinstance(spec, SolverSpec) or spec.problem in problems:
        return ""
    near = get_close_matches(spec.problem, sorted(problems), 1, MISSPELT)
    return f"no problem is named {spec.problem!r}. Did you mean {near[0]!r}?" if near else ""


def kind_of(claims: Claims) -> str:
    """The records of one qualified name."""
    return next(iter(claims.values())).spec.kind


def owner_of(claims: Claims) -> Claim | None:
    """The owner of a bare name: linspec, or the only record of the name, or none."""
    if len(claims) == 1:
        return next(iter(claims.values()))
    return claims.get(BUILT_IN)


def shown(claims: Claims) -> list[str]:
    """The names under which the records of one qualified name can be requested."""
    owner = owner_of(claims)
    return [claim.spec.name if claim is owner else claim.short for claim in claims.values()]


def split(name: str) -> tuple[str, str, str]:
    """Split ``cca/acme:gram`` into ("cca", "acme", "gram"); a missing part is ""."""
    prefix, _, rest = name.rpartition("/")
    distribution, _, bare = rest.rpartition(":")
    return prefix, distribution, bare


def bare_name(name: str) -> str:
    """The name itself, without problem and distribution."""
    return split(name)[2]


def matching(name: str, claims: Claims, kinds: list[str], scope: str | None) -> list[Claim]:
    """The records of one qualified name that `name` may mean."""
    prefix, distribution, _ = split(name)
    kind, spec = kind_of(claims), next(iter(claims.values())).spec
    of = spec.qualified.partition("/")[0]
    # A problem restricts only solvers: normalizers serve all problems.
    out_of_scope = scope is not None and kind == "solver" and of != scope
    if kind not in kinds or prefix not in ("", of) or out_of_scope:
        return []
    if distribution:
        wanted = claims.get(normalized(distribution))
        return [wanted] if wanted else []
    owner = owner_of(claims)
    return [owner] if owner else list(claims.values())


def full_name(claim: Claim, claims: Claims) -> str:
    """The shortest name that means only this record, for every problem."""
    scope = claim.spec.qualified.partition("/")[0]
    return claim.spec.qualified if claim is owner_of(claims) else f"{scope}/{claim.short}"


def either(names: Iterable[str]) -> str:
    """Names in quotes, joined by "or"."""
    return " or ".join(map(repr, names))


def problem_name(problem: Any) -> str:
    """The name of a problem given by name, class or instance."""
    name = problem if isinstance(problem, str) else getattr(problem, "name", None)
    if not isinstance(name, str):
        raise InvalidProblem(
            f"a problem is a name such as 'cca', a problem class or an instance of one; got {problem!r}"
        )
    return name
