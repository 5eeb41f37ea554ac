"""Saved answers of all problems, and saved moments; and what this commit loads from those of an older record.

An entry has the arrays of a solution by the names of its fields, and what it makes of later rows. In a record that was
made with --from there are entries ``earlier/...`` too: the older files, loaded by this commit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import linspec as ls
from record import wanted
from record.answers import scores_of
from record.cases import ADJUSTED, OPTIONS, Case, plain, stated, weighted

SOLVERS = {"deep-cca": "dcca", "preimage-cca": "gradkcca"}
HELD = {"svd": 1, "cca": 2, "least-squares": 2, "pls": 2, "multiset-cca": 3}


def record(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Save, and load."""
    for problem in filter(wanted, ls.problems()):
        solver = SOLVERS.get(problem, "auto")
        solution = ls.solve(stated(problem, _case(problem)), solver, rng=0, **OPTIONS.get(solver, {}))
        solution.save(folder / f"{problem}.npz")
        yield problem, _contents(solution)
    for problem, count in HELD.items():
        if wanted(problem):
            held = ls.HeldMoments(problem, center=True)
            for rows in np.array_split(np.arange(300), 3):
                views = [A[rows] for A in plain().views[:count]]
                held.add(*([views] if problem == "multiset-cca" else views))
            held.save(folder / f"moments {problem}.npz")
            yield f"moments {problem}", _contents(_solved(held, problem))
    for path in sorted((folder / "earlier").glob("*.npz")):
        try:
            if path.stem.startswith("moments "):
                answer = _solved(ls.HeldMoments.load(path), path.stem.removeprefix("moments "))
            else:
                answer = ls.load_solution(path)
            yield f"earlier/{path.stem}", _contents(answer)
        except Exception as error:  # noqa: BLE001 (a refusal is an answer)
            yield f"earlier/{path.stem}", {"refused": f"{type(error).__name__}: {error}"}


def _case(problem: str) -> Case:
    return plain() if ADJUSTED.get(problem) == () else weighted()


def _solved(held: Any, problem: str) -> Any:
    return ls.solve(held.problem(**({} if problem == "least-squares" else {"k": 3})), rng=0)


def _contents(solution: Any) -> dict[str, Any]:
    """Arrays by name, as lists, and the scores of later rows."""
    confounds = getattr(solution, "confound_mean", None) is not None or solution.problem == "kernel-ridge"
    case = weighted() if confounds else plain()
    arrays = {field.name: _listed(getattr(solution, field.name)) for field in dataclasses.fields(solution)}
    kept = {name: value for name, value in arrays.items() if value is not None and name != "history"}
    return {**kept, "later rows": np.asarray(scores_of(solution, case)).tolist()}


def _listed(value: Any) -> Any:
    """An array, or a tuple of arrays, as lists; None for what has other things in it."""
    if isinstance(value, tuple) and value and all(isinstance(each, np.ndarray) for each in value):
        return [each.tolist() for each in value]
    return value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" else None
