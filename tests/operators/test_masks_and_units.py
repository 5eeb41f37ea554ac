"""Masks and units: a conversion would drop them, so every door refuses them."""

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidProblem, UnsupportedData
from linspec.operators import as_operator

M = np.random.default_rng(0).standard_normal((12, 3))


class WithUnit(np.ndarray):
    """An array with a unit, as those of astropy and unyt are."""

    unit = "m"


MARKED = {
    "masked": lambda x: np.ma.masked_array(x, x > x.max() - 1e-9),
    "masked nowhere": np.ma.masked_array,
    "rows that are masked": lambda x: [np.ma.masked_array(row, False) for row in x],
    "objects": lambda x: np.array([np.ma.masked, *x.tolist()[1:]], dtype=object),
    "unit": lambda x: x.view(WithUnit),
    "rows with units": lambda x: [
        row.view(WithUnit) if row.ndim else np.array(row).view(WithUnit) for row in x
    ],
}
W, FOLDS, CODES = np.ones(len(M)), np.arange(len(M)) % 6, np.arange(len(M)) % 2
AXES = ls.solve(ls.SVD(M, k=1, confounds=W))
PAIRS = ls.solve(ls.CCA(M, M[:, :2], k=1, ridge=1.0))
DOORS = {
    "data": (M, lambda x: ls.SVD(x, k=1)),
    "targets": (M, lambda x: ls.LeastSquares(M, x)),
    "view": (M, lambda x: ls.MultisetCCA([M, x], k=1)),
    "weights": (W, lambda x: ls.SVD(M, k=1, sample_weight=x)),
    "confounds": (M, lambda x: ls.SVD(M, k=1, confounds=x)),
    "ridges": (W, lambda x: ls.LeastSquares(M, M[:, 0], ridge=x)),
    "start": (M[:, :1].T @ M, lambda x: ls.solve(ls.SVD(M, k=1), "block-krylov", start=x)),
    "new rows": (M, lambda x: AXES.transform(x, confounds=W)),
    "new confounds": (W, lambda x: AXES.transform(M, confounds=x)),
    "scores": (M[:, :1], lambda x: AXES.inverse_transform(x, confounds=W)),
    "scored": (M[:, :2], lambda x: PAIRS.score(M, x)),
    "folds": (FOLDS, lambda x: ls.cross_validate(ls.CCA(M, M, k=1), splitter=x, ridges=[1.0])),
    "groups": (FOLDS, lambda x: ls.cross_validate(ls.CCA(M, M, k=1), groups=x, ridges=[1.0])),
    "tested ridges": (W, lambda x: ls.cross_validate(ls.CCA(M, M, k=1), ridges=x)),
    "classes": (CODES, ls.targets.lda),
    "weights of classes": (W, lambda x: ls.targets.lda(CODES, sample_weight=x)),
    "batch": (M, lambda x: ls.HeldMoments(ls.SVD).add(x)),
    "slices": (M, lambda x: ls.SVD(lambda: iter([M, x]), k=1) and ls.solve(ls.SVD(iter([M, x]), k=1))),
    "pair": (M, lambda x: ls.paired(lambda: iter([(M, x)]))),
    "block": (np.eye(M.shape[1]), lambda x: as_operator(M).matmat(x)),
    "metric": (W, lambda x: ls.metrics.f1(x, [0])),
    "kernel": (M, lambda x: ls.KernelRidge(x, M[:, 0], kernel=ls.kernels.linear(), ridge=1.0)),
    "points": (M, lambda x: ls.features.nystrom(x, ls.kernels.rbf(1.0), 2)),
}


@pytest.mark.parametrize("kind", MARKED)
@pytest.mark.parametrize("door", DOORS)
def test_masks_and_units_are_refused_at_every_door(door, kind):
    plain, through = DOORS[door]
    through(plain)
    if kind == "objects" and plain.ndim > 1:
        pytest.skip("a vector of objects")
    if kind.startswith("rows") and door in {"slices", "block", "start"}:
        pytest.skip("a list is neither a slice, nor a block, nor a start")
    with pytest.raises(
        (UnsupportedData, InvalidProblem), match=r"masked|unit|dtype object|real numbers|must be an array"
    ):
        through(MARKED[kind](plain))
