"""Errors of prediction for a path of ridges: by folds, and by generalized cross-validation.

Problem: which ridge predicts rows best that were not fitted?
Method: folds leave rows out (`linspec.cross_validate`). Generalized cross-validation leaves out none: with the hat
matrix H(λ), which takes the N targets to their fits, the error is estimated by

    V(λ) = N ‖(I − H(λ)) y‖² / (N − tr H(λ))².

The trace is that of the singular values sᵢ of the (centred, weighted) data, Σ sᵢ²/(sᵢ² + λ), and 1 for the intercept.
Where both sides of the data are long, it is estimated by random signs z, E zᵀHz = tr H, which are more right-hand
sides of the same run.
Source: Golub, Heath & Wahba 1979, doi:10.1080/00401706.1979.10489751 (their V is ours over N); Girard 1989,
doi:10.1007/BF01395775 (the random signs); for several targets the squares are added up.
Where we differ: rows have weights. What counts N = Σ w times is as if it were there so often: y, z and the data are
multiplied by √w, and the intercept, whose part of the trace is known, is taken out of zᵀHz.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.model_selection import check_cv

from linspec.arrays import HostArray, is_array, to_host
from linspec.errors import InvalidProblem
from linspec.families.least_squares.problem import LeastSquares
from linspec.families.least_squares.solution import LeastSquaresSolution
from linspec.families.svd.problem import SVD
from linspec.held_out.validation import cross_validate
from linspec.operators import as_operator
from linspec.row_model import weights_and_confounds
from linspec.solver import solve

EXACT = 1000
"""Up to so many rows or columns the trace is computed of all singular values; up to so many columns folds share a
reading, and all ridges a decomposition for each fold."""

PROBES = 20
"""Random signs a row where it is estimated. The standard deviation of N − tr H is at most √(2 (N − tr H) / PROBES)."""

Make = Callable[[Any, Any, tuple[float, ...], Any], LeastSquares]
"""The problem of rows, targets, ridges and weights."""

Solve = Callable[[LeastSquares], LeastSquaresSolution]


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
        Arguments of `linspec.solve`. Without any, few columns are read once, and no solver runs.

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
    form = "auto" if stated.A.shape[1] <= EXACT and not settings else "solve"
    found = cross_validate(stated, splitter=splits, score="mse", form=form, rng=rng, **settings)
    counts = [often[test].sum() for _, test in splits]
    mean: HostArray = np.average(found.scores[:, :, 0], axis=0, weights=counts)
    return mean


def errors_by_gcv(
    make: Make,
    solved: Solve,
    X: Any,
    y: Any,
    ridges: tuple[float, ...],
    sample_weight: Any,
    seed: Any,
) -> HostArray:
    """Generalized cross-validation for each ridge.

    Parameters
    ----------
    make, solved : callable
        State a problem, and solve it.
    X : data of shape (n, p)
    y : data of shape (n,) or (n, m)
    ridges : tuple of floats
    sample_weight : array of shape (n,), or None
    seed : None, int or numpy.random.Generator
        Of the random signs.

    Returns
    -------
    numpy.ndarray of shape (len(ridges),)
        Infinite where all N degrees of freedom are spent.
    """
    A = as_operator(X, "X")
    w, _ = weights_and_confounds(sample_weight, None, A.shape[0])
    stated = make(A, _columns(y), ridges, w)
    targets = _dense(_columns(y))
    N, often = float(len(targets)), np.ones(len(targets))
    if w is not None:
        N, often = float(w.sum()), w
    if min(A.shape) <= EXACT:
        path = solved(stated)
        traces = _traces_of_values(stated, A, w) + stated.center
        squares = _squares(path, A, targets, often)
    else:
        roots = np.sqrt(often)
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(len(targets), PROBES))
        probes = np.divide(signs, roots[:, None], out=np.zeros_like(signs), where=roots[:, None] > 0)
        path = solved(make(A, A.home.place(np.hstack([targets, probes])), ridges, w))
        fits = to_host(path.predict(A))
        m = targets.shape[1]
        squares = np.einsum("i,rij->r", often, (fits[..., :m] - targets) ** 2)
        of_means = np.sum((roots @ signs) ** 2) / N if stated.center else 0.0
        products = np.einsum("ij,rij->r", roots[:, None] * signs, fits[..., m:])
        traces = (products - of_means) / PROBES + stated.center
    left = N - traces
    spent = left <= 1e-10 * N
    scores = N * squares / (targets.shape[1] * np.where(spent, 1.0, left) ** 2)
    found: HostArray = np.where(spent, np.inf, scores)
    return found


def _traces_of_values(stated: LeastSquares, A: Any, w: HostArray | None) -> HostArray:
    """Σ s²/(s² + λ) for each ridge λ, with the singular values of the data as the problem changes them."""
    S = solve(SVD(A, center=bool(stated.center), scale=stated.scale, sample_weight=w), rng=0).S
    squares = S[S > 0] ** 2
    traces: HostArray = np.sum(squares / (squares + np.asarray(stated.ridges)[:, None]), axis=1)
    return traces


def _squares(path: LeastSquaresSolution, A: Any, targets: HostArray, often: HostArray) -> HostArray:
    """The sum of squared errors on rows, for each ridge of a path."""
    found: HostArray = np.einsum("i,rij->r", often, (to_host(path.predict(A)) - targets) ** 2)
    return found


def _columns(y: Any) -> Any:
    """A vector as a matrix of one column."""
    return y[:, None] if is_array(y) and y.ndim == 1 else y


def _dense(y: Any) -> HostArray:
    """Targets as a float64 array on the host.

    Raises
    ------
    InvalidProblem
        When these are no entries in memory.
    """
    if scipy.sparse.issparse(y):
        y = y.toarray()
    if not is_array(y):
        raise InvalidProblem(
            f"RidgeCV needs the entries of y in memory; got {type(y).__name__}. Pass an array or a sparse matrix."
        )
    return np.asarray(to_host(y), dtype=np.float64)
