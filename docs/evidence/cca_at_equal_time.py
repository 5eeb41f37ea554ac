"""Which strategy finds the largest correlations in equal time: Figures 3.1 and 3.2 of Lu 2015, and `lobpcg`.

    python docs/evidence/cca_at_equal_time.py --data FOLDER [--quick] [--sets words titles] [--ridge 1]

Twenty pairs of two sets, uncentred:

- words: words of the Penn Treebank and the words after them, one-hot, the latter among the 3000 most frequent (Figure
  3.1, three settings). Both Gram matrices are diagonal, so that D-CCA has the truth;
- titles: words of product titles and of queries, 7500 columns each, three cuts: the most frequent words; those after
  the 100 (titles) and 200 (queries) most frequent; those after 200 and 400 (Figure 3.2's cuts, there of 20000 host and
  lexical features each of 400,000 URLs, which are not at hand in full).

RPCCA (`rpcca`, exact CCA between principal components), L-CCA (`l-cca`, 100 components removed) and G-CCA (`g-cca`)
take the settings of Table 3.1 first, as printed: k_rpcca components, t2 gradient steps in each half of t1 = 5
iterations, from zero. Then RPCCA's and G-CCA's are changed until they take the same seconds of the processor as L-CCA,
to a tenth, or RPCCA has 1500 components: the rows "equal time". D-CCA makes 30 iterations. "l-cca" is L-CCA with
linspec's defaults, which begin each half where the last one ended and converge whatever the components miss. `lobpcg`
sweeps the data as the others do and is stopped after the seconds that L-CCA took; "lobpcg, Gram" holds the Gram
matrices, sparse.

The correlations shown are those between XΦ and YΨ on the same rows, with the ridge, by an exact CCA of the twenty
variates. The thesis has no ridge; without one, words that occur once or twice make dozens of correlations exactly 1.
The truth is that of a run to a residual of 1e-9.

Printed: a table, and for each claim whether it held. With `--out`: the correlations as CSV, a figure for each set.
`--quick` generates small data, on which the claims mean nothing.

Source: Lu 2015, Fast linear algorithms for machine learning (thesis), section 3.5.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from captured import Followed, Judge, follow, installed
from datasets import most_frequent, next_words, titles_and_queries
from showing import Claim, Report, arguments, panels

import linspec as ls

# ---- settings --------------------------------------------------------------------------------------

K, RIDGE, ENDLESS = 20, 1.0, 1e-300

RPCCA, LCCA, GCCA, DCCA, OURS, HELD = "RPCCA", "L-CCA", "G-CCA", "D-CCA", "lobpcg", "lobpcg, Gram"
OUR_LCCA = "l-cca"
PRINTED, EQUAL = "as printed", "equal time"

NEXT_WORDS, CUT_COLUMNS, QUICK_COLUMNS = 3000, 7500, 150
CUTS, QUICK_CUTS = ((0, 0), (100, 200), (200, 400)), ((0, 0), (5, 10), (10, 20))

SETTINGS = {
    "words": ((300, 7, 17), (500, 38, 51), (800, 115, 127)),
    "titles": ((600, 4, 7), (600, 11, 16), (600, 13, 17)),
}
"""Table 3.1: components of RPCCA, gradient steps of L-CCA and of G-CCA."""

QUICK_SETTINGS = ((30, 4, 7), (40, 8, 12), (50, 12, 16))

COMPONENTS, QUICK_COMPONENTS = 100, 15
"""Numbers of components of L-CCA."""

OUTER, DIAGONAL = 5, 30
"""Iterations of L-CCA and G-CCA, and of D-CCA."""

ALIKE = 0.1
"""Seconds are called equal when they differ by no more than this share."""

TRIALS = 4
"""Runs to find the setting that takes equal time, at most."""

MOST_COMPONENTS = 1500
"""Largest number of components of RPCCA in the search for equal time: half of the columns of the smaller view of
words.
"""

CLOSE, GOOD, POOR = 0.01, 0.95, 0.9
"""Meanings of "the same", "close to the truth" and "not well", as shares of the sum of the correlations."""


@dataclass(frozen=True)
class Case:
    """One problem with the settings for it."""

    name: str
    label: str
    X: Any
    Y: Any
    components: int
    steps: tuple[int, int, int]


@dataclass(frozen=True)
class Outcome:
    """One of the twenty correlations that a method found."""

    data: str
    case: str
    method: str
    time: str
    setting: int
    cpu: float
    seconds: float
    passes: float
    flops: float
    index: int
    correlation: float
    exact: float


@dataclass(frozen=True)
class Result:
    """The result of one method in one case."""

    method: str
    time: str
    setting: int
    cpu: float
    seconds: float
    passes: float
    flops: float
    correlations: np.ndarray


@dataclass(frozen=True)
class Found:
    """Everything of one case."""

    case: Case
    exact: np.ndarray
    results: list[Result]

    def share(self, method: str, time: str) -> float:
        """The share of the exact sum that a method has."""
        return float(self.of(method, time).correlations.sum() / self.exact.sum())

    def of(self, method: str, time: str) -> Result:
        """Its result; methods with one kind of time have that."""
        rows = [row for row in self.results if row.method == method]
        return next((row for row in rows if row.time == time), rows[-1])

    def has(self, *methods: str) -> bool:
        """Whether these methods were run."""
        return set(methods) <= {row.method for row in self.results}


# ---- measuring -------------------------------------------------------------------------------------


def cases(given: argparse.Namespace, name: str) -> Iterator[Case]:
    """The three problems of a set."""
    components = QUICK_COMPONENTS if given.quick else COMPONENTS
    steps = QUICK_SETTINGS if given.quick else SETTINGS[name]
    if name == "words":
        views = next_words(given, 120 if given.quick else NEXT_WORDS)
        for number, row in enumerate(steps, 1):
            yield Case(name, f"setting {number}", views.X, views.Y, components, row)
        return
    views = titles_and_queries(given, common=True)
    columns = QUICK_COLUMNS if given.quick else CUT_COLUMNS
    for pair, row in zip(QUICK_CUTS if given.quick else CUTS, steps, strict=True):
        X, Y = (most_frequent(A, without, columns) for A, without in zip(views, pair, strict=True))
        yield Case(name, f"without the {pair[0]}, {pair[1]} most frequent", X, Y, components, row)


class Bench:
    """The methods on one case."""

    def __init__(self, case: Case, ridge: float, seed: int) -> None:
        self.case, self.seed = case, seed
        self.judge = Judge(case.X, case.Y, ridge, "sparse")
        self.problem = ls.CCA(case.X, case.Y, K, ridge=ridge, center=False)

    def exact(self) -> np.ndarray:
        """The truth, from a run of its own."""
        shared = ls.CCA(self.judge.moments, k=K, ridge=self.problem.ridge, center=False)
        small = max(self.case.X.shape[1], self.case.Y.shape[1]) <= 2000
        solver = "gram" if small else "lobpcg" if installed("lobpcg") else "als"
        options = {} if small else {"tol": 1e-9, "rng": 1}
        found = ls.solve(shared, solver, **options)
        return np.asarray(found.correlations)

    def run(self, method: str, setting: int, cpu: float = np.inf) -> Followed:
        """One run."""
        solver, options = self.options(method, setting)
        return follow(self.problem, solver, cpu=cpu, rng=self.seed, **options)

    def options(self, method: str, setting: int) -> tuple[str, dict[str, Any]]:
        """Solver and options; the data are swept but for the last."""
        swept: dict[str, Any] = {"form": "implicit"}
        rounds = {**swept, "iterations": OUTER, "inner_iterations": setting, "tol": ENDLESS}
        ling, from_zero = {"components": self.case.components}, {"inner_start": "zero"}
        by_method: dict[str, tuple[str, dict[str, Any]]] = {
            RPCCA: ("rpcca", {**swept, "components": setting}),
            LCCA: ("l-cca", {**rounds, **ling, **from_zero, "ling_variant": "projection"}),
            OUR_LCCA: ("l-cca", {**rounds, **ling}),
            GCCA: ("g-cca", {**rounds, **from_zero}),
            DCCA: ("d-cca", {**swept, "max_iterations": setting, "tol": ENDLESS}),
            OURS: ("lobpcg", {**swept, "tol": ENDLESS}),
            HELD: ("lobpcg", {"form": "sparse", "tol": ENDLESS}),
        }
        return by_method[method]

    def matched(self, method: str, first: Followed, setting: int, cpu: float) -> tuple[Followed, int]:
        """The run whose seconds of the processor are nearest to those given, and its setting."""
        tried = [(setting, first)]
        most = min(self.case.X.shape[1], self.case.Y.shape[1], MOST_COMPONENTS)
        for _ in range(TRIALS):
            nearest = min(tried, key=lambda pair: abs(np.log(pair[1].cpu / cpu)))
            if abs(nearest[1].cpu / cpu - 1) <= ALIKE:
                break
            guess = proposed([(at, run.cpu) for at, run in tried], cpu)
            guess = int(np.clip(guess, K if method == RPCCA else 1, most))
            if guess in {at for at, _ in tried}:
                break
            tried.append((guess, self.run(method, guess)))
        at, run = min(tried, key=lambda pair: abs(np.log(pair[1].cpu / cpu)))
        return run, at


def proposed(tried: list[tuple[int, float]], cpu: float) -> int:
    """Return a setting that should take `cpu` seconds: on a line through the two nearest ones, or through zero."""
    near = sorted(tried, key=lambda pair: abs(np.log(pair[1] / cpu)))[:2]
    if len(near) == 2 and (near[0][1] - near[1][1]) * (near[0][0] - near[1][0]) > 0:
        (a, s), (b, t) = near
        return round(a + (cpu - s) * (b - a) / (t - s))
    return round(near[0][0] * cpu / near[0][1])


def measure(case: Case, ridge: float, seed: int) -> Found:
    """All methods on one case."""
    bench = Bench(case, ridge, seed)
    results: list[Result] = []

    def keep(method: str, time: str, setting: int, run: Followed) -> None:
        s = run.solution
        rho = bench.judge.correlations(s.x_weights, s.y_weights)
        results.append(Result(method, time, setting, run.cpu, run.seconds, s.passes, s.flops, rho))
        sys.stderr.write(
            f"{case.name}, {case.label}, {method}, {time}, {setting}: {rho.sum():.4f} in {run.cpu:.1f} s\n"
        )

    keep(DCCA, PRINTED, DIAGONAL, bench.run(DCCA, DIAGONAL))
    exact = bench.exact()
    printed = dict(zip((RPCCA, LCCA, GCCA), case.steps, strict=True))
    if not installed("l-cca"):
        return Found(case, exact, results)
    leader = bench.run(LCCA, printed[LCCA])
    keep(LCCA, PRINTED, printed[LCCA], leader)
    for method in (RPCCA, GCCA):
        if installed(bench.options(method, 1)[0]):
            first = bench.run(method, printed[method])
            keep(method, PRINTED, printed[method], first)
            run, setting = bench.matched(method, first, printed[method], leader.cpu)
            keep(method, EQUAL, setting, run)
    run = bench.run(OUR_LCCA, printed[LCCA])
    keep(OUR_LCCA, PRINTED, printed[LCCA], run)
    for method in (OURS, HELD):
        if installed("lobpcg"):
            run = bench.run(method, 0, leader.cpu)
            keep(method, EQUAL, run.solution.iterations, run)
    return Found(case, exact, results)


# ---- what follows ----------------------------------------------------------------------------------


def shares(found: list[Found], method: str, time: str = EQUAL) -> list[float]:
    """Return the shares of the exact sum, case by case."""
    return [one.share(method, time) for one in found]


def in_words(found: list[Found], methods: tuple[str, ...], time: str) -> str:
    """The shares of some methods."""
    return "; ".join(
        f"{method} " + ", ".join(f"{share:.3f}" for share in shares(found, method, time))
        for method in methods
    )


def claims(name: str, found: list[Found]) -> Iterator[Claim]:
    """Yield the claims of section 3.5, at the settings as printed and at equal time, and our own."""
    methods = RPCCA, LCCA, GCCA
    if found[0].has(*methods):
        for time in (PRINTED, EQUAL):
            for claim in (claims_on_words if name == "words" else claims_on_cuts)(found, time):
                yield Claim(f"{claim.text}, {time}", claim.held, claim.figures)
        fastest = [min(one.results, key=lambda row: row.cpu).method for one in found]
        figures = ", ".join(
            f"{one.of(DCCA, PRINTED).cpu:.1f} of {one.of(LCCA, PRINTED).cpu:.1f} s" for one in found
        )
        yield Claim("D-CCA is the fastest", set(fastest) == {DCCA}, f"D-CCA of L-CCA: {figures}")
    else:
        yield Claim("the claims of section 3.5", None, "not all of rpcca, l-cca and g-cca are installed")
    for method in (OURS, HELD):
        if not found[0].has(*methods, method):
            yield Claim(f"{method} finds more than any of the three in equal time", None, "not installed")
            continue
        lead = [one.share(method, EQUAL) - max(one.share(other, EQUAL) for other in methods) for one in found]
        figures = in_words(found, (method,), EQUAL)
        yield Claim(f"{method} finds more than any of the three in equal time", min(lead) > 0, figures)
        yield Claim(
            f"{method} has 0.999 of the truth in that time", min(shares(found, method)) >= 0.999, figures
        )


def claims_on_words(found: list[Found], time: str) -> Iterator[Claim]:
    """Figure 3.1."""
    methods = RPCCA, LCCA, GCCA
    off = [abs(one.share(DCCA, time) - 1) for one in found]
    yield Claim("D-CCA has the truth", max(off) <= 1e-3, f"off by {max(off):.1e} of the sum")
    figures = in_words(found, methods, time)
    best = [max(methods, key=lambda method: one.share(method, time)) for one in found]
    yield Claim("L-CCA is the best of the three", set(best) == {LCCA}, figures)
    growing = shares(found, LCCA, time)
    yield Claim(
        "L-CCA comes close to D-CCA with more time",
        growing == sorted(growing) and growing[-1] >= GOOD,
        in_words(found, (LCCA,), time),
    )
    for method in (RPCCA, GCCA):
        worst = max(shares(found, method, time))
        yield Claim(f"{method} does not do well", worst < POOR, in_words(found, (method,), time))


def claims_on_cuts(found: list[Found], time: str) -> Iterator[Claim]:
    """Figure 3.2."""
    methods = RPCCA, LCCA, GCCA
    figures = in_words(found, methods, time)
    yield Claim(
        "D-CCA does not have the largest correlations", max(shares(found, DCCA, time)) < GOOD,
        in_words(found, (DCCA,), time),
    )  # fmt: skip
    gap = [max(one.share(other, time) for other in methods) - one.share(LCCA, time) for one in found]
    yield Claim(
        "L-CCA is the best or close to it in every cut",
        max(gap) <= 0.05,
        f"behind by {max(gap):.3f}; {figures}",
    )
    best = [max(methods, key=lambda method: one.share(method, time)) for one in found]
    yield Claim(
        "RPCCA is the best in the first cut, and not in the others",
        best[0] == RPCCA and RPCCA not in best[1:],
        f"best: {', '.join(best)}",
    )
    g, top = shares(found, GCCA, time), [max(one.share(m, time) for m in methods) for one in found]
    behind = [high - own for own, high in zip(g, top, strict=True)]
    yield Claim(
        "G-CCA is good in the third cut and poor in the first and second",
        behind[2] <= 0.05 < min(behind[:2]),
        "behind the best by " + ", ".join(f"{gap:.3f}" for gap in behind),
    )


# ---- showing ---------------------------------------------------------------------------------------


def show(report: Report, found: list[Found]) -> None:
    """The table of one set."""
    case = found[0].case
    table = report.table(
        "", "method", "time", "setting", "CPU s::.2f", "passes::.1f", "sum::.5f", "share::.4f", "ρ₁::.4f", "ρ₁₀::.4f",
        "ρ₂₀::.4f", title=f"{case.name}: {case.X.shape[0]} rows, {case.X.shape[1]} and {case.Y.shape[1]} columns",
    )  # fmt: skip
    for one in found:
        rho = one.exact
        table.row(one.case.label, "truth", "", "", "", "", rho.sum(), 1.0, *rho[[0, 9, 19]])
        for row in one.results:
            rho = row.correlations
            share = rho.sum() / one.exact.sum()
            table.row(
                "", row.method, row.time, row.setting, row.cpu, row.passes, rho.sum(), share, *rho[[0, 9, 19]]
            )


STYLES = {DCCA: "k:", RPCCA: "C0-", LCCA: "C1-", OUR_LCCA: "C1--", GCCA: "C2-", OURS: "C3-", HELD: "C3--"}


def draw(name: str, found: list[Found]) -> Any:
    """Correlations against their index, a panel for each case."""
    figure, (row,) = panels(1, len(found), sharey=True)
    for axes, one in zip(row, found, strict=True):
        index = np.arange(1, K + 1)
        axes.plot(index, one.exact, color="gray", lw=3, alpha=0.5, label="truth")
        for method, style in STYLES.items():
            if one.has(method):
                axes.plot(index, one.of(method, EQUAL).correlations, style, marker=".", label=method)
        axes.set(xlabel="index", title=f"{name}, {one.case.label}")
    row[0].set_ylabel("canonical correlation, equal time")
    row[0].legend(fontsize="small")
    return figure


def rows(found: list[Found]) -> Iterator[Outcome]:
    """Everything as one record a correlation."""
    for one in found:
        for r in one.results:
            shared = r.method, r.time, r.setting, r.cpu, r.seconds, r.passes, r.flops
            for index, (rho, exact) in enumerate(zip(r.correlations, one.exact, strict=True), 1):
                yield Outcome(one.case.name, one.case.label, *shared, index, float(rho), float(exact))


# ---- the command -----------------------------------------------------------------------------------


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=list(SETTINGS), default=list(SETTINGS), help="both")
    parser.add_argument("--ridge", type=float, default=RIDGE, help="added to XᵀX and YᵀY (1)")
    parser.add_argument("--seed", type=int, default=0, help="of everything random (0)")
    report = Report(parser)
    given = report.given
    everything: list[Outcome] = []
    for name, problems in {name: list(cases(given, name)) for name in given.sets}.items():
        found = [measure(case, given.ridge, given.seed) for case in problems]
        show(report, found)
        report.say(claims(name, found), name)
        report.picture(name, draw, name, found)
        everything += rows(found)
    by = ("data", "case", "method", "time", "setting", "cpu", "passes", "flops")
    report.keep("correlations", everything, by, ("correlation", "exact"))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
