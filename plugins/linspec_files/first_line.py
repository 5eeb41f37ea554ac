"""Whether the first line of delimited text holds names of columns, where names may be numbers.

Problem: a text declares no header, and names may be numbers: years, wavelengths, the 0, 1, 2 of a frame without
names. A header read as a row is a row too many, and a row read as a header one too few; neither is seen afterwards.
Method: the first line is compared with the lines below it. Fields without any number are names by their letters.
Numbers are names if they are quoted and those below are not, if several names of letters stand beside them above
numbers, if the corner before them is empty above labels, if they are years, or if they rise or fall by equal steps or
factors and the lines below do nothing of the kind. They are data if nothing speaks for names. Where something does,
but data may look so as well, nobody can tell, and the user must.
Where we differ: ``csv.Sniffer.has_header`` votes on the lengths of fields; readers of R and pandas take every first
line for names.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from linspec.operators import labels_in_front

__all__ = ["holds_names", "is_like_number", "is_missing"]

MISSING = frozenset({"", "?", "-", ".", "na", "n/a", "nan", "nil", "none", "null"})
"""Texts that stand for a missing number, and cannot be names of columns."""

DIGITS = frozenset("0123456789.")
"""Characters of which a damaged number such as 1.5.2 may consist."""

YEARS, APART = range(1500, 2101), 25
"""Whole numbers that may be years, and the largest step between two years that name columns side by side."""

CHANCES = 1000
"""Least number of lines of whole numbers among which 0, 1, 2 is one by chance."""

MANY = 5
"""Least number of fields that do not rise evenly by chance, even if they are small whole numbers."""

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
    _, line, fields = first
    front = labels_in_front(fields)
    if not any(map(is_like_number, fields)) and (
        any(map(_is_name, fields[front:])) or (len(fields) > 1 and all(map(_has_letters, fields[front:])))
    ):
        return True
    short = bool(below) and all(len(row) == len(fields) + 1 for *_, row in below)
    rows = [(text, row[short:]) for _, text, row in below if len(row) == len(fields) + short]
    columns = [[row[j] for _, row in rows] for j in range(len(fields))]
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
    if corner and rows and (not any(map(_is_number_or_gap, corner)) or _counts(corner)):
        return True
    places = [j for j, field in enumerate(fields) if numeric[j] and is_like_number(field)]
    numbers, named = [fields[j] for j in places], sum(map(_is_name, above_numbers))
    data = [[row[j] for j in places] for _, row in rows if all(is_like_number(row[j]) for j in places)]
    if named > 1 or (
        numbers and _quoted(line, numbers) and not all(_quoted(text, row) for text, row in rows)
    ):
        return True
    verdict = _are_names(numbers, data) if numbers and data else False
    if named and verdict is not True:
        return True if numbers and data and _whole_over_fractions(numbers, data) else None
    above_text = any(
        is_like_number(field) and column and not any(map(_is_number_or_gap, column))
        for field, column in zip(fields, columns, strict=True)
    )
    return None if above_text and verdict is False else verdict


def _are_names(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool | None:
    """Whether numbers above columns of numbers are names; None if the lines below leave it open."""
    x, rows = [float(field) for field in first], [[float(field) for field in row] for row in below]
    if not all(map(math.isfinite, x)):
        return False
    in_order = len(x) == 1 or _sign(x) != 0
    steps = [b - a for a, b in pairwise([*x, *rows[0]])]
    near = max(map(abs, steps[: len(x) - 1]), default=0.0) <= APART
    if _are_years(first) and not any(map(_are_years, below)) and in_order and near:
        return True if len(x) > 1 else None
    columns = list(zip(first, *below, strict=True))
    goes_on = len(x) > 1 and steps[0] != 0 and all(map(partial(math.isclose, steps[0]), steps))
    if goes_on or (len(below) > 1 and all(map(_is_even, columns))):
        return False  # as 1,2,3 above 4,5,6, or columns of which each goes on below
    fewer = min(min(map(_decimals, column[1:])) - _decimals(column[0]) for column in columns)
    low, high = min(map(min, rows)), max(map(max, rows))
    far = 0 < high - low < max(low - max(x), min(x) - high)  # from those below, which are near each other
    if len(x) > 2 and (
        _is_even(first) or (_is_geometric(x) and 2 * sum(map(_is_geometric, rows)) < len(rows))
    ):
        even = sum(_is_even(line) or sorted(row) == sorted(x) for line, row in zip(below, rows, strict=True))
        common = min(len(x), 1 + len(rows))
        distances = common > 2 and [x[0], *(row[0] for row in rows)][:common] == x[:common]
        if distances or 2 * even >= len(below):
            return None
        counts = _counts(first) and high - low > 1 and (len(x) - 1) * math.log(high - low) > math.log(CHANCES)
        ordered = sum(_sign(row) != 0 for row in rows)
        by_no_chance = len(x) >= MANY and not even and 2 * ordered < len(below)
        other = fewer >= 1 or _whole_over_fractions(below[0], [first])
        return True if other or far or counts or by_no_chance else None
    if len(x) > MANY and in_order and not any(map(_sign, rows)):
        return None
    likely = fewer >= 1 or (len(x) > 1 and (in_order or len(rows) > 2))
    most = max(_decimals(field) for line in below for field in line)
    finer = min(map(_decimals, first)) > min(1, most) + most
    other = (len(x) > 1 and fewer >= 2) or _whole_over_fractions(first, below) or finer
    anew = list(first) in (["0"], ["0", "1"]) and all(column[0] not in column[1:] for column in columns)
    distinct = len(set(x)) == len(x)
    return None if distinct and ((likely and far) or other or anew) else False


def _are_years(fields: Sequence[str]) -> bool:
    return all(field.isdecimal() and len(field) == 4 and int(field) in YEARS for field in fields)


def _sign(x: Sequence[float]) -> int:
    """1 for numbers that rise, -1 for numbers that fall, else 0."""
    rises, falls = all(a < b for a, b in pairwise(x)), all(a > b for a, b in pairwise(x))
    return int(rises) - int(falls)


def _is_even(fields: Sequence[str]) -> bool:
    """Whether numbers rise or fall by equal steps; in long lines up to their rounding, if the steps are many units."""
    x = [float(field) for field in fields]
    step, unit = (x[-1] - x[0]) / (len(x) - 1), 10.0 ** -max(map(_decimals, fields))
    rounding = max(1e-9 * abs(step), 1e-12 * max(map(abs, x)))
    room = max(unit, rounding) if len(x) >= MANY and abs(step) > 10 * unit else rounding
    return _sign(x) != 0 and all(abs(x[0] + i * step - one) <= room for i, one in enumerate(x))


def _is_geometric(x: Sequence[float]) -> bool:
    """Whether numbers rise or fall by equal factors, as doses do."""
    factors = [b / a for a, b in pairwise(x)] if min(x) > 0 else []
    return len(factors) > 1 and _sign(x) != 0 and all(map(partial(math.isclose, factors[0]), factors))


def _whole_over_fractions(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    whole = all(field.lstrip("+-").isdecimal() for field in first)
    return whole and all(_decimals(field) for line in below for field in line)


def _decimals(field: str) -> int:
    """The number of decimals of a number, as it is written; many for one in the notation 1e-3."""
    return 17 if "e" in field.lower() else len(field.partition(".")[2])


def _quoted(line: str, numbers: Sequence[str]) -> bool:
    """Whether all numbers among some fields stand in quotes in their line."""
    counted = Counter(filter(is_like_number, numbers))
    return all(line.count(f'"{number}"') >= count for number, count in counted.items())


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
