"""Prediction errors for a path of ridges, by folds or by generalized cross-validation.

Problem: estimate for each ridge how well it predicts rows that were not fitted.
Method: `linspec.cross_validate`.
Where we differ: squared errors are multiplied by the weights of the rows, and folds are averaged with the sums of
their weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from linspec.arrays import HostArray, is_array, to_host
from linspec.families.least_squares.problem import LeastSquares
from linspec.studies.held_out.validation import cross_validate


def errors_of_ridges(
    stated: LeastSquares, y: Any, cv: Any, groups: Any, rng: Any, settings: dict[str, Any]
) -> HostArray:
    """The weighted mean squared error of each ridge on rows that were not fitted.

    Parameters
    ----------
    stated : LeastSquares
        The problem with all ridges.
    y : data of shape (n,) or (n, m)
        The targets, for splitters that stratify.
    cv : None, int, splitter or iterable of splits
        The folds; None for generalized cross-validation, whose errors are infinite if no degrees of freedom are left.
    groups : array of shape (n,), or None
        The group of each row, for splitters that keep groups together.
    rng : None, int or numpy.random.Generator
        The seed of solvers, and of the random signs of generalized cross-validation.
    settings : dict
        Arguments of `linspec.solve`. If there are any, a solver runs for each fold. If there are none,
        `linspec.cross_validate` estimates the time of solvers and that of Gram matrices, and takes the faster of
        these two ways. Generalized cross-validation uses the arguments only if a solver estimates its trace.

    Returns
    -------
    numpy.ndarray of shape (len(stated.ridges),)
    """
    if cv is None:
        found = cross_validate(stated, method="gcv", rng=rng, **settings)
        return np.asarray(found.scores[0, :, 0])
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
