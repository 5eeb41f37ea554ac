"""Checks of what a problem has without asking for it: names of columns, an estimator, a command.

Problem: these follow from declared fields; a wrong declaration shows in the hands of users.
Method: the first gentle case is solved with names of columns, by its estimator and through its command, and compared
with the plain answer.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from linspec.arrays import is_array, to_host
from linspec.errors import LinspecError
from linspec.operators import as_operator
from linspec.registry.spec import resolve
from linspec.solving.solution import weights_by_matrix
from linspec.testing.behaviour import Skip
from linspec.testing.equivalents import Solved
from linspec.testing.oracle import as_host

__all__ = ["UNASKED_CHECKS"]


def _named(array: Any, names: tuple[str, ...]) -> Any:
    """Return data whose columns have names."""
    operator = copy.copy(as_operator(array))
    operator.column_names = names
    return operator


def check_names(solved: Solved) -> Iterator[str]:
    """Names of columns are in the answer and in its tables, and rows with other names are refused."""
    plain = solved.solution
    weights = {
        matrix: found
        for matrix, found in weights_by_matrix(plain).items()
        if matrix in solved.case.arrays and found[0].ndim == len("pk")
    }
    if not weights:
        raise Skip("the answer has no weights of columns")
    arrays = solved.case.arrays
    names = {name: tuple(f"{name.lower()}{j}" for j in range(arrays[name].shape[1])) for name in weights}
    result = solved.solve(
        {name: _named(A, names[name]) if name in names else A for name, A in arrays.items()},
        solved.case.parameters,
    )
    if result.error is not None:
        yield f"data with names of columns must be solved as data without; the solve {result.raised}"
        return
    found = result.solution
    for name, (W, axis) in weights_by_matrix(found).items():
        if name not in names:
            continue
        if found.column_names.get(name) != names[name]:
            yield (
                f"column_names[{name!r}] of the answer must be those of the data; got {found.column_names.get(name)}. "
                "Keep what linspec.solving.adopt has stored"
            )
            return
        rows = found.weights_table(name, library="")
        host = as_host(W).T if axis else as_host(W)
        first = [next(value for key, value in row.items() if key != "column") for row in rows]
        if [row.get("column") for row in rows] != list(names[name]) or not np.array_equal(first, host[:, 0]):
            yield f"weights_table({name!r}) must have a row for each named column with its weights; it has others"
    if callable(getattr(found, "transform", None)):
        turned = {name: _named(arrays[name], tuple(reversed(names[name]))) for name in names}
        try:
            solved.scores(found, {**arrays, **turned})
        except LinspecError:
            return
        yield (
            "transform must refuse rows whose columns have the names of the training data in another order; it gives "
            "scores. Make its adjustment by NewRows.of, or derive the answer from linspec.LinearSolution"
        )


def check_estimator(solved: Solved) -> Iterator[str]:
    """The estimator of the problem finds the answer of `linspec.solve`, and has the same scores."""
    if importlib.util.find_spec("sklearn") is None:
        raise Skip("scikit-learn is not installed")
    stated, case = solved.cls.stated, solved.case
    several = any(declared.several for declared in stated.matrices.values())
    if len(stated.matrices) > len("XY"):
        raise Skip("an estimator takes X and y")
    of: Any = resolve("linspec.estimators.generic:of")
    solver = solved.exact.make()
    names = {stated.count: "n_components"} if stated.count else {}
    parameters = {names.get(name, name): value for name, value in case.parameters.items()}
    given = [list(case.arrays.values())] if several else list(case.arrays.values())
    try:
        estimator = of(solved.cls)(**parameters, solver=solver, random_state=0)
        estimator.fit(*given)
    except Exception as error:  # noqa: BLE001 (whatever it raises is reported)
        yield (
            f"linspec.estimators.of({solved.cls.__name__}) must fit what linspec.solve solves; raised "
            f"{type(error).__name__}: {error}. Its parameters are the fields of the problem: they need defaults, and "
            "names other than solver, tol, max_passes, random_state, solver_options"
        )
        return
    for name in solved.layout.leading:
        own, other = (getattr(one, key) for one, key in ((estimator, f"{name}_"), (solved.solution, name)))
        pairs = zip(*(value if isinstance(value, tuple) else (value,) for value in (own, other)), strict=True)
        if any(
            not np.allclose(to_host(a), to_host(b), rtol=1e-6, atol=1e-9) for a, b in pairs if is_array(b)
        ):
            yield f"{name}_ of the estimator must be {name} of linspec.solve; it differs"


UNASKED_CHECKS: dict[str, Callable[[Solved], Iterator[str]]] = {
    "names": check_names,
    "estimator": check_estimator,
}
"""The checks of what follows from declared fields, by their names in test ids and expected failures."""
