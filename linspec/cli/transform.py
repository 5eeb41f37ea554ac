"""`linspec transform`: scores of new rows by a saved answer.

Problem: people who write no programs use an answer that `solve` has written on other files.
Method: the file names its problem, whose record has the names of the matrices. Columns are picked by the names that the
answer knows, so that their order in the new file does not matter and the file may have other columns, too.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from functools import partial
from typing import IO, Any

import click

from linspec.cli.columns import NamedMatrix, in_quotes
from linspec.cli.data import column_names_in, read_named
from linspec.cli.failures import Command, Failure
from linspec.cli.missing import drop_option, read_complete
from linspec.cli.offered import kind_named
from linspec.cli.outputs import check_room, check_target, write_all
from linspec.cli.settings import FileName
from linspec.cli.tables import show_facts

__all__ = ["transform"]

SUFFIXES = (".csv", ".npy")

ABOUT = """Scores of new rows by a result of `linspec solve --out RESULT.npz`: components, canonical variates,
discriminant directions; of least squares, predictions.

Columns of files with names are picked by the names that the result knows. Without --out the numbers are printed."""


def _transform(**given: Any) -> None:
    """Run `linspec transform`; arguments are checked before the rows are read."""
    import linspec

    files = [given["result"], given["x"], *given["y"]]
    out = check_target("--out", given["out"], SUFFIXES, inputs=[*files, given["confounds"] or ""])
    solution = linspec.load_solution(given["result"])
    matrices = _matrices(solution)
    if len(matrices) < 1 + len(given["y"]):
        most = "one file" if len(matrices) == 1 else f"at most {len(matrices)} files"
        over = given["y"][len(matrices) - 1]
        raise Failure(f"answers to {solution.problem} take {most} of rows; got {over!r} too. Leave it out.")
    asked = [(given["x"], given["columns"])]
    asked += [(text, given["y_columns"] if i == 0 else None) for i, text in enumerate(given["y"])]
    texts = {
        matrix: _picked(text, columns, matrix, solution)
        for matrix, (text, columns) in zip(matrices, asked, strict=False)
    }
    beside = {} if given["confounds"] is None else {"confounds": given["confounds"]}
    if given["drop_missing"]:
        found, told = read_complete({**texts, **beside})
        click.echo(told, err=True)
    else:
        found = {name: read_named(text) for name, text in {**texts, **beside}.items()}
    picked = dict(zip(matrices, (columns for _, columns in asked), strict=False))
    data = [_checked(found[matrix], picked[matrix], matrix, solution) for matrix in texts]
    confounds = _checked(found["confounds"], None, "confounds", solution) if beside else None
    names, scores = _scores(solution, matrices, data, confounds)
    if out is None:
        buffer = io.BytesIO()
        _write(names, scores, buffer, ".csv")
        click.echo(buffer.getvalue().decode(), nl=False)
        return
    check_room(out, 8 * scores.size)
    rows, columns = scores.shape
    show_facts([("result", f"{given['result']} ({solution.problem})"), ("scores", f"{rows} x {columns}")])
    write_all([(out, partial(_write, names, scores))])


def _matrices(solution: Any) -> list[str]:
    """Return the names of the matrices whose rows the solution takes."""
    if not hasattr(solution, "transform") and not hasattr(solution, "predict"):
        raise Failure(f"answers to {solution.problem!r} make nothing of new rows.")
    from linspec.solving.solution import weights_by_matrix  # here: help loads no array library

    kind, weights = kind_named(solution.problem), weights_by_matrix(solution)
    if kind.several:
        return list(weights)
    return [matrix for matrix in kind.matrices if matrix in weights] or list(kind.matrices)


def _picked(text: str, columns: str | None, matrix: str, solution: Any) -> str:
    """Return the argument `text`, a file, with names of columns appended: ``FILE:COLUMNS``.

    The columns that the user names are appended. If the user names none, the columns to which the solution was fitted
    are appended. But if the solution has no names of columns, or the file has none, `text` is returned unchanged.
    """
    wanted = solution.column_names.get(matrix)
    if columns:
        return f"{text}:{columns}"
    if wanted and column_names_in(text):
        return f"{text}:{in_quotes(wanted)}"
    return text


def _checked(found: NamedMatrix, columns: str | None, matrix: str, solution: Any) -> Any:
    """Return the rows of a matrix, after a check of the columns that the user picked.

    An error is raised if their names or their order differ from the columns to which the solution was fitted. Nothing
    is checked if the user picked no columns, or if the solution or the file has no names of columns.
    """
    wanted = solution.column_names.get(matrix)
    if columns and wanted and found.names:
        from linspec.frames import check_names  # here: help loads no array library

        check_names(found.names, wanted, matrix, "the result")
    return found.values


def _scores(
    solution: Any, matrices: Sequence[str], data: Sequence[Any], confounds: Any
) -> tuple[list[str], Any]:
    """Compute the scores of the rows; return the names of the scores, and an array with a column for each name.

    The scores of several matrices stand side by side, and their names begin with the name of the matrix, such as x_ and
    y_. A solution that has no `transform` gives predictions.
    """
    import numpy as np

    from linspec.arrays import to_host

    named = {} if confounds is None else {"confounds": confounds}
    if not hasattr(solution, "transform"):
        found = to_host(solution.predict(*data, **named))
        if getattr(solution, "path", False):
            found = np.concatenate([part.reshape(part.shape[0], -1) for part in found], axis=1)
        found = found.reshape(found.shape[0], -1)
        given = solution.column_names.get("B", ())
        fits = len(given) == found.shape[1]
        return list(given) if fits else [f"b{i + 1}" for i in range(found.shape[1])], found
    parts = solution.transform(*data, **named)
    parts = parts if len(data) > 1 else (parts,)
    names = [
        f"{matrix.lower()}_{solution.layout.vector}{i + 1}"
        if len(data) > 1
        else f"{solution.layout.vector}{i + 1}"
        for matrix, part in zip(matrices, parts, strict=False)
        for i in range(part.shape[1])
    ]
    return names, np.concatenate([to_host(part) for part in parts], axis=1)


def _write(names: Sequence[str], scores: Any, stream: IO[bytes], suffix: str) -> None:
    """Write scores with all their digits. A `.csv` file begins with a row of the names; a `.npy` file has no names."""
    import numpy as np

    if suffix == ".npy":
        np.save(stream, scores)
        return
    head = io.StringIO()
    csv.writer(head, lineterminator="\n").writerow(names)
    stream.write(head.getvalue().encode())
    np.savetxt(stream, scores, fmt="%.9g" if scores.dtype == np.float32 else "%.17g", delimiter=",")


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
