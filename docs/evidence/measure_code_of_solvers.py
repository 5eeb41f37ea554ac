"""Count the code between a solver's paper and its loop: functions and statements that an iteration and a solve run.

Run `python docs/evidence/measure_code_of_solvers.py --before FOLDER`: each iterative solver solves a small problem in
this checkout and in the other one. A profiler records which functions of plugins run, between the third and the fourth
iterate and in all. Printed are their number and their statements (nodes of Python's syntax tree, without docstrings),
and the statements of the module of the solver. Functions of the core are not counted: they serve all solvers.
"""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from checkouts import environment_of
from showing import Report, arguments

ROOT = Path(__file__).resolve().parents[2]


def problems() -> dict[str, Any]:
    """Return a small problem for each family."""
    import linspec as ls

    rng = np.random.default_rng(0)
    shared = rng.standard_normal((600, 4)) * [3, 2, 1, 0.5]
    X = shared @ rng.standard_normal((4, 60)) + 2 * rng.standard_normal((600, 60))
    Y = shared @ rng.standard_normal((4, 50)) + 2 * rng.standard_normal((600, 50))
    x, y = X[:200, :8], Y[:200, :6]
    labels = np.argmax(X[:, :4] + rng.standard_normal((600, 4)), axis=1)
    spread = X * np.geomspace(1, 1e-2, 60)
    return {
        "cca": ls.CCA(X, Y, 4, ridge=1.0),
        "least-squares": ls.LeastSquares(spread, Y[:, :2], ridge=1e-3),
        "svd": ls.SVD(spread, 5),
        "discriminant": ls.Discriminant(spread, ls.targets.lda(labels)),
        "kernel-cca": ls.KernelCCA(x, y, 2, ridge=1.0),
        "preimage-cca": ls.PreimageCCA(x, y, 2),
    }


@cache
def statements_of(path: str) -> dict[int, int]:
    """Return the number of statements of each function in a file, by its first line, and of the whole file by 0."""
    tree = ast.parse(Path(path).read_text("utf-8"))
    found = {0: _statements(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            found[first] = _statements(node)
    return found


def _statements(tree: ast.AST) -> int:
    """Count the statements below a node, without docstrings and notes on constants."""
    below = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node is not tree]
    return sum(
        not (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        for node in below
    )


class Seen:
    """The functions of plugins that have run."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Take note of a call."""
        code = frame.f_code
        if event == "call" and "/plugins/linspec_" in code.co_filename and not code.co_name.startswith("<"):
            self.codes.add(code)

    def counted(self) -> tuple[int, int]:
        """Return the number of functions, and that of their statements; a function within another counts with it."""
        total = sum(statements_of(code.co_filename).get(code.co_firstlineno, 0) for code in self.codes)
        return len(self.codes), total


def measured(problem: Any, solver: str) -> dict[str, int] | None:
    """Return the counts of one solver; None if it makes fewer than four iterations."""
    import linspec as ls

    step, whole = Seen(), Seen()
    looked = False

    def callback(progress: Any) -> bool:
        nonlocal looked
        looked = looked or progress.iteration == 3
        sys.setprofile(step if progress.iteration == 2 else whole)
        return progress.iteration >= 5

    cls = ls.get_solver(solver, problem)
    names = {option.name for option in ls.describe(f"{problem.name}/{solver}").options}
    options: dict[str, Any] = {"form": "implicit"} if "form" in names else {}
    options |= {"tol": 1e-13} if "tol" in names else {}
    sys.setprofile(whole)
    try:
        ls.solve(problem, solver, rng=0, callback=callback, **options)
    finally:
        sys.setprofile(None)
    if not looked:
        return None
    whole.codes |= step.codes
    functions, statements = step.counted()
    all_functions, all_statements = whole.counted()
    file = statements_of(inspect.getsourcefile(cls) or "")[0]
    return {
        "functions": functions,
        "statements": statements,
        "all functions": all_functions,
        "all statements": all_statements,
        "file": file,
    }


def counts() -> dict[str, dict[str, int]]:
    """Return the counts of all iterative solvers of this process's linspec."""
    import linspec as ls

    warnings.simplefilter("ignore")
    found = {}
    for family, problem in problems().items():
        for name in ls.solvers(problem):
            solver = name.split("/")[-1]
            try:
                counted = measured(problem, solver)
            except ls.errors.LinspecError:
                continue
            if counted is not None:
                found[f"{family}/{solver}"] = counted
    return found


def main() -> int:
    """Measure and print."""
    if "--counts" in sys.argv:
        sys.stdout.write(json.dumps(counts()))
        return 0
    parser = arguments(__doc__)
    parser.add_argument("--before", help="folder of the other checkout")
    report = Report(parser)
    checkouts = [ROOT, *([Path(report.given.before)] if report.given.before else [])]
    found = []
    for folder in reversed(checkouts):
        with tempfile.TemporaryDirectory() as declared:
            environment = environment_of(folder, Path(declared))
            command = [sys.executable, __file__, "--counts"]
            out = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout  # noqa: S603  # this script
        found.append(json.loads(out))
    labels = ("before", "now")[-len(found) :]
    heads = [
        f"{head} {label}" for label in labels for head in ("functions", "statements", "in all", "module")
    ]
    table = report.table("solver", *heads)
    for name in found[-1]:
        keys = ("functions", "statements", "all statements", "file")
        cells = [one.get(name, {}).get(key, "") for one in found for key in keys]
        table.row(name, *cells)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
