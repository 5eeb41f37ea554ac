"""Transfers between host and device, and waits of the host, by file and line.

A site is the innermost line that belongs neither to the double nor to array-api-compat nor to `linspec/arrays.py`,
through which all of linspec's transfers go.
"""

from __future__ import annotations

import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import FrameType

HERE = str(Path(__file__).parent)
ROOT = Path(__file__).parents[3]


class ImplicitSync(AssertionError):  # noqa: N818 (it states a fact about the caller)
    """A line of linspec makes the host wait, by `float(x)` or so, where `to_host(x)` would say it."""


class Account:
    """Counts of events, and of their bytes, by kind and site.

    Kinds are copies to the host ("down"), to the device ("up"), implicit waits ("sync"), those within sparse matrices
    of CuPy ("inside"), reports of cuSOLVER that are read ("report"), and kernels ("kernel"). If it is `strict`, a wait
    that nobody asked for raises, where a line of linspec makes it.
    """

    def __init__(self) -> None:
        self.strict = False
        self.events: Counter[tuple[str, str]] = Counter()
        self.bytes: Counter[str] = Counter()

    def reset(self) -> None:
        """Forget what has been counted."""
        self.events.clear()
        self.bytes.clear()

    def note(self, kind: str, nbytes: int = 0, what: str = "") -> None:
        """Count one event."""
        place, ours = ("", False) if kind == "kernel" else site()
        self.events[kind, place] += 1
        self.bytes[kind] += nbytes
        if kind == "sync" and self.strict and ours:
            raise ImplicitSync(
                f"{place}: {what} waits for the device. Pass the array through linspec.arrays.to_host."
            )

    def total(self, kind: str) -> int:
        """Events of a kind."""
        return sum(self.sites(kind).values())

    def sites(self, kind: str) -> dict[str, int]:
        """Events of a kind by file and line, the most frequent first."""
        found = Counter({place: count for (each, place), count in self.events.items() if each == kind})
        return dict(found.most_common())


ACCOUNT = Account()
"""The account of this process."""


def site() -> tuple[str, bool]:
    """The line that an event belongs to, and whether it is one of linspec's own, its test kit left out."""
    frame: FrameType | None = sys._getframe(2)
    through = ""
    while frame is not None:
        file = frame.f_code.co_filename
        if not (file.startswith((HERE, "<")) or "array_api_compat" in file):
            name = _relative(file)
            if name != "linspec/arrays.py":
                own = name.startswith(("linspec/", "plugins/")) and not name.startswith("linspec/testing/")
                return f"{name}:{frame.f_lineno}", own
            through = through or f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return through, bool(through)


@cache
def _relative(file: str) -> str:
    path = Path(file)
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else file
