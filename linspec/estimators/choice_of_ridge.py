"""Errors of prediction for a path of ridges: by folds, and by generalized cross-validation.

Problem: which ridge predicts rows best that were not fitted?
Method: `linspec.cross_validate`.
Where we differ: the squared errors of a fold count by the weights of its rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from linspec.arrays import HostArray, is_array, to_host
from linspec.families.least_squares.problem import LeastSquares
from linspec.held_out.validation import cross_validate


def errors_by_folds(
    stated: LeastSquares, y: Any, cv: Any, groups: Any, rng: Any, settings: dict[str, Any]
) -> HostArray:
    """The mean squared error of each ridge on the rows that the folds leave out; every row counts by its weight.

    Parameters
    ----------
    stated : LeastSquares
        With all ridges.
    y : data of shape (n,) or (n, m)
        The targets, for splitters that stratify.
    cv : int, splitter or iterable of splits
    groups : array of shape (n,), or None
    rng : None, int or numpy.random.Generator
    settings : dict
        Arguments of `linspec.solve`. Without any, `cross_validate` chooses whether a solver runs.

    Returns
    -------
    numpy.ndarray of shape (len(stated.ridges),)
    """
    n, w = int(stated.B.shape[0]), stated.sample_weight
    labels = to_host(y) if is_array(y) else None
    often = np.ones(n) if w is None else w
    splits = [
        (train, test)
        for train, test in check_cv(cv).split(np.empty((n, 1)), labels, groups)
        if often[test].sum() > 0
    ]
    found = cross_validate(stated, splitter=splits, score="mse", rng=rng, **settings)
    counts = [often[test].sum() for _, test in splits]
    mean: HostArray = np.average(found.scores[:, :, 0], axis=0, weights=counts)
    return mean


def errors_by_gcv(stated: LeastSquares, rng: Any, settings: dict[str, Any]) -> HostArray:
    """Generalized cross-validation for each ridge.

    Parameters
    ----------
    stated : LeastSquares
        With all ridges.
    rng : None, int or numpy.random.Generator
        Of the random signs.
    settings : dict
        Arguments of `linspec.solve`, where all ridges are solved for.

    Returns
    -------
    numpy.ndarray of shape (len(stated.ridges),)
        Infinite where all degrees of freedom are spent.
    """
    scores: HostArray = cross_validate(stated, method="gcv", rng=rng, **settings).scores[0, :, 0]
    return scores
