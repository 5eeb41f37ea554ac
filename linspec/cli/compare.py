"""`linspec compare`: several solvers on the same data, accuracy against passes, seconds and memory."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import IO, Any

import click

from linspec import registry
from linspec.cli import plots
from linspec.cli.failures import Command, Failure, printable, shortened
from linspec.cli.interrupts import INTERRUPTED, held
from linspec.cli.kinds import Kind
from linspec.cli.measured import Outcome, Request, answer_request, end_with_parent, run_apart
from linspec.cli.missing import drop_option
from linspec.cli.outputs import check_target, write_all
from linspec.cli.progress import Goal, shown_progress
from linspec.cli.results import plain
from linspec.cli.settings import (
    AUTO,
    ProblemGroup,
    complete_solver,
    declared_names,
    held_out_options,
    problem_command,
    run_parameters,
    solver_options,
    split_option,
    taking_several,
)
from linspec.cli.solve import FILES
from linspec.cli.tables import NOTHING, in_bytes, percent, show_facts, show_table, status_in_words

__all__ = ["compare", "measure", "show_outcomes"]

ABOUT = """Each solver runs in a fresh process that reads the files itself, so that its peak memory is its own.
An --option goes to every solver that has it; als.lstsq=gd goes to als alone. One that is given several times is tried
with each value."""


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
            help="Which solvers. By default all but demonstrations of failure.",
        ),
        *held_out_options(kind),
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
    out = check_target("--out", given["out"], (".json",), inputs=files)
    plot = plots.check_plot("--plot", given["plot"], inputs=files, others=[out])
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
            _show(kind, requests, outcomes)
        if any(not outcome.failed for outcome in outcomes):
            title = _title(kind, requests)
            figures = [_figures(*run) for run in zip(requests, outcomes, strict=False)]
            write_all(
                [
                    (out, partial(_write, {"about": _about(kind, requests), "rows": figures})),
                    (plot, partial(plots.draw_comparison, kind, outcomes, given["against"], title)),
                ]
            )
    if interrupts.came:
        click.get_current_context().exit(INTERRUPTED)
    if all(outcome.failed for outcome in outcomes):
        raise Failure("no solver gave a solution.")


def _requests(kind: Kind, given: Mapping[str, Any], *, scored: bool) -> list[Request]:
    """One request a problem, solver and options; names and options are checked before any of them runs."""
    solvers = _names(kind, given["solvers"])
    problems = _problems(kind, given)
    requests: dict[str, Request] = {}
    for (words, values), texts in product(problems.items(), _texts(kind, given)):
        options = _distributed(kind, solvers, [text for text, _ in texts])
        for solver in solvers:
            tol = given["tol"] if solver == AUTO or "tol" in declared_names(kind.name, solver) else None
            solver_options(kind.name, solver, [rest for _, rest in options[solver]], tol)
            own = {text for text, _ in options[solver]}
            tried = [text.replace("=", " ", 1) for text, varied in texts if varied and text in own]
            request = Request(
                problem=kind.name,
                files=[given[matrix.lower()] for matrix in kind.matrices],
                values=values,
                solver=solver,
                options=[rest for _, rest in options[solver]],
                tol=tol,
                seed=given["seed"],
                max_passes=given["max_passes"],
                max_seconds=given["max_seconds"],
                scored=scored,
                variant=", ".join(filter(None, [words, *tried])),
                held_out=given.get("held_out"),
                drop_missing=given["drop_missing"],
            )
            # Options that a solver does not have make no difference to it.
            requests.setdefault(repr((request.values, solver, request.options)), request)
    first, *others = requests.values()
    # What is wrong with any of the problems is told by the first run, before it begins.
    return [replace(first, others=list(problems.values())[1:]), *others]


def _problems(kind: Kind, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The values of every combination that was asked for, by the words for those that vary; each problem once."""
    names = [str(parameter.name) for parameter in kind.parameters() if parameter.name in kind.varied]
    grids = {name: _flat(given[name]) or [None] for name in names}
    found: dict[str, dict[str, Any]] = {}
    for chosen in product(*grids.values()):
        values = kind.values({**given, **dict(zip(names, chosen, strict=True))})
        unused = kind.unused(values) if kind.unused else ()
        values |= {name: None for name in names if name in unused}
        told = [name for name in names if len(grids[name]) > 1 and values[name] is not None]
        found.setdefault(
            ", ".join(f"{name.replace('_', '-')} {_short(values[name])}" for name in told), values
        )
    return found


def _texts(kind: Kind, given: Mapping[str, Any]) -> list[tuple[tuple[str, bool], ...]]:
    """Every combination of the options that were asked for: each text, and whether others stand in its place."""
    own = kind.solver_parameters() if kind.solver_parameters else []
    grids = {str(p.name): [f"{p.name}={value}" for value in _flat(given[str(p.name)])] for p in own}
    for text in given["options"]:
        grids.setdefault(text.partition("=")[0].strip().replace("-", "_"), []).append(text)
    chosen = [dict.fromkeys(texts) for texts in grids.values() if texts]
    return list(product(*([(text, len(texts) > 1) for text in texts] for texts in chosen)))


def _flat(given: Any) -> list[Any]:
    """The values of a parameter, each once: it may take several, several times."""
    if not isinstance(given, tuple):
        return [] if given is None else [given]
    return list(dict.fromkeys(value for values in given for value in values))


def _short(value: Any) -> str:
    """A value in as few digits as tell it from others."""
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _names(kind: Kind, text: str | None) -> list[str]:
    """The solvers to run, in the order in which they were named."""
    if text is None:
        from linspec.comparison import solvers_to_compare  # here: help loads no array library

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
    """Which solver gets which of the options: each as it was typed, and as that solver reads it."""
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


def _title(kind: Kind, requests: Sequence[Request]) -> str:
    """The problem with what all requests have in common."""
    common = ", ".join(filter(None, (kind.name, kind.stated(_common(requests)))))
    fraction = requests[0].held_out
    return common if fraction is None else f"{common}, {fraction:g} of the rows held out"


def _common(requests: Sequence[Request]) -> dict[str, Any]:
    """The parameters that have one value."""
    first, *others = (request.values for request in requests)
    return {name: value for name, value in first.items() if all(of[name] == value for of in others)}


def _about(kind: Kind, requests: Sequence[Request]) -> dict[str, Any]:
    """What was asked, for a file."""
    import linspec

    first = requests[0]
    asked = {name: getattr(first, name) for name in ("held_out", "seed", "max_passes", "max_seconds")}
    files = dict(zip(kind.matrices, first.files, strict=True))
    return {
        "problem": kind.name,
        "files": files,
        **_common(requests),
        **asked,
        "linspec": linspec.__version__,
    }


def _figures(request: Request, outcome: Outcome) -> dict[str, Any]:
    """One row of the table, for a file; the names are those of `linspec.compare`."""
    names = {"held_out": "score", "score": "objective", "cpu": "cpu_seconds", "peak": "memory"}
    told: tuple[str, ...] = (
        "status",
        "message",
        "converged",
        "tol",
        "held_out",
        "score",
        "residual",
        "passes",
        "iterations",
    )
    told = (*told, "products", "seconds", "cpu", "peak")
    figures = {names.get(name, name): getattr(outcome, name) for name in told}
    first = {"problem": request.problem, "variant": request.variant, "solver": request.solver}
    return {**first, "values": dict(request.values), "options": list(request.options), **figures}


def _write(content: Mapping[str, Any], stream: IO[bytes], _: str) -> None:
    stream.write(json.dumps(plain(content), indent=1, allow_nan=False).encode() + b"\n")


def _show(kind: Kind, requests: Sequence[Request], outcomes: Sequence[Outcome]) -> None:
    click.echo(f"{_title(kind, requests)}: {printable(', '.join(map(shortened, requests[0].files)))}\n")
    one = all(request.values == requests[0].values for request in requests)
    show_outcomes(kind, outcomes, requests[0].values.get("k"), shares=one)
    footnotes = [(outcome.label, outcome.message) for outcome in outcomes if outcome.failed]
    scored = [outcome for outcome in outcomes if outcome.held_out is not None]
    if scored:
        best = max(scored, key=lambda outcome: outcome.held_out or 0.0)
        footnotes.append(("held out", f"the score of rows that were not fitted; the best is {best.label}"))
    if any(outcome.peak for outcome in outcomes):
        text = "of a fresh process for each solver, with Python, its libraries and the data in memory"
        footnotes.append(("memory", text))
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
    shares : bool, default True
        Whether to show shares: the scores of problems that differ are no shares of each other.
    """
    best = best or max((outcome.score or 0.0 for outcome in outcomes), default=0.0)
    columns = [
        ("solver", [outcome.solver for outcome in outcomes]),
        ("variant", [outcome.variant for outcome in outcomes]),
        ("held out", [_figure(outcome.held_out, ".6f") for outcome in outcomes]),
    ]
    if kind.score:
        columns += [
            (kind.score.short, [_figure(outcome.score, ".6f") for outcome in outcomes]),
            (kind.share, [_share(outcome.score, best) for outcome in outcomes]),
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
        ("CPU", [_figure(outcome.cpu, ".3f") for outcome in outcomes]),
        ("memory", [in_bytes(outcome.peak) for outcome in outcomes]),
    ]
    hidden = {
        "variant": not any(outcome.variant for outcome in outcomes),
        "held out": all(outcome.held_out is None for outcome in outcomes),
        "memory": not any(outcome.peak for outcome in outcomes),
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
