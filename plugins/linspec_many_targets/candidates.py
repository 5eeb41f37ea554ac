"""Candidates of the choice: ridges, bands of columns, and weights of the bands.

Problem: min ‖y − X w‖² + r Σ_b ‖w_b‖² / γ_b, for a ridge r and weights γ of the bands of columns of X.
Method: r is one of a grid, γ one of a list: given, or drawn from Dirichlet distributions (Dupré la Tour, Eickenberg,
Nunez-Elizalde & Gallant 2022, section 2.4, doi:10.1016/j.neuroimage.2022.119728). The first setting has equal weights.
Where we differ: draws alternate between the concentrations 1 and 0.1, and come from a generator of the problem's own:
the same problem has the same candidates in every run and with every array library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from linspec.arrays import HostArray, is_array, to_host
from linspec.errors import InvalidProblem, shown
from linspec.solving import check_ridge

CONCENTRATIONS = (1.0, 0.1)
"""Concentrations of the Dirichlet distributions, in turn: even weights, and weights that leave bands out."""


DRAWS = 20
"""The number of settings of several bands by default."""


def checked_ridges(given: Any) -> tuple[float, ...]:
    """Return the candidates for the ridge; all must be positive."""
    listed = to_host(given).tolist() if is_array(given) else given
    listed = list(listed) if isinstance(listed, Sequence) and not isinstance(listed, str) else [listed]
    found = tuple(check_ridge(ridge) for ridge in listed)
    if not found:
        raise InvalidProblem("ridges must have at least one number; got none. Pass ridges=[1, 10, 100].")
    if min(found) == 0:
        raise InvalidProblem(
            "ridges must be above 0; got 0. Pass a small ridge, or take linspec.LeastSquares, which needs none."
        )
    return found


def checked_bands(given: Any, p: int, names: Sequence[str] | None) -> tuple[tuple[str, ...], HostArray]:
    """Return the names of the bands, and the number of the band of each of p columns.

    Parameters
    ----------
    given : None, array or list of p labels, or mapping from a name to columns
        Columns of a mapping are numbers, slices, or names of columns.
    p : int
    names : sequence of str or None
        The names of the columns, if they have some.
    """
    if given is None:
        return ("all",), np.zeros(p, dtype=np.int64)
    if isinstance(given, Mapping):
        return tuple(map(str, given)), _of_mapping(given, p, names)
    labels = to_host(given)
    if labels.ndim != 1 or len(labels) != p or (labels.dtype.kind == "f" and not np.isfinite(labels).all()):
        raise InvalidProblem(
            f"bands must have one label for each of {p} columns of X, or map names of bands to columns; got "
            f"{shown(given)}."
        )
    _, first, numbers = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first)  # bands in the order of their first columns
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return tuple(str(labels[i]) for i in np.sort(first)), places[numbers]


def _of_mapping(given: Mapping[Any, Any], p: int, names: Sequence[str] | None) -> HostArray:
    found, counts = np.zeros((2, p), dtype=np.int64)
    numbers = {name: i for i, name in enumerate(names or ())}
    for number, (band, columns) in enumerate(given.items()):
        listed = range(p)[columns] if isinstance(columns, slice) else columns
        listed = to_host(listed).tolist() if is_array(listed) else listed
        if isinstance(listed, str) or not isinstance(listed, Sequence) or not len(listed):
            raise InvalidProblem(f"band {band!r} must be a list of columns or a slice; got {shown(columns)}.")
        for column in listed:
            place = numbers.get(column) if isinstance(column, str) else column
            if isinstance(place, bool) or not isinstance(place, int | np.integer) or not 0 <= place < p:
                raise InvalidProblem(
                    f"band {band!r} must name columns of X by numbers from 0 to {p - 1}"
                    f"{', or by their names' if names else ''}; got {shown(column)}."
                )
            found[place] = number
            counts[place] += 1
    if (counts != 1).any():
        first = int(np.argmax(counts != 1))
        raise InvalidProblem(f"each column must be in one band; got column {first} of X in {counts[first]}.")
    return found


def checked_weights(given: Any, bands: int, seed: Any) -> HostArray:
    """Return the candidates for the weights of the bands, of shape (settings, bands)."""
    draws = DRAWS if given is None else given
    if isinstance(draws, int | np.integer):
        if draws is True or draws < 1:
            raise InvalidProblem(
                f"band_weights must be at least 1 if it is a number of draws; got {shown(given)}."
            )
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise InvalidProblem(f"seed must be an integer of at least 0; got {shown(seed)}.")
        return _drawn(1 if bands == 1 else int(draws), bands, int(seed))
    try:
        weights = np.array(to_host(given), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidProblem(f"band_weights must be numbers; got {shown(given)}.") from error
    if weights.ndim != 2 or weights.shape[1] != bands or not len(weights):
        raise InvalidProblem(
            f"band_weights must have a row for each setting and a column for each of {bands} bands; got shape "
            f"{weights.shape}."
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any(axis=1).all():
        raise InvalidProblem(
            "band_weights must be finite and zero or more, with a positive number in each row; got "
            f"{shown(given)}. Weight 0 leaves a band out."
        )
    return weights


def _drawn(count: int, bands: int, seed: int) -> HostArray:
    """Draw weights that sum to 1; those of the first setting are equal, and 1 for a single band."""
    rng = np.random.default_rng(seed)
    drawn = [rng.dirichlet(np.full(bands, CONCENTRATIONS[i % len(CONCENTRATIONS)])) for i in range(count - 1)]
    return np.array([np.full(bands, 1.0 / bands), *drawn])
