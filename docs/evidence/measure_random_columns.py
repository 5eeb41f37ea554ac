"""Print how many passes random columns beside the targets save conjugate gradients, and what arithmetic they cost.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_random_columns.py --data FOLDER`; `--quick` takes small
generated data, `--sources` measures the other part, `--cases` and `--only` some of its data and sources.

Tf-idf of 11,314 posts x 75,878 words, the first group as the only target, not centred, in memory, swept: ridge 1, and
a path of 50 ridges from 1 to 1000, each to a residual of 1e-8, by `cg` with 0 to 40 random columns, beside
`nystrom-pcg` and `lsqr`. Steps and passes do not depend on the machine.

sources: what the default of `random_columns` gains where rows are read anew for each pass. 3000 images of 784 pixels
(dense; 1, 5 and 20 targets: digits, and digits with more ink than usual), the words above in blocks of 1000 rows
(sparse), and 3000 rows of 784 columns of equal variance, where random columns can gain nothing. Each with a large and a
small ridge, by `cg` without random columns and by the default; where the default is none, with 20, in brackets. wall,
CPU: seconds over those without, median and largest over rounds, in which both take turns. Slow slices come as late as
from a disk of 100 MB a second.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from datasets import labelled, newsgroups
from showing import Claim, Report, arguments, at_most
from timing import alternate, ratios, timed

import linspec as ls
from linspec.rows import Passes
from linspec.solving.on_rows import moments_of
from linspec_lstsq.conjugate_gradients import columns_beside

COLUMNS = (0, 5, 10, 20, 40)
TRIED = 20
SLOW = 1e8
CASES = ("images", "words", "equal")


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--sources", action="store_true")
    parser.add_argument("--only", nargs="+", default=list(SOURCES), choices=SOURCES)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--rounds", type=int, default=3)
    report = Report(parser)
    if report.given.sources:
        show_sources(report)
    else:
        show_counts(report)
    return report.end()


def show_counts(report: Report) -> None:
    """Passes and processor seconds in memory, for several numbers of random columns."""
    A, groups = newsgroups(report.given)
    table = report.table(
        "ridges", "solver", "random columns", "steps", "passes", "CPU s::.2f", "residual::.1e"
    )
    found: dict[tuple[int, int], float] = {}
    for ridges in ([1.0], list(np.geomspace(1.0, 1000.0, 50))):
        problem = ls.LeastSquares(A, groups[:, :1], ridge=ridges)
        runs = [("cg", {"form": "implicit", "random_columns": columns}) for columns in COLUMNS]
        for name, options in [
            *runs,
            *([("nystrom-pcg", {"form": "implicit"}), ("lsqr", {})] if len(ridges) == 1 else []),
        ]:
            answer, watch = timed(lambda: ls.solve(problem, name, rng=0, **options))  # noqa: B023
            columns = options.get("random_columns", "")
            table.row(
                len(ridges), name, columns, answer.iterations, answer.passes, watch.cpu, answer.residual
            )
            if name == "cg":
                found[len(ridges), columns] = answer.passes
    saved = found[1, 0] / found[1, 20]
    same = found[50, 20] - found[1, 20]
    report.say(
        [
            Claim("20 random columns save 1.6 times the passes", saved >= 1.6, f"{saved:.2f}", own=True),
            Claim("50 ridges take the passes of one", same <= 0, f"{same:g} more", own=True),
        ]
    )


# ---- rows that are read anew for each pass -------------------------------------------------------------


def pieces(A: Any) -> list[Any]:
    """The rows in blocks of 300 dense or 1000 sparse rows."""
    height = 1000 if scipy.sparse.issparse(A) else 300
    return [A[start : start + height] for start in range(0, A.shape[0], height)]


def in_parts(A: Any, folder: Path) -> Callable[[], Iterator[Any]]:
    """A stream of the files of blocks: sparse ones compressed, dense ones as they are."""
    paths = []
    for i, block in enumerate(pieces(A)):
        if scipy.sparse.issparse(A):
            paths.append(folder / f"{i}.npz")
            scipy.sparse.save_npz(paths[-1], block)
        else:
            paths.append(folder / f"{i}.npy")
            np.save(paths[-1], block)
    load = scipy.sparse.load_npz if scipy.sparse.issparse(A) else np.load
    return lambda: (load(path) for path in paths)


def slowly(A: Any, folder: Path) -> Callable[[], Iterator[Any]]:
    """The same stream, each slice as late as from a slow disk."""
    stream = in_parts(A, folder)

    def late() -> Iterator[Any]:
        for block in stream():
            stored = (
                block.data.nbytes + block.indices.nbytes if scipy.sparse.issparse(block) else block.nbytes
            )
            time.sleep(stored / SLOW)
            yield block

    return late


def mapped(A: Any, folder: Path) -> str:
    """A `.npy` file."""
    np.save(folder / "a.npy", A)
    return str(folder / "a.npy")


def zarr_array(A: Any, folder: Path) -> str:
    """A compressed zarr array."""
    import zarr

    zarr.create_array(str(folder / "a.zarr"), shape=A.shape, chunks=(300, A.shape[1]), dtype="f8")[:] = A
    return str(folder / "a.zarr")


def parquet(A: Any, folder: Path) -> str:
    """A Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {f"c{j}": A[:, j] for j in range(A.shape[1])}
    pq.write_table(pa.table(columns), folder / "a.parquet", row_group_size=300)
    return str(folder / "a.parquet")


def dask_blocks(A: Any, folder: Path) -> Any:
    """Blocks that dask computes anew for each pass, from the files of the stream."""
    import dask

    from linspec.workers import BlockOperator
    from linspec_dask.engine import Recomputed

    in_parts(A, folder)
    paths = sorted(folder.glob("*.np?"))
    load = scipy.sparse.load_npz if scipy.sparse.issparse(A) else np.load
    return BlockOperator([dask.delayed(load)(path) for path in paths], Recomputed())


def cluster(A: Any, _: Path) -> Any:
    """An array of dask, whose blocks two workers hold."""
    import dask.array

    return dask.array.concatenate([dask.array.from_array(block) for block in pieces(A)])


SOURCES: dict[str, Callable[[Any, Path], Any]] = {
    "memory": lambda A, _: A,
    "npy, mapped": mapped,
    "zarr": zarr_array,
    "Parquet": parquet,
    "stream of files": in_parts,
    "stream of slow slices": slowly,
    "dask, computed anew": dask_blocks,
    "dask, two workers": cluster,
}


def show_sources(report: Report) -> None:
    """Seconds with the default number of random columns over those with none."""
    table = report.table(
        "data", "source", "targets", "ridge::g", "default", "passes without::g", "with::g", "wall::.2f",
        "worst::.2f", "CPU::.2f", "worst::.2f", title="sources",
    )  # fmt: skip
    gains: list[float] = []
    differences, more = [], []
    for data, A, B, ridges in cases(report.given):
        if data not in report.given.cases:
            continue
        for source in report.given.only:
            if source not in SUITABLE.get(data, SOURCES):
                continue
            with tempfile.TemporaryDirectory(prefix="linspec-columns-") as name, workers(source):
                made = SOURCES[source](A, Path(name))
                for m, ridge in product((1, 5, 20), ridges):
                    problem = ls.LeastSquares(made, B[:, :m], ridge=ridge)
                    default = columns_beside(problem, moments_of(problem, Passes()))
                    turns = alternate(
                        {
                            "none": partial(solved, problem, 0),
                            "some": partial(solved, problem, None if default else TRIED),
                        },
                        report.given.rounds,
                    )
                    none, some = turns["none"], turns["some"]
                    wall, passes = ratios(some.clock, none.clock), (none.answer.passes, some.answer.passes)
                    said = str(default) if default else f"0 ({TRIED})"
                    table.row(data, source, m, ridge, said, *passes, *wall, *some.over(none))
                    gap = np.abs(some.answer.x - none.answer.x).max() / np.abs(none.answer.x).max()
                    differences.append(float(gap))
                    if default and data == "images":
                        gains.append(wall[0])
                    if default:
                        more.append(passes[1] - passes[0])
    claims = [
        at_most(
            "the answers differ by the tolerance of 1e-8", max(differences), 1e-5, "{value:.0e}", own=True
        ),
        at_most("the default takes no more passes", max(more, default=0.0), 0, "{value:g} more", own=True),
    ]
    if gains and not report.given.quick:
        median, worst = float(np.median(gains)), max(gains)
        text = "where the default takes random columns for images, it saves a third of the time in the median"
        claims.append(Claim(text, median < 2 / 3, f"{median:.2f}, {worst:.2f} at worst", own=True))
    report.say(claims, "sources")


def cases(given: Any) -> Iterator[tuple[str, Any, Any, tuple[float, float]]]:
    """Names, rows, twenty targets, a large ridge and a small one."""
    X, digits = labelled(given, "mnist")
    X, digits = X[:3000], digits[:3000]
    ten = (digits[:, None] == np.unique(digits)[None, :]).astype(np.float64)
    ink = X.sum(axis=1)
    yield "images", X, np.hstack([ten, ten * (ink > np.median(ink))[:, None]]), (1000.0, 10.0)
    words, groups = newsgroups(given)
    yield "words", words, groups, (100.0, 1.0)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(X.shape)
    yield "equal", noise, noise @ rng.standard_normal((X.shape[1], 20)), (100.0, 1.0)


SUITABLE = {
    "words": ("memory", "stream of files", "stream of slow slices", "dask, computed anew"),
    "equal": ("zarr", "stream of files"),
}
"""Sources of some data; all of the others."""


@contextmanager
def workers(source: str) -> Iterator[None]:
    """Two workers of one thread each, if the source needs them."""
    if source != "dask, two workers":
        yield
        return
    from distributed import Client

    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None):
        yield


def solved(problem: Any, columns: int | None) -> Any:
    """Swept by `cg`."""
    return ls.solve(problem, "cg", form="implicit", random_columns=columns, rng=0)


if __name__ == "__main__":
    sys.exit(main())
