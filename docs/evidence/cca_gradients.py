"""Correlation captured against work by gradient methods: Figures 4.1 and 4.2 of Lu 2015, Example 4.2.3, and `lobpcg`.

    python docs/evidence/cca_gradients.py --data FOLDER [--quick] [--parts stochastic heuristics naive]

Twenty pairs, uncentred. Captured is the sum of the canonical correlations between XΦ and YΨ, on the rows that were
learnt from and on rows held out, over that of the exact solution on the same rows.

- stochastic: `appgrad` against `stochastic-appgrad` (Figure 4.1) on the halves of MNIST's images (60000 to learn from,
  10000 held out; ridge 0.005 n, scored without a ridge, as its authors did) and on words and next words of the Penn
  Treebank (half of the text each; ridge 1, scored with it). AUTHORS is what their own code prints;
- heuristics: SVD of XᵀY unwhitened (`nw-cca`), with the diagonals whitened (`dw-cca`), CCA between principal components
  (`rpcca`), against `stochastic-appgrad` (Figure 4.2) on words of titles and queries (ridge 1) and on a generated pair
  of 100,000 + 100,000 columns (ridge 50; `--rows`, `--columns`), in place of the URL features;
- naive: projected gradient descent against `appgrad`, on the example with four rows and on the images, from a random
  start and from the exact answer.

Flops are those of products with the data. Where a batch method is run on Gram matrices, to save time, they are what
the same iterations take by sweeps, as a short run by sweeps counts them.

Printed: tables, and for each claim whether it held. With `--out`: all points as CSV, a figure for each part. `--quick`
generates small data, on which the claims mean nothing.

Sources: Lu 2015, Fast linear algorithms for machine learning (thesis), sections 4.2 and 4.4; Ma, Lu & Foster 2015,
Finding linear structure in large datasets with scalable canonical correlation analysis, ICML.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
from captured import Judge, Look, follow, installed
from datasets import Views, next_words, split_halves, titles_and_queries, wide_words
from showing import Claim, Report, arguments, panels

import linspec as ls

# ---- settings --------------------------------------------------------------------------------------

K, ENDLESS = 20, 1e-300

BATCH, STOCHASTIC, AS_PRINTED, OURS = (
    "appgrad",
    "stochastic-appgrad",
    "stochastic, as printed",
    "lobpcg",
)

ITERATIONS, QUICK_ITERATIONS = {"images": 2000, "words": 2000}, 20
"""Numbers of iterations of `appgrad`."""

STEPS, QUICK_STEPS = 4000, 50
"""Numbers of steps of `stochastic-appgrad` with its authors' settings."""

AUTHORS_OPTIONS: dict[str, Any] = {
    "step": 0.05, "batch": 50, "normalizer_rows": 200, "averaging": False, "epochs": 1e6,
}  # fmt: skip

PLAIN_OPTIONS: dict[str, Any] = {"scaling": "none", "averaging": False}
"""One step for all columns and the last iterate, as printed; size of batches and step from the data."""

EPOCHS, QUICK_EPOCHS = {"images": 30.0, "words": 60.0, "titles": 60.0, "wide": 20.0}, 1.0
"""Readings of all rows by `stochastic-appgrad`."""

AUTHORS = {100: 0.768, 300: 0.856, 500: 0.890, 1000: 0.929, 3000: 0.968, 4000: 0.976}
"""Shares that the authors' code has captured on MNIST, by the number of stochastic steps."""

MOST, LEVELS, LOWER = 0.9, (0.8, 0.9, 0.95, 0.99), (0.6, 0.7)
"""Meaning of "nearly all", the shares at which the work is compared, and further ones at which there are gains."""

MUCH_LESS = 0.5
"""Meaning of "much less" work: at most this share of it."""

COMPONENTS, WIDE_COMPONENTS, QUICK_COMPONENTS = 1200, 300, 40
"""Principal components of PCA-CCA; 1200 are printed. The wide pair gets fewer for the time they take."""

STEP = 0.05
"""The step of the naive gradient and of AppGrad beside it, that of AppGrad's authors."""


@dataclass(frozen=True)
class Point:
    """The shares of a method after some work; shares of held-out rows are NaN if there are none."""

    part: str
    data: str
    method: str
    iteration: int
    passes: float
    flops: float
    cpu: float
    total: float
    captured: float
    captured_held_out: float


Points = dict[str, list[Point]]
"""By method, in the order of the work."""


def due(iteration: int) -> bool:
    """Iterations that are looked at: about eight in each doubling, and those of AUTHORS."""
    return iteration in AUTHORS or iteration in DUE


DUE = frozenset(round(1.09**power) for power in range(140))


@dataclass(frozen=True)
class Task:
    """A problem, those who judge what was captured, and what the exact solution has."""

    part: str
    data: str
    problem: ls.CCA
    judges: tuple[Judge, ...]
    exact: tuple[float, ...]

    def points(
        self, method: str, looks: list[Look], flops: Callable[[Look], float] | None = None
    ) -> list[Point]:
        """Convert looks to points, with shares of the exact totals."""
        found = []
        for look in looks:
            shares = [total / exact for total, exact in zip(look.totals, self.exact, strict=True)]
            found.append(
                Point(
                    self.part, self.data, method, look.iteration, look.passes, flops(look) if flops else look.flops,
                    look.cpu, look.totals[0], shares[0], shares[1] if len(shares) > 1 else np.nan,
                )
            )  # fmt: skip
        sys.stderr.write(f"{self.data}, {method}: {found[-1].captured:.4f} after {found[-1].cpu:.1f} s\n")
        return found


def task(part: str, data: str, views: Views, ridge: float, scored: float, form: str) -> Task:
    """A problem with its exact solution."""
    judges = [Judge(views.X, views.Y, scored, form)]
    if views.held_out:
        judges.append(Judge(*views.held_out, scored, form))
    shared: Any = judges[0].moments if form != "implicit" else views.X
    other: Any = None if form != "implicit" else views.Y
    problem = ls.CCA(shared, other, K, ridge=ridge, center=False)
    exact = exact_solution(problem)
    totals = tuple(judge.total(exact.x_weights, exact.y_weights) for judge in judges)
    return Task(part, data, ls.CCA(views.X, views.Y, K, ridge=ridge, center=False), tuple(judges), totals)


def exact_solution(problem: ls.CCA) -> Any:
    """By `gram` where that is quick, and otherwise by a run to a small residual."""
    if max(problem.X.shape[1], problem.Y.shape[1]) <= 2000:
        return ls.solve(problem, "gram")
    return ls.solve(problem, "lobpcg" if installed("lobpcg") else "als", tol=1e-7, rng=1)


# ---- stochastic (Figure 4.1) -----------------------------------------------------------------------


def stochastic(given: argparse.Namespace) -> Iterator[tuple[str, Points, list[Claim]]]:
    """Run both data sets; yield their points, and the claim on the two."""
    seen: dict[str, Points] = {}
    for data in ("images", "words"):
        views = split_halves(given) if data == "images" else next_words(given, 10_000, halves=True)
        ridge = 0.005 * views.X.shape[0] if data == "images" else 1.0
        form = "dense" if data == "images" else "sparse"
        one = task("stochastic", data, views, ridge, 0.0 if data == "images" else ridge, form)
        seen[data] = dict(curves(one, data, given))
        yield data, seen[data], list(claims_on_stochastic(data, seen[data]))
    claims = [claim_on_size(method, seen) for method in (AS_PRINTED, STOCHASTIC)]
    yield "both", {}, claims


def claim_on_size(method: str, seen: dict[str, Points]) -> Claim:
    """Section 4.4.3: of the words there are more."""
    text = f"the larger the data, the more {method} gains (words against images)"
    if not installed(STOCHASTIC):
        return Claim(text, None, "not installed")
    pairs = [
        (level, *(gain(seen[data], method, level) for data in ("images", "words")))
        for level in (*LOWER, *LEVELS)
    ]
    known = [(level, a, b) for level, a, b in pairs if np.isfinite(a) and np.isfinite(b)]
    words = "; ".join(f"to {level}: {b:.2g} against {a:.2g} times" for level, a, b in known)
    held = bool(known) and all(b > a for _, a, b in known)
    return Claim(text, held, words or "no share that all four runs reached")


def curves(one: Task, data: str, given: argparse.Namespace) -> Iterator[tuple[str, list[Point]]]:
    """Every method on one set."""
    iterations = QUICK_ITERATIONS if given.quick else ITERATIONS[data]
    yield BATCH, batch(one, iterations)
    for method, options in stochastic_settings(data, quick=given.quick) if installed(STOCHASTIC) else ():
        run = follow(one.problem, STOCHASTIC, one.judges, due=due, rng=0, tol=ENDLESS, **options)
        yield method, one.points(method, run.looks)
    if installed("lobpcg"):
        run = follow(one.problem, "lobpcg", one.judges, rng=0, form="implicit", tol=1e-7)
        yield OURS, one.points(OURS, run.looks)


def stochastic_settings(data: str, *, quick: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """The default, and what is printed: on images with all that its authors had."""
    epochs = QUICK_EPOCHS if quick else EPOCHS[data]
    yield STOCHASTIC, {"epochs": epochs}
    if data == "images":
        yield AS_PRINTED, {**AUTHORS_OPTIONS, "max_iterations": QUICK_STEPS if quick else STEPS}
    else:
        yield AS_PRINTED, {**PLAIN_OPTIONS, "epochs": epochs}


def batch(one: Task, iterations: int) -> list[Point]:
    """AppGrad on Gram matrices, with the flops of sweeps."""
    shared = ls.CCA(one.judges[0].moments, k=K, ridge=one.problem.ridge, center=False)
    run = follow(shared, "appgrad", one.judges, due=due, rng=0, tol=ENDLESS, max_iterations=iterations)
    return one.points(BATCH, run.looks, of_sweeps(one.problem, "appgrad"))


def of_sweeps(problem: ls.CCA, solver: str, **options: Any) -> Callable[[Look], float]:
    """The flops of sweeps up to an iteration, by a short run that makes them; all iterations cost the same."""
    short = ls.solve(problem, solver, rng=0, form="implicit", max_iterations=2, tol=ENDLESS, **options)
    first, second = (float(short.history["flops"][at]) for at in (1, 2))
    return lambda look: first + (look.iteration - 1) * (second - first)


def work(points: list[Point], level: float) -> float:
    """Return the flops to capture a share of the training rows; infinite if it is never reached."""
    return min((point.flops for point in points if point.captured >= level), default=np.inf)


def gain(found: Points, method: str, level: float) -> float:
    """How many times the flops of a method batch AppGrad takes; not a number where one never gets there."""
    both = [work(found.get(name, []), level) for name in (BATCH, method)]
    return both[0] / both[1] if np.isfinite(both).all() else np.nan


def claims_on_stochastic(data: str, found: Points) -> Iterator[Claim]:
    """Section 4.4.3."""
    for method in (BATCH, AS_PRINTED, STOCHASTIC, OURS):
        if method not in found:
            yield Claim(f"{method} captures nearly all", None, "not installed")
            continue
        last = found[method][-1]
        yield Claim(
            f"{method} captures nearly all, in sample and out of it",
            min(last.captured, last.captured_held_out) >= MOST,
            f"{last.captured:.4f}, {last.captured_held_out:.4f} after {last.flops:.1e} flops, "
            f"iteration {last.iteration}",
        )
    for ours in (AS_PRINTED, STOCHASTIC, OURS):
        if ours not in found:
            continue
        costs = [(level, work(found[BATCH], level), work(found[ours], level)) for level in LEVELS]
        known = [(level, a, b) for level, a, b in costs if np.isfinite(a) or np.isfinite(b)]
        yield Claim(
            f"{ours} captures the same as batch AppGrad with much less work",
            all(b <= MUCH_LESS * a for _, a, b in known) and bool(known),
            "; ".join(f"{level}: {b:.1e} against {a:.1e} flops" for level, a, b in known)
            or "neither gets there",
        )
    if data == "images" and AS_PRINTED in found:
        at = {point.iteration: point.captured for point in found[AS_PRINTED]}
        both = [(step, value, at[step]) for step, value in AUTHORS.items() if step in at]
        off = max((abs(mine - theirs) for _, theirs, mine in both), default=np.nan)
        figures = ", ".join(f"{step}: {mine:.3f} ({theirs:.3f})" for step, theirs, mine in both)
        yield Claim("the authors' curve within two hundredths", bool(off <= 0.02), f"{figures}")


# ---- heuristics (Figure 4.2) -----------------------------------------------------------------------


def heuristics(given: argparse.Namespace) -> Iterator[tuple[str, Points, list[Claim]]]:
    """Titles and queries, and the wide pair."""
    for data in ("titles", "wide"):
        if data == "titles":
            views = Views(*titles_and_queries(given, common=True))
        else:
            views = wide_words(given, given.rows, given.columns)
        one = task(
            "heuristics",
            data,
            views,
            *((1.0, 1.0, "sparse") if data == "titles" else (50.0, 50.0, "implicit")),
        )
        components = QUICK_COMPONENTS if given.quick else COMPONENTS if data == "titles" else WIDE_COMPONENTS
        found = dict(compared(one, components, given))
        yield data, found, list(claims_on_heuristics(found, one.exact[0]))


def compared(one: Task, components: int, given: argparse.Namespace) -> Iterator[tuple[str, list[Point]]]:
    """Three answers, and curves."""
    for method, options in (("nw-cca", {}), ("dw-cca", {}), ("rpcca", {"components": components})):
        if installed(method):
            run = follow(one.problem, method, one.judges, rng=0, form="implicit", **options)
            yield method, one.points(method, run.looks[-1:])
    for method, options in stochastic_settings(one.data, quick=given.quick) if installed(STOCHASTIC) else ():
        run = follow(one.problem, STOCHASTIC, one.judges, due=due, rng=0, tol=ENDLESS, **options)
        yield method, one.points(method, run.looks)
    if installed("lobpcg"):
        run = follow(one.problem, "lobpcg", one.judges, rng=0, form="implicit", tol=1e-4)
        yield OURS, one.points(OURS, run.looks)


def claims_on_heuristics(found: Points, exact: float) -> Iterator[Claim]:
    """Section 4.4.3."""
    rivals = {name: found[name][-1] for name in ("nw-cca", "dw-cca", "rpcca") if name in found}
    listed = ", ".join(
        f"{name} {point.total:.3f} at {point.flops:.1e} flops" for name, point in rivals.items()
    )
    for ours in (AS_PRINTED, STOCHASTIC, OURS):
        text = f"{ours} captures significantly more than NW-CCA, DW-CCA and PCA-CCA"
        if ours not in found or len(rivals) < 3:
            yield Claim(text, None, "not all of them are installed")
            continue
        last, best = found[ours][-1], max(point.total for point in rivals.values())
        yield Claim(
            text,
            last.total >= 1.05 * best,
            f"{last.total:.3f} at {last.flops:.1e} flops of {exact:.3f}; {listed}",
        )
        cheap = work(found[ours], (best + 1e-9) / exact)
        yield Claim(
            f"{ours} has more than any of them at less work than PCA-CCA takes",
            cheap < rivals["rpcca"].flops,
            f"after {cheap:.1e} flops, PCA-CCA takes {rivals['rpcca'].flops:.1e}",
        )


# ---- naive (Example 4.2.3) -------------------------------------------------------------------------

EXAMPLE = (
    np.array([[1.0, 5.0], [2.0, -6.0], [3.0, 7.0], [4.0, -8.0]]),
    np.array([[9.0, 1.0], [10.0, -1.0], [11.0, -1.0], [12.0, 1.0]]),
)


def start_at(x: np.ndarray, y: np.ndarray) -> ls.TestMatrix:
    """A start that is given: what is drawn for X first, then for Y."""
    blocks = cycle([x, y])

    @dataclass(frozen=True, kw_only=True)
    class Given(ls.TestMatrix):
        def draw(self, rows: int, columns: int, rng: np.random.Generator) -> np.ndarray:
            return next(blocks)[:, :columns]

    return Given()


def naive(given: argparse.Namespace) -> Iterator[tuple[str, Points, list[Claim]]]:
    """The example, then the images."""
    yield "example", {}, list(claims_on_example())
    views = split_halves(given)
    one = task("naive", "images", views, 0.005 * views.X.shape[0], 0.0, "dense")
    shared = ls.CCA(one.judges[0].moments, k=K, ridge=one.problem.ridge, center=False)
    exact = exact_solution(shared)
    found: Points = {}
    iterations = QUICK_ITERATIONS if given.quick else ITERATIONS["images"]
    for place in ("random start", "exact start"):
        for solver, more in (("naive-gradient", {}), ("appgrad", {"auxiliary": "start"})):
            options: dict[str, Any] = {"step": STEP, **more}
            flops = of_sweeps(one.problem, solver, **options)
            options |= {"max_iterations": iterations, "tol": ENDLESS, "rng": 0}
            if place == "exact start":
                options["test_matrix"] = start_at(np.asarray(exact.x_weights), np.asarray(exact.y_weights))
            run = follow(shared, solver, one.judges, due=lambda i: i == 0 or due(i), **options)
            found[f"{solver}, {place}"] = one.points(f"{solver}, {place}", run.looks, flops)
    if installed("lobpcg"):
        run = follow(one.problem, "lobpcg", one.judges, rng=0, form="implicit", tol=1e-7)
        found[OURS] = one.points(OURS, run.looks)
    yield "images", found, list(claims_on_naive(found))


def claims_on_example() -> Iterator[Claim]:
    """Propositions 2.1 and 2.2 by Example 4.2.3."""
    problem = ls.CCA(*EXAMPLE, 1, center=False)
    exact = ls.solve(problem, "direct")
    x, y = np.asarray(exact.x_weights), np.asarray(exact.y_weights)
    turned = {}
    for solver, more in (("naive-gradient", {}), ("appgrad", {"auxiliary": "start"})):
        sines = []

        def look(progress: Any, sines: list[float] = sines) -> bool:
            now = np.asarray(progress.current()["x_weights"])
            sines.append(ls.metrics.subspace_distance(x, now))
            return progress.iteration >= 200

        instance = ls.get_solver(solver, "cca")(test_matrix=start_at(x, y), tol=1e-300, step=0.01, **more)
        ls.solve(problem, instance, callback=look)
        turned[solver] = sines
    naive_, ours = turned["naive-gradient"], turned["appgrad"]
    yield Claim(
        "a step of the naive gradient from the exact pair leaves it",
        naive_[1] > 1e-6,
        f"sine of the angle between φ₁ and its successor {naive_[1]:.2e}, after 200 steps {naive_[-1]:.2e}",
    )
    yield Claim(
        "AppGrad stays at the exact pair",
        max(ours) < 1e-8,
        f"at most {max(ours):.1e} away in {len(ours) - 1} steps",
    )


def claims_on_naive(found: Points) -> Iterator[Claim]:
    """Section 4.2 on data."""
    last = {name: points[-1] for name, points in found.items()}
    naive_, ours = last["naive-gradient, random start"], last["appgrad, random start"]
    yield Claim(
        "AppGrad gets farther than the naive gradient in as many steps",
        ours.captured > naive_.captured,
        f"{ours.captured:.4f} and {naive_.captured:.4f} after {ours.iteration} and {naive_.iteration} steps",
    )
    left = last["naive-gradient, exact start"]
    away = min(found["naive-gradient, exact start"], key=lambda point: point.captured)
    yield Claim(
        "the naive gradient leaves the exact answer",
        left.captured < 0.99,
        f"{left.captured:.4f} after {left.iteration} steps, at least {away.captured:.4f}",
    )
    kept = min(point.captured for point in found["appgrad, exact start"])
    yield Claim("AppGrad stays at the exact answer", kept > 1 - 1e-6, f"1 − {1 - kept:.1e} at least")
    if OURS in found:
        reached = next((p for p in found[OURS] if p.captured >= 0.999), None)
        figures = f"{reached.passes:g} passes, {reached.flops:.1e} flops" if reached else "never"
        yield Claim("lobpcg captures 0.999", reached is not None, figures)


# ---- showing ---------------------------------------------------------------------------------------


def show(report: Report, data: str, found: Points) -> None:
    """Show the work and the shares of every method, at the levels and at the end."""
    table = report.table(
        "method", *(f"to {level}::.1e" for level in LEVELS), "captured::.4f", "held out::.4f", "sum::.4f", "flops::.1e",
        "passes::.1f", "CPU s::.1f", "iterations", title=data,
    )  # fmt: skip
    for method, points in found.items():
        last, costs = points[-1], [work(points, level) for level in LEVELS]
        shares = last.captured, last.captured_held_out, last.total
        table.row(method, *costs, *shares, last.flops, last.passes, last.cpu, last.iteration)


def draw(part: str, sets: dict[str, Points]) -> Any:
    """Captured against flops, or against iterations for the naive gradient."""
    held_out = part == "stochastic"
    figure, grid = panels(2 if held_out else 1, len(sets))
    for column, (data, found) in enumerate(sets.items()):
        for row, name in enumerate(("captured", "captured_held_out")[: len(grid)]):
            axes = grid[row, column]
            for number, (method, points) in enumerate(found.items()):
                cost = [max(point.iteration, 0.5) if part == "naive" else point.flops for point in points]
                shares = [getattr(point, name) for point in points]
                axes.plot(
                    cost, shares, marker="." if len(points) > 1 else "s", color=f"C{number}", label=method
                )
                if len(points) == 1:
                    axes.axhline(shares[0], color=f"C{number}", lw=1, ls=":")
            axes.set(
                xscale="log", xlabel="iterations" if part == "naive" else "flops",
                ylabel="captured" + (", rows held out" if row else ""), title=data,
            )  # fmt: skip
            axes.legend(fontsize="x-small")
    return figure


# ---- the command -----------------------------------------------------------------------------------

PARTS = {"stochastic": stochastic, "heuristics": heuristics, "naive": naive}


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="all three")
    parser.add_argument("--rows", type=int, default=300_000, help="of the wide pair (300000)")
    parser.add_argument("--columns", type=int, default=100_000, help="of each of its views (100000)")
    report = Report(parser)
    given = report.given
    # Data that are missing are missed before anything is computed.
    if {"stochastic", "naive"} & set(given.parts):
        split_halves(given)
    everything: list[Point] = []
    for part in given.parts:
        sets: dict[str, Points] = {}
        for data, found, claims in PARTS[part](given):
            if found:
                show(report, f"{part}, {data}", found)
                sets[data] = found
                everything += [point for points in found.values() for point in points]
            report.say(claims, f"{part}, {data}")
        if sets:
            report.picture(part, draw, part, sets)
    of = ("iteration", "passes", "flops", "cpu", "captured", "captured_held_out")
    report.keep("captured", everything, ("part", "data", "method"), of)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
