"""Exceptions of plugins are contained, so that a broken plugin does not harm anything else."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Self

__all__ = ["Contained", "is_out_of_memory", "one_line"]


class Contained:
    """A context in which a plugin's code runs. It keeps the exception and does not raise it.

    Rust extensions raise classes that derive only from BaseException, so these are kept, too. An interrupt
    comes from the user and is raised. So is an exit while the program runs, because a signal handler may have
    requested it.

    Parameters
    ----------
    exits : bool, default False
        Whether SystemExit is kept as well. During an import it comes from the plugin.

    Attributes
    ----------
    error : BaseException or None
        The exception, or None if the block came to its end.
    """

    def __init__(self, *, exits: bool = False) -> None:
        self.error: BaseException | None = None
        self._passed_on = (KeyboardInterrupt, GeneratorExit) if exits else INTERRUPTS

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None or isinstance(error, self._passed_on):
            return False
        self.error = error
        return True


#: Exceptions that no context keeps by default.
INTERRUPTS = (KeyboardInterrupt, GeneratorExit, SystemExit)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's and NumPy's MemoryError, and what torch and CuPy raise, told by its name."""
    return isinstance(error, MemoryError) or any(
        kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__
    )


def one_line(error: BaseException) -> str:
    """Type and text of an exception in one line; only the type if its text raises."""
    with suppress(Exception):
        return " ".join(f"{type(error).__name__}: {error}".split())
    return type(error).__name__
