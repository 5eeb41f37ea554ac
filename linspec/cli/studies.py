"""`linspec cross-validate`, `permute` and `bootstrap`: studies of one problem, on the data of `solve`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

import linspec
from linspec.cli import data, output
from linspec.cli.commands import AUTO, GROUPS, ROWS, SETTINGS, SOLVER, option
from linspec.cli.output import Failure, echo, show_facts, show_table
from linspec.cli.problems import Request, solve_line
from linspec.process.plurals import count_of
from linspec.solving.solution import weights_by_matrix


def _parameters(what: str, *options: click.Option) -> Callable[[Any], list[click.Parameter]]:
    """Return the function that makes the parameters of a study, which `--out` writes to a file."""
    out = option("--out", help=f"Write {what} to FILE.csv or FILE.json.")
    return lambda _: [*options, SOLVER, *ROWS, *SETTINGS, out]


def _study(
    request: Request,
    values: Mapping[str, Any],
    asked: Mapping[str, Any],
    compute: Callable[..., Any],
    report: Callable[[Any], tuple[list[dict[str, Any]], dict[str, Any]]],
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


def _of_components(request: Request, needed: str = "") -> tuple[dict[str, Any], bool]:
    """Return the values of a problem whose answers have values of components, and whether a ridge is above 0."""
    (values,) = request.values()
    if not request.cls.solution.layout.value or (needed and needed not in values):
        why = (
            "have no values of components"
            if not request.cls.solution.layout.value
            else "come from rows without weights"
        )
        raise Failure(
            f"answers to {request.name} {why}; `linspec cross-validate` holds out rows of any problem."
        )
    return values, bool(values.get("ridge") or values.get("ridge_y"))


# ---- cross-validate -----------------------------------------------------------------------------


def _cross_validate(request: Request) -> None:
    gcv, source = request["method"] == "gcv", click.get_current_context().get_parameter_source
    for name in ("folds", "groups"):
        if gcv and source(name) is click.core.ParameterSource.COMMANDLINE:
            raise Failure(f"--method gcv holds out no rows; got --{name}. Leave one of them out.")
    combinations = request.values("k", "ridge")
    ks, ridges = ({values.get(name): None for values in combinations} for name in ("k", "ridge"))
    other = combinations[0].get("ridge_y")
    study = {"method": request["method"], "splitter": request["folds"], "score": request["score"]}
    study |= {} if None in ks else {"ks": list(ks)}
    study |= {} if None in ridges else {"ridges": [one if other is None else (one, other) for one in ridges]}
    study |= {} if request.solver == AUTO and not request["options"] else {"solver": request.solver}
    values = {**combinations[0], **({} if None in ks else {"k": max(filter(None, ks))})}
    asked = request.some("method", "rule", "score", *(() if gcv else ("folds", "groups")))
    asked |= {"ks": list(ks)} if "k" in values else {}
    asked |= {"ridges": list(ridges)} if "ridge" in values else {}
    _study(
        request, values, asked, partial(linspec.cross_validate, **study), partial(_scores, request, values)
    )


def _scores(
    request: Request, values: Mapping[str, Any], result: Any
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Show the mean score of each setting, and the line for the chosen one; return the score of each split."""
    setting = result.best if request["rule"] == "best" else result.one_standard_error
    sizes = [sorted({pair[side] for pair in result.sizes}) for side in (0, 1)]
    fitted, held = (" to ".join(map(str, dict.fromkeys([*side[:1], *side[-1:]]))) for side in sizes)
    folds = f"{len(result.sizes)}, with {fitted} rows fitted and {held} held out" if result.sizes else ""
    better = f"{result.label}, {'higher' if result.higher else 'lower'} is better"
    show_facts([("folds", folds), ("score", better), ("passes", f"{result.passes:.3g}")])
    settings = [(ridge, k) for ridge in result.ridges for k in result.ks]
    table = [
        {**row, "best": row["best"] or "", "rounding": row["rounding"] or "", "": "chosen" * (one == setting)}
        for one, row in zip(settings, result.table(library=""), strict=True)
    ]
    show_table(table)
    chosen = {
        "k": setting.k,
        "ridge": setting.ridge[0] if isinstance(setting.ridge, tuple) else setting.ridge,
    }
    chosen = {name: value for name, value in chosen.items() if value is not None}
    echo(f"\nThe chosen setting on all rows: {solve_line(request, {**values, **chosen})}")
    rows = []
    for row in result.rows:
        ridge, ridge_y = row.ridge if isinstance(row.ridge, tuple) else (row.ridge, None)
        figures = {"split": row.split, "ridge": ridge, "ridge_y": ridge_y, "k": row.k, "score": row.score}
        rows.append({name: value for name, value in figures.items() if value is not None})
    return rows, {"chosen": setting._asdict(), "score": result.label}


# ---- permute ------------------------------------------------------------------------------------


def _permute(request: Request) -> None:

    values, ridge = _of_components(request)
    solver = None if request.solver == AUTO and not request["options"] and not ridge else request.solver
    asked = request.some("permutations", "statistic", "max_seconds")

    def report(result: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        solved, least = hasattr(result, "solution"), 1 / (1 + result.permutations)
        how = "each permutation solved" if solved else "stepwise, all pairs, without a ridge"
        count = f"{count_of(result.permutations, 'permutation')}{', interrupted' * result.interrupted}"
        show_facts(
            [
                ("test", f"{result.statistic}, {how}"),
                ("permutations", f"{count}; the least possible p-value is {least:.2g}"),
                (
                    "significant",
                    f"{result.components()} of {count_of(len(result.values), 'component')} at 5 %",
                ),
                ("values", "with the ridge" * (ridge and solved)),
            ]
        )
        table = result.table(library="")
        bounds = {"p value", "uncorrected"}  # the least possible p-value is an upper bound
        shown = [
            {n: f"<= {v:.2g}" if n in bounds and v <= least else v for n, v in row.items()} for row in table
        ]
        show_table(shown, values.get("k") or output.SHOWN)
        names = ("component", "value", "p_value", "uncorrected")
        rows = [dict(zip(names, row.values(), strict=True)) for row in table]
        return rows, {"permutations": result.permutations, "statistic": result.statistic}

    def compute(problem: Any, **more: Any) -> Any:
        return linspec.permutation_test(problem, solver, **asked, **more)

    _study(request, values, asked, compute, report)


# ---- bootstrap ----------------------------------------------------------------------------------


def _bootstrap(request: Request) -> None:

    values, ridge = _of_components(request, "sample_weight")

    def report(result: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        ties = ", ".join(f"{group[0] + 1} to {group[-1] + 1}" for group in result.groups() if len(group) > 1)
        draws = f"{count_of(result.draws, 'draw')}{', interrupted' * result.interrupted}"
        show_facts(
            [
                ("solver", result.solution.solver),
                ("draws", f"{draws}, {100 * result.level:g} % intervals"),
                ("ties", ties and f"components {ties} may have equal values: their span is known, not each"),
                ("values", "with the ridge" * ridge),
            ]
        )
        table = result.table(library="")
        show_table(table)
        rows = [{name: value for name, value in row.items() if name != "component"} for row in table]
        return _weights(result), {"values": rows, "draws": result.draws, "level": result.level}

    study = partial(linspec.bootstrap, solver=request.solver, **request.some("draws", "level"))
    _study(request, values, request.some("draws", "level", "groups"), study, report)


def _weights(result: Any) -> list[dict[str, Any]]:
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
        _parameters(
            "the score of each setting and fold",
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
        ),
        _cross_validate,
        """Score several ridges and several k on rows that were not fitted, and choose. The line of `linspec solve` for
the chosen setting is printed. Means, scales and effects of confounds are those of the fitted rows.""",
    ),
    "permute": (
        _parameters(
            "the p-values",
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
        ),
        _permute,
        """Permute the rows of every matrix but the first, or of a single matrix the entries of each column, and
compare the values of components with those of permuted data. The rows must be exchangeable: not ordered in time, and
not from a few families.

Canonical correlations without a ridge are tested stepwise, all pairs, without a solve for each permutation. With a
ridge, a --solver or an option of one, and for other problems, every permutation is solved.""",
    ),
    "bootstrap": (
        _parameters(
            "the intervals of all weights, by column,",
            option("--draws", type=click.IntRange(min=2), default=500, help="How many draws."),
            option("--level", type=float, default=0.95, help="The coverage of the intervals."),
            GROUPS,
        ),
        _bootstrap,
        """Draw rows with replacement, solve each draw, and show how much values vary: intervals, and the bias of values
of samples. Agreement is the mean cosine of the scores with those of the draws; far below 1 components are unstable.""",
    ),
}
