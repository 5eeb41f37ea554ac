"""Answers of every solver of every problem, in every form of data, with their errors against dense oracles.

Of each run: how it ended, what it took, the leading values, the scores of rows that were not fitted (in
``answers.npz``), and errors: `values` (largest distance, relative to the largest value), `span` (scores from the span
of the exact scores of their cluster of values), `unit` (lengths and angles within clusters), or `predictions` of
regressions. Runs that say APPROXIMATE, and all on ordinary data, are repeated: `shortfalls` has what the sums of the
values miss for five seeds. A run that is refused has the class of its error.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import linspec as ls
from record import quick, wanted
from record.cases import ADJUSTED, FORMS, OPTIONS, STATED, Case, hard, plain, stated, weighted
from record.oracles import Exact, exact

VALUES = ("correlations", "S", "singular_values", "eigenvalues", "sums", "covariances", "ridges", "values")
CLUSTER = 1e-3
SEEDS = range(1, 5)
REGRESSIONS = {
    "least-squares",
    "kernel-ridge",
    "pls-regression",
    "reduced-rank-regression",
    "ridge-many-targets",
}
SPARSE = {"counts", "one-hot"}


def record(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """All runs."""
    arrays: dict[str, Any] = {}
    for problem in filter(STATED.__contains__, ls.problems()):
        for case, forms in _cases(problem):
            runs = [(solver, form) for form in forms for solver in ls.solvers(problem)]
            names = {f"{problem}/{solver}, {case.name}, {form}": (solver, form) for solver, form in runs}
            names = {name: each for name, each in names.items() if wanted(name)}
            answer = exact(problem, case) if names else None
            for name, (solver, form) in names.items():
                seeds = SEEDS if (case.name, form) == ("plain", "dense") else ()
                entry, scores = run(problem, solver, case, form, answer, seeds)
                if scores is not None:
                    arrays[name] = scores
                yield name, entry
    np.savez_compressed(folder / "answers.npz", **arrays)


def _cases(problem: str) -> Iterator[tuple[Case, list[str]]]:
    yield plain(), list(FORMS)
    if ADJUSTED.get(problem) != ():
        yield weighted(), [form for form in FORMS if form != "once"]
    if not quick():
        yield from ((case, ["csr" if case.name in SPARSE else "dense"]) for case in hard())


def run(
    problem: str, solver: str, case: Case, form: str, answer: Exact | None, seeds: Any
) -> tuple[dict[str, Any], Any]:
    """One run, and the scores that it gives to later rows."""
    options = OPTIONS.get(solver, {})

    def solved(seed: int) -> Any:
        return ls.solve(stated(problem, case, form), f"{problem}/{solver}", rng=seed, **options)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            solution = solved(0)
            scores = scores_of(solution, case)
            again = [*seeds] or (list(SEEDS) if solution.status.name == "APPROXIMATE" else [])
            every = [solution, *(solved(seed) for seed in again)]
            shortfalls = [_shortfall(each, case, answer) for each in every]
            errors = None if answer is None else _errors(_values(solution), scores, solution, answer)
        except Exception as error:  # noqa: BLE001 (a refusal is an answer)
            return {"refused": type(error).__name__}, None
    entry = {
        "status": solution.status.name,
        "residual": solution.residual,
        "kind": solution.residual_kind,
        "passes": solution.passes,
        "iterations": solution.iterations,
        "columns": solution.columns,
        "tol": solution.tol,
        "warnings": sorted({each.category.__name__ for each in caught}),
        "values": _values(solution).tolist(),
        "shortfalls": shortfalls if again else [],
        "dtype": str(np.asarray(scores).dtype),
    }
    if errors is not None:
        entry["errors"] = errors
    return entry, scores


def _values(solution: Any) -> Any:
    name = next((name for name in VALUES if hasattr(solution, name)), None)
    return np.zeros(0) if name is None else np.asarray(getattr(solution, name), dtype=float)


def scores_of(solution: Any, case: Case) -> Any:
    """Predictions of later rows, or their scores, those of all views below each other."""
    views, confounds = case.later(solution.problem)
    about = {} if case.confounds is None or solution.problem == "kernel-ridge" else {"confounds": confounds}
    if solution.problem in REGRESSIONS:
        return solution.predict(views[0], **about)
    if solution.problem in {"multiset-cca", "sumcor-cca"}:
        return np.vstack(solution.transform(views, **about))
    if solution.problem in {"svd", "discriminant"}:
        return solution.transform(views[0], **about)
    return np.vstack(solution.transform(*views[:2], **about))


def _shortfall(solution: Any, case: Case, answer: Exact | None) -> float:
    """What the sum of the values misses, relative to the exact one, or minus the sum; the error of predictions."""
    values = _values(solution)
    if answer is None:
        return -float(values.sum())
    if answer.predictions:
        return _error(scores_of(solution, case), answer)
    total = float(answer.values[: len(values)].sum())
    return _ratio(abs(total - float(values.sum())), abs(total))


def _errors(values: Any, scores: Any, solution: Any, answer: Exact) -> dict[str, float]:
    leading = answer.values[: len(values)]
    errors = {"values": _ratio(np.abs(values - leading).max(initial=0), np.abs(leading).max(initial=0))}
    if answer.predictions:
        return {**errors, "predictions": _error(scores, answer)}
    if answer.scores is None:
        return errors
    both = [(np.asarray(scores, dtype=float), answer.scores)]
    if getattr(solution, "U", None) is not None:
        both.append((np.asarray(solution.U, dtype=float), answer.left))
    span = unit = 0.0
    for mine, theirs in both:
        for cluster in _clusters(answer.values, mine.shape[1]):
            columns = cluster[cluster < mine.shape[1]]
            S, E = mine[:, columns], theirs[:, cluster]
            R = np.linalg.lstsq(E, S, rcond=None)[0]
            span = max(span, _ratio(np.linalg.norm(S - E @ R), np.linalg.norm(S)))
            unit = max(unit, float(np.abs(R.T @ R - np.eye(len(columns))).max(initial=0)))
    return {**errors, "span": span, "unit": unit}


def _error(predictions: Any, answer: Exact) -> float:
    spread = answer.scores - answer.scores.mean(axis=0)
    return _ratio(np.linalg.norm(predictions - answer.scores), np.linalg.norm(spread))


def _ratio(above: float, below: float) -> float:
    return float(above / below) if below else float(above)


def _clusters(values: Any, k: int) -> Iterator[Any]:
    """Numbers of the exact values, in runs whose neighbours are close, as far as k reaches."""
    starts = np.flatnonzero(-np.diff(values) > CLUSTER * values[0]) + 1
    yield from (each for each in np.split(np.arange(len(values)), starts) if each[0] < k)
