"""The description of a name, as `linspec.describe` returns it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from linspec.registry.kinds import KINDS
from linspec.registry.names import Entry, split
from linspec.registry.options import Option
from linspec.registry.spec import Needs, SolverSpec


@dataclass(frozen=True, kw_only=True)
class Description:
    """The declaration of a solver, normalizer, test matrix, adapter or problem; ``str()`` is its help text.

    Parameters
    ----------
    kind : {"solver", "normalizer", "test-matrix", "operator", "problem"}
        The kind of the record; "" if records of several kinds share the name.
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
    options : tuple of Option
        The options in order of declaration.
    statement : str, default ""
        For a problem: its constructor, ``"SVD(A, k, center=False, left=False)"``.
    solvers : tuple of str, default ()
        For a problem: the names of its solvers.
    namesakes : tuple of (str, str), default ()
        For a name that several records share: the full name and the summary of each record. Then `summary` states the
        number of records, and the fields that describe one record are empty.
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
    options: tuple[Option, ...] = ()
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
        lines = [f"{self.name} ({self.kind.replace('-', ' ')})", "", self.summary, ""]
        lines += [f"{label:<11}{fact}" for label, fact in facts.items() if fact]
        if KINDS[self.kind].method:
            lines += ["", "options" if self.options else "no options"]
        for option in self.options:
            lines += [f"  {option.name} = {option.default!r}", f"      {option.help} [{option.expects}]"]
        return "\n".join(lines)


def of_one(entry: Entry, **found: Any) -> Description:
    """Return the description of a record; `found` has the fields that are read from its class."""
    spec = entry.spec
    return Description(
        kind=spec.kind,
        name=spec.name,
        summary=spec.summary,
        problem=getattr(spec, "problem", None),
        reference=getattr(spec, "reference", ""),
        needs=getattr(spec, "needs", None),
        traits=getattr(spec, "traits", ()),
        provider=entry.plugin.identity,
        version=entry.plugin.version,
        **found,
    )


def of_namesakes(name: str, entries: Sequence[Entry]) -> Description:
    """Return the description of a name that several records share."""
    found = sorted(((entry.full, entry.spec) for entry in entries), key=lambda pair: pair[0])
    kinds = {spec.kind for _, spec in found}
    problems = [spec.problem for _, spec in found if isinstance(spec, SolverSpec)]
    if kinds == {"solver"} and len(set(problems)) == len(found):
        summary = f"A solver of {len(found)} problems has this name: {', '.join(problems)}."
    else:
        summary = f"{len(found)} records have this name."
    return Description(
        kind=kinds.pop() if len(kinds) == 1 else "",
        name=split(name)[2],
        summary=f"{summary} Describe one of them by its full name.",
        namesakes=tuple((full, spec.summary) for full, spec in found),
    )


def statement(cls: Any) -> str:
    """Return the constructor of a problem as text: its class with the arguments; those with a default show it."""
    parameters = inspect.signature(cls).parameters.values()
    needed = cls.stated.needed if hasattr(cls, "stated") else ()
    taken = (
        p.name if p.default is p.empty or p.name in needed else f"{p.name}={p.default!r}" for p in parameters
    )
    return f"{cls.__name__}({', '.join(taken)})"
