"""Candidates of the choice: ridges, bands of columns, and weights of the bands.

Problem: min ‖y − X w‖² + r Σ_b ‖w_b‖² / γ_b, for a ridge r and weights γ of the bands of columns of X.
Method: r is one of a grid, γ one of a list: given, or drawn from Dirichlet distributions (Dupré la Tour, Eickenberg,
Nunez-Elizalde & Gallant 2022, section 2.4, doi:10.1016/j.neuroimage.2022.119728). The first setting has equal weights.
Where we differ: draws alternate between the concentrations 1 and 0.1, and come from a generator of the problem's own:
the same problem has the same candidates in every run and with every array library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from linspec.arrays import HostArray, is_array, to_host
from linspec.errors import InvalidProblem, shown
from linspec.solving import check_ridge

CONCENTRATIONS = (1.0, 0.1)
"""Concentrations of the Dirichlet distributions, in turn: even weights, and weights that leave bands out."""


DRAWS = 20
"""The number of settings of several bands by default."""


def checked_ridges(argument: Any) -> tuple[float, ...]:
    """Return the candidates for the ridge; all must be positive."""
    listed = to_host(argument).tolist() if is_array(argument) else argument
    listed = listed if isinstance(listed, list | tuple | range) else [listed]
    ridges = tuple(check_ridge(ridge) for ridge in listed)
    if not ridges or min(ridges) == 0:
        raise InvalidProblem(
            f"ridges must be at least one number above 0; got {shown(argument)}. linspec.LeastSquares needs no ridge."
        )
    return ridges


def checked_bands(bands: Any, p: int, names: Sequence[str] | None) -> tuple[tuple[str, ...], HostArray]:
    """Return the names of the bands, and the number of the band of each of p columns.

    Parameters
    ----------
    bands : None, array or list of p labels, or mapping from a name to columns
        Columns of a mapping are numbers, slices, or names of columns.
    p : int
    names : sequence of str or None
        The names of the columns, if they have some.
    """
    if bands is None:
        return ("all",), np.zeros(p, dtype=np.int64)
    if isinstance(bands, Mapping):
        return tuple(map(str, bands)), _of_mapping(bands, p, names)
    labels = to_host(bands)
    if labels.ndim != 1 or len(labels) != p or (labels.dtype.kind == "f" and not np.isfinite(labels).all()):
        raise InvalidProblem(
            f"bands must have one label for each of {p} columns of X, or map names of bands to columns; got "
            f"{shown(bands)}."
        )
    numbers: dict[Any, int] = {}  # in the order of their first columns
    band_of = [numbers.setdefault(label, len(numbers)) for label in labels.tolist()]
    return tuple(map(str, numbers)), np.asarray(band_of, dtype=np.int64)


def _of_mapping(bands: Mapping[Any, Any], p: int, names: Sequence[str] | None) -> HostArray:
    band_of = np.full(p, -1)
    index = {name: i for i, name in enumerate(names or ())}
    for number, (band, columns) in enumerate(bands.items()):
        listed = range(p)[columns] if isinstance(columns, slice) else columns
        listed = to_host(listed).tolist() if is_array(listed) else listed
        listed = list(listed) if isinstance(listed, Sequence) and not isinstance(listed, str) else []
        places: list[Any] = [
            index.get(column, -1) if isinstance(column, str) else column for column in listed
        ]
        known = all(type(place) in (int, np.int64) and 0 <= place < p for place in places)
        if not places or not known or len({*places}) < len(places) or (band_of[places] >= 0).any():
            raise InvalidProblem(
                f"band {band!r} must list columns of X that are in no other band, by numbers from 0 to {p - 1}, by a "
                f"slice, or by their names; got {shown(columns)}."
            )
        band_of[places] = number
    if (band_of < 0).any():
        raise InvalidProblem(
            f"each column must be in one band; got column {np.argmin(band_of)} of X in none."
        )
    return band_of


def checked_weights(band_weights: Any, bands: int, seed: Any) -> HostArray:
    """Return the candidates for the weights of the bands, of shape (settings, bands).

    Those that are drawn sum to 1; the first ones are equal, and 1 for a single band.
    """
    draws = DRAWS if band_weights is None else band_weights
    if isinstance(draws, int | np.integer) and draws > 0 and draws is not True:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise InvalidProblem(f"seed must be an integer of at least 0; got {shown(seed)}.")
        rng, more = np.random.default_rng(int(seed)), 0 if bands == 1 else int(draws) - 1
        drawn = [rng.dirichlet(np.full(bands, CONCENTRATIONS[i % len(CONCENTRATIONS)])) for i in range(more)]
        return np.array([np.full(bands, 1.0 / bands), *drawn])
    with suppress(TypeError, ValueError):
        weights = np.array(to_host(band_weights), dtype=np.float64)
        fits = weights.ndim == 2 and weights.shape[1] == bands and len(weights) > 0
        if fits and np.isfinite(weights).all() and (weights >= 0).all() and weights.any(axis=1).all():
            return weights
    raise InvalidProblem(
        f"band_weights must be a number of draws, at least 1, or numbers with a row for each setting and a column for "
        f"each of {bands} bands, zero or more, with a positive number in each row; got {shown(band_weights)}."
    )
