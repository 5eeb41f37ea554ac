"""The problems that the command line offers, and the record of each: its own, or one from its declared fields."""

from __future__ import annotations

from linspec import registry
from linspec.cli.failures import Failure, check_no_method
from linspec.cli.kinds import Kind
from linspec.registry.spec import resolve

__all__ = ["kind_named", "offered"]


def kind_named(name: str) -> Kind:
    """Return the record of a problem, or raise a Failure with a suggestion."""
    if name in offered():
        place = registry.get_spec("problem", name).command
        if not place:
            from linspec.cli.derived import (
                derived_kind,
            )  # here: the class of the problem loads array libraries

            return derived_kind(name, registry.get_problem(name))
        found = resolve(place)
        if isinstance(found, Kind):
            return found
        raise Failure(
            f"the record of the problem {name!r} must name a linspec.cli.kinds.Kind as its command."
        )
    check_no_method(name)
    registry.solvers(name)  # raises with a suggestion if there is no such problem
    raise Failure(
        f"the problem {name!r} cannot be stated on the command line: no package here provides it with a solver. "
        f"Problems here: {', '.join(offered())}."
    )


def offered() -> tuple[str, ...]:
    """Return the problems that some solver solves."""
    solved = {name.partition("/")[0] for name in registry.solvers()}
    known = registry.problems()
    return tuple(name for name in known if name in solved)
