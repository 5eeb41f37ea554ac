"""What a solver yields, what it may ask, and what a problem says of it.

A solver yields iterates: some arrays and its own residual of them. It asks moments for products, which count passes,
and its `Context` for the tolerance and for random numbers. Whether an iterate is good enough, whether there is time for
another one, and what is said of the last one, is not its business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from linspec.arrays import Array, HostArray, random_generator
from linspec.rows.passes import Passes
from linspec.status import Status

FRESH = 5
"""Random columns that a start gets, at least: the iteration itself searches for what the start lacks."""


class Iterate(NamedTuple):
    """One iterate of a solver.

    Attributes
    ----------
    residual : float
        The solver's own, relative as that of the problem.
    arrays : callable
        Returns all that a later run needs to go on, as a mapping of arrays by the names of the answer. They are not
        changed later.
    final : bool, default False
        Whether the solver has nothing to add: a direct method, or a space that is exhausted.
    doubt : str, default ""
        Why a small residual does not end the iteration yet, as while a start may lack something: it is said if the run
        ends here.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> last = ls.Iterate(0.0, lambda: {"x": np.zeros((2, 1))}, final=True)
    >>> last.arrays()["x"].shape
    (2, 1)
    """

    residual: float
    arrays: Callable[[], Mapping[str, Array]]
    final: bool = False
    doubt: str = ""


class Certificate(NamedTuple):
    """What is said of returned arrays.

    Attributes
    ----------
    residual : float
        Computed from the arrays, not taken from the solver.
    findings : tuple of (Status or None, str)
        What makes the answer doubtful, or only text for the message.
    fields : mapping of str to object
        Those of the solution.
    kind : str, default "recomputed"
        Where the residual comes from.
    lost : bool, default False
        Whether the answer lacks something, whatever the residual.
    least : float, default 0
        The residual that rounding of the data leaves.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> found = ls.Certificate(1e-9, ((ls.Status.DEGENERATE, "All views agree."),), {"sums": np.ones(1)})
    >>> found.residual, found.lost
    (1e-09, False)
    """

    residual: float
    findings: tuple[tuple[Status | None, str], ...] = ()
    fields: Mapping[str, Any] = MappingProxyType({})
    kind: str = "recomputed"
    lost: bool = False
    least: float = 0.0


@dataclass
class Context:
    """What a solver may ask of its run.

    Attributes
    ----------
    tol : float
        The residual at which the iteration ends. It falls if the certificate finds a larger residual than the solver.
    seed : None, int, sequence of int, or numpy.random.Generator
    passes : Passes
    notes : list of (Status or None, str)
        What the solver says of its answer.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.rows import Passes
    >>> context = ls.Context(1e-6, np.random.default_rng(0), Passes())
    >>> context.note(ls.Status.APPROXIMATE, "Few steps were made.")
    >>> context.notes[0][1], context.filled(None, 5, 2).shape
    ('Few steps were made.', (5, 2))
    """

    tol: float
    seed: Any
    passes: Passes
    notes: list[tuple[Status | None, str]] = field(default_factory=list)

    @cached_property
    def rng(self) -> np.random.Generator:
        """The random numbers of the run: most solvers of small problems need none."""
        return random_generator(self.seed)

    def note(self, status: Status | None, text: str) -> None:
        """Say something of the answer, once; a status such as RANK_DEFICIENT becomes that of the solution."""
        if (status, text) not in self.notes:
            self.notes.append((status, text))

    def filled(self, start: HostArray | None, rows: int, width: int) -> HostArray:
        """Return a first block of `width` columns, or as many as there are rows: those of a start, the rest random.

        Parameters
        ----------
        start : numpy.ndarray of shape (rows, m), or None
        rows, width : int
        """
        width = min(width, rows)
        if start is None:
            return self.rng.standard_normal((rows, width))
        kept = start[:, : max(width - FRESH, 0)]
        unit = float(np.linalg.norm(kept)) / math.sqrt(max(kept.size, 1)) or 1.0
        return np.hstack([kept, unit * self.rng.standard_normal((rows, width - kept.shape[1]))])
