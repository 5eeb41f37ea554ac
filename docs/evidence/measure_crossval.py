"""Print what cross-validation of a CCA over ridges, k and folds takes, and what another library takes for that grid.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_crossval.py --data FOLDER`; `--quick` takes small generated
data, `--sets` some of images, titles.

- images: halves of 60,000 digits, 392 + 392 columns, centred; 20 ridges x k from 1 to 20 x 5 folds, scored by the
  total correlation captured. Gram matrices are held: one pass.
- titles: words of 74,067 titles and queries, 18,608 + 7,949 sparse columns, uncentred. Dense Gram matrices would take
  5.6 GB a fold, so each ridge and fold is solved by `lobpcg` on the sparse Gram matrices of the fold, begun at the
  answer of the larger ridge; every k comes from the largest. `--ridges` says how many.

cca-zoo (`pip install cca-zoo==4.0.1`) is compared where it is installed: `GridSearchCV` over `RidgeCCA` with the same
folds, its shrinkage c = r / (r + m - 1) for the ridge r and m training rows. `--agreement` rows of the images say how
far its scores are from ours, total correlation captured computed by NumPy from its variates. Its whole grid would take
hours: `--peer-settings` of it are timed with its own score, and the rest is extrapolated. Seconds are those of the
processor.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import numpy as np
from datasets import mnist_halves, titles_and_queries
from showing import Claim, Report, Table, arguments, at_most
from timing import timed

import linspec as ls

FOLDS, RIDGES, K = 5, 20, 20

SAME = 1e-9
"""Scores are called the same up to this difference."""


def ridges_for(count: int, least: float, most: float) -> list[float]:
    """Ridges from the least to the most, in equal ratios."""
    return np.geomspace(least, most, count).tolist()


def images(report: Report) -> None:
    """The whole grid in one pass, beside the peer."""
    given = report.given
    X, Y = mnist_halves(given)
    k, count = (5, 4) if given.quick else (K, RIDGES)
    labels = np.random.default_rng(0).permutation(np.arange(len(X)) % FOLDS)
    ridges, ks = ridges_for(count, 0.1, 1e5), list(range(1, k + 1))
    problem = ls.CCA(X, Y, k)
    settings = {"ridges": ridges, "ks": ks, "splitter": labels, "score": "tcc"}
    found, watch = timed(ls.cross_validate, problem, **settings)
    bare, sweep = timed(ls.solve, ls.CCA(X, Y, k, ridge=1.0), "gram")
    table = tell(report, f"images, {X.shape[0]} x {X.shape[1]} + {Y.shape[1]}", found, watch.cpu)
    table.row("one solve of all rows by gram", bare.passes, sweep.cpu)
    if importlib.util.find_spec("cca_zoo") is None:
        print("\ncca-zoo is not installed")
        return
    few = agreement(X[: given.agreement], Y[: given.agreement], labels[: given.agreement], ks)
    taken = peer(X, Y, labels, ridges, ks, given.peer_settings)
    settings = f"{given.peer_settings} of {len(ridges) * len(ks)} settings"
    report.say([
        few,
        Claim(
            "the whole grid takes less time than that of cca-zoo", watch.cpu < taken,
            f"{taken:.0f} CPU s by extrapolation from {settings}, {taken / watch.cpu:.0f} times ours", own=True,
        ),
    ])  # fmt: skip


def splits_of(labels: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The rows of each fold and all others."""
    return [(np.flatnonzero(labels != fold), np.flatnonzero(labels == fold)) for fold in range(FOLDS)]


def captured(model: Any, views: Any) -> float:
    """Total correlation captured on rows, by QR of the variates about the training means."""
    P, Q = (np.linalg.qr(Z)[0] for Z in model.transform(views))
    return float(np.linalg.svd(P.T @ Q, compute_uv=False).sum())


def agreement(X: Any, Y: Any, labels: np.ndarray, ks: list[int]) -> Claim:
    """The largest difference of our scores from the peer's, on few rows."""
    from cca_zoo.linear import RidgeCCA
    from cca_zoo.model_selection import GridSearchCV

    labels = np.arange(len(labels)) % FOLDS  # folds of one size: the peer's shrinkage depends on it
    m = len(labels) - len(labels) // FOLDS
    X, Y, labels = (A[: m * FOLDS // (FOLDS - 1)] for A in (X, Y, labels))
    ridges, few = [10.0, 1e3, 1e5], [ks[0], ks[len(ks) // 2], ks[-1]]
    ours = ls.cross_validate(ls.CCA(X, Y, few[-1]), ridges=ridges, ks=few, splitter=labels, score="tcc")
    grid = {"shrinkage": [r / (r + m - 1) for r in ridges], "n_components": few}
    search = GridSearchCV(RidgeCCA(), grid, scoring=captured, cv=splits_of(labels), refit=False).fit([X, Y])
    theirs = np.empty_like(ours.scores)
    for place, params in enumerate(search.cv_results_["params"]):
        at = grid["shrinkage"].index(params["shrinkage"]), few.index(params["n_components"])
        theirs[:, at[0], at[1]] = [
            search.cv_results_[f"split{fold}_test_score"][place] for fold in range(FOLDS)
        ]
    worst, words = float(np.abs(ours.scores - theirs).max()), "our scores are those of cca-zoo"
    return at_most(
        words, worst, SAME, f"{theirs.size} scores on {len(X)} rows differ by at most {{value:.1e}}", own=True
    )


def peer(X: Any, Y: Any, labels: np.ndarray, ridges: list[float], ks: list[int], settings: int) -> float:
    """The CPU seconds of all settings of the grid, by extrapolation from some."""
    from cca_zoo.linear import RidgeCCA
    from cca_zoo.model_selection import GridSearchCV

    m = len(X) - len(X) // FOLDS
    grid = [
        {"shrinkage": [r / (r + m - 1)], "n_components": [ks[-1]]}
        for r in np.asarray(ridges)[np.linspace(0, len(ridges) - 1, settings).astype(int)].tolist()
    ]
    search = GridSearchCV(RidgeCCA(), grid, cv=splits_of(labels), refit=False)
    watch = timed(search.fit, [X, Y])[1]
    return watch.cpu / settings * len(ridges) * len(ks)


def titles(report: Report) -> None:
    """No dense Gram matrices: a solve for each ridge and fold."""
    given = report.given
    X, Y = titles_and_queries(given)
    k = 5 if given.quick else K
    labels = np.random.default_rng(0).permutation(np.arange(X.shape[0]) % FOLDS)
    if given.folds < FOLDS:
        labels[labels >= given.folds] = -1
    ridges, ks = ridges_for(given.ridges, 1.0, 100.0), list(range(1, k + 1))
    problem = ls.CCA(X, Y, k, center=False)
    search = {"form": "sparse", "solver": "lobpcg", "rng": 0, "tol": given.tol}
    settings = {"ridges": ridges, "ks": ks, "splitter": labels, "score": "tcc", **search}
    found, watch = timed(ls.cross_validate, problem, **settings)
    tell(report, f"titles, {X.shape[0]} x {X.shape[1]} + {Y.shape[1]}", found, watch.cpu)
    table = report.table("ridge::.3g", "mean score of the largest k::.4f")
    for ridge, score in zip(found.ridges, found.mean[:, -1], strict=True):
        table.row(ridge[0], score)


def tell(report: Report, name: str, found: Any, seconds: float) -> Table:
    """A table, and its first row."""
    splits, ridges, ks = found.scores.shape
    (ridge, k), place = found.best, np.unravel_index(found.mean.argmax(), found.mean.shape)
    simple = found.one_standard_error if splits > 1 else found.best
    table = report.table(
        "grid", "passes::g", "CPU s::.2f", "best ridge::.3g", "k", f"mean score, {found.label}::.4f",
        "standard error::.4f", "one standard error, ridge::.3g", "k",
    )  # fmt: skip
    scores = found.mean[place], found.standard_error[place]
    grid = f"{name}: {ridges} ridges x {ks} k x {splits} folds"
    table.row(grid, found.passes, seconds, ridge[0], k, *scores, simple.ridge[0], simple.k)
    return table


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=("images", "titles"), default=["images", "titles"])
    parser.add_argument("--agreement", type=int, default=3000, help="rows on which scores are compared")
    parser.add_argument(
        "--peer-settings", type=int, default=2, help="settings of the grid that the peer is timed on"
    )
    parser.add_argument("--ridges", type=int, default=RIDGES, help="ridges for the titles")
    parser.add_argument(
        "--folds", type=int, default=FOLDS, help="folds of five that are held out of the titles"
    )
    parser.add_argument("--tol", type=float, default=1e-4, help="tolerance for the titles")
    report = Report(parser)
    for name in report.given.sets:
        {"images": images, "titles": titles}[name](report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
