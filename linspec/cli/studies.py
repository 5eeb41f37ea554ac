"""`linspec cross-validate`, `permute` and `bootstrap`: studies of one problem, on the data of `solve`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

import linspec
from linspec.cli import data, output
from linspec.cli.commands import AUTO, GROUPS, ROWS, SETTINGS, SOLVER, option
from linspec.cli.output import Values, echo, refuse, show_facts, show_table
from linspec.cli.problems import Request, solve_line
from linspec.process.plurals import count_of
from linspec.solving.solution import weights_by_matrix

# The rows of the file of a study, and what else the file holds.
Report = tuple[list[Any], Values]


def _out(what: str) -> list[click.Option]:
    """Return the options of every study, which `--out` writes to a file."""
    return [SOLVER, *ROWS, *SETTINGS, option("--out", help=f"Write {what} to FILE.csv or FILE.json.")]


def _study(
    request: Request,
    values: Values,
    asked: Values,
    compute: Callable[..., Any],
    report: Callable[[Any], Report],
) -> None:
    """Read the files, compute a study, show it, and write its rows; what is asked of it stands in the file, too."""
    out = output.check_target("--out", request["out"], (".csv", ".json"), request.inputs)
    options = request.options(request.solver, request["options"])
    matrices, rows = request.read("groups")
    groups = {"groups": data.as_array(rows.pop("groups"))} if "groups" in rows else {}
    result = compute(request.state(values, matrices, rows), rng=request["seed"], **groups, **options)
    with output.finishing(result):
        shown = {name: value for name, value in values.items() if f"{name}s" not in asked}
        show_facts(request.facts(shown, matrices))
        table, content = report(result)
        about = request.about(shown, "ids", "drop_missing", "solver", "seed", **asked, options=options)
        output.write_all((out, partial(output.write_rows, {**content, "about": about}, table)))


def _of_components(request: Request, needed: str = "") -> tuple[Values, bool]:
    """Return the values of a problem whose answers have values of components, and whether a ridge is above 0."""
    (values,) = request.values()
    why = "" if not needed or needed in values else "come from rows without weights"
    why = why if request.cls.solution.layout.value else "have no values of components"
    refuse(why, f"answers to {request.name} {why}; `linspec cross-validate` holds out rows of any problem.")
    return values, bool(values.get("ridge") or values.get("ridge_y"))


# ---- cross-validate -----------------------------------------------------------------------------


def _cross_validate(request: Request) -> None:
    gcv, source = request["method"] == "gcv", click.get_current_context().get_parameter_source
    for name in ("folds", "groups") if gcv else ():
        refuse(
            source(name) is click.core.ParameterSource.COMMANDLINE,
            f"--method gcv holds out no rows; got --{name}. Leave one of them out.",
        )
    combinations = request.values("k", "ridge")
    values, study, asked = dict(combinations[0]), {}, request.some("method", "rule", "score")
    asked |= {} if gcv else request.some("folds", "groups")
    for name in [name for name in ("k", "ridge") if name in values]:
        asked[f"{name}s"] = list(dict.fromkeys(one[name] for one in combinations))
        if None not in asked[f"{name}s"]:
            study[f"{name}s"] = asked[f"{name}s"]
    if values.get("ridge_y") is not None:
        study["ridges"] = [(ridge, values["ridge_y"]) for ridge in asked["ridges"]]
    if request.solver != AUTO or request["options"]:
        study["solver"] = request.solver
    if "ks" in study:
        values["k"] = max(study["ks"])
    study |= {"method": request["method"], "splitter": request["folds"], "score": request["score"]}
    compute = partial(linspec.cross_validate, **study)
    _study(request, values, asked, compute, partial(_scores, request, values))


def _scores(request: Request, values: Values, result: Any) -> Report:
    """Show the mean score of each setting, and the line for the chosen one; return the score of each split."""
    setting = result.best if request["rule"] == "best" else result.one_standard_error
    fitted, held = (_range(sizes) for sizes in zip(*result.sizes, strict=True)) if result.sizes else ("", "")
    folds = f"{len(result.sizes)}, with {fitted} rows fitted and {held} held out"
    better = f"{result.label}, {'higher' if result.higher else 'lower'} is better"
    show_facts([("folds", folds * bool(fitted)), ("score", better), ("passes", f"{result.passes:.3g}")])
    settings = [(ridge, k) for ridge in result.ridges for k in result.ks]
    table = result.table(library="")
    for one, row in zip(settings, table, strict=True):
        row |= {"best": row["best"] or "", "rounding": row["rounding"] or "", "": "chosen" * (one == setting)}
    show_table(table)
    chosen = {"k": setting.k, "ridge": _ridges(setting)[0]}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    echo(f"\nThe chosen setting on all rows: {solve_line(request, {**values, **chosen})}")
    rows = []
    for row in result.rows:
        ridge, ridge_y = _ridges(row)
        figures = {"split": row.split, "ridge": ridge, "ridge_y": ridge_y, "k": row.k, "score": row.score}
        rows.append({name: value for name, value in figures.items() if value is not None})
    return rows, {"chosen": setting._asdict(), "score": result.label}


def _range(sizes: tuple[int, ...]) -> str:
    return " to ".join(map(str, sorted({min(sizes), max(sizes)})))


def _ridges(setting: Any) -> Any:
    """Return the ridge of a setting, and that of the second matrix or None."""
    return setting.ridge if isinstance(setting.ridge, tuple) else (setting.ridge, None)


# ---- permute ------------------------------------------------------------------------------------


def _permute(request: Request) -> None:
    values, ridge = _of_components(request)
    solver = None if request.solver == AUTO and not request["options"] and not ridge else request.solver
    asked = request.some("permutations", "statistic", "max_seconds")

    def report(result: Any) -> Report:
        solved, least = hasattr(result, "solution"), 1 / (1 + result.permutations)
        how = "each permutation solved" if solved else "stepwise, all pairs, without a ridge"
        count = f"{count_of(result.permutations, 'permutation')}{', interrupted' * result.interrupted}"
        components = count_of(len(result.values), "component")
        facts = {
            "test": f"{result.statistic}, {how}",
            "permutations": f"{count}; the least possible p-value is {least:.2g}",
            "significant": f"{result.components()} of {components} at 5 %",
            "values": "with the ridge" * (ridge and solved),
        }
        show_facts(facts.items())
        names, rows = ("component", "value", "p_value", "uncorrected"), []
        table = result.table(library="")
        for row in table:
            rows.append(dict(zip(names, row.values(), strict=True)))
            for name in {"p value", "uncorrected"} & row.keys():  # the least possible one is an upper bound
                row[name] = f"<= {row[name]:.2g}" if row[name] <= least else row[name]
        show_table(table, values.get("k") or output.SHOWN)
        return rows, {"permutations": result.permutations, "statistic": result.statistic}

    def compute(problem: Any, **more: Any) -> Any:
        return linspec.permutation_test(problem, solver, **asked, **more)

    _study(request, values, asked, compute, report)


# ---- bootstrap ----------------------------------------------------------------------------------


def _bootstrap(request: Request) -> None:
    values, ridge = _of_components(request, "sample_weight")

    def report(result: Any) -> Report:
        ties = ", ".join(f"{group[0] + 1} to {group[-1] + 1}" for group in result.groups() if len(group) > 1)
        draws = f"{count_of(result.draws, 'draw')}{', interrupted' * result.interrupted}"
        facts = {
            "solver": result.solution.solver,
            "draws": f"{draws}, {100 * result.level:g} % intervals",
            "ties": ties and f"components {ties} may have equal values: their span is known, not each",
            "values": "with the ridge" * ridge,
        }
        show_facts(facts.items())
        table = result.table(library="")
        show_table(table)
        rows = [{name: value for name, value in row.items() if name != "component"} for row in table]
        return _weights(result), {"values": rows, "draws": result.draws, "level": result.level}

    study = partial(linspec.bootstrap, solver=request.solver, **request.some("draws", "level"))
    _study(request, values, request.some("draws", "level", "groups"), study, report)


def _weights(result: Any) -> list[Any]:
    """Return the interval of each weight, with the name of its column."""
    rows, layout = [], result.solution.layout
    for matrix in weights_by_matrix(result.solution):
        table = result.weights_table(matrix, library="")
        for i in range(len(result.bias)):
            vector = f"{layout.vector}{i + 1}"
            names = {"weight": vector, "lower": f"{vector} lower", "upper": f"{vector} upper"}
            for row in table:
                figures = {name: row[column] for name, column in names.items()}
                rows.append({"matrix": matrix, "column": row["column"], layout.component: i + 1, **figures})
    return rows


# The parameters, the function and the help of each command.
COMMANDS = {
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
        """Score several ridges and several k on rows that were not fitted, and choose. The line of `linspec solve` for
the chosen setting is printed. Means, scales and effects of confounds are those of the fitted rows.""",
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
            *_out("the p-values"),
        ],
        _permute,
        """Permute the rows of every matrix but the first, or of a single matrix the entries of each column, and
compare the values of components with those of permuted data. The rows must be exchangeable: not ordered in time, and
not from a few families.

Canonical correlations without a ridge are tested stepwise, all pairs, without a solve for each permutation. With a
ridge, a --solver or an option of one, and for other problems, every permutation is solved.""",
    ),
    "bootstrap": (
        [
            option("--draws", type=click.IntRange(min=2), default=500, help="How many draws."),
            option("--level", type=float, default=0.95, help="The coverage of the intervals."),
            GROUPS,
            *_out("the intervals of all weights, by column,"),
        ],
        _bootstrap,
        """Draw rows with replacement, solve each draw, and show how much values vary: intervals, and the bias of values
of samples. Agreement is the mean cosine of the scores with those of the draws; far below 1 components are unstable.""",
    ),
}
