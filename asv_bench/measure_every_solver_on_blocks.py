"""Every registered solver on rows in blocks beside the same rows in memory: passes, answers, and what is refused.

    python asv_bench/measure_every_solver_on_blocks.py --dask

Prints a row of a table for each solver, for dense rows and for the same as sparse ones (dense / sparse): the passes of
arrays in memory and of blocks, and the largest difference between what both answer, of values (correlations, singular
values, eigenvalues or coefficients) and of directions, beside the largest; or why the solver refuses blocks. X and Y
are cut at different rows. Every solver sweeps where it has the choice, has the tolerance 1e-10 where it has one, and
ends after so many passes. Where passes or values differ, the row says what arrays in memory give with their rows in
reverse order: another order of sums, and other rows in a minibatch. With `--dask` the blocks lie on two workers of
dask.distributed, otherwise in this process. `--oversample` is handed to the solvers that have this option.
"""

from __future__ import annotations

import argparse
import os
import re
import warnings
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", LINSPEC_NUM_THREADS="1")

import numpy as np
import scipy.sparse

import linspec as ls
from linspec import registry
from linspec.blocks import BlockOperator
from linspec.errors import LinspecError

N, P, Q = 1500, 20, 14
EDGES, OTHER_EDGES = (0, 400, 401, 900, N), (0, 700, N)
RNG = np.random.default_rng(0)
SHARED = RNG.standard_normal((N, 4)) * [2.0, 1.4, 1.0, 0.7]
X = SHARED @ RNG.standard_normal((4, P)) + RNG.standard_normal((N, P)) * np.geomspace(3, 1, P) + 1.0
Y = SHARED @ RNG.standard_normal((4, Q)) + RNG.standard_normal((N, Q))
CLASSES = np.abs(SHARED).argmax(axis=1)
WORDS = [np.eye(P)[RNG.integers(0, P, N)] for _ in range(2)]
"""Rows with one entry, which whitened-svd is for."""
WORDS[1] = np.where((np.arange(N) % 3 > 0)[:, None], WORDS[0], WORDS[1])

VALUES = {
    "svd": ("S", "Vh"),
    "least-squares": ("x", "x"),
    "discriminant": ("eigenvalues", "weights"),
}
"""By family, the fields that are compared; of others the correlations and the weights of X."""


def stated(family: str, A: Any, B: Any, H: Any) -> Any:
    """The problem of a family."""
    problem = registry.get_problem(family)
    if family == "svd":
        return problem(A, 3, center=True)
    if family == "least-squares":
        return problem(A, B, ridge=1.0)
    if family == "discriminant":
        return problem(A, H, 3, ridge=1.0)
    if family in ("cca", "kernel-cca"):
        return problem(A, B, 3, ridge=1.0 if family == "cca" else 1e-2)
    return problem(A, B, 2)


def settings(name: str, passes: int, oversample: int | None) -> dict[str, Any]:
    """The options of a solver."""
    known = {option.name for option in ls.describe(name).options}
    given: dict[str, Any] = {"rng": 0, "max_passes": passes}
    given |= {"oversample": oversample} if "oversample" in known and oversample is not None else {}
    given |= {"tol": 1e-10} if "tol" in known else {}
    return given | ({"form": "implicit"} if "form" in known else {})


def differences(family: str, found: Any, exact: Any) -> tuple[float, float]:
    """Of the values, and of the directions with their signs turned alike; beside the largest entry."""
    values, directions = VALUES.get(family, ("correlations", "x_weights"))
    a, b = (np.atleast_1d(np.asarray(getattr(one, values))) for one in (found, exact))
    between = float(np.abs(a - b).max() / np.abs(b).max())
    if not hasattr(exact, directions):
        return between, np.nan
    V, W = (np.asarray(getattr(one, directions)) for one in (found, exact))
    if family == "svd":
        V, W = V.T, W.T
    if family == "least-squares":
        return between, between
    signs = np.sign(np.sum(V * W, axis=0))
    return between, float(np.abs(V * signs - W).max() / np.abs(W).max())


def cut(A: Any, edges: tuple[int, ...], dask: bool) -> Any:
    """The rows of an array in blocks."""
    pieces = [A[a:b] for a, b in pairwise(edges)]
    if not dask:
        return BlockOperator(pieces)
    from dask import delayed

    return [delayed(piece) for piece in pieces]


def first_sentence(error: Exception) -> str:
    """What an error says, up to its first full stop."""
    return re.split(r"(?<=[.;]) ", str(error).strip())[0].rstrip(".;")


def one(name: str, kind: str, args: argparse.Namespace) -> list[str]:
    """Passes in memory, passes on blocks or a refusal, differences of values and of directions, a remark."""
    family = name.partition("/")[0]
    make = scipy.sparse.csr_array if kind == "sparse" else np.array
    A, B = (make(rows) for rows in (WORDS if name == "cca/whitened-svd" else (X, Y)))
    H, given = ls.targets.lda(CLASSES), settings(name, args.passes, args.oversample)
    exact = ls.solve(stated(family, A, B, H), name, **given)
    passes = f"{exact.passes:.4g}"
    try:
        there = stated(family, cut(A, EDGES, args.dask), cut(B, OTHER_EDGES, args.dask), H)
        found = ls.solve(there, name, **given)
    except LinspecError as error:
        return [passes, "refused", "", "", first_sentence(error)]
    values, directions = differences(family, found, exact)
    remark = "" if exact.converged else f"ended as {exact.status.name}"
    if abs(found.passes - exact.passes) > 1 or values > 1e-8:
        turned = ls.solve(stated(family, A[::-1], B[::-1], ls.targets.lda(CLASSES[::-1])), name, **given)
        remark = f"reversed: {turned.passes:.4g} passes, values {differences(family, turned, exact)[0]:.0e}"
    return [passes, f"{found.passes:.4g}", f"{values:.0e}", f"{directions:.0e}", remark]


def row(name: str, args: argparse.Namespace) -> str:
    """A row of the table: what dense and sparse rows give, once where both give the same."""
    pairs = zip(one(name, "dense", args), one(name, "sparse", args), strict=True)
    cells = [dense if dense == sparse else f"{dense} / {sparse}" for dense, sparse in pairs]
    return f"| `{name}` | {' | '.join(cells)} |"


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dask", action="store_true")
    parser.add_argument("--passes", type=int, default=150)
    parser.add_argument("--oversample", type=int)
    parser.add_argument("--solvers", nargs="+", default=ls.solvers())
    parser.add_argument(
        "--seconds", action="store_true", help="print what each takes, in memory and on blocks"
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| solver | passes in memory | on blocks | values | directions | |")
    print("| --- | --- | --- | --- | --- | --- |")
    with ExitStack() as stack:
        if args.dask:
            import dask
            from distributed import Client, LocalCluster
            from measure_dask import MALLOC

            stack.enter_context(dask.config.set(MALLOC))
            cluster = stack.enter_context(
                LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
            )
            stack.enter_context(Client(cluster))
        for name in args.solvers:
            print(row(name, args), flush=True)


if __name__ == "__main__":
    main()
