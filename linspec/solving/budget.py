"""Passes and time: what a run may still take.

Problem: a ceiling on passes has to hold with the certificate, which comes last, and a set-up that cannot fit should be
refused before anything is read. Time runs out in the midst of a sweep.
Method: a `Budget` has the limits of one run. The passes of the certificate are counted before they are made, from what
the moments hold already, and a step is affordable where it leaves room for them. Time is compared with a deadline.
Where we differ: an answer whose time is over still gets its certificate. The deadline is set anew when the run closes,
and the end may take as long again as the run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from linspec.errors import BudgetTooSmall, SweptOnce
from linspec.moments.moments import Moments
from linspec.operators.streamed import ONCE
from linspec.process.plurals import count_of
from linspec.registry.options import options_of
from linspec.solving.problem import Problem


class Budget:
    """The limits of one run, and the passes that are reserved.

    Attributes
    ----------
    max_passes, max_seconds : float
        Infinity: no limit.
    reserved : float
        Passes that no sweep may use at present; see `reserving`.
    closing : bool
        Whether the iteration is over, and only the certificate follows.
    refused : bool
        Whether passes were refused since this was last set to False. What a solver makes after a refusal is not what
        it makes with a larger budget.
    """

    def __init__(
        self, max_passes: float | None = None, max_seconds: float | None = None, began: float | None = None
    ) -> None:
        self.max_passes = math.inf if max_passes is None else float(max_passes)
        self.max_seconds = math.inf if max_seconds is None else float(max_seconds)
        self.reserved = 0.0
        self.closing = self.refused = False
        self._began = time.perf_counter() if began is None else began
        self._deadline = self._began + self.max_seconds

    @property
    def seconds(self) -> float:
        """Wall time in seconds since the call of `linspec.solve`.

        Without the argument `began`, it is the time since this object was made.
        """
        return time.perf_counter() - self._began

    @property
    def timed_out(self) -> bool:
        """Whether the time for iterations is over."""
        return self.seconds >= self.max_seconds

    @property
    def overdue(self) -> bool:
        """Whether a sweep must be left, because the time of the iteration or of the ending is over."""
        return time.perf_counter() > self._deadline

    def affords(self, made: float, passes: float, certificate: float) -> bool:
        """Whether `passes` after the `made` ones leave enough for the certificate, and time is left."""
        return made + passes + self.reserved + certificate <= self.max_passes and not self.timed_out

    def left(self, made: float, certificate: float) -> float:
        """The passes that are still free: `max_passes` less the passes `made`, reserved ones and the certificate."""
        return self.max_passes - made - self.reserved - certificate

    @contextmanager
    def reserving(self, passes: float) -> Iterator[None]:
        """Reserve passes for code after the `with` block: no sweep inside the block, of a part or not, may use them."""
        self.reserved += passes
        try:
            yield
        finally:
            self.reserved -= passes

    def close(self) -> None:
        """End the iteration. The first call gives the certificate `max_seconds` seconds from now."""
        if not self.closing:
            self.closing, self._deadline = True, time.perf_counter() + self.max_seconds

    def reopen(self) -> None:
        """Undo `close`."""
        self.closing, self._deadline = False, self._began + self.max_seconds


def certificate_passes(problem: Problem[Any], moments: Moments, *, after_setup: bool) -> float:
    """Return the number of passes that the certificate takes with these moments.

    If `after_setup` is false, the passes that the moments still need for means or Gram matrices are added. If it is
    true, the means are taken as known and, unless the form is "implicit", the Gram matrices as held in memory.
    """
    shared = problem.shared is not None and problem.shared.held
    if problem.certified and not shared:  # on rows of its own, whatever is held
        return problem.certified_passes + (0.0 if after_setup or moments.held else moments.cost.setup)
    if moments.held or (after_setup and moments.form != "implicit"):
        return 0.0
    products: float = problem.certificate_products * moments.cost.sweep
    return products + (0.0 if after_setup else moments.cost.setup)


def too_few(name: str, least: float, max_passes: float) -> BudgetTooSmall:
    """Make the error for a budget below the least number of passes."""
    return BudgetTooSmall(
        f"{name} needs at least {count_of(least, 'pass')} (set-up and certificate); got "
        f"max_passes={max_passes:g}. Raise it."
    )


def too_often(name: str, solver: Any, problem: Problem[Any], passes: float) -> SweptOnce:
    """Make the error for a solver that would read its data too often."""
    given = [o for o in options_of(solver) if o.part_kind is None]
    options = [o.name for o in given if getattr(solver, o.name) != o.default]
    less = ["without left vectors (left=False)"] if getattr(problem, "left", False) else []
    less += [f"with the default of {', '.join(sorted(options))}"] if options else []
    also = f", or ask for one pass: {' and '.join(less)}" if less else ""
    return SweptOnce(f"{name} would need {count_of(passes, 'pass')}, and {ONCE}{also}.")


def out_of_time(
    name: str, max_seconds: float, where: str, problem: Problem[Any], remark: str
) -> BudgetTooSmall:
    """Make the error for time that is over before the first iterate, with `remark` at its end."""
    unknown = [name for name, A in problem.matrices.items() if math.isinf(A.shape[0])]
    endless = f" The rows of {unknown[0]} have had no end so far: does its iterator end?" if unknown else ""
    return BudgetTooSmall(
        f"{name} used up max_seconds={max_seconds:g} {where}.{endless} Raise max_seconds, or choose a "
        f"solver that takes fewer passes.{remark}"
    )
