"""Remedies in messages on tables of any format: for a column of text, and for a missing value."""

from __future__ import annotations

import shlex

__all__ = ["without_column", "without_gaps"]

LONGEST = 200
"""Largest number of characters of an example in a message."""


def without_column(name: str) -> str:
    """Return the remedy for a column of texts, with its name if it has one.

    Parameters
    ----------
    name : str
        The name; "" for a column without one.
    """
    ids = f"--ids {shlex.quote(name)} if it names the rows, else " if 0 < len(name) <= LONGEST else ""
    return (
        f"Leave such columns out: columns=, on the command line {ids}{_option(name)}; missing values in others are "
        "dropped by --drop-missing."
    )


def without_gaps(name: str) -> str:
    """Return the remedy for a missing value, with the name of its column if it has one.

    Parameters
    ----------
    name : str
        The name; "" for a column without one.
    """
    column = f", or leave the column out: {_option(name)}" if name else ""
    return (
        f"Fill such values, or leave their rows out of all files: on the command line --drop-missing{column}."
    )


def _option(name: str) -> str:
    """Return the argument of the command line that leaves a column of any file out, as typed in a shell."""
    quoted = name if name.replace("_", "a").isalnum() else '"' + name.replace('"', '""') + '"'
    text = shlex.quote(f"FILE:~{quoted}")
    return "FILE:COLUMNS" if not name or len(text) > LONGEST else text
