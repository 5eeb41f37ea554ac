"""`linspec solve`: one problem, one solver, its answer as a table and, if requested, as files."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import click

from linspec.cli import plots
from linspec.cli.columns import NamedMatrix
from linspec.cli.data import described
from linspec.cli.failures import Command, Failure, in_one_line, shortened
from linspec.cli.ids import ids_option
from linspec.cli.interrupts import INTERRUPTED, held
from linspec.cli.kinds import Kind
from linspec.cli.missing import drop_option, read_inputs
from linspec.cli.outputs import check_room, check_target, write_all
from linspec.cli.results import FORMATS, least_bytes, write_solution
from linspec.cli.settings import (
    AUTO,
    ProblemGroup,
    held_out_options,
    only_declared,
    problem_command,
    run_parameters,
    solver_option,
    solver_options,
)
from linspec.cli.tables import show_facts, show_table, status_in_words
from linspec.process.paths import is_there
from linspec.process.plurals import count_of
from linspec.process.progress import Goal, report_progress

if TYPE_CHECKING:  # they load array libraries, which help does without
    from linspec.cli.measured import Outcome
    from linspec.plots.answers import Cloud
    from linspec.studies.comparison import Rows

__all__ = ["FILES", "answer_rows", "files_in_words", "parted", "solve"]

FILES = """Files: .npy (read in blocks, never loaded whole), .npz (dense: FILE.npz:NAME picks an array; or of
scipy.sparse), .mtx, .svm (FILE.svm:labels and FILE.svm:classes for the labels), .zarr, .h5, .h5ad (read in slices;
FILE.h5ad:layers/counts picks a part), .parquet, .csv, .tsv, .txt (FILE:a,b..d picks columns by name, FILE:~a all
others). The files of a pattern in quotes, such as 'day*.h5ad', are one matrix."""

LARGEST, LARGEST_OF_PATH, VECTORS = 5, 3, 3
"""For the first VECTORS vectors of each matrix, the LARGEST weights are shown, with the names of their columns. For
each of several ridges, the LARGEST_OF_PATH coefficients are shown."""

MOST_WORKERS = 1024
"""Largest number of processes; a larger one is probably a typing error, and would block the machine."""

TO_GO_ON = "Pass start="
"""The beginning of the sentence on a checkpoint in the message of an answer."""

NAME = 60
"""Largest number of characters that are shown of a column's name."""


def _command(kind: Kind) -> Command:
    def action(**given: Any) -> None:
        _solve(kind, given)

    what = "how the run converged" + (", and the variates of the leading pairs" if kind.variates else "")
    parameters = [
        *kind.own_parameters(),
        solver_option(kind),
        *held_out_options(kind),
        ids_option(),
        drop_option(),
        *run_parameters(),
        click.Option(
            ["--checkpoint"],
            metavar="FILE",
            help="Write what has been reached to FILE every minute, and where a budget or Ctrl-C ends the run.",
        ),
        click.Option(
            ["--start"],
            metavar="FILE",
            help="Go on from a checkpoint, with the same data and options; or begin at an answer of --out FILE.npz.",
        ),
        click.Option(["--out"], metavar="FILE", help="Write the solution to FILE.npz or FILE.json."),
        click.Option(["--plot"], metavar="FILE", help=f"Draw {what}, to FILE.png."),
        click.Option(
            ["--workers"],
            type=click.IntRange(min=1, max=MOST_WORKERS),
            metavar="N",
            help="Put the rows on so many processes of this machine, by way of dask.",
        ),
    ]
    if kind.explained is not None:
        again = "; the data are read again for that" if kind.explained_by_rows else ""
        text = f"Show how much of each matrix the answer explains{again}."
        parameters.append(click.Option(["--explained"], is_flag=True, help=text))
    if kind.loadings:
        text = (
            "Show the correlation of each column with each score, by name; the data are read again for that."
        )
        parameters.append(click.Option(["--loadings"], is_flag=True, help=text))
    if kind.proves_completeness:
        text = "Prove that nothing is missing, if a matrix with a row for every column of the files fits into memory."
        parameters.append(click.Option(["--complete"], is_flag=True, help=text))
    text = 'Show the estimates by which "auto" chose the solver.'
    parameters.append(click.Option(["--verbose"], is_flag=True, help=text))
    return problem_command(kind, action, FILES, parameters)


solve = ProblemGroup("solve", "Solve a problem with data from files.", _command)


def _solve(kind: Kind, given: Mapping[str, Any]) -> None:
    """Run `linspec solve`; as much as possible is checked before the data are read, the rest before the run."""
    from linspec.cli.measured import loaded  # here: help loads no array library

    files = kind.files(given)
    out = check_target("--out", given["out"], FORMATS, inputs=kind.inputs(given))
    plot = plots.check_plot("--plot", given["plot"], inputs=kind.inputs(given), others=[out])
    name, tol = _as_begun(given["solver"], given["start"]), given["tol"]
    options = solver_options(kind.name, name, [*kind.option_texts(given), *given["options"]], tol)
    values = kind.values(given)
    kind.check_used(values)
    ridges = values.get("ridge")
    if given.get("explained") and kind.explained_by_rows and values.get("sample_weight") is not None:
        raise Failure("--explained counts every row once; got --sample-weight. Leave one of them out.")
    if isinstance(ridges, tuple) and not kind.path:
        _check_one_by_one(given, out or plot)
    matrices, beside, told = read_inputs(
        files, values, kind.labels, drop=given["drop_missing"], ids=given["ids"]
    )
    if told:
        click.echo(told, err=True)
    if isinstance(ridges, tuple) and not kind.path:
        _solve_each(kind, given, values, matrices, beside)
        return
    problem = kind.construct(list(_placed(kind, given, matrices).values()), values, beside)
    problem, rows = parted(problem, given)
    name, reason, options = _chosen(problem, name, options)
    if out:
        check_room(out, least_bytes(problem))
    loaded(problem, name, options)
    with held() as interrupts:  # from here on there may be an answer, which is shown and written
        outcome = _run(problem, name, options, given, rows)
        solution = outcome.solution
        seconds = outcome.seconds or 0.0
        show_facts(
            [
                ("problem", f"{kind.name}, {kind.stated(values)}"),
                *files_in_words(files, matrices),
                ("solver", solution.solver),
                ("chosen", reason if given["verbose"] else ""),
                *answer_rows(kind, solution, values),
                *_largest_weights(solution),
                ("held out", _on_held_out(solution, outcome, rows)),
                *_ending(solution, seconds),
            ]
        )
        if isinstance(ridges, tuple):
            _show_path(kind, ridges, solution, rows)
        if given.get("explained") and kind.explained is not None:
            click.echo()
            head, shares = kind.explained(solution, list(problem.matrices.values()), problem.confounds)
            show_table(head, shares, right=head)
        if given.get("loadings"):
            _show_loadings(solution, problem)
        if kind.advice is not None and (advice := kind.advice(solution, values)):
            click.echo(f"Warning: {in_one_line(advice)}", err=True)
        about = {"problem": kind.name, "files": files, **values, "options": options, "seed": given["seed"]}
        about |= {"ids": given["ids"]} if given["ids"] else {}
        about |= {"drop_missing": told} if told else {}
        about |= {"held_out": given.get("held_out"), "score": outcome.score} if rows else {}
        about = {**about, "seconds": seconds, "linspec": _version()}
        write_all(
            [
                (out, partial(write_solution, solution, about)),
                (plot, partial(_draw, kind, solution, outcome, problem, rows)),
            ]
        )
        if TO_GO_ON in solution.message:
            click.echo(f"to go on: the same command with --start {shlex.quote(given['checkpoint'])}")
    if interrupts.came or solution.status.name == "INTERRUPTED":
        click.get_current_context().exit(INTERRUPTED)


def answer_rows(kind: Kind, solution: Any, values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of an answer; the values of components say that a ridge has shrunk them, if there is one."""
    rows = kind.answer(solution)
    if rows and solution.layout.value and kind.has_ridge(values):
        (label, text), *others = rows
        return [(label, f"{text}, with the ridge"), *others]
    return rows


def _placed(
    kind: Kind, given: Mapping[str, Any], matrices: Mapping[str, NamedMatrix]
) -> Mapping[str, NamedMatrix]:
    """Return the matrices. If ``--workers`` was passed, put the rows of matrices of numbers on dask workers.

    The workers are processes of this machine, which end when the command ends.
    """
    count = given.get("workers")
    if count is None:
        return matrices
    if given.get("held_out") is not None:
        raise Failure("--held-out takes rows out, and those on workers stay together. Leave one of them out.")
    from linspec.cli.workers import on_workers

    return click.get_current_context().with_resource(on_workers(count, matrices, kept=kind.labels))


def _check_one_by_one(given: Mapping[str, Any], target: Any) -> None:
    """Refuse options that need a single answer, if there are several ridges."""
    if target is not None:
        raise Failure(f"{target.option} is for one answer; got several ridges. Name one, or leave it out.")
    if given.get("ridge_y") is not None:
        raise Failure("--ridge-y stands beside one ridge; got several. Leave it out.")
    for option in ("explained", "loadings", "workers", "checkpoint", "start"):
        if given.get(option):
            raise Failure(f"--{option} is for one answer; got several ridges. Name one, or leave it out.")


def _solve_each(
    kind: Kind,
    given: Mapping[str, Any],
    values: Mapping[str, Any],
    matrices: Mapping[str, Any],
    beside: Mapping[str, Any],
) -> None:
    """Solve for each ridge, and print one table."""
    rows: list[list[str]] = []
    head: list[str] = []
    reasons: list[str] = []
    problems = {
        ridge: kind.construct(list(matrices.values()), {**values, "ridge": ridge}, beside)
        for ridge in values["ridge"]
    }
    with held() as interrupts:
        for ridge, problem in problems.items():
            if interrupts.came:
                break
            texts = [*kind.option_texts(given), *given["options"]]
            options = solver_options(kind.name, given["solver"], texts, given["tol"])
            problem, left_out = parted(problem, given)
            name, reason, options = _chosen(problem, given["solver"], options)
            reasons.append(reason)
            outcome = _run(problem, name, options, given, left_out)
            solution = outcome.solution
            answer = kind.answer(solution)[:2]
            if outcome.score is not None:
                answer.append(("held out", f"{outcome.score:.6f}"))
            figures = [
                f"{solution.residual:.1e}",
                status_in_words(solution.status.name),
                f"{solution.passes:g}",
            ]
            head = [
                "ridge",
                *(label for label, _ in answer),
                "residual",
                "status",
                "passes",
                "seconds",
                "solver",
            ]
            answers = [text for _, text in answer]
            rows.append([f"{ridge:g}", *answers, *figures, f"{outcome.seconds or 0.0:.3g}", solution.solver])
        if rows:
            show_facts(
                [
                    ("problem", f"{kind.name}, {kind.stated(values)}"),
                    *files_in_words(kind.files(given), matrices),
                    ("chosen, first ridge", reasons[0] if given["verbose"] else ""),
                ]
            )
            click.echo()
            show_table(head, rows, right=["ridge", "sum", "held out", "residual", "passes", "seconds"])
    if interrupts.came:
        click.get_current_context().exit(INTERRUPTED)


def files_in_words(files: Mapping[str, str], matrices: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the file of each matrix, with its shape and kind."""
    return [(name, f"{shortened(files[name])} ({described(data)})") for name, data in matrices.items()]


def _show_path(kind: Kind, ridges: tuple[float, ...], solution: Any, held_out: Rows | None) -> None:
    """Print a table with one row for each ridge of a path."""
    rows, shown = [], kind.along_path or kind.answer
    for ridge, one in zip(ridges, solution.along_path(), strict=True):
        row = {"ridge": f"{ridge:g}", **dict(shown(one))}
        if held_out is not None:
            matrices, named = held_out.arguments
            row["held out"] = f"{one.score(*matrices, **named):.6f}"
        row["residual"] = f"{one.residual:.1e}"
        row |= {f"largest, {vector}": text for _, vector, text in _largest(one, LARGEST_OF_PATH)}
        rows.append(row)
    click.echo()
    head = list(rows[0])
    right = [name for name in head if not name.startswith("largest")]
    show_table(head, [list(row.values()) for row in rows], right=right)


def _show_loadings(solution: Any, problem: Any) -> None:
    """Print a table of the loadings on the fitted rows for each matrix whose columns have some."""
    from linspec.solving.linear_solution import as_several  # here: help loads no array library
    from linspec.solving.solution import weights_by_matrix

    names = list(weights_by_matrix(solution)) or list(problem.matrices)
    beside = {name: getattr(problem, name, None) for name in ("confounds", "sample_weight")}
    beside = {name: value for name, value in beside.items() if value is not None}
    tables = solution.loadings_table(*(problem.matrices[name] for name in names), library="", **beside)
    for name, rows in zip(names, as_several(tables), strict=True):
        click.echo(f"\nloadings of {name}")
        head = list(rows[0])
        cells = [[str(row["column"]), *(f"{row[vector]:.4f}" for vector in head[1:])] for row in rows]
        show_table(head, cells, right=head[1:])


def _largest_weights(solution: Any) -> list[tuple[str, str]]:
    """Return the largest weights of the first vectors, with the names of their columns."""
    if getattr(solution, "path", False):
        return []
    return [(f"{matrix}, {vector}", text) for matrix, vector, text in _largest(solution, LARGEST)]


def _largest(solution: Any, count: int) -> list[tuple[str, str, str]]:
    """Return matrix, vector and largest weights in words, for the first vectors of matrices with names."""
    found: list[tuple[str, str, str]] = []
    from linspec.solving.solution import weights_by_matrix  # here: help loads no array library

    for matrix in weights_by_matrix(solution):
        if matrix not in solution.column_names:
            continue
        rows = solution.weights_table(matrix, library="")
        for vector in list(rows[0])[1 : VECTORS + 1]:
            largest = sorted(rows, key=lambda row: -abs(row[vector]))[:count]
            text = ",  ".join(f"{shortened(row['column'], NAME)} {row[vector]:.4g}" for row in largest)
            found.append((matrix, vector, text + (",  …" if len(rows) > count else "")))
    return found


def _as_begun(name: str, start: str | None) -> str:
    """Return the name of the solver: the solver that wrote the checkpoint `start`, if the user names no solver.

    `name` is returned unchanged if it is not "auto", if there is no `start`, or if `start` is a saved solution.
    """
    if name != AUTO or start is None:
        return name
    from linspec.solving import checkpoints

    there = is_there(start) and checkpoints.is_checkpoint(start)
    return checkpoints.loaded(start).solver if there else name


def _chosen(problem: Any, name: str, options: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return the name of the solver, the reason why "auto" chose it, and the options of the solver.

    If the user named a solver, the reason is "" and all options are returned. If not, options that the chosen solver
    does not declare are left out.
    """
    if name != AUTO:
        return name, "", options
    import linspec

    selection = linspec.select(problem)
    return selection.name, selection.reason, only_declared(problem.name, selection.name, options)


def parted(problem: Any, given: Mapping[str, Any]) -> tuple[Any, Rows | None]:
    """Return the problem on the fitted rows, and the held-out rows, or None if there are none."""
    if given.get("held_out") is None:
        return problem, None
    from linspec.studies.comparison import split

    return split(problem, given["held_out"], given["seed"])


def _on_held_out(solution: Any, outcome: Outcome, rows: Rows | None) -> str:
    """Return the score of the answer on held-out rows in words, or ""."""
    if rows is None or outcome.score is None:
        return ""
    scores = f"{type(solution).layout.score} {outcome.score:.6f}"
    if rows.labels is not None and solution.classes is not None:
        (X, _), named = rows.arguments
        scores += f", accuracy {solution.score(X, rows.labels, **named):.6f}"
    return f"{scores}, on {count_of(len(rows), 'row')} not fitted"


def _draw(
    kind: Kind,
    solution: Any,
    outcome: Outcome,
    problem: Any,
    rows: Rows | None,
    stream: IO[bytes],
    suffix: str,
) -> None:
    """Draw the run, and its variates, which are computed only here, after the answer is shown and written."""
    clouds = _clouds(solution, problem, rows) if kind.variates else ()
    plots.draw_run(kind, solution, outcome, clouds, stream, suffix)


def _clouds(solution: Any, problem: Any, rows: Rows | None) -> list[Cloud]:
    """Compute the variates of some fitted rows, and of the held-out rows, in pairs."""
    from linspec.arrays import to_host
    from linspec.plots.answers import MOST_POINTS, Cloud
    from linspec.studies.comparison import Rows

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
) -> Outcome:
    """Solve the problem, and return the outcome, which holds the solution and the figures of the run."""
    from linspec.cli.measured import Limits, solved  # here: help loads no array library

    goal = Goal(
        tol=options.get("tol") or problem.default_tol,
        max_passes=given["max_passes"] or math.inf,
        max_seconds=given["max_seconds"] or math.inf,
    )
    files = given["checkpoint"], given["start"]
    complete = bool(given.get("complete"))
    limits = Limits(given["seed"], given["max_passes"], given["max_seconds"], *files, complete)
    with report_progress(name, given["progress"], goal) as reporters:
        return solved(problem, name, options, limits, reporters=reporters, rows=rows)


def _ending(solution: Any, seconds: float) -> list[tuple[str, str]]:
    from linspec.solving.solution import without_figures
    from linspec.solving.verdict import WARNED

    said, note = without_figures(solution.message, solution.residual, solution.tol)
    # A warning has printed the message already, on standard error.
    message = "" if solution.status in WARNED else f": {said}{note}".replace(TO_GO_ON, "Pass --start ")
    limit = "" if solution.tol is None else f", tolerance {solution.tol:.2g}"
    return [
        ("residual", f"{solution.residual:.3g} ({solution.about_residual}){limit}"),
        ("status", f"{status_in_words(solution.status.name)}{message}"),
        (
            "passes",
            f"{solution.passes:g} ({count_of(solution.iterations, 'iteration')})",
        ),
        ("seconds", f"{seconds:.3g}"),
    ]


def _version() -> str:
    import linspec

    return linspec.__version__
