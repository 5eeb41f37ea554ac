"""Columns of a file by name: ``a,b``, ranges ``first..last``, and ``~a,b`` for all others.

Problem: a file of people has names, classes and numbers side by side, and a problem takes some of its columns as one
matrix and others as another.
Method: ``FILE:COLUMNS`` picks columns, wherever a command takes a file that has names. ``--columns`` and the option for
the second matrix put the same text behind the files. Without a second file the first one holds both matrices. Then the
first matrix has all columns that the second one does not name, unless it names its own.
"""

from __future__ import annotations

import csv
import io
import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from linspec.cli.failures import Failure
from linspec.errors import shown
from linspec.process.paths import is_there

__all__ = [
    "NamedMatrix",
    "chosen_columns",
    "column_options",
    "divided",
    "in_quotes",
    "left_out",
    "path_and_columns",
    "with_columns",
    "without_columns",
]

REST = "~"
"""Mark at the start of a list of columns: ``~a,b`` selects all columns of the file except a and b."""

RANGE = ".."
LISTED = 10
"""Largest number of names that a message lists."""


@dataclass(frozen=True)
class NamedMatrix:
    """A matrix from a file, with the names of its columns.

    Attributes
    ----------
    values : array, sparse matrix or LinearOperator of shape (n, p)
        Possibly an array of n texts.
    names : tuple of str or None
        None if the file has no names.
    labels : sequence or None
        The labels of the rows that the file gives.
    """

    values: Any
    names: tuple[str, ...] | None = None
    labels: Any = None

    @property
    def is_text(self) -> bool:
        """Whether the values are texts."""
        return getattr(getattr(self.values, "dtype", None), "kind", "") in tuple("OU")


def chosen_columns(names: Sequence[str], text: str, where: str) -> list[int]:
    """Return the numbers of the columns that a text picks.

    Parameters
    ----------
    names : sequence of str
        The names of all columns, in the order of the file.
    text : str
        Names and ranges with commas between them, in quotes where a name holds commas; "" for all columns.
    where : str
        The file, in messages.

    Raises
    ------
    Failure
        There is no such column, several have the name, one is picked twice, or none is left.
    """
    if not text:
        return list(range(len(names)))
    from linspec.operators import labels_in_front  # here: help loads no array library

    rest = text.startswith(REST)
    places: dict[str, list[int]] = {}
    for j, name in enumerate(names):
        places.setdefault(name, []).append(j)
    found = [j for part in _parts(text.removeprefix(REST), where) for j in _span(places, part, where)]
    twice = next((j for j, count in Counter(found).items() if count > 1), None)
    if twice is not None and not rest:  # left out twice is left out
        raise Failure(f"{where}: the column {shown(names[twice])} is picked twice. Name it once.")
    if rest:
        left_out = {*found, *range(labels_in_front(names))}
        found = [j for j in range(len(names)) if j not in left_out]
    if not found:
        raise Failure(f"{where}: no column is left of {_listed(names)}. Name some.")
    return found


def in_quotes(names: Sequence[str]) -> str:
    """Return names as a text that `chosen_columns` takes, whatever characters they hold."""
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="").writerow(names)
    return buffer.getvalue()


def divided(text: str) -> tuple[str, str]:
    """Split a text into the file, or the pattern of files, and the text behind it."""
    if is_there(text):
        return text, ""
    from linspec.operators.row_files import is_pattern

    parts = text.split(":")
    fronts = (":".join(parts[:i]) for i in range(len(parts) - 1, 0, -1))
    there = next((front for front in fronts if is_there(front)), None)
    if there:
        return there, text[len(there) + 1 :]
    front, colon, rest = text.partition(":")
    if is_pattern(front):
        return front, rest
    linked = os.path.islink(text)  # noqa: PTH114  # Path.is_symlink raises where no name is so long
    name = front if colon and not linked and Path(front).suffix else text
    what = "a link that leads to no file" if os.path.islink(name) else "no such file"  # noqa: PTH114
    raise Failure(f"{name}: {what}.")


def left_out(name: str, picked: str = "") -> str:
    """Return the text that leaves out a column, beside those that `picked`, a text ``~a,b``, leaves out already."""
    return f"{picked or REST}{',' * bool(picked)}{in_quotes([name])}"


def without_columns(*names: str, file: str = "") -> str:
    """Return the words that leave columns out, as typed in a shell: an option, or ``FILE:~NAMES`` of a file.

    Parameters
    ----------
    *names : str
        The columns.
    file : str, optional
        The file; without it the words are the option ``--columns``.

    Examples
    --------
    >>> from linspec.cli import without_columns
    >>> print(without_columns("age", "sex"))
    --columns '~age,sex'
    >>> print(without_columns("age, years", file="people.csv"))
    'people.csv:~"age, years"'
    """
    plain = all(name.replace("_", "a").isalnum() for name in names)
    text = REST + (",".join(names) if plain else in_quotes(names))
    return shlex.quote(f"{file}:{text}") if file else f"--columns {shlex.quote(text)}"


def _parts(text: str, where: str) -> list[str]:
    """Split a text into the names and ranges between its commas."""
    from linspec.operators import long_fields  # here: help loads no array library

    try:
        with long_fields(len(text)):
            (parts,) = csv.reader([text], skipinitialspace=True)
    except (csv.Error, ValueError) as error:  # a line end outside quotes: more than one line
        raise Failure(
            f"{where}: {shown(text)} are no names of columns ({error}). Put commas between names, and quotes around a "
            "name that holds commas, quotes or ends of lines."
        ) from error
    return parts


def _span(places: Mapping[str, Sequence[int]], part: str, where: str) -> list[int]:
    """Return the numbers of the columns of one name or range."""
    if part in places or part.strip() in places or RANGE not in part:
        return [_place(places, part, where)]
    first, _, last = part.partition(RANGE)
    start, stop = (_place(places, name, where) for name in (first, last))
    if stop < start:
        raise Failure(
            f"{where}: the range {shown(part)} ends before it begins: {shown(last.strip())} stands before "
            f"{shown(first.strip())}."
        )
    return list(range(start, stop + 1))


def _place(places: Mapping[str, Sequence[int]], text: str, where: str) -> int:
    name = text if text in places else text.strip()  # blanks may belong to the name
    found = places.get(name, ())
    if len(found) > 1:
        raise Failure(
            f"{where}: {len(found)} columns are called {shown(name)}. Rename them, to pick one by its name."
        )
    if not found:
        close = get_close_matches(name, places, 1)
        hint = (
            f"Did you mean {shown(close[0])}?"
            if close
            else f"There are {_listed([name for name, at in places.items() for _ in at])}."
        )
        raise Failure(f"{where}: no column is called {shown(name)}. {hint}")
    return found[0]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(map(shown, names[:LISTED])) + more


def column_options(matrices: Sequence[str], second: str) -> list[click.Parameter]:
    """Make the options that pick columns of the first matrix and of the second.

    Parameters
    ----------
    matrices : sequence of str
        The matrices of a problem.
    second : str
        The name of the option for the second matrix, such as ``"--target-column"``.
    """
    text = "Columns of {}-FILE by name: a,b or a range a..c, in delimited text with names and in .parquet."
    options: list[click.Parameter] = [
        click.Option(["--columns"], metavar="NAMES", help=text.format(matrices[0]))
    ]
    if len(matrices) > 1:
        more = (
            f" Without {matrices[1]}-FILE, of {matrices[0]}-FILE: {matrices[0]} has the other columns then."
        )
        help_ = text.format(matrices[1]) + more
        options.append(click.Option([second, "second_columns"], metavar="NAMES", help=help_))
    return options


def path_and_columns(text: str, named: str | None) -> tuple[str, str | None]:
    """Return the file of an argument, and its columns: those that an option names, or those behind the file."""
    path, behind = divided(text)
    if behind and named:
        raise Failure(
            f"the columns of {path} are named by an option and behind it, {shown(text)}. Name them once."
        )
    return path, named or behind or None


def with_columns(matrices: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parsed arguments, in which the names of columns are appended to the files, as ``FILE:COLUMNS``.

    ``--columns`` names the columns of the first matrix, and the option "second_columns" those of the second matrix. If
    the second file is missing, both matrices are read from the first file; by default, and with ``--columns ~NAMES``,
    the first matrix then has no column of the second one.

    Raises
    ------
    click.MissingParameter
        A file after the first is missing. There is no error if only the second file is missing and the option
        "second_columns" names its columns.
    Failure
        An option names columns of a file that has columns behind it.
    """
    made = dict(given)
    first, *others = (matrix.lower() for matrix in matrices)
    own, second = made.pop("columns", None), made.pop("second_columns", None)
    if own or (second and made[others[0]] is None):
        made[first], own = path_and_columns(made[first], own)
    if second and made[others[0]] is not None:
        made[others[0]], second = path_and_columns(made[others[0]], second)
    for name in others:
        if made[name] is None:
            if name != others[0] or not second:
                raise click.MissingParameter(param_hint=f"'{name.upper()}-FILE'", param_type="argument")
            made[name] = made[first]
            if second.startswith(REST):
                own = own or second.removeprefix(REST)
            else:  # all other columns are those that the second matrix does not have
                own = f"{own},{second}" if own and own.startswith(REST) else own or f"{REST}{second}"
    if own:
        made[first] = f"{made[first]}:{own}"
    if second:
        made[others[0]] = f"{made[others[0]]}:{second}"
    return made
