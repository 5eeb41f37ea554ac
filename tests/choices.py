"""Write what "auto" chooses for many shapes, with 8 GiB of memory, to choices.json.

Run `python tests/choices.py` after a change of rates, operation counts or traits, with a line in CHANGELOG.md. Problems
have shapes and counts of entries, and no entries.
"""

from __future__ import annotations

import json
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


def sizes(n: int, p: int, q: int, k: int, layout: str) -> cost.Sizes:
    """The sizes of dense or sparse data, of rows with one entry, or of products alone."""
    if layout == "one-hot":
        return cost.Sizes(n=n, p=p, q=q, nnz=2 * n, pairs=3 * n, k=k, readable=True, one_entry=True)
    if layout != "sparse":
        return cost.Sizes(n=n, p=p, q=q, nnz=n * (p + q), pairs=None, k=k, readable=layout == "dense")
    if q == 1:  # a sparse matrix beside a dense target
        entries = min(EACH, max(p // 10, 1)) * n + n
        return cost.Sizes(n=n, p=p, q=q, nnz=entries, pairs=None, k=k, readable=True)
    each = [min(EACH, max(width // 10, 1)) for width in (p, q) if width]
    pairs = n * sum(e**2 for e in each) + (n * each[0] * each[1] if len(each) == 2 else 0)
    return cost.Sizes(n=n, p=p, q=q, nnz=n * sum(each), pairs=pairs, k=k, readable=True)


def problems() -> dict[str, tuple[Any, cost.Sizes]]:
    """Problems and their sizes, by what the table calls them."""
    found: dict[str, tuple[Any, cost.Sizes]] = {}

    def add(label: str, problem: Any, n: int, p: int, q: int, k: int, layout: str) -> None:
        beside = f" + {q}" if q else ""
        found[f"{label}, {layout} {n} x {p}{beside}, k = {k}"] = problem, sizes(n, p, q, k, layout)

    for n, p in SHAPES:
        k = min(10, p // 2)
        for layout in ("dense", "sparse", "products"):
            readable = layout != "products"
            X, Y = Shape(n, p, readable=readable), Shape(n, p, readable=readable)
            add("svd", ls.SVD(X, k), n, p, 0, k, layout)
            add("least-squares", ls.LeastSquares(X, Shape(n, 1), ridge=1.0), n, p, 1, 1, layout)
            if readable:
                add("discriminant", ls.Discriminant(X, Shape(n, k), k, ridge=1.0), n, p, k, k, layout)
            if p < 50_000:
                add("cca", ls.CCA(X, Y, k, ridge=1.0), n, p, p, k, layout)
        add("cca", ls.CCA(Shape(n, p), Shape(n, p), k, ridge=1.0), n, p, p, k, "one-hot")
    kernel, preimage = (registry.get_problem(name) for name in ("kernel-cca", "preimage-cca"))
    for n in (500, 3_000, 20_000):
        rows = np.broadcast_to(np.zeros(1), (n, 20))
        add("kernel-cca", kernel(rows, rows, 5, ridge=1e-3), n, 20, 20, 5, "dense")
        add("preimage-cca", preimage(rows, rows, 5), n, 20, 20, 5, "dense")
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
