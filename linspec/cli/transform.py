"""`linspec transform`: scores of new rows by a saved answer, predictions, or probabilities of classes.

Problem: people who write no programs use an answer that `solve` has written on other files.
Method: columns are picked by the names that the answer knows, so that their order in the new file does not matter and
the file may have other columns, too. A column of ids is carried into the output as it stands.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from functools import partial
from typing import IO, Any

import click

from linspec import registry
from linspec.cli import data, output
from linspec.cli.output import Failure, echo, show_facts
from linspec.cli.problems import Command, header_option, is_several, matrices_of, row_options
from linspec.process.plurals import count_of

ABOUT = """Scores of new rows by a result of `linspec solve --out RESULT.npz`: components, canonical variates,
discriminant directions; of least squares, predictions. --predict gives classes of a discriminant, and the other view
of canonical correlations. If the targets of the rows are known, --target-column scores the predictions: accuracy or R².

Columns of files with names are picked by the names that the result knows. Without --out the numbers are printed."""


def _transform(**arguments: Any) -> None:
    """Run `linspec transform`; arguments are checked before the rows are read."""
    import linspec

    files = {name: arguments[name] for name in ("confounds", "targets") if arguments[name]}
    inputs = [arguments["result"], arguments["x"], *arguments["y"], *files.values()]
    out = output.check_target("--out", arguments["out"], (".csv", ".npy"), inputs)
    solution = linspec.load_solution(arguments["result"])
    what, compute = _computation(solution, arguments)
    texts = _texts(solution, arguments)
    labels = ["targets"] if getattr(solution, "classes", None) is not None else []
    rows, ids = data.read_all(texts, labels, drop=arguments["drop_missing"], ids=arguments["ids"])
    targets, confounds = rows.pop("targets", None), rows.pop("confounds", None)
    named = {} if confounds is None else {"confounds": confounds}
    names, values = compute(solution, rows, named)
    if out is not None and out.suffix == ".npy" and (values.dtype.kind not in "biuf" or ids):
        raise Failure(f"--out: .npy is for numbers, and ids or classes are texts; got {out.name!r}. Name a .csv file.")
    scores = [] if targets is None else _scores_of(solution, names, values, data.as_array(targets))
    head = [*([arguments["ids"]] if ids else []), *names]
    if out is None:
        buffer = io.BytesIO()
        _write(head, ids, values, buffer, ".csv")
        echo(buffer.getvalue().decode().rstrip("\n"))
        echo("\n".join(f"{label} {text}" for label, text in scores), err=True)
        return
    output.check_room(out, 8 * values.size)
    about = f"{arguments['result']} ({solution.problem})"
    show_facts([("result", about), (what, " x ".join(map(str, values.shape))), *scores])
    output.write_all([(out, partial(_write, head, ids, values))])


def _texts(solution: Any, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of rows by matrix, of confounds and of targets, each with the columns that are read."""
    from linspec.solving.solution import weights_by_matrix

    cls, known = registry.get_problem(solution.problem), weights_by_matrix(solution)
    several, names = is_several(cls), matrices_of(cls)
    matrices = list(known) if several else [name for name in names if name in known] or names
    files = [arguments["x"], *arguments["y"]]
    if len(files) > len(matrices):
        most = "one file" if len(matrices) == 1 else f"at most {len(matrices)} files"
        raise Failure(f"answers to {solution.problem} take {most} of rows; got {files[len(matrices)]!r} too. Leave it out.")
    chosen = [arguments["columns"], arguments["y_columns"]]
    texts = {
        matrix: _picked(file, chosen[i] if i < len(chosen) else None, matrix, solution)
        for i, (matrix, file) in enumerate(zip(matrices, files, strict=False))
    }
    if arguments["confounds"]:
        texts["confounds"] = _picked(arguments["confounds"], None, "confounds", solution)
    if arguments["targets"] or arguments["target_column"]:
        file, predicted = arguments["targets"] or arguments["x"], (*cls.stated.matrix_names, "")[1]
        texts["targets"] = _picked(file, arguments["target_column"], predicted, solution)
    return texts


def _picked(text: str, columns: str | None, matrix: str, solution: Any) -> str:
    """Return a file with the columns that the user names, or else those to which the answer was fitted."""
    wanted, (path, rest) = solution.column_names.get(matrix), data.divided(text)
    if columns:
        return f"{path}:{columns}"
    return f"{path}:{data.in_quotes(wanted)}" if wanted and not rest and data.names_in(path) else text


# ---- what the answer makes of them --------------------------------------------------------------

Computed = tuple[Sequence[str], Any]
"""Headings, and values with a row for each row of the data."""


def _computation(solution: Any, arguments: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the name of the result and the function that computes it, or refuse what the answer cannot give."""
    predict, probabilities = arguments["predict"], arguments["probabilities"]
    targets = next((name for name in ("target_column", "targets") if arguments[name]), None)
    if predict and probabilities:
        raise Failure("--predict and --probabilities are two results; got both. Leave one of them out.")
    if (predict or probabilities) and getattr(solution, "classes", "") is None:
        raise Failure(
            "the answer has no classes, which `linspec solve discriminant --target lda` keeps if every row has one."
        )
    if probabilities and not hasattr(solution, "probabilities"):
        raise Failure(
            f"--probabilities are those of the classes of a discriminant; got an answer to {solution.problem}."
        )
    if predict and not hasattr(solution, "predict"):
        raise Failure(f"answers to {solution.problem} predict nothing; leave --predict out for their scores.")
    if not hasattr(solution, "predict") and not hasattr(solution, "transform"):
        raise Failure(f"answers to {solution.problem!r} make nothing of new rows.")
    if probabilities or not (predict or not hasattr(solution, "transform")):
        if targets is not None:
            raise Failure(f"--{targets.replace('_', '-')} scores predictions; got none. Pass --predict, too.")
        return ("probabilities", _probabilities) if probabilities else ("scores", _scores)
    if targets is not None and arguments["y"]:
        raise Failure(
            f"the targets are what FILE predicts; got {arguments['y'][0]!r}, too. Pass it as --targets alone."
        )
    return "predictions", _predictions


def _probabilities(solution: Any, rows: Mapping[str, Any], named: Mapping[str, Any]) -> Computed:
    return list(map(str, solution.classes.tolist())), _here(solution.probabilities(*rows.values(), **named))


def _scores(solution: Any, rows: Mapping[str, Any], named: Mapping[str, Any]) -> Computed:
    """Compute the scores of the rows of each matrix, side by side; of several, names begin with the matrix."""
    from linspec.solving.linear_solution import as_several

    parts = [_here(part) for part in as_several(solution.transform(*rows.values(), **named))]
    vector = solution.layout.vector
    names = [
        f"{matrix.lower()}_{vector}{i + 1}" if len(parts) > 1 else f"{vector}{i + 1}"
        for matrix, part in zip(rows, parts, strict=True)
        for i in range(part.shape[1])
    ]
    return names, _side_by_side(parts)


def _predictions(solution: Any, rows: Mapping[str, Any], named: Mapping[str, Any]) -> Computed:
    """Predict right-hand sides, classes, or the other view; of both views each other."""
    from linspec.solving.linear_solution import as_several

    parts = [_here(part) for part in as_several(solution.predict(*rows.values(), **named))]
    if getattr(solution, "classes", None) is not None:
        return ["class"], parts[0]
    if getattr(solution, "path", None) is not None:
        return solution.target_names, _side_by_side(list(parts[0]) if solution.path else parts)
    both = list(registry.get_problem(solution.problem).stated.matrix_names)
    others = both[::-1] if len(parts) > 1 else [name for name in both if name not in rows]
    names = [
        name
        for matrix, part in zip(others, parts, strict=True)
        for name in solution.column_names.get(matrix, [f"{matrix.lower()}{i + 1}" for i in range(part.shape[1])])
    ]
    return names, _side_by_side(parts)


def _here(values: Any) -> Any:
    """Return values as a matrix in NumPy."""
    from linspec.arrays import to_host
    from linspec.sweeps.blocks import brought_here

    array = to_host(brought_here(values))
    return array if array.ndim > 1 else array[:, None]


def _side_by_side(parts: Sequence[Any]) -> Any:
    import numpy as np

    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def _scores_of(solution: Any, names: Sequence[str], values: Any, truth: Any) -> list[tuple[str, str]]:
    """Return the accuracy of predicted classes, or R² of predictions, in words; for a path that of each ridge."""
    import numpy as np

    from linspec.solving.prediction_score import prediction_score

    path = solution.along_path() if getattr(solution, "path", False) else [solution]
    classes, facts = getattr(solution, "classes", None), []
    for one, part, of in zip(path, np.split(values, len(path), 1), np.split(np.array(names), len(path)), strict=True):
        score = prediction_score(part if classes is None else part[:, 0], truth, classes)
        label = score.label + (f", ridge {one.ridge:g}" if len(path) > 1 else "")
        facts.append((label, f"{score.total:.6g}, on {count_of(score.rows, 'row')}"))
        if len(score.by_target) > 1:
            each = [f"{name} {figure:.4g}" for name, figure in zip(of, score.by_target, strict=True)]
            facts.append((f"{label} of each", "  ".join(each[: output.SHOWN])))
    return facts


def _write(head: Sequence[str], ids: Sequence[str], values: Any, stream: IO[bytes], suffix: str) -> None:
    """Write numbers with all their digits, after a column of ids if there is one."""
    import numpy as np

    if suffix == ".npy":
        np.save(stream, values)
        return
    form = {"f4": "%.9g", "f8": "%.17g"}.get(values.dtype.str[1:], "%s")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    for i, row in enumerate(values.tolist()):
        writer.writerow([*ids[i : i + 1], *(form % value for value in row)])
    stream.write(text.getvalue().encode())


transform = Command(
    "transform",
    callback=_transform,
    params=[
        click.Argument(["result"], metavar="RESULT.npz"),
        click.Argument(["x"], metavar="FILE"),
        click.Argument(["y"], metavar="[Y-FILE]...", nargs=-1),
        click.Option(["--columns"], metavar="NAMES", help="Columns of FILE by name, where the result knows none."),
        click.Option(["--y-columns"], metavar="NAMES", help="The same of Y-FILE."),
        header_option(),
        *row_options(),
        click.Option(
            ["--predict"],
            is_flag=True,
            help="Predictions of least squares, classes of a discriminant, the other view of canonical correlations.",
        ),
        click.Option(["--probabilities"], is_flag=True, help="The probability of each class of a discriminant."),
        click.Option(
            ["--target-column"],
            metavar="NAMES",
            help="With --predict: the columns of FILE, or of --targets, that are predicted; their accuracy or R² is "
            "printed.",
        ),
        click.Option(
            ["--targets"], metavar="FILE", help="With --predict: the targets of the rows, if FILE lacks them."
        ),
        click.Option(["--confounds"], metavar="FILE", help="The confounds of the rows, if the problem had some."),
        click.Option(["--out"], metavar="FILE", help="Write the numbers to FILE.csv or FILE.npy."),
    ],
    help=ABOUT,
    short_help="What a saved answer makes of new rows.",
)
