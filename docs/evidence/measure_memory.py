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

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROWS, COLUMNS, SHARED = 5_000_000, 200, 10

PARTS = ("cca", "wide", "svd", "direct")

CHILD = """
import json, resource, sys, time, warnings
import numpy, scipy.sparse, scipy.linalg, linspec as ls
warnings.simplefilter("ignore")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
ls.solve(ls.CCA(numpy.eye(9, 4), numpy.eye(9, 3), 1, ridge=1.0), {solver!r})
before, begin = peak(), time.perf_counter()
M = numpy.load({path!r}, mmap_mode="r")
half = M.shape[1] // 2
s = ls.solve(ls.CCA(M[:, :half], M[:, half:], 10, ridge=1.0, center={center}), {solver!r}, rng=0, **{options!r})
print(json.dumps(dict(before=before, peak=peak(), seconds=time.perf_counter() - begin, passes=s.passes,
      total=float(s.correlations.sum()), status=s.status.name, residual=s.residual, iterations=s.iterations)))
"""

WIDE = """
import json, resource, time
import numpy as np, scipy.sparse as sp, linspec as ls
rng = np.random.default_rng(0)
n, p, m = {n}, {p}, 50
def view():
    return sp.csr_matrix((rng.random(n * m, dtype=np.float32), rng.integers(0, p, n * m, dtype=np.int32),
                          np.arange(0, n * m + 1, m)), shape=(n, p))
X, Y = view(), view()
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, begin = peak(), time.perf_counter()
try:
    said = repr(ls.solve(ls.CCA(X, Y, 20)))
except ls.errors.LinspecError as error:
    said = f"{{type(error).__name__}}: {{error}}"
print(json.dumps(dict(said=said, seconds=time.perf_counter() - begin, before=before, peak=peak())))
"""


SVD = """
import json, resource, time, warnings
import numpy, scipy.sparse, scipy.linalg, linspec as ls
warnings.simplefilter("ignore")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
ls.solve(ls.SVD(numpy.eye(99, 40), 1), {solver!r}, rng=0)
before, begin = peak(), time.perf_counter()
M = numpy.load({path!r}, mmap_mode="r")
M = M[:{rows}]
s = ls.solve(ls.SVD(M, 10, center={center}, left={left}), {solver!r}, rng=0)
print(json.dumps(dict(before=before, peak=peak(), seconds=time.perf_counter() - begin, passes=s.passes,
      largest=float(s.S[0]), residual=s.residual, share=(peak() - before) / (M.nbytes / 2**20))))
"""

DIRECT = """
import json, resource, time, warnings
import numpy as np, scipy.sparse as sp, scipy.linalg, linspec as ls
warnings.simplefilter("ignore")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
ls.solve(ls.CCA(sp.csr_array(np.eye(99, 4)), sp.csr_array(np.eye(99, 3)), 1, ridge=1.0), "direct")
rng = np.random.default_rng(0)
X, Y = (sp.random_array(({n}, {p}), density=0.01, rng=rng, format="csr") for _ in range(2))
dense = 16 * {n} * {p} / 2**20
stated = ls.get_solver("direct", "cca").estimate(ls.CCA(X, Y, 10).sizes()).bytes / 2**20
before, begin = peak(), time.perf_counter()
s = ls.solve(ls.CCA(X, Y, 10), "direct")
print(json.dumps(dict(before=before, peak=peak(), seconds=time.perf_counter() - begin, dense=dense, stated=stated,
      total=float(s.correlations.sum()), share=(peak() - before) / dense)))
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--scratch", default=tempfile.gettempdir(), help="folder for the file")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the size")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some of the parts")
    parser.add_argument("--write", nargs=2, metavar=("PATH", "ROWS"), help="only write the file")
    given = parser.parse_args()
    if given.write:
        write(Path(given.write[0]), int(given.write[1]))
        return
    scale = 100 if given.quick else 1
    if {"cca", "svd"} & set(given.only):
        with tempfile.TemporaryDirectory(dir=given.scratch) as folder:
            path = Path(folder) / "views.npy"
            rows = ROWS // scale if "cca" in given.only else ROWS // scale // 4
            # In a process of its own: a child's peak begins at what its parent has resident.
            subprocess.run([sys.executable, __file__, "--write", path, str(rows)], check=True)  # noqa: S603
            print(f"file of {path.stat().st_size / 2**30:.2f} GiB")
            if "cca" in given.only:
                of_correlations(path)
            if "svd" in given.only:
                of_components(path, ROWS // scale // 4)
    if "wide" in given.only:
        found = child(WIDE, n=500_000 // scale, p=100_000 // scale)
        grown = found["peak"] - found["before"]
        print(f"\nsparse pair, {found['seconds']:.2f} s, resident +{grown:.0f} MiB:\n  {found['said']}")
    if "direct" in given.only:
        for n, p in ((30_000, 200), (20_000, 500), (10_000, 1000)):
            found = child(DIRECT, n=n // (10 if given.quick else 1), p=p // (10 if given.quick else 1))
            print(
                f"  direct, sparse, {n} x {2 * p}  resident +{found['peak'] - found['before']:.0f} MiB, "
                f"{found['share']:.2f} of the dense matrix; stated {found['stated']:.0f} MiB  "
                f"{found['seconds']:.1f} s  sum {found['total']:.6f}",
                flush=True,
            )


def of_correlations(path: Path) -> None:
    """CCA of the two halves of the file."""
    for solver, options in (
        ("gram", {}),
        ("appgrad", {}),
        ("appgrad", {"form": "implicit", "max_iterations": 5}),
    ):
        for center in (False, True):
            found = child(CHILD, path=str(path), solver=solver, center=center, options=options)
            show(solver, options, center, found)


def of_components(path: Path, rows: int) -> None:
    """Sketches of the first rows of the file."""
    for solver in ("spca", "lazy-spca"):
        for center, left in ((False, False), (True, False), (False, True)):
            found = child(SVD, path=str(path), rows=rows, solver=solver, center=center, left=left)
            print(
                f"  {solver:9s} center={center!s:5s} left={left!s:5s}  resident "
                f"+{found['peak'] - found['before']:.0f} MiB over {found['before']:.0f} MiB, {found['share']:.2f} of "
                f"the data  {found['seconds']:.1f} s  {found['passes']:g} passes  S {found['largest']:.6f}  residual "
                f"{found['residual']:.1e}",
                flush=True,
            )


def write(path: Path, rows: int) -> None:
    """Two views that share ten directions of falling strength, written block by block."""
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((SHARED, COLUMNS)).astype(np.float32)
    strength = np.linspace(1.0, 0.3, SHARED, dtype=np.float32)
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, COLUMNS))
    for start in range(0, rows, 100_000):
        stop = min(start + 100_000, rows)
        shared = rng.standard_normal((stop - start, SHARED), dtype=np.float32) * strength
        noise = rng.standard_normal((stop - start, COLUMNS), dtype=np.float32)
        file[start:stop] = shared @ loadings + 2 * noise + 1
    file.flush()


def child(script: str, **values: object) -> dict[str, float]:
    """Run a script in a fresh process and read the JSON that it prints."""
    begin = time.perf_counter()
    done = subprocess.run(  # noqa: S603  # our own scripts
        [sys.executable, "-c", script.format(**values)], check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    found["whole"] = time.perf_counter() - begin
    return found


def show(solver: str, options: dict[str, object], center: bool, found: dict[str, float]) -> None:
    """One line of the table."""
    print(
        f"  {solver:8s} {options!s:44s} center={center!s:5s}  resident +{found['peak'] - found['before']:.0f} MiB over "
        f"{found['before']:.0f} MiB  {found['seconds']:.1f} s  {found['passes']:g} passes  {found['iterations']:g} "
        f"iterations  sum {found['total']:.6f}  residual {found['residual']:.1e}  {found['status']}",
        flush=True,
    )


if __name__ == "__main__":
    main()
