"""Pauses: points between the blocks of a pass at which a run may end.

Problem: a pass over large data takes minutes, and over an endless stream it never ends. The run handles time limits
and interrupts; the loops over blocks are in operators and kernels, which do not know the run.
Method: every product, every selection of rows, every slice of a stream and every sparse slab is preceded by `pause`. A
run sets by `looking` the function that `pause` calls. It is kept in a context variable, so each thread and each nested
run has its own; `linspec.process.machine.map_parallel` passes it to its threads.
Where we differ from a flag that each loop checks: an exception leaves the loop, so the code between the loop and the
run need not pass on a result. User code, which does not know of pauses, is left in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_look: ContextVar[Callable[[], None] | None] = ContextVar("linspec_look", default=None)


def pause() -> None:
    """End the current run, if there is one, after an interrupt or when its time is over; else do nothing.

    Call it between the blocks of a long loop that makes no product: products, slices and passes pause themselves. Only
    `linspec.solve` should catch what it raises; clean up with ``finally``.

    Raises
    ------
    OutOfPasses
        The run is over, because of an interrupt or of its time limit.

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
def looking(look: Callable[[], None]) -> Iterator[None]:
    """Call `look` at each pause inside the `with` block.

    Parameters
    ----------
    look : callable
        Called by any thread; it raises `linspec.rows.OutOfPasses` if the run is over.
    """
    before = _look.set(look)
    try:
        yield
    finally:
        _look.reset(before)
