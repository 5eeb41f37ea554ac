"""Counts in words: "1 pass", "2 passes"."""

from __future__ import annotations


def count_of(number: float, noun: str, plural: str = "") -> str:
    """Format a number with its noun, in the singular or the plural.

    Parameters
    ----------
    number : float
        An integer is written in full, any other number in six digits.
    noun : str
        The singular, for the number 1.
    plural : str, optional
        The plural, for any other number; by default the noun with an "s", or with "es" after an "s".

    Returns
    -------
    str

    Examples
    --------
    >>> from linspec.process import count_of
    >>> count_of(1.0, "pass"), count_of(2.5, "pass"), count_of(3_000_000, "row")
    ('1 pass', '2.5 passes', '3000000 rows')
    >>> count_of(2, "entry", "entries")
    '2 entries'
    """
    figure = str(number) if isinstance(number, int) else f"{number:g}"
    plural = plural or noun + ("es" if noun.endswith("s") else "s")
    return f"{figure} {noun if number == 1 else plural}"
