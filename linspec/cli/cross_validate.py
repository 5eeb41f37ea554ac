"""`linspec cross-validate`: the ridge and the k of a problem, chosen by rows that were not fitted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import click

from linspec.cli.failures import Command, Failure
from linspec.cli.kinds import Kind
from linspec.cli.settings import AUTO, ProblemGroup, flat, taking_several
from linspec.cli.studies import (
    Study,
    groups_option,
    run_study,
    solve_line,
    stated_study,
    study_command,
    write_rows,
)
from linspec.cli.tables import NOTHING, show_facts, show_table

__all__ = ["cross_validate"]

ABOUT = """Score several ridges and several k on rows that were not fitted, and choose. The line of `linspec solve` for
the chosen setting is printed last. Means, scales and effects of confounds are those of the fitted rows."""

ALSO = {"k": "--ks", "ridge": "--ridges"}
"""Further names of the parameters that may have several values here."""

OWN = ("folds", "groups", "method", "rule", "score", "out")
"""The options that `solve` does not have."""

FOLDS = ("folds", "groups")
"""The options that only folds use."""


def _command(kind: Kind) -> Command:
    own = [
        click.Option(
            ["--folds"],
            type=click.IntRange(min=2),
            default=5,
            show_default=True,
            help="How many times a part of the rows is held out.",
        ),
        groups_option("Rows of one group are held out together."),
        click.Option(
            ["--method"],
            type=click.Choice(["folds", "gcv"]),
            default="folds",
            show_default=True,
            help="gcv: generalized cross-validation of least squares, without folds.",
        ),
        click.Option(
            ["--rule"],
            type=click.Choice(["best", "one-standard-error"]),
            default="best",
            show_default=True,
            help="Choose the best setting, or the simplest one within a standard error of it.",
        ),
        click.Option(
            ["--score"],
            metavar="NAME",
            help="One of the scores of the problem; by default the first. Another name lists them.",
        ),
    ]
    stated = [
        taking_several(parameter, ALSO[parameter.name]) if parameter.name in ALSO else parameter
        for parameter in kind.own_parameters()
    ]
    what = "the score of each setting and fold"
    return study_command(kind, _cross_validate, ABOUT, own, stated, what=what)


cross_validate = ProblemGroup("cross-validate", "Choose ridge and k by rows that were not fitted.", _command)
"""The command `linspec cross-validate`."""


def _cross_validate(kind: Kind, given: Mapping[str, Any]) -> None:
    ks, ridges = flat(given.get("k")), flat(given.get("ridge"))
    _check_method(given)
    first = {"k": max(ks, default=None), "ridge": ridges[0] if ridges else None}
    changed = {**first, "ridge_y": given.get("ridge_y")}
    grid = {"k": ("ks", ks), "ridge": ("ridges", ridges), "ridge_y": ("ridge_y", given.get("ridge_y"))}
    asked = {**dict(pair for name, pair in grid.items() if name in given), **_own(given)}
    study = stated_study(
        kind, given, asked, {name: value for name, value in changed.items() if name in given}
    )
    run_study(lambda: _scored(study, ks, ridges), lambda found: _report(study, found))


def _check_method(given: Mapping[str, Any]) -> None:
    """Refuse options of folds with ``--method gcv``, which has none."""
    if given["method"] != "gcv":
        return
    context = click.get_current_context()
    for name in FOLDS:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise Failure(f"--method gcv holds out no rows; got --{name}. Leave one of them out.")


def _own(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the study by name, for a file; those of folds only if there are folds."""
    unused = FOLDS if given["method"] == "gcv" else ()
    return {name: given[name] for name in OWN if name not in ("out", *unused)}


def _scored(study: Study, ks: list[Any], ridges: list[Any]) -> Any:
    import linspec  # here: help loads no array library

    given, other = study.given, study.values.get("ridge_y")
    pairs = ridges if other is None else [(ridge, other) for ridge in ridges]
    named = {} if given["solver"] == AUTO and not study.options else {"solver": given["solver"]}
    return linspec.cross_validate(
        study.problem,
        ridges=pairs or None,
        ks=ks or None,
        method=given["method"],
        splitter=given["folds"],
        groups=study.groups,
        score=given["score"],
        rng=given["seed"],
        **named,
        **study.options,
    )


def _report(study: Study, found: Any) -> None:
    """Print and write the scores, and print the command for the chosen setting."""
    setting = found.best if study.given["rule"] == "best" else found.one_standard_error
    _show(study, found, setting)
    write_rows(study, _rows(found), {"chosen": setting._asdict(), "score": found.label})
    ridge = setting.ridge[0] if isinstance(setting.ridge, tuple) else setting.ridge
    changed = {"k": setting.k, "ridge": ridge}
    line = solve_line(
        study.kind, OWN, {name: value for name, value in changed.items() if study.given.get(name)}
    )
    click.echo(f"\nThe chosen setting on all rows: {line}")


def _rows(found: Any) -> list[dict[str, Any]]:
    """Return a row for each split and setting, without the columns that a problem does not have."""
    rows = []
    for row in found.rows:
        figures = row._asdict()
        if isinstance(row.ridge, tuple):
            ridge, ridge_y = row.ridge[:2]
            figures = {"split": row.split, "ridge": ridge, "ridge_y": ridge_y, "k": row.k, "score": row.score}
        rows.append({name: value for name, value in figures.items() if value is not None})
    return rows


def _show(study: Study, found: Any, setting: Any) -> None:
    """Print the mean score of each setting."""
    from linspec.solving.ridge_values import ridge_in_words

    fitted, held_out = (_range([pair[side] for pair in found.sizes]) for side in (0, 1))
    folds = f"{len(found.sizes)}, with {fitted} rows fitted and {held_out} held out"
    show_facts(
        [
            *study.facts,
            ("folds", folds if found.method == "folds" else ""),
            ("score", f"{found.label}, {'higher' if found.higher else 'lower'} is better"),
            ("passes", f"{found.passes:.3g}"),
        ]
    )
    rows = []
    for i, ridge in enumerate(found.ridges):
        for j, k in enumerate(found.ks):
            marks = ["best"] if (ridge, k) == found.best else []
            marks += ["chosen"] if (ridge, k) == setting else []
            marks += ["rounding"] if found.uncertain[i, j] else []
            figures = [_figure(found.mean[i, j]), _figure(found.standard_error[i, j], ".2g")]
            rows.append([ridge_in_words(ridge), str(k), *figures, ", ".join(marks)])
    head = ["ridge", "k", f"mean {found.label}", "standard error", ""]
    kept = [found.ridges != (None,), found.ks != (None,), True, True, True]
    click.echo()
    head, *cells = ([cell for cell, keep in zip(row, kept, strict=True) if keep] for row in (head, *rows))
    show_table(head, cells, right=head[:-1])


def _range(counts: list[int]) -> str:
    """Return numbers as "160", or as "159 to 161"."""
    least, most = min(counts), max(counts)
    return str(least) if least == most else f"{least} to {most}"


def _figure(value: float, form: str = ".6g") -> str:
    return format(value, form) if math.isfinite(value) else NOTHING
