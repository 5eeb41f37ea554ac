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
    columns = (layout.value_label, "lower", "upper", "bias", "agreement")
    rows = [{name: row[name] for name in columns} for row in found.table(library="")]
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


def _weights(found: Any) -> list[dict[str, Any]]:
    """Return the interval of each weight, with the name of its column."""
    from linspec.solving.solution import weights_by_matrix

    layout, rows = found.solution.layout, []
    for matrix in weights_by_matrix(found.solution):
        table = found.weights_table(matrix, library="")
        for i in range(len(found.bias)):
            vector = f"{layout.vector}{i + 1}"
            rows += [
                {
                    "matrix": matrix,
                    "column": next(iter(row.values())),
                    layout.component: i + 1,
                    "weight": row[vector],
                    "lower": row[f"{vector} lower"],
                    "upper": row[f"{vector} upper"],
                }
                for row in table
            ]
    return rows
