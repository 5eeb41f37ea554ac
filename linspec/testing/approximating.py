"""Whether a solver that need not solve its problem exactly finds something of the answer.

Problem: of an approximate solver no accuracy is asked, so one that returns its random start would do.
Method: how far is what it found from what was planted, as a share of that: 1 for zeros, about one half for the values
of random directions in small problems. The median over the gentle cases must be clearly below.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec.testing.behaviour import Skip
from linspec.testing.oracle import as_host
from linspec.testing.solving import Trial

__all__ = ["check_approximates"]

NEAR = 1 / 3
"""The median distance to what was planted, as a share of its size, that random directions exceed (measured: 0.5)."""


def check_approximates(trials: Iterable[Trial]) -> Iterator[str]:
    """What is found is nearer to what was planted than random directions are.

    Parameters
    ----------
    trials : iterable of Trial
        Those of the cases; the gentle ones that have a planted answer are looked at.
    """
    distances = [
        _distance(trial.case.truth, trial.solution)
        for trial in trials
        if trial.case.truth and trial.case.gentle and trial.solution is not None
    ]
    if not distances:
        raise Skip("no answers are planted")
    median = float(np.median(distances))
    if not median <= NEAR:
        yield (
            f"the answers are as far from the planted ones as random directions: the median of {len(distances)} cases "
            f"is {median:.2g} of their size, and {NEAR:.2g} would do; zeros have 1"
        )


def _distance(truth: Any, solution: Any) -> float:
    """The largest distance of a planted array from what was found for it, as a share of its size."""
    return max(_apart(planted, getattr(solution, name)) for name, planted in truth.items())


def _apart(planted: HostArray, found: Any) -> float:
    found = as_host(found).reshape(-1, *planted.shape[1:])
    padded = np.zeros(planted.shape)  # values that are not returned are zero
    rows = min(len(found), len(planted))
    padded[:rows] = found[:rows]
    size = float(np.linalg.norm(planted))
    return float(np.linalg.norm(padded - planted)) / size if size > 0 else 0.0
