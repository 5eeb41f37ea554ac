"""Sparse ridge regression with an intercept, beside scikit-learn's.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_intercept.py --data FOLDER`. Words of newsgroups against their
twenty groups, at several ridges. Printed are processor seconds, in alternating turns, and the distance of coefficients
and intercept from those of the least residual, which a solve to 1e-13 gives; each in units of the largest coefficient.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from datasets import arguments, newsgroups

RIDGES, TURNS = (100.0, 1.0, 0.1), 3


def main() -> int:
    """Print a line a solver."""
    from sklearn.linear_model import Ridge

    import linspec as ls

    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=TURNS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    A, B = newsgroups(given)
    A, B = A.astype(np.float64), np.asarray(B.toarray() if hasattr(B, "toarray") else B, dtype=np.float64)
    say(f"{A.shape[0]} x {A.shape[1]}, {A.nnz} entries, {B.shape[1]} right-hand sides")
    for ridge in RIDGES:
        problem = ls.LeastSquares(A, B, ridge=ridge, center=True)
        exact = ls.solve(problem, "lsqr", tol=1e-13, max_iterations=20000)
        say(f"ridge {ridge:g}: reference by lsqr, residual {exact.residual:.1e}, {exact.passes:g} passes")
        rivals: dict[str, Callable[[], tuple[Any, Any]]] = {}
        for solver in ("cg", "lsqr", "auto"):
            rivals[f"linspec {solver}"] = lambda problem=problem, solver=solver: _ours(
                ls.solve(problem, solver, rng=0, tol=1e-9)
            )
        for solver in ("auto", "sag"):
            rivals[f"scikit-learn {solver}"] = lambda solver=solver, ridge=ridge: _theirs(
                Ridge(alpha=ridge, solver=solver, tol=1e-8, max_iter=100000 if solver != "sag" else 200).fit(
                    A, B
                )
            )
        seconds: dict[str, list[float]] = {name: [] for name in rivals}
        answers = {}
        for _ in range(given.turns):
            for name, run in rivals.items():
                start = time.process_time()
                answers[name] = run()
                seconds[name].append(time.process_time() - start)
        unit = np.abs(exact.x).max()
        for name, (x, intercept) in answers.items():
            far = max(np.abs(x - exact.x).max(), np.abs(intercept - exact.intercept).max()) / unit
            say(f"  {name:24s} {np.median(seconds[name]):8.2f} s   {far:.1e}")
    return 0


def _ours(solution: Any) -> tuple[Any, Any]:
    return solution.x, solution.intercept


def _theirs(model: Any) -> tuple[Any, Any]:
    return model.coef_.T, model.intercept_


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
