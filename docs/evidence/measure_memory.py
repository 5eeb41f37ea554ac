"""Print what very large data take: a 4 GB file that is never loaded, and a sparse pair that nothing exact can take.

Run `python docs/evidence/measure_memory.py`; `--quick` takes a hundredth of the size. It needs 4.1 GB of disk in the
folder of `--scratch` and nothing else; every run is a fresh process, whose peak resident set is its own. `--only`
takes some of the parts: cca, wide, svd, direct.

The file holds 5,000,000 rows of 200 float32 columns, two views of 100 columns with ten shared directions; `gram`
and `appgrad` run on the two halves of one memory map. The sparse pair is 500,000 x 100,000 twice, 50 entries a
row at random places: what "auto" says, and how long it takes to say it.

The part svd is the principal components of the first quarter of the file (1 GB) by sketches, with left vectors and
without. The part direct is CCA by orthogonal transformations of sparse views: its memory beside that of the dense
matrix of both.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from datasets import write_planted
from showing import Report, Table, arguments
from timing import Peak, apart

import linspec as ls

ROWS, COLUMNS = 5_000_000, 200

PARTS = ("cca", "wide", "svd", "direct")


def of_halves(path: Path, solver: str, center: bool, options: dict[str, Any]) -> dict[str, Any]:
    """CCA of the two halves of the file."""
    warnings.simplefilter("ignore")
    ls.solve(ls.CCA(np.eye(9, 4), np.eye(9, 3), 1, ridge=1.0), solver)
    with Peak() as peak:
        M = np.load(path, mmap_mode="r")
        half = M.shape[1] // 2
        s = ls.solve(ls.CCA(M[:, :half], M[:, half:], 10, ridge=1.0, center=center), solver, rng=0, **options)
    found = {"passes": s.passes, "iterations": s.iterations, "residual": s.residual, "said": s.status.name}
    return peak.figures() | found | {"total": float(s.correlations.sum())}


def of_components(path: Path, rows: int, solver: str, center: bool, left: bool) -> dict[str, Any]:
    """A sketch of the first rows of the file."""
    warnings.simplefilter("ignore")
    ls.solve(ls.SVD(np.eye(99, 40), 1), solver, rng=0)
    with Peak() as peak:
        M = np.load(path, mmap_mode="r")[:rows]
        s = ls.solve(ls.SVD(M, 10, center=center, left=left), solver, rng=0)
    share = peak.memory / (M.nbytes / 2**20)
    found = {"passes": s.passes, "largest": float(s.S[0]), "residual": s.residual, "share": share}
    return peak.figures() | found


def of_wide_pair(n: int, p: int) -> dict[str, Any]:
    """Measure the memory of a solve by "auto" of a sparse pair with entries at random places."""
    rng, m = np.random.default_rng(0), 50
    X, Y = (
        sp.csr_matrix(
            (
                rng.random(n * m, dtype=np.float32),
                rng.integers(0, p, n * m, dtype=np.int32),
                np.arange(0, n * m + 1, m),
            ),
            shape=(n, p),
        )
        for _ in range(2)
    )
    with Peak() as peak:
        try:
            said = repr(ls.solve(ls.CCA(X, Y, 20)))
        except ls.errors.LinspecError as error:
            said = f"{type(error).__name__}: {error}"
    return peak.figures() | {"said": said}


def by_direct(n: int, p: int) -> dict[str, Any]:
    """CCA of sparse views by orthogonal transformations, and the dense matrix of both."""
    warnings.simplefilter("ignore")
    ls.solve(ls.CCA(sp.csr_array(np.eye(99, 4)), sp.csr_array(np.eye(99, 3)), 1, ridge=1.0), "direct")
    rng = np.random.default_rng(0)
    problem = ls.CCA(*(sp.random_array((n, p), density=0.01, rng=rng, format="csr") for _ in range(2)), 10)
    stated = ls.get_solver("direct", "cca").estimate(problem.sizes()).bytes / 2**20
    with Peak() as peak:
        s = ls.solve(problem, "direct")
    share = peak.memory / (16 * n * p / 2**20)
    return peak.figures() | {"stated": stated, "share": share, "total": float(s.correlations.sum())}


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--scratch", default=tempfile.gettempdir(), help="folder for the file")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some of the parts")
    report = Report(parser)
    given = report.given
    scale = 100 if given.quick else 1
    if {"cca", "svd"} & set(given.only):
        with tempfile.TemporaryDirectory(dir=given.scratch) as folder:
            path = Path(folder) / "views.npy"
            rows = ROWS // scale if "cca" in given.only else ROWS // scale // 4
            write_planted(path, rows, COLUMNS, offset=1.0)
            print(f"file of {path.stat().st_size / 2**30:.2f} GiB")
            if "cca" in given.only:
                correlations(report, path)
            if "svd" in given.only:
                components(report, path, ROWS // scale // 4)
    if "wide" in given.only:
        n, p = 500_000 // scale, 100_000 // scale
        table = report.table(f"sparse pair, {n} x {p} each", *BESIDE, "said")
        show(table, "auto", apart(of_wide_pair, n, p), "said")
    if "direct" in given.only:
        table = report.table(
            "direct, sparse", *BESIDE, "of the dense matrix::.2f", "stated, MiB::.0f", "sum::.6f"
        )
        for n, p in ((30_000, 200), (20_000, 500), (10_000, 1000)):
            n, p = (n // 10, p // 10) if given.quick else (n, p)
            show(table, f"{n} x {2 * p}", apart(by_direct, n, p), "share", "stated", "total")
    return report.end()


BESIDE = ("MiB::.0f", "beyond MiB::.0f", "seconds::.2f")


def show(table: Table, name: str, found: dict[str, Any], *fields: str) -> None:
    """A row of what a process found."""
    table.row(name, *(found.get(field) for field in ("memory", "before", "clock", *fields)))


def correlations(report: Report, path: Path) -> None:
    """CCA of the two halves of the file."""
    table = report.table("CCA", *BESIDE, "passes::g", "iterations", "sum::.6f", "residual::.1e", "status")
    for solver, options in (
        ("gram", {}),
        ("appgrad", {}),
        ("appgrad", {"form": "implicit", "max_iterations": 5}),
    ):
        for center in (False, True):
            found = apart(of_halves, path, solver, center, options)
            name = ", ".join([solver, *(f"{key} {value}" for key, value in options.items())])
            name += ", centred" if center else ""
            show(table, name, found, "passes", "iterations", "total", "residual", "said")


def components(report: Report, path: Path, rows: int) -> None:
    """Sketches of the first rows of the file."""
    head = ("of the data::.2f", "passes::g", "largest::.6f", "residual::.1e")
    table = report.table("SVD", *BESIDE, *head)
    for solver in ("spca", "lazy-spca"):
        for center, left in ((False, False), (True, False), (False, True)):
            found = apart(of_components, path, rows, solver, center, left)
            name = solver + ", centred" * center + ", left vectors" * left
            show(table, name, found, "share", "passes", "largest", "residual")


if __name__ == "__main__":
    sys.exit(main())
