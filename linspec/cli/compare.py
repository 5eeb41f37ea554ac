"""`linspec compare`: several solvers on the same data, accuracy against passes, seconds and memory."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click

from linspec import registry
from linspec.cli import plots
from linspec.cli.failures import Command, Failure, printable
from linspec.cli.interrupts import INTERRUPTED, held
from linspec.cli.kinds import Kind
from linspec.cli.measured import Outcome, Request, answer_request, end_with_parent, run_apart
from linspec.cli.outputs import write_all
from linspec.cli.progress import Goal, shown_progress
from linspec.cli.settings import (
    AUTO,
    ProblemGroup,
    complete_solver,
    declared_names,
    problem_command,
    run_parameters,
    solver_options,
    split_option,
)
from linspec.cli.solve import FILES
from linspec.cli.tables import NOTHING, in_bytes, percent, show_facts, show_table, status_in_words

__all__ = ["compare", "measure", "show_outcomes"]

ABOUT = """Each solver runs in a fresh process that reads the files itself, so that its peak memory is its own.
An --option goes to every solver that has it; als.lstsq=gd goes to als alone."""


def _command(kind: Kind) -> Command:
    def action(**given: Any) -> None:
        _compare(kind, given)

    parameters = [
        click.Option(
            ["--solvers"],
            shell_complete=complete_solver,
            metavar="NAME,NAME,...",
            help="Which solvers. By default all but demonstrations of failure.",
        ),
        *run_parameters(),
        click.Option(["--plot"], metavar="FILE", help="Draw accuracy against cost, to FILE.png."),
        click.Option(
            ["--against"],
            type=click.Choice(plots.COSTS),
            help="What the plot measures cost in. By default passes, or seconds where Gram matrices are held.",
        ),
    ]
    return problem_command(kind, action, f"{ABOUT}\n\n{FILES}", parameters)


compare = ProblemGroup("compare", "Run several solvers on the same data, side by side.", _command)


@click.command(hidden=True)
def measure() -> None:
    """Run one solver for `compare`: a request on standard input, events on standard output."""

    def tell(event: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()

    request = sys.stdin.readline()
    if not request:  # the parent has ended
        return
    end_with_parent(sys.stdin.fileno())
    with held():  # the parent passes Ctrl-C on
        answer_request(request, tell)


def _compare(kind: Kind, given: Mapping[str, Any]) -> None:
    files = [given[matrix.lower()] for matrix in kind.matrices]
    plot = plots.check_plot("--plot", given["plot"], inputs=files)
    requests = _requests(kind, given, scored=plot is not None)
    outcomes: list[Outcome] = []
    with held() as interrupts:  # one ends the series, not what is told of it
        for request in requests:
            if interrupts.came:
                break
            goal = Goal(
                tol=request.tol or 1e-6,
                max_passes=request.max_passes or math.inf,
                max_seconds=request.max_seconds or math.inf,
            )
            name = f"{request.solver} ({len(outcomes) + 1} of {len(requests)})"
            with shown_progress(name, goal, given["progress"]) as report:
                outcome, _ = run_apart(request, report, interrupts)
            outcomes.append(outcome)
        if outcomes:
            _show(kind, given, outcomes)
        if any(not outcome.failed for outcome in outcomes):
            title = _title(kind, given)
            write_all([(plot, partial(plots.draw_comparison, kind, outcomes, given["against"], title))])
    if interrupts.came:
        click.get_current_context().exit(INTERRUPTED)
    if all(outcome.failed for outcome in outcomes):
        raise Failure("no solver gave a solution.")


def _requests(kind: Kind, given: Mapping[str, Any], *, scored: bool) -> list[Request]:
    """One request a solver; names and options are checked before any of them runs."""
    solvers = _names(kind, given["solvers"])
    options = _distributed(kind, solvers, given["options"])
    requests = []
    for solver in solvers:
        tol = given["tol"] if solver == AUTO or "tol" in declared_names(kind.name, solver) else None
        solver_options(kind.name, solver, options[solver], tol)
        requests.append(
            Request(
                problem=kind.name,
                files=[given[matrix.lower()] for matrix in kind.matrices],
                values={
                    parameter.name: given[parameter.name] for parameter in kind.parameters() if parameter.name
                },
                solver=solver,
                options=options[solver],
                tol=tol,
                seed=given["seed"],
                max_passes=given["max_passes"],
                max_seconds=given["max_seconds"],
                scored=scored,
            )
        )
    return requests


def _names(kind: Kind, text: str | None) -> list[str]:
    """The solvers to run, in the order in which they were named."""
    if text is None:
        every = registry.solvers(kind.name)
        return [
            name
            for name in every
            if "demonstration" not in registry.get_spec("solver", name, kind.name).traits
        ]
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise Failure(f"--solvers must name solvers, as in gram,als; got {text!r}.")
    for name in names:
        if name != AUTO:
            registry.get_spec("solver", name, kind.name)
    return names


def _distributed(kind: Kind, solvers: Sequence[str], texts: Sequence[str]) -> dict[str, list[str]]:
    """Which solver gets which of the options."""
    chosen: dict[str, list[str]] = {solver: [] for solver in solvers}
    for text in texts:
        front, rest = split_option(text)
        if front in chosen:
            chosen[front].append(rest)
            continue
        name = (front or text.partition("=")[0]).strip().replace("-", "_")
        takers = [
            solver for solver in solvers if solver != AUTO and name in declared_names(kind.name, solver)
        ]
        if not takers:
            raise Failure(f"none of {', '.join(solvers)} has an option {name!r}; got --option {text}.")
        for solver in takers:
            chosen[solver].append(text)
    return chosen


# ---- the table --------------------------------------------------------------------------------


def _title(kind: Kind, given: Mapping[str, Any]) -> str:
    return f"{kind.name}, {kind.stated(given)}"


def _show(kind: Kind, given: Mapping[str, Any], outcomes: Sequence[Outcome]) -> None:
    files = ", ".join(given[matrix.lower()] for matrix in kind.matrices)
    click.echo(f"{_title(kind, given)}: {printable(files)}\n")
    show_outcomes(kind, outcomes, given.get("k"))
    footnotes = [(outcome.solver, outcome.message) for outcome in outcomes if outcome.failed]
    if any(outcome.peak for outcome in outcomes):
        text = "of a fresh process for each solver, with Python, its libraries and the data in memory"
        footnotes.append(("memory", text))
    if footnotes:
        click.echo()
        show_facts(footnotes)


def show_outcomes(kind: Kind, outcomes: Sequence[Outcome], k: int | None, best: float | None = None) -> None:
    """Print one row a solver.

    Parameters
    ----------
    kind : Kind
        The problem.
    outcomes : sequence of Outcome
        What each solver found.
    k : int or None
        The width of the block in which products are counted.
    best : float, optional
        The score that the shares refer to. By default the largest among the solvers.
    """
    best = best or max((outcome.score or 0.0 for outcome in outcomes), default=0.0)
    scored = [kind.score.short, kind.share] if kind.score else []
    products = f"products of {k}" if k else "products"
    head = ["solver", *scored, "residual", "status", "passes", products, "seconds"]
    remembered = any(outcome.peak for outcome in outcomes)
    head += ["memory"] if remembered else []
    rows = []
    for outcome in outcomes:
        score = [_figure(outcome.score, ".6f"), _share(outcome.score, best)] if kind.score else []
        rows.append(
            [
                outcome.solver,
                *score,
                _figure(outcome.residual, ".1e"),
                status_in_words(outcome.status),
                _figure(outcome.passes, "g"),
                _figure(None if outcome.products is None else outcome.products / (k or 1), ".0f"),
                _figure(outcome.seconds, ".3f"),
                *([in_bytes(outcome.peak)] if remembered else []),
            ]
        )
    show_table(head, rows, right=[name for name in head if name not in ("solver", "status")])


def _share(score: float | None, best: float) -> str:
    return NOTHING if score is None or not best else percent(score / best)


def _figure(value: float | None, form: str) -> str:
    return NOTHING if value is None else format(value, form)
