"""Print what integer data save: their Gram matrices are exact in float32, which takes half the time of float64.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_integers.py --data FOLDER`; `--quick` takes small
generated data.

- XᵀX: bytes of 70,000 handwritten digits, and integers 0, 1, 2 as genotypes are, beside blocks of 4096 rows that are
  converted to float64, the best that NumPy's float64 can do; the claim is that both have the same bits;
- principal components of the bytes, centred, k = 20, by `gram`, beside the same call on the bytes as float64, and
  beside NumPy and SciPy (means, Gram matrix, `eigh` of the leading 20);
- CCA of the left and right halves of the bytes, centred, with ridge, by `gram`, beside the float64 call and beside Gram
  matrices, Cholesky factors and ARPACK.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from datasets import find
from measure_cca_peers import whitened
from showing import Claim, Report, arguments
from timing import alternate

import linspec as ls

K, BLOCK = 20, 4096


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    report = Report(parser)
    given = report.given
    rng = np.random.default_rng(0)
    if given.quick:
        pixels = rng.integers(0, 256, (2000, 28, 28)).astype(np.uint8)
    else:
        file = np.load(find(given, "mnist/mnist.npz"))
        pixels = np.concatenate([file["X_train"], file["X_test"]]).reshape(-1, 28, 28)
    X = pixels.reshape(len(pixels), -1)
    left, right = (
        np.ascontiguousarray(half).reshape(len(pixels), -1) for half in np.split(pixels, 2, axis=2)
    )
    genotypes = rng.integers(0, 3, X.shape).astype(np.int8)
    ridge = 65.025 * len(X)
    table = report.table("", "CPU s, median::.3f", "worst::.3f", "over linspec, median::.2f", "worst::.2f")
    claims = []
    for name, A in (("bytes", X), ("genotypes", genotypes)):
        calls: dict[str, Callable[[], Any]] = {
            "linspec": lambda A=A: gram(A),
            "by hand": lambda A=A: blocks(A),
        }
        turns = alternate(calls, given.rounds)
        add(table, f"XᵀX of {name}", turns)
        same = np.array_equal(turns["linspec"].answer, turns["by hand"].answer)
        claims.append(Claim(f"XᵀX of {name} has the bits of float64", bool(same), str(same), own=True))
    floats, halves = X.astype(np.float64), [half.astype(np.float64) for half in (left, right)]
    calls = {
        "linspec": lambda: ls.solve(ls.SVD(X, K, center=True), "gram"),
        "linspec, float64": lambda: ls.solve(ls.SVD(floats, K, center=True), "gram"),
        "by hand": lambda: components(X),
    }
    add(table, "components of bytes", alternate(calls, given.rounds))
    calls = {
        "linspec": lambda: ls.solve(ls.CCA(left, right, K, ridge=ridge), "gram"),
        "linspec, float64": lambda: ls.solve(ls.CCA(halves[0], halves[1], K, ridge=ridge), "gram"),
        "by hand": lambda: whitened(left, right, ridge, True),
    }
    add(table, "CCA of halves of bytes", alternate(calls, given.rounds))
    report.say(claims)
    return report.end()


def add(table: Any, title: str, turns: dict[str, Any]) -> None:
    """A row for each method."""
    for name, taken in turns.items():
        table.row(f"{title}, {name}", taken.median, max(taken.cpu), *taken.over(turns["linspec"]))


def gram(X: np.ndarray) -> np.ndarray:
    """XᵀX as linspec holds it."""
    return ls.Moments(X).dense()[0]


def blocks(X: np.ndarray) -> np.ndarray:
    """XᵀX in float64, block by block."""
    total, rows = np.zeros((X.shape[1], X.shape[1])), np.empty((BLOCK, X.shape[1]))
    for start in range(0, len(X), BLOCK):
        some = rows[: len(X[start : start + BLOCK])]
        some[...] = X[start : start + BLOCK]
        total += some.T @ some
    return total


def components(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leading eigenpairs of the Gram matrix about the means."""
    mean = X.mean(axis=0)
    S = blocks(X) - len(X) * np.outer(mean, mean)
    p = len(S)
    return scipy.linalg.eigh(S, subset_by_index=[p - K, p - 1])


if __name__ == "__main__":
    sys.exit(main())
