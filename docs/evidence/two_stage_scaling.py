"""Seconds against rows and columns, with a factorisation and without: Figures 3 to 5 of Sun, Ceran & Ye 2010.

    python docs/evidence/two_stage_scaling.py --data FOLDER [--quick] [--ridge 1] [--out FOLDER]

News text, tf-idf with unit rows, the d words that most documents have, n documents at random, ridge γ = 1, centred:

- newsgroups20, LDA of 20 groups: n from 500 to 3000 at d = 5000, and d from 500 to 3000 at n = 5000 (Figure 3);
- reuters21578, CCA, OPLS and hypergraph spectral learning (clique, star) of the topics that the rows have, 118 at most:
  n from 500 to 3000 at d = 5000 (Figure 4), and d from 500 to 5000 at n = 3000 (Figure 5). In the source it is rcv1v2.

Six ways:

- "direct as printed": XᵀX + γI is formed and factorised, of the order of the columns, and the symmetric eigenproblem
  that follows is solved by Lanczos (SciPy's eigsh), as the source describes it;
- "two-stage as printed": SciPy's LSQR, a column of targets after the other, then D (Algorithm 2);
- linspec's `direct`, which factorises on the shorter side;
- `two-stage` with `lstsq="lsqr"`, all columns at once; with its defaults, which form XᵀX where that is estimated to
  pay; and with `form="implicit"`, which never does.

Seconds are of the processor, the least of up to three runs, without making H. "off" is ‖WWᵀ − VVᵀ‖₂ / ‖VVᵀ‖₂ with V
of "direct as printed". The exponent of the growth is the slope of a line through the logarithms of all sizes; the count
of nonzeros grows with d more slowly than d, since rare words come last, and has an exponent of its own.

Printed: a table for each figure, and for each claim whether it held. With `--out`: everything as CSV, three figures.
`--quick` takes small data.

Source: Sun, Ceran & Ye 2010, doi:10.1145/1835804.1835846, section 5.3.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from datasets import LabelSet, labelled_news, tf_idf
from discriminant_law import TARGETS, by_columns, dense_targets, distance
from showing import Claim, Report, arguments, at_most, panels
from timing import alternate

import linspec as ls
from linspec.linalg import EPS

# ---- settings --------------------------------------------------------------------------------------

REPEATS, ENOUGH = 3, 1.0
"""Runs at most, and seconds of the processor after which none is added."""

LINEAR = 1.1
"""The greatest exponent that is called linear."""

PRINTED_DIRECT, PRINTED_TWO_STAGE = "direct as printed", "two-stage as printed"
DIRECT, BY_LSQR, TWO_STAGE, SWEEPING = "direct", "two-stage, lsqr", "two-stage", "two-stage, implicit"


@dataclass(frozen=True)
class Sweep:
    """One figure: its sizes, with one that grows."""

    figure: str
    data: str
    techniques: tuple[str, ...]
    grows: str
    sizes: tuple[int, ...]
    other: int

    def shapes(self) -> list[tuple[int, int]]:
        """Rows and columns."""
        return [(size, self.other) if self.grows == "n" else (self.other, size) for size in self.sizes]


LDA, MANY = ("LDA",), ("CCA", "OPLS", "HSL clique", "HSL star")
STEPS = (500, 1000, 1500, 2000, 2500, 3000)
SWEEPS = (
    Sweep("figure 3, rows", "newsgroups20", LDA, "n", STEPS, 5000),
    Sweep("figure 3, columns", "newsgroups20", LDA, "d", STEPS, 5000),
    Sweep("figure 4", "reuters21578", MANY, "n", STEPS, 5000),
    Sweep("figure 5", "reuters21578", MANY, "d", (*STEPS, 3500, 4000, 4500, 5000), 3000),
)
QUICK_STEPS, QUICK_OTHER = (60, 120), 150

# ---- the five ways ---------------------------------------------------------------------------------


def direct_as_printed(X: Any, H: np.ndarray, ridge: float) -> np.ndarray:
    """A factor of XᵀX + γI and Lanczos vectors."""
    n, p = X.shape
    mean = np.asarray(X.mean(axis=0)).reshape(1, -1)
    M = (X.T @ X).toarray() - n * (mean.T @ mean)
    M[np.diag_indices(p)] += ridge
    L = scipy.linalg.cholesky(M, lower=True, overwrite_a=True, check_finite=False)
    C = X.T @ H - mean.T @ H.sum(axis=0, keepdims=True)
    T = scipy.linalg.solve_triangular(L, C, lower=True, check_finite=False)
    operator = scipy.sparse.linalg.LinearOperator((p, p), matvec=lambda v: T @ (T.T @ v), dtype=np.float64)
    values, U = scipy.sparse.linalg.eigsh(operator, min(H.shape[1], p - 1), v0=np.ones(p))
    kept = U[:, values > EPS * 10 * p * values.max()]
    W: np.ndarray = scipy.linalg.solve_triangular(L, kept, lower=True, trans=1, check_finite=False)
    return W


def two_stage_as_printed(X: Any, H: np.ndarray, ridge: float) -> np.ndarray:
    """LSQR column by column, then D."""
    return np.asarray(by_columns(X, H, ridge, None).weights)


def ours(solver: str, **options: Any) -> Callable[[Any, Any, float], np.ndarray]:
    """One of linspec's solvers."""

    def solve(X: Any, H: Any, ridge: float) -> np.ndarray:
        return np.asarray(ls.solve(ls.Discriminant(X, H, ridge=ridge), solver, rng=0, **options).weights)

    return solve


WAYS: dict[str, Callable[[Any, Any, float], np.ndarray]] = {
    PRINTED_DIRECT: direct_as_printed,
    PRINTED_TWO_STAGE: two_stage_as_printed,
    DIRECT: ours("direct"),
    BY_LSQR: ours("two-stage", lstsq="lsqr"),
    TWO_STAGE: ours("two-stage"),
    SWEEPING: ours("two-stage", form="implicit"),
}

# ---- measuring -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """One way on one size."""

    figure: str
    data: str
    technique: str
    n: int
    d: int
    nnz: int
    targets: int
    way: str
    cpu: float
    wall: float
    directions: int
    off: float


def measure(sweep: Sweep, data: LabelSet, ridge: float, ways: list[str]) -> Iterator[Outcome]:
    """All techniques, sizes and ways of one figure."""
    text = tf_idf(data.X)
    order = np.random.default_rng(0).permutation(text.shape[0])
    for technique in sweep.techniques:
        for n, d in sweep.shapes():
            X = text[order[:n]][:, :d].tocsr()
            H = TARGETS[technique](data.labels[order[:n]])
            dense = dense_targets(H)
            calls = {
                way: partial(WAYS[way], X, dense if way in (PRINTED_DIRECT, PRINTED_TWO_STAGE) else H, ridge)
                for way in ways
            }
            turns = alternate(calls, REPEATS, enough=ENOUGH)
            V = turns[ways[0]].answer
            for way, taken in turns.items():
                W = taken.answer
                yield Outcome(
                    sweep.figure, data.name, technique, n, d, X.nnz, dense.shape[1], way, min(taken.cpu),
                    min(taken.clock), W.shape[1], distance(W, V),
                )  # fmt: skip
            sys.stderr.write(f"{sweep.figure}, {technique}, {n} x {d}\n")


# ---- what follows ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """Everything of one figure and one technique."""

    sweep: Sweep
    technique: str
    rows: list[Outcome]

    def of(self, way: str) -> list[Outcome]:
        """By size."""
        return [row for row in self.rows if row.way == way]

    def seconds(self, way: str) -> np.ndarray:
        """CPU seconds by size."""
        return np.array([row.cpu for row in self.of(way)])

    def exponent(self, way: str) -> float:
        """How seconds grow with the size."""
        return slope(self.sweep.sizes, self.seconds(way))

    def exponent_of_nonzeros(self) -> float:
        """How the data grow with the size."""
        return slope(self.sweep.sizes, [row.nnz for row in self.of(self.rows[0].way)])


def slope(sizes: Any, values: Any) -> float:
    """Slope of a line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def claims(found: Found, ways: list[str]) -> Iterator[Claim]:
    """Yield the claims of section 5.3."""
    for one, other in (
        (PRINTED_TWO_STAGE, PRINTED_DIRECT),
        (TWO_STAGE, PRINTED_DIRECT),
        (TWO_STAGE, DIRECT),
        (SWEEPING, DIRECT),
    ):
        if one in ways and other in ways:
            ratios = found.seconds(other) / found.seconds(one)
            yield Claim(
                f"{one} is faster than {other} at every size",
                bool(min(ratios) > 1),
                "by " + ", ".join(f"{ratio:.2g}" for ratio in ratios),
            )
    for way in (PRINTED_TWO_STAGE, BY_LSQR, TWO_STAGE, SWEEPING):
        if way in ways:
            yield at_most(
                f"{way} grows linearly with {found.sweep.grows}",
                found.exponent(way),
                LINEAR,
                f"exponent {{value:.2f}}; of the nonzeros {found.exponent_of_nonzeros():.2f}",
            )


# ---- showing ---------------------------------------------------------------------------------------


def show(report: Report, found: Found, ways: list[str]) -> None:
    """The table of one figure and technique."""
    sweep = found.sweep
    fixed = "d" if sweep.grows == "n" else "n"
    columns = [name for way in ways for name in (f"{way}, CPU s::.3f", "off::.0e")]
    title = f"{sweep.figure}: {sweep.data}, {found.technique}, {fixed} = {sweep.other}"
    table = report.table(sweep.grows, "nonzeros", "targets", *columns, title=title)
    for at, size in enumerate(sweep.sizes):
        rows = [found.of(way)[at] for way in ways]
        table.row(size, rows[0].nnz, rows[0].targets, *(x for row in rows for x in (row.cpu, row.off)))
    table.row("exponent", "", "", *(x for way in ways for x in (found.exponent(way), "")))


STYLES = {
    PRINTED_DIRECT: "k-",
    PRINTED_TWO_STAGE: "k--",
    DIRECT: "C0-",
    BY_LSQR: "C1--",
    TWO_STAGE: "C3--",
    SWEEPING: "C3:",
}


def draw(figures: list[Found], ways: list[str]) -> Any:
    """Seconds against the size, a panel for each technique or side."""
    figure, (row,) = panels(1, len(figures), sharey=True)
    for axes, found in zip(row, figures, strict=True):
        for way in ways:
            axes.plot(found.sweep.sizes, found.seconds(way), STYLES[way], marker=".", label=way)
        axes.set(yscale="log", xlabel=found.sweep.grows, title=f"{found.sweep.data}, {found.technique}")
    row[0].set_ylabel("CPU seconds")
    row[0].legend(fontsize="x-small")
    return figure


# ---- the command -----------------------------------------------------------------------------------


def sweeps(given: argparse.Namespace) -> list[Sweep]:
    """The figures, small with `--quick`."""
    listed = [sweep for sweep in SWEEPS if sweep.figure.split(",")[0][-1] in given.figures]
    if not given.quick:
        return listed
    return [Sweep(s.figure, s.data, s.techniques[-1:], s.grows, QUICK_STEPS, QUICK_OTHER) for s in listed]


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--figures", nargs="+", choices=list("345"), default=list("345"), help="all")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS), help="all")
    parser.add_argument("--ridge", type=float, default=1.0, help="added to XᵀX (1)")
    report = Report(parser)
    given = report.given
    chosen = sweeps(given)
    listed = {name: labelled_news(given, name) for name in dict.fromkeys(sweep.data for sweep in chosen)}
    drawn: dict[str, list[Found]] = {}
    everything: list[Outcome] = []
    for sweep in chosen:
        rows = list(measure(sweep, listed[sweep.data], given.ridge, given.ways))
        for technique in sweep.techniques:
            found = Found(sweep, technique, [row for row in rows if row.technique == technique])
            show(report, found, given.ways)
            report.say(claims(found, given.ways), f"{sweep.figure}, {technique}")
            drawn.setdefault(sweep.figure.split(",")[0], []).append(found)
        everything += rows
    for name, figures in drawn.items():
        report.picture(name, draw, figures, given.ways)
    by, of = ("figure", "data", "technique", "way"), ("n", "d", "nnz", "targets", "cpu", "off")
    report.keep("seconds", everything, by, of)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
