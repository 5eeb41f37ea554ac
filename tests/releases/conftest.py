"""What the sessions `formats` and `peers` of nox show: a table with a row for everything that was tried.

These tests need packages and releases that `tests` does not, so pytest enters this folder only when it is named.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

TABLE = pytest.StashKey[list[tuple[str, str, str]]]()

Seen = Callable[..., None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--table", type=Path, help="where the table of all that was tried is written, as Markdown"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TABLE] = []


@pytest.fixture
def seen(request: pytest.FixtureRequest) -> Seen:
    """Call it with what was tried, the distributions that it took, and what came out: a row of the table."""

    def row(tried: str, distributions: str, outcome: str) -> None:
        versions = ", ".join(f"{name} {version(name)}" for name in distributions.split())
        request.config.stash[TABLE].append((tried, versions, outcome))

    return row


@pytest.fixture
def same(seen: Seen) -> Callable[..., None]:
    """Call it with what was tried, the distributions, and pairs of ours and theirs, which are compared."""

    def row(tried: str, distributions: str, *pairs: tuple, within: float = 1e-12, besides: str = "") -> None:
        worst = max(difference(*pair) for pair in pairs)
        assert worst <= within, f"{tried}: {worst:.1e}"
        seen(tried, distributions, f"{worst:.0e}{besides}")

    return row


def difference(ours: object, theirs: object) -> float:
    """The largest difference, relative to the largest number of theirs; columns have either sign."""
    ours, theirs = (np.asarray(numbers, float).squeeze() for numbers in (ours, theirs))
    assert ours.shape == theirs.shape
    signs = np.sign((ours * theirs).sum(axis=0)) if ours.ndim == 2 else 1.0
    return np.abs(ours * signs - theirs).max() / np.abs(theirs).max()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = sorted(config.stash[TABLE])
    lines = [f"| {' | '.join(row)} |" for row in [("tried", "with", "outcome"), ("---",) * 3, *rows]]
    terminalreporter.write_line("\n".join(lines))
    if path := config.getoption("--table"):
        path.write_text("\n".join(lines) + "\n", "utf-8")
