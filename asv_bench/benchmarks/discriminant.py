"""Every solver of discriminant subspaces: five directions of a view towards another; passes to 1e-6 of all."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from benchmarks.base import (
    BACKENDS,
    PROBLEMS,
    SolverBenchmark,
    attribute,
    dense,
    import_solvers,
    problem_class,
    sweeping,
    views,
)
from benchmarks.records import solvers

SOLVERS = solvers("discriminant")

K = 5
RIDGE = 1.0

import_solvers("discriminant", SOLVERS)


class DiscriminantSolvers(SolverBenchmark):
    """The error is ‖WWᵀ − W₀W₀ᵀ‖ / ‖W₀W₀ᵀ‖ in the spectral norm; the second view is the targets."""

    params = (SOLVERS, BACKENDS, PROBLEMS)
    kind = "discriminant"

    def state(self, first: Any, second: Any) -> Any:
        """Uncentred, so that passes read what is stored and nothing else."""
        return problem_class("discriminant")(first, second, K, ridge=RIDGE, center=False)

    def answer(self, solution: Any) -> Any:
        return solution.weights

    def error(self, solution: Any, problem: str) -> float:
        X, H = (dense(view) for view in views(problem))
        W = np.asarray(attribute("linspec.arrays", "to_host")(solution.weights), dtype=np.float64)
        return distance(W, exact_weights(X, H)[:, :K])


def exact_weights(X: Any, H: Any) -> Any:
    """By the singular value decomposition of X, all directions."""
    U, s, Vt = scipy.linalg.svd(X, full_matrices=False)
    root = np.sqrt(s**2 + RIDGE)
    P, values, _ = scipy.linalg.svd((s / root)[:, None] * (U.T @ H), full_matrices=False)
    return (Vt.T / root) @ P[:, values > 1e-12 * values[0]]


def distance(W: Any, best: Any) -> float:
    """Compute ‖WWᵀ − W₀W₀ᵀ‖ / ‖W₀W₀ᵀ‖ without forming either product."""
    R = np.linalg.qr(np.hstack([W, best]), mode="r")
    signs = np.repeat([1.0, -1.0], [W.shape[1], best.shape[1]])
    return float(np.abs(np.linalg.eigvalsh((R * signs) @ R.T)).max() / np.linalg.norm(best, 2) ** 2)


# ---- classes of texts and labels of scenes -----------------------------------------------------------------------

HARD = ["texts", "scenes"]
REACHED = 1e-6

MOST_PASSES = 200
"""Limit of passes of a solver that has not reached the subspace."""


def texts(rng: np.random.Generator) -> tuple[Any, Any]:
    """3000 texts of 15 classes, 1500 words of Zipf's frequencies, rows of unit length; classes one-hot."""
    n, classes, words, length = 3000, 15, 1500, 40
    label, zipf = rng.integers(classes, size=n), 1.0 / (np.arange(words) + 3.0)
    special = zipf * rng.gamma(0.05, size=(classes, words))
    chances = 0.3 * special / special.sum(axis=1, keepdims=True) + 0.7 * zipf / zipf.sum()
    counts = np.stack([rng.multinomial(length, chances[c] / chances[c].sum()) for c in label]).astype(float)
    X = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    H = np.eye(classes)[label]
    return scipy.sparse.csr_array(X), scipy.sparse.csr_array(H / np.sqrt(H.sum(axis=0)))


def scenes(rng: np.random.Generator) -> tuple[Any, Any]:
    """2000 rows of 200 dense columns whose spectrum falls by a factor of 1000, and 6 labels."""
    n, p, labels = 2000, 200, 6
    turn = scipy.linalg.qr(rng.standard_normal((p, p)))[0]
    X = (rng.standard_normal((n, p)) * np.geomspace(1.0, 1e-3, p)) @ turn
    scores = X @ turn.T[:, : 5 * labels : 5] + 0.5 * rng.standard_normal((n, labels))
    return X, (scores > np.quantile(scores, 0.8, axis=0)).astype(float)


def hard_data(problem: str) -> tuple[Any, Any]:
    """Make the data of a hard problem; the same on every machine."""
    return {"texts": texts, "scenes": scenes}[problem](np.random.default_rng(20_240_101))


def hard_solve(data: tuple[Any, Any], name: str, budget: float) -> Any:
    """All directions of one run that passes the data, centred, from the same seed every time."""
    try:
        cls = attribute("linspec", "get_solver")(name, "discriminant")
    except LookupError as error:
        raise NotImplementedError(f"this commit has no solver discriminant/{name}") from error
    problem = problem_class("discriminant")(*data, ridge=RIDGE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a budget ends it is known here
        return attribute("linspec", "solve")(problem, cls(**sweeping(cls)), rng=0, max_passes=budget)


class PassesToSubspace:
    """The least budget of passes with which the subspace is there, certificate included; the same on every machine."""

    params = (SOLVERS, HARD)
    param_names = ("solver", "problem")
    timeout = 300

    def setup(self, solver: str, problem: str) -> None:
        """Make the data and the answer."""
        self.data = hard_data(problem)
        X, H = (dense(part) for part in self.data)
        self.best = exact_weights(X - X.mean(axis=0), H)
        problem_class("discriminant")

    def track_passes(self, solver: str, problem: str) -> float:
        """By halving; nan where `MOST_PASSES` are not enough."""
        low, high = 0, MOST_PASSES
        if not self._there(solver, high):
            return math.nan
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._there(solver, middle) else (middle, high)
        return float(high)

    def _there(self, solver: str, budget: int) -> bool:
        try:
            solution = hard_solve(self.data, solver, budget)
        except attribute("linspec.errors", "BudgetTooSmall"):
            return False
        W = np.asarray(solution.weights)
        return distance(W, self.best) <= REACHED

    def time_solve(self, solver: str, problem: str) -> None:
        """Seconds of a run with its own tolerance."""
        hard_solve(self.data, solver, math.inf)

    def peakmem_solve(self, solver: str, problem: str) -> None:
        """Resident memory, the data and the imports included."""
        hard_solve(self.data, solver, math.inf)

    track_passes.unit = "passes"  # type: ignore[attr-defined]
