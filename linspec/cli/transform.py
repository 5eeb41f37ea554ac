"""`linspec transform`: scores of new rows by a saved answer, predictions, or probabilities of classes.

Problem: people who write no programs use an answer that `solve` has written on other files.
Method: the file names its problem, whose record has the names of the matrices. Columns are picked by the names that the
answer knows, so that their order in the new file does not matter and the file may have other columns, too. A column of
names of rows is carried into the output as it stands.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

import click

from linspec.cli.columns import NamedMatrix, in_quotes, path_and_columns
from linspec.cli.data import column_names_in, header_option, read_named
from linspec.cli.failures import Command, Failure
from linspec.cli.ids import ids_option, read_ids, without_ids
from linspec.cli.kinds import SHOWN, of_rows
from linspec.cli.missing import check_labels, drop_option, read_complete
from linspec.cli.offered import kind_named
from linspec.cli.outputs import check_room, check_target, write_all
from linspec.cli.settings import FileName
from linspec.cli.tables import show_facts
from linspec.process.plurals import count_of

__all__ = ["transform"]

SUFFIXES = (".csv", ".npy")

ABOUT = """Scores of new rows by a result of `linspec solve --out RESULT.npz`: components, canonical variates,
discriminant directions; of least squares, predictions. --predict gives classes of a discriminant, and the other view
of canonical correlations. If the targets of the rows are known, --target-column scores the predictions: accuracy or R².

Columns of files with names are picked by the names that the result knows. Without --out the numbers are printed."""


@dataclass(frozen=True)
class Result:
    """Headings and values to write, with a row for each row of the data.

    Attributes
    ----------
    what : str
        Its name in words.
    names : sequence of str
        The headings.
    values : numpy.ndarray of shape (n, columns)
        Numbers, or classes.
    """

    what: str
    names: Sequence[str]
    values: Any


def _transform(**given: Any) -> None:
    """Run `linspec transform`; arguments are checked before the rows are read."""
    import linspec

    files = [given["result"], given["x"], *given["y"], given["confounds"] or "", given["targets"] or ""]
    out = check_target("--out", given["out"], SUFFIXES, inputs=files)
    if given["predict"] and given["probabilities"]:
        raise Failure("--predict and --probabilities are two results; got both. Leave one of them out.")
    solution = linspec.load_solution(given["result"])
    matrices = _matrices(solution)
    compute = _chosen(solution, given)
    _check_targets(given, compute)
    _check_files(solution, matrices, given)
    if out is not None and out.suffix == ".npy" and given["ids"]:
        raise Failure(
            f"--ids are texts, and .npy is for numbers; got --out {given['out']}. Name a .csv file."
        )
    data, named, found = _read(solution, matrices, given)
    ids, result = found.get("ids"), compute(solution, data, named)
    scores = _score_rows(solution, result, of_rows(found["targets"])) if "targets" in found else []
    if out is not None and out.suffix == ".npy" and result.values.dtype.kind == "U":
        raise Failure(
            f"--out: classes are texts, and .npy is for numbers; got {given['out']!r}. Name a .csv file."
        )
    if out is None:
        buffer = io.BytesIO()
        _write(result, ids, buffer, ".csv")
        click.echo(buffer.getvalue().decode(), nl=False)
        for label, text in scores:
            click.echo(f"{label} {text}", err=True)
        return
    check_room(out, 8 * result.values.size)
    rows, columns = result.values.shape
    facts = [("result", f"{given['result']} ({solution.problem})"), (result.what, f"{rows} x {columns}")]
    show_facts([*facts, *scores])
    write_all([(out, partial(_write, result, ids))])


# ---- the rows -----------------------------------------------------------------------------------


def _matrices(solution: Any) -> list[str]:
    """Return the names of the matrices whose rows the solution takes."""
    if not hasattr(solution, "transform") and not hasattr(solution, "predict"):
        raise Failure(f"answers to {solution.problem!r} make nothing of new rows.")
    from linspec.solving.solution import weights_by_matrix  # here: help loads no array library

    kind, weights = kind_named(solution.problem), weights_by_matrix(solution)
    if kind.several:
        return list(weights)
    return [matrix for matrix in kind.matrices if matrix in weights] or list(kind.matrices)


def _check_files(solution: Any, matrices: Sequence[str], given: Mapping[str, Any]) -> None:
    """Refuse more files than the answer has matrices."""
    if len(matrices) >= 1 + len(given["y"]):
        return
    most = "one file" if len(matrices) == 1 else f"at most {len(matrices)} files"
    over = given["y"][len(matrices) - 1]
    raise Failure(f"answers to {solution.problem} take {most} of rows; got {over!r} too. Leave it out.")


def _read(
    solution: Any, matrices: Sequence[str], given: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any], dict[str, NamedMatrix]]:
    """Return the rows of each matrix, the confounds as a named argument, and the ids and targets if there are any."""
    asked = [(given["x"], given["columns"])]
    asked += [(text, given["y_columns"] if i == 0 else None) for i, text in enumerate(given["y"])]
    texts = {
        matrix: _picked(text, columns, matrix, solution, given["ids"])
        for matrix, (text, columns) in zip(matrices, asked, strict=False)
    }
    beside = {}
    if given["confounds"] is not None:
        beside["confounds"] = _picked(given["confounds"], None, "confounds", solution, given["ids"])
    more = {}
    if given["targets"] or given["target_column"]:
        text = given["targets"] or given["x"]
        more["targets"] = _picked(text, given["target_column"], _predicted(solution), solution, given["ids"])
    wanted, carried = {**texts, **beside, **more}, {}
    if given["ids"]:
        carried["ids"] = read_ids(wanted.values(), given["ids"])
    labels = tuple(more) if getattr(solution, "classes", None) is not None else ()
    if given["drop_missing"]:
        found, told = read_complete(wanted, labels, carried)
        click.echo(told, err=True)
    else:
        found = {name: read_named(text, texts=name in labels) for name, text in wanted.items()} | carried
        check_labels(found)
    data = [_checked(found[matrix], matrix, solution) for matrix in texts]
    named = {name: _checked(found[name], name, solution) for name in beside}
    return data, named, {name: found[name] for name in (*more, *carried)}


def _predicted(solution: Any) -> str:
    """Return the name of the matrix that an answer predicts from the first one."""
    return (*kind_named(solution.problem).matrices, "")[1]


def _picked(text: str, columns: str | None, matrix: str, solution: Any, ids: str | None) -> str:
    """Return the argument `text`, a file, with names of columns appended: ``FILE:COLUMNS``.

    The columns that the user names are appended. If the user names none, the columns to which the solution was fitted
    are appended. If the solution or the file has no names of columns, all columns but that of the ids are taken.
    """
    wanted = solution.column_names.get(matrix)
    if columns:
        path, _ = path_and_columns(text, columns)
        return f"{path}:{columns}"
    if wanted and column_names_in(text):
        return f"{text}:{in_quotes(wanted)}"
    return without_ids(text, ids)


def _checked(found: NamedMatrix, matrix: str, solution: Any) -> Any:
    """Return the rows of a matrix, after a check of the names of its columns.

    An error is raised if the names or their order differ from the columns to which the solution was fitted. Nothing is
    checked if the solution or the file has no names of columns.
    """
    wanted = solution.column_names.get(matrix)
    if wanted and found.names:
        from linspec.frames import check_names  # here: help loads no array library

        check_names(found.names, wanted, matrix, "the result")
    return found.values


# ---- what the answer makes of them --------------------------------------------------------------


def _chosen(solution: Any, given: Mapping[str, Any]) -> Any:
    """Return the function that computes the result, or refuse what the answer cannot give."""
    if (given["predict"] or given["probabilities"]) and getattr(solution, "classes", "") is None:
        raise Failure(
            "the answer has no classes, which `linspec solve discriminant --target lda` keeps if every row has one."
        )
    if given["probabilities"]:
        if not hasattr(solution, "probabilities"):
            raise Failure(
                f"--probabilities are those of the classes of a discriminant; got an answer to {solution.problem}."
            )
        return _probabilities
    if given["predict"] and not hasattr(solution, "predict"):
        raise Failure(f"answers to {solution.problem} predict nothing; leave --predict out for their scores.")
    if given["predict"] or not hasattr(solution, "transform"):
        return _predictions
    return _scores


def _check_targets(given: Mapping[str, Any], compute: Any) -> None:
    """Refuse targets if nothing is predicted that they could be compared with, or both views are."""
    option = next((name for name in ("target_column", "targets") if given[name]), None)
    if option is None:
        return
    if compute is not _predictions:
        raise Failure(f"--{option.replace('_', '-')} scores predictions; got none. Pass --predict, too.")
    if given["y"]:
        raise Failure(
            f"the targets are what FILE predicts; got {given['y'][0]!r}, too. Pass it as --targets alone."
        )


def _score_rows(solution: Any, result: Result, truth: Any) -> list[tuple[str, str]]:
    """Return the accuracy of predicted classes, or R² of predictions, in words; for a path that of each ridge."""
    import numpy as np

    from linspec.solving.prediction_score import prediction_score  # here: help loads no array library

    classes, values, rows = getattr(solution, "classes", None), result.values, []
    ridges = [one.ridge for one in solution.along_path()] if getattr(solution, "path", False) else [None]
    if classes is not None:
        scores = [prediction_score(values[:, 0], truth, classes)]
    else:
        scores = [prediction_score(part, truth) for part in np.split(values, len(ridges), axis=1)]
    for i, (score, ridge) in enumerate(zip(scores, ridges, strict=True)):
        label = score.label + (f", ridge {ridge:g}" if ridge is not None else "")
        rows.append((label, f"{score.total:.6g}, on {count_of(score.rows, 'row')}"))
        if len(score.by_target) > 1:
            names = result.names[i * len(score.by_target) :]
            each = [f"{name} {one:.4g}" for name, one in zip(names, score.by_target[:SHOWN], strict=False)]
            rows.append((f"{label} of each", "  ".join(each) + "  …" * (len(score.by_target) > SHOWN)))
    return rows


def _probabilities(solution: Any, data: Sequence[Any], named: Mapping[str, Any]) -> Result:
    from linspec.arrays import to_host
    from linspec.sweeps.blocks import brought_here

    found = to_host(brought_here(solution.probabilities(*data, **named)))
    return Result("probabilities", [str(name) for name in solution.classes.tolist()], found)


def _predictions(solution: Any, data: Sequence[Any], named: Mapping[str, Any]) -> Result:
    """Predict right-hand sides, classes, or the other view; of both views each other."""
    import numpy as np

    from linspec.arrays import to_host
    from linspec.sweeps.blocks import brought_here

    found = solution.predict(*data, **named)
    kind = kind_named(solution.problem)
    predicted = list(reversed(kind.matrices[: len(data)])) if len(data) > 1 else [_predicted(solution)]
    parts = [to_host(brought_here(part)) for part in (found if isinstance(found, tuple) else (found,))]
    if getattr(solution, "path", False):
        parts = [np.concatenate([part.reshape(part.shape[0], -1) for part in parts[0]], axis=1)]
    parts = [part.reshape(part.shape[0], -1) for part in parts]
    if getattr(solution, "classes", None) is not None:
        return Result("predictions", ["class"], parts[0])
    if hasattr(solution, "path"):  # least squares
        names = solution.target_names
    else:
        names = [
            name
            for matrix, part in zip(predicted, parts, strict=True)
            for name in _headings(solution, matrix, part.shape[1])
        ]
    return Result("predictions", names, np.concatenate(parts, axis=1))


def _headings(solution: Any, matrix: str, count: int) -> Sequence[str]:
    """Return the names of the columns of a matrix, or numbers behind its name."""
    names = solution.column_names.get(matrix, ())
    return names if len(names) == count else [f"{matrix.lower()}{i + 1}" for i in range(count)]


def _scores(solution: Any, data: Sequence[Any], named: Mapping[str, Any]) -> Result:
    """Compute the scores of the rows of each matrix, side by side.

    Of several matrices, the names of the scores begin with the name of the matrix, such as x_ and y_.
    """
    import numpy as np

    from linspec.arrays import to_host

    parts = solution.transform(*data, **named)
    parts = parts if len(data) > 1 else (parts,)
    vector = solution.layout.vector
    names = [
        f"{matrix.lower()}_{vector}{i + 1}" if len(data) > 1 else f"{vector}{i + 1}"
        for matrix, part in zip(_matrices(solution), parts, strict=False)
        for i in range(part.shape[1])
    ]
    return Result("scores", names, np.concatenate([to_host(part) for part in parts], axis=1))


def _write(result: Result, ids: NamedMatrix | None, stream: IO[bytes], suffix: str) -> None:
    """Write numbers with all their digits, after a column of ids if there is one.

    A `.csv` file begins with a row of the names; a `.npy` file has no names.
    """
    import numpy as np

    values = result.values
    if suffix == ".npy":
        np.save(stream, values)
        return
    form = ("%.9g" if values.dtype == np.float32 else "%.17g") if values.dtype.kind == "f" else "%s"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(ids.names or () if ids else ()), *result.names])
    if ids is None and values.dtype.kind == "f":
        stream.write(text.getvalue().encode())
        np.savetxt(stream, values, fmt=form, delimiter=",")
        return
    beside = [()] * len(values) if ids is None else [(name,) for name in ids.values.tolist()]
    writer.writerows(
        (*name, *(form % value for value in row)) for name, row in zip(beside, values.tolist(), strict=True)
    )
    stream.write(text.getvalue().encode())


transform = Command(
    "transform",
    callback=_transform,
    params=[
        click.Argument(["result"], metavar="RESULT.npz", type=FileName(path_type=str)),
        click.Argument(["x"], metavar="FILE", type=FileName(path_type=str)),
        click.Argument(["y"], metavar="[Y-FILE]...", nargs=-1, type=FileName(path_type=str)),
        click.Option(
            ["--columns"], metavar="NAMES", help="Columns of FILE by name, where the result knows none."
        ),
        click.Option(["--y-columns"], metavar="NAMES", help="The same of Y-FILE."),
        header_option(),
        ids_option("It stands first in the output, as in FILE."),
        click.Option(
            ["--predict"],
            is_flag=True,
            help="Predictions of least squares, classes of a discriminant, the other view of canonical correlations.",
        ),
        click.Option(
            ["--probabilities"], is_flag=True, help="The probability of each class of a discriminant."
        ),
        click.Option(
            ["--target-column"],
            metavar="NAMES",
            help="With --predict: the columns of FILE, or of --targets, that are predicted; their accuracy or R² is "
            "printed.",
        ),
        click.Option(
            ["--targets"], metavar="FILE", help="With --predict: the targets of the rows, if FILE lacks them."
        ),
        click.Option(
            ["--confounds"], metavar="FILE", help="The confounds of the rows, if the problem had some."
        ),
        drop_option(),
        click.Option(["--out"], metavar="FILE", help="Write the numbers to FILE.csv or FILE.npy."),
    ],
    help=ABOUT,
    short_help="What a saved answer makes of new rows.",
)
"""The command `linspec transform`."""
