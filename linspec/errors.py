"""Errors and warnings; each is also the built-in exception that a caller would expect.

Problem: a caller wants to catch every error of linspec with one clause, and in a script that does not know
linspec ``except ValueError`` should work.
Method: every error derives from :class:`LinspecError` and from the closest built-in exception. A message says
what must hold, what was given, and what to do.

Errors are for misuse, for data that cannot be computed with, and for plugins that do not keep the contract.
An iteration that does not converge is not an error: it is a ``Status`` of the solution, with a warning where
the solver itself gave up.
"""

# ruff: noqa: N818 (a caller reads "except UnknownName"; "Error" would add nothing)

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = [
    "AccuracyWarning",
    "AmbiguousName",
    "BrokenPlugin",
    "BudgetTooSmall",
    "CannotSave",
    "ConvergenceWarning",
    "DataLost",
    "InvalidDeclaration",
    "InvalidFile",
    "InvalidOption",
    "InvalidProblem",
    "LinspecError",
    "MissingCapability",
    "NoSuitableSolver",
    "NonFiniteData",
    "OutOfMemory",
    "PerformanceWarning",
    "PluginWarning",
    "SweptOnce",
    "UnknownName",
    "UnknownOption",
    "UnsupportedData",
    "warn",
]


class LinspecError(Exception):
    """Base class of every error that linspec raises on purpose."""


class UnknownName(LinspecError, LookupError):
    """No solver, normalizer, test matrix or problem has this name.

    The message suggests close matches, lists the names there are, and quotes plugins that could
    not be loaded.
    """


class AmbiguousName(LinspecError, LookupError):
    """A bare name that several providers or several problems use; the message lists the qualified names."""


class BrokenPlugin(LinspecError, ImportError):
    """A registered target cannot be imported, or is not what its record promises."""


class InvalidDeclaration(LinspecError, ValueError):
    """An author's declaration (a record, an option, a hook) is malformed."""


class InvalidOption(LinspecError, ValueError):
    """An option was given a value of the wrong type or outside its range."""


class UnknownOption(LinspecError, TypeError):
    """There is no option of this name; the message suggests a close one and lists those there are."""


class InvalidProblem(LinspecError, ValueError):
    """A problem cannot be stated: shapes that disagree, ``k`` too large, a negative ridge, no rows."""


class NonFiniteData(InvalidProblem):
    """The data hold NaN or infinity."""


class UnsupportedData(LinspecError, TypeError):
    """Data linspec cannot multiply: complex, object or string entries, mixed libraries or devices."""


class MissingCapability(LinspecError, TypeError):
    """A solver needs something of the operator that it cannot give (adjoint, entries, rows)."""


class SweptOnce(MissingCapability):
    """Data that can be read once, an iterator of row slices, would have to be read again.

    The message names what can be done in one pass. The error is a :class:`MissingCapability`: such data lack
    a second reading.
    """


class DataLost(LinspecError, RuntimeError):
    """Rows that lay elsewhere are gone with the worker that had them, and nothing says how to make them again."""


class BudgetTooSmall(LinspecError, ValueError):
    """``max_passes`` or ``max_seconds`` is too small for the set-up; of passes, the message names the least number."""


class OutOfMemory(LinspecError, MemoryError):
    """The memory ran out before there was an answer; the message says in what."""


class MissingPackage(LinspecError, ImportError):
    """A method needs an optional package that is not installed; the message has the command that installs it."""


class CannotSave(LinspecError, TypeError):
    """A solution holds something for which a file has no form, such as a function; nothing was written."""


class InvalidFile(LinspecError, ValueError):
    """A file cannot be read as a saved answer: damaged, of a newer format, or of something else."""


class NoSuitableSolver(LinspecError, ValueError):
    """Automatic choice found no solver that fits the problem and the machine."""


MOST_SHOWN = 100
"""Characters of a value that a message shows."""


def shown(value: Any) -> str:
    """What was given, for a message: its representation in one line of printable characters, not too long.

    Parameters
    ----------
    value : object
        Anything, also what cannot be represented: an integer of ten thousand digits.
    """
    try:
        text = value if isinstance(value, str) and not value.isprintable() else repr(value)
    except Exception:  # noqa: BLE001  # whatever its representation raises
        return f"a {type(value).__name__}"
    text = printable(" ".join(text.split()))
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN // 2]}...{text[-MOST_SHOWN // 4 :]}"


def printable(text: str) -> str:
    """A text, such as the name of a file, with what a terminal would act on written out."""
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in str(text)
    )


@contextmanager
def called(name: str) -> Iterator[None]:
    """Let messages that speak of "data", as those of operators do, speak of what the caller calls them."""
    try:
        yield
    except (UnsupportedData, InvalidProblem) as error:
        message = str(error)
        message = name + message[4:] if message.startswith("data ") else f"{name}: {message}"
        raise type(error)(message) from error


class ConvergenceWarning(UserWarning):
    """A solver reached its own limit, or stagnated, before its tolerance."""


class AccuracyWarning(UserWarning):
    """The arithmetic may have lost digits that matter (cancellation, conditioning, precision)."""


class PerformanceWarning(UserWarning):
    """Something outside linspec makes a computation take much longer than it need; the message has the remedy."""


class PluginWarning(UserWarning):
    """Two plugins register one name; the message says which one keeps it."""


def calling_frame() -> FrameType:
    """The frame outside linspec and its plugins that led here: the caller of the outermost frame of linspec."""
    outside = frame = sys._getframe(1)
    while True:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package == "linspec" or package.startswith("linspec_"):
            outside = frame.f_back or frame
        if frame.f_back is None:
            break
        frame = frame.f_back
    return outside


def warn(message: str, category: type[Warning]) -> None:
    """Warn, and point at the line outside linspec and its plugins that led here.

    Parameters
    ----------
    message : str
        The finding and the remedy.
    category : type
        A warning class, such as :class:`AccuracyWarning`.

    Notes
    -----
    That line is the caller of the outermost frame of linspec. So plugins that linspec calls are skipped,
    whatever the name of their package.
    """
    outside = calling_frame()
    warnings.warn_explicit(
        message,
        category,
        outside.f_code.co_filename,
        outside.f_lineno,
        module=outside.f_globals.get("__name__"),
        registry=outside.f_globals.setdefault("__warningregistry__", {}),
    )
