"""The cost of lazy SPCA and SPCA on a stream: seconds by k and by rows, and the memory.

    python docs/evidence/lazy_stream.py [--quick] [--record]

Wojnowicz 2017 (Lazy stochastic principal component analysis, arXiv:1709.07175) gives both methods for rows that
come slice by slice and are read once (Algorithms 3 and 4). SPCA updates a triangular factor by orthogonal
transformations of each slice times Ω; lazy SPCA only adds products. The paper claims (Proposition 4, Figure 2)
that lazy SPCA is faster at every k, and the more so the larger k is; that the work is a product with the data
beside a small problem that does not depend on the rows; and that both find the same subspace (Proposition 2).

Measured on a generator of sparse rows, which are made anew in every run: CPU seconds of `spca` and `lazy-spca`
(the iterator can be read once, so both make one sweep), less those of making the rows, the least of REPEATS; with
the very sparse Ω of density 1/√p of the paper; the growth from 2n to 8n rows; the peak of what is held, by
tracemalloc, at both; and the chordal distance of both subspaces for one seed.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import scipy.sparse
from showing import Claim, Report, arguments, at_most
from timing import alternate

import linspec as ls
from linspec_sketches.sparse import VerySparse

REPEATS = 3
SLICE = 2000
SOLVERS = ("spca", "lazy-spca")

MANY = 2
"""Times as many rows from which growth is measured: small slices are gathered up to dozens of MB."""

SAME = 1e-6
"""Chordal distance up to which subspaces are called the same: of a single sweep, which squares the condition number."""

GROWTH = (3.5, 4.5)
"""Times as many seconds for four times the rows that are called linear growth."""


@dataclass(frozen=True)
class Run:
    """One solver on a stream."""

    solver: str
    rows: int
    columns: int
    k: int
    cpu: float
    peak_mb: float


@dataclass(frozen=True)
class Distance:
    """How far the subspaces of both are from each other."""

    k: int
    chordal: float


def stream(n: int, p: int) -> Iterator[Any]:
    """Sparse rows with a decaying spectrum, twenty entries each, the same in every run."""
    rng = np.random.default_rng(0)
    frequency = 1 / np.arange(1, p + 1) ** 0.8
    cumulated = np.cumsum(frequency / frequency.sum())
    cumulated[-1] = 1.0
    for start in range(0, n, SLICE):
        rows = min(SLICE, n - start)
        columns = np.searchsorted(cumulated, rng.random((rows, 20)))
        starts = np.arange(0, 20 * rows + 1, 20)
        made = scipy.sparse.csr_array(
            (rng.standard_normal(20 * rows), columns.ravel(), starts), shape=(rows, p)
        )
        made.sum_duplicates()
        yield made


def solved(solver: str, n: int, p: int, k: int) -> Any:
    """The answer of one sweep."""
    options = {"oversampling": 0, "test_matrix": VerySparse(rule="square-root")}
    return ls.solve(ls.SVD(stream(n, p), k=k), solver, rng=0, **options)


def measured(solver: str, n: int, p: int, k: int) -> Run:
    """CPU seconds without those of the generator, and the peak of another run."""
    turns = alternate(
        {"making": lambda: sum(block.nnz for block in stream(n, p)), "all": lambda: solved(solver, n, p, k)},
        REPEATS,
    )
    tracemalloc.start()
    solved(solver, n, p, k)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return Run(solver, n, p, k, min(turns["all"].cpu) - min(turns["making"].cpu), peak)


def claims(runs: list[Run], distances: list[Distance], ks: tuple[int, ...], n: int) -> Iterator[Claim]:
    """Held or not."""
    of = {(run.solver, run.rows, run.k): run for run in runs}
    ratios = [of["spca", n, k].cpu / of["lazy-spca", n, k].cpu for k in ks]
    told = ", ".join(f"{ratio:.2f} times at k = {k}" for ratio, k in zip(ratios, ks, strict=True))
    yield Claim(
        "lazy SPCA is faster on a stream at every k (Wojnowicz 2017, Figure 2)", min(ratios) > 1, told
    )
    yield Claim("and the more so the larger k is", ratios == sorted(ratios), told)
    middle = ks[len(ks) // 2]
    few, many = (of["lazy-spca", rows, middle] for rows in (MANY * n, 4 * MANY * n))
    growth = many.cpu / few.cpu
    yield Claim(
        "its time is linear in the rows",
        GROWTH[0] <= growth <= GROWTH[1],
        f"{growth:.2f} times for 4 times the rows",
    )
    yield at_most(
        "its memory does not depend on the rows",
        many.peak_mb,
        1.1 * few.peak_mb,
        f"{few.peak_mb:.1f} MB and {{value:.1f}} MB",
    )
    farthest = max(row.chordal for row in distances)
    words = "both find the same subspace (Proposition 2)"
    yield at_most(words, farthest, SAME, "chordal distance {value:.1e} at most")


def main() -> int:
    """Measure, print, record."""
    report = Report(arguments(__doc__))
    n, p, ks = (4000, 300, (5, 10, 20)) if report.given.quick else (160_000, 4000, (25, 100, 400))
    shapes = [(solver, n, k) for k in ks for solver in SOLVERS]
    shapes += [("lazy-spca", rows, ks[len(ks) // 2]) for rows in (MANY * n, 4 * MANY * n)]
    table, runs = report.table("solver", "rows", "columns", "k", "CPU s::.2f", "MB::.1f"), []
    for solver, rows, k in shapes:
        runs.append(measured(solver, rows, p, k))
        table.row(*astuple(runs[-1]))
    distances = [
        Distance(k, ls.metrics.chordal_distance(*(solved(solver, n, p, k).Vh.T for solver in SOLVERS)))
        for k in ks
    ]
    report.keep("runs", runs)
    report.keep("distances", distances)
    report.say(claims(runs, distances, ks, n))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
