"""Measure reduced-rank regression: against one least-squares solve, NumPy, and a fit for each fold, ridge and rank.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_reduced_rank.py --data FOLDER`; `--quick` takes small data.

- newsgroups: 11,314 posts of 75,878 words, 20 groups as right-hand sides, rank 5, ridge 1, with and without intercepts,
  by conjugate gradients, against all coefficients by the same solver, each with its certificate. Both run to a relative
  gradient of `TOL`: that of the first stage here;
- dense: 20,000 rows, 400 columns, 30 right-hand sides, rank 5, against the definition in NumPy (normal equations, then
  eigenvectors) and scikit-learn's `Ridge` with a projection of its predictions;
- folds: ranks 1 to 20 and five ridges on five folds of 5,000 rows, 100 columns and 20 right-hand sides, against `Ridge`
  and a decomposition of its predictions for each fold and ridge.

error: the largest difference to the coefficients, or scores, of NumPy over the largest entry; for newsgroups the
relative excess of ‖Y − XB‖² + ‖B‖² over its least value, which a solve to 1e-12 gives. CPU s, worst: processor seconds,
median and largest over `--rounds` rounds, in each of which every method has one turn.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import datasets
import numpy as np
from showing import Claim, Report, arguments, at_most
from sklearn.linear_model import Ridge
from timing import alternate

import linspec as ls

RANK, TOL = 5, 1e-7


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    report = Report(parser, "scikit-learn")
    quick = report.given.quick
    rounds = 1 if quick else report.given.rounds
    show_newsgroups(report, rounds)
    show_dense(report, (500, 40, 10) if quick else (20_000, 400, 30), rounds)
    show_folds(report, (300, 20, 8) if quick else (5_000, 100, 20))
    return report.end()


def show_newsgroups(report: Report, rounds: int) -> None:
    """Rank 5 beside full rank, by the same solver."""
    X, Y = datasets.newsgroups(report.given)
    table = report.table(
        "intercepts", "method", "error::.1e", "passes::g", "CPU s::.2f", "worst::.2f", title="newsgroups"
    )
    claims = []
    for center in (True, False):
        exact = np.sum(reduced(X, Y, center, 1e-12).singular_values ** 2)
        turns = alternate(
            {
                "rank 5": partial(reduced, X, Y, center, 10 * TOL),
                "all coefficients": partial(full, X, Y, center),
            },
            rounds,
            enough=120.0,
        )
        for name, taken in turns.items():
            found, error = taken.answer, np.nan
            if name == "rank 5":
                total = np.sum((Y - center * Y.mean(axis=0)) ** 2)
                error = abs(exact - np.sum(found.singular_values**2)) / (total - exact)
                claims.append(Claim("the answer has converged", found.converged, found.status.name, own=True))
                claims.append(at_most("the objective is the least one", float(error), 1e-6, own=True))
            table.row("yes" if center else "no", name, error, found.passes, taken.median, max(taken.cpu))
        median, worst = turns["rank 5"].over(turns["all coefficients"])
        figures = f"{median:.2f} of its processor seconds in the median, {worst:.2f} at worst"
        with_or_without = "with" if center else "without"
        claims.append(
            Claim(
                f"{with_or_without} intercepts, at most 5 % more than all coefficients",
                median <= 1.05,
                figures,
                own=True,
            )
        )
    report.say(claims, "newsgroups")


def reduced(X: Any, Y: Any, center: bool, tol: float) -> Any:
    """Rank 5 by conjugate gradients; the first stage has a tenth of the tolerance."""
    problem = ls.ReducedRankRegression(X, Y, RANK, 1.0, center=center)
    return ls.solve(problem, "two-stage", lstsq="cg", tol=tol, rng=0)


def full(X: Any, Y: Any, center: bool) -> Any:
    """All coefficients by conjugate gradients."""
    return ls.solve(ls.LeastSquares(X, Y, 1.0, center=center), "cg", tol=TOL)


def show_dense(report: Report, sizes: tuple[int, int, int], rounds: int) -> None:
    """Coefficients of dense data, against NumPy and scikit-learn."""
    X, Y = generated(*sizes)
    right = by_numpy(X, Y)
    calls = {
        "linspec auto": partial(by_linspec, X, Y, "auto"),
        "linspec two-stage": partial(by_linspec, X, Y, "two-stage"),
        "NumPy, by definition": partial(by_numpy, X, Y),
        "scikit-learn Ridge, projected": partial(by_scikit_learn, X, Y),
    }
    turns = alternate(calls, rounds, enough=60.0, warm=True)
    table = report.table("method", "error::.1e", "CPU s::.3f", "worst::.3f", title="dense")
    errors = {}
    for name, taken in turns.items():
        errors[name] = float(np.abs(taken.answer - right).max() / np.abs(right).max())
        table.row(name, errors[name], taken.median, max(taken.cpu))
    claims = [at_most(f"{name} is exact", errors[name], 1e-10, own=True) for name in list(calls)[:2]]
    for rival in list(calls)[2:]:
        median, worst = turns["linspec auto"].over(turns[rival])
        figures = f"{median:.2f} of its processor seconds in the median, {worst:.2f} at worst"
        claims.append(Claim(f"linspec takes less time than {rival}", median < 1, figures, own=True))
    report.say(claims, "dense")


def generated(n: int, p: int, m: int) -> tuple[Any, Any]:
    """Right-hand sides that share five combinations of the columns, with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) + 1
    Y = X @ rng.standard_normal((p, RANK)) @ rng.standard_normal((RANK, m)) + 20 * rng.standard_normal((n, m))
    return X, Y


def by_linspec(X: Any, Y: Any, solver: str) -> Any:
    """Coefficients by linspec; two-stage to rounding."""
    options = {"tol": 1e-12} if solver == "two-stage" else {}
    return ls.solve(ls.ReducedRankRegression(X, Y, RANK, 1.0), solver, rng=0, **options).coefficients()


def by_numpy(X: Any, Y: Any) -> Any:
    """Coefficients by the normal equations and eigenvectors."""
    A, R = X - X.mean(axis=0), Y - Y.mean(axis=0)
    C = A.T @ R
    full = np.linalg.solve(A.T @ A + np.eye(A.shape[1]), C)
    V = np.linalg.eigh(C.T @ full)[1][:, -RANK:]
    return full @ V @ V.T


def by_scikit_learn(X: Any, Y: Any) -> Any:
    """Coefficients by `Ridge`, projected on the eigenvectors of the fit with its penalty."""
    B = Ridge(1.0).fit(X, Y).coef_.T
    fitted = (X - X.mean(axis=0)) @ B
    V = np.linalg.eigh(fitted.T @ fitted + B.T @ B)[1][:, -RANK:]
    return B @ V @ V.T


def show_folds(report: Report, sizes: tuple[int, int, int]) -> None:
    """Every rank and ridge on every fold, against a fit for each fold and ridge."""
    X, Y = generated(*sizes)
    labels, ridges, ks = np.arange(len(X)) % 5, np.geomspace(0.1, 1000, 5), range(1, sizes[2] + 1)
    calls = {
        "linspec, one pass": partial(scored_by_linspec, X, Y, labels, ridges, ks),
        "scikit-learn Ridge, a fit for each": partial(scored_by_fits, X, Y, labels, ridges, ks),
    }
    turns = alternate(calls, 3, enough=60.0)
    ours, theirs = turns.values()
    table = report.table("method", "error::.1e", "CPU s::.2f", "worst::.2f", title="folds")
    for name, taken in turns.items():
        error = float(np.abs(taken.answer[0] / theirs.answer[0] - 1).max())
        table.row(name, error, taken.median, max(taken.cpu))
    median, worst = ours.over(theirs)
    off = float(np.abs(ours.answer[0] / theirs.answer[0] - 1).max())
    report.say(
        [
            at_most("the errors are those of fits", off, 1e-8, own=True),
            Claim("one pass is enough", ours.answer[1] == 1, f"{ours.answer[1]:g}", own=True),
            Claim(
                "less time than a fit for each",
                median < 1,
                f"{median:.2f} in the median, {worst:.2f} at worst",
                own=True,
            ),
        ],
        "folds",
    )


def scored_by_linspec(X: Any, Y: Any, labels: Any, ridges: Any, ks: Any) -> tuple[Any, float]:
    """Mean squared errors of every fold, ridge and rank, and the passes."""
    problem = ls.ReducedRankRegression(X, Y, max(ks))
    found = ls.cross_validate(problem, ridges=ridges, ks=ks, splitter=labels, form="dense")
    return found.scores, found.passes


def scored_by_fits(X: Any, Y: Any, labels: Any, ridges: Any, ks: Any) -> tuple[Any, float]:
    """The same by a fit for each fold and ridge, and a projection for each rank."""
    found = np.empty((5, len(ridges), len(ks)))
    for fold in range(5):
        held = labels == fold
        for i, ridge in enumerate(ridges):
            model = Ridge(ridge).fit(X[~held], Y[~held])
            B, about = model.coef_.T, X[~held].mean(axis=0)
            fitted = (X[~held] - about) @ B
            V = np.linalg.eigh(fitted.T @ fitted + ridge * B.T @ B)[1][:, ::-1]
            new, mean = (X[held] - about) @ B, Y[~held].mean(axis=0)
            for j, k in enumerate(ks):
                found[fold, i, j] = np.mean((Y[held] - mean - new @ V[:, :k] @ V[:, :k].T) ** 2)
    return found, 25.0


if __name__ == "__main__":
    raise SystemExit(main())
