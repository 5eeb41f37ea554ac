"""An iterative least-squares solver as a part of another method.

Problem: alternating least squares and others solve many problems with one matrix, to residuals of their own choice.
Method: the generator of iterates that a run drives is driven here by a residual, a count, the budget of the run around
it, and the method around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from linspec import Iterate, LeastSquaresState, Run
from linspec.arrays import Array


class IterativeState(LeastSquaresState):
    """A part whose loop is a generator of iterates.

    Attributes
    ----------
    run : Run
        That of the outer method.
    """

    run: Run

    def driven(self, iterates: Iterator[Iterate], tol: float, limit: int, passes: float) -> Array:
        """The x of the first iterate within a tolerance, or of the last that limit, budget and outer method allow.

        Parameters
        ----------
        iterates : iterator of Iterate
            With an "x" among their arrays; at least one.
        tol : float
        limit : int
            The most steps.
        passes : float
            Of a step.
        """
        with np.errstate(all="ignore"):  # what is not finite shows in residuals
            for made, iterate in enumerate(iterates):
                if iterate.residual <= tol or iterate.ending or made == limit or not self.run.affords(passes):
                    break
                if not self.watched(iterate.residual, partial(_x, iterate)):
                    break
        return _x(iterate)


def _x(iterate: Iterate) -> Array:
    return iterate.weights()["x"]
