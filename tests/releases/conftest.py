"""What the sessions `formats` and `peers` of nox show: a table with a row for everything that was tried.

These tests need packages and releases that `tests` does not, so pytest enters this folder only when it is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

START = Path(__file__).parents[2] / "docs" / "start"
TABLE: list[tuple[str, str, str]] = []

Seen = Callable[..., None]


@pytest.fixture
def seen() -> Seen:
    """Call it with what was tried, the distributions that it took, and what came out: a row of the table."""

    def row(tried: str, distributions: str, outcome: str) -> None:
        versions = ", ".join(f"{name} {version(name)}" for name in distributions.split())
        TABLE.append((tried, versions, outcome))

    return row


@pytest.fixture
def same(seen: Seen) -> Callable[..., None]:
    """Call it with what was tried, the distributions, and pairs of ours and theirs, which are compared."""

    def row(tried: str, distributions: str, *pairs: tuple, within: float = 1e-10, besides: str = "") -> None:
        seen(tried, distributions, f"{equal(*pairs, within=within):.0e}{besides}")

    return row


def equal(*pairs: tuple, within: float = 1e-10) -> float:
    """The largest difference of pairs of ours and theirs, which is small."""
    worst = max(difference(*pair) for pair in pairs)
    assert worst <= within
    return worst


def difference(ours: object, theirs: object) -> float:
    """The largest difference, relative to the largest number of theirs; columns have either sign."""
    ours, theirs = (np.asarray(numbers, float).squeeze() for numbers in (ours, theirs))
    assert ours.shape == theirs.shape
    signs = np.sign((ours * theirs).sum(axis=0)) if ours.ndim == 2 else 1.0
    return np.abs(ours * signs - theirs).max() / np.abs(theirs).max()


def unit(table: np.ndarray) -> np.ndarray:
    """Columns of length 1."""
    return table / np.linalg.norm(table, axis=0)


def unmatched(page: str, module: dict) -> set[str]:
    """Rows of the table of a page that no docstring of a test names, and what these name beside them."""
    _, *cells = re.findall(r"^\| (.*?) \| ", (START / page).read_text("utf-8"), re.MULTILINE)
    docs = "; ".join(test.__doc__ or "" for name, test in module.items() if name.startswith("test_"))
    return {*" ".join(docs.split()).split("; ")} ^ {*cells}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for row in [("tried", "with", "outcome"), ("---",) * 3, *sorted(TABLE)]:
        terminalreporter.write_line(f"| {' | '.join(row)} |")
