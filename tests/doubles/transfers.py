"""Transfers, waits and kernels of an iteration of every solver, counted on the double of CuPy.

    PYTHONPATH=tests python tests/doubles/transfers.py [VERSION]

prints a table: copies to the host and to the device, waits that no `to_host` announces, those within sparse matrices
of CuPy, reports of cuSOLVER that are read, and kernels, for the whole run and for each iteration; then where linspec
waits. Two views of 600 rows, 16 and 12 columns with 3 shared directions; at most 20 iterations. An iteration is what a
run of 20 needs beyond one of 10, by their number; solvers that ended before have none. The numbers are exact and the
same on every machine.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from doubles import cupy_double

cupy = cupy_double.install(*sys.argv[1:2])

import numpy as np  # noqa: E402

import linspec as ls  # noqa: E402
from linspec.options import options_of  # noqa: E402
from linspec.registry import get_solver  # noqa: E402

KINDS = ("down", "up", "sync", "inside", "report", "kernel")


def problems() -> dict[str, Any]:
    """One problem of each kind, by name."""
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((600, 3))
    X = shared @ rng.standard_normal((3, 16)) + rng.standard_normal((600, 16))
    Y = shared @ rng.standard_normal((3, 12)) + rng.standard_normal((600, 12))
    X, Y, classes = (cupy.asarray(A) for A in (X, Y, np.arange(600) % 4))
    H = ls.targets.lda(classes)
    return {
        "cca": lambda: ls.CCA(X, Y, k=2, ridge=1.0),
        "svd": lambda: ls.SVD(X, k=2),
        "least-squares": lambda: ls.LeastSquares(X, Y, ridge=1.0),
        "discriminant": lambda: ls.Discriminant(X, H, ridge=1.0),
        "kernel-cca": lambda: ls.get_problem("kernel-cca")(X[:200], Y[:200], k=2, ridge=1.0),
    }


def counts(problem: Any, name: str, iterations: int) -> tuple[dict[str, int], int]:
    """Events by kind, and the iterations that were made."""
    fields = {option.name for option in options_of(get_solver(name, problem))}
    limits = {key: value for key, value in (("max_iterations", iterations), ("tol", 1e-300)) if key in fields}
    cupy_double.ACCOUNT.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solution = ls.solve(problem, name, rng=0, **limits)
    return {kind: cupy_double.ACCOUNT.total(kind) for kind in KINDS}, len(solution.history["residual"])


def rows() -> list[tuple[str, ...]]:
    """The lines of the table."""
    found: list[tuple[str, ...]] = [("solver", *KINDS, "iterations", *(f"{kind}/it" for kind in KINDS))]
    waits: dict[str, int] = {}
    for kind, problem in problems().items():
        for name in ls.solvers(kind):
            try:
                short, few = counts(problem(), name, 10)
                whole, many = counts(problem(), name, 20)
            except ls.errors.LinspecError as error:
                found.append((f"{kind}/{name}", type(error).__name__))
                continue
            for place, count in cupy_double.ACCOUNT.sites("sync").items():
                waits[place] = waits.get(place, 0) + count
            more = max(many - few, 0)
            each = [f"{(whole[count] - short[count]) / more:.1f}" if more else "-" for count in KINDS]
            found.append((f"{kind}/{name}", *(str(whole[count]) for count in KINDS), str(many), *each))
    found += [("", ""), ("waits at", ""), *((place, str(count)) for place, count in waits.items())]
    return found


if __name__ == "__main__":
    for row in rows():
        print(f"{row[0]:<32}" + "".join(f"{cell:>10}" for cell in row[1:]))
