"""What a solver is, what it may ask, and what a problem answers.

A solver yields iterates: some arrays and its own residual of them. It asks moments for products, which count passes,
and its `Context` for the tolerance and for random numbers. Whether an iterate is good enough, whether there is time for
another one, and what is said of the last one, is not its business.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from linspec.arrays import Array, HostArray
from linspec.rows.moments import Moments
from linspec.rows.passes import Passes
from linspec.status import Status

__all__ = ["Certificate", "Context", "Iterate", "Problem", "Solver"]

FRESH = 5
"""Random columns that a start gets, at least: the iteration itself searches for what the start lacks."""


class Iterate(NamedTuple):
    """One iterate of a solver.

    Attributes
    ----------
    residual : float
        The solver's own, relative as that of the problem.
    arrays : mapping of str to array
        All that a later run needs to go on, by the names of the answer. They are not changed later.
    final : bool, default False
        Whether the solver has nothing to add: a direct method, or a space that is exhausted.
    """

    residual: float
    arrays: Mapping[str, Array]
    final: bool = False


class Certificate(NamedTuple):
    """What is said of returned arrays.

    Attributes
    ----------
    residual : float
        Computed from the arrays, not taken from the solver.
    status : Status
        CONVERGED, or what makes the answer doubtful.
    notes : tuple of str
    """

    residual: float
    status: Status
    notes: tuple[str, ...] = ()


@dataclass
class Context:
    """What a solver may ask of its run.

    Attributes
    ----------
    tol : float
        The residual at which the iteration ends. It falls if the certificate finds a larger residual than the solver.
    rng : numpy.random.Generator
    passes : Passes
    """

    tol: float
    rng: np.random.Generator
    passes: Passes

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


class Solver(ABC):
    """A named method with options.

    Attributes
    ----------
    name : str
    max_iterations : float, default infinity
    """

    name: str = ""
    max_iterations: float = math.inf

    @abstractmethod
    def iterate(
        self, problem: Any, moments: Moments, context: Context, start: Mapping[str, HostArray] | None
    ) -> Iterator[Iterate]:
        """Yield iterates; the first one as soon as there is one.

        Parameters
        ----------
        problem : Problem
        moments : Moments
        context : Context
        start : mapping of str to numpy.ndarray, or None
            Arrays of an earlier answer or run.
        """


class Problem(ABC):
    """Data and parameters.

    Attributes
    ----------
    name : str
    tol : float
        The residual that is asked for by default.
    certificate_passes : float
        Passes that the certificate takes, which are set aside.
    """

    name: str
    tol: float
    certificate_passes: float = 1.0

    @abstractmethod
    def moments(self, passes: Passes) -> Moments:
        """Return the moments of the preprocessed data, which count passes there."""

    @abstractmethod
    def certify(self, moments: Moments, arrays: Mapping[str, Array], tol: float) -> Certificate:
        """Judge the arrays of an iterate."""
