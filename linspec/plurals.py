"""Counts in words: "1 pass", "2 passes"."""

from __future__ import annotations

__all__ = ["count_of"]


def count_of(number: float, noun: str, plural: str = "") -> str:
    """A number with its noun.

    Parameters
    ----------
    number : float
    noun : str
        For one.
    plural : str, optional
        For any other number; by default the noun with an "s".

    Examples
    --------
    >>> from linspec.plurals import count_of
    >>> count_of(1.0, "pass", "passes"), count_of(2.5, "pass", "passes"), count_of(0, "row")
    ('1 pass', '2.5 passes', '0 rows')
    """
    return f"{number:g} {noun if number == 1 else plural or noun + 's'}"
