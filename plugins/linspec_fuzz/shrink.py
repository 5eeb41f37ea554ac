"""The reduction of a failing case to a small one, and its form as a program.

Problem: a matrix of 150 x 40 numbers is unreadable, but four numbers may show the cause.
Method: the simplifications are tried one after the other: plainer kind and dtype, k = 1, no weights, no
confounds, no centring, no ridge, half of the rows, half of the columns, one column less, short numbers. A
simplification is kept if the same solver still fails in the same way. The number of attempts is bounded. The
final case is printed with all its entries, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from linspec.kernels import Kernel
from linspec_fuzz.judge import Verdict, judge
from linspec_fuzz.problems import Case, Matrix
from linspec_fuzz.truths import truth_of

__all__ = ["code", "shrink"]

ATTEMPTS = 60
"""The largest number of solves for one failure."""


def shrink(
    case: Case, solver: Any, verdict: Verdict, *, attempts: int = ATTEMPTS, max_seconds: float = 5.0
) -> tuple[Case, Verdict]:
    """Find a small case on which a solver fails in the same way.

    Parameters
    ----------
    case : Case
    solver : str or Solver
    verdict : Verdict
        The verdict on the case.
    attempts : int, default 60
        The largest number of solves.
    max_seconds : float, default 5.0
        The time limit of one solve.

    Returns
    -------
    Case, Verdict
    """
    left = attempts
    improved = True
    while improved and left > 0:
        improved = False
        for smaller in _simpler(case):
            if left <= 0:
                break
            left -= 1
            found = _try(smaller, solver, max_seconds)
            if found is not None and found.kind == verdict.kind and _alike(found, verdict):
                case, verdict, improved = smaller, found, True
                break
    return case, verdict


def _alike(found: Verdict, verdict: Verdict) -> bool:
    """Whether two failures are alike: exceptions at the same place, or wrong answers with the same status."""
    if verdict.kind == "foreign":
        return found.cause == verdict.cause
    return found.status == verdict.status and found.cause.partition(",")[0] == verdict.cause.partition(",")[0]


def _try(case: Case, solver: Any, max_seconds: float) -> Verdict | None:
    try:
        return judge(case, solver, truth_of(case), max_seconds=max_seconds)
    except (ValueError, ArithmeticError, IndexError):  # an invalid case, such as an array without rows
        return None


# ---- simplifications --------------------------------------------------------------------------


def _simpler(case: Case) -> Iterator[Case]:
    """Yield simpler cases, the largest simplifications first."""
    yield from _fewer_rows(case)
    yield from _fewer_columns(case)
    yield from _plainer_numbers(case)
    yield from _plainer_data(case)


def _fewer_rows(case: Case) -> Iterator[Case]:
    n = len(next(iter(case.matrices.values())).entries)
    for count in (n // 2, (3 * n) // 4, n - 1):
        if 1 <= count < n:
            for rows in (slice(0, count), slice(n - count, n)):
                yield _fitting(case.of_rows(rows), {})


def _fewer_columns(case: Case) -> Iterator[Case]:
    for name, matrix in case.matrices.items():
        if matrix.entries.ndim == 1 or matrix.entries.shape[1] == 1:
            continue
        p = matrix.entries.shape[1]
        kept = [np.arange(p // 2), np.arange(p // 2, p)] if p > 3 else []
        kept += [np.delete(np.arange(p), j) for j in range(p - 1, -1, -1)][:6]
        for columns in kept:
            yield _fitting(case, {name: matrix.entries[:, columns]})


def _fitting(case: Case, entries: dict[str, Any]) -> Case:
    """Return the case with other entries, and with k limited by their shapes."""
    for name, array in entries.items():
        case = case.with_matrix(name, entries=array)
    k = case.parameters.get("k")
    if k is not None and case.family != "multiset-cca":
        limit = min(min(m.entries.shape[:2]) for m in case.matrices.values())
        case = case.with_parameters(k=min(k, limit))
    return case


def _plainer_numbers(case: Case) -> Iterator[Case]:
    for name in ("sample_weight", "confounds"):
        if case.parameters.get(name) is not None:
            yield case.with_parameters(**{name: None})
    simple = {"k": 1, "left": False, "center": False, "ridge": 0.0, "scale": False, "kernel_y": None}
    for name, value in simple.items():
        if name in case.parameters and case.parameters[name] != value:
            yield case.with_parameters(**{name: value})
    for name in ("sample_weight", "confounds"):
        if case.parameters.get(name) is not None:
            for digits in (1, 2, 4):
                short = _short(case.parameters[name], digits)
                if short is not None:
                    yield case.with_parameters(**{name: short})
    ridge = case.parameters.get("ridge")
    if isinstance(ridge, tuple):
        for one in ridge:
            yield case.with_parameters(ridge=one)
    if case.tol is not None:
        from dataclasses import replace

        yield replace(case, tol=None)


def _plainer_data(case: Case) -> Iterator[Case]:
    for name, matrix in case.matrices.items():
        if matrix.kind != "ndarray":
            yield case.with_matrix(name, kind="ndarray")
        if matrix.entries.dtype != np.float64:
            yield case.with_matrix(name, entries=matrix.entries.astype(np.float64))
        for digits in (1, 2, 4):
            short = _short(matrix.entries, digits)
            if short is not None:
                yield case.with_matrix(name, entries=short)


def _short(entries: Any, digits: int) -> Any:
    """Round entries to a few digits; return None if that changes nothing."""
    if entries.dtype.kind != "f":
        return None
    text = [float(f"{float(x):.{digits - 1}e}") for x in entries.ravel()]
    short = np.array(text, dtype=entries.dtype).reshape(entries.shape)
    return None if np.array_equal(short, entries) else short


# ---- as code ----------------------------------------------------------------------------------

WRAPPED: dict[str, Callable[[str], str]] = {
    "ndarray": lambda text: text,
    "fortran": lambda text: f"np.asfortranarray({text})",
    "csr": lambda text: f"scipy.sparse.csr_array({text})",
    "csc": lambda text: f"scipy.sparse.csc_array({text})",
}
"""Code for the kinds of data that one line of NumPy or SciPy makes; other kinds need `KINDS`."""


def code(case: Case, solver: Any, verdict: Verdict) -> str:
    """Write a case as a program that shows its failure.

    Parameters
    ----------
    case : Case
    solver : str or Solver
    verdict : Verdict

    Returns
    -------
    str
        A Python program.
    """
    lines = ["import numpy as np"]
    kinds = {matrix.kind for matrix in case.matrices.values()}
    if kinds & {"csr", "csc"}:
        lines.append("import scipy.sparse")
    lines.append("import linspec as ls")
    if kinds - set(WRAPPED):
        lines.append("from linspec_fuzz import KINDS")
    if not isinstance(solver, str):
        lines.append(f"from {type(solver).__module__} import {type(solver).__qualname__}")
    lines.append("")
    lines += [f"{name} = {_wrapped(matrix)}" for name, matrix in case.matrices.items()]
    numbers = "".join(
        f", {name}={_number(value)}" for name, value in case.parameters.items() if value is not None
    )
    data = ", ".join(case.matrices)
    data = f"[{data}]" if "X1" in case.matrices else data
    lines.append(f'problem = ls.get_problem("{case.family}")({data}{numbers})')
    named = f'"{solver}"' if isinstance(solver, str) else repr(solver)
    tol = "" if case.tol is None else f", tol={case.tol!r}"
    more = "".join(f", {name}={_number(value)}" for name, value in case.study.items())
    call = f"cross_validate(problem, form={named}{more}" if case.study else f"solve(problem, {named}{tol}"
    lines.append(f"solution = ls.{call}, rng=np.random.default_rng({list(case.seed)}))")
    lines += ["print(solution.scores)"] * bool(case.study)
    lines.append("print(solution)")
    if verdict.values:
        lines.append(f"# the true values: {', '.join(f'{value:.6g}' for value in verdict.values)}")
    lines.append(f"# {verdict.kind}: {' '.join(verdict.reason.split())}")
    return "\n".join(lines) + "\n"


def _number(value: Any) -> str:
    """Return the exact code of a parameter: a number, an array or a kernel."""
    if isinstance(value, np.ndarray):
        return _literal(value)
    if isinstance(value, list | tuple) and value and isinstance(value[0], np.ndarray):
        return f"[{', '.join(map(_literal, value))}]"
    return f"ls.kernels.{value!r}" if isinstance(value, Kernel) else repr(value)


def _wrapped(matrix: Matrix) -> str:
    text = _literal(matrix.entries)
    if matrix.kind in WRAPPED:
        return WRAPPED[matrix.kind](text)
    return f'KINDS["{matrix.kind}"]({text})'


def _literal(entries: Any) -> str:
    """Return the exact code of an array with all its entries."""
    rows = entries.tolist()
    body = repr(rows) if entries.size <= 8 or entries.ndim == 1 else ",\n    ".join(map(repr, rows))
    if entries.ndim > 1 and entries.size > 8:
        body = f"[\n    {body},\n]"
    dtype = "" if entries.dtype == np.float64 else f", dtype=np.{entries.dtype}"
    return f"np.array({body}{dtype})"
