"""`linspec compare`: several solvers on the same data, accuracy against passes, seconds and memory."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import IO, Any

import click

from linspec import registry
from linspec.cli import plots
from linspec.cli.failures import Command, Failure, printable
from linspec.cli.interrupts import INTERRUPTED, held
from linspec.cli.kinds import Kind
from linspec.cli.measured import Outcome, Request, answer_request, end_with_parent, run_apart
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
            _show(kind, given, outcomes)
        if any(not outcome.failed for outcome in outcomes):
            title = _title(kind, given)
            figures = [_figures(*run) for run in zip(requests, outcomes, strict=False)]
            write_all(
                [
                    (out, partial(_write, {"about": _about(kind, given), "rows": figures})),
                    (plot, partial(plots.draw_comparison, kind, outcomes, given["against"], title)),
                ]
            )
    if interrupts.came:
        click.get_current_context().exit(INTERRUPTED)
    if all(outcome.failed for outcome in outcomes):
        raise Failure("no solver gave a solution.")


@dataclass(frozen=True)
class _Variant:
    """Values of the problem's parameters, texts of options, and in what they differ from those of the others."""

    values: Mapping[str, Any]
    options: tuple[str, ...]
    words: str = ""


def _requests(kind: Kind, given: Mapping[str, Any], *, scored: bool) -> list[Request]:
    """One request a solver and variant; names and options are checked before any of them runs."""
    solvers = _names(kind, given["solvers"])
    variants = _variants(kind, given)
    requests: list[Request] = []
    for variant in variants:
        options = _distributed(kind, solvers, variant.options)
        for solver in solvers:
            tol = given["tol"] if solver == AUTO or "tol" in declared_names(kind.name, solver) else None
            solver_options(kind.name, solver, options[solver], tol)
            request = Request(
                problem=kind.name,
                files=[given[matrix.lower()] for matrix in kind.matrices],
                values=variant.values,
                solver=solver,
                options=options[solver],
                tol=tol,
                seed=given["seed"],
                max_passes=given["max_passes"],
                max_seconds=given["max_seconds"],
                scored=scored,
                variant=variant.words,
                held_out=given.get("held_out"),
                # What is wrong with any of the problems is told by the first run, before it begins.
                others=() if requests else tuple(other.values for other in variants[1:]),
            )
            if request not in requests:
                requests.append(request)
    return requests


def _variants(kind: Kind, given: Mapping[str, Any]) -> list[_Variant]:
    """Every combination of the values that were given, without those that mean the same."""
    grids = {
        name: [value for values in given[name] for value in values] or [None]
        for name in (str(parameter.name) for parameter in kind.own_parameters())
        if name in kind.varied
    }
    texts = [*given["options"]]
    named: dict[str, list[str]] = {}
    for text in texts:
        named.setdefault(text.partition("=")[0].strip().replace("-", "_"), []).append(text)
    found: dict[str, _Variant] = {}
    for chosen in product(*grids.values()):
        every = {**given, **dict(zip(grids, chosen, strict=True))}
        unused = kind.unused(every) if kind.unused else ()
        every |= {name: None for name in unused if name in grids}
        for options in product(*named.values()):
            own = (*kind.option_texts(every), *options)
            variant = _Variant(kind.values(every), own, _told(every, grids, options, named))
            found.setdefault(repr((variant.values, variant.options)), variant)
    return list(found.values())


def _told(
    every: Mapping[str, Any],
    grids: Mapping[str, Sequence[Any]],
    options: Sequence[str],
    named: Mapping[str, Sequence[str]],
) -> str:
    """The values that are not the same for all, in words."""
    words = [
        f"{name.replace('_', '-')} {every[name]:g}"
        if isinstance(every[name], float)
        else f"{name.replace('_', '-')} {every[name]}"
        for name, values in grids.items()
        if len(set(values)) > 1 and every[name] is not None
    ]
    words += [text for text, texts in zip(options, named.values(), strict=True) if len(set(texts)) > 1]
    return ", ".join(words)


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
    """The problem with what all variants have in common."""
    common = ", ".join(filter(None, (kind.name, kind.stated(_common(kind, given)))))
    return (
        common if given.get("held_out") is None else f"{common}, {given['held_out']:g} of the rows held out"
    )


def _common(kind: Kind, given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that have one value."""
    variants = [variant.values for variant in _variants(kind, given)]
    first = variants[0]
    return {name: value for name, value in first.items() if all(of[name] == value for of in variants)}


def _about(kind: Kind, given: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked, for a file."""
    import linspec

    files = {matrix: given[matrix.lower()] for matrix in kind.matrices}
    asked = {name: given.get(name) for name in ("held_out", "seed", "max_passes", "max_seconds")}
    return {
        "problem": kind.name,
        "files": files,
        **_common(kind, given),
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


def _show(kind: Kind, given: Mapping[str, Any], outcomes: Sequence[Outcome]) -> None:
    files = ", ".join(given[matrix.lower()] for matrix in kind.matrices)
    click.echo(f"{_title(kind, given)}: {printable(files)}\n")
    show_outcomes(kind, outcomes, given.get("k"))
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
        # Numbers of problems that differ are no shares of each other.
        kind.share: len({outcome.variant for outcome in outcomes}) > 1,
    }
    shown = [(name, cells) for name, cells in columns if not hidden.get(name)]
    head = [name for name, _ in shown]
    rows = list(zip(*(cells for _, cells in shown), strict=True))
    show_table(head, rows, right=[name for name in head if name not in ("solver", "variant", "status")])


def _share(score: float | None, best: float) -> str:
    return NOTHING if score is None or not best else percent(score / best)


def _figure(value: float | None, form: str) -> str:
    return NOTHING if value is None else format(value, form)
