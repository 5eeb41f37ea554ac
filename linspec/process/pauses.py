"""The points before a sweep, and between its blocks, at which the run that makes it may end.

Problem: a sweep over large data takes minutes, and over a stream without end it never ends. Time, interrupts and the
budget of passes are matters of the run; the loops over blocks are in operators and kernels, which know of no run.
Method: every product, every choice of rows, every slice of a stream and every sparse slab is preceded by `pause`, and
every sweep by `admit`. A run says in `looking` what is to be called there. That is kept in a context variable, so each
thread and each run within another has its own, and nothing is shared; `linspec.process.machine.map_parallel` hands it
to its threads.
Where we differ from a flag that each loop asks: the loop is left by an exception, so nothing between it and the run has
to hand anything on, and what others have written, which knows nothing of it, is left in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_look: ContextVar[Callable[[], None] | None] = ContextVar("linspec_look", default=None)
_admit: ContextVar[Callable[[Any, float], None] | None] = ContextVar("linspec_admit", default=None)


class Ended(BaseException):
    """The exception that leaves a sweep. `linspec.solve` catches it; no `except Exception` on the way does.

    Attributes
    ----------
    interrupted : bool
        Whether an interrupt ended it, or else the time or the budget of passes.
    """

    def __init__(self, *, interrupted: bool) -> None:
        super().__init__(interrupted)
        self.interrupted = interrupted


class OutOfPasses(Ended):
    """The exception before a sweep that would leave too few passes for the certificate."""

    def __init__(self) -> None:
        super().__init__(interrupted=False)


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


def admit(ledger: Any, sweeps: float) -> None:
    """Ask the run in force, if there is one, whether its budget allows a sweep; to be called before the sweep.

    Parameters
    ----------
    ledger : Ledger
        The ledger that the sweep is entered into.
    sweeps : float
        Readings of all rows, without those that learn the means or form what is held: these are counted with the
        certificate, as long as they have not been made.

    Raises
    ------
    OutOfPasses
        The sweep would leave too few passes for the certificate.
    """
    asked = _admit.get()
    if asked is not None:
        asked(ledger, sweeps)


@contextmanager
def looking(
    look: Callable[[], None] | None, admitted: Callable[[Any, float], None] | None = None
) -> Iterator[None]:
    """Call `look` at each pause inside the block, and `admitted` before each sweep; None: nothing is asked.

    Parameters
    ----------
    look : callable or None
        Called by any thread; it raises `Ended` where the run is over.
    admitted : callable, optional
        Called with a ledger and sweeps; it raises `OutOfPasses` where the budget does not allow these.
    """
    before = _look.set(look)
    try:
        with admitting(admitted):
            yield
    finally:
        _look.reset(before)


@contextmanager
def admitting(admitted: Callable[[Any, float], None] | None) -> Iterator[None]:
    """Call `admitted` before each sweep inside the block, as `looking` does."""
    before = _admit.set(admitted)
    try:
        yield
    finally:
        _admit.reset(before)
