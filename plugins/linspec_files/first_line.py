"""Whether the first line of delimited text holds names of columns, where names may be numbers.

Problem: a text declares no header, and names may be numbers: years, wavelengths, the 0, 1, 2 of a frame without
names. A header read as a row is a row too many, and a row read as a header one too few; neither is seen afterwards.
Method: the first line is compared with the lines below it. Fields without any number are names by their letters.
Numbers are names if several names of letters stand beside them above numbers, or if the corner before them is empty
above labels. They are data if nothing speaks for names. Where something does, as with years, equal steps or factors,
and other decimals or sizes than below, nobody can tell, and the user must.
Where we differ: ``csv.Sniffer.has_header`` votes on the lengths of fields; readers of R and pandas take every first
line for names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from linspec.operators import labels_in_front

__all__ = ["holds_names", "is_like_number", "is_missing"]

MISSING = frozenset({"", "?", "-", ".", "na", "n/a", "nan", "nil", "none", "null"})
"""Texts that stand for a missing number, and cannot be names of columns."""

DIGITS = frozenset("0123456789.")
"""Characters of which a damaged number such as 1.5.2 may consist."""

YEARS = range(1500, 2101)
"""Whole numbers that may be years."""

MANY = 5
"""Largest number of fields that may rise or fall by chance."""

Line = tuple[int, str, list[str]]
"""The number of a line, its text and its fields."""


def holds_names(first: Line, below: Sequence[Line]) -> bool | None:
    """Whether the first line holds names of columns; None if the lines below leave it open.

    Parameters
    ----------
    first : Line
    below : sequence of Line
        Some lines of data. If they have one field more, it is a label of the row.
    """
    *_, fields = first
    front = labels_in_front(fields)
    if not any(map(is_like_number, fields)) and (
        any(map(_is_name, fields[front:])) or (len(fields) > 1 and all(map(_has_letters, fields[front:])))
    ):
        return True
    short = bool(below) and all(len(row) == len(fields) + 1 for *_, row in below)
    rows = [row[short:] for *_, row in below if len(row) == len(fields) + short]
    columns = [[row[j] for row in rows] for j in range(len(fields))]
    numeric = [bool(column) and all(map(_is_number_or_gap, column)) for column in columns]
    if not any(map(_is_number_or_gap, fields[front:])):
        if any(field and set(field) <= DIGITS for field in fields[front:]):
            return None  # a date, or a damaged number
        return len(fields) > 1 and any(numeric[front:])  # dates and the like above numbers
    above_numbers = [field for field, of_numbers in zip(fields, numeric, strict=True) if of_numbers and field]
    if not all(is_like_number(field) or _is_name(field) for field in above_numbers):
        return False  # a damaged number
    counted = bool(rows) and _is_name(fields[0]) and _counts(columns[0])
    corner = [row[0] for *_, row in below] if short else columns[0] if front or counted else []
    named = sum(map(_is_name, above_numbers))
    labelled = corner and rows and (not any(map(_is_number_or_gap, corner)) or _counts(corner))
    if named > 1 or labelled:
        return True
    above_text = any(
        is_like_number(field) and column and not any(map(_is_number_or_gap, column))
        for field, column in zip(fields, columns, strict=True)
    )
    places = [j for j, field in enumerate(fields) if numeric[j] and is_like_number(field)]
    data = [[row[j] for j in places] for row in rows if all(is_like_number(row[j]) for j in places)]
    return None if named or above_text or _stand_out([fields[j] for j in places], data) else False


def _stand_out(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether numbers above columns of numbers differ from those as names of columns may."""
    x = [float(field) for field in first]
    rows = [[float(field) for field in row] for row in below]
    if not x or not rows or len(set(x)) < len(x) or not all(map(math.isfinite, x)):
        return False
    columns, several = list(zip(first, *below, strict=True)), len(x) > 1
    if (several and _is_even([*first, *below[0]])) or (len(rows) > 1 and all(map(_is_even, columns))):
        return False  # as 1,2,3 above 4,5,6, or columns of which each goes on below
    decimals = list(map(_decimals, first))
    decimals_below = [_decimals(field) for row in below for field in row]
    low, high = min(map(min, rows)), max(map(max, rows))
    geometric = _is_geometric(x) and 2 * sum(map(_is_geometric, rows)) < len(rows)
    return (
        (len(x) > 2 and _is_even(first))
        or geometric
        or (_are_years(first) and not any(map(_are_years, below)))
        or (len(x) > MANY and _sign(x) != 0 and not any(map(_sign, rows)))
        or (list(first) in (["0"], ["0", "1"]) and not any(column[0] in column[1:] for column in columns))
        or (max(decimals) < min(decimals_below) and (several or not decimals[0]))
        or (several and min(decimals) > max(decimals_below))
        or (several and 0 < high - low < max(low - max(x), min(x) - high))
    )


def _are_years(fields: Sequence[str]) -> bool:
    return all(field.isdecimal() and len(field) == 4 and int(field) in YEARS for field in fields)


def _sign(x: Sequence[float]) -> int:
    """1 for numbers that rise, -1 for numbers that fall, else 0."""
    rises = all(a < b for a, b in pairwise(x))
    falls = all(a > b for a, b in pairwise(x))
    return int(rises) - int(falls)


def _is_even(fields: Sequence[str]) -> bool:
    """Whether numbers rise or fall by equal steps, up to a unit of their last digit if the steps are many units."""
    x = [float(field) for field in fields]
    step = (x[-1] - x[0]) / (len(x) - 1)
    unit = 10.0 ** -max(map(_decimals, fields))
    rounding = max(1e-9 * abs(step), 1e-12 * max(map(abs, x)))
    room = max(unit, rounding) if len(x) >= MANY and abs(step) > 10 * unit else rounding
    return _sign(x) != 0 and all(abs(x[0] + i * step - value) <= room for i, value in enumerate(x))


def _is_geometric(x: Sequence[float]) -> bool:
    """Whether numbers rise or fall by equal factors, as doses do."""
    factors = [b / a for a, b in pairwise(x)] if min(x) > 0 else []
    return len(factors) > 1 and _sign(x) != 0 and all(map(partial(math.isclose, factors[0]), factors))


def _decimals(field: str) -> int:
    """The number of decimals of a number, as it is written; many for one in the notation 1e-3."""
    return 17 if "e" in field.lower() else len(field.partition(".")[2])


def _counts(column: Sequence[str]) -> bool:
    """Whether fields count from 0 or from 1."""
    return any(list(column) == [str(i + first) for i in range(len(column))] for first in (0, 1))


def _is_name(text: str) -> bool:
    """Whether a field has letters, does not begin like a number, and does not stand for a missing value."""
    return text[:1] not in set("+-.,0123456789") and _has_letters(text) and not is_like_number(text)


def _has_letters(text: str) -> bool:
    """Whether a field contains letters and does not stand for a missing value.

    The field may begin like a number: the name `1007_s_at` has letters.
    """
    return any(map(str.isalpha, text)) and text.lower() not in MISSING


def _is_number_or_gap(text: str) -> bool:
    return is_like_number(text) or is_missing(text)


def is_missing(text: str) -> bool:
    """Whether a field stands for a missing value; NaN is both missing and a number."""
    return text.strip().lower() in MISSING


def is_like_number(text: str) -> bool:
    """Whether Python accepts a field as a number; Python accepts more forms than `number_in`."""
    try:
        float(text)
    except ValueError:
        return False
    return True
