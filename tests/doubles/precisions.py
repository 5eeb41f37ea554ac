"""Multiply-adds in float32 and float64 of solvers that sweep in float32, on the double of CuPy.

    PYTHONPATH=tests python tests/doubles/precisions.py [VERSION]

prints for each solver the multiply-adds of matrix products, in millions. First for float64 data: those in float64 with
`sweeps="float64"`, then those in float64 and in float32 by default, on a device that multiplies float32 `RATE` times as
fast (device 1 of the double). The ratio is that of the times which products alone would take there. Then for float32
data: the products by default. The numbers are the same on every machine; the double reckons no times.

Views of 5000 rows, 400 and 300 columns with 8 shared directions and noise of falling size; 20 columns of the second,
and six classes, for methods of two stages. Solvers with a part for least squares have `cg`, whose `sweeps` are set.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from doubles import cupy_double

import linspec as ls
from linspec.registry import get_solver
from linspec.registry.options import options_of

RATE = 32
"""Times that a multiply-add in float64 takes, in units of one in float32, on device 1."""


def problems(dtype: str) -> dict[str, Any]:
    """Return functions that make one problem of each kind on device 1, by name."""
    import cupy

    rng = np.random.default_rng(0)
    shared = rng.standard_normal((5000, 8))
    X, Y = (
        shared @ rng.standard_normal((8, p)) + rng.standard_normal((5000, p)) * np.geomspace(10, 1, p)
        for p in (400, 300)
    )
    with cupy.cuda.Device(1):
        X, Y = cupy.asarray(X.astype(dtype)), cupy.asarray(Y.astype(dtype))
        classes = cupy.asarray(np.arange(5000) % 6)
    H, reduced_rank = ls.targets.lda(classes), ls.get_problem("reduced-rank-regression")
    return {
        "cca": lambda name: ls.CCA(X, Y[:, :20] if name == "two-stage" else Y, k=3, ridge=1.0),
        "svd": lambda _: ls.SVD(X, k=10),
        "least-squares": lambda _: ls.LeastSquares(X, Y[:, :3], ridge=1e-3),
        "multiset-cca": lambda _: ls.get_problem("multiset-cca")([X, Y, Y[:, ::-1]], k=3, ridge=1.0),
        "discriminant": lambda _: ls.Discriminant(X, H, ridge=1.0),
        "reduced-rank-regression": lambda _: reduced_rank(X, Y[:, :20], 3, ridge=1.0),
    }


def counted(problem: Any, name: str, sweeps: str) -> tuple[dict[str, int], Any]:
    """Multiply-adds of a run by dtype, and its solution."""
    fields = {option.name for option in options_of(get_solver(name, problem))}
    lstsq = get_solver("cg", "least-squares")
    own = {"sweeps": sweeps} if "sweeps" in fields else {"lstsq": lstsq(sweeps=sweeps)}
    cupy_double.ACCOUNT.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ls.solve(problem, name, rng=0, form="implicit", **own)
    return dict(cupy_double.ACCOUNT.multiplied), found


def sweeping(kind: str) -> list[str]:
    """The solvers of a kind of problem that have the option `sweeps`, or a part for least squares that has it."""
    fields = {
        name: {option.name for option in options_of(get_solver(name, kind))} for name in ls.solvers(kind)
    }
    return [name for name, own in fields.items() if own & {"sweeps", "lstsq"}]


def table() -> list[tuple[str, ...]]:
    """The lines of the table."""
    head = (
        "solver",
        "float64 alone",
        "float64",
        "float32",
        "ratio",
        "status",
        "of float32: float64",
        "float32",
    )
    lines: list[tuple[str, ...]] = [head]
    wide, narrow = problems("float64"), problems("float32")
    for kind in wide:
        for name in sweeping(kind):
            alone, _ = counted(wide[kind](name), name, "float64")
            both, found = counted(wide[kind](name), name, "auto")
            single, _ = counted(narrow[kind](name), name, "auto")
            times = [RATE * each.get("float64", 0) + each.get("float32", 0) for each in (alone, both)]
            own = [f"{each.get(d, 0) / 1e6:.0f}" for each in (both, single) for d in ("float64", "float32")]
            lines.append(
                (
                    f"{kind}/{name}",
                    f"{alone['float64'] / 1e6:.0f}",
                    *own[:2],
                    f"{times[0] / times[1]:.1f}",
                    found.status.name,
                    *own[2:],
                )
            )
    return lines


def main(arguments: list[str]) -> None:
    """Print the table."""
    cupy_double.install(*arguments)
    for line in table():
        print(f"{line[0]:<36}" + "".join(f"{cell:>22}" for cell in line[1:]))


if __name__ == "__main__":
    main(sys.argv[1:])
