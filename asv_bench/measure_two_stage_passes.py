"""Print how many passes over X `two-stage` needs for a discriminant subspace, beside LSQR column by column.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_two_stage_passes.py --data FOLDER`; `--quick` takes small generated
data, `--sets`, `--ridges`, `--seeds` others, `--form auto` holds Gram matrices where that fits.

passes: the least `max_passes` with which the answer is within 1e-8 of W₀W₀ᵀ, in ‖WWᵀ − W₀W₀ᵀ‖/‖W₀W₀ᵀ‖ (spectral norm):
everything that is read of X, means, XᵀH, sketch and certificate included; median and worst of the seeds. whole run:
that of the default tolerance, with its error and status. W₀ comes from the singular value decomposition of X, on texts
from the least-squares solution by `cg` to `--reference`; there its iterates show how many it takes, and a run with that
budget confirms it.

LSQR: SciPy's, atol = btol = 1e-10, a column of H after the other, then the printed second stage. A sweep is one product
with X and one with its transpose: columns times the mean count. Of large sets some columns are sampled, which gives
no subspace and no error.

Yeast and scene as they are published, all rows; OPLS and CCA have the same WWᵀ, as long as all directions are taken.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from datasets import arguments, labelled
from discriminant_law import by_columns, by_svd, dense_targets, distance, middle_and_worst, target
from least_squares_law import print_head, print_row

import linspec as ls

WANTED = 1e-8

BESIDE = 3
"""Passes of `two-stage` beside the iterations: XᵀH, the product of the second stage, the certificate."""


class Case(NamedTuple):
    """A set, what is made of its labels, and how W₀ is had."""

    name: str
    technique: str
    k: int | None = None
    small: bool = True
    """W₀ from the singular value decomposition of X."""
    sample: int | None = None
    """Columns for LSQR; None: all."""


CASES = (
    Case("yeast", "opls"),
    Case("scene", "opls"),
    Case("newsgroups20", "lda", small=False, sample=3),
    Case("reuters21578", "opls", small=False, sample=5),
    Case("reuters21578", "hsl", small=False, sample=5),
    Case("delicious", "opls", 50, sample=20),
    Case("delicious", "cca", 50, sample=20),
)


def main() -> None:
    """Measure and print."""
    parser = arguments(main.__doc__ or "")
    parser.add_argument("--sets", nargs="+", choices=sorted({case.name for case in CASES}))
    parser.add_argument("--techniques", nargs="+", choices=sorted({case.technique for case in CASES}))
    parser.add_argument("--ridges", nargs="+", type=float, default=[1e-2, 1.0, 100.0])
    parser.add_argument(
        "--seeds", type=int, help="20 of dense sets; 1 of sparse ones, for which nothing is random"
    )
    parser.add_argument("--form", default="implicit", help="of the moments: implicit sweeps the data")
    parser.add_argument("--reference", type=float, default=1e-13, help="of W₀ on texts (1e-13)")
    parser.add_argument("--no-lsqr", action="store_true", help="leave LSQR out")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print_head(
        "data", "γ", "passes", "error there", "whole run: passes", "error", "status", "W₀ from",
        "LSQR: sweeps", "columns solved", "error",
    )  # fmt: skip
    for case in CASES:
        named = case.name in (given.sets or [case.name])
        if named and case.technique in (given.techniques or [case.technique]):
            X, labels = labelled(given, case.name)
            H = target(labels, case.technique)
            for ridge in given.ridges:
                print_row(row(given, case, X, H, ridge))


def row(given: argparse.Namespace, case: Case, X: Any, H: Any, ridge: float) -> list[str]:
    """All of one set with one ridge."""
    problem = ls.Discriminant(X, H, case.k, ridge=ridge)
    guess = 0.0
    if case.small:
        best, origin = by_svd(X, dense_targets(H), ridge, case.k), "SVD"
    else:
        best, guess, reached = by_iterates(X, H, ridge, given.reference)
        origin = f"cg to {reached:.0e}"
    seeds = given.seeds or (1 if scipy.sparse.issparse(X) else 20)
    search = Search(problem, best, given.form, guess)
    found = [search.least(seed) for seed in range(seeds)]
    whole = search.whole
    cells = [
        f"{case.name}, {case.technique.upper()}" + (f", k = {case.k}" if case.k else ""),
        f"{ridge:g}",
        middle_and_worst([passes for passes, _ in found]),
        f"{max(error for _, error in found):.1e}",
        middle_and_worst([solution.passes for solution, _ in whole]),
        f"{max(error for _, error in whole):.1e}",
        ", ".join(sorted({solution.status.name for solution, _ in whole})),
        origin,
    ]
    if given.no_lsqr:
        return [*cells, "", "", ""]
    columns = by_columns(X, H, ridge, case.k, case.sample)
    error = "" if columns.weights is None else f"{distance(columns.weights, best):.1e}"
    return [*cells, f"{columns.sweeps:.0f}", f"{columns.solved} of {columns.columns}", error]


def solved(problem: ls.Discriminant, form: str, seed: int, **options: Any) -> Any:
    """One run."""
    budget = {"max_passes": options.pop("max_passes")} if "max_passes" in options else {}
    return ls.solve(problem, "two-stage", rng=seed, form=form, **options, **budget)


def by_iterates(X: Any, H: Any, ridge: float, tol: float) -> tuple[np.ndarray, float, float]:
    """W₀ of sparse data, the passes of `two-stage` to expect where it takes the same steps, and the residual of W₀."""
    A, B = ls.as_operator(X), dense_targets(H)
    mean, XT = np.asarray(X.mean(axis=0)).ravel(), X.T.tocsr()
    B -= B.mean(axis=0)
    _, s, Vt = np.linalg.svd(B, full_matrices=False)
    B = B @ Vt[s > 1e-12 * s[0]].T
    C = XT @ B
    seen: list[tuple[int, np.ndarray]] = []

    def keep(progress: Any) -> None:
        if WANTED / 300 < progress.residual < 300 * WANTED:
            seen.append((progress.iteration, np.array(progress.current()["x"])))

    found = ls.solve(ls.LeastSquares(A.centered(mean), B, ridge), "cg", tol=tol, callback=keep)

    def eigenvectors(W: np.ndarray) -> np.ndarray:
        XW = X @ W
        MW = XT @ XW - np.outer(mean, XW.sum(axis=0)) + ridge * W
        values, V = np.linalg.eigh(W.T @ MW)
        T = V / np.sqrt(values)
        return np.asarray(W @ (T @ np.linalg.svd(T.T @ (W.T @ C))[0]))

    best = eigenvectors(found.x)
    low, high = 0, len(seen) - 1
    while low < high:
        middle = (low + high) // 2
        near = distance(eigenvectors(seen[middle][1]), best) <= WANTED
        low, high = (low, middle) if near else (middle + 1, high)
    return best, float(seen[high][0] + BESIDE), found.residual


class Search:
    """The least budget that is enough, seed by seed; one seed shows the next where to look."""

    def __init__(self, problem: ls.Discriminant, best: np.ndarray, form: str, guess: float) -> None:
        self.problem, self.best, self.form, self.guess = problem, best, form, guess
        self.iterates = guess > 0
        self.whole: list[tuple[Any, float]] = []

    def least(self, seed: int) -> tuple[float, float]:
        """Passes and error; infinite where the whole run does not get there."""
        solution = solved(self.problem, self.form, seed)
        error = distance(solution.weights, self.best)
        self.whole.append((solution, error))
        if error > WANTED:
            return float("inf"), error
        if self.iterates and self.guess < solution.passes:
            found, there = self._at(seed, self.guess)
            if there <= WANTED:  # the iterate before it is too far
                return found, there
        low, high, reached = 0.0, solution.passes, error
        lost = 1.0  # the error at `low`
        while high - low > 1:
            budget = self._between(low, high, lost, reached)
            found, error = self._at(seed, budget)
            if error <= WANTED:
                high, reached = min(budget, found), error
            else:
                low, lost = budget, min(error, 1.0)
        self.guess = high
        sys.stderr.write(f"seed {seed}: {high:g} passes, error {reached:.1e}; whole: {solution.passes:g}\n")
        return high, reached

    def _at(self, seed: int, budget: float) -> tuple[float, float]:
        """Passes and error of a run that may take so many passes."""
        try:
            solution = solved(self.problem, self.form, seed, max_passes=budget)
        except ls.errors.BudgetTooSmall:
            return budget, float("inf")
        return solution.passes, distance(solution.weights, self.best)

    def _between(self, low: float, high: float, lost: float, reached: float) -> float:
        """Where the error, which falls about geometrically, is expected to pass the mark; the middle is not far."""
        if low < self.guess < high:
            budget, self.guess = self.guess, self.guess - 1
            return budget
        share = np.log(lost / WANTED) / np.log(lost / reached) if reached < lost else 0.5
        return float(np.clip(np.ceil(low + min(max(share, 0.1), 0.9) * (high - low)), low + 1, high - 1))


if __name__ == "__main__":
    main()
