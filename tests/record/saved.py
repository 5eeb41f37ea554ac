"""Saved answers of all problems, and saved moments; and what this commit loads from those of an older record.

An entry has the arrays of a solution, and what it makes of later rows; ``earlier/...`` are files of an older record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import linspec as ls
from record import wanted
from record.answers import scores_of
from record.cases import OPTIONS, TERMS, plain, stated, weighted

SOLVERS = {"deep-cca": "dcca", "preimage-cca": "gradkcca"}
HELD = {"svd": 1, "cca": 2, "least-squares": 2, "pls": 2, "multiset-cca": 3}


def record(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Save, and load."""
    for problem in filter(wanted, ls.problems()):
        yield problem, _contents(partial(_answer, problem, folder / f"{problem}.npz"))
    for problem in filter(wanted, HELD):
        yield f"moments {problem}", _contents(partial(_moments, problem, folder / f"moments {problem}.npz"))
    for path in sorted((folder / "earlier").glob("*.npz")):
        yield f"earlier/{path.stem}", _contents(partial(_loaded, path))


def _answer(problem: str, path: Path) -> Any:
    solver = SOLVERS.get(problem, "auto")
    case = stated(problem, plain() if TERMS.get(problem) == () else weighted())
    solution = ls.solve(case.state(), solver, rng=0, **OPTIONS.get(solver, {}))
    solution.save(path)
    return solution


def _moments(problem: str, path: Path) -> Any:
    held = ls.HeldMoments(problem, center=True)
    for rows in np.array_split(np.arange(300), 3):
        views = [A[rows] for A in plain().views[: HELD[problem]]]
        held.add(*([views] if problem == "multiset-cca" else views))
    held.save(path)
    return _solved(held, problem)


def _loaded(path: Path) -> Any:
    if path.stem.startswith("moments "):
        return _solved(ls.HeldMoments.load(path), path.stem.removeprefix("moments "))
    return ls.load_solution(path)


def _solved(held: Any, problem: str) -> Any:
    return ls.solve(held.problem(**({} if problem == "least-squares" else {"k": 3})), rng=0)


def _contents(make: Callable[[], Any]) -> dict[str, Any]:
    """Arrays of a solution by name, as lists, and the scores of later rows; or why there is none."""
    try:
        solution = make()
        confounds = getattr(solution, "confound_mean", None) is not None or solution.problem == "kernel-ridge"
        scores = np.asarray(scores_of(solution, weighted() if confounds else plain()))
    except Exception as error:  # noqa: BLE001 (a refusal is an answer)
        return {"refused": f"{type(error).__name__}: {error}"}
    arrays = {field.name: _listed(getattr(solution, field.name)) for field in dataclasses.fields(solution)}
    kept = {name: value for name, value in arrays.items() if value is not None and name != "history"}
    return {**kept, "later rows": scores.tolist()}


def _listed(value: Any) -> Any:
    """An array, or a tuple of arrays, as lists; None for what has other things in it."""
    if isinstance(value, tuple) and value and all(isinstance(each, np.ndarray) for each in value):
        return [each.tolist() for each in value]
    return value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" else None
