"""Write what "auto" chooses for many shapes, with 8 GiB of memory, to choices.json.

Run `python tests/choices.py` after a change of rates, operation counts or traits, with a line in CHANGELOG.md. Problems
have shapes and counts of entries, and no entries.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import linspec as ls
from linspec import cost, registry
from linspec.errors import NoSuitableSolver
from linspec.process import machine
from linspec.solving.select import estimated

FILE = Path(__file__).with_suffix(".json")
MEMORY = 8 * 2**30
NARROW, WIDE, TALL, SQUARE = (2_000, 200), (500, 50_000), (1_000_000, 500), (5_000, 5_000)
SHAPES = ((200, 10), NARROW, (20_000, 2_000), TALL, SQUARE, WIDE, (100_000, 20_000))
EACH = 30
"""Entries in a row of a sparse matrix, at most one in ten."""


class Shape(ls.LinearOperator):
    """A matrix that is known by its shape and by what can be asked of it."""

    def __init__(self, n: int, p: int, *, readable: bool = True) -> None:
        self.shape, self.dtype = (n, p), np.dtype(np.float64)
        self.readable, self.access = readable, "rows" if readable else "products"

    @property
    def nnz(self) -> int:
        """Stored entries."""
        return self.shape[0] * self.shape[1]

    def _matmat(self, V: Any) -> Any:
        raise AssertionError

    _rmatmat = _matmat


def sizes(problem: Any, layout: str) -> cost.Sizes:
    """The sizes of a problem on dense or sparse data, on rows with one entry, or on products alone."""
    of = problem.sizes()
    if layout == "one-hot":
        return replace(of, nnz=2 * of.n, pairs=3 * of.n, one_entry=True)
    if layout != "sparse":
        return of
    each = [min(EACH, max(width // 10, 1)) for width in (of.p, of.q) if width]
    if of.q == 1:  # a sparse matrix beside a dense target
        return replace(of, nnz=of.n * (each[0] + 1), pairs=of.n * (each[0] ** 2 + each[0] + 1))
    pairs = sum(e**2 for e in each) + (each[0] * each[1] if len(each) == 2 else 0)
    return replace(of, nnz=of.n * sum(each), pairs=of.n * pairs)


def problems() -> dict[str, tuple[Any, cost.Sizes]]:
    """Problems and their sizes, by what the table calls them."""
    found: dict[str, tuple[Any, cost.Sizes]] = {}

    def add(problem: Any, layout: str) -> None:
        of = sizes(problem, layout)
        beside = f" + {of.q}" if of.q else ""
        found[f"{problem.name}, {layout} {of.n} x {of.p}{beside}, k = {of.k}"] = problem, of

    for n, p in SHAPES:
        k = min(10, p // 2)
        for layout in ("dense", "sparse", "products"):
            readable = layout != "products"
            X, Y = Shape(n, p, readable=readable), Shape(n, p, readable=readable)
            add(ls.SVD(X, k), layout)
            add(ls.LeastSquares(X, Shape(n, 1), ridge=1.0), layout)
            if readable:
                add(ls.Discriminant(X, Shape(n, k), k, ridge=1.0), layout)
            if p < 50_000:
                add(ls.CCA(X, Y, k, ridge=1.0), layout)
        add(ls.CCA(Shape(n, p), Shape(n, p), k, ridge=1.0), "one-hot")
    kernel, preimage = (registry.get_problem(name) for name in ("kernel-cca", "preimage-cca"))
    for n in (500, 3_000, 20_000):
        rows = np.broadcast_to(np.zeros(1), (n, 20))
        add(kernel(rows, rows, 5, ridge=1e-3), "dense")
        add(preimage(rows, rows, 5), "dense")
    return found


def choices() -> dict[str, str]:
    """The name of the chosen solver for each problem; "none" where none fits."""
    named = {}
    for label, (problem, of) in problems().items():
        try:
            named[label] = estimated(problem, "auto", of)[0].replace("auto", "none")
        except NoSuitableSolver:
            named[label] = "none"
    return named


def main() -> None:
    """Write the table."""
    machine.available_memory = lambda: MEMORY
    FILE.write_text(json.dumps(choices(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
