"""The points between the blocks of a sweep at which the run that makes it may end.

Problem: a sweep over large data takes minutes, and over a stream without end it never ends. Time and interrupts are
matters of the run; the loops over blocks are in operators and kernels, which know of no run.
Method: every product, every choice of rows, every slice of a stream and every sparse slab is preceded by `pause`. A run
says in `looking` what is to be called there. That is kept in a context variable, so each thread and each run within
another has its own, and nothing is shared; `linspec.process.machine.map_parallel` hands it to its threads.
Where we differ from a flag that each loop asks: the loop is left by an exception, so nothing between it and the run has
to hand anything on, and what others have written, which knows nothing of it, is left in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_look: ContextVar[Callable[[], None] | None] = ContextVar("linspec_look", default=None)


class Ended(BaseException):
    """What a sweep is left by. `linspec.solve` catches it; no `except Exception` on the way does.

    Attributes
    ----------
    interrupted : bool
        Whether an interrupt ended it, or else the time.
    """

    def __init__(self, *, interrupted: bool) -> None:
        super().__init__(interrupted)
        self.interrupted = interrupted


def pause() -> None:
    """Ask the run in force, if there is one, whether it goes on.

    Call it between the blocks of a loop that takes long and makes no product: products, slices and sweeps pause
    themselves. What it raises is no `Exception`, so that only `linspec.solve` catches it; clean up with ``finally``.

    Raises
    ------
    Ended
        The run is over: by an interrupt, or by its time.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.process import pause
    >>> total = 0.0
    >>> for block in np.arange(6.0).reshape(3, 2):
    ...     pause()  # outside a run nothing happens
    ...     total += float(block.sum())
    >>> total
    15.0
    """
    look = _look.get()
    if look is not None:
        look()


@contextmanager
def looking(look: Callable[[], None] | None) -> Iterator[None]:
    """Call `look` at each pause inside the block; None: let what runs inside come to its end.

    Parameters
    ----------
    look : callable or None
        Called by any thread; it raises `Ended` where the run is over.
    """
    before = _look.set(look)
    try:
        yield
    finally:
        _look.reset(before)
