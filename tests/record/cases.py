"""Data of the record, with fixed seeds: ordinary ones in every form, and those on which methods fail.

All have 300 rows, 20 + 15 + 10 columns and classes; kernel methods get 80 rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from planted import Case, planted_cca

import linspec as ls

ROWS, WIDTHS = 300, (20, 15, 10)

FORMS = {
    "dense": np.asarray,
    "csr": scipy.sparse.csr_array,
    "slices": lambda A: lambda: iter(np.array_split(A, 4)),
    "once": lambda A: iter(np.array_split(A, 4)),
    "products": scipy.sparse.linalg.aslinearoperator,
}

KERNELS = {"kernel-cca", "kernel-ridge", "preimage-cca", "deep-cca"}
TERMS = {
    "kernel-ridge": ("sample_weight",), "kernel-cca": (), "deep-cca": (), "preimage-cca": (), "incomplete-pca": (),
}  # fmt: skip
"""What problems take that do not take weights, confounds and scales."""

COUNTS = {"discriminant": None, "deep-cca": 2, "kernel-cca": 2, "sumcor-cca": 2, "preimage-cca": 1}
WITHOUT_COUNT = {"least-squares", "kernel-ridge", "ridge-many-targets"}
WITH_RIDGE = {
    "cca", "discriminant", "least-squares", "multiset-cca", "reduced-rank-regression", "sumcor-cca",
}  # fmt: skip
RBF = ls.kernels.rbf(8.0)
OWN: dict[str, dict[str, Any]] = {
    "kernel-cca": {"kernel_x": RBF, "kernel_y": RBF, "ridge": 1.0},
    "kernel-ridge": {"kernel": RBF, "ridge": 1.0},
    "preimage-cca": {"kernel_x": ls.kernels.linear()},
    "ridge-many-targets": {
        "ridges": (1.0, 10.0, 100.0), "splitter": np.repeat(range(5), ROWS // 5),
        "bands": [0] * WIDTHS[0], "band_weights": [[1.0]],
    },
}  # fmt: skip

OPTIONS = {  # short runs of the slowest solvers
    "dcca": {"width": 16, "epochs": 25},
    "knoi": {"features": 100, "epochs": 25},
    "scca-hsic": {"repeats": 4},
    "gradkcca": {"repeats": 4},
}


@dataclass(frozen=True)
class Data:
    """Views and classes, and what a problem asks of them."""

    name: str
    views: tuple[Any, ...]
    classes: Any
    ridge: float = 1.0
    center: bool = True
    scale: bool = False
    sample_weight: Any = None
    confounds: Any = None

    def later(self) -> tuple[list[Any], Any]:
        """Rows that were not fitted, in the span of those that were, and their confounds."""
        views, Z = [_combined(A) for A in self.views], self.confounds
        return views, None if Z is None else _combined(Z)


def _combined(A: Any) -> Any:
    return A[:60] - A[60:120] + A[120:180]


def stated(problem: str, data: Data) -> Case:
    """The problem of this name on some data."""
    views, rows = list(data.views), slice(80 if problem in KERNELS else ROWS)
    if problem == "discriminant":
        hot = (data.classes[:, None] == np.unique(data.classes)).astype(float)
        w = np.ones(ROWS) if data.sample_weight is None else data.sample_weight
        views[1] = hot / np.sqrt(w @ hot)
    several = problem in {"multiset-cca", "sumcor-cca"}
    if problem == "incomplete-pca":  # what sparse data do not store is missing
        views[0] = np.where(views[0] == 0, np.nan, views[0])
    names = {
        "svd": ("A",), "sparse-pca": ("A",), "incomplete-pca": ("X",), "least-squares": ("A", "B"),
        "discriminant": ("X", "H"),
    }.get(problem, ("X", "Y"))  # fmt: skip
    names = ("X1", "X2", "X3") if several else names
    terms = TERMS.get(problem, ("scale", "sample_weight", "confounds"))
    given = {name: getattr(data, name) for name in terms if getattr(data, name) is not None}
    given = {name: value[rows] if isinstance(value, np.ndarray) else value for name, value in given.items()}
    given |= OWN.get(problem, {})
    given |= {} if problem in {"deep-cca", "incomplete-pca"} else {"center": data.center}
    given |= {} if problem in WITHOUT_COUNT else {"k": COUNTS.get(problem, 3)}
    given |= {"ridge": data.ridge} if problem in WITH_RIDGE else {}
    return Case(problem, {name: A[rows] for name, A in zip(names, views, strict=False)}, given)


def plain() -> Data:
    """Views with five variables in common, of which many entries are zero and means are not."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal((ROWS, 5))
    views = []
    for width in WIDTHS:
        A = common @ rng.standard_normal((5, width)) + 2 * rng.standard_normal((ROWS, width)) + 1.0
        views.append(np.where(np.abs(A) < 1.5, 0.0, A))
    return Data("plain", tuple(views), (common[:, 0] > 0) + 2 * (common[:, 1] > 0))


def weighted() -> Data:
    """The same with weights of rows, confounds and scaled columns."""
    rng = np.random.default_rng(2)
    weights = rng.integers(0, 4, ROWS).astype(float)
    Z = rng.standard_normal((ROWS, 2))
    data = plain()
    views = tuple(A + (A != 0) * (Z @ rng.standard_normal((2, A.shape[1]))) for A in data.views)
    return replace(data, name="weighted", views=views, sample_weight=weights, confounds=Z, scale=True)


def hard() -> Iterator[Data]:
    """The cases on which methods fail."""
    base = plain()
    x, y = np.geomspace(10, 1, WIDTHS[0]), np.geomspace(20, 2, WIDTHS[1])
    rho = (0.9, 0.8, 0.7, 0.6, 0.3)
    close = 1 - 1e-6 * np.arange(4)
    spectra = {
        "clustered": ([*(10 * close), *x[4:]], y, [*(0.9 * close), 0.3]),
        "repeated": ([10, 10, *x[2:]], [20, 20, *y[2:]], [0.9, 0.9, 0.7, 0.3]),
        "deficient": (x[:12], y, rho),
        "hidden": ([1e-3, *x[1:]], y, [0.95, 0.5, 0.4, 0.3]),
        "tiny": ([*x[:4], 1e-8, *x[5:]], y, rho),
    }
    for name, (s, t, correlations) in spectra.items():
        pair = planted_cca(ROWS, *WIDTHS[:2], correlations, 3, values_x=s, values_y=t, seed=1).arrays
        yield replace(base, name=name, views=(*pair.values(), base.views[2]), ridge=0.0)
    yield replace(base, name="means", views=tuple(A + 1e8 for A in base.views))
    yield replace(base, name="float32", views=tuple(A.astype(np.float32) for A in base.views))
    rng = np.random.default_rng(3)
    counts = rng.poisson(0.02 + 0.2 * (rng.random((ROWS, 1)) < 0.2), (ROWS, sum(WIDTHS))).astype(float)
    yield replace(base, name="counts", views=tuple(np.split(counts, np.cumsum(WIDTHS)[:-1], axis=1)))
    words = [rng.integers(0, width, ROWS) for width in WIDTHS]
    words[1] = np.where(rng.random(ROWS) < 0.7, words[0] % WIDTHS[1], words[1])
    hot = tuple(np.eye(width)[each] for width, each in zip(WIDTHS, words, strict=True))
    yield replace(base, name="one-hot", views=hot, center=False)
