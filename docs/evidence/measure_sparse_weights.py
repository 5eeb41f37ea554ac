"""Print sparse weights beside other programs, planted supports, a path of bounds, and wide sparse rows.

    OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_sparse_weights.py [PART ...] [--zoo PYTHON] [--pma LIBRARY]
        [--data FOLDER] [--draws 100] [--quick]

covariances, correlations: random draws, seeds 0, 1, ...; every fifth has no relation. Objectives over those of the
other program minus 1, at the bounds that its weights reach. PYTHON is an interpreter that has cca-zoo, LIBRARY a folder
of R with PMA; both run in a process of their own, all draws in one, and time themselves. `ADMMCCA` has a penalty: its
weights are scaled to scores of length 1, and their P is the bound for linspec.

supports: of planted columns, after Witten, Tibshirani & Hastie 2009, section 4 (equal weights on blocks of columns) and
Suo et al. 2017, section 5 (five columns of a Toeplitz covariance, a canonical correlation of .9; the bound is that of
the planted weights). The share of draws whose largest weights are those columns, and the false zeros and false others
of all weights, in % of the columns.

path: 50 bounds from shared moments. wide: posts times words of 20 newsgroups, two components of words.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
from showing import Claim, Report, arguments

import linspec as ls

ZOO = """
import sys, time, warnings, numpy as np
from cca_zoo.sparse import ADMMCCA, PMDCCA
warnings.simplefilter("ignore")
draws, made = np.load(sys.argv[1]), {}
for s in range(len(draws.files) // 3):
    views, bounds = [draws[f"X{s}"], draws[f"Y{s}"]], draws[f"c{s}"]
    shares = [c / V.shape[1] ** 0.5 for c, V in zip(bounds, views)]
    for name, model in {
        "pmd": PMDCCA(l1_bound=shares, random_state=s, max_iter=5000, tol=1e-10),
        "admm": ADMMCCA(alpha=0.2, random_state=s),
    }.items():
        begun = time.process_time()
        u, v = model.fit(views).weights_
        made |= {f"{name}u{s}": u, f"{name}v{s}": v, f"{name}t{s}": time.process_time() - begun}
np.savez(sys.argv[2], **made)
"""

PMA = """
args <- commandArgs(TRUE); .libPaths(c(args[1], .libPaths())); library(PMA)
read <- function(name, s) as.matrix(read.csv(sprintf("%s/%s%d.csv", args[2], name, s), header = FALSE))
for (s in 0:(as.integer(args[3]) - 1)) {
  X <- read("X", s); Y <- read("Y", s); c <- read("c", s)
  begun <- proc.time()[["user.self"]]
  fit <- CCA(X, Y, penaltyx = c[1] / sqrt(ncol(X)), penaltyz = c[2] / sqrt(ncol(Y)), niter = 500,
             standardize = FALSE, trace = FALSE)
  spent <- proc.time()[["user.self"]] - begun
  write(c(spent, fit$u, fit$v), sprintf("%s/w%d.txt", args[2], s), ncolumns = 1)
}
"""

PARTS = ("covariances", "correlations", "supports", "path", "wide")


def draw(seed: int) -> tuple[Any, Any, np.ndarray]:
    """Views and bounds; columns share two variables, or none in every fifth draw."""
    rng = np.random.default_rng(seed)
    n, (p, q), share = (
        (50, 200)[seed % 2],
        ((40, 30), (120, 80), (60, 60))[seed % 3],
        (0.25, 0.4, 0.6, 0.8)[seed % 4],
    )
    common, X, Y = (rng.standard_normal((n, columns)) for columns in (2, p, q))
    if seed % 5:
        X[:, :12] += np.repeat(common * [1.0, 0.7], 6, axis=1)
        Y[:, :10] += np.repeat(common * [1.0, 0.7], 5, axis=1)
    return X - X.mean(axis=0), Y - Y.mean(axis=0), np.maximum(share * np.sqrt([p, q]), 1.0)


Weights = dict[int, tuple[Any, Any, float]]  # by seed: u, v and CPU seconds


def by_zoo(python: str, count: int, folder: Path) -> tuple[Weights, Weights]:
    """The weights of PMDCCA and of ADMMCCA."""
    views = {f"{name}{s}": V for s in range(count) for name, V in zip("XYc", draw(s), strict=True)}
    np.savez(folder / "draws.npz", **views)
    subprocess.run([python, "-c", ZOO, folder / "draws.npz", folder / "zoo.npz"], check=True)  # noqa: S603
    made = np.load(folder / "zoo.npz")
    pmd, admm = (
        {
            s: (made[f"{kind}u{s}"][:, 0], made[f"{kind}v{s}"][:, 0], float(made[f"{kind}t{s}"]))
            for s in range(count)
        }
        for kind in ("pmd", "admm")
    )
    return pmd, admm


def by_pma(library: str, count: int, folder: Path) -> Weights:
    """The weights of CCA of PMA."""
    for s in range(count):
        for name, V in zip("XYc", draw(s), strict=True):
            np.savetxt(folder / f"{name}{s}.csv", np.atleast_2d(V), delimiter=",")
    (folder / "pma.R").write_text(PMA)
    command = [shutil.which("Rscript") or "Rscript", folder / "pma.R", library, folder, str(count)]
    subprocess.run(command, check=True)  # noqa: S603
    found = {}
    for s in range(count):
        seconds, *w = np.loadtxt(folder / f"w{s}.txt")
        p = draw(s)[0].shape[1]
        found[s] = np.array(w[:p]), np.array(w[p:]), float(seconds)
    return found


def compared(kind: str, weights: Weights) -> Iterator[tuple[Any, ...]]:
    """The objective of linspec over that of other weights minus 1, at the bounds that these reach; CPU seconds."""
    for seed, (u, v, seconds) in weights.items():
        X, Y, _ = draw(seed)
        exact = kind == "SparseCCA"
        lengths = (
            [np.linalg.norm(X @ u), np.linalg.norm(Y @ v)]
            if exact
            else [np.linalg.norm(u), np.linalg.norm(v)]
        )
        if min(lengths) == 0:
            continue
        u, v = u / lengths[0], v / lengths[1]
        d = [np.linalg.norm(V, axis=0) if exact else np.ones(V.shape[1]) for V in (X, Y)]
        bounds = [max(float(a @ np.abs(w)), 1.0) for a, w in zip(d, (u, v), strict=True)]
        begun = time.process_time()
        solution = ls.solve(getattr(ls, kind)(X, Y, 1, *bounds), rng=seed, tol=1e-6 if exact else 1e-8)
        spent = time.process_time() - begun
        yield seed, solution.values[0] / (u @ X.T @ Y @ v) - 1, spent, seconds, solution.status.name


def supports(draws: int) -> Iterator[tuple[Any, ...]]:
    """How often planted columns have the largest weights, and what is wrong of all."""
    for name, n, p, size, kind, bound in (
        ("Witten: blocks of 20 of 100, PLS", 50, 100, 20, "SparsePLS", 20**0.5),
        ("Suo: 5 of 100, Toeplitz .0, CCA", 400, 100, 5, "SparseCCA", 0.0),
        ("Suo: 5 of 100, Toeplitz .3, CCA", 400, 100, 5, "SparseCCA", 0.0),
        ("Suo: 5 of 100, Toeplitz .9, CCA", 400, 100, 5, "SparseCCA", 0.0),
    ):
        hits, false_zeros, false_others = [], [], []
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            if "Witten" in name:
                truth = np.arange(p) < size
                shared = rng.standard_normal((n, 1))
                X, Y = (shared * truth + 0.7 * rng.standard_normal((n, p)) for _ in "XY")
            else:
                rho = float(name.split()[-2].strip(",")) if "Toeplitz" in name else 0.0
                truth = np.isin(np.arange(p), np.arange(0, 50, 10))
                S = rho ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
                u = truth / np.sqrt(truth @ S @ truth)
                bound = float(u.sum())  # that of the planted weights
                both = np.block([[S, 0.9 * S @ np.outer(u, u) @ S], [0.9 * S @ np.outer(u, u) @ S, S]])
                X, Y = np.split(rng.standard_normal((n, 2 * p)) @ np.linalg.cholesky(both).T, 2, axis=1)
            w = ls.solve(getattr(ls, kind)(X, Y, 1, bound, bound), rng=seed).x_weights[:, 0]
            hits.append(set(np.argsort(-np.abs(w))[:size]) == set(np.flatnonzero(truth)))
            false_zeros.append(np.mean(w[truth] == 0))
            false_others.append(np.mean(w[~truth] != 0))
        yield name, draws, *(100 * float(np.mean(part)) for part in (hits, false_zeros, false_others))


def paths() -> Iterator[tuple[Any, ...]]:
    """Passes and CPU seconds of 50 bounds."""
    X, Y, _ = draw(1)
    for kind in ("SparsePLS", "SparseCCA"):
        shared, last, passes, ended = ls.Moments(X, Y, center=True), None, 0.0, set()
        begun = time.process_time()
        for bound in np.linspace(1, 3, 50):
            last = ls.solve(getattr(ls, kind)(shared, None, 1, bound, bound), start=last, rng=0)
            passes, ended = passes + last.passes, ended | {last.status.name}
        yield kind, passes, time.process_time() - begun, " ".join(sorted(ended))


def wide(given: Any) -> Iterator[tuple[Any, ...]]:
    """Two components of words."""
    A = datasets.newsgroups(given)[0]
    for bound in (3.0, 6.0):
        begun = time.process_time()
        solution = ls.solve(ls.SparsePCA(A, 2, bound), rng=0)
        counts = np.count_nonzero(solution.weights, axis=0).tolist()
        yield (
            f"{A.shape}",
            bound,
            solution.passes,
            time.process_time() - begun,
            f"{counts}",
            solution.status.name,
        )


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("parts", nargs="*", default=PARTS, metavar="PART")
    parser.add_argument("--zoo", help="an interpreter with cca-zoo")
    parser.add_argument("--pma", help="a folder of R with PMA")
    parser.add_argument("--draws", type=int, default=100)
    report = Report(parser)
    given = report.given
    draws = 5 if given.quick else given.draws
    others: dict[str, tuple[str, Weights]] = {}
    with tempfile.TemporaryDirectory() as name:
        if given.zoo:
            pmd, admm = by_zoo(given.zoo, draws, Path(name))
            others |= {"PMDCCA": ("SparsePLS", pmd), "ADMMCCA": ("SparseCCA", admm)}
        if given.pma:
            others["PMA"] = "SparsePLS", by_pma(given.pma, draws, Path(name))
    for other, (kind, weights) in others.items():
        if {"SparsePLS": "covariances", "SparseCCA": "correlations"}[kind] in given.parts:
            rows = report.rows(
                f"beside {other}",
                "seed above::.2e seconds::.3f theirs::.3f status",
                compared(kind, weights),
                shown=False,
            )
            above, spent, theirs = (np.array(rows.of(column)) for column in ("above", "seconds", "theirs"))
            print(
                f"{other}: {len(above)} draws; above: least {above.min():.2e}, median {np.median(above):.2e}, most"
            )
            print(
                f"  {above.max():.2e}; below by 1e-8: {np.flatnonzero(above < -1e-8).tolist()}, above by 1e-8:"
            )
            print(
                f"  {int(np.sum(above > 1e-8))}; CPU median {np.median(spent):.3f}, worst {spent.max():.3f}, theirs"
            )
            print(f"  {np.median(theirs):.3f}, {theirs.max():.3f}; statuses {sorted(set(rows.of('status')))}")
            report.say(
                [Claim("none is below by more than 1e-8", bool((above >= -1e-8).all()), f"{above.min():.1e}")]
            )
    if "supports" in given.parts:
        form = "design draws exact::.0f false_zeros::.1f false_others::.1f"
        report.rows("planted columns", form, supports(draws))
    if "path" in given.parts:
        rows = report.rows("50 bounds", "problem passes::g seconds::.2f statuses", paths())
        report.say([Claim("a path takes one pass", set(rows.of("passes")) == {1.0}, "of each problem")])
    if "wide" in given.parts and given.data:
        report.rows("wide", "shape bound::g passes::g seconds::.1f words status", wide(given))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
