"""`linspec solve`: one problem, one solver, its answer as a table and, where asked, as files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import click

from linspec.cli import plots
from linspec.cli.data import described, read_matrix
from linspec.cli.failures import Command
from linspec.cli.interrupts import INTERRUPTED, held
from linspec.cli.kinds import Kind
from linspec.cli.measured import Limits, Outcome, loaded, measured_solve
from linspec.cli.outputs import check_room, check_target, write_all
from linspec.cli.progress import Goal, shown_progress
from linspec.cli.results import FORMATS, least_bytes, write_solution
from linspec.cli.settings import (
    AUTO,
    ProblemGroup,
    complete_solver,
    held_out_options,
    only_declared,
    problem_command,
    run_parameters,
    solver_options,
)
from linspec.cli.tables import show_facts, status_in_words

if TYPE_CHECKING:
    from linspec.comparison import Rows
    from linspec.plots.answers import Cloud

__all__ = ["solve"]

FILES = """Files: .npy (read in blocks, never loaded whole), .npz (dense: FILE.npz:NAME picks an array; or of
scipy.sparse), .mtx, .svm (FILE.svm:labels and FILE.svm:classes for the labels), .csv, .tsv, .txt."""

JUDGED = {
    "recomputed": "recomputed by a sweep",
    "bound": "from above",
    "unavailable": "as the law cannot judge this answer",
}
"""How residuals come about, by their kind; of others from what is held."""


def _command(kind: Kind) -> Command:
    def action(**given: Any) -> None:
        _solve(kind, given)

    what = "how the run converged" + (", and the variates of the leading pairs" if kind.variates else "")
    parameters = [
        *kind.own_parameters(),
        click.Option(
            ["--solver"],
            shell_complete=complete_solver,
            default=kind.solver,
            show_default=True,
            help="As `linspec solvers` lists.",
        ),
        *held_out_options(kind),
        *run_parameters(),
        click.Option(["--out"], metavar="FILE", help="Write the solution to FILE.npz or FILE.json."),
        click.Option(["--plot"], metavar="FILE", help=f"Draw {what}, to FILE.png."),
    ]
    return problem_command(kind, action, FILES, parameters)


solve = ProblemGroup("solve", "Solve a problem with data from files.", _command)


def _solve(kind: Kind, given: Mapping[str, Any]) -> None:
    """Everything that can be refused is refused before the data are read, or before the run."""
    files = {matrix: given[matrix.lower()] for matrix in kind.matrices}
    out = check_target("--out", given["out"], FORMATS, inputs=files.values())
    plot = plots.check_plot("--plot", given["plot"], inputs=files.values(), others=[out])
    name, tol = given["solver"], given["tol"]
    options = solver_options(kind.name, name, [*kind.option_texts(given), *given["options"]], tol)
    values = kind.values(given)
    matrices = {matrix: read_matrix(text) for matrix, text in files.items()}
    problem = kind.construct(list(matrices.values()), values)
    problem, rows = _parted(problem, given)
    name, reason, options = _chosen(problem, name, options)
    if out:
        check_room(out, least_bytes(problem))
    loaded(problem, name, options)
    with held() as interrupts:  # from here on there may be an answer, which is shown and written
        solution, outcome = _run(problem, name, options, given, rows)
        seconds = outcome.seconds or 0.0
        show_facts(
            [
                ("problem", f"{kind.name}, {kind.stated(values)}"),
                *((matrix, f"{files[matrix]} ({described(data)})") for matrix, data in matrices.items()),
                ("solver", solution.solver),
                ("chosen", reason),
                *kind.answer(solution),
                ("held out", _on_held_out(solution, outcome, rows)),
                *_ending(solution, seconds),
            ]
        )
        about = {"problem": kind.name, "files": files, **values, "options": options, "seed": given["seed"]}
        about |= {"held_out": given.get("held_out"), "score": outcome.held_out} if rows else {}
        about = {**about, "seconds": seconds, "linspec": _version()}
        write_all(
            [
                (out, partial(write_solution, solution, about)),
                (plot, partial(_draw, kind, solution, outcome, problem, rows)),
            ]
        )
    if interrupts.came or solution.status.name == "INTERRUPTED":
        click.get_current_context().exit(INTERRUPTED)


def _chosen(problem: Any, name: str, options: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """The solver's name, why it was chosen, and its options."""
    if name != AUTO:
        return name, "", options
    import linspec

    selection = linspec.select(problem)
    return selection.name, selection.reason, only_declared(problem.name, selection.name, options)


def _parted(problem: Any, given: Mapping[str, Any]) -> tuple[Any, Rows | None]:
    """The problem on the rows that are fitted, and the rows that are not."""
    if given.get("held_out") is None:
        return problem, None
    from linspec.comparison import split  # here: help loads no array library

    return split(problem, given["held_out"], given["seed"])


def _on_held_out(solution: Any, outcome: Outcome, rows: Rows | None) -> str:
    """What the answer is worth on rows that were not fitted."""
    if rows is None or outcome.held_out is None:
        return ""
    return f"{type(solution).score_label} {outcome.held_out:.6f}, on {len(rows)} rows that were not fitted"


def _draw(
    kind: Kind,
    solution: Any,
    outcome: Outcome,
    problem: Any,
    rows: Rows | None,
    stream: IO[bytes],
    suffix: str,
) -> None:
    """Draw the run, and the variates where there are some; they are made here, once the answer is shown and written."""
    clouds = _clouds(solution, problem, rows) if kind.variates else ()
    plots.draw_run(kind, solution, outcome, clouds, stream, suffix)


def _clouds(solution: Any, problem: Any, rows: Rows | None) -> list[Cloud]:
    """The variates of some fitted rows, and of some that were held out, in pairs."""
    from linspec.arrays import to_host
    from linspec.comparison import Rows
    from linspec.plots.answers import MOST_POINTS, Cloud

    found = []
    fitted = Rows.of(problem).spread(MOST_POINTS)
    for label, part in (("fitted rows", fitted), ("held-out rows", rows)):
        if part is not None:
            matrices, named = part.arguments
            P, Q = solution.transform(*matrices, **named)
            found.append(Cloud(label, to_host(P), to_host(Q)))
    return found


def _run(
    problem: Any, name: str, options: Mapping[str, Any], given: Mapping[str, Any], rows: Rows | None
) -> tuple[Any, Outcome]:
    """The solution, and the figures of the run."""
    goal = Goal(
        tol=options.get("tol") or problem.default_tol,
        max_passes=given["max_passes"] or math.inf,
        max_seconds=given["max_seconds"] or math.inf,
    )
    limits = Limits(given["seed"], given["max_passes"], given["max_seconds"])
    with shown_progress(name, goal, given["progress"]) as report:
        solution, figures = measured_solve(problem, name, options, limits, report=report, rows=rows)
    return solution, Outcome(solver=solution.solver, **figures)


def _ending(solution: Any, seconds: float) -> list[tuple[str, str]]:
    from linspec.run import WARNED

    how = JUDGED.get(solution.residual_kind, "from the Gram matrices that are held")
    # A warning says the message already, on standard error.
    message = "" if solution.status in WARNED else f": {solution.message}"
    return [
        ("residual", f"{solution.residual:.3g}, {how}"),
        ("status", f"{status_in_words(solution.status.name)}{message}"),
        (
            "passes",
            f"{solution.passes:g} ({solution.iterations} iteration{'' if solution.iterations == 1 else 's'})",
        ),
        ("seconds", f"{seconds:.3g}"),
    ]


def _version() -> str:
    import linspec

    return linspec.__version__
