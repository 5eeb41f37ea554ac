"""Tables, whatever their format: what to do where a column holds text, or a value is missing."""

from __future__ import annotations

__all__ = ["DROPPED", "without_column"]

DROPPED = "Fill such values, or leave their rows out of all files: on the command line --drop-missing."
"""The remedy for a missing value."""

LONGEST = 200
"""Characters of an example that a message shows."""


def without_column(name: str) -> str:
    """The remedy for a column of texts, by its name where it has one.

    Parameters
    ----------
    name : str
        "" for a column without one.
    """
    plain = name.replace("_", "a").isalnum()
    quoted = name.replace('"', '""')
    text = f"--columns ~{name}" if plain else f"""--columns '~"{quoted}"'"""
    example = "--columns" if not name or len(text) > LONGEST else text
    return (
        f"Leave such columns out: columns=, on the command line {example}; missing values in others are dropped by "
        "--drop-missing."
    )
