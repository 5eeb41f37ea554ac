"""The check that an approximate solver finds part of the answer.

Problem: no accuracy is required of an approximate solver, so a solver that returns its random start would pass.
Method: the relative distance of the answer from the planted one is measured. It is 1 for zeros, and about one
half for the values of random directions in small problems. The median over the gentle cases must be clearly
below one half.
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
"""Limit of the median relative distance to the planted answer; random directions have 0.5 (measured)."""


def check_approximates(trials: Iterable[Trial]) -> Iterator[str]:
    """The answers are nearer to the planted ones than random directions are.

    Parameters
    ----------
    trials : iterable of Trial
        One trial for each case. The check uses the gentle cases that have a planted answer.
    """
    distances = [
        _distance(trial.case.truth, trial.solution)
        for trial in trials
        if trial.case.truth and trial.case.gentle and trial.solution is not None
    ]
    if not distances:
        raise Skip("no case has a planted answer")
    median = float(np.median(distances))
    if not median <= NEAR:
        yield (
            "an approximate solver must come nearer to the planted answers than random directions; the "
            f"median relative distance over {len(distances)} cases is {median:.2g}, and it must be below "
            f"{NEAR:.2g} (zeros have 1)"
        )


def _distance(truth: Any, solution: Any) -> float:
    """Return the largest relative distance between a planted array and the array in the solution."""
    return max(_apart(planted, getattr(solution, name)) for name, planted in truth.items())


def _apart(planted: HostArray, found: Any) -> float:
    found = as_host(found).reshape(-1, *planted.shape[1:])
    padded = np.zeros(planted.shape)  # values that are not returned are zero
    rows = min(len(found), len(planted))
    padded[:rows] = found[:rows]
    size = float(np.linalg.norm(planted))
    return float(np.linalg.norm(padded - planted)) / size if size > 0 else 0.0
