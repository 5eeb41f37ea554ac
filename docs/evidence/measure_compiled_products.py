"""Print how compiled loops over the rows of a sparse matrix do beside linspec's own products.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_compiled_products.py --data FOLDER`; `--quick` takes small
generated data. The loops are compiled by Numba (`pip install numba`); where it is missing, the script says so and ends.

The products are A V, AᵀU and AᵀA V for blocks of `--columns` columns of float64, with one thread and with two. The
matrices are the words of newsgroups and of Reuters, tf-idf, and a generated one of 300,000 x 10,000, 15 entries a row.
The loops are plain: an entry times a row of the block, added to a row of the result. AᵀA V multiplies a row of A by V,
and the result by the same row. They run on linspec's threads, and sums over rows have an accumulator for each.

ms: milliseconds of linspec, of the clock; gain: linspec's over those of the loops, round by round, the median of
`--rounds` rounds in which both take turns, and the least. The last column is the largest difference of the results,
relative to the largest number.

An engine of such loops would be kept if products gained 1.3 times in the median and none lost. linspec claims that this
does not hold.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import statistics
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from datasets import news_stories, newsgroups
from measure_sparse_constants import adjoint, block, product, uniform, values
from showing import Claim, Report, arguments
from timing import alternate

from linspec.operators import SparseOperator
from linspec.process import machine

COLUMNS, THREADS, ROUNDS = (10, 30, 60), (1, 2), 11
GAIN = 1.3
"""What was to be gained in the median."""


def forward(indptr: Any, indices: Any, data: Any, V: Any, result: Any, start: int, stop: int) -> None:
    """Rows from start to stop of A V."""
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            entry, row = data[e], indices[e]
            for j in range(V.shape[1]):
                result[i, j] += entry * V[row, j]


def backward(indptr: Any, indices: Any, data: Any, U: Any, result: Any, start: int, stop: int) -> None:
    """Add Aᵀ U for the rows from start to stop."""
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            entry, row = data[e], indices[e]
            for j in range(U.shape[1]):
                result[row, j] += entry * U[i, j]


def forward_and_backward(
    indptr: Any, indices: Any, data: Any, V: Any, result: Any, start: int, stop: int
) -> None:
    """Add AᵀA V for the rows from start to stop."""
    image = np.empty(V.shape[1])
    for i in range(start, stop):
        image[:] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            entry, row = data[e], indices[e]
            for j in range(V.shape[1]):
                image[j] += entry * V[row, j]
        for e in range(indptr[i], indptr[i + 1]):
            entry, row = data[e], indices[e]
            for j in range(V.shape[1]):
                result[row, j] += entry * image[j]


def partition(A: Any, parts: int) -> list[tuple[int, int]]:
    """Cut the rows into ranges of about as many entries."""
    inner = np.searchsorted(A.indptr, A.indptr[-1] * np.arange(1, parts) / parts).tolist()
    return list(itertools.pairwise([0, *inner, A.shape[0]]))


def product_by(loop: Any, A: Any, V: np.ndarray) -> np.ndarray:
    """Make a product whose parts write rows of one result."""
    result = np.zeros((A.shape[0], V.shape[1]))
    run = lambda part: loop(A.indptr, A.indices, A.data, V, result, *part)  # noqa: E731
    machine.map_parallel(run, partition(A, machine.cpu_count()))
    return result


def sum_by(loop: Any, A: Any, V: np.ndarray) -> np.ndarray:
    """Make a product whose parts have accumulators of their own, which are added up."""

    def run(part: tuple[int, int]) -> np.ndarray:
        result = np.zeros((A.shape[1], V.shape[1]))
        loop(A.indptr, A.indices, A.data, V, result, *part)
        return result

    total, *others = machine.map_parallel(run, partition(A, machine.cpu_count()))
    for other in others:
        total += other
    return total


def loops() -> dict[str, Callable[..., Any]]:
    """Compile the loops: by product, a call for a matrix and a number of columns."""
    import numba

    compiled = [numba.njit(nogil=True)(loop) for loop in (forward, backward, forward_and_backward)]
    ways = (product_by, compiled[0], 1), (sum_by, compiled[1], 0), (sum_by, compiled[2], 1)
    return {
        said: lambda A, k, way=way, loop=loop, side=side: partial(
            way, loop, A, block(A.shape[side], k, np.float64)
        )
        for said, (way, loop, side) in zip(OWN, ways, strict=True)
    }


def both(A: Any, k: int, dtype: Any) -> Callable[[], Any]:
    """AᵀA V, by linspec's two products."""
    V = block(A.shape[1], k, dtype)
    operator = SparseOperator(A, dtype)
    return lambda: operator.rmatmat(operator.matmat(V))


OWN = {"A V": product, "AᵀU": adjoint, "AᵀA V": both}


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--columns", nargs="+", type=int, default=list(COLUMNS))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    there = importlib.util.find_spec("numba") is not None
    report = Report(parser, *(("numba",) if there else ()))
    compiled = loops() if there else {}
    given = report.given
    table = report.table(
        "matrix", "product", "columns", "threads", "ms::.1f", "gain::.2f", "least::.2f", "difference::.0e"
    )
    gains: list[tuple[float, str]] = []
    for name, A in (matrices(given) if there else {}).items():
        for (said, loop), k, threads in itertools.product(compiled.items(), given.columns, THREADS):
            calls = {"linspec": OWN[said](A, k, np.float64), "loops": loop(A, k)}
            with machine.counting(threads):
                turns = alternate(calls, given.rounds + 1, warm=True)
            own, other = turns["linspec"], turns["loops"]
            faster = [a / b for a, b in zip(own.clock, other.clock, strict=True)]
            gains.append((statistics.median(faster), f"{name}, {said}, {k} columns, {threads} threads"))
            exact = values(own.answer)
            off = float(np.max(np.abs(exact - other.answer)) / np.max(np.abs(exact)))
            table.row(
                name, said, k, threads, 1e3 * statistics.median(own.clock), gains[-1][0], min(faster), off
            )
    report.say([verdict(gains)])
    return report.end()


def matrices(given: argparse.Namespace) -> dict[str, Any]:
    """The two real ones and the generated one."""
    small = 50 if given.quick else 1
    return {
        "newsgroups": newsgroups(given)[0],
        "reuters": news_stories(given),
        "generated": uniform(300_000 // small, 10_000 // small, 15),
    }


def verdict(gains: list[tuple[float, str]]) -> Claim:
    """Whether compiled loops gain too little, or lose somewhere."""
    text = f"compiled loops gain less than {GAIN:g} times in the median, or lose somewhere"
    if not gains:
        return Claim(text, None, "numba is not installed")
    middle, least = statistics.median(gain for gain, _ in gains), min(gains)
    figures = f"{middle:.2f} in the median; least {least[0]:.2f} for {least[1]}"
    return Claim(text, middle < GAIN or least[0] < 1, figures, own=True)


if __name__ == "__main__":
    sys.exit(main())
