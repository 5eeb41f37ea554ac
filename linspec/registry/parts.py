"""The parts of a solver: options whose values are themselves solvers, normalizers or test matrices."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from linspec import registry
from linspec.errors import InvalidOption, shown
from linspec.registry import options
from linspec.registry.kinds import KINDS, resolve

__all__ = ["with_parts"]

T = TypeVar("T")


def with_parts(instance: T) -> T:
    """Return a copy of a solver in which each part given by name is an instance with default options.

    Parameters
    ----------
    instance : Solver, Normalizer or TestMatrix

    Returns
    -------
    instance of the same class

    Raises
    ------
    UnknownName, AmbiguousName, BrokenPlugin
        As for :func:`linspec.get_solver`.
    InvalidOption
        A part is not of the kind that its option declares, or an option is a number that is too large for a float.
    """
    found = {}
    owner = type(instance).__name__
    for option in options.options_of(instance):
        given = value = getattr(instance, option.name)
        if value is None:  # the solver chooses
            continue
        if option.part_kind is None:
            if option.kind is float and not options.is_number(value):
                raise InvalidOption(
                    f"option {option.name!r} of {owner} must be a number that a float holds; got {shown(value)}."
                )
            continue
        if isinstance(value, str):
            value = registry.get_part(option.part_kind, value, option.part_problem)()
        base = resolve(KINDS[option.part_kind].base)
        if not isinstance(value, base) or (
            option.part_method and not callable(getattr(value, option.part_method, None))
        ):
            raise InvalidOption(option.refusal(given, owner))
        found[option.name] = with_parts(value)
    return dataclasses.replace(instance, **found) if found else instance  # type: ignore[type-var]
