"""Tables of an answer: text for people, records for programs.

Problem: a user wants to see first whether the answer can be trusted, and then its numbers.
Method: a table is a list of mappings, one for each component, below lines that state the certificate, shown as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

FEW = 10
"""Largest number of texts in one line."""

SHOWN = 30
"""Largest number of rows that are shown; the list has all."""


class Summary(list[dict[str, Any]]):
    """One mapping for each component, with the same keys; shown as a table below the certificate.

    Parameters
    ----------
    rows : iterable of mappings
    title : str
        The heading.
    facts : sequence of (str, str)
        Names and texts that are shown above the table.
    """

    def __init__(
        self, rows: Iterable[Mapping[str, Any]], title: str, facts: Sequence[tuple[str, str]]
    ) -> None:
        super().__init__(dict(row) for row in rows)
        self.title = title
        self.facts = tuple(facts)

    def __repr__(self) -> str:
        width = max((len(name) for name, _ in self.facts), default=0)
        lines = [self.title, *(f"{name.ljust(width)}  {text}" for name, text in self.facts)]
        if self:
            cells = [list(self[0]), *([_shown(value) for value in row.values()] for row in self[:SHOWN])]
            widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
            aligned = (zip(row, widths, strict=True) for row in cells)
            lines += ["", *("  ".join(text.rjust(width) for text, width in row) for row in aligned)]
        more = [f"... {len(self)} rows in all"] if len(self) > SHOWN else []
        return "\n".join([*lines, *more])


def percent(share: float) -> str:
    """Return a share in per cent with three decimals; one below 1, by more than rounding, is never "100.000 %"."""
    text = f"{100 * share:.3f} %"
    return "99.999 %" if text.startswith("100.000") and share < 1 - 1e-9 else text


def some_of(texts: Sequence[str]) -> str:
    """Return the first of some texts in one line, and how many there are in all if some are left out."""
    more = f"  … ({len(texts)} in all)" if len(texts) > FEW else ""
    return "  ".join(texts[:FEW]) + more


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
