"""Pauses: points between the blocks of a sweep at which a run may end.

Problem: a sweep over large data takes minutes, and over an endless stream it never ends. The run handles time limits,
interrupts and the budget of passes; the loops over blocks are in operators and kernels, which do not know the run.
Method: every product, every selection of rows, every slice of a stream and every sparse slab is preceded by `pause`,
and every sweep by `admit`. A run sets by `looking` the functions that `pause` and `admit` call. They are kept in
context variables, so each thread and each nested run has its own; `linspec.process.machine.map_parallel` passes them
to its threads.
Where we differ from a flag that each loop checks: an exception leaves the loop, so the code between the loop and the
run need not pass on a result. User code, which does not know of pauses, is left in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_look: ContextVar[Callable[[], None] | None] = ContextVar("linspec_look", default=None)
_admit: ContextVar[Callable[[Any, float], None] | None] = ContextVar("linspec_admit", default=None)


class Ended(BaseException):
    """The exception that ends a sweep early. `linspec.solve` catches it; `except Exception` does not.

    Attributes
    ----------
    interrupted : bool
        True if an interrupt ended the sweep, False if the time limit or the budget of passes did.
    """

    def __init__(self, *, interrupted: bool) -> None:
        super().__init__(interrupted)
        self.interrupted = interrupted


class OutOfPasses(Ended):
    """The exception that refuses a sweep, because it would leave too few passes for the certificate.

    Attributes
    ----------
    least : float
        The smallest number of passes, counted from the start of the run, that would permit the sweep: passes already
        made, the sweep itself, reserved passes, and the passes of the certificate.
    """

    def __init__(self, least: float) -> None:
        super().__init__(interrupted=False)
        self.least = least


def pause() -> None:
    """End the current run, if there is one, after an interrupt or when its time is over; else do nothing.

    Call it between the blocks of a long loop that makes no product: products, slices and sweeps pause
    themselves. `Ended` is no `Exception`, so that only `linspec.solve` catches it; clean up with ``finally``.

    Raises
    ------
    Ended
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


def admit(ledger: Any, sweeps: float) -> None:
    """End the current run, if there is one, before a sweep that its budget does not allow; else do nothing.

    Parameters
    ----------
    ledger : Ledger
        The ledger that will count the sweep.
    sweeps : float
        The number of times that the sweep reads all rows. Pass 0 for a sweep that computes column means, or matrices
        to be kept in memory: until this sweep has been made, the run counts it with the certificate.

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
    """Call `look` at each pause inside the `with` block, and `admitted` before each sweep; None: call nothing.

    Parameters
    ----------
    look : callable or None
        Called by any thread; it raises `Ended` if the run is over.
    admitted : callable, optional
        Called with a ledger and a number of sweeps; it raises `OutOfPasses` if the budget does not allow the sweeps.
    """
    before, asked = _look.set(look), _admit.set(admitted)
    try:
        yield
    finally:
        _look.reset(before)
        _admit.reset(asked)


@contextmanager
def admitting(admitted: Callable[[Any, float], None] | None) -> Iterator[None]:
    """Call `admitted` before each sweep inside the `with` block; None: call nothing."""
    before = _admit.set(admitted)
    try:
        yield
    finally:
        _admit.reset(before)
