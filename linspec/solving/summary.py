"""Tables of an answer: text at a prompt, HTML in a notebook, records for programs.

Problem: a user wants to see first whether the answer can be trusted, and then its numbers.
Method: a table is a list of mappings, one for each component, below lines that state the certificate. It is shown as
text or as an HTML table without style; all HTML is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from linspec.errors import MissingPackage

__all__ = ["Summary", "facts_as_html", "percent", "some_of", "table_as_html"]

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

    def to_frame(self) -> Any:
        """Convert the table to a ``pandas.DataFrame``.

        Raises
        ------
        MissingPackage
            pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingPackage("to_frame needs pandas: pip install pandas.") from error
        return pd.DataFrame(list(self))

    def _cells(self) -> list[list[str]]:
        """Return the names of the columns, then the rows that are shown, as text."""
        names = list(self[0]) if self else []
        return [names, *([_shown(row[name]) for name in names] for row in self[:SHOWN])]

    @property
    def _rest(self) -> str:
        return f"... {len(self)} rows in all" if len(self) > SHOWN else ""

    def __repr__(self) -> str:
        width = max(len(name) for name, _ in self.facts) if self.facts else 0
        lines = [self.title, *(f"{name.ljust(width)}  {text}" for name, text in self.facts)]
        if self:
            cells = self._cells()
            widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
            aligned = (zip(row, widths, strict=True) for row in cells)
            lines += ["", *("  ".join(text.rjust(width) for text, width in row) for row in aligned)]
        return "\n".join([*lines, *filter(None, [self._rest])])

    def _repr_html_(self) -> str:
        html = facts_as_html(self.title, self.facts)
        if not self:
            return html
        names, *rows = self._cells()
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
        rest = f"<div>{escape(self._rest)}</div>" if self._rest else ""
        return f"{html}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def facts_as_html(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """Return a small HTML table of two columns, with everything escaped.

    Parameters
    ----------
    title : str
    facts : iterable of (str, str)
    """
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts)
    return f"<div>{escape(title)}</div><table><tbody>{rows}</tbody></table>"


def table_as_html(caption: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return an HTML table with everything escaped."""
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = ("".join(f"<td>{escape(text)}</td>" for text in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


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
