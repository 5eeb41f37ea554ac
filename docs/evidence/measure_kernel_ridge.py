"""Print what kernel ridge regression takes beside scikit-learn's KernelRidge, and what 50,000 rows take.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_kernel_ridge.py --data FOLDER`; `--quick` generates small data.
Every run is a process of its own, whose peak memory counts from the solve on. `--parts` takes some of them:

- equal: the largest difference of predictions from scikit-learn's on 500 rows, for each solver;
- rows: `--rows` rows (10,000) of keggundirected, 26 columns of deviation 1, a Gaussian kernel of the median distance
  and a ridge of 1e-6 n: scikit-learn, "direct" and "nystrom-pcg" in tiles, and with landmarks drawn with equal
  probabilities;
- many: 50,000 rows of the same in 2 GB of memory. It takes some minutes.

A pass computes every entry of the kernel matrix once; in tiles of a symmetric matrix, half of them.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
from datasets import standardized, uci_regression
from showing import Claim, Report, arguments, at_most
from timing import Peak, apart

import linspec as ls

PARTS = ("equal", "rows", "many")
SHARE = 1e-6
"""The ridge is this number times the rows."""

NEW = 2_000
"""Rows that are held out."""


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["equal", "rows"], help="equal and rows")
    parser.add_argument("--rows", type=int, default=10_000)
    report = Report(parser, "scikit-learn")
    if "equal" in report.given.parts:
        equal(report)
    if "rows" in report.given.parts:
        rows(report)
    if "many" in report.given.parts:
        many(report)
    return report.end()


def data(given: Any, n: int) -> tuple[Any, ...]:
    """Rows in random order, the first n for training: X, y, and up to `NEW` other rows."""
    X, y = standardized(*uci_regression(given, "keggundirected"))
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    n = min(n, len(X) - 200)
    return X[:n], y[:n], X[n : n + NEW], y[n : n + NEW]


def scale_of(X: Any) -> float:
    """Median distance between rows, as linspec computes it."""
    return float(ls.KernelOperator(X, "rbf", rng=0).settle().scale)


# ---- equality ------------------------------------------------------------------------------------------------------


def equal(report: Report) -> None:
    """Predictions beside scikit-learn's, on few rows."""
    import sklearn.kernel_ridge

    X, y, Z, _ = data(report.given, 500)
    table = report.table(
        "solver", "ridge / n::.0e", "difference::.1e", title="Predictions of scikit-learn, 500 rows"
    )
    worst, scale = 0.0, scale_of(X)
    for share in (1e-2, 1e-4, 1e-6):
        alpha = share * len(X)
        peer = sklearn.kernel_ridge.KernelRidge(alpha=alpha, kernel="rbf", gamma=1 / (2 * scale**2)).fit(X, y)
        for solver, options in (("direct", {}), ("nystrom-pcg", {"tol": 1e-12})):
            problem = ls.get_problem("kernel-ridge")(X, y, alpha, ls.kernels.rbf(scale))
            found = ls.solve(problem, solver, rng=0, **options)
            off = float(np.abs(found.predict(Z) - peer.predict(Z)).max() / np.abs(y).max())
            table.row(solver, share, off)
            worst = max(worst, off)
    report.say(
        [at_most("predictions are those of scikit-learn to 1e-10", worst, 1e-10, "{value:.1e}", own=True)]
    )


# ---- rows beside scikit-learn --------------------------------------------------------------------------------------


def by_method(given: Any, name: str, n: int) -> dict[str, Any]:
    """One method: seconds, memory, passes, residual and R² of new rows."""
    X, y, Z, t = data(given, n)
    scale, alpha = scale_of(X), SHARE * len(X)
    _fitted(name, X[:50], y[:50], scale, alpha)  # imports
    with Peak() as peak:
        predict, passes, residual = _fitted(name, X, y, scale, alpha)
    error = float(np.mean((predict(Z) - t) ** 2) / np.var(t))
    return peak.figures() | {"passes": passes, "residual": residual, "R2": 1 - error}


def _fitted(name: str, X: Any, y: Any, scale: float, alpha: float) -> tuple[Any, float | None, float | None]:
    if name == "scikit-learn":
        import sklearn.kernel_ridge

        found = sklearn.kernel_ridge.KernelRidge(alpha=alpha, kernel="rbf", gamma=1 / (2 * scale**2)).fit(
            X, y
        )
        return found.predict, None, None
    solver, *options = name.split()
    more: dict[str, Any] = {"storage": "tiled"} if solver == "nystrom-pcg" else {}
    more |= {"drawn": options[0]} if options else {}
    problem = ls.get_problem("kernel-ridge")(X, y, alpha, ls.kernels.rbf(scale))
    solution = ls.solve(problem, solver, rng=0, **more)
    return solution.predict, solution.passes, solution.residual


HEAD = (
    "method",
    "CPU s::.1f",
    "wall s::.1f",
    "MiB::.0f",
    "passes::.1f",
    "residual::.1e",
    "R² of new rows::.4f",
)


def rows(report: Report) -> None:
    """All methods on the same rows."""
    n = 800 if report.given.quick else report.given.rows
    table = report.table(*HEAD, title=f"{n:,} rows, ridge 1e-6 n")
    found = {}
    for name in ("scikit-learn", "direct", "nystrom-pcg", "nystrom-pcg uniform"):
        found[name] = _row(report, table, name, n)
    own, peer = found["nystrom-pcg"], found["scikit-learn"]
    report.say([
        at_most("nystrom-pcg reaches 1e-8", own["residual"], 1e-8, "{value:.1e}", own=True),
        Claim(
            "nystrom-pcg takes less time and memory than scikit-learn",
            own["cpu"] < peer["cpu"] and own["memory"] < peer["memory"],
            f"{own['cpu']:.1f} of {peer['cpu']:.1f} CPU s, {own['memory']:.0f} of {peer['memory']:.0f} MiB",
            own=True,
        ),
    ])  # fmt: skip


def _row(report: Report, table: Any, name: str, n: int) -> dict[str, Any]:
    found = apart(by_method, report.given, name, n)
    if "said" in found:
        sys.stderr.write(f"{name}: {found['said']}\n")
        raise SystemExit(1)
    table.row(name, *(found[key] for key in ("cpu", "clock", "memory", "passes", "residual", "R2")))
    return found


def many(report: Report) -> None:
    """50,000 rows in 2 GB."""
    n = 1_000 if report.given.quick else 50_000
    os.environ["LINSPEC_MAX_MEMORY"] = str(2 * 10**9)
    table = report.table(*HEAD, title=f"{n:,} rows, ridge 1e-6 n, 2 GB of memory")
    found = _row(report, table, "nystrom-pcg", n)
    whole = (found["memory"] + found["before"]) * 2**20 / 1e9
    report.say([
        at_most("it reaches 1e-8", found["residual"], 1e-8, "{value:.1e}", own=True),
        at_most("the process takes less than 2 GB", whole, 2.0, "{value:.2f} GB", own=True),
    ])  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
