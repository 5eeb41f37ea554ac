"""Print what a pass over rows in files takes: zarr, HDF5 and Parquet beside arrays in memory and mapped ones.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_sources.py` in an environment with zarr, h5py and pyarrow;
`--quick` takes small data, `--parts passes large fused` a choice of the parts, `--gigabytes` another size of the
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
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

PARTS = ("passes", "large", "fused")
COLUMNS, WIDTH, CHUNK, RANK = 100, 30, 20_000, 10
LARGE_COLUMNS, LARGE_CHUNK = 1000, 4096


def main() -> None:
    """Measure and print."""
    from datasets import arguments

    parser = arguments(__doc__ or "")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--gigabytes", type=float, default=6.0)
    parser.add_argument("--runs", nargs="+", default=list(RUNS), choices=RUNS)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--child", nargs=2, metavar=("RUN", "FOLDER"), help="one run of the large part")
    given = parser.parse_args()
    if given.child:
        print(large_child(*given.child))
        return
    os.environ["LINSPEC_NUM_THREADS"] = "1"
    folder = Path(tempfile.mkdtemp(prefix="linspec-sources-", dir=given.folder))
    try:
        if "passes" in given.parts:
            passes(folder, 20_000 if given.quick else 400_000)
        if "large" in given.parts:
            large(folder, 0.05 if given.quick else given.gigabytes, given.runs)
        if "fused" in given.parts:
            fused(folder, 20_000 if given.quick else 100_000)
    finally:
        shutil.rmtree(folder)


def blocks(rows: int, columns: int = COLUMNS, size: int = CHUNK) -> Iterator[tuple[int, np.ndarray]]:
    """Planted factors and noise, rounded to 1/64."""
    rng = np.random.default_rng(0)
    factors = (
        rng.standard_normal((RANK, columns), dtype="f4") * np.linspace(1, 0.5, RANK, dtype="f4")[:, None]
    )
    for start in range(0, rows, size):
        count = min(size, rows - start)
        noise = rng.standard_normal((count, columns), dtype="f4") / 2
        yield start, np.round((rng.standard_normal((count, RANK), dtype="f4") @ factors + noise) * 64) / 64


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


def timed(run: Callable[[], Any], times: int = 5) -> tuple[float, float]:
    """Processor seconds, the mean, and wall seconds, the least, after one run that is not counted."""
    run()
    walls, cpu = [], time.process_time()
    for _ in range(times):
        began = time.perf_counter()
        run()
        walls.append(time.perf_counter() - began)
    return (time.process_time() - cpu) / times, min(walls)


def passes(folder: Path, rows: int) -> None:
    """CPU and wall seconds of a pass."""
    from least_squares_law import print_head, print_row

    import linspec as ls
    from linspec_files import slabs

    V = np.random.default_rng(1).standard_normal((COLUMNS, WIDTH))
    files = written(folder, rows)
    A = np.load(files["npy map"])
    print(f"{rows:,} x {COLUMNS} float32, products with {WIDTH} columns; {os.cpu_count()} cores")
    print_head(
        "rows in",
        "MB",
        "decode CPU",
        "CPU",
        "CPU, no thread",
        "decode wall",
        "wall",
        "wall, no thread",
        "of the larger",
    )
    product = 0.0
    for name, data in {"memory": A, **files}.items():
        operator = ls.as_operator(str(data) if isinstance(data, Path) else data)
        moments = ls.Moments(operator, form="implicit")
        decode, ahead, alone = (0.0, 0.0), (0.0, 0.0), timed(lambda moments=moments: moments.products(V))
        if hasattr(operator, "source"):
            source = operator.source
            spans = [slice(int(a), int(b)) for a, b in zip(source.edges[:-1], source.edges[1:], strict=True)]
            decode = timed(lambda source=source, spans=spans: [source.read(rows) for rows in spans] and None)
            ahead = alone
            slabs.READING_AHEAD = False
            alone = timed(lambda moments=moments: moments.products(V))
            slabs.READING_AHEAD = True
        product = product or alone[1]
        cells = [
            f"{size(data) / 2**20:.0f}",
            *(f"{x:.2f}" for x in (decode[0], ahead[0], alone[0], decode[1], ahead[1], alone[1])),
        ]
        print_row((name, *cells, f"{ahead[1] / max(decode[1], product):.2f}" if ahead[1] else "-"))


def size(data: Any) -> int:
    """Bytes of an array, a file or a folder."""
    if not isinstance(data, Path):
        return int(data.nbytes)
    files = data.rglob("*") if data.is_dir() else [data]
    return sum(file.stat().st_size for file in files if file.is_file())


def large(folder: Path, gigabytes: float, runs: list[str]) -> None:
    """Arrays that are much larger than the memory of the processes that solve."""
    import zarr

    rows = int(gigabytes * 1e9 / (4 * LARGE_COLUMNS)) // LARGE_CHUNK * LARGE_CHUNK
    began = time.perf_counter()
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
    print(
        f"\nzarr, {rows:,} x {LARGE_COLUMNS} float32: {rows * LARGE_COLUMNS * 4 / 1e9:.1f} GB, beside it "
        f"{LARGE_COLUMNS // 10} columns; {on_disk / 1e9:.1f} GB on disk, written in "
        f"{time.perf_counter() - began:.0f} s",
        flush=True,
    )
    for run in runs:
        found = subprocess.run(  # noqa: S603  # this file
            [sys.executable, __file__, "--child", run, str(folder)],
            capture_output=True,
            text=True,
            check=True,
        )
        print(found.stdout.strip(), flush=True)


RUNS = ("SVD by gram", "CCA by gram", "CCA by lobpcg")


def large_child(run: str, folder: str) -> str:
    """Solve, and say what it took."""
    import linspec as ls

    A, B = (ls.open_rows(str(Path(folder) / name)) for name in ("large.zarr", "beside.zarr"))
    before, began, cpu = peak(), time.perf_counter(), time.process_time()
    if run == "SVD by gram":
        found: Any = ls.solve(ls.SVD(A, k=RANK, center=True), "gram", rng=0)
    elif run == "CCA by gram":
        found = ls.solve(ls.CCA(A, B, k=RANK, ridge=1.0), "gram", rng=0)
    else:
        problem = ls.CCA(A, B, k=RANK, ridge=1.0)
        found = ls.solve(problem, "lobpcg", form="implicit", rng=0, max_passes=4)
    return (
        f"{run}: {found.status.name}, {found.passes:g} passes, {time.process_time() - cpu:.0f} CPU s, "
        f"{time.perf_counter() - began:.0f} s, peak {peak():.0f} MB ({before:.0f} MB after the imports)"
    )


def peak() -> float:
    """The peak of the resident set in MB, as Linux tells it of this program alone."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM"))


def fused(folder: Path, rows: int) -> None:
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
    both = ls.Moments(*paths, form="implicit").sweep_cost
    found, held = (answer.passes for answer in answers)
    print(
        f"\nCCA of two zarr arrays, {rows:,} rows, chunks of {CHUNK} and 3001 rows: {found:g} passes over each"
    )
    print(f"({held:g} of arrays), {both:g} pass for a sweep of both; correlations differ by {gap:.0e}")


if __name__ == "__main__":
    main()
