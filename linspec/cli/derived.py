"""The record of a problem for the command line, from its declared fields.

Problem: a problem that declares its fields has said what its options are, and what its answer holds.
Method: matrices become files, or with `linspec.views` any number of files; k, ridges and flags become options; the
values of the components are shown, and their sum is compared. The class is imported for that. Families whose help
should load no array library, or that show more, have a record of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import click

from linspec.cli.kinds import (
    Kind,
    Score,
    center_option,
    count_option,
    first_numbers,
    ridge_option,
    row_options,
    with_ridge_pair,
)
from linspec.solving.fields import Count, Flag, Ridge, Statement

__all__ = ["derived_kind"]


def derived_kind(name: str, cls: Any) -> Kind:
    """Return the record of a problem for the command line, as its fields declare it.

    Parameters
    ----------
    name : str
        The name of the problem in the registry.
    cls : type
        Its class.
    """
    stated: Statement = cls.stated
    layout = cls.solution.layout
    several = any(declared.several for declared in stated.matrices.values())
    label = layout.value_label
    rows = {field.name for field in dataclasses.fields(cls)}
    pairs = len(layout.weights) == len("XY") and not several and hasattr(cls.solution, "transform")

    def answer(solution: Any) -> list[tuple[str, str]]:
        if not layout.value:
            return []
        values = getattr(solution, layout.value)
        return [(f"{label}s", first_numbers(values, ".5g") or "none"), ("sum", f"{float(values.sum()):.6g}")]

    def total(fields: Mapping[str, Any]) -> float:
        return float(fields[layout.value].sum())

    return Kind(
        name=name,
        matrices=stated.matrix_names,
        several=several,
        parameters=lambda: [*_own(stated), *(row_options() if "sample_weight" in rows else ())],
        answer=answer,
        score=Score(f"sum of {label}s", "sum", total) if layout.value else None,
        arrange=with_ridge_pair if _takes_pair(stated) else None,
        path=bool(stated.ridge) and stated.fields[stated.ridge].path,
        varied=tuple(filter(None, ("ridge" * bool(stated.ridge), "ridge_y" * _takes_pair(stated)))),
        scored=hasattr(cls.solution, "score"),
        variates=pairs,
        loadings=hasattr(cls.solution, "loadings_table"),
        proves_completeness=cls.proves_completeness,
    )


def _takes_pair(stated: Statement) -> bool:
    """Whether the ridge may be a pair, one for each of two matrices."""
    return bool(stated.ridge) and stated.fields[stated.ridge].each and len(stated.matrix_names) == len("XY")


def _own(stated: Statement) -> list[click.Parameter]:
    """Make the options for the declared fields of a problem that are a count k, a ridge or a flag, in their order.

    The flag `scale` is left out: `row_options` makes its option.
    """
    found: list[click.Parameter] = []
    for name, declared in stated.fields.items():
        if isinstance(declared, Count):
            found.append(
                count_option(declared.things, by_default="as many as there are." * declared.optional)
            )
        elif isinstance(declared, Ridge):
            found.append(ridge_option(declared.help or "Added to the diagonal of the Gram matrix."))
            if _takes_pair(stated):
                text = "The ridge of the second matrix, if it differs from the first."
                found.append(click.Option(["--ridge-y"], type=float, metavar="NUMBER", help=text))
        elif isinstance(declared, Flag) and name == "center":
            found.append(center_option(_default(stated, name), *filter(None, [declared.help])))
        elif isinstance(declared, Flag) and name != "scale":
            option, default = name.replace("_", "-"), _default(stated, name)
            found.append(click.Option([f"--{option}/--no-{option}"], default=default, help=declared.help))
    return found


def _default(stated: Statement, name: str) -> bool:
    return bool(stated.fields[name].default)
