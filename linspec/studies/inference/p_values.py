"""P-values in words: never a bare 0, which no p-value is."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["p_in_words", "p_values_in_words"]

LEAST = 1e-300
"""P-values below this are not distinguished from each other: their floating-point numbers underflow."""

SHOWN = 5
"""Number of p-values that the text of a test shows."""


def p_in_words(p: float, digits: int = 2) -> str:
    """Format a p-value with the given number of significant digits, or as a bound if it underflows."""
    return f"< {LEAST:.0e}" if p < LEAST else f"{p:.{digits}g}"


def p_values_in_words(p_values: Iterable[float]) -> str:
    """Format the first p-values of a test, separated by commas, with dots if there are more."""
    found = [p_in_words(float(p)) for p in p_values]
    return ", ".join(found[:SHOWN]) + ", ..." * (len(found) > SHOWN)
