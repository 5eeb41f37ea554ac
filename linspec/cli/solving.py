"""The commands of a problem: `solve`, `compare`, and the studies `cross-validate`, `permute` and `bootstrap`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import Any

import click

import linspec
from linspec import plots, registry
from linspec.cli import data, output
from linspec.cli.commands import AUTO, BUDGETS, GROUPS, HELD_OUT, ROWS, SETTINGS, SOLVER, SOLVERS, option
from linspec.cli.output import Failure, Values, echo, refuse, show_facts, show_table
from linspec.cli.problems import ROW_FILES, Request, in_words, pair_of
from linspec.process.files import is_there
from linspec.process.progress import report_progress
from linspec.registry import options as solver_options
from linspec.solving import checkpoints
from linspec.solving.linear_solution import RegressionSolution, as_several
from linspec.solving.solution import weights_by_matrix
from linspec.studies.comparison import measured, solvers_to_compare, split
from linspec.studies.held_out.scores import auxiliary
from linspec.studies.inference.regression import OfTargets

LARGEST, VECTORS = 5, 3
"""Numbers of columns with the largest weights of each sign, and of vectors whose columns are named."""

SECONDS = 60.0
"""Without ``--solvers``, the time after which a solver begins no pass."""

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
    option("--plot", help="Draw values, and how the run converged, to FILE.png."),
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
]


def _solve(request: Request) -> None:
    """Run `linspec solve`; as much as possible is checked before the data are read, the rest before the run."""
    stated = request.cls.stated
    path = stated.ridge and stated.fields[stated.ridge].path
    combinations = request.values("ridge") if path else request.values()
    out = output.check_target("--out", request["out"], (".npz", ".json"), request.inputs)
    plot = output.check_plot(request["plot"], request.inputs)
    solver = _as_begun(request)
    options = request.options(solver, request["options"])
    matrices, rows = request.read()
    values = dict(combinations[0])
    if len(combinations) > 1:
        refuse(
            request["held_out"],
            "--held-out scores one answer; `linspec cross-validate` scores several ridges.",
        )
        values["ridge"] = [combination["ridge"] for combination in combinations]
    problem, held = request.state(values, matrices, rows), None
    if request["held_out"]:
        problem, held = split(problem, request["held_out"], request["seed"])
    begun = {**request.some("checkpoint", "start"), "complete": bool(request["complete"])}
    with _limits(request, solver) as limits:
        entry = measured(problem, solver, options, rows=held, **begun, **limits)
    with output.finishing(entry.solution):
        show_facts([*request.facts(problem), ("solver", entry.solver), *_facts_of(entry, held)])
        _show_answer(request, entry.solution, problem)
        settings = {"drop_missing": click.get_current_context().meta.get(data.DROPPED), "score": entry.score}
        settings |= request.some("ids", "rows", "held_out")
        settings = {name: value for name, value in settings.items() if value is not None}
        about = request.about(values, "seed", options=options, seconds=entry.seconds, **settings)
        output.write_all(
            (out, partial(output.write_solution, entry.solution, about)),
            (plot, partial(output.draw, partial(_panels, entry.solution))),
        )


def _as_begun(request: Request) -> str:
    """Return the name of the solver: the one that wrote the checkpoint of ``--start``, if the user names none."""
    start = request["start"]
    saved = checkpoints.loaded(start) if request.solver == AUTO and start and is_there(start) else None
    return request.solver if saved is None else str(saved["about"]["solver"])


def _facts_of(entry: Any, held: Any) -> list[tuple[str, str]]:
    """Return the facts of an answer, and its score on rows that were not fitted."""
    solution, facts = entry.solution, list(entry.solution.summary().facts)
    if held is None:
        return facts
    first, labels = next(iter(held.matrices.values())), getattr(held, "labels", None)
    score = f"{solution.layout.score} {entry.score:.6f}, on {first.shape[0]} rows not fitted"
    if labels is None or getattr(solution, "classes", None) is None:
        return [*facts, ("held out", score)]
    accuracy = solution.score(first, labels, **auxiliary(held))
    return [*facts, ("held out", score), ("accuracy", f"{accuracy:.6f}, on these rows")]


def _show_answer(request: Request, solution: Any, problem: Any) -> None:
    """Print the values, the columns with the largest weights, and the loadings if they are asked for."""
    if solution.summary():
        show_table(solution.summary(), output.SHOWN)
    weights = weights_by_matrix(solution)
    for name in filter(solution.column_names.__contains__, weights):
        columns = solution.leading_columns(LARGEST, name)
        echo(f"\nlargest weights of {name}\n{type(columns)(columns[:VECTORS])}")
    matrices = {name: problem.matrices[name] for name in weights or problem.matrices}
    named = {name: getattr(problem, name, None) for name in ROW_FILES}
    named = {name: value for name, value in named.items() if value is not None}
    if request["loadings"]:
        tables = solution.loadings_table(*matrices.values(), library="", **named)
        for name, table in zip(matrices, as_several(tables), strict=False):
            echo(f"\nloadings of {name}")
            show_table(table)


def _panels(solution: Any) -> list[Callable[..., Any]]:
    """Return the panels of a picture: values, and convergence."""
    panels: list[Callable[..., Any]] = [partial(plots.scree, solution)] if solution.layout.value else []
    if not panels or (solution.layout.certified and len(solution.history) > 1):
        panels.append(partial(plots.convergence, solution))
    return panels


# ---- compare ------------------------------------------------------------------------------------


COMPARE = [
    *(SOLVERS, HELD_OUT, *ROWS, *SETTINGS, *BUDGETS),
    option("--out", help="Write the figures of all runs to FILE.json."),
    option(
        "--plot", help="Draw residuals against passes, or seconds where Gram matrices are held, to FILE.png."
    ),
]


def _compare(request: Request) -> None:
    """Run `linspec compare`."""
    out = output.check_target("--out", request["out"], (".json",), request.inputs)
    plot = output.check_plot(request["plot"], request.inputs)
    combinations, runs = request.values("*"), _runs(request)
    shared = {
        name: v
        for name, v in combinations[0].items()
        if all(combination[name] == v for combination in combinations)
    }
    variants = {_variant(values, shared) or request.name: values for values in combinations}
    matrices, rows = request.read()
    problems = {label: request.state(values, matrices, rows) for label, values in variants.items()}
    solvers = {label: solver for label, (_, _, solver) in runs.items()}
    if request["solvers"] is None and request["max_seconds"] is None:
        request.arguments["max_seconds"] = SECONDS
    options = {"tol": request["tol"]} if AUTO in solvers and request["tol"] else {}
    with _limits(request, ", ".join(solvers)) as limits:
        table = linspec.compare(problems, solvers, held_out=request["held_out"], **limits, **options)
    several = len(variants) > 1
    with output.finishing(table):
        show_facts([*request.files.items(), *((label, repr(problem)) for label, problem in problems.items())])
        echo(f"\n{table}")
        show_facts([(entry.solver, entry.message) for entry in table.entries if entry.failed])
        run = {name for name, _, _ in runs.values()}
        absent = [name for name in registry.solvers(request.name) if name not in run]
        if request["solvers"] is None:
            echo(
                f"\nleft out as demonstrations of failure: {', '.join(absent) or 'none'}. Each had "
                f"{request['max_seconds']:g} s. --solvers NAME,NAME runs others, without a limit."
            )
        figures = []
        for row in table.rows:
            name, texts, _ = runs[row["solver"]]
            variant = row["problem"] * several
            figures.append(
                {**row, "problem": request.name, "solver": name, "variant": variant, "options": texts}
            )
        about = request.about(
            shared, "ids", "drop_missing", "rows", "held_out", "seed", "max_passes", "max_seconds"
        )
        picture = partial(plots.convergence, table)
        output.write_all(
            (out, partial(output.write_rows, {"about": about}, figures)),
            (plot, partial(output.draw, lambda: [picture])),
        )
    refuse(all(entry.failed for entry in table.entries), "no solver gave a solution.")


def _variant(values: Values, shared: Values) -> str:
    """Return the values that differ between the problems in words."""
    differing = [(name, value) for name, value in values.items() if name not in shared and value is not None]
    return ", ".join(f"{name.replace('_', '-')} {in_words(value)}" for name, value in differing)


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
        declared = {setting.name for setting in solver_options.options_of(cls)} if cls else set()
        texts = [text for text in chosen if pair_of(text)[0].partition(".")[0] in declared]
        solver: Any = solver_options.build(cls, request.options(name, texts)) if cls else AUTO
        runs[", ".join([name, *texts])] = name, texts, solver
        unused -= {*texts}
    for text in unused:
        raise Failure(f"none of {', '.join(names)} has an option {pair_of(text)[0]!r}; got --option {text}.")
    return runs


# ---- both ---------------------------------------------------------------------------------------


@contextmanager
def _limits(request: Request, name: str) -> Iterator[Values]:
    """Show the progress of a run, and yield its seed, its budgets and its callback."""
    budgets = request.some("max_passes", "max_seconds")
    with report_progress(name, wanted=request["progress"]) as reporters:
        yield {"rng": request["seed"], "callback": next(iter(reporters), None), **budgets}


# ---- studies ------------------------------------------------------------------------------------

Report = tuple[list[Any], Values]
"""The rows of the file of a study, and what else the file holds."""


def _out(what: str) -> list[click.Option]:
    """Return the options of every study, which `--out` writes to a file."""
    return [SOLVER, *ROWS, *SETTINGS, option("--out", help=f"Write {what} to FILE.csv or FILE.json.")]


def _study(
    request: Request,
    values: Values,
    settings: Values,
    compute: Callable[..., Any],
    report: Callable[[Any], Report],
) -> None:
    """Read the files, compute a study, show it, and write its rows; what is asked of it stands in the file, too."""
    out = output.check_target("--out", request["out"], (".csv", ".json"), request.inputs)
    options = request.options(request.solver, request["options"])
    matrices, rows = request.read("groups", "blocks")
    labels = {name: data.as_array(rows.pop(name)) for name in ("groups", "blocks") if name in rows}
    problem = request.state(values, matrices, rows)
    with report_progress(request.name, wanted=None):
        result = compute(problem, rng=request["seed"], **labels, **options)
    with output.finishing(result):
        fixed = {name: value for name, value in values.items() if f"{name}s" not in settings}
        show_facts(request.facts(problem))
        table, content = report(result)
        about = request.about(
            fixed, "ids", "drop_missing", "rows", "solver", "seed", **settings, options=options
        )
        output.write_all((out, partial(output.write_rows, {**content, "about": about}, table)))


def _of_components(request: Request, needed: str = "") -> tuple[Values, bool]:
    """Return the values of a problem whose answers have values of components, and whether a ridge is above 0."""
    (values,) = request.values()
    why = "" if not needed or needed in values else "come from rows without weights"
    known = request.cls.solution.layout.value or issubclass(request.cls.solution, RegressionSolution)
    why = why if known else "have no values of components"
    refuse(why, f"answers to {request.name} {why}; `linspec cross-validate` holds out rows of any problem.")
    return values, bool(values.get("ridge") or values.get("ridge_y"))


# ---- cross-validate -----------------------------------------------------------------------------


def _cross_validate(request: Request) -> None:
    combinations = request.values("k", "ridge")
    values, study, settings = dict(combinations[0]), {}, request.some("method", "rule", "score")
    settings |= {} if request["method"] == "gcv" else request.some("folds", "groups")
    for name in [name for name in ("k", "ridge") if name in values]:
        settings[f"{name}s"] = list(dict.fromkeys(combination[name] for combination in combinations))
        if None not in settings[f"{name}s"]:
            study[f"{name}s"] = settings[f"{name}s"]
    if values.get("ridge_y") is not None:
        study["ridges"] = [(ridge, values["ridge_y"]) for ridge in settings["ridges"]]
    if request.solver != AUTO or request["options"]:
        study["solver"] = request.solver
    if "ks" in study:
        values["k"] = max(study["ks"])
    study |= {"method": request["method"], "splitter": request["folds"], "score": request["score"]}
    compute = partial(linspec.cross_validate, **study)
    _study(request, values, settings, compute, partial(_scores, request))


def _scores(request: Request, result: Any) -> Report:
    """Show the mean score of each setting, and the chosen one; return the score of each split."""
    setting = result.best if request["rule"] == "best" else result.one_standard_error
    echo(f"\n{result}")
    show_table(result.table(library=""))
    ridges = "" if setting.ridge is None else f" ridge {in_words(setting.ridge)}"
    echo(f"\nThe chosen setting:{ridges}{'' if setting.k is None else f' k {setting.k}'}")
    rows = []
    for row in result.rows:
        ridge, ridge_y = _ridges(row)
        figures = {"split": row.split, "ridge": ridge, "ridge_y": ridge_y, "k": row.k, "score": row.score}
        rows.append({name: value for name, value in figures.items() if value is not None})
    return rows, {"chosen": setting._asdict(), "score": result.label}


def _ridges(setting: Any) -> Any:
    """Return the ridge of a setting, and that of the second matrix or None."""
    return setting.ridge if isinstance(setting.ridge, tuple) else (setting.ridge, None)


# ---- permute ------------------------------------------------------------------------------------


def _permute(request: Request) -> None:
    values, ridge = _of_components(request)
    solver = None if request.solver == AUTO and not request["options"] and not ridge else request.solver
    settings = request.some("permutations", "statistic", "max_seconds", "weights", "sign_flips")

    def report(result: Any) -> Report:
        table = result.table(library="")
        echo(f"\n{result}")
        about = {"permutations": result.permutations, "statistic": result.statistic}
        if isinstance(result, OfTargets):
            return result.coefficients_table(library="") if result.coefficients is not None else table, about
        show_table(table, values.get("k") or output.SHOWN)
        return table, about

    def compute(problem: Any, **more: Any) -> Any:
        return linspec.permutation_test(problem, solver, **settings, **more)

    _study(request, values, settings | request.some("groups", "blocks"), compute, report)


# ---- bootstrap ----------------------------------------------------------------------------------


def _bootstrap(request: Request) -> None:
    values, _ = _of_components(request, "sample_weight")

    def report(result: Any) -> Report:
        rows = []
        echo(f"\n{result}")
        about = {"values": result.table(library=""), "draws": result.draws, "level": result.level}
        if isinstance(result, OfTargets):
            return result.coefficients_table(library="") if result.coefficients is not None else [], about
        for matrix in weights_by_matrix(result.solution):
            rows += [{"matrix": matrix, **row} for row in result.weights_table(matrix, library="")]
        return rows, about

    study = partial(linspec.bootstrap, solver=request.solver, **request.some("draws", "level", "weights"))
    _study(request, values, request.some("draws", "level", "groups", "weights"), study, report)


WEIGHTS = option(
    "--weights",
    type=click.Choice(["counts", "survey"]),
    default="counts",
    help="Whether the weights count equal rows, or are those of a survey.",
)
COMMANDS = {
    "solve": (SOLVE, _solve, ""),
    "compare": (
        COMPARE,
        _compare,
        "An --option goes to every solver that has it. One that is given several times is tried with each value.",
    ),
    "cross-validate": (
        [
            option("--folds", type=click.IntRange(min=2), default=5, help="How many folds."),
            GROUPS,
            option(
                "--method",
                type=click.Choice(["folds", "gcv"]),
                default="folds",
                help="gcv: generalized cross-validation of least squares, without folds.",
            ),
            option(
                "--rule",
                type=click.Choice(["best", "one-standard-error"]),
                default="best",
                help="Choose the best setting, or the simplest one within a standard error of it.",
            ),
            option(
                "--score",
                metavar="NAME",
                help="A score of the problem; by default the first. Another name lists them.",
            ),
            *_out("the score of each setting and fold"),
        ],
        _cross_validate,
        """Score several ridges and several k on rows that were not fitted, and choose. Means, scales and effects of
confounds are those of the fitted rows.""",
    ),
    "permute": (
        [
            option(
                "--permutations",
                type=click.IntRange(min=1),
                default=999,
                help="How many; the least possible p-value is 1 over one more.",
            ),
            option(
                "--statistic",
                type=click.Choice(["wilks", "roy", "largest", "sum", "ranked"]),
                help="Stepwise wilks (the default) or roy; by solving largest (the default) or sum; for one matrix "
                "ranked (the default) or largest.",
            ),
            option(
                "--max-seconds",
                type=float,
                default=3600.0,
                help="Time after which no permutation is begun.",
            ),
            option(
                "--groups", help="A file with a label for each row; whole groups change places: subjects."
            ),
            option("--blocks", help="A file with a label for each row; rows change places within: sites."),
            option("--sign-flips", is_flag=True, help="Rows or groups change signs, and not places."),
            WEIGHTS,
            *_out("the p-values, of a regression those of coefficients,"),
        ],
        _permute,
        """Permute the rows of every matrix but the first, or of a single matrix the entries of each column, and
compare the values of components, or R² of targets, with those of permuted data. The rows must be exchangeable, as
groups and blocks say: not ordered in time.

Canonical correlations without a ridge are tested stepwise, all pairs, without a solve for each permutation. With a
ridge, a --solver or an option of one, and for other problems, every permutation is solved.""",
    ),
    "bootstrap": (
        [
            option("--draws", type=click.IntRange(min=2), default=500, help="How many draws."),
            option("--level", type=float, default=0.95, help="The coverage of the intervals."),
            GROUPS,
            WEIGHTS,
            *_out("the intervals of all weights or coefficients, by column,"),
        ],
        _bootstrap,
        """Draw rows with replacement, solve each draw, and show how much values vary: intervals, and the bias of values
of samples. Agreement is the mean cosine of the scores with those of the draws; far below 1 components are unstable.""",
    ),
}
"""The parameters, the function and the help of each command."""
