"""`linspec solve` and `linspec compare`: the answer of one solver, or the figures of several side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import click

from linspec import registry
from linspec.cli import output
from linspec.cli.output import Failure, echo, show_facts, show_table
from linspec.cli.problems import (
    AUTO,
    ProblemGroup,
    Request,
    complete_solver,
    declared_names,
    held_out_option,
    in_words,
    option_words,
    pair_of,
    row_options,
    solver_option,
    solver_parameters,
)
from linspec.process.paths import is_there
from linspec.process.progress import Goal, report_progress
from linspec.registry import options as solver_options

LARGEST, VECTORS, PAIRS, MOST_POINTS = 5, 3, 3, 2000
"""Numbers of columns with the largest weights of each sign, of vectors whose columns are named, of pairs that are
drawn, and of rows in each."""

TIMES, LEAST_SECONDS = 20, 1.0
"""Without ``--solvers``, a solver has this many times the estimate of the fastest one, and at least these seconds."""

OF_ONE = ("out", "plot", "ridge_y", "explained", "loadings", "workers", "checkpoint", "start")
"""The options of `solve` that need one answer."""


# ---- solve --------------------------------------------------------------------------------------


def _solve_parameters(cls: Any) -> list[click.Parameter]:
    files = {
        "checkpoint": "Write what has been reached to FILE every minute, and where a budget or Ctrl-C ends the run.",
        "start": "Go on from a checkpoint, with the same data and options; or begin at an answer of --out FILE.npz.",
        "out": "Write the solution to FILE.npz or FILE.json.",
        "plot": "Draw the values, how the run converged, and the variates of the leading pairs, to FILE.png.",
    }
    flags = {
        "explained": "Show how much of each matrix the answer explains.",
        "loadings": "Show the correlation of each column with each score, by name; the data are read again for that.",
        "complete": "Prove that nothing is missing, if a matrix with a row for every column fits into memory.",
        "verbose": 'Show the estimates by which "auto" chose the solver.',
    }
    has = {name: hasattr(cls.solution, f"{name}_table") for name in ("explained", "loadings")}
    has["complete"] = cls.proves_completeness
    workers = "Put the rows on so many processes of this machine, by way of dask."
    return [
        solver_option(),
        *held_out_option(cls),
        *row_options(),
        *solver_parameters(),
        *(click.Option([f"--{name}"], metavar="FILE", help=text) for name, text in files.items()),
        click.Option(["--workers"], type=click.IntRange(1, 1024), metavar="N", help=workers),
        *(click.Option([f"--{n}"], is_flag=True, help=text) for n, text in flags.items() if has.get(n, True)),
    ]


def _solve(request: Request) -> None:
    """Run `linspec solve`; as much as possible is checked before the data are read, the rest before the run."""
    combinations = request.values("ridge")
    ridges, values = [each.get("ridge") for each in combinations], combinations[0]
    values = {**values, "ridge": tuple(ridges)} if len(ridges) > 1 else values
    path = len(ridges) > 1 and request.cls.stated.fields["ridge"].path
    out = output.check_target("--out", request["out"], output.SOLUTIONS, request.inputs)
    plot = output.check_plot(request["plot"], request.inputs, out)
    solver = _as_begun(request)
    options = request.options(solver, request["options"])
    for name in filter(request.__getitem__, OF_ONE if len(ridges) > 1 and not path else ()):
        raise Failure(f"{option_words(name)} is for one answer; got several ridges. Name one, or leave it out.")
    if request["workers"] and request["held_out"]:
        raise Failure("--held-out takes rows out, and those on workers stay together. Leave one of them out.")
    matrices, rows = request.read()
    if request["workers"]:
        from linspec.cli.workers import on_workers

        workers = on_workers(request["workers"], request.files, matrices)
        matrices = click.get_current_context().with_resource(workers)
    if len(ridges) > 1 and not path:
        problems = {f"ridge {one['ridge']:g}": request.state(one, matrices, rows) for one in combinations}
        table = _compared(request, problems, {solver: solver}, options)
        with output.finishing(table):
            show_facts(request.facts(values, matrices))
            _show(request, table.entries, {entry.problem: entry.problem for entry in table.entries})
        return
    entry, problem, held = _measured(request, request.state(values, matrices, rows), solver, options)
    solution = entry.solution
    with output.finishing(solution):
        show_facts(
            [
                *request.facts(values, matrices),
                ("solver", solution.solver),
                ("chosen", _reason(problem) if request["verbose"] and solver == AUTO else ""),
                *solution.summary().facts,
                ("held out", _on_held_out(solution, entry.score, held)),
            ]
        )
        echo()
        show_table(_of_path(solution, held) if path else solution.summary(), output.SHOWN)
        _show_columns(request, solution, problem)
        names = filter(request.__getitem__, ("ids", "drop_missing", "held_out"))
        score = {} if held is None else {"score": entry.score}
        about = request.about(values, "seed", *names, options=options, seconds=entry.seconds, **score)
        output.write_all(
            [
                (out, partial(output.write_solution, solution, about)),
                (plot, lambda *file: output.draw(_panels(solution, problem, held), *file)),
            ]
        )
        if "Pass start=" in solution.message:
            echo(f"to go on: the same command with --start {request['checkpoint']}")


def _as_begun(request: Request) -> str:
    """Return the name of the solver: the one that wrote the checkpoint of ``--start``, if the user names none."""
    from linspec.solving import checkpoints

    start = request["start"]
    if request.solver != AUTO or start is None or not is_there(start):
        return request.solver
    return checkpoints.loaded(start).solver if checkpoints.is_checkpoint(start) else AUTO


def _reason(problem: Any) -> str:
    import linspec

    return linspec.select(problem).reason


def _measured(
    request: Request, problem: Any, solver: str, options: Mapping[str, Any]
) -> tuple[Any, Any, Any]:
    """Solve a problem; return the entry with the answer, the fitted problem, and the rows that were held out."""
    from linspec.studies.comparison import measured, split

    held = None
    if request["held_out"]:
        problem, held = split(problem, request["held_out"], request["seed"])
    files = {name: request[name] for name in ("checkpoint", "start")}
    complete = bool(request["complete"])
    with report_progress(solver, request["progress"], _goal(request, options, problem)) as reporters:
        entry = measured(
            problem, solver, options, rows=held, complete=complete, **files, **_limits(request, reporters)
        )
    return entry, problem, held


def _goal(request: Request, options: Mapping[str, Any], problem: Any) -> Goal:
    """Return what ends a run, for the bar that shows its progress."""
    limits = {name: request[name] or math.inf for name in ("max_passes", "max_seconds")}
    return Goal(tol=options.get("tol") or problem.default_tol, **limits)


def _limits(request: Request, reporters: Sequence[Any]) -> dict[str, Any]:
    """Return the seed, the budgets and the callback of a run."""
    limits = {name: request[name] for name in ("max_passes", "max_seconds")}
    return {"rng": request["seed"], "callback": next(iter(reporters), None), **limits}


def _on_held_out(solution: Any, score: float | None, held: Any) -> str:
    """Return the score of an answer on rows that were not fitted in words, or ""."""
    if score is None:
        return ""
    words = f"{solution.layout.score} {score:.6f}"
    matrices, named = held.arguments
    if held.labels is not None and solution.classes is not None:
        words += f", accuracy {solution.score(matrices[0], held.labels, **named):.6f}"
    return f"{words}, on {len(held)} rows not fitted"


def _of_path(solution: Any, held: Any) -> list[dict[str, Any]]:
    """Return a row for each ridge of a path."""
    rows = []
    for one in solution.along_path():
        row = {"ridge": one.ridge, **dict(one.facts())}
        if held is not None:
            matrices, named = held.arguments
            row["held out"] = float(one.score(*matrices, **named))
        rows.append({**row, "residual": one.residual})
    return rows


def _show_columns(request: Request, solution: Any, problem: Any) -> None:
    """Print the columns with the largest weights by name; and what ``--explained`` and ``--loadings`` ask for."""
    from linspec.solving.linear_solution import as_several
    from linspec.solving.solution import weights_by_matrix

    names = list(weights_by_matrix(solution)) or list(problem.matrices)
    for name in names:
        if name in solution.column_names and weights_by_matrix(solution):
            columns = solution.leading_columns(LARGEST, name)
            echo(f"\nlargest weights of {name}\n{type(columns)(columns[:VECTORS])}")
    rows = {name: getattr(problem, name, None) for name in ("confounds", "sample_weight")}
    rows = {name: value for name, value in rows.items() if value is not None}
    matrices = [problem.matrices[name] for name in names]
    if request["explained"]:
        echo()
        show_table(solution.explained_table(*matrices, **rows))
    if request["loadings"]:
        tables = as_several(solution.loadings_table(*matrices, library="", **rows))
        for name, table in zip(names, tables, strict=True):
            echo(f"\nloadings of {name}")
            show_table(table)


def _panels(solution: Any, problem: Any, held: Any) -> list[Callable[..., Any]]:
    """Return the panels of a picture: convergence, values, and the variates of the leading pairs."""
    from linspec import plots
    from linspec.studies.comparison import Rows

    values = solution.layout.value
    panels: list[Callable[..., Any]] = [partial(plots.scree, solution)] if values else []
    if not values or (solution.layout.certified and len(solution.history) > 1):
        panels.append(partial(plots.convergence, solution))
    if len(problem.matrices) == len("XY") and hasattr(solution, "x_weights") and hasattr(solution, "transform"):
        sides = [Rows.of(problem).spread(MOST_POINTS), *([held] if held is not None else [])]
        variates = [solution.transform(*rows.arguments[0], **rows.arguments[1]) for rows in sides]
        held = variates[1] if len(variates) > 1 else None
        count = min(PAIRS, variates[0][0].shape[1])
        panels += [partial(plots.variates, *variates[0], held_out=held, pair=pair) for pair in range(count)]
    return panels


solve = ProblemGroup("solve", "Solve a problem with data from files.", "", _solve_parameters, _solve)


# ---- compare ------------------------------------------------------------------------------------


def _compare_parameters(cls: Any) -> list[click.Parameter]:
    which = (
        "Which solvers. By default all but demonstrations of failure, and those that take more than "
        f"{LEAST_SECONDS:g} s and {TIMES} times the estimate of the fastest."
    )
    against = "What the plot measures cost in. By default passes, or seconds where Gram matrices are held."
    return [
        click.Option(["--solvers"], shell_complete=complete_solver, metavar="NAME,NAME,...", help=which),
        *held_out_option(cls),
        *row_options(),
        *solver_parameters(),
        click.Option(["--out"], metavar="FILE", help="Write the figures of all runs to FILE.json."),
        click.Option(["--plot"], metavar="FILE", help="Draw residuals against cost, to FILE.png."),
        click.Option(["--against"], type=click.Choice(["passes", "seconds", "iterations"]), help=against),
    ]


def _compare(request: Request) -> None:
    """Run `linspec compare`."""
    from linspec import plots

    out = output.check_target("--out", request["out"], (".json",), request.inputs)
    plot = output.check_plot(request["plot"], request.inputs, out)
    combinations = request.values("*")
    variants = {_variant(values, combinations): values for values in combinations}
    runs = _runs(request)
    matrices, rows = request.read()
    problems = {
        variant or request.name: request.state(values, matrices, rows) for variant, values in variants.items()
    }
    limit, slow = (None, []) if request["solvers"] else _affordable(request, next(iter(problems.values())))
    if limit is not None and request["max_seconds"] is None:
        request.arguments["max_seconds"] = limit
    solvers = {label: solver for label, (name, _, solver) in runs.items() if name not in slow}
    options = {} if request["tol"] is None or AUTO not in solvers else {"tol": request["tol"]}
    table = _compared(request, problems, solvers, options)
    common = {name: value for name, value in combinations[0].items() if all(o[name] == value for o in combinations)}
    held = f", {request['held_out']:g} of the rows held out" * bool(request["held_out"])
    with output.finishing(table):
        echo(f"{request.words(common)}{held}: {', '.join(request.files.values())}\n")
        _show(request, table.entries, {variant or request.name: variant for variant in variants})
        if not request["solvers"]:
            _show_left_out(request, limit, slow, table.entries)
        about = request.about(
            common, "ids", "drop_missing", "held_out", "seed", "max_passes", "max_seconds"
        )
        figures = [
            {
                **row,
                "problem": request.name,
                "solver": runs[row["solver"]][0],
                "variant": row["problem"] if len(problems) > 1 else "",
                "values": variants.get(row["problem"], combinations[0]),
                "options": runs[row["solver"]][1],
            }
            for row in table.rows
        ]
        output.write_all(
            [
                (out, partial(output.write_rows, {"about": about}, figures)),
                (plot, lambda *file: output.draw([partial(plots.convergence, table, against=request["against"])], *file)),
            ]
        )


def _variant(values: Mapping[str, Any], combinations: Sequence[Mapping[str, Any]]) -> str:
    """Return the values that differ between the problems in words."""
    names = [name for name in values if any(other[name] != values[name] for other in combinations)]
    return ", ".join(f"{option_words(name).strip('-')} {in_words(values[name])}" for name in names if values[name] is not None)


def _runs(request: Request) -> dict[str, tuple[str, list[str], Any]]:
    """Return the name, the option texts and the solver of every run by its label, before the first one begins.

    An option goes to every solver that has it; one that is passed several times is tried with each value.
    """
    from linspec.studies.comparison import solvers_to_compare

    text = request["solvers"]
    names = solvers_to_compare(request.name) if text is None else [name.strip() for name in text.split(",")]
    grids: dict[str, list[str]] = {}
    for text in request["options"]:
        grids.setdefault(pair_of(text)[0], []).append(text)
    declared = {name: {"tol"} if name == AUTO else declared_names(request.name, name) for name in names}
    if unknown := {name.partition(".")[0] for name in grids} - set().union(*declared.values()):
        raise Failure(f"none of {', '.join(names)} has an option {min(unknown)!r}.")
    runs = {}
    for name, chosen in product(names, product(*grids.values())):
        texts = [text for key, text in zip(grids, chosen, strict=True) if key.partition(".")[0] in declared[name]]
        options = request.options(name, texts, tol="tol" in declared[name])
        solver = AUTO if name == AUTO else solver_options.build(registry.get_solver(name, request.name), options)
        runs[", ".join([name, *texts])] = name, texts, solver
    return runs


def _affordable(request: Request, problem: Any) -> tuple[float | None, list[str]]:
    """Return the time that each solver may take, None without estimates, and the solvers that would take longer."""
    from linspec.solving.select import estimated
    from linspec.studies.comparison import solvers_to_compare

    sizes = problem.sizes()
    stated = {name: estimated(problem, name, sizes)[1] for name in solvers_to_compare(request.name)}
    seconds = {name: estimate.seconds for name, estimate in stated.items() if estimate is not None}
    limit = max(LEAST_SECONDS, TIMES * min(seconds.values())) if seconds else None
    return limit, [name for name, time in seconds.items() if limit is not None and time > limit]


def _show_left_out(request: Request, limit: float | None, slow: Sequence[str], entries: Sequence[Any]) -> None:
    """Print one line: the solvers that were left out or stopped, and how to run them."""
    from linspec.studies.comparison import solvers_to_compare

    usual = solvers_to_compare(request.name)
    words = {
        "as demonstrations of failure": [name for name in registry.solvers(request.name) if name not in usual],
        f"as estimated to take more than {limit or 0:.3g} s": list(slow),
        f"or stopped after {request['max_seconds'] or 0:.3g} s": [
            entry.solver
            for entry in entries
            if entry.status == "BUDGET" and entry.seconds >= (request["max_seconds"] or math.inf)
        ],
    }
    named = [name for names in words.values() for name in names]
    if named:
        told = "; ".join(f"{', '.join(names)} left out {what}" for what, names in words.items() if names)
        echo(f"\n{told}. Named solvers run without a limit of time: --solvers {','.join(dict.fromkeys(named))}")


# ---- both ---------------------------------------------------------------------------------------


def _compared(request: Request, problems: Mapping[str, Any], solvers: Mapping[str, Any], options: Any) -> Any:
    """Solve each problem by each solver."""
    import linspec

    goal = _goal(request, options, next(iter(problems.values())))
    held = request["held_out"]
    with report_progress(", ".join(solvers), request["progress"], goal) as reporters:
        return linspec.compare(problems, solvers, held_out=held, **_limits(request, reporters), **options)


def _show(request: Request, entries: Sequence[Any], variants: Mapping[str, str]) -> None:
    """Print a row for each run, and the errors of solvers that failed."""
    layout, k = request.cls.solution.layout, (request["k"] or [None])[0]
    best = max((entry.objective or 0.0 for entry in entries), default=0.0)
    rows = []
    for entry in entries:
        share = entry.objective / best if entry.objective is not None and best else math.nan
        columns = {
            "solver": entry.solver,
            "variant": variants[entry.problem],
            "held out": entry.score,
            layout.objective or f"sum of {layout.value_label}s": entry.objective,
            "of best": f"{min(share, 1.0):.5%}",
            "residual": entry.residual,
            "status": entry.status.lower().replace("_", " "),
            "passes": entry.passes,
            f"products of {k}" if k else "products": None if entry.products is None else entry.products / (k or 1),
            "seconds": entry.seconds,
            "CPU": entry.cpu_seconds,
        }
        rows.append(columns)
    empty = [name for name in rows[0] if all(row[name] in (None, "", "nan%") for row in rows)]
    empty += ["of best"] * (len(variants) > 1)
    show_table([{name: value for name, value in row.items() if name not in empty} for row in rows])
    failed = [(f"{entry.solver}", entry.message) for entry in entries if entry.failed]
    show_facts(failed)
    if len(failed) == len(entries):
        raise Failure("no solver gave a solution.")


ABOUT = """The files are read once. An --option goes to every solver that has it; als.lstsq=gd goes to als alone. One
that is given several times is tried with each value."""

compare = ProblemGroup(
    "compare", "Run several solvers on the same data, side by side.", ABOUT, _compare_parameters, _compare
)
