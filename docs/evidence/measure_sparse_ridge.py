"""Print what ridge regression of sparse rows takes beside scikit-learn: one fit, and a ridge chosen by folds.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_sparse_ridge.py`; `--quick` makes few calls. The data are drawn
as words are: columns are the less frequent the higher their number, and coefficients are normal. The calls alternate;
figures are milliseconds of the processor, the median of `--rounds`.

- fit: 1,200 x 800, 20 entries a row, one target, an intercept, by `estimators.Ridge` and by `Ridge` of scikit-learn.
- folds: 3,000 x 2,000, 30 entries a row, 11 ridges x 5 folds by `linspec.cross_validate`, and by `GridSearchCV` of
  `Ridge` with the same folds and no intercept.

Errors are the largest differences from the exact answer, relative to the largest number: of coefficients by the normal
equations, of scores by the normal equations of each fold.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
from measure_sparse_constants import zipf
from showing import Claim, Report, arguments
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold
from timing import alternate

import linspec as ls
from linspec import estimators

RIDGES, FOLDS, ROUNDS, LIMIT = np.geomspace(1e-2, 1e3, 11), 5, 11, 1.2
TOL = 1e-8
"""Of scikit-learn, for errors like those of linspec."""


def words(n: int, p: int, per_row: int, seed: int) -> tuple[Any, np.ndarray]:
    """Sparse rows, and a target that depends on them."""
    A, rng = zipf(n, p, per_row, power=0.7, seed=seed), np.random.default_rng(seed)
    return A, A @ rng.standard_normal(p) + rng.standard_normal(n)


def normal_equations(A: Any, y: np.ndarray, ridge: float) -> np.ndarray:
    """The exact coefficients."""
    return np.linalg.solve((A.T @ A).toarray() + ridge * np.eye(A.shape[1]), A.T @ y)


def gap(found: Any, exact: np.ndarray) -> float:
    """The largest difference."""
    return float(np.max(np.abs(np.ravel(found) - np.ravel(exact))) / np.max(np.abs(exact)))


def fit(seed: int) -> tuple[dict[str, Any], Any]:
    """The two fits, and the error of an answer."""
    A, y = words(1200, 800, 20, seed)
    X = A.toarray() - A.mean(axis=0)
    exact = np.linalg.solve(X.T @ X + np.eye(800), X.T @ (y - y.mean()))
    calls = {
        "linspec": lambda: estimators.Ridge(alpha=1.0).fit(A, y).coef_,
        "scikit-learn": lambda: Ridge(alpha=1.0, tol=TOL).fit(A, y).coef_,
    }
    return calls, partial(gap, exact=exact)


def folds(seed: int) -> tuple[dict[str, Any], Any]:
    """The two searches, and the error of mean squared errors by ridge."""
    A, y = words(3000, 2000, 30, seed)
    exact = np.zeros(len(RIDGES))
    for inside, out in KFold(FOLDS).split(A):
        fits = [A[out] @ normal_equations(A[inside], y[inside], ridge) for ridge in RIDGES]
        exact += [float(np.mean((y[out] - fit) ** 2)) / FOLDS for fit in fits]

    def searched() -> Any:
        model, grid = Ridge(fit_intercept=False, tol=TOL), {"alpha": RIDGES}
        search = GridSearchCV(model, grid, cv=KFold(FOLDS), refit=False, scoring="neg_mean_squared_error")
        return -search.fit(A, y).cv_results_["mean_test_score"]

    def validated() -> Any:
        scores = ls.cross_validate(
            ls.LeastSquares(A, y), ridges=RIDGES, splitter=KFold(FOLDS), score="mse"
        ).scores
        return scores.mean(axis=0)

    return {"linspec": validated, "scikit-learn": searched}, partial(gap, exact=exact)


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    report = Report(parser)
    table = report.table(
        "case",
        "seed",
        "linspec, ms::.1f",
        "scikit-learn, ms::.1f",
        "ratio::.2f",
        "worst::.2f",
        "error::.0e",
        "scikit-learn's::.0e",
    )
    claims = []
    for name, make in (("fit", fit), ("folds", folds)):
        for seed in range(1 if report.given.quick else 3):
            calls, error = make(seed)
            turns = alternate(calls, 1 if report.given.quick else report.given.rounds, warm=True)
            ours, theirs = turns["linspec"], turns["scikit-learn"]
            ratio, worst = ours.over(theirs)
            errors = error(ours.answer), error(theirs.answer)
            table.row(name, seed, 1e3 * ours.median, 1e3 * theirs.median, ratio, worst, *errors)
            claims.append(
                Claim(
                    f"{name}, seed {seed}: at most {LIMIT} of scikit-learn",
                    ratio <= LIMIT,
                    f"{ratio:.2f}",
                    own=True,
                )
            )
    report.say(claims)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
