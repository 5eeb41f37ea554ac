"""Print what a pass over rows in files takes: zarr, HDF5 and Parquet beside arrays in memory and mapped ones.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_sources.py` in an environment with zarr, h5py and pyarrow;
`--quick` takes small data, `--parts passes large fused groups` a choice of the parts, `--gigabytes` another size of the
large file, `--runs` a choice of what is solved on it, `--folder` where the files are written, which are removed at
the end.

passes: 400,000 rows of 100 float32 columns, rounded to 1/64 so that they compress a little, times 30 columns, with one
thread of linspec and of the BLAS. CPU: processor seconds of a pass, the mean of five after a first one, with the
next slab decoded by a thread and without. Wall: the least of them; "of the larger" is the wall with the thread
over the larger one of decoding alone and the product alone (that of the array in memory).
large: a compressed zarr array of many gigabytes and one of a tenth as many columns, written block by block. Three
runs, each a process of its own: SVD by gram of the first, CCA of both by gram and, four passes long, by lobpcg. Of each
its passes, seconds, and the peak of its resident set, imports included, beside that after the imports.
fused: two files as the views of a CCA: passes, beside those of arrays.
groups: a Parquet file of 1.2 GB in three row groups: the peak of five processes that solve an SVD of it by gram.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from datasets import planted_blocks
from showing import Report, arguments, at_most
from timing import alternate, apart, resident, timed

PARTS = ("passes", "large", "fused", "groups")
COLUMNS, WIDTH, CHUNK, RANK = 100, 30, 20_000, 10
LARGE_COLUMNS, LARGE_CHUNK = 1000, 4096


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--gigabytes", type=float, default=6.0)
    parser.add_argument("--runs", nargs="+", default=list(RUNS), choices=RUNS)
    parser.add_argument("--folder", type=Path)
    report = Report(parser)
    given = report.given
    os.environ["LINSPEC_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="linspec-sources-", dir=given.folder) as name:
        folder = Path(name)
        if "passes" in given.parts:
            passes(report, folder, 20_000 if given.quick else 400_000)
        if "large" in given.parts:
            large(report, folder, 0.05 if given.quick else given.gigabytes)
        if "fused" in given.parts:
            fused(report, folder, 20_000 if given.quick else 100_000)
        if "groups" in given.parts:
            groups(report, folder, 30_000 if given.quick else 1_500_000)
    return report.end()


def blocks(rows: int, columns: int = COLUMNS, size: int = CHUNK) -> Iterator[tuple[int, np.ndarray]]:
    """Planted factors and noise, rounded to 1/64."""
    for start, block in planted_blocks(rows, columns, factors=RANK, weakest=0.5, noise=0.5, size=size):
        yield start, np.round(block * 64) / 64


def written(folder: Path, rows: int) -> dict[str, Path]:
    """The files of one matrix."""
    import h5py
    import pyarrow as pa
    import pyarrow.parquet as pq
    import zarr

    shape, chunks = (rows, COLUMNS), (min(CHUNK, rows), COLUMNS)
    found = {
        "npy map": folder / "a.npy",
        "zarr raw": folder / "raw.zarr",
        "zarr zstd": folder / "zstd.zarr",
        "h5 raw": folder / "raw.h5",
        "h5 gzip": folder / "gzip.h5",
        "Parquet": folder / "a.parquet",
    }
    mapped = np.lib.format.open_memmap(found["npy map"], "w+", "f4", shape)
    raw = zarr.create_array(str(found["zarr raw"]), shape=shape, chunks=chunks, dtype="f4", compressors=None)
    zstd = zarr.create_array(str(found["zarr zstd"]), shape=shape, chunks=chunks, dtype="f4")
    files = [h5py.File(found["h5 raw"], "w"), h5py.File(found["h5 gzip"], "w")]
    plain = files[0].create_dataset("a", shape, "f4", chunks=chunks)
    gzip = files[1].create_dataset(
        "a", shape, "f4", chunks=chunks, compression="gzip", compression_opts=1, shuffle=True
    )
    schema = pa.schema([(f"c{j}", pa.float32()) for j in range(COLUMNS)])
    with pq.ParquetWriter(found["Parquet"], schema) as table:
        for start, block in blocks(rows):
            for array in (mapped, raw, zstd, plain, gzip):
                array[start : start + len(block)] = block
            table.write_table(pa.table(list(block.T.copy()), schema=schema), row_group_size=CHUNK)
    mapped.flush()
    for file in files:
        file.close()
    return found


def seconds_of(run: Any) -> tuple[float, float]:
    """Processor seconds, the mean, and wall seconds, the least, of five runs after one that is not counted."""
    turns = alternate({"": run}, 6, warm=True)[""]
    return sum(turns.cpu) / len(turns.cpu), min(turns.clock)


def passes(report: Report, folder: Path, rows: int) -> None:
    """CPU and wall seconds of a pass."""
    import linspec as ls
    from linspec_files import slabs

    V = np.random.default_rng(1).standard_normal((COLUMNS, WIDTH))
    files = written(folder, rows)
    A = np.load(files["npy map"])
    table = report.table(
        "rows in", "MB::.0f", "decode CPU::.2f", "CPU::.2f", "CPU, no thread::.2f", "decode wall::.2f", "wall::.2f",
        "wall, no thread::.2f", "of the larger::.2f",
        title=f"{rows:,} x {COLUMNS} float32, products with {WIDTH} columns; {os.cpu_count()} cores",
    )  # fmt: skip
    product = 0.0
    for name, data in {"memory": A, **files}.items():
        operator = ls.as_operator(str(data) if isinstance(data, Path) else data)
        moments = ls.Moments(operator, form="implicit")

        def swept(moments: Any = moments) -> Any:
            return moments.products(V)

        decode, ahead, alone = (0.0, 0.0), (0.0, 0.0), seconds_of(swept)
        if hasattr(operator, "source"):
            source = operator.source
            spans = list(pairwise(source.edges.tolist()))
            decode = seconds_of(
                lambda source=source, spans=spans: [source.read(*rows) for rows in spans] and None
            )
            ahead = alone
            slabs.READING_AHEAD = False
            alone = seconds_of(swept)
            slabs.READING_AHEAD = True
        product = product or alone[1]
        pairs = (decode[0], ahead[0], alone[0], decode[1], ahead[1], alone[1])
        ratio = ahead[1] / max(decode[1], product) if ahead[1] else None
        table.row(name, size(data) / 2**20, *pairs, ratio)


def size(data: Any) -> int:
    """Bytes of an array, a file or a folder."""
    if not isinstance(data, Path):
        return int(data.nbytes)
    files = data.rglob("*") if data.is_dir() else [data]
    return sum(file.stat().st_size for file in files if file.is_file())


def large(report: Report, folder: Path, gigabytes: float) -> None:
    """Arrays that are much larger than the memory of the processes that solve."""
    import zarr

    rows = int(gigabytes * 1e9 / (4 * LARGE_COLUMNS)) // LARGE_CHUNK * LARGE_CHUNK
    arrays = [
        zarr.create_array(
            str(folder / name), shape=(rows, columns), chunks=(LARGE_CHUNK, columns), dtype="f4"
        )
        for name, columns in (("large.zarr", LARGE_COLUMNS), ("beside.zarr", LARGE_COLUMNS // 10))
    ]
    distinct = [block for _, block in blocks(4 * LARGE_CHUNK, LARGE_COLUMNS, LARGE_CHUNK)]
    rng = np.random.default_rng(1)
    noise = [rng.integers(-64, 65, (LARGE_CHUNK, LARGE_COLUMNS // 10)).astype("f4") / 64 for _ in range(4)]
    for i, start in enumerate(range(0, rows, LARGE_CHUNK)):
        span = slice(start, start + LARGE_CHUNK)
        arrays[0][span] = distinct[i % 4]
        arrays[1][span] = distinct[i % 4][:, : LARGE_COLUMNS // 10] + noise[i % 4]
    on_disk = sum(size(folder / name) for name in ("large.zarr", "beside.zarr"))
    table = report.table(
        "run", "status", "passes::g", "CPU s::.0f", "clock::.0f", "peak, MB::.0f", "after the imports, MB::.0f",
        title=f"zarr, {rows:,} x {LARGE_COLUMNS} float32: {rows * LARGE_COLUMNS * 4 / 1e9:.1f} GB, beside it "
        f"{LARGE_COLUMNS // 10} columns; {on_disk / 1e9:.1f} GB on disk",
    )  # fmt: skip
    for run in report.given.runs:
        found = apart(large_child, run, str(folder))
        fields = ("said", "passes", "cpu", "clock", "peak", "before")
        table.row(run, *(found.get(field) for field in fields))


RUNS = ("SVD by gram", "CCA by gram", "CCA by lobpcg")


def large_child(run: str, folder: str) -> dict[str, Any]:
    """Solve, and say what it took."""
    import linspec as ls

    A, B = (ls.open_rows(str(Path(folder) / name)) for name in ("large.zarr", "beside.zarr"))
    before, mb = resident(), 2**20 / 1e6
    if run == "SVD by gram":
        found, watch = timed(ls.solve, ls.SVD(A, k=RANK, center=True), "gram", rng=0)
    elif run == "CCA by gram":
        found, watch = timed(ls.solve, ls.CCA(A, B, k=RANK, ridge=1.0), "gram", rng=0)
    else:
        swept = {"form": "implicit", "rng": 0, "max_passes": 4}
        found, watch = timed(ls.solve, ls.CCA(A, B, k=RANK, ridge=1.0), "lobpcg", **swept)
    spent = {"cpu": watch.cpu, "clock": watch.clock, "peak": mb * resident(), "before": mb * before}
    return {"said": found.status.name, "passes": found.passes, **spent}


def fused(report: Report, folder: Path, rows: int) -> None:
    """Two files as the views of a CCA."""
    import zarr

    import linspec as ls

    A = np.concatenate([block for _, block in blocks(rows)])
    views = A[:, :60].copy(), A[:, 60:].copy()
    paths = [str(folder / "x.zarr"), str(folder / "y.zarr")]
    for path, view, chunk in zip(paths, views, (CHUNK, 3001), strict=True):
        zarr.create_array(path, shape=view.shape, chunks=(min(chunk, rows), view.shape[1]), dtype="f4")[:] = (
            view
        )
    settings: dict[str, Any] = {"form": "implicit", "rng": 0, "tol": 1e-4}
    answers = [ls.solve(ls.CCA(*pair, k=3), "lobpcg", **settings) for pair in (paths, views)]
    gap = np.abs(answers[0].correlations - answers[1].correlations).max()
    moments = ls.Moments(*paths, form="implicit")
    moments.products(np.eye(60, 1), np.eye(A.shape[1] - 60, 1))
    both = moments.passes
    found, held = (answer.passes for answer in answers)
    title = f"CCA of two zarr arrays, {rows:,} rows, chunks of {CHUNK} and 3001 rows"
    table = report.table("passes over each::g", "of arrays::g", "passes for a sweep of both::g", title=title)
    table.row(found, held, both)
    text = "the correlations are those of arrays"
    report.say([at_most(text, float(gap), SAME, "differ by {value:.0e}", own=True)])


def groups(report: Report, folder: Path, rows: int) -> None:
    """A Parquet file of a few large row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, rng = folder / "groups.parquet", np.random.default_rng(0)
    schema = pa.schema([(f"c{j}", pa.float64()) for j in range(COLUMNS)])
    with pq.ParquetWriter(path, schema) as table:
        for _ in range(3):
            columns = [rng.standard_normal(rows // 3) for _ in range(COLUMNS)]
            table.write_table(pa.table(columns, schema=schema), row_group_size=rows // 3)
    fields = ("passes", "cpu", "clock", "peak", "before")
    table = report.table(
        "run", "passes::g", "CPU s::.1f", "clock::.1f", "peak, MB::.0f", "after the imports, MB::.0f",
        title=f"Parquet, {rows:,} x {COLUMNS} float64 in 3 row groups: {size(path) / 1e9:.2f} GB",
    )  # fmt: skip
    found = [apart(groups_child, str(path)) for _ in range(5)]
    for number, one in enumerate(found):
        table.row(str(number), *(one.get(field) for field in fields))
    code = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    bare = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)  # noqa: S603
    beyond = max(one["peak"] for one in found) - int(bare.stdout) * 2**10 / 1e6
    text = "the largest peak is at most 550 MB beyond a bare interpreter"
    report.say([at_most(text, beyond, MOST_OF_GROUPS, "{value:.0f} MB", own=True)])


def groups_child(path: str) -> dict[str, Any]:
    """Solve, and say what it took."""
    import linspec as ls

    A, mb = ls.open_rows(path), 2**20 / 1e6
    before = mb * resident()
    found, watch = timed(ls.solve, ls.SVD(A, k=5, center=True), "gram", rng=0)
    spent = {"cpu": watch.cpu, "clock": watch.clock, "peak": mb * resident(), "before": before}
    return {"passes": found.passes, **spent}


MOST_OF_GROUPS = 550.0
"""Largest memory of a process that solves a file of large row groups, beyond a bare interpreter, in MB."""

SAME = 1e-8
"""Correlations are called the same up to this difference."""


if __name__ == "__main__":
    sys.exit(main())
