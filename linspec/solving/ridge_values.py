"""Ridges as numbers, as text and as columns of tables; a ridge is a number, or one for each of several matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linspec.arrays import HostArray


def size_of_ridge(ridge: Any) -> float:
    """Return a ridge as one number, by which ridges are ordered."""
    return 0.0 if ridge is None else float(np.sum(ridge))


def ridge_in_words(ridge: Any) -> str:
    """Return a ridge as text: a number, two different numbers in brackets, or "" for a problem without a ridge."""
    if ridge is None:
        return ""
    pair: Sequence[float] = ridge if isinstance(ridge, tuple) else (ridge,)
    return f"{pair[0]:g}" if len(set(pair)) == 1 else f"({', '.join(f'{r:g}' for r in pair)})"


def ridge_labels(ridges: Sequence[float]) -> list[str]:
    """Return different texts for the ridges of a path: with six digits, or all digits, or also their numbers."""
    for texts in ([f"{ridge:g}" for ridge in ridges], [repr(float(ridge)) for ridge in ridges]):
        if len(set(texts)) == len(texts):
            return texts
    return [f"{ridge!r} [{i}]" for i, ridge in enumerate(map(float, ridges))]


def ridge_columns(ridges: Sequence[Any], matrices: Sequence[str]) -> dict[str, HostArray]:
    """Return the columns of a table that hold ridges.

    Parameters
    ----------
    ridges : sequence
        Numbers, or tuples with a number for each matrix; None for a problem without a ridge.
    matrices : sequence of str
        The names of the matrices with weights.

    Returns
    -------
    dict of str to numpy.ndarray
        "ridge", or "ridge X" and "ridge Y" for tuples. Empty without a ridge.
    """
    if not ridges or ridges[0] is None:
        return {}
    if not isinstance(ridges[0], tuple):
        return {"ridge": np.asarray(ridges, dtype=np.float64)}
    count = len(ridges[0])
    names = matrices if len(matrices) == count else range(1, count + 1)
    return {f"ridge {name}": np.array([ridge[i] for ridge in ridges]) for i, name in enumerate(names)}
