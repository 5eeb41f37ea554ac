"""Data of the record, with fixed seeds: ordinary ones in every form, and those on which methods fail.

All have 300 rows, 20 + 15 + 10 columns and classes. `planted` makes two views with spectra and canonical correlations
that are known; the hard cases choose them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

import linspec as ls

ROWS, WIDTHS = 300, (20, 15, 10)

FORMS = {
    "dense": np.asarray,
    "csr": scipy.sparse.csr_array,
    "slices": lambda A: lambda: iter(np.array_split(A, 4)),
    "once": lambda A: iter(np.array_split(A, 4)),
    "products": scipy.sparse.linalg.aslinearoperator,
}

LEAST_NORM = {"least-squares", "discriminant", "reduced-rank-regression"}
"""Problems whose weights are in the span of the rows, where columns depend on each other."""

ADJUSTED = {  # keywords of problems that do not take all three
    "kernel-ridge": ("sample_weight",),
    "kernel-cca": (),
    "deep-cca": (),
    "preimage-cca": (),
}

RIDGES, SCALE = (1.0, 10.0, 100.0), 8.0
RBF = partial(ls.kernels.rbf, SCALE)

OPTIONS = {  # short runs of the slowest solvers
    "dcca": {"width": 16, "epochs": 25},
    "knoi": {"features": 100, "epochs": 25},
    "scca-hsic": {"repeats": 4},
    "gradkcca": {"repeats": 4},
}


@dataclass(frozen=True)
class Case:
    """Views and classes, and what a problem asks of them."""

    name: str
    views: tuple[Any, ...]
    classes: Any
    ridge: float = 1.0
    center: bool = True
    scale: bool = False
    sample_weight: Any = None
    confounds: Any = None

    def later(self, problem: str) -> tuple[list[Any], Any]:
        """Rows that were not fitted, in the span of those that were if the problem allows, and their confounds."""
        views = [A[:60] - A[60:120] + A[120:180] for A in self.views]
        if self.name == "deficient" and problem in LEAST_NORM:
            rng = np.random.default_rng(9)
            views = [np.vstack([A, rng.standard_normal((5, A.shape[1]))]) for A in views]
        Z = self.confounds
        return views, None if Z is None else Z[:60] - Z[60:120] + Z[120:180]


STATED = {  # arguments by position: X, Y and Z are views, H targets, k a count
    "cca": lambda X, Y, Z, H, k, ridge: (X, Y, k, ridge),
    "deep-cca": lambda X, Y, Z, H, k, ridge: (X, Y, 2),
    "discriminant": lambda X, Y, Z, H, k, ridge: (X, H, None, ridge),
    "kernel-cca": lambda X, Y, Z, H, k, ridge: (X, Y, 2, RBF(), RBF(), 1.0),
    "kernel-ridge": lambda X, Y, Z, H, k, ridge: (X, Y, 1.0, RBF()),
    "least-squares": lambda X, Y, Z, H, k, ridge: (X, Y, ridge),
    "multiset-cca": lambda X, Y, Z, H, k, ridge: ([X, Y, Z], k, ridge),
    "pls": lambda X, Y, Z, H, k, ridge: (X, Y, k),
    "pls-regression": lambda X, Y, Z, H, k, ridge: (X, Y, k),
    "preimage-cca": lambda X, Y, Z, H, k, ridge: (X, Y, 1),
    "reduced-rank-regression": lambda X, Y, Z, H, k, ridge: (X, Y, k, ridge),
    "ridge-many-targets": lambda X, Y, Z, H, k, ridge: (X, Y, RIDGES),
    "sumcor-cca": lambda X, Y, Z, H, k, ridge: ([X, Y, Z], 2, ridge),
    "svd": lambda X, Y, Z, H, k, ridge: (X, k),
}


def stated(problem: str, case: Case, form: str = "dense", k: int = 3) -> Any:
    """The problem of this name on the data of a case in a form."""
    wanted = ADJUSTED.get(problem, ("scale", "sample_weight", "confounds"))
    about = {key: getattr(case, key) for key in wanted if getattr(case, key) is not None}
    if problem != "deep-cca":
        about["center"] = case.center
    if problem == "svd":
        about["left"] = form not in {"slices", "once"}
    if problem == "ridge-many-targets":
        about["splitter"] = np.repeat(range(5), ROWS // 5)
    H = ls.targets.lda(case.classes, sample_weight=case.sample_weight)
    views = (FORMS[form](A) for A in case.views)
    return ls.get_problem(problem)(*STATED[problem](*views, H, k, case.ridge), **about)


def planted(x: Any, y: Any, correlations: Any, seed: int = 1) -> tuple[Any, ...]:
    """Views with singular values x and y, and canonical correlations between their left singular vectors in order."""
    rng = np.random.default_rng(seed)
    width = len(x) + len(y)
    Q = np.linalg.qr(np.column_stack([np.ones(ROWS), rng.standard_normal((ROWS, width))]))[0][:, 1:]
    rho = np.zeros(len(y))
    rho[: len(correlations)] = correlations
    U = Q[:, : len(x)]
    both = U[:, : len(y)] * rho + Q[:, len(x) :] * np.sqrt(1 - rho**2)
    V, W = (np.linalg.qr(rng.standard_normal((len(s), len(s))))[0] for s in (x, y))
    third = both[:, : WIDTHS[2]] + 0.1 * rng.standard_normal((ROWS, WIDTHS[2]))
    return (U * x) @ V.T, (both * y) @ W.T, third


def plain() -> Case:
    """Views with five variables in common, of which many entries are zero and means are not."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal((ROWS, 5))
    views = []
    for width in WIDTHS:
        A = common @ rng.standard_normal((5, width)) + 2 * rng.standard_normal((ROWS, width)) + 1.0
        views.append(np.where(np.abs(A) < 1.5, 0.0, A))
    return Case("plain", tuple(views), (common[:, 0] > 0) + 2 * (common[:, 1] > 0))


def weighted() -> Case:
    """The same with weights of rows, confounds and scaled columns."""
    rng = np.random.default_rng(2)
    weights = rng.integers(0, 4, ROWS).astype(float)
    Z = rng.standard_normal((ROWS, 2))
    case = plain()
    views = tuple(A + (A != 0) * (Z @ rng.standard_normal((2, A.shape[1]))) for A in case.views)
    return replace(case, name="weighted", views=views, sample_weight=weights, confounds=Z, scale=True)


def hard() -> Iterator[Case]:
    """The cases on which methods fail."""
    base = plain()
    x, y = np.geomspace(10, 1, WIDTHS[0]), np.geomspace(20, 2, WIDTHS[1])
    rho = np.array([0.9, 0.8, 0.7, 0.6, 0.3])
    close = 1 - 1e-6 * np.arange(4)
    yield _hard("clustered", planted([*(10 * close), *x[4:]], y, [*(0.9 * close), 0.3]), base)
    yield _hard("repeated", planted([10, 10, *x[2:]], [20, 20, *y[2:]], [0.9, 0.9, 0.7, 0.3]), base)
    short = np.where(np.arange(WIDTHS[0]) < 12, x, 0.0)
    yield _hard("deficient", planted(short, y, rho), base)
    yield replace(base, name="means", views=tuple(A + 1e8 for A in base.views))
    yield _hard("hidden", planted([1e-3, *x[1:]], y, [0.95, 0.5, 0.4, 0.3]), base)
    yield _hard("tiny", planted([*x[:4], 1e-8, *x[5:]], y, rho), base)
    yield replace(base, name="float32", views=tuple(A.astype(np.float32) for A in base.views))
    rng = np.random.default_rng(3)
    counts = rng.poisson(0.02 + 0.2 * (rng.random((ROWS, 1)) < 0.2), (ROWS, sum(WIDTHS))).astype(float)
    yield replace(base, name="counts", views=tuple(np.split(counts, np.cumsum(WIDTHS)[:-1], axis=1)))
    words = [rng.integers(0, width, ROWS) for width in WIDTHS]
    words[1] = np.where(rng.random(ROWS) < 0.7, words[0] % WIDTHS[1], words[1])
    hot = tuple(np.eye(width)[each] for width, each in zip(WIDTHS, words, strict=True))
    yield replace(base, name="one-hot", views=hot, center=False)


def _hard(name: str, views: tuple[Any, ...], base: Case) -> Case:
    return replace(base, name=name, views=views, ridge=0.0)
