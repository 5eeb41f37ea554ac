"""Print what CCA takes beside the same work done by hand with NumPy and SciPy.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_by_hand.py --data FOLDER`; `--quick` takes small generated data,
`--rows` some of the rows, `--rounds` so many rounds (11). Each way has a process of its own, which holds the data; the
two take turns. Seconds of the processor and of the clock are those of a whole call of `linspec.solve`, its certificate
included, or of all that is done by hand, from the data to the weights: median (worst) of the rounds.

- words: word against next word, one-hot and sparse, k = 20, ridge 1, `linspec.solve(CCA(X, Y, 20, ridge=1))`, centred
  and uncentred. By hand: XᵀY, a scaling by the roots of the diagonals, and PROPACK; centred as an operator of two more
  vectors. With ridge 0.01 the last correlations are alike.
- images: left against right half, dense, centred, k = 20, ridge 300. By hand: Gram matrices less those of the means,
  Cholesky factors and an SVD.
- titles: words of titles against words of queries, sparse, uncentred, k = 20, ridge 1, tolerance 3e-4, which captures
  .999 of the sum. By hand: the same dense (6 GB).

loss: what the sum of the correlations lacks of the reference, relative to it. The reference is `lobpcg` at tolerance
1e-13 with blocks of 50 columns, "direct" for images.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from datasets import arguments, bigrams, mnist_halves, titles_and_queries
from least_squares_law import print_head, print_row
from scipy.sparse.linalg import LinearOperator, svds

import linspec as ls

K = 20
ROWS: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = {
    "words": (bigrams, {"ridge": 1.0, "center": False}, {}),
    "words, tolerance 1e-10": (bigrams, {"ridge": 1.0, "center": False}, {"tol": 1e-10}),
    "words, centred": (bigrams, {"ridge": 1.0, "center": True}, {}),
    "words, ridge 0.01": (bigrams, {"ridge": 0.01, "center": False}, {}),
    "images": (mnist_halves, {"ridge": 300.0, "center": True}, {}),
    "titles": (titles_and_queries, {"ridge": 1.0, "center": False}, {"tol": 3e-4}),
}


def main() -> None:
    """Measure and print."""
    parser = arguments(main.__doc__ or "")
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS), metavar="ROW")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--child", nargs=2, metavar=("WAY", "ROW"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        serve(given, *given.child)
        return
    print_head("row", "way", "CPU s", "seconds", "sum", "loss", "solver, status", "CPU beside by hand")
    for row in given.rows:
        compare(given, row)


def compare(given: argparse.Namespace, row: str) -> None:
    """Both ways in turn."""
    (reference,) = rounds(given, row, ("reference",), 1)["reference"]
    found = rounds(given, row, ("linspec", "by hand"), given.rounds)
    spent = {way: statistics.median(turn["cpu"] for turn in turns) for way, turns in found.items()}
    for way, turns in found.items():
        total = turns[-1]["sum"]
        loss = (reference["sum"] - total) / reference["sum"] if total else float("nan")
        times = [sorted(turn[clock] for turn in turns) for clock in ("cpu", "wall")]
        cells = [f"{statistics.median(t):.3f} ({t[-1]:.3f})" for t in times]
        beside = f"{spent[way] / spent['by hand']:.2f}"
        print_row((row, way, *cells, f"{total:.9f}", f"{loss:.1e}", turns[-1]["said"], beside))
        sys.stdout.flush()


def rounds(
    given: argparse.Namespace, row: str, ways: tuple[str, ...], count: int
) -> dict[str, list[dict[str, Any]]]:
    """A process for each way; a line to it asks for a round, and its line tells of it. The first one does not count."""
    here = [sys.executable, str(Path(__file__).resolve()), *(["--quick"] if given.quick else [])]
    here += ["--data", str(given.data)] if given.data else []
    running = {
        way: subprocess.Popen(  # noqa: S603  # this file
            [*here, "--child", way, row], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for way in ways
    }
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    warm = int(count > 1)
    for turn in range(count + warm):
        for way, process in running.items():
            assert process.stdin is not None and process.stdout is not None  # noqa: PT018
            process.stdin.write("\n")
            process.stdin.flush()
            told = json.loads(process.stdout.readline())
            if turn >= warm:
                found[way].append(told)
    for process in running.values():
        process.communicate()
    return found


def serve(given: argparse.Namespace, way: str, row: str) -> None:
    """A round for each line that comes."""
    read, problem, options = ROWS[row]
    X, Y = read(given)
    ls.solve(ls.CCA(np.eye(9, 4), np.eye(9, 3), 1, ridge=1.0))  # everything imported
    calls = {"linspec": by_linspec, "by hand": by_hand, "reference": by_reference}
    for _ in sys.stdin:
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            total, said = calls[way](X, Y, problem, options)
        except np.linalg.LinAlgError as error:
            total, said = 0.0, f"fails: {error}"
        spent = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        sys.stdout.write(json.dumps({**spent, "sum": total, "said": said}) + "\n")
        sys.stdout.flush()


def by_linspec(X: Any, Y: Any, problem: dict[str, Any], options: dict[str, Any]) -> tuple[float, str]:
    """What a user calls."""
    s = ls.solve(ls.CCA(X, Y, K, **problem), rng=0, **options)
    return float(s.correlations.sum()), f"{s.solver}, {s.status.name}"


def by_reference(X: Any, Y: Any, problem: dict[str, Any], _: dict[str, Any]) -> tuple[float, str]:
    """A sum that is exact to many digits."""
    if scipy.sparse.issparse(X):
        s = ls.solve(
            ls.CCA(X, Y, K, **problem), "lobpcg", rng=1, tol=1e-13, oversample=30, max_iterations=1500
        )
    else:
        s = ls.solve(ls.CCA(X, Y, K, **problem), "direct")
    return float(s.correlations.sum()), s.status.name


def by_hand(X: Any, Y: Any, problem: dict[str, Any], _: dict[str, Any]) -> tuple[float, str]:
    """What one writes for these data."""
    ridge, center = problem["ridge"], problem["center"]
    if scipy.sparse.issparse(X) and X.nnz == X.shape[0]:
        return one_hot_by_hand(X, Y, ridge, center=center)
    return dense_by_hand(X, Y, ridge, center=center)


def one_hot_by_hand(X: Any, Y: Any, ridge: float, *, center: bool) -> tuple[float, str]:
    """Scaling and PROPACK. Centring takes n μμᵀ out of a diagonal: its inverse root is known, too."""
    n, counts = X.shape[0], [np.bincount(A.indices, A.data**2, minlength=A.shape[1]) for A in (X, Y)]
    roots = [1 / np.sqrt(count + ridge) for count in counts]
    T = scipy.sparse.csr_array(
        scipy.sparse.diags_array(roots[0]) @ (X.T @ Y) @ scipy.sparse.diags_array(roots[1])
    )
    whole: Any = T
    if center:
        u, v = (root * count / np.sqrt(n) for root, count in zip(roots, counts, strict=True))
        a, b = (((1 - w @ w) ** -0.5 - 1) / (w @ w) for w in (u, v))

        def forward(y: Any) -> Any:
            z = y + b * v * (v @ y)
            z = T @ z - u * (v @ z)
            return z + a * u * (u @ z)

        def backward(x: Any) -> Any:
            z = x + a * u * (u @ x)
            z = T.T @ z - v * (u @ z)
            return z + b * v * (v @ z)

        whole = LinearOperator(T.shape, matvec=forward, rmatvec=backward, dtype=np.float64)
    U, rho, Vt = svds(whole, K, solver="propack", random_state=0)
    weights = roots[0][:, None] * U, roots[1][:, None] * Vt.T
    return float(rho.sum()), f"PROPACK, {weights[0].shape[1]} pairs"


def dense_by_hand(X: Any, Y: Any, ridge: float, *, center: bool) -> tuple[float, str]:
    """Gram matrices, Cholesky factors and an SVD."""
    Sx, C, Sy = (X.T @ X, X.T @ Y, Y.T @ Y)
    if scipy.sparse.issparse(X):
        Sx, C, Sy = (S.toarray() for S in (Sx, C, Sy))
    if center:
        x, y = (A.mean(axis=0) for A in (X, Y))
        n = X.shape[0]
        Sx, C, Sy = Sx - n * np.outer(x, x), C - n * np.outer(x, y), Sy - n * np.outer(y, y)
    Lx, Ly = (np.linalg.cholesky(S + ridge * np.eye(len(S))) for S in (Sx, Sy))
    T = scipy.linalg.solve_triangular(Lx, C, lower=True)
    T = scipy.linalg.solve_triangular(Ly, T.T, lower=True).T
    small = T.T @ T if T.shape[1] > 2 * K + 500 else None
    if small is None:
        U, rho, Vt = np.linalg.svd(T, full_matrices=False)
        V = Vt.T
    else:  # eigenvectors of the smaller square: all singular vectors would take minutes
        m = len(small)
        values, V = scipy.linalg.eigh(small, subset_by_index=(m - K, m - 1))
        rho, V = np.sqrt(values[::-1]), V[:, ::-1]
        U = T @ V / rho
    weights = [
        scipy.linalg.solve_triangular(L, W[:, :K], lower=True, trans="T") for L, W in ((Lx, U), (Ly, V))
    ]
    return float(rho[:K].sum()), f"Cholesky and SVD, {weights[0].shape[1]} pairs"


if __name__ == "__main__":
    main()
