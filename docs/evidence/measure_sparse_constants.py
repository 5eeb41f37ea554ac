"""Print what the tuned constants of the sparse kernels are worth: times with other values over times as it is.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_sparse_constants.py --data FOLDER`; without a folder, and with
`--quick`, all matrices are generated. `--only NAME ...` measures some constants, and `--factors` sets others than a
quarter, a half, twice and four times the value. Each multiple takes turns with the value as it is, and a factor of 1 is
the control: what it shows is noise. Figures are medians of paired ratios, of the seconds of the clock and of those of
the processor. The clock counts where a constant decides what threads share, and the processor where it decides about
caches. Calls of few milliseconds are repeated within a turn.

Where a constant decides about accuracy, too, the table has the largest error of each answer.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import product as product_of
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse
from datasets import bigrams, label_set, newsgroup_counts, titles
from showing import Claim, Report, arguments
from timing import Turns, alternate, ratios

from linspec.blocks import base, sparse, sparse_loops
from linspec.operators import SparseOperator

SINGLE, DOUBLE = np.float32, np.float64
MODULES = (base, sparse, sparse_loops)
FACTORS = (0.25, 0.5, 2.0, 4.0)
SEED = 0
ROUNDS = 9
LEAST_SECONDS = 0.01
"""Least time of a turn, in which shorter calls are repeated."""
LEAST_DIFFERENCE = 0.05
"""A ratio that is nearer to 1 is none."""
OF_THREADS = ("WORK_PER_THREAD", "PARTS_PER_THREAD", "MET")
"""Constants that decide what threads share: the seconds of the clock count, and those of the processor elsewhere."""


# ---- matrices --------------------------------------------------------------------------------------


def zipf(rows: int, columns: int, per_row: int, *, power: float = 1.0, seed: int = SEED) -> Any:
    """Word counts: the most frequent word is in most rows, most words in few."""
    rng = np.random.default_rng(seed)
    frequency = np.arange(1.0, columns + 1) ** -power
    words = np.searchsorted(np.cumsum(frequency / frequency.sum()), rng.random(rows * per_row))
    return rows_of(rng.permutation(columns)[np.minimum(words, columns - 1)], rows, columns)


def uniform(rows: int, columns: int, per_row: int) -> Any:
    """Entries that lie anywhere."""
    return rows_of(np.random.default_rng(SEED).integers(0, columns, rows * per_row), rows, columns)


def rows_of(places: np.ndarray, rows: int, columns: int) -> Any:
    """Equally many entries a row, at these places."""
    per_row = len(places) // rows
    data = np.random.default_rng(SEED + 1).standard_normal(len(places)).astype(np.float32).astype(np.float64)
    indptr = np.arange(0, len(places) + 1, per_row)
    A = scipy.sparse.csr_array(
        (data, places.astype(np.int32), indptr.astype(np.int32)), shape=(rows, columns)
    )
    A.sum_duplicates()
    return A


def longest_last(A: Any) -> Any:
    """The rows in the order of their lengths, and as many empty rows before them."""
    ordered = A[np.argsort(np.diff(A.indptr), kind="stable")]
    return scipy.sparse.vstack([scipy.sparse.csr_array(A.shape), ordered], format="csr")


GENERATED: dict[str, Callable[[int], Any]] = {
    "zipf": lambda s: zipf(60_000 // s, 20_000 // s, 15),
    "zipf wide": lambda s: zipf(6000 // s, 100_000 // s, 150),
    "one-hot": lambda s: zipf(400_000 // s, 10_000 // s, 1),
    "uniform": lambda s: uniform(100_000 // s, 10_000 // s, 15),
    "many columns": lambda s: uniform(100_000 // s, 400_000 // s, 20),
    "few columns": lambda s: uniform(300_000 // s, 300, 8),
    "longest last": lambda s: longest_last(zipf(60_000 // s, 20_000 // s, 15)),
}
REAL: dict[str, Callable[[argparse.Namespace], Any]] = {
    "posts": lambda given: newsgroup_counts(given)[0],
    "titles": titles,
    "bigrams": lambda given: bigrams(given)[0],
    "bookmarks": lambda given: scipy.sparse.csr_array(label_set(given, "delicious").X),
}


@dataclass
class Matrices:
    """Matrices by name, each made once and kept while it is used."""

    given: argparse.Namespace

    def __post_init__(self) -> None:
        self.get = cache(self._get)

    def _get(self, name: str) -> Any:
        if name in REAL:
            return scipy.sparse.csr_array(REAL[name](self.given))
        return GENERATED[name](50 if self.given.quick else 1)

    def names(self, *wanted: str) -> list[str]:
        """Those of the wanted ones that there are."""
        real = self.given.data or self.given.quick
        return [name for name in wanted if name not in REAL or real]


# ---- kernels ---------------------------------------------------------------------------------------


def block(rows: int, k: int, dtype: Any) -> np.ndarray:
    """Numbers to multiply, which float32 holds."""
    return np.random.default_rng(SEED + 2).standard_normal((rows, k)).astype(SINGLE).astype(dtype)


def product(A: Any, k: int, dtype: Any) -> Callable[[], Any]:
    """A V."""
    return partial(SparseOperator(A, dtype).matmat, block(A.shape[1], k, dtype))


def adjoint(A: Any, k: int, dtype: Any) -> Callable[[], Any]:
    """Aᵀ U."""
    return partial(SparseOperator(A, dtype).rmatmat, block(A.shape[0], k, dtype))


def gram(A: Any, *_: Any) -> Callable[[], Any]:
    """Aᵀ A."""
    return partial(sparse_loops.gram, A)


def entries(A: Any, *_: Any) -> Callable[[], Any]:
    """Entries of Aᵀ A, estimated."""
    return partial(sparse_loops.gram_entries, A, A)


@dataclass(frozen=True)
class Case:
    """A kernel, its matrices, numbers of columns and precisions; `work` cuts rows to as many multiply-adds."""

    kernel: Callable[..., Callable[[], Any]]
    matrices: tuple[str, ...]
    ks: tuple[int, ...] = (0,)
    dtype: Any = DOUBLE
    work: tuple[int, ...] = (0,)

    def problems(self, matrices: Matrices) -> Iterator[tuple[tuple[str, str], Any, int]]:
        """Names of matrix and kernel, the matrix, and the columns of the block."""
        for name, work, k in product_of(matrices.names(*self.matrices), self.work, self.ks):
            A = matrices.get(name)
            A = cut(A, work, k, pairs_count=self.kernel is gram) if work else A
            said = (self.kernel.__doc__ or "").rstrip(".") + (f", k = {k}" if k else "")
            said += ", float32" if self.dtype is SINGLE else ""
            yield (f"{name}, {A.shape[0]} x {A.shape[1]}", said), A, k


def cut(A: Any, most: int, k: int, *, pairs_count: bool) -> Any:
    """The first rows, with as many multiply-adds."""
    lengths = np.diff(A.indptr).astype(np.int64)
    rows = int(np.searchsorted(np.cumsum(lengths**2 if pairs_count else lengths * k), most))
    return sparse_loops.row_block(A, 0, max(1, min(rows, A.shape[0])))


SWEEPS = ("titles", "bigrams", "bookmarks", "uniform", "few columns")
SINGLES = (Case(adjoint, SWEEPS, (20,), SINGLE), Case(adjoint, ("bigrams", "few columns"), (1,), SINGLE))
CONSTANTS: dict[str, tuple[Case, ...]] = {
    "ENTRIES_PER_BLOCK": (
        Case(adjoint, (*SWEEPS, "posts"), (1,)),
        Case(adjoint, ("titles", "bigrams", "few columns"), (20, 100)),
    ),
    "SHORTEST_STRETCH": SINGLES,
    "LONGEST_STRETCH": SINGLES,
    "ENTRIES_PER_FOLD": SINGLES,
    "WORK_PER_THREAD": (Case(gram, ("titles",), work=(2**20, 2**21, 2**22)),),
    "PARTS_PER_THREAD": (Case(gram, ("titles", "longest last")),),
    "MET": (Case(adjoint, ("titles", "zipf", "uniform"), (20,), work=(2**22, 2**23, 2**24)),),
    "SAMPLED_COLUMNS": (Case(entries, ("posts", "titles", "zipf", "uniform")),),
}
"""The constants, and the kernels and matrices that they can make a difference for."""


# ---- values ----------------------------------------------------------------------------------------


@contextmanager
def changed(name: str, factor: float) -> Iterator[None]:
    """A multiple of a constant, in each module that has it."""
    holders = [module for module in MODULES if hasattr(module, name)]
    before = getattr(holders[0], name)
    value = min(1.0, before * factor) if isinstance(before, float) else max(1, int(before * factor))
    for module in holders:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module in holders:
            setattr(module, name, before)


def turn(name: str, factor: float, call: Callable[[], Any], repeats: int) -> Any:
    """Make one turn of a call with a multiple of a constant, and return its result."""
    with changed(name, factor):
        for _ in range(repeats - 1):
            call()
        return call()


def repeats_of(call: Callable[[], Any]) -> int:
    """How often a call is to be repeated, to last long enough."""
    call()
    begin = perf_counter()
    call()
    return max(1, int(LEAST_SECONDS / max(perf_counter() - begin, 1e-6)))


def duel(name: str, factor: float, call: Callable[[], Any], repeats: int, rounds: int) -> list[Turns]:
    """The turns of a call as it is, and of one with a multiple of a constant, which take turns."""
    calls = {
        "as it is": partial(turn, name, 1.0, call, repeats),
        "changed": partial(turn, name, factor, call, repeats),
    }
    return list(alternate(calls, rounds).values())


def errors(case: Case, A: Any, k: int, answers: list[Any]) -> str:
    """The largest error of each answer by the largest number of its column; "" where no constant decides about it."""
    exact: Any
    if case.kernel is entries:
        exact = float((abs(A).T @ abs(A)).nnz)
    elif case.dtype is SINGLE:
        exact = values(case.kernel(A, k, DOUBLE)())
    else:
        return ""
    scale = np.max(np.abs(exact), axis=0)
    return ", ".join(f"{np.max(np.abs(values(answer) - exact) / scale):.1e}" for answer in answers)


def values(found: Any) -> Any:
    """The numbers of an answer that are compared: of several arrays, those of the first."""
    while isinstance(found, tuple | list):
        found = found[0]
    return found


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="*", default=list(CONSTANTS), choices=list(CONSTANTS))
    parser.add_argument("--factors", nargs="*", type=float, default=FACTORS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    report = Report(parser)
    given = report.given
    matrices, rounds = Matrices(given), 1 if given.quick else given.rounds
    factors = (1.0, *given.factors)
    head = (f"{seconds} x {f:g}::.2f" for f in factors for seconds in ("clock", "CPU"))
    table = report.table(
        "constant", "matrix", "kernel", "ms::.2f", *head, "errors as it is, and with each factor"
    )
    noise: dict[str, list[float]] = {"clock": [], "CPU": []}
    for name in given.only:
        found: list[tuple[float, str]] = []
        for case in CONSTANTS[name]:
            for said, A, k in case.problems(matrices):
                call = case.kernel(A, k, case.dtype)
                repeats = 1 if given.quick else repeats_of(call)
                pairs_of_turns = [duel(name, factor, call, repeats, rounds) for factor in factors]
                both = [
                    (ratios(other.clock, usual.clock)[0], ratios(other.cpu, usual.cpu)[0])
                    for usual, other in pairs_of_turns
                ]
                milliseconds = 1e3 * statistics.median(pairs_of_turns[0][0].clock) / repeats
                told = errors(case, A, k, [other.answer for _, other in pairs_of_turns])
                table.row(name, *said, milliseconds, *(ratio for pair in both for ratio in pair), told)
                for seconds, ratio in zip(noise, both[0], strict=True):
                    noise[seconds].append(abs(ratio - 1))
                which = 0 if name in OF_THREADS else 1
                found += [
                    (pair[which], f"{pair[which]:.2f} with x {factor:g} for {said[1]}, {said[0]}")
                    for factor, pair in zip(factors[1:], both[1:], strict=True)
                ]
        text = f"another value of {name} costs more than {LEAST_DIFFERENCE:.0%} somewhere"
        least, most = min(found), max(found)
        report.say([Claim(text, most[0] > 1 + LEAST_DIFFERENCE, f"{most[1]}; at best {least[1]}", own=True)])
    for seconds, gaps in noise.items():
        gaps.sort()
        half, every = gaps[len(gaps) // 2], gaps[-1]
        print(f"Noise ({seconds}): half of the controls are within {half:.1%}, all within {every:.1%}.")
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
