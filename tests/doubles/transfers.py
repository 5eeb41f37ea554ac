"""Transfers, waits and kernels of an iteration of every solver, counted on the double of CuPy.

    PYTHONPATH=tests python tests/doubles/transfers.py [--record] [VERSION]

prints a table: copies to the host and to the device, waits that no `to_host` announces, those within sparse matrices
of CuPy, reports of cuSOLVER that are read, and kernels of an iteration; then where linspec waits. Two views of 600
rows, 40 and 30 columns with 3 shared directions; at most 12 iterations, which leave something to gain. An iteration is
the median of those of a run, the first left out; where two are in the middle, the larger. The numbers are the same on
every machine.

What an iteration of a solver may carry stands in `budgets.json`; a test holds it. With --record the file is written,
and only downwards: a number that has risen is refused. A solver that is new, or gone, enters or leaves.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from doubles import cupy_double

import linspec as ls
from linspec.registry import get_solver
from linspec.registry.options import options_of

CARRIED = ("down", "up")
KINDS = (*CARRIED, "sync", "inside", "report", "kernel")

BUDGETS = Path(__file__).with_name("budgets.json")

LIMITS = {"max_iterations": 12, "iterations": 6, "tol": 1e-300}
"""Options of a run, for the solvers that have them."""

SHORT = {"lobpcg": 2}
"""Iterations of solvers whose spaces are the whole ones after a few more: the run ends there, and that is no step."""


def problems() -> dict[str, Any]:
    """Return functions that make one problem of each kind, by name."""
    import cupy

    rng = np.random.default_rng(0)
    shared = rng.standard_normal((600, 3))
    X = shared @ rng.standard_normal((3, 40)) + rng.standard_normal((600, 40)) * np.geomspace(30, 1, 40)
    Y = shared @ rng.standard_normal((3, 30)) + rng.standard_normal((600, 30)) * np.geomspace(30, 1, 30)
    X, Y, classes = (cupy.asarray(A) for A in (X, Y, np.arange(600) % 4))
    H = ls.targets.lda(classes)
    return {
        "cca": lambda: ls.CCA(X, Y, k=2, ridge=1.0),
        "svd": lambda: ls.SVD(X, k=2),
        "least-squares": lambda: ls.LeastSquares(X, Y[:, :3], ridge=1e-3),
        "discriminant": lambda: ls.Discriminant(X, H, ridge=1.0),
        "kernel-cca": lambda: ls.get_problem("kernel-cca")(X[:200], Y[:200], k=2, ridge=1.0),
    }


def counts(problem: Any, name: str) -> dict[str, int] | None:
    """Events of an iteration by kind; None where there are no three of them."""
    fields = {option.name for option in options_of(get_solver(name, problem))}
    limits = {**LIMITS, "max_iterations": SHORT.get(name, LIMITS["max_iterations"])}
    given = {key: limit for key, limit in limits.items() if key in fields}
    seen: list[dict[str, int]] = []

    def look(_: Any) -> None:
        seen.append({kind: cupy_double.ACCOUNT.total(kind) for kind in KINDS})

    cupy_double.ACCOUNT.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ls.solve(problem, name, rng=0, callback=look, **given)
    steps = [{kind: b[kind] - a[kind] for kind in KINDS} for a, b in pairwise(seen[1:])]
    return {kind: sorted(step[kind] for step in steps)[len(steps) // 2] for kind in KINDS} if steps else None


def measured() -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Return the result of `counts` for every solver that iterates, and the places where linspec waits."""
    found: dict[str, dict[str, int]] = {}
    waits: Counter[str] = Counter()
    for kind, problem in problems().items():
        for name in ls.solvers(kind):
            each = counts(problem(), name)
            found |= {} if each is None else {f"{kind}/{name}": each}
            waits.update(cupy_double.ACCOUNT.sites("sync"))
    return found, dict(waits)


def budgets() -> dict[str, dict[str, int]]:
    """Return the transfers that an iteration of each solver may make."""
    read: dict[str, dict[str, int]] = json.loads(BUDGETS.read_text())
    return read


def risen(now: dict[str, dict[str, int]]) -> list[str]:
    """The solvers that carry more than they may."""
    allowed = budgets()
    return [
        f"{name}: {kind} {now[name][kind]}, at most {allowed[name][kind]}"
        for name in sorted(now.keys() & allowed.keys())
        for kind in CARRIED
        if now[name][kind] > allowed[name][kind]
    ]


def main(arguments: list[str]) -> None:
    """Print the table, and write the budgets if that is requested."""
    cupy_double.install(*(word for word in arguments if not word.startswith("-")))
    found, waits = measured()
    lines: list[tuple[Any, ...]] = [
        ("solver", *KINDS),
        *((name, *each.values()) for name, each in found.items()),
    ]
    for line in [*lines, ("",), ("waits at",), *waits.items()]:
        print(f"{line[0]:<32}" + "".join(f" {cell:>10}" for cell in line[1:]))
    if "--record" in arguments:
        if more := risen(found):
            sys.exit("budgets only fall; got\n" + "\n".join(more))
        each = (
            f"  {json.dumps(name)}: {json.dumps({k: found[name][k] for k in CARRIED})}"
            for name in sorted(found)
        )
        BUDGETS.write_text("{\n" + ",\n".join(each) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
