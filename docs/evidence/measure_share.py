"""Print how many triplets hold a share of the squares, beside the least number that does, and what finding them takes.

    OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_share.py numbers|cost --data FOLDER [--only TEXT] [--quick]

numbers: for shares from 0.5 to 0.9999, the least k by all exact singular values (NumPy, float64), the number of PCA of
scikit-learn by its full SVD where rows are dense and fit, and those of linspec by solver; block-krylov without Gram
matrices, from three seeds. None may be below the least, and none more than one above it.

cost: passes and processor seconds (median, worst) of linspec with a share, of the same solver with the k that is known
afterwards, of "auto", and of scikit-learn's full SVD. Methods take turns; a first round does not count.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import numpy as np
import scipy.sparse
from showing import Claim, Report, Rows, arguments
from sklearn.decomposition import PCA
from timing import alternate

import linspec as ls

SOLVERS = "gram", "direct", "block-krylov"
SHARES, SEEDS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.9999), range(3)
LARGEST = 2e7
"""Entries of dense rows of which scikit-learn computes a full SVD here."""


class Data(NamedTuple):
    """Rows as NumPy or SciPy has them, the same as linspec gets them, and whether columns are centred."""

    rows: Any
    passed: Any
    center: bool = True


Source = Callable[[argparse.Namespace, Path], Data]


def dense(name: str, rows: int | None = None) -> Source:
    def read(given: argparse.Namespace, folder: Path) -> Data:
        A = datasets.label_set(given, name).X[:rows]
        return Data(A, A)

    return read


def twice(given: argparse.Namespace, folder: Path) -> Data:
    """The digits beside themselves: half of the singular values are zero."""
    A = datasets.label_set(given, "optdigits").X
    return Data(np.hstack([A, A]), np.hstack([A, A]))


def single(given: argparse.Namespace, folder: Path) -> Data:
    A = datasets.label_set(given, "scene").X.astype(np.float32)
    return Data(A.astype(float), A)


def images(given: argparse.Namespace, folder: Path) -> Data:
    A = datasets.images(given)
    return Data(A, A)


def mapped(given: argparse.Namespace, folder: Path) -> Data:
    """The images as a float32 file that is mapped."""
    A = datasets.images(given).astype(np.float32)
    np.save(folder / "images.npy", A)
    return Data(A.astype(float), np.load(folder / "images.npy", mmap_mode="r"))


def hdf5(given: argparse.Namespace, folder: Path) -> Data:
    import h5py

    A = datasets.label_set(given, "usps").X
    with h5py.File(folder / "usps.h5", "w") as file:
        file["A"] = A
    return Data(A, h5py.File(folder / "usps.h5")["A"])


def sliced(given: argparse.Namespace, folder: Path) -> Data:
    """Slices of 500 rows, which a function yields anew."""
    A = datasets.label_set(given, "satimage").X
    return Data(A, lambda: (A[i : i + 500] for i in range(0, len(A), 500)))


def stories(rows: int, given: argparse.Namespace, folder: Path) -> Data:
    A = datasets.news_stories(given)[:rows]
    return Data(A, A, center=False)


def posts(rows: int, given: argparse.Namespace, folder: Path) -> Data:
    A = scipy.sparse.csr_matrix(datasets.newsgroups(given)[0][:rows])
    return Data(A, A)


SETS: dict[str, Source] = {
    "wine, dense": dense("wine"),
    "ionosphere, a constant column": dense("ionosphere"),
    "yeast, dense": dense("yeast"),
    "scene, float32": single,
    "digits, dense": dense("optdigits"),
    "digits twice, half of the rank": twice,
    "satimage, slices": sliced,
    "usps, HDF5": hdf5,
    "usps, 100 rows: wide": dense("usps", 100),
    "images, dense": images,
    "images, float32 file": mapped,
    "stories, 1500 rows: sparse, not centred": partial(stories, 1500),
    "posts, 800 rows: sparse, centred": partial(posts, 800),
}


def squared_values(data: Data) -> np.ndarray:
    """All squared singular values, decreasing, by NumPy."""
    A, (n, p) = data.rows, data.rows.shape
    if not scipy.sparse.issparse(A):
        A = A - A.mean(axis=0)
        return np.linalg.svd(A if n < 20_000 else np.linalg.qr(A, mode="r"), compute_uv=False) ** 2
    G = (A @ A.T).toarray()
    if data.center:  # rows less their mean: from both sides of the products of rows
        G = G - G.mean(axis=0)
        G = G - G.mean(axis=1)[:, None]
    return np.maximum(np.linalg.eigvalsh(G)[::-1], 0.0)[: min(n, p)]


def least(squares: np.ndarray, share: float) -> int:
    """The least number of values that hold a share."""
    return int(np.searchsorted(np.cumsum(squares), share * squares.sum())) + 1


def solved(data: Data, share: float, solver: str, seed: int = 0) -> Any:
    form = {"form": "implicit"} if solver == "block-krylov" else {}
    return ls.solve(ls.SVD(data.passed, share, center=data.center), solver, rng=seed, **form)


def numbers(only: str, given: argparse.Namespace) -> Iterator[tuple[Any, ...]]:
    for name, source in SETS.items():
        if only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            data = source(given, Path(folder))
            squares = squared_values(data)
            small = not scipy.sparse.issparse(data.rows) and data.rows.size <= LARGEST
            for share in SHARES:
                peer = PCA(share, svd_solver="full").fit(data.rows).n_components_ if small else None
                exact = ("gram",) if scipy.sparse.issparse(data.rows) else ("gram", "direct")
                answers = {solver: [solved(data, share, solver)] for solver in exact}
                answers["block-krylov"] = [solved(data, share, "block-krylov", seed) for seed in SEEDS]
                counts = {solver: [len(answer.S) for answer in some] for solver, some in answers.items()}
                k = least(squares, share)
                every = [count - k for some in counts.values() for count in some]
                status = {answer.status.name for some in answers.values() for answer in some}
                texts = [" ".join(map(str, counts.get(solver, "-"))) for solver in SOLVERS]
                yield name, share, k, peer, *texts, min(every), max(every), " ".join(sorted(status))


COSTS = {
    "digits, dense": (0.9,),
    "usps, HDF5": (0.9,),
    "images, dense": (0.8, 0.95),
    "images, float32 file": (0.8, 0.95),
    "stories, 1500 rows: sparse, not centred": (0.5, 0.8),
    "posts, 800 rows: sparse, centred": (0.5, 0.8),
}


def costs(report: Report) -> Iterator[tuple[Any, ...]]:
    """Rows of figures: of block-krylov with a share and with the k of its answer, of "auto", and of scikit-learn."""
    for name, shares in COSTS.items():
        if report.given.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            data = SETS[name](report.given, Path(folder))
            for share in shares:
                k = len(solved(data, share, "block-krylov").S)
                calls = {
                    "block-krylov, share": partial(solved, data, share, "block-krylov"),
                    "block-krylov, k": partial(solved, data, k, "block-krylov"),
                    "auto, share": partial(solved, data, share, "auto"),
                    "auto, k": partial(solved, data, k, "auto"),
                }
                if not scipy.sparse.issparse(data.rows) and data.rows.size <= 3 * LARGEST:
                    calls["scikit-learn, full"] = partial(PCA(share, svd_solver="full").fit, data.rows)
                turns = alternate(calls, report.given.rounds + 1, enough=120.0, warm=True)
                for way, taken in turns.items():
                    passes = getattr(taken.answer, "passes", None)
                    solver = getattr(taken.answer, "solver", "")
                    ratio = taken.over(turns[way.replace("share", "k")]) if "share" in way else (None, None)
                    yield name, share, k, f"{way} {solver}", passes, taken.median, max(taken.cpu), *ratio


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("part", choices=["numbers", "cost"])
    parser.add_argument("--only", default="", help="data with this in their names")
    parser.add_argument("--rounds", type=int, default=5)
    report = Report(parser)
    if report.given.part == "numbers":
        columns = "data share least scikit-learn gram direct block-krylov fewest most status"
        rows = report.rows("numbers of triplets", columns, numbers(report.given.only, report.given))
        report.say(judged(rows))
    else:
        columns = "data share k method passes::.0f CPU-s::.3f worst::.3f over-k::.2f worst-over::.2f"
        rows = report.rows("cost", columns, costs(report))
        grown = [row["over-k"] for row in rows if row["method"].startswith("block-krylov, share")]
        text = "in the median, finding k takes block-krylov at most 1.5 times what it takes with k"
        report.say(
            [Claim(text, float(np.median(grown)) <= 1.5, f"{np.median(grown):.2f}, {max(grown):.2f} at most")]
        )
    return report.end()


def judged(rows: Rows) -> list[Claim]:
    """None is short, none is more than one too many, and scikit-learn has the same number."""
    fewest, most = min(rows.of("fewest")), max(rows.of("most"))
    equal = [row["scikit-learn"] == row["least"] for row in rows if row["scikit-learn"] is not None]
    return [
        Claim("no number is below the least", fewest >= 0, f"{fewest} at worst of {len(rows)}", own=True),
        Claim("none is more than one above it", most <= 1, f"{most} at worst", own=True),
        Claim("scikit-learn has the least number", all(equal), f"{sum(equal)} of {len(equal)}"),
    ]


if __name__ == "__main__":
    sys.exit(main())
