"""Answers of every solver to problems that `fuzz` draws, with their errors against the exact equations.

Of each run: how it ended, what it took, the leading values, and the errors of `truths`: the residual ("law"), the
"loss" of the values, lengths, means, scales. Runs that say APPROXIMATE, and all of the first trial, are repeated:
`shortfalls` has the loss for five seeds, or minus the sum of the values where nobody knows the largest one. A run that
is refused has the class of its error.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from fuzz import Case, draw
from truths import Truth, truth_of

import linspec as ls

TRIALS, QUICK = 24, 4
"""Draws for each problem."""

SEEDS = range(1, 5)
VALUES = ("correlations", "S", "singular_values", "eigenvalues", "sums", "covariances", "ridges")
NO_ERRORS = ("explained", "grain", "squared")
"""What `truths` tells beside errors."""

OPTIONS = {  # short runs of the slowest solvers
    "dcca": {"width": 16, "epochs": 25},
    "knoi": {"features": 10, "epochs": 25},
    "scca-hsic": {"repeats": 4},
    "gradkcca": {"repeats": 4},
}


def record(folder: Path, only: str, quick: bool) -> str:
    """Record all runs that have a text in their names; return what was done."""
    entries: dict[str, Any] = {}
    for problem in ls.problems():
        for trial in range(QUICK if quick else TRIALS):
            solvers = {f"{problem}/{solver}, {trial}": solver for solver in ls.solvers(problem)}
            solvers = {name: solver for name, solver in solvers.items() if only in name}
            case = draw(0, trial, (problem,))
            with np.errstate(all="ignore"):
                truths = list(truth_of(case).readings()) if solvers else []
            for name, solver in solvers.items():
                entries[name] = run(case, solver, truths, repeated=trial == 0)
    (folder / "answers.json").write_text(json.dumps(entries, indent=1), encoding="utf-8")
    return f"answers: {len(entries)} entries of {Path(ls.__file__).parent}\n"


def run(case: Case, solver: str, truths: list[Truth], *, repeated: bool) -> dict[str, Any]:
    """One run."""

    def solved(seed: int) -> Any:
        return ls.solve(case.state(), f"{case.problem}/{solver}", rng=seed, **OPTIONS.get(solver, {}))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            solution = solved(0)
            again = SEEDS if repeated or solution.status is ls.Status.APPROXIMATE else ()
            every = [solution, *(solved(seed) for seed in again)]
            errors = [errors_of(each, truths) for each in every]
        except Exception as error:  # noqa: BLE001 (a refusal is an answer)
            return {"refused": type(error).__name__}
    told = ("residual", "passes", "iterations", "columns", "tol")
    return {
        "status": solution.status.name,
        "kind": solution.residual_kind,
        **{name: getattr(solution, name) for name in told},
        "warnings": sorted({each.category.__name__ for each in caught}),
        "values": _values(solution).tolist(),
        "shortfalls": list(map(_shortfall, every, errors)) if again else [],
        "single": truths[0].unit > 1e-10,
        "errors": errors[0],
    }


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
