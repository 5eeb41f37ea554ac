"""`linspec solve` and `linspec compare`: the answer of one solver, or the figures of several side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import click

import linspec
from linspec import plots, registry
from linspec.cli import output
from linspec.cli.commands import AUTO, BUDGETS, HELD_OUT, ROWS, SETTINGS, SOLVER, SOLVERS, option
from linspec.cli.output import Failure, echo, show_facts, show_table
from linspec.cli.problems import Request, in_words, pair_of, typed
from linspec.cli.workers import on_workers
from linspec.process.paths import is_there
from linspec.process.progress import Goal, report_progress
from linspec.registry import options as solver_options
from linspec.solving import checkpoints
from linspec.solving.linear_solution import as_several
from linspec.solving.select import estimated
from linspec.solving.solution import weights_by_matrix
from linspec.studies.comparison import Rows, measured, solvers_to_compare, split

LARGEST, VECTORS, PAIRS, MOST_POINTS = 5, 3, 3, 2000
"""Numbers of columns with the largest weights of each sign, of vectors whose columns are named, of pairs that are
drawn, and of rows in each."""

TIMES, LEAST_SECONDS = 20, 1.0
"""Without ``--solvers``, a solver has this many times the estimate of the fastest one, and at least these seconds."""

OF_ONE = ("out", "plot", "ridge_y", "explained", "loadings", "workers", "checkpoint", "start")
"""The options of `solve` that need one answer."""


# ---- solve --------------------------------------------------------------------------------------


def _solve_parameters(cls: Any) -> list[click.Parameter]:
    flags = {
        "explained": "Show how much of each matrix the answer explains.",
        "loadings": "Show the correlation of each column with each score, by name; the data are read again for that.",
        "complete": "Prove that nothing is missing, if a matrix with a row for every column fits into memory.",
        "verbose": 'Show the estimates by which "auto" chose the solver.',
    }
    offered = {name: hasattr(cls.solution, f"{name}_table") for name in ("explained", "loadings")}
    offered["complete"] = cls.proves_completeness
    return [
        SOLVER,
        *([HELD_OUT] if hasattr(cls.solution, "score") else []),
        *(ROWS + SETTINGS + BUDGETS),
        option("--checkpoint", help="Write what has been reached to FILE every minute, and where the run ends early."),
        option("--start", help="Go on from a checkpoint, with the same data and options; or begin at a saved answer."),
        option("--out", help="Write the solution to FILE.npz or FILE.json."),
        option("--plot", help="Draw values, how the run converged, and variates of the leading pairs, to FILE.png."),
        option("--workers", type=click.IntRange(1, 1024), help="Put the rows on so many processes, by way of dask."),
        *(option(f"--{n}", is_flag=True, help=text) for n, text in flags.items() if offered.get(n, True)),
    ]


def _solve(request: Request) -> None:
    """Run `linspec solve`; as much as possible is checked before the data are read, the rest before the run."""
    combinations = request.values("ridge")
    several = len(combinations) > 1
    path = several and request.cls.stated.fields["ridge"].path
    values = {**combinations[0], **({"ridge": [one["ridge"] for one in combinations]} if several else {})}
    out = output.check_target("--out", request["out"], (".npz", ".json"), request.inputs)
    plot = output.check_plot(request["plot"], request.inputs, out)
    solver = _as_begun(request)
    options = request.options(solver, request["options"])
    for name in filter(request.__getitem__, OF_ONE if several and not path else ()):
        raise Failure(f"{typed(name)} is for one answer; got several ridges. Name one, or leave it out.")
    if request["workers"] and request["held_out"]:
        raise Failure("--held-out takes rows out, and those on workers stay together. Leave one of them out.")
    matrices, rows = request.read()
    if request["workers"]:

        workers = on_workers(request["workers"], request.files, matrices)
        matrices = click.get_current_context().with_resource(workers)
    if several and not path:
        problems = {f"ridge {one['ridge']:g}": request.state(one, matrices, rows) for one in combinations}
        table = _compared(request, problems, {solver: solver}, options)
        with output.finishing(table):
            show_facts(request.facts(values, matrices))
            _show(request, table.entries, of=True)
    else:
        _solve_one(request, values, matrices, request.state(values, matrices, rows), (solver, options), out, plot)


def _as_begun(request: Request) -> str:
    """Return the name of the solver: the one that wrote the checkpoint of ``--start``, if the user names none."""
    start = request["start"]
    if request.solver != AUTO or start is None or not is_there(start) or not checkpoints.is_checkpoint(start):
        return request.solver
    return checkpoints.loaded(start).solver


def _solve_one(
    request: Request,
    values: Mapping[str, Any],
    matrices: Mapping[str, Any],
    problem: Any,
    run: tuple[str, dict[str, Any]],
    *files: output.Target | None,
) -> None:
    """Solve one problem, show the answer, and write it."""
    (solver, options), held = run, None
    if request["held_out"]:
        problem, held = split(problem, request["held_out"], request["seed"])
    reason = linspec.select(problem).reason if request["verbose"] and solver == AUTO else ""
    begun = {**request.some("checkpoint", "start"), "complete": bool(request["complete"])}
    with report_progress(solver, request["progress"], _goal(request, options, problem)) as reporters:
        entry = measured(problem, solver, options, rows=held, **begun, **_limits(request, reporters))
    solution = entry.solution
    with output.finishing(solution):
        summary, path = solution.summary(), getattr(solution, "path", False)
        score = f"{solution.layout.score} {entry.score:.6f}" if entry.score is not None else ""
        if score and held.labels is not None and solution.classes is not None:
            accuracy = solution.score(held.matrices[0], held.labels, **held.arguments[1])
            score += f", accuracy {accuracy:.6f}"
        facts = [*request.facts(values, matrices), ("solver", solution.solver), ("chosen", reason), *summary.facts]
        show_facts([*facts, ("held out", score and f"{score}, on {len(held)} rows not fitted")])
        if path or summary:
            show_table(_of_path(solution, held) if path else summary, output.SHOWN)
        _show_columns(request, solution, problem)
        asked = {name: value for name, value in request.some("ids", "drop_missing", "held_out").items() if value}
        asked |= {} if held is None else {"score": entry.score}
        about = request.about(values, "seed", options=options, seconds=entry.seconds, **asked)
        output.write_all(
            (files[0], partial(output.write_solution, solution, about)),
            (files[1], partial(output.draw, partial(_panels, solution, problem, held))),
        )
        if "Pass start=" in solution.message:
            echo(f"to go on: the same command with --start {request['checkpoint']}")


def _of_path(solution: Any, held: Any) -> list[dict[str, Any]]:
    """Return a row for each ridge of a path."""
    rows = []
    for one in solution.along_path():
        score = {} if held is None else {"held out": float(one.score(*held.matrices, **held.arguments[1]))}
        rows.append({"ridge": one.ridge, **dict(one.facts()), **score, "residual": one.residual})
    return rows


def _show_columns(request: Request, solution: Any, problem: Any) -> None:
    """Print the columns with the largest weights by name; and what ``--explained`` and ``--loadings`` ask for."""
    weights = weights_by_matrix(solution)
    for name in filter(solution.column_names.__contains__, weights):
        columns = solution.leading_columns(LARGEST, name)
        echo(f"\nlargest weights of {name}\n{type(columns)(columns[:VECTORS])}")
    names = list(weights or problem.matrices)
    matrices = [problem.matrices[name] for name in names]
    rows = {name: getattr(problem, name, None) for name in ("confounds", "sample_weight")}
    rows = {name: value for name, value in rows.items() if value is not None}
    if request["explained"]:
        show_table(solution.explained_table(*matrices, **rows))
    tables = solution.loadings_table(*matrices, library="", **rows) if request["loadings"] else ()
    for name, table in zip(names, as_several(tables), strict=False):
        echo(f"\nloadings of {name}")
        show_table(table)


def _panels(solution: Any, problem: Any, held: Any) -> list[Callable[..., Any]]:
    """Return the panels of a picture: values, convergence, and the variates of the leading pairs."""
    panels: list[Callable[..., Any]] = [partial(plots.scree, solution)] if solution.layout.value else []
    if not panels or (solution.layout.certified and len(solution.history) > 1):
        panels.append(partial(plots.convergence, solution))
    if len(problem.matrices) == len("XY") and hasattr(solution, "x_weights") and hasattr(solution, "transform"):
        sides = [Rows.of(problem).spread(MOST_POINTS), *([held] if held is not None else [])]
        fitted, *others = [solution.transform(*rows.matrices, **rows.arguments[1]) for rows in sides]
        held_out = others[0] if others else None
        count = min(PAIRS, fitted[0].shape[1])
        panels += [partial(plots.variates, *fitted, held_out=held_out, pair=pair) for pair in range(count)]
    return panels



# ---- compare ------------------------------------------------------------------------------------


def _compare_parameters(cls: Any) -> list[click.Parameter]:
    costs = click.Choice(["passes", "seconds", "iterations"])
    return [
        SOLVERS,
        *([HELD_OUT] if hasattr(cls.solution, "score") else []),
        *(ROWS + SETTINGS + BUDGETS),
        option("--out", help="Write the figures of all runs to FILE.json."),
        option("--plot", help="Draw residuals against cost, to FILE.png."),
        option("--against", type=costs, help="The cost. By default passes, or seconds where Gram matrices are held."),
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
    limit, slow = (None, []) if request["solvers"] else _affordable(request, next(iter(problems.values())))
    request.arguments["max_seconds"] = request["max_seconds"] or limit
    solvers = {label: solver for label, (name, _, solver) in runs.items() if name not in slow}
    options = {"tol": request["tol"]} if AUTO in solvers and request["tol"] else {}
    table = _compared(request, problems, solvers, options)
    with output.finishing(table):
        held = f", {request['held_out']:g} of the rows held out" if request["held_out"] else ""
        echo(f"{request.words(shared)}{held}: {', '.join(request.files.values())}")
        _show(request, table.entries, of=len(variants) > 1)
        if not request["solvers"]:
            _show_left_out(request, limit, slow, table.entries)
        about = request.about(shared, "ids", "drop_missing", "held_out", "seed", "max_passes", "max_seconds")
        figures = []
        for row in table.rows:
            name, texts, _ = runs[row["solver"]]
            variant, values = row["problem"] if len(variants) > 1 else "", variants[row["problem"]]
            figures.append({**row, "problem": request.name, "solver": name, "variant": variant, "values": values, "options": texts})
        picture = partial(plots.convergence, table, against=request["against"])
        output.write_all(
            (out, partial(output.write_rows, {"about": about}, figures)),
            (plot, partial(output.draw, lambda: [picture])),
        )
    if all(entry.failed for entry in table.entries):
        raise Failure("no solver gave a solution.")


def _variant(values: Mapping[str, Any], shared: Mapping[str, Any]) -> str:
    """Return the values that differ between the problems in words."""
    others = [(name, value) for name, value in values.items() if name not in shared and value is not None]
    return ", ".join(f"{name.replace('_', '-')} {in_words(value)}" for name, value in others)


def _runs(request: Request) -> dict[str, tuple[str, list[str], Any]]:
    """Return the name, the option texts and the solver of every run by its label, before the first one begins.

    An option goes to every solver that has it; one that is passed several times is tried with each value.
    """
    names = [name.strip() for name in (request["solvers"] or "").split(",") if name.strip()]
    names = names or ([AUTO] if request["solvers"] else solvers_to_compare(request.name))
    grids: dict[str, list[str]] = {}
    for text in request["options"]:
        grids.setdefault(pair_of(text)[0].partition(".")[0] + text.partition("=")[0], []).append(text)
    runs, unused = {}, set(request["options"])
    for name, chosen in product(names, product(*grids.values())):
        cls = None if name == AUTO else registry.get_solver(name, request.name)
        declared = {each.name for each in solver_options.options_of(cls)} if cls else set()
        texts = [text for text in chosen if pair_of(text)[0].partition(".")[0] in declared]
        unused -= {*texts}
        solver: Any = solver_options.build(cls, request.options(name, texts)) if cls else AUTO
        runs[", ".join([name, *texts])] = name, texts, solver
    for text in unused:
        raise Failure(f"none of {', '.join(names)} has an option {pair_of(text)[0]!r}; got --option {text}.")
    return runs


def _affordable(request: Request, problem: Any) -> tuple[float | None, list[str]]:
    """Return the time that each solver may take, None without estimates, and the solvers that would take longer."""
    sizes = problem.sizes()
    stated = {name: estimated(problem, name, sizes)[1] for name in solvers_to_compare(request.name)}
    seconds = {name: estimate.seconds for name, estimate in stated.items() if estimate is not None}
    limit = max(LEAST_SECONDS, TIMES * min(seconds.values(), default=math.inf))
    return (limit, [name for name, time in seconds.items() if time > limit]) if seconds else (None, [])


def _show_left_out(request: Request, limit: float | None, slow: Sequence[str], entries: Sequence[Any]) -> None:
    """Print the solvers that were left out or stopped, and how to run them."""
    usual, most = solvers_to_compare(request.name), request["max_seconds"] or math.inf
    stopped = [entry.solver for entry in entries if entry.status == "BUDGET" and (entry.seconds or 0) >= most]
    words = {
        "as demonstrations of failure": [name for name in registry.solvers(request.name) if name not in usual],
        f"as estimated to take more than {limit} s": slow,
        f"as stopped after {most:.3g} s": list(dict.fromkeys(stopped)),
    }
    lines = [f"{', '.join(names)} left out, {why}" for why, names in words.items() if names]
    named = ",".join(name for names in words.values() for name in names)
    if named:
        echo(f"\n{'; '.join(lines)}. Named solvers run without a limit of time: --solvers {named}")


# ---- both ---------------------------------------------------------------------------------------


def _goal(request: Request, options: Mapping[str, Any], problem: Any) -> Goal:
    """Return what ends a run, for the bar that shows its progress."""
    limits = {name: value or math.inf for name, value in request.some("max_passes", "max_seconds").items()}
    return Goal(tol=options.get("tol") or problem.default_tol, **limits)


def _limits(request: Request, reporters: Sequence[Any]) -> dict[str, Any]:
    """Return the seed, the budgets and the callback of a run."""
    callback = next(iter(reporters), None)
    return {"rng": request["seed"], "callback": callback, **request.some("max_passes", "max_seconds")}


def _compared(request: Request, problems: Mapping[str, Any], solvers: Mapping[str, Any], options: Any) -> Any:
    """Solve each problem by each solver."""
    goal, held = _goal(request, options, next(iter(problems.values()))), request["held_out"]
    with report_progress(", ".join(solvers), request["progress"], goal) as reporters:
        return linspec.compare(problems, solvers, held_out=held, **_limits(request, reporters), **options)


def _show(request: Request, entries: Sequence[Any], *, of: bool) -> None:
    """Print a row for each run, and the errors of solvers that failed; with `of`, of which problem each one is."""
    layout, k = request.cls.solution.layout, (request["k"] or [1])[0]
    best = max((entry.objective or 0.0 for entry in entries), default=0.0)
    rows = []
    for entry in entries:
        value = None if entry.objective is None else f"{entry.objective:.7g}"
        share = math.nan if not entry.objective or not best or of else entry.objective / best
        values = getattr(entry.solution, layout.value or "", ())[: output.SHOWN] if of else ()
        figures = {
            "solver": entry.solver,
            "variant": entry.problem * of,
            f"{layout.value_label}s": "  ".join(f"{value:.4f}" for value in values),
            "held out": None if entry.score is None else f"{entry.score:.6f}",
            layout.objective or f"sum of {layout.value_label}s": value,
            "of best": None if math.isnan(share) else f"{math.floor(1e5 * share + 1e-4) / 1e3:.3f} %",
            "residual": entry.residual,
            "status": entry.status.lower().replace("_", " "),
            "passes": entry.passes,
            f"products of {k}": None if entry.products is None else entry.products / k,
            "seconds": entry.seconds,
            "CPU": entry.cpu_seconds,
        }
        rows.append(figures)
    shown = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)]
    show_table([{name: row[name] for name in shown} for row in rows])
    show_facts([(entry.solver, entry.message) for entry in entries if entry.failed])


COMMANDS = {
    "solve": (_solve_parameters, _solve, ""),
    "compare": (
        _compare_parameters,
        _compare,
        "The files are read once. An --option goes to every solver that has it. One that is given several times is "
        "tried with each value.",
    ),
}
"""The parameters, the function and the help of each command."""
