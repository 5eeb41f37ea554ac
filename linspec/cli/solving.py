"""`linspec solve` and `linspec compare`: the answer of one solver, or the figures of several side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import Any

import click

import linspec
from linspec import plots, registry
from linspec.cli import data, output
from linspec.cli.commands import AUTO, BUDGETS, HELD_OUT, ROWS, SETTINGS, SOLVER, SOLVERS, option
from linspec.cli.output import Failure, Values, echo, refuse, show_facts, show_table
from linspec.cli.problems import ROW_FILES, Request, in_words, pair_of, typed
from linspec.process.paths import is_there
from linspec.process.progress import report_progress
from linspec.registry import options as solver_options
from linspec.solving import checkpoints
from linspec.solving.linear_solution import as_several
from linspec.solving.select import estimated
from linspec.solving.solution import weights_by_matrix
from linspec.solving.summary import percent
from linspec.studies.comparison import measured, solvers_to_compare, split, spread
from linspec.studies.held_out.scores import beside

# Numbers of columns with the largest weights of each sign, of vectors whose columns are named, of pairs
# that are drawn, and of rows in each.
LARGEST, VECTORS, PAIRS, MOST_POINTS = 5, 3, 3, 2000

# Without ``--solvers``, a solver has this many times the estimate of the fastest one, and at least these
# seconds.
TIMES, LEAST_SECONDS = 20, 1.0

# The options of `solve` that need one answer.
OF_ONE = ("out", "plot", "ridge_y", "explained", "loadings", "workers", "checkpoint", "start")


# ---- solve --------------------------------------------------------------------------------------


SOLVE = [
    *(SOLVER, HELD_OUT, *ROWS, *SETTINGS, *BUDGETS),
    option(
        "--checkpoint",
        help="Write what has been reached to FILE every minute, and where the run ends early.",
    ),
    option(
        "--start",
        help="Go on from a checkpoint, with the same data and options; or begin at a saved answer.",
    ),
    option("--out", help="Write the solution to FILE.npz or FILE.json."),
    option(
        "--plot", help="Draw values, how the run converged, and variates of the leading pairs, to FILE.png."
    ),
    option(
        "--workers",
        type=click.IntRange(1, 1024),
        help="Put the rows on so many processes, by way of dask.",
    ),
    option("--explained", is_flag=True, help="Show how much of each matrix the answer explains."),
    option(
        "--loadings",
        is_flag=True,
        help="Show the correlation of each column with each score, by name; the data are read again for that.",
    ),
    option(
        "--complete",
        is_flag=True,
        help="Prove that nothing is missing, if a matrix with a row for every column fits into memory.",
    ),
    option("--verbose", is_flag=True, help='Show the estimates by which "auto" chose the solver.'),
]


def _solve(request: Request) -> None:
    """Run `linspec solve`; as much as possible is checked before the data are read, the rest before the run."""
    combinations, context = request.values("ridge"), click.get_current_context()
    several = len(combinations) > 1
    each = several and not request.cls.stated.fields["ridge"].path
    out = output.check_target("--out", request["out"], (".npz", ".json"), request.inputs)
    plot = output.check_plot(request["plot"], request.inputs, out)
    solver = _as_begun(request)
    options = request.options(solver, request["options"])
    for name in filter(request.__getitem__, OF_ONE if each else ()):
        raise Failure(f"{typed(name)} is for one answer; got several ridges. Name one, or leave it out.")
    refuse(
        request["workers"] and request["held_out"],
        "--held-out takes rows out, and those on workers stay together. Leave one of them out.",
    )
    matrices, rows = request.read()
    if request["workers"]:
        matrices = context.with_resource(data.on_workers(request["workers"], request.files, matrices))
    values = {**combinations[0], **({"ridge": [one["ridge"] for one in combinations]} if several else {})}
    facts = request.facts(values, matrices)
    if each:
        problems = {f"ridge {one['ridge']:g}": request.state(one, matrices, rows) for one in combinations}
        table = _compared(request, problems, {solver: solver}, options)
        with output.finishing(table):
            show_facts(facts)
            _show(request, table.entries, of=True)
        return
    problem, held = request.state(values, matrices, rows), None
    if request["held_out"]:
        problem, held = split(problem, request["held_out"], request["seed"])
    begun = {**request.some("checkpoint", "start"), "complete": bool(request["complete"])}
    with _limits(request, solver) as limits:
        entry = measured(problem, solver, options, rows=held, **begun, **limits)
    with output.finishing(entry.solution):
        chosen = linspec.select(problem).reason if request["verbose"] and request["solver"] == AUTO else ""
        show_facts([*facts, ("solver", entry.solver), ("chosen", chosen), *_facts_of(entry, held)])
        _show_answer(request, entry.solution, problem, held)
        asked = {"drop_missing": context.meta.get(data.DROPPED), "score": entry.score}
        asked |= request.some("ids", "held_out")
        asked = {name: value for name, value in asked.items() if value is not None}
        about = request.about(values, "seed", options=options, seconds=entry.seconds, **asked)
        output.write_all(
            (out, partial(output.write_solution, entry.solution, about)),
            (plot, partial(output.draw, partial(_panels, entry.solution, problem, held))),
        )


def _as_begun(request: Request) -> str:
    """Return the name of the solver: the one that wrote the checkpoint of ``--start``, if the user names none."""
    start = request["start"]
    if request.solver != AUTO or start is None or not is_there(start) or not checkpoints.is_checkpoint(start):
        return request.solver
    return checkpoints.loaded(start).solver


def _facts_of(entry: Any, held: Any) -> list[tuple[str, str]]:
    """Return the facts of an answer, and its score on rows that were not fitted."""
    solution, facts = entry.solution, list(entry.solution.summary().facts)
    if held is None:
        return facts
    first, labels = next(iter(held.matrices.values())), getattr(held, "labels", None)
    score = f"{solution.layout.score} {entry.score:.6f}, on {first.shape[0]} rows not fitted"
    if labels is None or getattr(solution, "classes", None) is None:
        return [*facts, ("held out", score)]
    accuracy = solution.score(first, labels, **beside(held))
    return [*facts, ("held out", score), ("accuracy", f"{accuracy:.6f}, on these rows")]


def _show_answer(request: Request, solution: Any, problem: Any, held: Any) -> None:
    """Print the values, the columns with the largest weights, and what ``--explained`` and ``--loadings`` ask for."""
    rows = []
    for one in solution.along_path() if getattr(solution, "path", False) else ():
        score = {} if held is None else {"held out": one.score(*held.matrices.values(), **beside(held))}
        rows.append({"ridge": one.ridge, **dict(one.facts()), **score, "residual": one.residual})
    if rows or solution.summary():
        show_table(rows or solution.summary(), output.SHOWN)
    weights = weights_by_matrix(solution)
    for name in filter(solution.column_names.__contains__, weights):
        columns = solution.leading_columns(LARGEST, name)
        echo(f"\nlargest weights of {name}\n{type(columns)(columns[:VECTORS])}")
    matrices = {name: problem.matrices[name] for name in weights or problem.matrices}
    named = {name: getattr(problem, name, None) for name in ROW_FILES}
    named = {name: value for name, value in named.items() if value is not None}
    if request["explained"]:
        show_table(solution.explained_table(*matrices.values(), **named))
    if request["loadings"]:
        tables = solution.loadings_table(*matrices.values(), library="", **named)
        for name, table in zip(matrices, as_several(tables), strict=False):
            echo(f"\nloadings of {name}")
            show_table(table)


def _panels(solution: Any, problem: Any, held: Any) -> list[Callable[..., Any]]:
    """Return the panels of a picture: values, convergence, and the variates of the leading pairs."""
    panels: list[Callable[..., Any]] = [partial(plots.scree, solution)] if solution.layout.value else []
    if not panels or (solution.layout.certified and len(solution.history) > 1):
        panels.append(partial(plots.convergence, solution))
    if len(problem.matrices) != len("XY") or not {"x_weights", "transform"} <= {*dir(solution)}:
        return panels
    sides = [spread(problem, MOST_POINTS), *([] if held is None else [held])]
    fitted, *others = [solution.transform(*rows.matrices.values(), **beside(rows)) for rows in sides]
    variates = partial(plots.variates, *fitted, held_out=next(iter(others), None))
    return [*panels, *(partial(variates, pair=pair) for pair in range(min(PAIRS, fitted[0].shape[1])))]


# ---- compare ------------------------------------------------------------------------------------


COMPARE = [
    *(SOLVERS, HELD_OUT, *ROWS, *SETTINGS, *BUDGETS),
    option("--out", help="Write the figures of all runs to FILE.json."),
    option("--plot", help="Draw residuals against cost, to FILE.png."),
    option(
        "--against",
        type=click.Choice(["passes", "seconds", "iterations"]),
        help="The cost. By default passes, or seconds where Gram matrices are held.",
    ),
]


def _compare(request: Request) -> None:
    """Run `linspec compare`."""
    out = output.check_target("--out", request["out"], (".json",), request.inputs)
    plot = output.check_plot(request["plot"], request.inputs, out)
    combinations, runs = request.values("*"), _runs(request)
    shared = {name: v for name, v in combinations[0].items() if all(one[name] == v for one in combinations)}
    variants = {_variant(values, shared) or request.name: values for values in combinations}
    matrices, rows = request.read()
    problems = {label: request.state(values, matrices, rows) for label, values in variants.items()}
    slow = [] if request["solvers"] else _slow(request, next(iter(problems.values())))
    solvers = {label: solver for label, (name, _, solver) in runs.items() if name not in slow}
    options = {"tol": request["tol"]} if AUTO in solvers and request["tol"] else {}
    table, several = _compared(request, problems, solvers, options), len(variants) > 1
    with output.finishing(table):
        held = f", {request['held_out']:g} of the rows held out" if request["held_out"] else ""
        echo(f"{request.words(shared)}{held}: {', '.join(request.files.values())}")
        _show(request, table.entries, of=several)
        run = {name for name, _, _ in runs.values()}
        absent = [name for name in registry.solvers(request.name) if name not in run]
        if not request["solvers"] and (absent or slow or request["max_seconds"]):
            names = f"{', '.join(absent) or 'none'}; as slow: {', '.join(slow) or 'none'}"
            echo(
                f"\nleft out as demonstrations of failure: {names}. The limit of each was {request['max_seconds']} s."
            )
            echo("To run them, or without a limit, name solvers: --solvers NAME,NAME")
        figures = []
        for row in table.rows:
            name, texts, _ = runs[row["solver"]]
            of_run = {"variant": row["problem"] * several, "values": variants[row["problem"]]}
            figures.append({**row, "problem": request.name, "solver": name, **of_run, "options": texts})
        about = request.about(shared, "ids", "drop_missing", "held_out", "seed", "max_passes", "max_seconds")
        picture = partial(plots.convergence, table, against=request["against"])
        output.write_all(
            (out, partial(output.write_rows, {"about": about}, figures)),
            (plot, partial(output.draw, lambda: [picture])),
        )
    refuse(all(entry.failed for entry in table.entries), "no solver gave a solution.")


def _variant(values: Values, shared: Values) -> str:
    """Return the values that differ between the problems in words."""
    others = [(name, value) for name, value in values.items() if name not in shared and value is not None]
    return ", ".join(f"{name.replace('_', '-')} {in_words(value)}" for name, value in others)


def _runs(request: Request) -> dict[str, tuple[str, list[str], Any]]:
    """Return the name, the option texts and the solver of every run by its label, before the first one begins.

    An option goes to every solver that has it; one that is passed several times is tried with each value.
    """
    names = solvers_to_compare(request.name) if request["solvers"] is None else request["solvers"].split(",")
    grids: dict[str, list[str]] = {}
    for text in request["options"]:
        grids.setdefault(pair_of(text)[0], []).append(text)
    runs, unused = {}, set(request["options"])
    for name, chosen in product(map(str.strip, names), product(*grids.values())):
        cls = None if name == AUTO else registry.get_solver(name, request.name)
        declared = {each.name for each in solver_options.options_of(cls)} if cls else set()
        texts = [text for text in chosen if pair_of(text)[0].partition(".")[0] in declared]
        solver: Any = solver_options.build(cls, request.options(name, texts)) if cls else AUTO
        runs[", ".join([name, *texts])] = name, texts, solver
        unused -= {*texts}
    for text in unused:
        raise Failure(f"none of {', '.join(names)} has an option {pair_of(text)[0]!r}; got --option {text}.")
    return runs


def _slow(request: Request, problem: Any) -> list[str]:
    """Limit the time of each solver by the estimate of the fastest one, and return those that would take longer."""
    sizes = problem.sizes()
    stated = {name: estimated(problem, name, sizes)[1] for name in solvers_to_compare(request.name)}
    seconds = {name: estimate.seconds for name, estimate in stated.items() if estimate is not None}
    limit = max(LEAST_SECONDS, TIMES * min(seconds.values(), default=math.inf))
    if seconds and request["max_seconds"] is None:
        request.arguments["max_seconds"] = limit
    return [name for name, estimate in seconds.items() if estimate > limit]


# ---- both ---------------------------------------------------------------------------------------


@contextmanager
def _limits(request: Request, name: str) -> Iterator[Values]:
    """Show the progress of a run, and yield its seed, its budgets and its callback."""
    budgets = request.some("max_passes", "max_seconds")
    with report_progress(name, wanted=request["progress"]) as reporters:
        yield {"rng": request["seed"], "callback": next(iter(reporters), None), **budgets}


def _compared(request: Request, problems: Values, solvers: Values, options: Values) -> Any:
    """Solve each problem by each solver."""
    with _limits(request, ", ".join(solvers)) as limits:
        return linspec.compare(problems, solvers, held_out=request["held_out"], **limits, **options)


def _show(request: Request, entries: Sequence[Any], *, of: bool) -> None:
    """Print a row for each run, and the errors of solvers that failed; with `of`, of which problem each one is."""
    layout, k, rows = request.cls.solution.layout, (request["k"] or [1])[0], []
    values = f"{layout.value_label}s"
    best = max((entry.objective or 0.0 for entry in entries), default=0.0)
    for entry in entries:
        share = (entry.objective or 0.0) / best if best and not of else None
        shown = getattr(entry.solution, layout.value or "", ())[: output.SHOWN] if of else ()
        figures = {
            "solver": entry.solver,
            "variant": entry.problem * of,
            values: "  ".join(f"{value:.4f}" for value in shown),
            "held out": entry.score,
            layout.objective or f"sum of {values}": entry.objective and f"{entry.objective:.7g}",
            "of best": share and percent(share),
            "residual": entry.residual,
            "status": entry.status.lower().replace("_", " "),
            "passes": entry.passes,
            f"products of {k}": entry.products and entry.products / k,
            "seconds": entry.seconds,
            "CPU": entry.cpu_seconds,
        }
        rows.append(figures)
    filled = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)]
    show_table([{name: row[name] for name in filled} for row in rows])
    show_facts([(entry.solver, entry.message) for entry in entries if entry.failed])


COMMANDS = {
    "solve": (SOLVE, _solve, ""),
    "compare": (
        COMPARE,
        _compare,
        "An --option goes to every solver that has it. One that is given several times is tried with each value.",
    ),
}
