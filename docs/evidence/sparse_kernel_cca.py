"""Noise variables, many rows, and images: the claims for gradKCCA of Uurtio, Bhadra & Rousu 2019.

    python docs/evidence/sparse_kernel_cca.py --data FOLDER [--quick] [--parts noise rows images]

- noise: X, Y uniform on (-1, 1), Y1 = f(X1 + X2) - Y2 + .05 noise, f the exponential (monotone, linear kernel) or the
  square (not monotone, homogeneous quadratic kernel). 2 of p columns matter in each view: the share of noise variables
  is 60 to 98 %. 1000 rows, two thirds to learn from, standardised after the split. F1 and AUC of the points,
  correlation on both parts of the rows (HSIC for scca-hsic);
- rows: the square with 10 columns, 1000 to 1,000,000 rows to learn from. CPU seconds and sweeps of each view;
- images: left against right halves of MNIST's digits, the first pair of every method, tested on the test images.

Methods: `gradkcca` with ("ratio", 1.5); "published": the search of its authors, with |u|₁ ≤ 1, in
`published_gradkcca.py`; `scca-hsic`, `kcca-preimage`, `kcca`, `nystrom-kcca`, `rff-kcca` (RCCA), and `dcca` where torch
is installed. KNOI, and MediaMill, are not here.

Printed: tables, and for each claim whether it held. With `--out`: all points as CSV, a figure for noise and rows.
`--quick` generates small data, on which the claims mean nothing. One thread: set OPENBLAS_NUM_THREADS=1. Seconds are
CPU seconds.

Source: Uurtio, Bhadra & Rousu 2019, ICML, PMLR 97, Large-scale sparse kernel canonical correlation analysis.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import find, mnist_halves, test_halves
from published_gradkcca import correlation_of_others, published
from showing import Claim, Report, Table, arguments, at_most, panels
from timing import timed

import linspec as ls

# ---- settings --------------------------------------------------------------------------------------

COLUMNS = (5, 10, 50, 100)
"""Numbers of columns of each view; two of them matter, so that 60, 80, 96 and 98 % are noise variables."""

ROWS, QUICK_ROWS = (1_000, 10_000, 100_000, 1_000_000), (200, 400)

MOST_ROWS = {
    "published": 100_000, "nystrom-kcca": 100_000, "rff-kcca": 100_000,
    "dcca": 10_000, "kcca-preimage": 1_000, "kcca": 1_000,
}  # fmt: skip
"""Methods that are not given more, for the time that they take."""

GOOD, CLOSE, LINEAR, POOR = 0.9, 0.005, 1.1, 0.5
"""An F1 that holds, correlations that agree, an exponent of growth that is linear, and what is lost."""

RATIO, IMAGE_RATIO = 1.5, 8.0
"""Bounds of the ratio |u|₁ / |u|₂: for two columns, and for some tens of pixels."""

IMAGE_ITERATIONS, QUICK_ITERATIONS = 1000, 20
"""Iterations of the methods with points on images, including those from starts."""

PENALTY = 1e-4
"""Ridge of kernel CCA on images, over the rows."""

DEEP = importlib.util.find_spec("torch") is not None

GRAD, PUBLISHED, HSIC, NEAR, EXACT = "gradkcca", "published", "scca-hsic", "kcca-preimage", "kcca"

RELATIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Any]] = {
    "monotone": (np.exp, ls.kernels.linear()),
    "not monotone": (np.square, ls.kernels.polynomial(2, 0.0)),
}


@dataclass(frozen=True)
class Row:
    """The result of a method in one case; figures that a method does not have are NaN."""

    part: str
    case: str
    method: str
    size: int
    seed: int
    f1: float
    auc: float
    train: float
    test: float
    cpu: float
    sweeps: float


# ---- data ------------------------------------------------------------------------------------------


def related(
    relation: Callable[[np.ndarray], np.ndarray], n: int, left_out: int, p: int, seed: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Rows to learn from and rows left out, of both views."""
    rng = np.random.default_rng(seed)
    X, Y = rng.uniform(-1, 1, (n + left_out, p)), rng.uniform(-1, 1, (n + left_out, p))
    Y[:, 0] = relation(X[:, 0] + X[:, 1]) - Y[:, 1] + 0.05 * rng.standard_normal(n + left_out)
    scaled = [(A - A[:n].mean(axis=0)) / A[:n].std(axis=0) for A in (X, Y)]
    return [A[:n] for A in scaled], [A[n:] for A in scaled]


def halves(given: argparse.Namespace, rows: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Left and right halves of images, pixels from 0 to 1: rows to learn from, and the test images."""
    rng = np.random.default_rng(given.seed)
    if given.quick:
        Z = rng.standard_normal((400, 6))
        X, Y = (np.hstack([Z, rng.standard_normal((400, 6))]) @ rng.standard_normal((12, 12)) for _ in "XY")
        found = [A.astype(np.float32) for A in (X, Y)]
        return [A[:300] for A in found], [A[300:] for A in found]
    train, test = ([A.astype(np.float32) for A in pair] for pair in (mnist_halves(given), test_halves(given)))
    chosen = rng.permutation(len(train[0]))[:rows]
    return [np.ascontiguousarray(A[chosen]) for A in train], test


# ---- methods ---------------------------------------------------------------------------------------


def problem_of(method: str, X: Any, Y: Any, kernel: Any, ratio: float) -> tuple[Any, str, dict[str, Any]]:
    """The problem that a method solves, the name of the solver, and its options."""
    preimage = ls.PreimageCCA
    if method == HSIC:
        return preimage(X, Y, 1, "linear", bound_x=("ratio", ratio), objective="hsic"), "scca-hsic", {}
    if method in (GRAD, NEAR):
        return preimage(X, Y, 1, kernel, bound_x=("ratio", ratio)), method, {}
    if method == "dcca":
        return ls.DeepCCA(X, Y, 1), "dcca", {}
    if method == "linear CCA":
        return ls.CCA(X, Y, 1, ridge=1e-3 * len(X)), "gram", {}
    rows = len(X)
    if method == EXACT:
        size = [float(np.mean(np.asarray(kernel.resolved(A).diagonal(A)))) for A in (X, Y)]
        ridge = tuple(1e-2 * rows * value for value in size)
        return ls.KernelCCA(X, Y, 1, kernel, ridge=ridge), "kcca", {}
    rbf = ls.kernels.rbf(factor=0.5)
    return ls.KernelCCA(X, Y, 1, rbf, ridge=PENALTY * rows), method, {}


def measured(
    part: str,
    case: str,
    method: str,
    data: Any,
    kernel: Any,
    *,
    ratio: float = RATIO,
    seed: int,
    most: int = 0,
) -> Row:
    """One method on one case, with columns 1 and 2 as the truth where F1 is asked."""
    train, test = data
    (X, Y), size = train, len(train[0]) if part == "rows" else train[0].shape[1]
    if method == PUBLISHED:
        degree = getattr(kernel, "degree", 1)
        (u, v, trained, sweeps), watch = timed(published, X, Y, degree, seed)
        found_columns = (
            selected((u[:, None], v[:, None]), score) for score in (ls.metrics.f1, ls.metrics.auc)
        )
        tested = correlation_of_others(train, test, (u, v), degree)
        return Row(part, case, method, size, seed, *found_columns, trained, tested, watch.cpu, sweeps)
    problem, solver, options = problem_of(method, X, Y, kernel, ratio)
    if most and hasattr(problem, "bound_x"):
        options = {**options, "max_iterations": most}
    found, watch = timed(ls.solve, problem, solver, rng=seed, **options)
    f1 = auc = np.nan
    if hasattr(found, "x_preimages") and part != "images":
        points = found.x_preimages, found.y_preimages
        f1, auc = (selected(points, score) for score in (ls.metrics.f1, ls.metrics.auc))
    if method == HSIC and part != "images":
        trained, tested = float(found.values[0]), hsic(*found.transform(*test))
    else:
        # On images all are judged by the correlation of what they make of the rows.
        trained, tested = found.score(X, Y).total, found.score(*test).total
    return Row(part, case, method, size, seed, f1, auc, trained, tested, watch.cpu, found.passes)


def selected(points: tuple[Any, Any], score: Callable[..., float]) -> float:
    """The mean score of both points, where columns 1 and 2 are the true ones."""
    return float(np.mean([score(U, [0, 1]) for U in points]))


def hsic(P: np.ndarray, Q: np.ndarray) -> float:
    """HSIC of two variates from their kernel matrices, with their root mean squares as widths; of 2000 rows at most."""
    found = []
    for V in (P[:2000, 0], Q[:2000, 0]):
        z = (V - V.mean()) / V.std()
        K = np.exp(-((z[:, None] - z[None, :]) ** 2) / 2)
        K = K - K.mean(axis=0)
        found.append(K - K.mean(axis=1)[:, None])
    return float(np.sum(found[0] * found[1])) / (len(found[0]) - 1) ** 2


# ---- parts -----------------------------------------------------------------------------------------


def noise(given: argparse.Namespace, table: Table) -> list[Row]:
    """Every relation, share of noise variables, method and seed."""
    methods = [GRAD, PUBLISHED, HSIC, NEAR, EXACT]
    methods += ["dcca"] if DEEP and given.deep else []
    n, seeds = (240, 1) if given.quick else (1000, given.seeds)
    learn, found = 2 * n // 3, []
    for case, (relation, kernel) in RELATIONS.items():
        for p in COLUMNS[:2] if given.quick else COLUMNS:
            for method in methods:
                for seed in range(given.seed, given.seed + seeds):
                    train, test = related(relation, learn, n - learn, p, seed)
                    found.append(measured("noise", case, method, (train, test), kernel, seed=seed))
                show(table, found, case, method, p)
    return found


def many_rows(given: argparse.Namespace, table: Table) -> list[Row]:
    """Every number of rows and method."""
    relation, kernel = RELATIONS["not monotone"]
    methods = [
        GRAD,
        PUBLISHED,
        HSIC,
        NEAR,
        EXACT,
        "nystrom-kcca",
        "rff-kcca",
        *(["dcca"] if DEEP and not given.quick else []),
    ]
    found = []
    for n in QUICK_ROWS if given.quick else [n for n in ROWS if n <= given.most]:
        train, test = related(relation, n, 2000, 10, given.seed)
        for method in methods:
            if n <= MOST_ROWS.get(method, given.most):
                found.append(measured("rows", "not monotone", method, (train, test), kernel, seed=given.seed))
                show(table, found, "not monotone", method, n)
    return found


def images(given: argparse.Namespace, table: Table) -> list[Row]:
    """Every method on the halves of digits; the exact kernel CCA on some of the rows."""
    train, test = halves(given, given.images)
    some = [A[: min(3000, len(A))] for A in train]
    quadratic, rbf = ls.kernels.polynomial(2, 0.0), ls.kernels.rbf(factor=0.5)
    runs: list[tuple[str, str, Any, Any]] = [
        ("linear CCA", "linear", train, None),
        (GRAD, "linear", train, ls.kernels.linear()),
        (GRAD, "quadratic", train, quadratic),
        (HSIC, "linear", train, None),
        (EXACT, "rbf, 3000 rows", some, rbf),
        ("nystrom-kcca", "rbf", train, None),
        ("rff-kcca", "rbf", train, None),
        *([("dcca", "nets", train, None)] if DEEP and not given.quick else []),
    ]
    found = []
    for method, case, rows, kernel in runs:
        most = QUICK_ITERATIONS if given.quick else IMAGE_ITERATIONS
        found.append(
            measured(
                "images", case, method, (rows, test), kernel, ratio=IMAGE_RATIO, seed=given.seed, most=most
            )
        )
        show(table, found, case, method, found[-1].size)
    return found


def show(table: Table, rows: list[Row], case: str, method: str, size: int) -> None:
    """Medians and the worst of the seeds of one case."""
    same = [row for row in rows if (row.case, row.method, row.size) == (case, method, size)]
    of = {name: np.array([getattr(row, name) for row in same]) for name in FIELDS}
    middle = {name: float(np.median(values)) for name, values in of.items()}
    table.row(case, size, method, middle["f1"], float(of["f1"].min()), *list(middle.values())[1:])


FIELDS = ("f1", "auc", "train", "test", "cpu", "sweeps")


# ---- claims ----------------------------------------------------------------------------------------


def medians(rows: list[Row], case: str, method: str, field: str) -> dict[int, float]:
    """By size."""
    found: dict[int, float] = {}
    for size in sorted({row.size for row in rows}):
        values = [
            getattr(row, field) for row in rows if (row.case, row.method, row.size) == (case, method, size)
        ]
        if values:
            found[size] = float(np.median(values))
    return found


def listed(values: dict[int, float], digits: int = 2) -> str:
    """In words."""
    return ", ".join(f"{size}: {value:.{digits}f}" for size, value in values.items())


def claims_on_noise(rows: list[Row]) -> Iterator[Claim]:
    """F1, AUC and correlations against the share of noise variables; sizes are columns."""
    for case in RELATIONS:
        for method in (GRAD, PUBLISHED):
            for field, name in (("f1", "F1"), ("auc", "AUC")):
                found = medians(rows, case, method, field)
                yield Claim(
                    f"{case}: the {name} of gradKCCA ({method}) holds from 60 % to 98 % noise variables",
                    min(found.values()) >= GOOD, listed(found),
                )  # fmt: skip
        own = medians(rows, case, GRAD, "f1")
        for other in (NEAR, HSIC):
            found = medians(rows, case, other, "f1")
            yield Claim(
                f"{case}: gradKCCA selects no worse than {other}",
                all(own[size] >= found[size] - 0.02 for size in own),
                f"{listed(own)} against {listed(found)}",
            )
        own = medians(rows, case, GRAD, "test")
        for other in (NEAR, EXACT):
            found = medians(rows, case, other, "test")
            yield Claim(
                f"{case}: gradKCCA has a larger correlation on rows left out than {other}",
                all(own[size] >= found[size] - CLOSE for size in own),
                f"{listed(own)} against {listed(found)}",
            )
        near, whole = medians(rows, case, NEAR, "train"), medians(rows, case, EXACT, "train")
        yield Claim(
            f"{case}: the correlation of KCCA's preimages is below that of its functions",
            all(near[size] < whole[size] for size in near),
            f"{listed(near)} against {listed(whole)} on the rows learnt from",
        )


def claims_on_rows(rows: list[Row]) -> Iterator[Claim]:
    """Growth with the number of rows."""
    case = "not monotone"
    for method in (GRAD, PUBLISHED):
        cpu = medians(rows, case, method, "cpu")
        sizes = np.array(list(cpu))
        growth = float(np.polyfit(np.log(sizes), np.log(list(cpu.values())), 1)[0])
        text, told = f"the time of gradKCCA ({method}) is linear in the rows", f"CPU s {listed(cpu)}"
        yield at_most(text, growth, LINEAR, f"exponent {{value:.2f}}; {told}")
        f1 = medians(rows, case, method, "f1")
        yield Claim(f"its F1 ({method}) holds", min(f1.values()) >= GOOD, listed(f1))
    own, seconds = medians(rows, case, GRAD, "cpu"), {}
    for method in sorted({row.method for row in rows} - {GRAD}):
        for size, value in medians(rows, case, method, "cpu").items():
            seconds.setdefault(size, {})[method] = value
    faster = all(own[size] <= min(found.values()) for size, found in seconds.items())
    figures = "; ".join(
        f"{size}: {own[size]:.2f}, " + ", ".join(f"{name} {value:.2f}" for name, value in found.items())
        for size, found in seconds.items()
    )
    yield Claim("gradKCCA is the fastest at every number of rows", faster, figures)


def claims_on_images(rows: list[Row]) -> Iterator[Claim]:
    """The first pair on digits, as printed: gradKCCA .952, KNOI .950, RCCA .949, DCCA .943, SCCA-HSIC .934."""
    test = {f"{row.method} ({row.case})": row.test for row in rows}
    seconds = {f"{row.method} ({row.case})": row.cpu for row in rows}
    own = max(value for name, value in test.items() if name.startswith(GRAD))
    figures = ", ".join(f"{name} {value:.3f}" for name, value in test.items())
    yield Claim("gradKCCA has .952 on the test images", own >= 0.952 - CLOSE, f"{own:.4f}")
    yield Claim("gradKCCA has the largest correlation on the test images", own >= max(test.values()), figures)
    for printed, method in ((0.949, "rff-kcca"), (0.943, "dcca"), (0.934, HSIC)):
        found = [value for name, value in test.items() if name.startswith(method)]
        if found:
            yield Claim(f"{method} has {printed}", abs(found[0] - printed) <= CLOSE, f"{found[0]:.4f}")
    fastest = min((name for name in seconds if name != "linear CCA (linear)"), key=lambda name: seconds[name])
    figures = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
    yield Claim("gradKCCA is the fastest", fastest.startswith(GRAD), f"CPU s: {figures}")
    yield Claim("the figures on MediaMill", None, "the data set is not here")


# ---- the command -----------------------------------------------------------------------------------


def draw(part: str, rows: list[Row]) -> Any:
    """F1 and correlations against the share of noise, or seconds against rows."""
    cases = sorted({row.case for row in rows})
    fields = ("f1", "test") if part == "noise" else ("cpu", "f1")
    figure, axes = panels(len(cases), 2)
    for line, case in zip(axes, cases, strict=True):
        for axis, field in zip(line, fields, strict=True):
            for method in dict.fromkeys(row.method for row in rows):
                found = medians(rows, case, method, field)
                axis.plot(list(found), list(found.values()), marker=".", label=method)
            axis.set(xscale="log", xlabel="columns" if part == "noise" else "rows", ylabel=field, title=case)
            if field == "cpu":
                axis.set_yscale("log")
    axes[0][0].legend(fontsize="small")
    return figure


PARTS: dict[str, tuple[Callable[..., list[Row]], Callable[[list[Row]], Iterator[Claim]]]] = {
    "noise": (noise, claims_on_noise),
    "rows": (many_rows, claims_on_rows),
    "images": (images, claims_on_images),
}


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="all")
    parser.add_argument("--seeds", type=int, default=5, help="of the noise part (5)")
    parser.add_argument(
        "--seed", type=int, default=0, help="the first of them, and that of the other parts (0)"
    )
    parser.add_argument(
        "--most", type=int, default=ROWS[-1], help="rows of the rows part at most (1,000,000)"
    )
    parser.add_argument("--images", type=int, default=20_000, help="images to learn from (20,000)")
    parser.add_argument("--deep", action="store_true", help="dcca in the noise part, too")
    report = Report(parser)
    given = report.given
    if "images" in given.parts and not given.quick:
        find(given, "mnist/mnist.npz")
    everything: list[Row] = []
    for part in given.parts:
        make, judge = PARTS[part]
        head = ("case", "size", "method", "F1::.2f", "worst::.2f", "AUC::.2f", "train::.3f", "test::.3f")
        found = make(given, report.table(*head, "CPU s::.2f", "sweeps::.0f", title=part))
        report.say(judge(found), part)
        if part != "images":
            report.picture(part, draw, part, found)
        everything += found
        report.keep("found", everything)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
