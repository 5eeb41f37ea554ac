"""`--ids`: a column with an id for each row, which says whether the rows of several files are the same.

Problem: rows of several files are paired by their places, and a file in another order gives an answer that is wrong and
looks right.
Method: the column is none of the numbers. Every file that has it must have the ids of the first file, in the same
order. The rows of other files are paired by their places, with a warning.
"""

from __future__ import annotations

from collections.abc import Iterable

import click

from linspec.cli.columns import REST, NamedMatrix, divided, left_out
from linspec.cli.data import column_as_text, column_names_in
from linspec.cli.failures import Failure, in_one_line
from linspec.errors import shown

__all__ = ["ids_option", "read_ids", "without_ids"]


def ids_option(more: str = "") -> click.Option:
    """Make the option ``--ids``; `more` is a further sentence of its help."""
    text = (
        "A column with an id for each row, which is none of the numbers. All files that have it must have the same ids "
        "in the same order."
    )
    return click.Option(["--ids"], metavar="COLUMN", help=f"{text} {more}".rstrip())


def without_ids(text: str, column: str | None) -> str:
    """Return the argument of a file without the column of ids; unchanged if the user picks its columns by name."""
    path, picked = divided(text)
    if column is None or (picked and not picked.startswith(REST)) or column not in _names(path):
        return text
    return f"{path}:{left_out(column, picked)}"


def read_ids(texts: Iterable[str], column: str) -> NamedMatrix:
    """Read the ids of the first file, and check that those of all other files are the same.

    Parameters
    ----------
    texts : iterable of str
        The arguments of the files; columns behind a file do not matter.
    column : str
        The column of the ids. The first file must have it.

    Raises
    ------
    Failure
        Ids of two files differ, or the first file has none.
    """
    first, *others = dict.fromkeys(divided(text)[0] for text in texts)
    ids = column_as_text(first, column)
    for path in others:
        if column in _names(path):
            _check_same(path, column_as_text(path, column), first, ids, column)
        else:
            said = f"{path} has no column {shown(column)}: its rows are paired with those of {first} by their places."
            click.echo(f"Warning: {in_one_line(said)}", err=True)
    return ids


def _names(path: str) -> tuple[str, ...]:
    return column_names_in(path) or ()


def _check_same(path: str, ids: NamedMatrix, first: str, wanted: NamedMatrix, column: str) -> None:
    """Refuse a file whose ids are not those of the first file in the same order."""
    own, others = ids.values.tolist(), wanted.values.tolist()
    if own == others:
        return
    place = next((i for i, (a, b) in enumerate(zip(own, others, strict=False)) if a != b), None)
    what = (
        f"have {len(own)} and {len(others)} rows"
        if place is None
        else f"differ in row {place}, from 0: {shown(own[place])} and {shown(others[place])}"
    )
    raise Failure(
        f"{path} and {first} must have the same ids in the column {column!r}, as rows are paired by their places; they "
        f"{what}; sort both files alike."
    )
