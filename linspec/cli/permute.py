"""`linspec permute`: which components are more than chance, by permuted rows, or the entries of permuted columns."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import click

from linspec import registry
from linspec.cli.failures import Command, Failure
from linspec.cli.kinds import SHOWN, Kind
from linspec.cli.settings import AUTO, ProblemGroup
from linspec.cli.studies import Study, check_components, run_study, stated_study, study_command, write_rows
from linspec.cli.tables import p_with_bound, show_facts, show_table
from linspec.process.plurals import count_of

__all__ = ["permute"]

ABOUT = """Permute the rows of every matrix but the first, or of a single matrix the entries of each column, and
compare the values of components with those of permuted data. The rows must be exchangeable: not ordered in time, and
not from a few families.

Canonical correlations without a ridge are tested stepwise, all pairs, without a solve for each permutation. With a
ridge, a --solver or an option of one, and for other problems, every permutation is solved."""


OWN = ("permutations", "statistic", "max_seconds")
"""The options of the study, which a file of ``--out`` names."""


def _command(kind: Kind) -> Command:
    own = [
        click.Option(
            ["--permutations"],
            type=click.IntRange(min=1),
            default=999,
            show_default=True,
            help="How many; the least possible p-value is 1 over one more.",
        ),
        click.Option(
            ["--statistic"],
            type=click.Choice(["wilks", "roy", "largest", "sum", "ranked"]),
            help="Stepwise wilks (the default) or roy; by solving largest (the default) or sum; for a single matrix "
            "ranked (the default) or largest.",
        ),
        click.Option(
            ["--max-seconds"],
            type=float,
            default=3600.0,
            show_default=True,
            metavar="NUMBER",
            help="Time after which no permutation is begun.",
        ),
    ]
    stated = [_optional(each) if each.name == "k" else each for each in kind.own_parameters()]
    return study_command(kind, _permute, ABOUT, own, stated, what="the p-values")


def _optional(option: click.Parameter) -> click.Parameter:
    """Return a copy of ``-k`` that may be left out: a stepwise test tests all pairs; other problems refuse it then."""
    twin = copy.copy(option)
    twin.required = False
    return twin


permute = ProblemGroup("permute", "Test by permutations which components are more than chance.", _command)
"""The command `linspec permute`."""


def _permute(kind: Kind, given: Mapping[str, Any]) -> None:
    check_components(kind, "permute")
    stated = registry.get_problem(kind.name).stated
    if len(kind.matrices) < len("XY") and not kind.several and not stated.permutes_columns(kind.matrices[0]):
        raise Failure(
            f"permute pairs the rows of two or more matrices at random, and {kind.name} has one; `linspec bootstrap` "
            "and `linspec cross-validate` draw and hold out rows."
        )
    if "k" in given and given["k"] is None and "k" in stated.needed:
        raise Failure(f"{kind.name} needs a number of components, and got none. Pass it as -k K.")
    study = stated_study(kind, given, {name: given[name] for name in OWN})
    run_study(lambda: _tested(study), lambda found: _report(study, found))


def _tested(study: Study) -> Any:
    import linspec  # here: help loads no array library

    given = study.given
    named = given["solver"] != AUTO or study.options or study.kind.has_ridge(study.values)
    return linspec.permutation_test(
        study.problem,
        given["solver"] if named else None,
        permutations=given["permutations"],
        statistic=given["statistic"],
        max_seconds=given["max_seconds"],
        rng=given["seed"],
        **study.options,
    )


def _report(study: Study, found: Any) -> None:
    """Print and write the p-values."""
    _show(study, found)
    columns = {"value": found.values, "p_value": found.p_values, "uncorrected": found.uncorrected}
    rows = [
        {"component": i + 1, **{name: float(values[i]) for name, values in columns.items()}}
        for i in range(len(found.values))
    ]
    write_rows(study, rows, {"permutations": found.permutations, "statistic": found.statistic})


def _show(study: Study, found: Any) -> None:
    """Print the values with their p-values."""
    least, count = 1 / (1 + found.permutations), len(found.values)
    layout = study.problem.solution.layout
    how = "each permutation solved" if hasattr(found, "solution") else "stepwise, all pairs, without a ridge"
    made = f"{count_of(found.permutations, 'permutation')}{', interrupted' * found.interrupted}"
    show_facts(
        [
            *study.facts,
            ("test", f"{found.statistic}, {how}"),
            ("permutations", f"{made}; the least possible p-value is {least:.2g}"),
            ("found", f"{found.components()} of {count_of(count, layout.component)} at 5 %"),
        ]
    )
    click.echo()
    some = min(count, study.values.get("k") or SHOWN)
    shrunken = ", with the ridge" * (hasattr(found, "solution") and study.kind.has_ridge(study.values))
    head = [layout.component, f"{layout.value_label}{shrunken}", "p", "p by itself"]
    rows = [
        [
            str(i + 1),
            f"{found.values[i]:.5g}",
            p_with_bound(found.p_values[i], least),
            p_with_bound(found.uncorrected[i], least),
        ]
        for i in range(some)
    ]
    show_table(head, rows, right=head)
    if some < count:
        click.echo(f"… ({count} in all)")
