"""What plugins raise, contained, so that one of them harms nobody else."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Self

__all__ = ["Contained", "is_out_of_memory", "one_line"]


class Contained:
    """A context in which a plugin's code runs: what it raises is kept and goes no further.

    Rust extensions raise classes that derive from BaseException alone. An interrupt is the user's, and so is an
    exit where the program is running: a handler of a signal may have asked for it.

    Parameters
    ----------
    exits : bool, default False
        Whether SystemExit is kept as well: on import it is the plugin's own.

    Attributes
    ----------
    error : BaseException or None
        What was raised; None where the block came to its end.
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


#: What no context keeps by itself.
INTERRUPTS = (KeyboardInterrupt, GeneratorExit, SystemExit)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's and NumPy's MemoryError, and what torch and CuPy raise, told by its name."""
    return isinstance(error, MemoryError) or any(
        kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__
    )


def one_line(error: BaseException) -> str:
    """Type and text of an exception in one line; the type alone where its text raises."""
    with suppress(Exception):
        return " ".join(f"{type(error).__name__}: {error}".split())
    return type(error).__name__
