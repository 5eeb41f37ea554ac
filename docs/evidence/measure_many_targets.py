"""Print what ridges of many targets take beside himalaya, whether scores agree, and what 100,000 targets take.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_many_targets.py`; `--quick` takes small data. All data are
generated. `--parts` takes some of peers, wide and memory. himalaya (`pip install himalaya==0.4.11`) is compared where
it is installed, with equal folds, ridges and weights of bands, and R² as its score.

- peers: 1,600 rows, bands of 60, 60 and 40 columns, 150 targets, five folds, 20 ridges, four weights of bands
  (`GroupRidgeCV`); and the same as one band (`RidgeCV`).
- wide: 300 rows, bands of 300 and 500 columns, 150 targets (`GroupRidgeCV`).
- memory: 100,000 targets on 60 columns, five folds, from a file of float32 and from slices that come once; the peak of
  a process of its own, with Python and all data that it holds. And 200 rows of 5,000 columns with 20,000 targets, whose
  coefficients are kept as factors.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from showing import Claim, Report, arguments
from timing import Peak, alternate, apart

import linspec as ls

RIDGES = np.logspace(-1, 4, 20)
PARTS = ("peers", "wide", "memory")


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="all")
    parser.add_argument("--rounds", type=int, default=5)
    report = Report(parser)
    quick = report.given.quick
    if "peers" in report.given.parts:
        n, bands, m = (300, (12, 12, 8), 30) if quick else (1600, (60, 60, 40), 150)
        beside(report, "bands, n ≥ 10 p", n, bands, m, at_least=10.0)
        beside(report, "one band, n ≥ 10 p", n, (sum(bands),), m, at_least=10.0)
    if "wide" in report.given.parts:
        n, bands, m = (60, (60, 100), 30) if quick else (300, (300, 500), 150)
        beside(report, "bands, n < p", n, bands, m, at_least=None)
    if "memory" in report.given.parts:
        memory(report)
    return report.end()


# ---- himalaya ----------------------------------------------------------------------------------


def planted(n: int, bands: tuple[int, ...], m: int) -> tuple[list[Any], Any]:
    """Bands of noise, of which each next one says less about the targets."""
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((n, p)) for p in bands]
    shares = np.geomspace(0.3, 0.03, len(bands))
    Y = sum(a * (B @ rng.standard_normal((B.shape[1], m))) for a, B in zip(shares, X, strict=True))
    return X, Y + 3 * rng.standard_normal((n, m)) + 1.0


def beside(
    report: Report, title: str, n: int, bands: tuple[int, ...], m: int, at_least: float | None
) -> None:
    """Compare with himalaya: seconds of the processor in turns, scores, choices and coefficients."""
    warnings.simplefilter("ignore")
    X, Y = planted(n, bands, m)
    weights = None if len(bands) == 1 else 4
    problem = ls.get_problem("ridge-many-targets")
    stated: dict[str, Any] = {
        "ridges": RIDGES, "bands": np.repeat(np.arange(len(bands)), bands), "band_weights": weights
    }  # fmt: skip
    settings = problem(np.hstack(X), Y, **stated).settings
    stated["band_weights"] = settings
    calls = {"linspec": lambda: ls.solve(problem(np.hstack(X), Y, **stated))}
    here = importlib.util.find_spec("himalaya") is not None
    if here:
        calls["himalaya"] = lambda: _himalaya(X, Y, settings)
    found = alternate(calls, report.given.rounds, warm=True)
    table = report.table(
        "", "CPU s::.3f", "worst::.3f", "mean R²::.4f", title=f"{title}: {n} x {bands}, {m} targets"
    )
    own = found["linspec"]
    table.row(
        f"linspec `{own.answer.solver.split('/')[-1]}`",
        own.median,
        max(own.cpu),
        float(own.answer.scores.mean()),
    )
    if not here:
        report.say(
            [Claim("scores equal those of himalaya", None, "himalaya is not installed", own=True)], title
        )
        return
    scores, ridges, coefficients = found["himalaya"].answer
    name = "RidgeCV" if len(bands) == 1 else "GroupRidgeCV"
    table.row(
        f"himalaya `{name}`", found["himalaya"].median, max(found["himalaya"].cpu), float(scores.mean())
    )
    ratio, _ = found["himalaya"].over(own)
    gap = float(np.abs(scores - own.answer.scores).max())
    off = float(np.abs(coefficients - own.answer.coefficients()).max() / np.abs(coefficients).max())
    same = float(np.isclose(ridges, own.answer.ridges).mean())
    claims = [
        Claim("scores equal those of himalaya", gap <= 1e-8, f"difference {gap:.1e}", own=True),
        Claim("ridges equal those of himalaya", same == 1, f"{same:.1%} of the targets", own=True),
        Claim("coefficients equal those of himalaya", off <= 1e-8, f"difference {off:.1e}", own=True),
    ]
    bound = 1.0 if at_least is None else at_least
    claims.append(
        Claim(f"at least {bound:g} times less CPU than himalaya", ratio >= bound, f"{ratio:.1f} times",
              own=not report.given.quick)
    )  # fmt: skip
    report.say(claims, title)


def _himalaya(X: list[Any], Y: Any, settings: Any) -> tuple[Any, Any, Any]:
    """Scores, ridges and coefficients by himalaya."""
    from himalaya.ridge import GroupRidgeCV, RidgeCV, solve_ridge_cv_svd
    from himalaya.scoring import r2_score

    if len(X) == 1:
        assert RidgeCV.ALL_SOLVERS["svd"] is solve_ridge_cv_svd
        params = {"score_func": r2_score}
        model = RidgeCV(alphas=RIDGES, fit_intercept=True, cv=5, solver_params=params).fit(X[0], Y)
        return model.cv_scores_, model.best_alphas_, model.coef_
    params = {
        "n_iter": settings,
        "alphas": RIDGES,
        "score_func": r2_score,
        "progress_bar": False,
        "warn": False,
    }
    model = GroupRidgeCV(groups="input", fit_intercept=True, cv=5, solver_params=params).fit(X, Y)
    coefficients = np.vstack(model.coef_) if isinstance(model.coef_, list) else model.coef_
    return model.cv_scores_.max(axis=0), model.best_alphas_, coefficients


# ---- memory ------------------------------------------------------------------------------------


def slices(n: int, p: int, m: int, rows: int) -> Any:
    """Yield slices of X and Y in float32, made as they are asked for."""
    B = np.random.default_rng(1).standard_normal((p, m), dtype=np.float32)
    for start in range(0, n, rows):
        rng = np.random.default_rng((2, start))
        X = rng.standard_normal((min(rows, n - start), p), dtype=np.float32)
        yield X, X @ B + 10 * rng.standard_normal((len(X), m), dtype=np.float32)


def of_many(kind: str, n: int, p: int, m: int, folder: str) -> dict[str, Any]:
    """Solve for many targets, from a file or from slices."""
    problem, labels = ls.get_problem("ridge-many-targets"), np.arange(n) % 5
    if kind == "file":  # which is written here, and read in another process
        paths = [str(Path(folder) / name) for name in ("X.npy", "Y.npy")]
        arrays = [
            np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, columns))
            for path, columns in zip(paths, (p, m), strict=True)
        ]
        start = 0
        for X, Y in slices(n, p, m, 50):
            for array, rows in zip(arrays, (X, Y), strict=True):
                array[start : start + len(rows)] = rows
                array.flush()
            start += len(X)
        del arrays, array
        return apart(solved, paths, labels)
    with Peak() as peak:
        solution = ls.solve(problem(part(0, n, p, m), part(1, n, p, m), splitter=labels))
    return said(solution, peak)


def part(number: int, n: int, p: int, m: int) -> Any:
    """Yield the slices of one of the matrices."""
    return (pair[number] for pair in slices(n, p, m, 50))


def solved(paths: list[str], labels: Any) -> dict[str, Any]:
    """Solve from files."""
    with Peak() as peak:
        solution = ls.solve(ls.get_problem("ridge-many-targets")(*paths, splitter=labels))
    return said(solution, peak)


def said(solution: Any, peak: Peak) -> dict[str, Any]:
    """Return figures of an answer; the peak is that of the process, in MB of 10⁶ bytes."""
    return {
        "peak": (peak.before + peak.memory) * 2**20 / 1e6,
        "passes": solution.passes,
        "status": solution.status.name,
        "residual": solution.residual,
        "solver": solution.solver.split("/")[-1],
        "score": float(np.nanmean(solution.scores)),
        "held": sum(a.nbytes for a in (solution.weights, solution.mixing) if a is not None) / 1e6,
    }


def as_factors(n: int, p: int, m: int) -> dict[str, Any]:
    """Solve with fewer rows than columns and targets."""
    rng = np.random.default_rng(1)
    X, Y = (rng.standard_normal((n, columns), dtype=np.float32) for columns in (p, m))
    Y += 2 * X[:, :1]
    with Peak() as peak:
        solution = ls.solve(ls.get_problem("ridge-many-targets")(X, Y), "kernel")
        solution.coefficients([0, m - 1])
    return said(solution, peak)


def memory(report: Report) -> None:
    """Very many targets."""
    quick = report.given.quick
    n, p, m = (200, 10, 2_000) if quick else (2000, 60, 100_000)
    table = report.table(
        "data", "solver", "peak MB::.0f", "passes::.0f", "residual::.1e", "status", "mean R²::.3f",
        "coefficients, MB::.1f",
        title=f"Memory: {m:,} targets, {n:,} rows, {p} columns, six ridges, five folds",
    )  # fmt: skip
    names = ("solver", "peak", "passes", "residual", "status", "score", "held")
    for kind in ("file", "slices"):
        with tempfile.TemporaryDirectory() as folder:
            found = (
                of_many(kind, n, p, m, folder) if kind == "file" else apart(of_many, kind, n, p, m, folder)
            )
        if "said" in found:
            table.row(kind, found["said"])
            continue
        table.row(kind, *(found[name] for name in names))
        report.say([
            Claim(f"{m:,} targets from {kind} take less than 1 GB", found["peak"] < 1000, f"{found['peak']:.0f} MB",
                  own=not quick),
            Claim("the answer is certified", found["status"] == "CONVERGED", found["status"], own=True),
        ], kind)  # fmt: skip
    n, p, m = (20, 400, 2000) if quick else (200, 5000, 20_000)
    found = apart(as_factors, n, p, m)
    if "said" in found:
        table.row("arrays", found["said"])
        return
    table.row(f"arrays, {n} x {p:,}, {m:,} targets", *(found[name] for name in names))
    stored = 4 * p * m / 1e6
    report.say([
        Claim("coefficients as factors take less than a tenth", found["held"] < 0.1 * stored,
              f"{found['held']:.0f} MB of {stored:.0f}", own=not quick),
    ], "factors")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
