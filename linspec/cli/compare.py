"""`linspec compare`: several solvers on the same data, accuracy against passes and seconds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import groupby, product
from typing import IO, TYPE_CHECKING, Any

import click

from linspec import registry
from linspec.cli import plots
from linspec.cli.failures import Command, Failure, printable, shortened
from linspec.cli.ids import ids_option
from linspec.cli.interrupts import INTERRUPTED, Interrupts, held
from linspec.cli.kinds import Kind
from linspec.cli.missing import drop_option, read_inputs
from linspec.cli.outputs import check_target, write_all
from linspec.cli.results import plain
from linspec.cli.settings import (
    AUTO,
    ProblemGroup,
    complete_solver,
    declared_names,
    flat,
    held_out_options,
    only_declared,
    problem_command,
    run_parameters,
    solver_options,
    split_option,
    taking_several,
)
from linspec.cli.solve import FILES, parted
from linspec.cli.tables import NOTHING, percent, short, show_facts, show_table, status_in_words
from linspec.process.progress import Goal, report_progress

if TYPE_CHECKING:  # it loads array libraries, which help does without
    from linspec.cli.measured import Outcome

__all__ = ["compare", "show_outcomes"]

UNFINISHED = "interrupted before the first iteration"

ABOUT = """The files are read once. An --option goes to every solver that has it; als.lstsq=gd goes to als alone. One
that is given several times is tried with each value."""


TIMES, LEAST_SECONDS = 20, 1.0
"""Without ``--solvers``, a solver has this many times the estimate of the fastest one, and at least these seconds."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """One run of a solver on a problem.

    Attributes
    ----------
    values : mapping from str
        The parameters of the problem.
    solver : str
        The name of the solver, or "auto".
    texts : sequence of str
        The options of the solver as typed, ``name=value``, without the name of the solver in front.
    options : mapping from str
        The options in `texts` and the tolerance, converted to keyword arguments of the solver.
    variant : str
        The parameters and options that differ between the runs, in words; "" if none do.
    """

    values: Mapping[str, Any]
    solver: str
    texts: Sequence[str]
    options: Mapping[str, Any]
    variant: str


def _command(kind: Kind) -> Command:
    def action(**given: Any) -> None:
        _compare(kind, given)

    own = [
        taking_several(parameter) if parameter.name in kind.varied else parameter
        for parameter in kind.own_parameters()
    ]
    parameters = [
        *own,
        click.Option(
            ["--solvers"],
            shell_complete=complete_solver,
            metavar="NAME,NAME,...",
            help="Which solvers. By default all but demonstrations of failure, and those that take more than "
            f"{LEAST_SECONDS:g} s and {TIMES} times the estimate of the fastest.",
        ),
        *held_out_options(kind),
        ids_option(),
        drop_option(),
        *run_parameters(),
        click.Option(["--out"], metavar="FILE", help="Write the figures of all runs to FILE.json."),
        click.Option(["--plot"], metavar="FILE", help="Draw accuracy against cost, to FILE.png."),
        click.Option(
            ["--against"],
            type=click.Choice(plots.COSTS),
            help="What the plot measures cost in. By default passes, or seconds where Gram matrices are held.",
        ),
    ]
    return problem_command(kind, action, f"{ABOUT}\n\n{FILES}", parameters)


compare = ProblemGroup("compare", "Run several solvers on the same data, side by side.", _command)


def _compare(kind: Kind, given: Mapping[str, Any]) -> None:
    files = kind.files(given)
    out = check_target("--out", given["out"], (".json",), inputs=kind.inputs(given))
    plot = plots.check_plot("--plot", given["plot"], inputs=kind.inputs(given), others=[out])
    runs = _runs(kind, given)
    matrices, beside, told = read_inputs(
        files, runs[0].values, kind.labels, drop=given["drop_missing"], ids=given["ids"]
    )
    if told:
        click.echo(told, err=True)
    stated: list[tuple[Any, list[RunRequest]]] = [
        (kind.construct(list(matrices.values()), values, beside), list(own))
        for values, own in groupby(runs, lambda run: run.values)
    ]
    limit, left_out = _affordable(stated) if given["solvers"] is None else (None, ())
    automatic = limit if given["max_seconds"] is None else None
    if given["solvers"] is None:
        given = {**given, "max_seconds": automatic or given["max_seconds"]}
        stated = [(problem, [run for run in own if run.solver not in left_out]) for problem, own in stated]
        runs = [run for _, own in stated for run in own]
    with held() as interrupts:  # one ends the series of runs, not the report on it
        outcomes = list(_outcomes(kind, given, stated, interrupts))
        if outcomes:
            _show(kind, given, runs, outcomes)
            if given["solvers"] is None:
                _show_left_out(kind, limit, automatic, left_out, outcomes)
        if any(not outcome.failed for outcome in outcomes):
            figures = [_figures(*run) for run in zip(runs, outcomes, strict=False)]
            write_all(
                [
                    (out, partial(_write, {"about": _about(kind, given, runs), "rows": figures})),
                    (
                        plot,
                        partial(
                            plots.draw_comparison, kind, outcomes, given["against"], _title(kind, given, runs)
                        ),
                    ),
                ]
            )
    if interrupts.came or any(outcome.status == "INTERRUPTED" for outcome in outcomes):
        click.get_current_context().exit(INTERRUPTED)
    if all(outcome.failed for outcome in outcomes):
        raise Failure("no solver gave a solution.")


def _affordable(stated: Sequence[tuple[Any, Sequence[RunRequest]]]) -> tuple[float | None, tuple[str, ...]]:
    """Return the time that each solver may take, None without estimates, and the solvers whose estimates exceed it."""
    from linspec.solving.select import record_of, stated_estimate  # here: help loads no array library

    (problem, runs), sizes = stated[0], stated[0][0].sizes()
    estimates = {}
    for solver in {run.solver for run in runs}:
        estimate = stated_estimate(registry.get_solver(solver, problem), record_of(solver, problem), sizes)
        if estimate is not None:
            estimates[solver] = estimate.seconds
    if not estimates:
        return None, ()
    limit = max(LEAST_SECONDS, TIMES * min(estimates.values()))
    return limit, tuple(sorted(solver for solver, seconds in estimates.items() if seconds > limit))


def _show_left_out(
    kind: Kind,
    limit: float | None,
    automatic: float | None,
    slow: Sequence[str],
    outcomes: Sequence[Outcome],
) -> None:
    """Print one line: the solvers that were left out or stopped, and how to run them.

    `limit` is the time beyond which estimates are too long. `automatic` is the time after which a run was stopped,
    None if the user set that time.
    """
    from linspec.studies.comparison import solvers_to_compare

    usual = solvers_to_compare(kind.name)
    demonstrations = [name for name in registry.solvers(kind.name) if name not in usual]
    late = [each.solver for each in outcomes if each.status == "BUDGET" and each.timed_out]  # not of passes
    stopped = [] if automatic is None else list(dict.fromkeys(late))
    texts = {
        f"left out, {'as a demonstration' if len(demonstrations) == 1 else 'as demonstrations'} of failure": (
            demonstrations
        ),
        f"left out, as estimated to take more than {limit or 0:.3g} s": slow,
        f"stopped after {automatic or 0:.3g} s": stopped,
    }
    said = "; ".join(f"{', '.join(names)} {what}" for what, names in texts.items() if names)
    if said:
        named = ",".join([*demonstrations, *slow, *stopped])
        how = "To run them, name them" if automatic is None else "Named solvers run without a limit of time"
        click.echo(f"\n{said}. {how}: --solvers {named}")


def _outcomes(
    kind: Kind,
    given: Mapping[str, Any],
    stated: Sequence[tuple[Any, Sequence[RunRequest]]],
    interrupts: Interrupts,
) -> Iterator[Outcome]:
    """Yield the outcome of each run, until an interrupt ends the series."""
    import linspec
    from linspec.cli.measured import Limits, Outcome, compared, loaded  # here: help loads no array library

    limits = Limits(given["seed"], given["max_passes"], given["max_seconds"])
    score = kind.score if given["plot"] else None
    number, count = 0, sum(len(runs) for _, runs in stated)
    for whole, runs in stated:
        problem, rows = parted(whole, given)  # one at a time: rows that are held out are copied
        for run in runs:
            if interrupts.came:
                return
            number += 1
            goal = Goal(
                tol=run.options.get("tol") or problem.default_tol,
                max_passes=given["max_passes"] or math.inf,
                max_seconds=given["max_seconds"] or math.inf,
            )
            words = f"{run.solver} ({number} of {count})"
            name, options = run.solver, run.options
            with report_progress(words, given["progress"], goal) as reporters:
                if name == AUTO:
                    name = linspec.select(problem).name
                    options = only_declared(kind.name, name, options)
                try:
                    loaded(problem, name, options)
                    found = compared(
                        problem, name, options, limits, score=score, reporters=reporters, rows=rows
                    )
                except KeyboardInterrupt:  # before there was an answer
                    found = Outcome(problem=kind.name, solver=name, status="FAILED", message=UNFINISHED)
                    interrupts.count += 1  # Python's own handler was in place, and this is how it says so
            yield replace(found, solver=run.solver, variant=run.variant)
            if found.status == "INTERRUPTED":
                return


def _runs(kind: Kind, given: Mapping[str, Any]) -> list[RunRequest]:
    """Return every run; names and options are checked before the first one begins."""
    solvers = _names(kind, given["solvers"])
    runs: dict[str, RunRequest] = {}
    for (words, values), texts in product(_problems(kind, given).items(), _texts(kind, given)):
        chosen = _distributed(kind, solvers, [text for text, _ in texts])
        for solver in solvers:
            tol = given["tol"] if solver == AUTO or "tol" in declared_names(kind.name, solver) else None
            own = {text for text, _ in chosen[solver]}
            tried = [text.replace("=", " ", 1) for text, varied in texts if varied and text in own]
            rest = [text for _, text in chosen[solver]]
            run = RunRequest(
                values=values,
                solver=solver,
                texts=rest,
                options=solver_options(kind.name, solver, rest, tol),
                variant=", ".join(filter(None, [words, *tried])),
            )
            # Options that a solver does not have make no difference to it.
            runs.setdefault(repr((values, solver, rest)), run)
    return list(runs.values())


def _problems(kind: Kind, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the requested problems: for each one its parameters by name, under a text that distinguishes it.

    The text has the parameters for which several values are requested, such as "kernel rbf, ridge 1". Parameters that
    `Kind.unused` names are set to None and left out of the text. Combinations that differ only in unused parameters
    have equal texts, and give one problem.
    """
    names = [str(parameter.name) for parameter in kind.parameters() if parameter.name in kind.varied]
    grids = {name: flat(given[name]) or [None] for name in names}
    found: dict[str, dict[str, Any]] = {}
    combinations = [
        kind.values({**given, **dict(zip(names, chosen, strict=True))}) for chosen in product(*grids.values())
    ]
    kind.check_used(*combinations)
    for values in combinations:
        unused = kind.unused(values) if kind.unused else ()
        values |= {name: None for name in names if name in unused}
        told = [name for name in names if len(grids[name]) > 1 and values[name] is not None]
        found.setdefault(
            ", ".join(f"{name.replace('_', '-')} {short(values[name])}" for name in told), values
        )
    return found


def _texts(kind: Kind, given: Mapping[str, Any]) -> list[tuple[tuple[str, bool], ...]]:
    """Return every combination of the requested options of solvers: one tuple of pairs for each combination.

    A tuple has one pair (text, varied) for each option. `text` is ``name=value``, with the name of a solver or part and
    a dot in front if the user typed one. `varied` is True if several values of the option are requested.
    """
    own = kind.solver_parameters() if kind.solver_parameters else []
    grids = {str(p.name): [f"{p.name}={value}" for value in flat(given[str(p.name)])] for p in own}
    for text in given["options"]:
        grids.setdefault(text.partition("=")[0].strip().replace("-", "_"), []).append(text)
    chosen = [dict.fromkeys(texts) for texts in grids.values() if texts]
    return list(product(*([(text, len(texts) > 1) for text in texts] for texts in chosen)))


def _names(kind: Kind, text: str | None) -> list[str]:
    """Return the solvers to run, in the order in which they were named."""
    if text is None:
        from linspec.studies.comparison import solvers_to_compare

        return solvers_to_compare(kind.name)
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise Failure(f"--solvers must name solvers, as in gram,als; got {text!r}.")
    for name in names:
        if name != AUTO:
            registry.get_spec("solver", name, kind.name)
    return names


def _distributed(
    kind: Kind, solvers: Sequence[str], texts: Sequence[str]
) -> dict[str, list[tuple[str, str]]]:
    """Return the options of each solver, as pairs: the text as typed, and the text without the name of the solver.

    ``als.tol=1`` goes to the solver als alone, as (``als.tol=1``, ``tol=1``). An option without the name of a requested
    solver goes to every solver that declares the option, except "auto"; then both texts of the pair are equal.
    """
    chosen: dict[str, list[tuple[str, str]]] = {solver: [] for solver in solvers}
    for text in texts:
        front, rest = split_option(text)
        if front in chosen:
            chosen[front].append((text, rest))
            continue
        name = (front or text.partition("=")[0]).strip().replace("-", "_")
        takers = [
            solver for solver in solvers if solver != AUTO and name in declared_names(kind.name, solver)
        ]
        if not takers:
            raise Failure(f"none of {', '.join(solvers)} has an option {name!r}; got --option {text}.")
        for solver in takers:
            chosen[solver].append((text, text))
    return chosen


# ---- the table --------------------------------------------------------------------------------


def _title(kind: Kind, given: Mapping[str, Any], runs: Sequence[RunRequest]) -> str:
    """Return the title: the problem, with the parameters that all runs share."""
    common = ", ".join(filter(None, (kind.name, kind.stated(_common(runs)))))
    fraction = given.get("held_out")
    return common if fraction is None else f"{common}, {fraction:g} of the rows held out"


def _common(runs: Sequence[RunRequest]) -> dict[str, Any]:
    """Return the parameters with the same value in all runs."""
    first, *others = (run.values for run in runs)
    return {name: value for name, value in first.items() if all(of[name] == value for of in others)}


def _about(kind: Kind, given: Mapping[str, Any], runs: Sequence[RunRequest]) -> dict[str, Any]:
    """Return the request, for a file."""
    import linspec

    return {
        "problem": kind.name,
        "files": kind.files(given),
        **_common(runs),
        **{
            name: given.get(name)
            for name in ("ids", "drop_missing", "held_out", "seed", "max_passes", "max_seconds")
        },
        "linspec": linspec.__version__,
    }


def _figures(run: RunRequest, outcome: Outcome) -> dict[str, Any]:
    """Return the figures of one run, for the file of ``--out``.

    The keys are the fields of `linspec.studies.comparison.Entry` except "solution", and "variant", "values" and
    "options".
    """
    from linspec.studies.comparison import Entry

    figures = {field.name: getattr(outcome, field.name) for field in fields(Entry)}
    del figures["solution"]
    return {**figures, "variant": run.variant, "values": dict(run.values), "options": list(run.texts)}


def _write(content: Mapping[str, Any], stream: IO[bytes], _: str) -> None:
    stream.write(json.dumps(plain(content), indent=1, allow_nan=False).encode() + b"\n")


def _show(
    kind: Kind, given: Mapping[str, Any], runs: Sequence[RunRequest], outcomes: Sequence[Outcome]
) -> None:
    files = ", ".join(map(shortened, kind.files(given).values()))
    click.echo(f"{_title(kind, given, runs)}: {printable(files)}\n")
    one = all(run.values == runs[0].values for run in runs)
    show_outcomes(kind, outcomes, runs[0].values.get("k"), shares=one)
    footnotes = [(outcome.label, outcome.message) for outcome in outcomes if outcome.failed]
    scored = [outcome for outcome in outcomes if outcome.score is not None]
    if scored:
        best = max(scored, key=lambda outcome: outcome.score or 0.0)
        footnotes.append(("held out", f"the score of rows that were not fitted; the best is {best.label}"))
    if footnotes:
        click.echo()
        show_facts(footnotes)


def show_outcomes(
    kind: Kind,
    outcomes: Sequence[Outcome],
    k: int | None,
    best: float | None = None,
    *,
    shares: bool = True,
) -> None:
    """Print one row for each run of a solver.

    Parameters
    ----------
    kind : Kind
        The problem.
    outcomes : sequence of Outcome
        The results of the solvers.
    k : int or None
        The number of columns in a block; products are counted in blocks.
    best : float, optional
        The objective that counts as 100 %. The share of a run is the objective of the run divided by `best`. By
        default `best` is the largest objective in `outcomes`.
    shares : bool, default True
        Whether to show the column of shares. Shares make no sense if the runs solve different problems.
    """
    best = best or max((outcome.objective or 0.0 for outcome in outcomes), default=0.0)
    columns = [
        ("solver", [outcome.solver for outcome in outcomes]),
        ("variant", [outcome.variant for outcome in outcomes]),
        ("held out", [_figure(outcome.score, ".6f") for outcome in outcomes]),
    ]
    if kind.score:
        columns += [
            (kind.score.short, [_figure(outcome.objective, ".6f") for outcome in outcomes]),
            (kind.share, [_share(outcome.objective, best) for outcome in outcomes]),
        ]
    columns += [
        ("residual", [_figure(outcome.residual, ".1e") for outcome in outcomes]),
        ("status", [status_in_words(outcome.status) for outcome in outcomes]),
        ("passes", [_figure(outcome.passes, "g") for outcome in outcomes]),
        (
            f"products of {k}" if k else "products",
            [_figure(None if o.products is None else o.products / (k or 1), ".0f") for o in outcomes],
        ),
        ("seconds", [_figure(outcome.seconds, ".3f") for outcome in outcomes]),
        ("CPU", [_figure(outcome.cpu_seconds, ".3f") for outcome in outcomes]),
    ]
    hidden = {
        "variant": not any(outcome.variant for outcome in outcomes),
        "held out": all(outcome.score is None for outcome in outcomes),
        kind.share: not shares,
    }
    shown = [(name, cells) for name, cells in columns if not hidden.get(name)]
    head = [name for name, _ in shown]
    rows = list(zip(*(cells for _, cells in shown), strict=True))
    show_table(head, rows, right=[name for name in head if name not in ("solver", "variant", "status")])


def _share(score: float | None, best: float) -> str:
    return NOTHING if score is None or not best else percent(score / best)


def _figure(value: float | None, form: str) -> str:
    return NOTHING if value is None else format(value, form)
