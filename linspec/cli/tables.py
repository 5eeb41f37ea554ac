"""Tables on standard output: drawn by rich on a terminal where it is installed, plain text elsewhere.

A pipe or a file always gets the plain form, so that what a script reads does not depend on an extra.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import click

from linspec.cli.failures import printable

__all__ = [
    "NOTHING",
    "on_terminal",
    "p_with_bound",
    "percent",
    "short",
    "show_facts",
    "show_table",
    "status_in_words",
]

NOTHING = "–"
"""Text in place of a missing figure."""


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def show_table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> None:
    """Print a table.

    Parameters
    ----------
    head : sequence of str
        The names of the columns.
    rows : iterable of sequences of str
        The cells.
    right : sequence of str, default ()
        The names of the columns that are set flush right.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    if not (on_terminal() and _drawn_by_rich(head, rows, right)):
        for line in plain_table(head, rows, right):
            click.echo(line)


def plain_table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> list[str]:
    """Return the lines of a table in plain text."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = []
    for cells in (head, ["-" * width for width in widths], *rows):
        padded = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(head, cells, widths, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def show_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print labels and texts; on a terminal, long texts are wrapped beside their labels."""
    facts = [(label, text) for label, text in facts if text]
    indent = max(len(label) for label, _ in facts) + 2
    width = shutil.get_terminal_size().columns if on_terminal() else 10**6
    for label, text in facts:
        lines = textwrap.wrap(text, max(width - indent, 30), break_on_hyphens=False, drop_whitespace=True)
        for number, line in enumerate(lines):
            click.echo((label if number == 0 else "").ljust(indent) + printable(line))


def percent(share: float) -> str:
    """Return a share as text in per cent, with three decimals: 0.5 as "50.000 %".

    A share below 1 (by more than rounding) is never shown as "100.000 %", but as "99.999 %".
    """
    text = f"{100 * share:.3f} %"
    return "99.999 %" if text.startswith("100.000") and share < 1 - 1e-9 else text


def short(value: Any) -> str:
    """Return a value as text; a float with at most six digits if these give it exactly."""
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def p_with_bound(p: float, least: float) -> str:
    """Return a p-value as text; the least possible one is an upper bound."""
    return f"<= {p:.2g}" if p <= least else f"{p:.3g}"


def status_in_words(name: str) -> str:
    """Return ITERATION_LIMIT as "iteration limit"."""
    return name.lower().replace("_", " ")


def _drawn_by_rich(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]) -> bool:
    """Draw the table with rich; return False if it is not installed."""
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in head:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))  # Text: a name in brackets is no markup
    Console().print(table)
    return True
