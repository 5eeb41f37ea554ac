"""`linspec bootstrap`: intervals of values and weights, by rows drawn with replacement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import click

from linspec import registry
from linspec.cli.failures import Command, Failure
from linspec.cli.kinds import Kind
from linspec.cli.settings import ProblemGroup
from linspec.cli.studies import (
    Study,
    check_components,
    groups_option,
    run_study,
    stated_study,
    study_command,
    write_rows,
)
from linspec.cli.tables import show_facts, show_table
from linspec.process.plurals import count_of

__all__ = ["bootstrap"]

ABOUT = """Draw rows with replacement, solve each draw, and show how much values vary: intervals, and the bias of values
of samples. Agreement is the mean cosine of the scores with those of the draws; components far below 1 are not stable.
"""


OWN = ("draws", "level", "groups")
"""The options of the study, which a file of ``--out`` names."""


def _command(kind: Kind) -> Command:
    own = [
        click.Option(
            ["--draws"], type=click.IntRange(min=2), default=500, show_default=True, help="How many draws."
        ),
        click.Option(
            ["--level"],
            type=float,
            default=0.95,
            show_default=True,
            metavar="FRACTION",
            help="The coverage of the intervals.",
        ),
        groups_option("Whole groups are drawn."),
    ]
    return study_command(kind, _bootstrap, ABOUT, own, what="the intervals of all weights, by column,")


bootstrap = ProblemGroup("bootstrap", "Intervals of values and weights, by drawn rows.", _command)
"""The command `linspec bootstrap`."""


def _bootstrap(kind: Kind, given: Mapping[str, Any]) -> None:
    check_components(kind, "bootstrap")
    if not any(each.name == "sample_weight" for each in fields(registry.get_problem(kind.name))):
        raise Failure(
            f"bootstrap draws rows by their weights, and {kind.name} takes none; `linspec cross-validate` holds out "
            "rows, and `linspec permute` permutes those of two or more matrices."
        )
    study = stated_study(kind, given, {name: given[name] for name in OWN})
    run_study(lambda: _drawn(study), lambda found: _report(study, found))


def _drawn(study: Study) -> Any:
    import linspec  # here: help loads no array library

    given = study.given
    return linspec.bootstrap(
        study.problem,
        given["solver"],
        draws=given["draws"],
        level=given["level"],
        groups=study.groups,
        rng=given["seed"],
        **study.options,
    )


def _report(study: Study, found: Any) -> None:
    """Print the intervals of the values, and write those of the weights."""
    values = _show(study, found)
    if study.out:
        write_rows(study, _weights(found), {"values": values, "draws": found.draws, "level": found.level})


def _show(study: Study, found: Any) -> list[dict[str, float]]:
    """Print the values with their intervals, and return them."""
    layout, solution = study.problem.solution.layout, found.solution
    low, high = _intervals_of_values(found)
    columns = {
        layout.value_label: getattr(solution, layout.value),
        "lower": low,
        "upper": high,
        "bias": found.bias,
        "agreement": found.agreement,
    }
    rows = [{name: float(values[i]) for name, values in columns.items()} for i in range(len(found.bias))]
    draws = f"{count_of(found.draws, 'draw')}{', interrupted' * found.interrupted}, {100 * found.level:g} % intervals"
    ties = [group for group in found.groups() if len(group) > 1]
    tied = ", ".join(f"{group[0] + 1} to {group[-1] + 1}" for group in ties)
    show_facts(
        [
            *study.facts,
            ("solver", solution.solver),
            ("draws", draws),
            (
                "ties",
                f"{layout.component}s {tied} may have equal values: their span is known, not each"
                * bool(ties),
            ),
        ]
    )
    click.echo()
    forms = (".5g", ".5g", ".5g", "+.2g", ".3f")
    cells = [
        [str(i + 1), *(format(value, form) for value, form in zip(row.values(), forms, strict=True))]
        for i, row in enumerate(rows)
    ]
    head = [layout.component, *columns]
    head[1] += ", with the ridge" * study.kind.has_ridge(study.values)
    show_table(head, cells, right=head)
    return rows


def _intervals_of_values(found: Any) -> Any:
    """Return the intervals of the values; those of canonical correlations have a name of their own."""
    return found.values if hasattr(found, "values") else getattr(found, found.solution.layout.value)


def _intervals_of_weights(found: Any, matrix: str) -> Any:
    """Return the intervals of the weights of a matrix; those of the views of a CCA have names of their own."""
    if hasattr(found, "weights"):
        return found.weights[matrix]
    field, _ = found.solution.layout.weights[matrix]
    return getattr(found, field)


def _weights(found: Any) -> list[dict[str, Any]]:
    """Return the interval of each weight, with the name of its column."""
    import numpy as np

    from linspec.arrays import to_host
    from linspec.solving.solution import weights_by_matrix

    solution, layout = found.solution, found.solution.layout
    rows = []
    for matrix, (weights, axis) in weights_by_matrix(solution).items():
        W = np.asarray(to_host(weights), dtype=np.float64)
        W = W.T if axis else W
        low, high = _intervals_of_weights(found, matrix)
        names = solution.column_names.get(matrix) or range(len(W))
        rows += [
            {
                "matrix": matrix,
                "column": name,
                layout.component: i + 1,
                "weight": float(W[j, i]),
                "lower": float(low[j, i]),
                "upper": float(high[j, i]),
            }
            for i in range(W.shape[1])
            for j, name in enumerate(names)
        ]
    return rows
