"""`linspec transform`: scores of new rows by a saved answer, predictions, or probabilities of classes.

Problem: people who write no programs use an answer that `solve` has written on other files.
Method: columns are picked by the names that the answer knows, so that their order in the new file does not matter and
the file may have other columns, too. A column of ids is carried into the output as it stands.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from functools import partial
from typing import IO, Any

import click
import numpy as np

import linspec
from linspec import registry
from linspec.arrays import to_host
from linspec.cli import data, output
from linspec.cli.commands import HEADER, ROWS, option
from linspec.cli.output import Failure, Values, echo, refuse, show_facts
from linspec.cli.problems import is_several, matrices_of
from linspec.process.plurals import count_of
from linspec.process.progress import report_progress
from linspec.solving.linear_solution import as_several
from linspec.solving.prediction_score import prediction_score
from linspec.solving.solution import weights_by_matrix
from linspec.workers import brought_here

METHODS = {"probabilities": "probabilities", "predictions": "predict", "scores": "transform"}
"""The method of an answer that computes each result."""


def _transform(**arguments: Any) -> None:
    """Run `linspec transform`; arguments are checked before the rows are read."""
    files = [arguments[name] for name in ("result", "x", "confounds", "targets")]
    inputs = [*filter(None, files), *arguments["y"]]
    out = output.check_target("--out", arguments["out"], (".csv", ".npy"), inputs)
    solution = linspec.load_solution(arguments["result"])
    what, labels = _result(solution, arguments), ["targets"] if hasattr(solution, "classes") else []
    cls = registry.get_problem(solution.problem)
    settings = {"drop": arguments["drop_missing"], "ids": arguments["ids"], "span": arguments["rows"]}
    rows, ids = data.read_all(_texts(solution, arguments), labels, **settings, problem=cls)
    targets = rows.pop("targets", None)
    named = {name: rows.pop(name) for name in ("confounds",) if name in rows}
    with report_progress(what, wanted=None):
        names, values = _computed(solution, what, rows, named, arguments["rotate"])
    if out is not None and out.path.suffix == ".npy" and (values.dtype.kind not in "biuf" or ids):
        raise Failure(
            f"--out: .npy is for numbers, and ids and classes are texts; got {out.name!r}. Name a .csv file."
        )
    scores = [] if targets is None else _scored(solution, values, data.as_array(targets))
    write = partial(_write, [*([arguments["ids"]] if ids else []), *names], ids, values)
    if out is None:
        write(buffer := io.BytesIO(), ".csv")
        echo(buffer.getvalue().decode().rstrip("\n"))
        for label, text in scores:
            echo(f"{label} {text}", err=True)
        return
    about = f"{arguments['result']} ({solution.problem})"
    show_facts([("result", about), (what, " x ".join(map(str, values.shape))), *scores])
    output.write_all((out, write))


def _result(solution: Any, arguments: Values) -> str:
    """Return what is computed, after a check that the answer can compute it."""
    predict, targets = arguments["predict"], {arguments["target_column"], arguments["targets"]} != {None}
    refuse(
        predict and arguments["probabilities"],
        "--predict and --probabilities are two results; got both. Leave one of them out.",
    )
    predict = predict or not hasattr(solution, "transform")
    what = "probabilities" if arguments["probabilities"] else "predictions" if predict else "scores"
    refuse(
        what != "scores" and getattr(solution, "classes", "") is None,
        "the answer has no classes, which `linspec solve discriminant --target lda` keeps if every row has one.",
    )
    refuse(
        not hasattr(solution, METHODS[what]),
        f"answers to {solution.problem} have no {what}. Leave the option out for what they have.",
    )
    refuse(
        targets and (what != "predictions" or arguments["y"]),
        "targets score predictions of the rows of one file. Pass --predict, and the targets as --targets.",
    )
    return what


def _texts(solution: Any, arguments: Values) -> dict[str, str]:
    """Return the files of rows by matrix, of confounds and of targets, each with the columns that are read."""
    cls, known = registry.get_problem(solution.problem), list(weights_by_matrix(solution))
    names, paths = matrices_of(cls), [arguments["x"], *arguments["y"]]
    matrices = known if is_several(cls) else [name for name in names if name in known] or names
    most = count_of(len(matrices), "file")
    for path in paths[len(matrices) :]:
        raise Failure(f"answers to {solution.problem} take {most} of rows; got {path!r}, too. Leave it out.")
    files = dict(zip(matrices, paths, strict=False))
    columns = dict(zip(matrices, (arguments["columns"], arguments["y_columns"]), strict=False))
    columns["targets"] = arguments["target_column"]
    if arguments["confounds"] is not None:
        files["confounds"] = arguments["confounds"]
    if {arguments["targets"], columns["targets"]} != {None}:
        files["targets"] = arguments["x"] if arguments["targets"] is None else arguments["targets"]
    for name, file in files.items():
        files[name] = data.with_columns(file, columns.get(name))
        fitted = solution.column_names.get((*names, "")[1] if name == "targets" else name)
        path, rest = data.divided(files[name])
        if fitted and not rest and data.names_in(path):
            files[name] = f"{path}:{data.in_quotes(fitted)}"
    return files


def _computed(
    solution: Any, what: str, rows: Values, named: Values, turned: str | None
) -> tuple[Sequence[str], Any]:
    """Return the headings and the values of the result, with a row for each row of the data."""
    source = linspec.rotate(solution, turned) if turned else solution
    computed = as_several(getattr(source, METHODS[what])(*rows.values(), **named))
    parts = [to_host(brought_here(part)) for part in computed]
    path, vector, several = getattr(solution, "path", None), solution.layout.vector, len(parts) > 1
    parts = [part.reshape(len(part), -1) for part in (parts[0] if path else parts)]
    if what == "probabilities":
        names = list(map(str, solution.classes.tolist()))
    elif what == "scores":
        fronts = [f"{matrix.lower()}_" * several + vector for matrix in rows]
        names = [
            f"{front}{i + 1}" for front, part in zip(fronts, parts, strict=True) for i in range(part.shape[1])
        ]
    elif path is not None or hasattr(solution, "classes"):
        names = ["class"] if path is None else solution.target_names
    else:
        both, names = list(registry.get_problem(solution.problem).stated.matrix_names), []
        targets = both[::-1] if several else [name for name in both if name not in rows]
        for name, part in zip(targets, parts, strict=False):
            numbered = [f"{name.lower()}{i + 1}" for i in range(part.shape[1])]
            names += solution.column_names.get(name, numbered)
    return names, np.concatenate(parts, axis=1)


def _scored(solution: Any, values: Any, truth: Any) -> list[tuple[str, str]]:
    """Return the accuracy of predicted classes, or R² of predictions, in words; for a path that of each ridge."""
    classes, facts = getattr(solution, "classes", None), []
    path = solution.along_path() if getattr(solution, "path", False) else [solution]
    for i, part in enumerate(np.split(values, len(path), axis=1)):
        score = prediction_score(part if classes is None else part[:, 0], truth, classes)
        label = score.label + (f", ridge {path[i].ridge:g}" if len(path) > 1 else "")
        facts.append((label, f"{score.total:.6g}, on {count_of(score.rows, 'row')}"))
    return facts


def _write(head: Sequence[str], ids: Sequence[str], values: Any, stream: IO[bytes], suffix: str) -> None:
    """Write numbers with all their digits, after a column of ids if there is one."""
    if suffix == ".npy":
        np.save(stream, values)
        return
    text = io.StringIO()
    form = {"f4": "%.9g", "f8": "%.17g"}.get(values.dtype.str[1:], "%s")
    rows = ((*ids[i : i + 1], *(form % value for value in row)) for i, row in enumerate(values.tolist()))
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    stream.write(text.getvalue().encode())


TRANSFORM = (
    [
        click.Argument(["result"], metavar="RESULT.npz"),
        click.Argument(["x"], metavar="FILE"),
        click.Argument(["y"], metavar="[Y-FILE]...", nargs=-1),
        option("--columns", metavar="NAMES", help="Columns of FILE by name, where the result knows none."),
        option("--y-columns", metavar="NAMES", help="The same of Y-FILE."),
        HEADER,
        *ROWS,
        option(
            "--predict", is_flag=True, help="Predictions of least squares, classes, or the other view of CCA."
        ),
        option("--probabilities", is_flag=True, help="The probability of each class of a discriminant."),
        option(
            "--target-column",
            metavar="NAMES",
            help="With --predict: the columns of FILE, or of --targets, that are scored.",
        ),
        option("--targets", help="With --predict: the targets of the rows, if FILE lacks them."),
        option("--rotate", metavar="METHOD", help="Scores of components rotated by varimax or promax."),
        option("--confounds", help="The confounds of the rows, if the problem had some."),
        option("--out", help="Write the numbers to FILE.csv or FILE.npy."),
    ],
    _transform,
    """Scores of new rows by a result of `linspec solve --out RESULT.npz`: components, canonical variates,
discriminant directions; of least squares, predictions. --predict gives classes of a discriminant, and the other view
of canonical correlations. If the targets of the rows are known, --target-column scores the predictions: accuracy or R².

Columns of files with names are picked by the names that the result knows. Without --out the numbers are printed.""",
)
