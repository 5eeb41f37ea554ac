"""How exact answers are where column means are 1e4, 1e8 and 1e12 times the deviations, here and in another checkout.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_large_means.py`, with `--before FOLDER` to compare with another
checkout; `--quick` takes one seed and one ratio. No data are needed. Every kind of data meets every setting, problem
and solver that the tables name, 400 rows of 12 and 9 columns. Each checkout is measured in a process of its own, with
the plugins that its own pyproject.toml declares.

The entries that are stored are the problem: they are centred in long double after their first row, which is near to all
others, is subtracted, and solved by NumPy. An error is the largest over the seeds: of singular values, correlations and
eigenvalues relative to each, of coefficients relative to their length, of means what exceeds one unit in their last
place, relative to the deviations of the column. An error is said if the status is not CONVERGED, if a warning is given,
or if the solve is refused; else it is silent. A ratio of 0 is the same data without means.

A solve is worse than in the other checkout if it is refused, if an error is four times as large and above 1e-12, if a
large error was said and is silent, or if it takes more passes to an answer that is not four times as exact.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from checkouts import environment_of
from showing import Claim, Report, arguments

ROWS, LEFT, RIGHT, CLASSES, COUNT, SLICE = 400, 12, 9, 4, 3, 96
RIDGE, TOL = 1.0, 1e-10
RATIOS, SEEDS = (0.0, 1e4, 1e8, 1e12), (0, 1, 2)

SILENT = {"float64": 1e-6, "float32": 1e-3}
"""The largest error that an answer may have which says nothing, by the dtype of the data."""

FACTOR, LEAST = 4.0, 1e-12
"""An error is worse than before if it is larger by this factor, and above the second number."""


# ---- the data, and what is exact ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planted:
    """Two views about large means, as they are stored, the classes of their rows, weights and confounds."""

    X: np.ndarray
    Y: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    confounds: np.ndarray


def planted(ratio: float, seed: int, dtype: str, sparse: bool) -> Planted:
    """Views with common directions and classes; with `sparse`, the last columns are counts with many zeros."""
    rng = np.random.default_rng([seed, 5])
    labels = rng.permutation(np.arange(ROWS) % CLASSES)
    confounds = 2.0 + rng.standard_normal((ROWS, 2))
    shared = rng.standard_normal((ROWS, 4)) + 1.5 * rng.standard_normal((CLASSES, 4))[labels]
    views = []
    for p in (LEFT, RIGHT):
        Z = shared @ rng.standard_normal((4, p)) + 0.3 * confounds @ rng.standard_normal((2, p))
        Z = (Z + 2.0 * rng.standard_normal((ROWS, p))) / 3.0 * np.geomspace(1.0, 0.3, p)
        means = ratio * np.geomspace(1.0, 0.3, p) * rng.uniform(1.0, 1.5, p) * rng.choice([-1.0, 1.0], p)
        Z += means
        if sparse:
            few = p // 2
            Z[:, -few:] = rng.poisson(0.3, (ROWS, few)) * (
                1.0 + (labels[:, None] == np.arange(few) % CLASSES)
            )
        views.append(Z.astype(dtype))
    weights = rng.uniform(0.5, 2.0, ROWS)
    weights[::50] = 0.0
    return Planted(*views, labels, weights, confounds)


@dataclass(frozen=True)
class Exact:
    """A view with means and confounds out, rows times the roots of their weights; its means and deviations."""

    rows: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    scale: np.ndarray


def exact_view(A: np.ndarray, w: np.ndarray, confounds: np.ndarray | None, scaled: bool) -> Exact:
    """Compute the view after weights, means, confounds and scale from the stored entries."""
    wide, v = A.astype(np.longdouble), w.astype(np.longdouble)[:, None]
    gaps = wide - wide[0]
    shift = (v * gaps).sum(axis=0) / v.sum()
    rows = np.sqrt(w)[:, None] * (gaps - shift).astype(np.float64)
    deviation = np.sqrt((rows**2).sum(axis=0) / w.sum())
    if confounds is not None:
        C = confounds - (w @ confounds) / w.sum()
        Q = np.linalg.qr(np.sqrt(w)[:, None] * C)[0]
        rows = rows - Q @ (Q.T @ rows)
    scale = np.sqrt((rows**2).sum(axis=0) / w.sum()) if scaled else np.ones(A.shape[1])
    return Exact(rows / scale, (wide[0] + shift).astype(np.float64), deviation, scale)


def singular_values(X: Exact, Y: Exact, H: np.ndarray) -> np.ndarray:
    """The leading ones of X."""
    return np.linalg.svd(X.rows, compute_uv=False)[:COUNT]


def correlations(X: Exact, Y: Exact, H: np.ndarray) -> np.ndarray:
    """The leading ones, each view above the root of its ridge."""
    bases = [np.linalg.qr(ridged(view.rows))[0][:ROWS] for view in (X, Y)]
    return np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)[:COUNT]


def coefficients(X: Exact, Y: Exact, H: np.ndarray) -> np.ndarray:
    """Those of the columns as they were given, on right-hand sides that no scale divides."""
    right = np.vstack([Y.rows * Y.scale, np.zeros((LEFT, RIGHT))])
    return np.linalg.lstsq(ridged(X.rows), right, rcond=None)[0] / X.scale[:, None]


def eigenvalues(X: Exact, Y: Exact, H: np.ndarray) -> np.ndarray:
    """The parts of the classes that the leading directions explain."""
    basis = np.linalg.qr(ridged(X.rows))[0][:ROWS]
    return np.linalg.svd(basis.T @ H, compute_uv=False)[:COUNT] ** 2


def ridged(rows: np.ndarray) -> np.ndarray:
    """The rows, and below them the root of the ridge."""
    return np.vstack([rows, np.sqrt(RIDGE) * np.eye(rows.shape[1])])


def indicators(labels: np.ndarray, w: np.ndarray) -> np.ndarray:
    """A column a class, of unit length in the weights, its rows times their roots."""
    H = np.sqrt(w)[:, None] * (labels[:, None] == np.arange(CLASSES))
    return np.asarray(H / np.sqrt((H**2).sum(axis=0)))


# ---- what is varied -------------------------------------------------------------------------------------------------


def slices(A: np.ndarray) -> Iterator[np.ndarray]:
    """The rows, some at a time."""
    return (A[start : start + SLICE] for start in range(0, ROWS, SLICE))


def in_file(A: np.ndarray, folder: Path) -> Any:
    """The rows of a file in NumPy's format."""
    import linspec as ls

    path = folder / f"{len(list(folder.iterdir()))}.npy"
    np.save(path, A)
    return ls.open_rows(path)


@dataclass(frozen=True)
class Kind:
    """A kind of data: how it is made of an array, and which array."""

    make: Callable[[np.ndarray, Path], Any]
    dtype: str = "float64"
    sparse: bool = False
    entries: bool = True


KINDS = {
    "array": Kind(lambda A, _: A),
    ".npy file": Kind(in_file),
    "slices, read again": Kind(lambda A, _: lambda: slices(A)),
    "slices, read once": Kind(lambda A, _: slices(A)),
    "sparse, all stored": Kind(lambda A, _: scipy.sparse.csr_array(A)),
    "sparse slices": Kind(lambda A, _: lambda: map(scipy.sparse.csr_array, slices(A))),
    "sparse, half stored": Kind(lambda A, _: scipy.sparse.csr_array(A), sparse=True),
    "products only": Kind(lambda A, _: scipy.sparse.linalg.aslinearoperator(A), entries=False),
    "float32 array": Kind(lambda A, _: A, dtype="float32"),
}

SETTINGS = ("centred", "weights", "confounds", "confounds with ones", "scaled")
"""All but the fourth centre; there a column of ones among the confounds takes the means out instead."""


@dataclass(frozen=True)
class Task:
    """A problem: how it is stated, what is exact, what an answer has of it, and the solvers."""

    state: Callable[..., Any]
    exact: Callable[[Exact, Exact, np.ndarray], np.ndarray]
    found: Callable[[Any], Any]
    means: tuple[str, ...]
    solvers: tuple[str, ...]

    def error(self, answer: Any, exact: np.ndarray) -> float:
        """Relative to each value, or of coefficients to the length of a column; a missing value counts as 1."""
        found = np.asarray(self.found(answer), dtype=np.float64)
        if exact.ndim == 2:
            found = found.reshape(exact.shape)
            errors = np.linalg.norm(found - exact, axis=0) / np.linalg.norm(exact, axis=0)
        else:
            padded = np.zeros(len(exact))
            padded[: len(found)] = found
            errors = np.abs(padded / exact - 1.0)
        return float(np.max(np.where(np.isfinite(errors), errors, np.inf)))


def tasks() -> dict[str, Task]:
    """All problems, with solvers that form Gram matrices, that do not, and that iterate."""
    import linspec as ls

    def classes(X: Any, _: Any, labels: np.ndarray, **rest: Any) -> Any:
        H = ls.targets.lda(labels, sample_weight=rest.get("sample_weight"))
        return ls.Discriminant(X, H, COUNT, ridge=RIDGE, **rest)

    return {
        "SVD": Task(
            lambda X, _, __, **rest: ls.SVD(X, COUNT, **rest),
            singular_values,
            lambda s: s.S,
            ("mean",),
            ("auto", "direct", "gram", "block-krylov"),
        ),
        "CCA": Task(
            lambda X, Y, _, **rest: ls.CCA(X, Y, COUNT, ridge=RIDGE, **rest),
            correlations,
            lambda s: s.correlations,
            ("x_mean", "y_mean"),
            ("auto", "direct", "gram", "lobpcg"),
        ),
        "least squares": Task(
            lambda X, Y, _, **rest: ls.LeastSquares(X, Y, ridge=RIDGE, **rest),
            coefficients,
            lambda s: s.x,
            ("a_mean", "b_mean"),
            ("auto", "direct", "cg", "lsqr"),
        ),
        "LDA": Task(
            classes, eigenvalues, lambda s: s.eigenvalues, ("mean",), ("auto", "direct", "two-stage")
        ),
    }


ITERATIVE = frozenset({"block-krylov", "lobpcg", "cg", "lsqr"})
"""Solvers that are given the tolerance; that of "two-stage" is about the square root of an eigenvalue's error."""


# ---- one checkout ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """The result of one solver on one problem and kind of data, at worst over the seeds.

    `silent` is the largest error, of values or means, of an answer that says nothing; `says` are the statuses, warnings
    and refusals that there were, and `refused` those that came instead of an answer.
    """

    kind: str
    setting: str
    problem: str
    solver: str
    ratio: float
    error: float
    mean: float
    silent: float
    passes: float
    says: str
    refused: bool

    @property
    def name(self) -> str:
        """The solve in words."""
        return f"{self.kind}, {self.ratio:.0e}, {self.setting}, {self.problem} by {self.solver}"

    @property
    def figure(self) -> float:
        """The larger of the two errors."""
        return max(self.error, self.mean)

    @property
    def fails(self) -> bool:
        """Whether a large error is silent."""
        return self.silent > SILENT[KINDS[self.kind].dtype]


def stated(data: Planted, setting: str) -> tuple[dict[str, Any], np.ndarray, np.ndarray | None]:
    """The arguments of a setting, and for the oracle the weights and the confounds."""
    ones, C = np.ones(ROWS), data.confounds
    settings: dict[str, tuple[dict[str, Any], np.ndarray, np.ndarray | None]] = {
        "centred": ({"center": True}, ones, None),
        "weights": ({"center": True, "sample_weight": data.weights}, data.weights, None),
        "confounds": ({"center": True, "confounds": C}, ones, C),
        "confounds with ones": ({"center": False, "confounds": np.column_stack([ones, C])}, ones, C),
        "scaled": ({"center": True, "scale": True}, ones, None),
    }
    return settings[setting]


def measured(ratios: Iterable[float], seeds: Iterable[int]) -> Iterator[Cell]:
    """All cells of the checkout that is imported."""
    known = tasks()
    for label, kind in KINDS.items():
        for ratio in ratios:
            if kind.dtype == "float32" and ratio > 1e4:
                continue
            found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
            for seed in seeds:
                data = planted(ratio, seed, kind.dtype, kind.sparse)
                for setting in SETTINGS:
                    given, w, C = stated(data, setting)
                    views = tuple(exact_view(A, w, C, setting == "scaled") for A in (data.X, data.Y))
                    H = indicators(data.labels, w)
                    for problem, task in known.items():
                        exact = task.exact(*views, H)
                        for solver in task.solvers:
                            run = solved(task, solver, kind, data, given, views, exact)
                            found.setdefault((setting, problem, solver), []).append(run)
            for key, runs in found.items():
                yield Cell(label, *key, ratio, **worst(runs))


def solved(
    task: Task,
    solver: str,
    kind: Kind,
    data: Planted,
    given: Mapping[str, Any],
    views: tuple[Exact, Exact],
    exact: np.ndarray,
) -> dict[str, Any]:
    """One solve: its errors, its passes, and what it says."""
    import linspec as ls

    options = {"tol": TOL if kind.dtype == "float64" else 1e-5} if solver in ITERATIVE else {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        X, Y = (kind.make(A, Path(folder)) for A in (data.X, data.Y))
        try:
            answer = ls.solve(task.state(X, Y, data.labels, **given), solver, rng=0, **options)
        except (ls.errors.LinspecError, ValueError, TypeError) as error:
            return {"refusal": type(error).__name__}
        means = [
            excess(getattr(answer, name), view) for name, view in zip(task.means, views, strict=False)
        ] if given["center"] else [0.0]  # fmt: skip
        says = {entry.category.__name__ for entry in warned}
        says |= set() if answer.converged and answer.status is ls.Status.CONVERGED else {answer.status.name}
        return {
            "error": task.error(answer, exact),
            "mean": max(means),
            "passes": float(answer.passes),
            "says": says,
        }


def excess(mean: Any, view: Exact) -> float:
    """By how much means differ beyond one unit in their last place, relative to the deviations."""
    found = np.asarray(mean)
    unit = np.spacing(np.abs(view.mean).astype(found.dtype)).astype(np.float64)
    return float(np.max(np.maximum(np.abs(found - view.mean) - unit, 0.0) / view.deviation))


def worst(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the worst of the runs over several seeds."""
    answers = [run for run in runs if "refusal" not in run]
    refusals = {run["refusal"] for run in runs if "refusal" in run}
    quiet = [max(run["error"], run["mean"]) for run in answers if not run["says"]]
    return {
        **{name: max((run[name] for run in answers), default=0.0) for name in ("error", "mean", "passes")},
        "silent": max(quiet, default=0.0),
        "says": ", ".join(sorted(refusals.union(*(run["says"] for run in answers)))),
        "refused": bool(refusals),
    }


def serve(given: argparse.Namespace) -> None:
    """Measure the imported checkout; print its cells, one on each line, and then its place."""
    import linspec as ls

    cells = measured(RATIOS[2:3] if given.quick else RATIOS, SEEDS[:1] if given.quick else SEEDS)
    for cell in cells:
        print(json.dumps(dataclasses.asdict(cell)), flush=True)
    plugins = [
        str(module.__file__)
        for name, module in sys.modules.items()
        if name.startswith("linspec_") and "." not in name
    ]
    print(json.dumps({"files": [str(ls.__file__), *plugins]}))


def cells_of(folder: Path, quick: bool) -> list[Cell]:
    """Those of a checkout, which has a process of its own and no other's plugins."""
    with tempfile.TemporaryDirectory() as declared:
        done = subprocess.run(  # noqa: S603 (this Python, and this file)
            [sys.executable, str(Path(__file__).resolve()), "--serve", *(["--quick"] if quick else [])],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env=environment_of(folder, Path(declared)),
        )
    *lines, last = map(json.loads, done.stdout.splitlines())
    foreign = [file for file in last["files"] if not Path(file).resolve().is_relative_to(folder.resolve())]
    if foreign:
        sys.stderr.write(f"{folder} was to be measured, but these were imported: {', '.join(foreign)}.\n")
        raise SystemExit(2)
    return [Cell(**line) for line in lines]


# ---- what is said ---------------------------------------------------------------------------------------------------


def shown(cells: list[Cell], report: Report) -> None:
    """Print the errors by kind and problem, at worst over settings and solvers, and the silent ones in full."""
    ratios = sorted({cell.ratio for cell in cells})
    table = report.table(
        "data",
        "problem",
        *(f"{'no means' if not ratio else f'{ratio:.0e}'}, error::.0e" for ratio in ratios),
        *(f"{'no means' if not ratio else f'{ratio:.0e}'}, silent::.0e" for ratio in ratios),
        "passes::.0f",
        "refused",
        title="The largest error over settings and solvers, and the largest of which nothing is said",
    )
    for kind in KINDS:
        for problem in dict.fromkeys(cell.problem for cell in cells):
            rows = [cell for cell in cells if (cell.kind, cell.problem) == (kind, problem)]
            by = {ratio: [cell for cell in rows if cell.ratio == ratio] for ratio in ratios}
            errors = [max((cell.figure for cell in part), default=None) for part in by.values()]
            silent = [max((cell.silent for cell in part), default=None) for part in by.values()]
            refused = f"{sum(cell.refused for cell in rows)} of {len(rows)}"
            if rows:
                table.row(kind, problem, *errors, *silent, max(cell.passes for cell in rows), refused)
    listed(
        report.table(
            "solve", "values::.0e", "means::.0e", "says", title="Large errors of which nothing is said"
        ),
        [cell for cell in cells if cell.fails],
    )


def listed(table: Any, cells: list[Cell]) -> None:
    """One row a cell."""
    for cell in cells:
        table.row(cell.name, cell.error, cell.mean, cell.says)


def worse(before: Cell, now: Cell) -> str:
    """Return the changes for the worse in words; "" if there are none."""
    found = []
    if now.refused and not before.refused:
        found.append("refused")
    if before.refused:
        return ", ".join(found)
    for what in ("error", "mean"):
        old, new = getattr(before, what), getattr(now, what)
        if new > LEAST and new > FACTOR * old:
            found.append(what)
    if now.fails and not before.fails:
        found.append("finding lost")
    wrong = before.figure > FACTOR * max(now.figure, LEAST)  # passes of an answer that was none do not count
    if now.passes > before.passes and not wrong:
        found.append("passes")
    return ", ".join(found)


def compared(before: list[Cell], now: list[Cell], report: Report) -> Claim:
    """Print what is worse in this checkout than in the other, and count what is better."""
    table = report.table(
        "solve",
        "worse",
        "values before::.0e",
        "now::.0e",
        "means before::.0e",
        "now::.0e",
        "passes before::.0f",
        "now::.0f",
        "says before",
        "now",
        title="Worse than in the other checkout",
    )
    others = {cell.name: cell for cell in before}
    count, better = 0, 0
    for cell in now:
        old = others[cell.name]
        what = worse(old, cell)
        better += bool(worse(cell, old))
        if what:
            count += 1
            figures = (
                getattr(one, name) for name in ("error", "mean", "passes", "says") for one in (old, cell)
            )
            table.row(cell.name, what, *figures)
    text = "no solve is worse than in the other checkout"
    return Claim(text, count == 0, f"{count} of {len(now)} are worse, {better} better", own=True)


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--before", type=Path, help="the other checkout")
    parser.add_argument("--serve", action="store_true", help="be the process that measures one checkout")
    if "--serve" in sys.argv:
        serve(parser.parse_args())
        return 0
    report = Report(parser)
    given = report.given
    folders = [Path(__file__).parents[2], *([given.before] if given.before else [])]
    with ThreadPoolExecutor(len(folders)) as pool:  # a process each: nothing is timed
        now, *before = pool.map(partial(cells_of, quick=given.quick), folders)
    shown(now, report)
    report.csv("cells", now)
    silent = [cell for cell in now if cell.fails and KINDS[cell.kind].entries]
    claims = [
        Claim(
            "a large error of data that have entries is always said",
            not silent,
            f"{len(silent)} of {len(now)} solves are silent",
        )
    ]
    claims += [compared(cells, now, report) for cells in before]
    report.say(claims)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
