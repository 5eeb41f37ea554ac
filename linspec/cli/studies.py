"""`linspec cross-validate`, `permute` and `bootstrap`: studies of one problem, with the options of `solve` for the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import click

from linspec.cli import data, output
from linspec.cli.output import Failure, echo, show_facts, show_table
from linspec.cli.problems import (
    AUTO,
    ProblemGroup,
    Request,
    row_options,
    solve_line,
    solver_option,
    solver_parameters,
)
from linspec.process.plurals import count_of


def _parameters(what: str, *options: click.Option) -> Callable[[Any], list[click.Parameter]]:
    """Return the function that makes the parameters of a study, which `--out` writes to a file."""
    out = click.Option(["--out"], metavar="FILE", help=f"Write {what} to FILE.csv or FILE.json.")
    return lambda cls: [*options, solver_option(), *row_options(), *solver_parameters(budgets=False), out]


def _groups(text: str) -> click.Option:
    return click.Option(["--groups"], metavar="FILE", help=f"{text} A file with a label for each row.")


def _study(
    request: Request,
    values: dict[str, Any],
    names: Sequence[str],
    compute: Callable[..., Any],
    report: Callable[..., tuple[list[dict[str, Any]], dict[str, Any]]],
) -> None:
    """Read the files, compute a study, show it, and write its rows; the named arguments stand in the file, too."""
    out = output.check_target("--out", request["out"], output.TABLES, request.inputs)
    options = request.options(request.solver, request["options"])
    matrices, rows = request.read(*(["groups"] if "groups" in request.arguments else []))
    groups = rows.pop("groups", None)
    problem = request.state(values, matrices, rows)
    result = compute(problem, None if groups is None else data.as_array(groups), options)
    with output.finishing(result):
        show_facts(request.facts(values, matrices))
        table, more = report(result)
        about = request.about(values, *names, "ids", "drop_missing", "solver", "seed", options=options)
        output.write_all([(out, partial(output.write_rows, {**more, "about": about}, table))])


def _has_components(request: Request) -> None:
    """Refuse a problem whose answers have no values of components."""
    if not request.cls.solution.layout.value:
        raise Failure(
            f"values of components, such as correlations, are needed, and answers to {request.name} have none; "
            "`linspec cross-validate` scores them on rows that were not fitted."
        )


# ---- cross-validate -----------------------------------------------------------------------------


def _cross_validate(request: Request) -> None:
    import linspec

    gcv, context = request["method"] == "gcv", click.get_current_context()
    for name in ("folds", "groups"):
        if gcv and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise Failure(f"--method gcv holds out no rows; got --{name}. Leave one of them out.")
    combinations = request.values("k", "ridge")
    ks = [k for k in dict.fromkeys(each.get("k") for each in combinations) if k is not None]
    ridges = list(dict.fromkeys(each["ridge"] for each in combinations if "ridge" in each))
    values = {**combinations[0], **({"k": max(ks)} if ks else {})}
    pairs = [ridge if values.get("ridge_y") is None else (ridge, values["ridge_y"]) for ridge in ridges]

    def compute(problem: Any, groups: Any, options: Mapping[str, Any]) -> Any:
        solver = {} if request.solver == AUTO and not options else {"solver": request.solver}
        grid = {"ridges": pairs or None, "ks": ks or None, "groups": groups}
        study = {"method": request["method"], "splitter": request["folds"], "score": request["score"]}
        return linspec.cross_validate(problem, **grid, **study, rng=request["seed"], **solver, **options)

    def report(result: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        setting = result.best if request["rule"] == "best" else result.one_standard_error
        _show_scores(result, setting)
        ridge = setting.ridge[0] if isinstance(setting.ridge, tuple) else setting.ridge
        chosen = {name: value for name, value in (("k", setting.k), ("ridge", ridge)) if name in values}
        echo(f"\nThe chosen setting on all rows: {solve_line(request, {**values, **chosen})}")
        rows = []
        for row in result.rows:
            figures = row._asdict()
            if isinstance(row.ridge, tuple):
                figures = {"split": row.split, "ridge": row.ridge[0], "ridge_y": row.ridge[1], **figures}
            rows.append({name: value for name, value in figures.items() if value is not None})
        return rows, {"chosen": setting._asdict(), "score": result.label}

    names = ["method", "rule", "score", *([] if gcv else ["folds", "groups"])]
    _study(request, values, names, compute, report)


def _show_scores(result: Any, setting: Any) -> None:
    """Print the mean score of each setting."""
    sizes = [sorted({pair[side] for pair in result.sizes}) for side in (0, 1)]
    fitted, held = (f"{min(side)} to {max(side)}" if len(side) > 1 else f"{max(side, default=0)}" for side in sizes)
    folds = f"{len(result.sizes)}, with {fitted} rows fitted and {held} held out"
    show_facts(
        [
            ("folds", folds if result.method == "folds" else ""),
            ("score", f"{result.label}, {'higher' if result.higher else 'lower'} is better"),
            ("passes", f"{result.passes:.3g}"),
        ]
    )
    echo()
    rows = []
    for i, ridge in enumerate(result.ridges):
        for j, k in enumerate(result.ks):
            marks = {
                "best": (ridge, k) == result.best,
                "chosen": (ridge, k) == setting,
                "rounding": result.uncertain[i, j],
            }
            figures = {"ridge": ridge, "k": k, f"mean {result.label}": float(result.mean[i, j])}
            figures |= {"standard error": float(f"{result.standard_error[i, j]:.2g}")}
            figures[""] = ", ".join(mark for mark, holds in marks.items() if holds)
            rows.append({name: value for name, value in figures.items() if value is not None})
    show_table(rows)


cross_validate = ProblemGroup(
    "cross-validate",
    "Choose ridge and k by rows that were not fitted.",
    """Score several ridges and several k on rows that were not fitted, and choose. The line of `linspec solve` for
the chosen setting is printed last. Means, scales and effects of confounds are those of the fitted rows.""",
    _parameters(
        "the score of each setting and fold",
        click.Option(
            ["--folds"],
            type=click.IntRange(min=2),
            default=5,
            show_default=True,
            help="How many times a part of the rows is held out.",
        ),
        _groups("Rows of one group are held out together."),
        click.Option(
            ["--method"],
            type=click.Choice(["folds", "gcv"]),
            default="folds",
            show_default=True,
            help="gcv: generalized cross-validation of least squares, without folds.",
        ),
        click.Option(
            ["--rule"],
            type=click.Choice(["best", "one-standard-error"]),
            default="best",
            show_default=True,
            help="Choose the best setting, or the simplest one within a standard error of it.",
        ),
        click.Option(
            ["--score"],
            metavar="NAME",
            help="One of the scores of the problem; by default the first. Another name lists them.",
        ),
    ),
    _cross_validate,
)


# ---- permute ------------------------------------------------------------------------------------


def _permute(request: Request) -> None:
    import linspec

    _has_components(request)
    (values,) = request.values()
    ridge = any(values.get(name) for name in ("ridge", "ridge_y"))

    def compute(problem: Any, _: Any, options: Mapping[str, Any]) -> Any:
        named = request.solver if request.solver != AUTO or options or ridge else None
        study = {name: request[name] for name in ("permutations", "statistic", "max_seconds")}
        return linspec.permutation_test(problem, named, **study, rng=request["seed"], **options)

    def report(result: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        layout, least = request.cls.solution.layout, 1 / (1 + result.permutations)
        how = "each permutation solved" if hasattr(result, "solution") else "stepwise, all pairs, without a ridge"
        count = f"{count_of(result.permutations, 'permutation')}{', interrupted' * result.interrupted}"
        show_facts(
            [
                ("test", f"{result.statistic}, {how}"),
                ("permutations", f"{count}; the least possible p-value is {least:.2g}"),
                ("found", f"{result.components()} of {count_of(len(result.values), layout.component)} at 5 %"),
            ]
        )
        columns = (result.values.tolist(), result.p_values.tolist(), result.uncorrected.tolist())
        rows = [
            {"component": i + 1, "value": value, "p_value": p, "uncorrected": alone}
            for i, (value, p, alone) in enumerate(zip(*columns, strict=True))
        ]
        echo()
        label = layout.value_label + ", with the ridge" * (ridge and hasattr(result, "solution"))
        table = [
            {
                layout.component: row["component"],
                label: float(f"{row['value']:.5g}"),
                "p": _p_value(row["p_value"], least),
                "p by itself": _p_value(row["uncorrected"], least),
            }
            for row in rows
        ]
        show_table(table, values.get("k") or output.SHOWN)
        return rows, {"permutations": result.permutations, "statistic": result.statistic}

    _study(request, values, ["permutations", "statistic", "max_seconds"], compute, report)


def _p_value(p: float, least: float) -> str:
    """Return a p-value as text; the least possible one is an upper bound."""
    return f"<= {p:.2g}" if p <= least else f"{p:.3g}"


permute = ProblemGroup(
    "permute",
    "Test by permutations which components are more than chance.",
    """Permute the rows of every matrix but the first, or of a single matrix the entries of each column, and
compare the values of components with those of permuted data. The rows must be exchangeable: not ordered in time, and
not from a few families.

Canonical correlations without a ridge are tested stepwise, all pairs, without a solve for each permutation. With a
ridge, a --solver or an option of one, and for other problems, every permutation is solved.""",
    _parameters(
        "the p-values",
        click.Option(
            ["--permutations"],
            type=click.IntRange(min=1),
            default=999,
            show_default=True,
            help="How many; the least possible p-value is 1 over one more.",
        ),
        click.Option(
            ["--statistic"],
            type=click.Choice(["wilks", "roy", "largest", "sum", "ranked"]),
            help="Stepwise wilks (the default) or roy; by solving largest (the default) or sum; for a single matrix "
            "ranked (the default) or largest.",
        ),
        click.Option(
            ["--max-seconds"],
            type=float,
            default=3600.0,
            show_default=True,
            metavar="NUMBER",
            help="Time after which no permutation is begun.",
        ),
    ),
    _permute,
)


# ---- bootstrap ----------------------------------------------------------------------------------


def _bootstrap(request: Request) -> None:
    import linspec

    _has_components(request)
    (values,) = request.values()
    if "sample_weight" not in values:
        raise Failure(
            f"bootstrap draws rows by their weights, and {request.name} takes none; `linspec cross-validate` holds out "
            "rows, and `linspec permute` permutes those of two or more matrices."
        )

    def compute(problem: Any, groups: Any, options: Mapping[str, Any]) -> Any:
        study = {"draws": request["draws"], "level": request["level"], "groups": groups}
        return linspec.bootstrap(problem, request.solver, **study, rng=request["seed"], **options)

    def report(result: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        layout = request.cls.solution.layout
        ties = ", ".join(f"{g[0] + 1} to {g[-1] + 1}" for g in result.groups() if len(g) > 1)
        draws = f"{count_of(result.draws, 'draw')}{', interrupted' * result.interrupted}"
        tied = f"{layout.component}s {ties} may have equal values: their span is known, not each"
        show_facts(
            [
                ("solver", result.solution.solver),
                ("draws", f"{draws}, {100 * result.level:g} % intervals"),
                ("ties", tied * bool(ties)),
                ("values", "with the ridge" * any(values.get(name) for name in ("ridge", "ridge_y"))),
            ]
        )
        echo()
        table = result.table(library="")
        show_table([{name: _five_digits(value) for name, value in row.items()} for row in table])
        columns = (layout.value_label, "lower", "upper", "bias", "agreement")
        more = {"values": [{name: row[name] for name in columns} for row in table]}
        return _weights(result), {**more, "draws": result.draws, "level": result.level}

    _study(request, values, ["draws", "level", "groups"], compute, report)


def _five_digits(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _weights(result: Any) -> list[dict[str, Any]]:
    """Return the interval of each weight, with the name of its column."""
    from linspec.solving.solution import weights_by_matrix

    layout = result.solution.layout
    return [
        {
            "matrix": matrix,
            "column": next(iter(row.values())),
            layout.component: i + 1,
            "weight": row[f"{layout.vector}{i + 1}"],
            "lower": row[f"{layout.vector}{i + 1} lower"],
            "upper": row[f"{layout.vector}{i + 1} upper"],
        }
        for matrix in weights_by_matrix(result.solution)
        for i in range(len(result.bias))
        for row in result.weights_table(matrix, library="")
    ]


bootstrap = ProblemGroup(
    "bootstrap",
    "Intervals of values and weights, by drawn rows.",
    """Draw rows with replacement, solve each draw, and show how much values vary: intervals, and the bias of values
of samples. Agreement is the mean cosine of the scores with those of the draws; components far below 1 are not stable.
""",
    _parameters(
        "the intervals of all weights, by column,",
        click.Option(
            ["--draws"], type=click.IntRange(min=2), default=500, show_default=True, help="How many draws."
        ),
        click.Option(
            ["--level"],
            type=float,
            default=0.95,
            show_default=True,
            metavar="FRACTION",
            help="The coverage of the intervals.",
        ),
        _groups("Whole groups are drawn."),
    ),
    _bootstrap,
)
