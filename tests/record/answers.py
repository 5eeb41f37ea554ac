"""Answers of every solver of every problem, in every form of data, with their errors against the exact equations.

Of each run: how it ended, what it took, values, the scores of rows that were not fitted (in ``answers.npz``), and the
errors of `truths`. Runs that say APPROXIMATE, and all on ordinary data, have the "shortfalls" of five seeds.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from planted import Case
from truths import Truth, truth_of

import linspec as ls
from record import quick, wanted
from record.cases import FORMS, OPTIONS, TERMS, Data, hard, plain, stated, weighted

VALUES = (
    "correlations", "S", "singular_values", "eigenvalues", "sums", "covariances", "ridges", "explained_variance",
)  # fmt: skip
SEEDS = range(1, 5)
NO_ERRORS = ("explained", "grain", "squared")
"""What `truths` tells beside errors."""


def record(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """All runs."""
    arrays: dict[str, Any] = {}
    for problem in ls.problems():
        for data, forms in _data(problem):
            runs = [(solver, form) for form in forms for solver in ls.solvers(problem)]
            names = {f"{problem}/{solver}, {data.name}, {form}": (solver, form) for solver, form in runs}
            names = {name: each for name, each in names.items() if wanted(name)}
            case = stated(problem, data)
            with np.errstate(all="ignore"):
                truths = list(truth_of(case).readings()) if names else []
            for name, (solver, form) in names.items():
                seeds = SEEDS if (data.name, form) == ("plain", "dense") else ()
                entry, scores = run(case, data, solver, form, truths, seeds)
                if scores is not None:
                    arrays[name] = scores
                yield name, entry
    np.savez_compressed(folder / "answers.npz", **arrays)


def _data(problem: str) -> Iterator[tuple[Data, list[str]]]:
    yield plain(), list(FORMS)
    if TERMS.get(problem) != ():
        yield weighted(), [form for form in FORMS if form != "once"]
    if not quick():
        yield from ((data, ["csr" if data.name in {"counts", "one-hot"} else "dense"]) for data in hard())


def run(
    case: Case, data: Data, solver: str, form: str, truths: list[Truth], seeds: Any
) -> tuple[dict[str, Any], Any]:
    """One run, and the scores that it gives to later rows."""
    if case.problem == "svd":
        case = replace(case, parameters={**case.parameters, "left": form not in {"slices", "once"}})

    def solved(seed: int) -> Any:
        made = {name: A if name == "H" else FORMS[form](A) for name, A in case.arrays.items()}
        problem = case.state(made)
        return ls.solve(problem, f"{case.problem}/{solver}", rng=seed, **OPTIONS.get(solver, {}))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            solution = solved(0)
            scores = scores_of(solution, data)
            again = [*seeds] or (list(SEEDS) if solution.status.name == "APPROXIMATE" else [])
            every = [solution, *(solved(seed) for seed in again)]
            errors = [errors_of(each, truths) for each in every]
        except Exception as error:  # noqa: BLE001 (a refusal is an answer)
            return {"refused": type(error).__name__}, None
    told = ("residual", "passes", "iterations", "columns", "tol")
    return {
        "status": solution.status.name,
        "kind": solution.residual_kind,
        **{name: getattr(solution, name) for name in told},
        "warnings": sorted({each.category.__name__ for each in caught}),
        "values": _values(solution).tolist(),
        "shortfalls": list(map(_shortfall, every, errors)) if again else [],
        "dtype": str(np.asarray(scores).dtype),
        "errors": errors[0],
    }, scores


def _values(solution: Any) -> Any:
    name = next((name for name in VALUES if hasattr(solution, name)), None)
    return np.zeros(0) if name is None else np.asarray(getattr(solution, name), dtype=float)


def errors_of(solution: Any, truths: list[Truth]) -> dict[str, float]:
    """The errors by the reading of the data that the answer fits best; none of functions of random features."""
    if solution.residual_kind == "unavailable":
        return {}
    with np.errstate(all="ignore"):
        each = [truth.errors(truth.answer(solution)) | truth.about(solution) for truth in truths]
    found = [{name: float(error) for name, error in one.items() if name not in NO_ERRORS} for one in each]
    return min(found, key=lambda errors: max(errors.values()))


def _shortfall(solution: Any, errors: dict[str, float]) -> float:
    """What is missing of the best value."""
    values = _values(solution)
    return errors.get("loss", -float(values.sum()) if len(values) else errors["law"])


def scores_of(solution: Any, data: Data) -> Any:
    """Predictions of later rows, or their scores, those of all views below each other."""
    views, confounds = data.later()
    about = {} if data.confounds is None or solution.problem == "kernel-ridge" else {"confounds": confounds}
    if solution.problem.endswith(("squares", "regression", "targets", "ridge")):
        return solution.predict(views[0], **about)
    if solution.problem in {"multiset-cca", "sumcor-cca"}:
        return np.vstack(solution.transform(views, **about))
    if solution.problem in {"svd", "discriminant", "sparse-pca", "incomplete-pca"}:
        return solution.transform(views[0], **about)
    return np.vstack(solution.transform(*views[:2], **about))
