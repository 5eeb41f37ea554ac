"""The estimators of linspec beside scikit-learn's, on sparse counts that are to be centred.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_estimators.py --data FOLDER`. Word counts of newsgroups,
training rows: 50 principal components, and ridge regression with an intercept on the twenty groups, one-hot. `--tf-idf`
weights the counts, as other scripts do. Each method runs in a process of its own. Printed are processor seconds of the
fit, its peak memory beyond data and imports, and how near the answer is:

- of components, the largest relative error of a singular value, the residual max ‖AᵀA v − σ² v‖ / σ₁² of the centred
  counts A, and the share of the variance, which is computed anew from the components;
- of coefficients w and intercept, the residual max ‖Aᵀ(b − A w) − alpha w‖ / ‖Aᵀb‖ over targets, A and b centred, and
  the distance from the reference in units of the largest coefficient.

References are solves of linspec to 1e-12 (`block-krylov`) and 1e-10 (`lsqr`), whose own residual is printed. Where one
takes too long, there is no distance. What a library refuses is printed as it says it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from datasets import newsgroup_counts, newsgroups
from showing import Report, Table, arguments
from timing import Peak, apart

K = 50

COMPONENTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "linspec PCA": ("linspec", "PCA", {"random_state": 0}),
    "linspec PCA, tol 1e-10": ("linspec", "PCA", {"random_state": 0, "tol": 1e-10}),
    "linspec PCA, spca": ("linspec", "PCA", {"random_state": 0, "solver": "spca"}),
    "linspec PCA, center False": ("linspec", "PCA", {"random_state": 0, "center": False}),
    "scikit-learn PCA, arpack": ("decomposition", "PCA", {"random_state": 0, "svd_solver": "arpack"}),
    "scikit-learn PCA, auto": ("decomposition", "PCA", {"random_state": 0}),
    "scikit-learn PCA, randomized": ("decomposition", "PCA", {"random_state": 0, "svd_solver": "randomized"}),
    "scikit-learn TruncatedSVD": ("decomposition", "TruncatedSVD", {"random_state": 0}),
}
"""Methods for components: where the class is, its name, its parameters."""

REGRESSIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "linspec Ridge": ("linspec", "Ridge", {"random_state": 0}),
    "linspec Ridge, cg, tol 1e-10": ("linspec", "Ridge", {"solver": "cg", "tol": 1e-10}),
    "scikit-learn Ridge": ("linear_model", "Ridge", {}),
    "scikit-learn Ridge, sparse_cg, tol 1e-10": (
        "linear_model",
        "Ridge",
        {"solver": "sparse_cg", "tol": 1e-10},
    ),
    "scikit-learn Ridge, lsqr, tol 1e-10": ("linear_model", "Ridge", {"solver": "lsqr", "tol": 1e-10}),
    "scikit-learn Ridge, svd": ("linear_model", "Ridge", {"solver": "svd"}),
}
"""Methods for regression."""


def main() -> int:
    """Print a line a method."""
    parser = arguments(__doc__)
    parser.add_argument("--alphas", nargs="+", type=float, default=[1.0, 100.0])
    parser.add_argument("--longest", type=float, default=600.0, help="seconds of the clock for a method")
    parser.add_argument("--tf-idf", action="store_true", help="tf-idf in place of counts")
    parser.add_argument("--parts", nargs="+", default=["pca", "ridge"], choices=["pca", "ridge"])
    report = Report(parser)
    given = report.given
    A, Y = counts(given)
    print(f"{A.shape[0]} x {A.shape[1]}, {A.nnz} entries, {Y.shape[1]} targets", flush=True)
    if "pca" in given.parts:
        fields = ("σ::.1e", "residual::.1e", "variance::.7f")
        table = report.table("components", "CPU s::.2f", "MiB::.0f", *fields, "said")
        for name in ("reference", *COMPONENTS):
            row(given, table, "pca", name, ("sigma", "residual", "variance"))
    if "ridge" in given.parts:
        for alpha in given.alphas:
            fields = ("distance::.1e", "residual::.1e")
            table = report.table(f"regression, alpha {alpha:g}", "CPU s::.2f", "MiB::.0f", *fields, "said")
            for name in ("reference", *REGRESSIONS):
                row(given, table, f"ridge:{alpha}", name, ("distance", "residual"))
    return report.end()


def row(given: argparse.Namespace, table: Table, part: str, name: str, fields: tuple[str, ...]) -> None:
    """Run a method in a process of its own, and print what came of it."""
    found = apart(one, given, part, name, seconds=given.longest)
    table.row(name, *(found.get(field, "") for field in ("cpu", "memory", *fields)), found["said"])


def one(given: argparse.Namespace, part: str, name: str) -> dict[str, Any]:
    """The figures of a method."""
    warnings.simplefilter("ignore")
    A, Y = counts(given)
    if part == "pca":
        k = 10 if given.quick else K
        if name == "reference":
            make = instance("linspec", "PCA", {"solver": "block-krylov", "tol": 1e-12, "random_state": 0}, k)
        else:
            make = instance(*COMPONENTS[name], k)
        run = measured(make, A)
        return {**run, **judge_components(given, make, A, own=name == "reference")}
    alpha = float(part.partition(":")[2])
    exact = (
        "linspec",
        "Ridge",
        {"solver": "lsqr", "tol": 1e-10, "solver_options": {"max_iterations": 20000}},
    )
    make = instance(*(exact if name == "reference" else REGRESSIONS[name]), alpha)
    run = measured(make, A, Y)
    return {**run, **judge_coefficients(given, make, A, Y, alpha, own=name == "reference")}


def instance(module: str, name: str, parameters: dict[str, Any], first: float) -> Any:
    """An estimator, its library loaded and warm."""
    place = "linspec.estimators" if module == "linspec" else f"sklearn.{module}"
    cls = getattr(__import__(place, fromlist=[name]), name)
    tiny = scipy.sparse.random_array((60, 30), density=0.3, rng=0, format="csr")
    cls(2).fit(tiny, np.eye(60, 2)) if name == "Ridge" else cls(2).fit(tiny)
    return cls(first, **parameters)


def measured(estimator: Any, *data: Any) -> dict[str, Any]:
    """Fit, and say what it took."""
    with Peak() as peak:
        estimator.fit(*data)
    said = "" if not hasattr(estimator, "solution_") else ended(estimator.solution_)
    return {**peak.figures(), "said": said}


def ended(solution: Any) -> str:
    """Solver, status, residual and passes of a solution."""
    return f"{solution.solver}, {solution.status.name}, {solution.residual:.0e}, {solution.passes:g} passes"


def judge_components(given: argparse.Namespace, estimator: Any, A: Any, *, own: bool) -> dict[str, float]:
    """Errors of components, by products with the counts alone."""
    V, S = np.linalg.qr(estimator.components_.T)[0], np.asarray(estimator.singular_values_)
    mean = np.asarray(A.mean(axis=0)).ravel()

    def product(V: np.ndarray) -> np.ndarray:
        return A @ V - (mean @ V)[None, :]

    U = product(estimator.components_.T)
    gap = A.T @ U - np.outer(mean, U.sum(axis=0)) - estimator.components_.T * S**2
    total = float((A.data**2).sum() - A.shape[0] * (mean**2).sum())
    place = scratch(given, "sigma")
    if own:
        np.save(place, S)
    exact = np.load(place)
    return {
        "sigma": float(np.max(np.abs(S - exact) / exact)),
        "residual": float(np.sqrt((gap**2).sum(axis=0)).max() / exact[0] ** 2),
        "variance": float((product(V) ** 2).sum() / total),
    }


def judge_coefficients(
    given: argparse.Namespace, estimator: Any, A: Any, Y: np.ndarray, alpha: float, *, own: bool
) -> dict[str, float]:
    """Errors of coefficients, by products with the counts alone."""
    W, c = estimator.coef_.T, np.asarray(estimator.intercept_)
    mean = np.asarray(A.mean(axis=0)).ravel()

    def adjoint(R: np.ndarray) -> np.ndarray:
        return A.T @ R - np.outer(mean, R.sum(axis=0))

    gap = adjoint(Y - Y.mean(axis=0) - (A @ W - mean @ W)) - alpha * W
    right = adjoint(Y - Y.mean(axis=0))
    place = scratch(given, f"coefficients-{alpha:g}")
    answer = np.vstack([W, c])
    if own:
        np.save(place, answer)
    exact = np.load(place) if place.exists() else np.full_like(answer, np.nan)
    norms = np.sqrt((gap**2).sum(axis=0)) / np.sqrt((right**2).sum(axis=0))
    return {
        "distance": float(np.abs(answer - exact).max() / np.abs(exact).max()),
        "residual": float(norms.max()),
    }


def scratch(given: argparse.Namespace, name: str) -> Path:
    """A file in the folder of temporary files, for what the reference leaves for the others."""
    kind = f"{'-quick' if given.quick else ''}{'-tf-idf' if given.tf_idf else ''}"
    return Path(tempfile.gettempdir()) / f"linspec-estimators-{name}{kind}.npy"


def counts(given: argparse.Namespace) -> tuple[Any, np.ndarray]:
    """Counts of words of the training posts, or their tf-idf, and the groups, one-hot."""
    return newsgroups(given) if given.tf_idf else newsgroup_counts(given)


if __name__ == "__main__":
    sys.exit(main())
