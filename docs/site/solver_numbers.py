"""The comparison on the pages of problems: every solver of a problem on one data set, with its default options.

    python docs/site/solver_numbers.py [PROBLEM ...]

writes `docs/site/solver-numbers.json`, for all problems or for those that are named, and keeps the rest of the file.
Seconds are CPU seconds on this machine, with one BLAS thread; passes, residuals and endings do not depend on it.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402  # after the variables, which a BLAS reads once

import linspec as ls  # noqa: E402

FILE = Path(__file__).with_name("solver-numbers.json")
SECONDS = 120.0
"""No run is given more."""


def two_views(rng: np.random.Generator, n: int, p: int, q: int, shared: int) -> tuple[Any, Any]:
    """Views with common causes of falling strength."""
    causes = rng.standard_normal((n, shared)) * np.linspace(3, 1, shared)
    return tuple(
        causes @ rng.standard_normal((shared, m)) + 4 * rng.standard_normal((n, m)) * np.geomspace(3, 0.3, m)
        for m in (p, q)
    )


def cca(rng: np.random.Generator) -> Any:
    """Two dense views of 4000 rows, 120 and 100 columns, with six common causes; five pairs, ridge 10."""
    return ls.CCA(*two_views(rng, 4000, 120, 100, 6), k=5, ridge=10.0)


def svd(rng: np.random.Generator) -> Any:
    """A dense matrix of 4000 x 200 whose singular values fall from 1 to 1/100; ten triplets, centred."""
    left, right = (np.linalg.qr(rng.standard_normal((m, 200)))[0] for m in (4000, 200))
    return ls.SVD((left * np.geomspace(1, 0.01, 200)) @ right.T, k=10, center=True)


def least_squares(rng: np.random.Generator) -> Any:
    """A dense matrix of 4000 x 150 with condition number 300, and three right-hand sides; ridge 1e-3."""
    left, right = (np.linalg.qr(rng.standard_normal((m, 150)))[0] for m in (4000, 150))
    A = (left * np.geomspace(30, 0.1, 150)) @ right.T
    return ls.LeastSquares(A, A @ rng.standard_normal((150, 3)) + rng.standard_normal((4000, 3)), ridge=1e-3)


def pls(rng: np.random.Generator) -> Any:
    """Two dense views of 4000 rows, 120 and 100 columns, with six common causes; five pairs."""
    return ls.PLS(*two_views(rng, 4000, 120, 100, 6), k=5)


def pls_regression(rng: np.random.Generator) -> Any:
    """Views of 4000 rows, 120 and three columns, with six common causes; ten components."""
    return ls.PLSRegression(*two_views(rng, 4000, 120, 3, 6), k=10)


def reduced_rank_regression(rng: np.random.Generator) -> Any:
    """Views of 4000 rows, 120 and 20 columns, with six common causes; rank five, ridge 10."""
    return ls.ReducedRankRegression(*two_views(rng, 4000, 120, 20, 6), k=5, ridge=10.0)


def discriminant(rng: np.random.Generator) -> Any:
    """Six classes in 3000 rows of 150 columns; ridge 1."""
    y = rng.integers(6, size=3000)
    return ls.Discriminant(
        rng.standard_normal((3000, 150)) + 1.5 * np.eye(6, 150)[y], ls.targets.lda(y), ridge=1.0
    )


def kernel_cca(rng: np.random.Generator) -> Any:
    """Points near a circle and near the circle of twice the angle, 800 rows; Gaussian kernels, three pairs."""
    angle = rng.uniform(0, 2 * np.pi, 800)
    X, Y = (
        np.column_stack([np.cos(m * angle), np.sin(m * angle)]) + 0.1 * rng.standard_normal((800, 2))
        for m in (1, 2)
    )
    return ls.KernelCCA(X, Y, k=3, kernel_x="rbf", ridge=0.08)


def kernel_ridge(rng: np.random.Generator) -> Any:
    """A sine of one of five columns and a square of another, 2000 rows; a Gaussian kernel, ridge 0.02, two targets."""
    X = rng.standard_normal((2000, 5))
    Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2]) + 0.1 * rng.standard_normal((2000, 2))
    return ls.KernelRidge(X, Y, 0.02)


def preimage_cca(rng: np.random.Generator) -> Any:
    """One column of Y is related to two of X, 1000 rows of 20 columns; linear kernels, one sparse pair."""
    X, Y = rng.standard_normal((1000, 20)), rng.standard_normal((1000, 20))
    Y[:, 0] += X[:, 0] + X[:, 1]
    return ls.PreimageCCA(X, Y, k=1, bound_x=("ratio", 1.5))


def deep_cca(rng: np.random.Generator) -> Any:
    """One column of Y is the square of one of X, 1000 rows of 4 columns; one pair."""
    X, Y = rng.standard_normal((1000, 4)), rng.standard_normal((1000, 4))
    Y[:, 0] = X[:, 0] ** 2
    return ls.DeepCCA(X, Y, k=1)


def multiset_cca(rng: np.random.Generator) -> Any:
    """Four normal variables in four views, 4000 rows of 100 columns each; ridge 10, three components."""
    common = rng.standard_normal((4000, 4)) * [2.0, 1.5, 1.0, 0.7]
    views = [common @ rng.standard_normal((4, 100)) / 3 + rng.standard_normal((4000, 100)) for _ in range(4)]
    return ls.MultisetCCA(views, k=3, ridge=10.0)


def sumcor_cca(rng: np.random.Generator) -> Any:
    """The views of multiset CCA; ridge 10, three components."""
    return ls.SumcorCCA(multiset_cca(rng).views, k=3, ridge=10.0)


def ridge_many_targets(rng: np.random.Generator) -> Any:
    """200 targets on two bands of 60 columns, of which they follow the first, 600 rows; six ridges, four settings."""
    X = rng.standard_normal((600, 120))
    Y = X[:, :60] @ rng.standard_normal((60, 200)) + 20 * rng.standard_normal((600, 200))
    return ls.RidgeManyTargets(X, Y, bands=np.repeat([0, 1], 60), band_weights=4)


PROBLEMS: dict[str, Callable[[np.random.Generator], Any]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        cca,
        svd,
        least_squares,
        pls,
        pls_regression,
        reduced_rank_regression,
        discriminant,
        kernel_cca,
        kernel_ridge,
        preimage_cca,
        deep_cca,
        multiset_cca,
        sumcor_cca,
        ridge_many_targets,
    )
}


def _entry(make: Callable[[np.random.Generator], Any], name: str) -> Any:
    return ls.compare(make(np.random.default_rng(0)), [name], rng=0, max_seconds=SECONDS).entries[0]


def measured(problem: str) -> dict[str, Any]:
    """The table of a problem."""
    make = PROBLEMS[problem]
    solvers = {}
    for name in ls.solvers(problem):
        entry, again = (_entry(make, name) for _ in range(2))  # the first call imports the solver
        if entry.passes is None:
            raise SystemExit(f"{problem}/{name}: {entry.message}")
        residual = entry.residual
        solvers[name] = {
            "passes": entry.passes,
            "seconds": float(f"{min(entry.cpu_seconds, again.cpu_seconds):.2g}"),
            "residual": None if residual is None or np.isnan(residual) else float(f"{residual:.2g}"),
            "status": entry.status,
        }
        print(problem, name, solvers[name], flush=True)
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}"
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {versions}"
    today = dt.datetime.now(dt.UTC).date().isoformat()
    return {
        "data": " ".join(str(make.__doc__).split()),
        "machine": machine,
        "date": today,
        "solvers": solvers,
    }


def main() -> None:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", help=", ".join(PROBLEMS))
    numbers = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    for problem in parser.parse_args().problems or PROBLEMS:
        numbers[problem] = measured(problem)
    FILE.write_text(json.dumps(numbers, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
