"""Remedies in messages on tables of any format: for a column of text, and for a missing value."""

from __future__ import annotations

__all__ = ["DROPPED", "without_column"]

DROPPED = "Fill such values, or leave their rows out of all files: on the command line --drop-missing."
"""The sentence that ends messages about a missing value: fill it, or leave its row out by --drop-missing."""

LONGEST = 200
"""Largest number of characters of an example in a message."""


def without_column(name: str) -> str:
    """Return the remedy for a column of texts, with its name if it has one.

    Parameters
    ----------
    name : str
        The name; "" for a column without one.
    """
    plain = name.replace("_", "a").isalnum()
    quoted = name.replace('"', '""')
    text = f"--columns ~{name}" if plain else f"""--columns '~"{quoted}"'"""
    example = "--columns" if not name or len(text) > LONGEST else text
    return (
        f"Leave such columns out: columns=, on the command line {example}; missing values in others are dropped by "
        "--drop-missing."
    )
