"""What papers claim about canonical correlation analysis, repeated: four studies, each with its claims and verdicts.

    python docs/evidence/claims_on_cca.py STUDY --data FOLDER [--quick] [--only PART ...] [--recorded]

`--recorded` judges the recorded rows again. `docs/evidence/experiments.md` tells of the papers.

cca_at_equal_time (words, titles): Figures 3.1 and 3.2 of Lu 2015, twenty pairs, uncentred, ridge 1. RPCCA (`rpcca`),
L-CCA (`l-cca`, 100 components removed) and G-CCA (`g-cca`) take the settings of Table 3.1; then those of RPCCA and
G-CCA are changed until they take the seconds of L-CCA, to a tenth. `lobpcg` sweeps the
data and is stopped after the seconds of L-CCA; "lobpcg, Gram" holds the Gram matrices.

cca_convergence (als, sparse): alternating least squares on views with planted correlations, with exact regressions and
with such as reduce the error tenfold; the soft threshold of sparse AppGrad on `--seeds` (3) views of each shape.

cca_gradients (stochastic, heuristics, naive): the share of the exact sum that gradient methods capture against flops of
products with the data, Lu 2015, chapter 4. `--rows` and `--columns` are those of a generated pair. Batch methods run on
Gram matrices and have the flops of sweeps.

sparse_kernel_cca (noise, rows, images): gradKCCA among noise variables (`--seeds`, 5), on up to `--most` rows, and on
`--images` halves of digits. X and Y are uniform on (-1, 1), and Y1 = f(X1 + X2) - Y2 + .05 noise with the exponential
or the square. "published" is the search of its authors (Uurtio, Bhadra & Rousu 2019). MediaMill is not here.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, product
from typing import Any, NamedTuple

import datasets
import numpy as np
from published import gradkcca
from showing import (
    POSITIVE,
    Claim,
    Measured,
    Report,
    Rows,
    at_most,
    chosen,
    every,
    listed,
    printed,
    run_study,
)
from sklearn.metrics import f1_score, roc_auc_score
from timing import timed

import linspec as ls
from linspec.linalg import whitening

K, ENDLESS = 20, 1e-300


class Judge:
    """The canonical correlations of blocks of weights on given rows, by an exact small CCA of the variates."""

    def __init__(self, X: Any, Y: Any, ridge: float, form: str) -> None:
        self.moments = ls.Moments(X, Y, form=form)  # held, so that a look at an iterate costs little
        self.ridge = ridge

    def correlations(self, x: Any, y: Any) -> np.ndarray:
        x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            return np.zeros(x.shape[1])
        Sx, C, _, Sy = self.moments.products(x, y)
        Ux, Uy = (whitening(V.T @ SV + self.ridge * (V.T @ V)) for V, SV in ((x, Sx), (y, Sy)))
        found = np.clip(np.linalg.svd(Ux.T @ (x.T @ C) @ Uy, compute_uv=False), 0.0, 1.0)
        return np.concatenate([found, np.zeros(x.shape[1] - len(found))])


class Followed(NamedTuple):
    """A run, and at the iterates that were looked at: iteration, passes, flops, seconds, and the captured totals."""

    solution: Any
    looks: list[tuple[int, float, float, float, list[float]]]
    cpu: float


def follow(
    problem: Any,
    solver: str,
    judges: Any = (),
    due: Any = lambda _: True,
    cpu: float = np.inf,
    **options: Any,
) -> Followed:
    """Run a solver, judge iterates that are due and the answer, at no cost, and stop where the seconds are used up."""
    judging, seen, begin = 0.0, {}, time.process_time()

    def totals(x: Any, y: Any) -> list[float]:
        return [float(judge.correlations(x, y).sum()) for judge in judges]

    def look(progress: Any) -> bool:
        nonlocal judging
        used = time.process_time() - begin - judging
        if judges and due(progress.iteration):
            weights = progress.current()
            seen[progress.iteration] = used, totals(weights["x_weights"], weights["y_weights"])
            judging = time.process_time() - begin - used
        return used >= cpu

    found = ls.solve(problem, solver, callback=look, **options)
    used = time.process_time() - begin - judging
    rows = {int(row["iteration"]): row for row in found.history}
    costs = {at: [float(row[name]) for name in ("passes", "flops")] for at, row in rows.items()}
    looks = [(at, *costs[at], *seen[at]) for at in seen if at in rows]
    captured = totals(found.x_weights, found.y_weights)
    looks.append((found.iterations, found.passes, found.flops, used, captured))
    return Followed(found, looks, used)


def exact_solution(problem: ls.CCA, tol: float) -> Any:
    """By `gram` where that is quick, and otherwise by a run to a small residual."""
    if max(problem.X.shape[1], problem.Y.shape[1]) <= 2000:
        return ls.solve(problem, "gram")
    return ls.solve(problem, "lobpcg", tol=tol, rng=1)


RPCCA, LCCA, GCCA, DCCA, OURS, HELD = "RPCCA", "L-CCA", "G-CCA", "D-CCA", "lobpcg", "lobpcg, Gram"
THREE, PRINTED, EQUAL = (RPCCA, LCCA, GCCA), "as printed", "equal time"

QUICK_SETTINGS = ((30, 4, 7), (40, 8, 12), (50, 12, 16))

ALIKE, TRIALS, MOST_COMPONENTS = 0.1, 4, 1500
"""The share by which equal seconds may differ, runs to come there, and components of RPCCA at most."""


def cca_at_equal_time(report: Report) -> None:
    columns = "data case method time setting cpu::.2f passes::.1f flops::.1e share::.4f correlation exact"
    found = report.rows("correlations", columns, raced(report))
    for name, rows in found.by("data").items():
        report.say(claims_on_equal_time(name, rows), name)


def raced(report: Report) -> Measured:
    given = report.given
    for name in chosen(report, "words", "titles"):
        settings = QUICK_SETTINGS if given.quick else printed("Lu 2015, Table 3.1")[name]
        for (case, X, Y), setting in zip(list(cases(given, name)), settings, strict=True):
            judge, problem = Judge(X, Y, 1.0, "sparse"), ls.CCA(X, Y, K, ridge=1.0, center=False)
            shared = ls.CCA(judge.moments, k=K, ridge=1.0, center=False)
            exact = np.asarray(exact_solution(shared, 1e-9).correlations)
            race = Race(problem, 15 if given.quick else 100)
            for method, kind, taken, run in race.runs(*setting):
                s = run.solution
                rho = judge.correlations(s.x_weights, s.y_weights)
                share, costs = float(rho.sum() / exact.sum()), (run.cpu, s.passes, s.flops)
                yield name, case, method, kind, taken, *costs, share, rho.tolist(), exact.tolist()


def cases(given: argparse.Namespace, name: str) -> Iterator[tuple[str, Any, Any]]:
    if name == "words":
        views = datasets.next_words(given, 120 if given.quick else 3000)
        for number in (1, 2, 3):
            yield f"setting {number}", views.X, views.Y
        return
    views, columns = datasets.titles_and_queries(given), 150 if given.quick else 7500
    for pair in ((0, 0), (5, 10), (10, 20)) if given.quick else ((0, 0), (100, 200), (200, 400)):
        X, Y = (datasets.most_frequent(A, without, columns) for A, without in zip(views, pair, strict=True))
        yield f"without the {pair[0]}, {pair[1]} most frequent", X, Y


class Race:
    """The methods on one problem, with a number of components for L-CCA."""

    def __init__(self, problem: ls.CCA, components: int) -> None:
        self.problem, self.components = problem, components

    def runs(self, rpcca: int, lcca: int, gcca: int) -> Iterator[tuple[str, str, int, Followed]]:
        """Method, kind of time, setting and run, the latter as printed or so that it takes the time of L-CCA."""
        yield DCCA, PRINTED, 30, self.run(DCCA, 30)
        leader = self.run(LCCA, lcca)
        yield LCCA, PRINTED, lcca, leader
        for method, setting in ((RPCCA, rpcca), (GCCA, gcca)):
            first = self.run(method, setting)
            yield method, PRINTED, setting, first
            yield method, EQUAL, *self.matched(method, {setting: first}, leader.cpu)
        for method in (OURS, HELD):
            run = self.run(method, 0, leader.cpu)
            yield method, EQUAL, run.solution.iterations, run

    def run(self, method: str, setting: int, cpu: float = np.inf) -> Followed:
        """One run; the data are swept but for the last method."""
        rounds = {"iterations": 5, "inner_iterations": setting}
        ling, zero = {"components": self.components}, {"inner_start": "zero"}
        by_method: dict[str, tuple[str, dict[str, Any]]] = {
            RPCCA: ("rpcca", {"components": setting}),
            LCCA: ("l-cca", {**rounds, **ling, **zero, "ling_variant": "projection"}),
            GCCA: ("g-cca", {**rounds, **zero}),
            DCCA: ("d-cca", {"max_iterations": setting}),
            OURS: ("lobpcg", {}),
            HELD: ("lobpcg", {"form": "sparse"}),
        }
        solver, options = by_method[method]
        options = {"form": "implicit", **({} if method == RPCCA else {"tol": ENDLESS}), **options}
        return follow(self.problem, solver, cpu=cpu, rng=0, **options)

    def matched(self, method: str, tried: dict[int, Followed], cpu: float) -> tuple[int, Followed]:
        """The setting whose seconds of the processor are nearest to those given, and its run."""
        most = min(self.problem.X.shape[1], self.problem.Y.shape[1], MOST_COMPONENTS)

        def nearest() -> int:
            return min(tried, key=lambda at: abs(np.log(tried[at].cpu / cpu)))

        for _ in range(TRIALS):
            at = nearest()
            guess = int(np.clip(round(at * cpu / tried[at].cpu), K if method == RPCCA else 1, most))
            if guess in tried or abs(tried[at].cpu / cpu - 1) <= ALIKE:
                break
            tried[guess] = self.run(method, guess)
        return nearest(), tried[nearest()]


def shares(rows: Rows, method: str, kind: str) -> list[float]:
    """Shares of the exact sum, case by case; a method with one kind of time has that."""
    own = [rows.where(method=method, case=case) for case in rows.by("case")]
    chosen_rows = [(some.where(time=kind) or some)[-1] for some in own]
    return [sum(row["correlation"]) / sum(row["exact"]) for row in chosen_rows]


def claims_on_equal_time(name: str, rows: Rows) -> Iterator[Claim]:
    """Yield the claims of section 3.5, at the settings as printed and at equal time, and our own."""
    for kind in (PRINTED, EQUAL):
        found = {method: shares(rows, method, kind) for method in (*THREE, DCCA)}
        for claim in (claims_on_words if name == "words" else claims_on_cuts)(found):
            yield Claim(f"{claim.text}, {kind}", claim.held, claim.figures)
    fastest = {min(case, key=lambda row: row["cpu"])["method"] for case in rows.by("case").values()}
    pairs = zip(*(rows.where(method=method).of("cpu") for method in (DCCA, LCCA)), strict=True)
    told = ", ".join(f"{ours:.1f} of {theirs:.1f} s" for ours, theirs in pairs)
    yield Claim("D-CCA is the fastest", fastest == {DCCA}, f"D-CCA of L-CCA: {told}")
    others = np.max([shares(rows, method, EQUAL) for method in THREE], axis=0)
    for method in (OURS, HELD):
        own = shares(rows, method, EQUAL)
        text, told = f"{method} finds more than any of the three in equal time", in_words({method: own})
        yield Claim(text, bool((own > others).all()), told)
        yield Claim(f"{method} has 0.999 of the truth in that time", min(own) >= 0.999, told)


def in_words(found: dict[str, list[float]]) -> str:
    return "; ".join(f"{method} {listed(values, '.3f')}" for method, values in found.items())


def claims_on_words(found: dict[str, list[float]]) -> Iterator[Claim]:
    """Figure 3.1; 0.95 of the sum is close to the truth, less than 0.9 not well."""
    off, three = max(abs(share - 1) for share in found[DCCA]), {method: found[method] for method in THREE}
    yield at_most("D-CCA has the truth", off, 1e-3, "off by {value:.1e} of the sum")
    best = {max(three, key=lambda method: three[method][at]) for at in range(3)}
    yield Claim("L-CCA is the best of the three", best == {LCCA}, in_words(three))
    growing = found[LCCA] == sorted(found[LCCA]) and found[LCCA][-1] >= 0.95
    yield Claim("L-CCA comes close to D-CCA with more time", growing, in_words({LCCA: found[LCCA]}))
    for method in (RPCCA, GCCA):
        told = in_words({method: found[method]})
        yield Claim(f"{method} does not do well", max(found[method]) < 0.9, told)


def claims_on_cuts(found: dict[str, list[float]]) -> Iterator[Claim]:
    three = {method: found[method] for method in THREE}
    top, best = np.max(list(three.values()), axis=0), np.argmax(list(three.values()), axis=0)
    text = "D-CCA does not have the largest correlations"
    yield Claim(text, max(found[DCCA]) < 0.95, in_words({DCCA: found[DCCA]}))
    gap, text = float(max(top - found[LCCA])), "L-CCA is the best or close to it in every cut"
    yield at_most(text, gap, 0.05, f"behind by {{value:.3f}}; {in_words(three)}")
    text = "RPCCA is the best in the first cut, and not in the others"
    told = f"best: {', '.join(THREE[at] for at in best)}"
    yield Claim(text, [at == 0 for at in best] == [True, False, False], told)
    behind = (top - found[GCCA]).tolist()
    text = "G-CCA is good in the third cut and poor in the first and second"
    held = behind[2] <= 0.05 < min(behind[:2])
    yield Claim(text, held, f"behind the best by {listed(behind, '.3f')}")


FIRST, SMALLEST, LAST = 1e-2, 1e-10, 3
"""The sine from which convergence is looked at, where a run ends, and the last iterations that give the factor."""


def cca_convergence(report: Report) -> None:
    given, parts = report.given, chosen(report, "als", "sparse")
    if "als" in parts:
        size = 300 if given.quick else 2000
        steps = report.rows("steps", "case iteration passes sine", courses(size), shown=False)
        columns = "case measured::.5f theorem::.5f straight::.4f"
        report.say(claims_on_rates(report.rows("rates", columns, rates(steps))))
    if "sparse" in parts:
        large = (1000, 50), (1000, 200), (1000, 500), (300, 500)
        shapes = ((500, 20), (100, 150)) if given.quick else large
        seeds = given.seeds or (1 if given.quick else 3)
        found = (row for n, p in shapes for row in thresholded(n, p, seeds))
        columns = "n columns method f1::.3f held_out::.3f"
        report.say(claims_on_threshold(report.rows("sparse", columns, found)))


def gaps() -> Iterator[tuple[str, np.ndarray, dict[str, Any], int]]:
    """Name, correlations, options and the place of the correlation behind the block, of nine runs."""
    for gap in (0.9, 0.7, 0.5):
        tail = np.repeat([1.0, 0.8], [10, 17])  # two values, so that one factor rules from the start
        rho = 0.95 * np.concatenate([[1, 0.98, 0.96], 0.96 * gap * tail])
        yield f"{gap:g}, exact", rho, {"oversample": 0, "lstsq": "direct"}, 3
        yield f"{gap:g}, exact, 10 columns more", rho, {"oversample": 10, "lstsq": "direct"}, 13
        yield f"{gap:g}, conjugate gradients", rho, {"oversample": 0}, 3


def courses(n: int) -> Measured:
    """The sines of the angle between all iterates and the three leading pairs."""
    for case, rho, options, _ in gaps():
        X, Y, U = planted(rho, n)
        steps: list[tuple[Any, ...]] = []

        def look(progress: Any, case: str = case, X: Any = X, U: Any = U[:, :3], steps: Any = steps) -> bool:
            P = np.linalg.qr(X @ progress.current()["x_weights"])[0]
            sine = float(np.linalg.norm(U - P @ (P.T @ U), 2))
            steps.append((case, progress.iteration, progress.passes, sine))
            return sine < SMALLEST

        problem = ls.CCA(X, Y, k=3, center=False)
        ls.solve(problem, "als", callback=look, rng=0, tol=1e-30, max_iterations=300, **options)
        yield from steps


def planted(rho: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Views with these canonical correlations, exactly, and the canonical variates of X."""
    rng, q = np.random.default_rng(0), len(rho)
    Q = np.linalg.qr(rng.standard_normal((n, 2 * q)))[0]
    U, other = Q[:, :q], Q[:, q:]
    V = U * rho + other * np.sqrt(1 - rho**2)
    mixed = [np.linalg.qr(rng.standard_normal((q, q)))[0] * np.linspace(1, 3, q) for _ in range(2)]
    return U @ mixed[0].T, V @ mixed[1].T, U


def rates(steps: Rows) -> Measured:
    """The factor of the last iterations, that of the theorem, and how straight the line of the logarithms is."""
    for case, rho, _, behind in gaps():
        inside = Rows(row for row in steps.where(case=case) if row["sine"] <= FIRST)
        logarithms = np.log(inside.of("sine"))
        factor = float(np.exp((logarithms[-1] - logarithms[-1 - LAST]) / LAST))
        straight = -float(np.corrcoef(inside.of("iteration"), logarithms)[0, 1])
        yield case, factor, float((rho[behind] / rho[2]) ** 2), straight


def claims_on_rates(found: Rows) -> Iterator[Claim]:
    """The two theorems, to a twentieth, and a line that is straight."""
    alone = "the angle of ALS shrinks by (ρ_{k+1}/ρ_k)² an iteration in the end (Golub & Zha; Lu 2015, Theorem 3.3.1)"
    for text, ending in ((alone, "exact"), ("with b columns to spare by (ρ_{k+b+1}/ρ_k)²", "more")):
        rows = [row for row in found if row["case"].endswith(ending)]
        off = max(abs(row["measured"] / row["theorem"] - 1) for row in rows)
        told = "; ".join(f"{row['measured']:.4f} for {row['theorem']:.4f}" for row in rows)
        yield at_most(text, off, 0.05, told)
    rows = [row for row in found if row["case"].endswith("gradients")]
    told = "; ".join(f"{row['measured']:.4f} an iteration, correlation {row['straight']:.4f}" for row in rows)
    text = "with regressions that reduce the error tenfold it still converges linearly (Wang et al. 2016)"
    yield Claim(text, min(row["straight"] for row in rows) >= 0.99, told)


def sparse_views(n: int, p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two pairs, each of three columns of either view (columns 0 to 5), correlation 0.9 and 0.8; the rest is noise."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((2, n, p))
    for pair, correlation in enumerate((0.9, 0.8)):
        shared = rng.standard_normal(n)
        for view in (X, Y):
            own = view[:, 3 * pair : 3 * pair + 3]
            mean = own.mean(axis=1, keepdims=True)
            signal = np.sqrt(correlation) * shared[:, None] + np.sqrt(3 * (1 - correlation)) * mean
            own += signal / np.sqrt(3) - mean  # their sum, over √3, is the variate; each keeps variance 1
    return X, Y


def thresholded(n: int, p: int, seeds: int) -> Measured:
    """F1 of the columns found, and correlations on rows that were not fitted: means over the seeds."""
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(seeds):
        X, Y = sparse_views(n + 2000, p, seed)
        problem, test = ls.CCA(X[:n], Y[:n], k=2), (X[n : n + 1000], Y[n : n + 1000])
        answers = {name: ls.solve(problem, name, rng=0) for name in ("sparse-appgrad", "appgrad")}
        path = ls.ridge_path(problem, (1.0, 10.0, 100.0, 1000.0), test=test)
        answers["exact, best ridge"] = path.best_solution
        for name, answer in answers.items():
            picked = [np.any(weights != 0, axis=1) for weights in (answer.x_weights, answer.y_weights)]
            f1 = np.mean([2 * view[:6].sum() / (view.sum() + 6) for view in picked])
            found.setdefault(name, []).append((float(f1), answer.score(X[n + 1000 :], Y[n + 1000 :]).total))
    for name, scores in found.items():
        yield n, p, name, *np.mean(scores, axis=0).tolist()


def claims_on_threshold(found: Rows) -> Iterator[Claim]:
    """For views with more rows than columns, and with fewer."""
    for words, tall in (("more rows than columns", True), ("fewer", False)):
        rows = Rows(row | {"case": f"{row['n']} x {row['columns']}"} for row in found)
        rows = Rows(row for row in rows if (row["n"] > row["columns"]) == tall)
        own, best = rows.where(method="sparse-appgrad"), rows.where(method="exact, best ridge")
        text = f"a soft threshold finds the columns, {words} (Ma, Lu & Foster 2015, section 5)"
        yield every(text, own.medians("f1", "case"), 0.95, form=".3f")
        ours, theirs = (one.medians("held_out", "case") for one in (own, best))
        leads = {case: ours[case] - theirs[case] for case in ours}
        text = f"its correlations on new rows are above those of the best ridge, {words}"
        yield every(text, leads, POSITIVE, form="+.3f")


BATCH, STOCHASTIC, AS_PRINTED = "appgrad", "stochastic-appgrad", "stochastic, as printed"
HEURISTICS = "nw-cca", "dw-cca", "rpcca"

AUTHORS_OPTIONS = {"step": 0.05, "batch": 50, "normalizer_rows": 200, "averaging": False, "epochs": 1e6}
# One step for all columns and the last iterate, as printed; size of batches and step from the data.
PLAIN_OPTIONS = {"scaling": "none", "averaging": False}
# Readings of all rows by `stochastic-appgrad`.
EPOCHS = {"images": 30.0, "words": 60.0, "titles": 60.0, "wide": 20.0}
# Shares that the authors' code has captured on MNIST, by the number of stochastic steps.
AUTHORS = {100: 0.768, 300: 0.856, 500: 0.890, 1000: 0.929, 3000: 0.968, 4000: 0.976}
# Shares at which the work is compared, and further ones at which there are gains.
LEVELS, LOWER = (0.8, 0.9, 0.95, 0.99), (0.6, 0.7)
DUE = frozenset(round(1.09**power) for power in range(140)) | AUTHORS.keys()
"""Iterations that are looked at: about eight in each doubling, and those of AUTHORS."""


def cca_gradients(report: Report) -> None:
    parts = chosen(report, *PARTS)
    measured = (row for part in parts for row in PARTS[part][0](report.given))
    columns = "part data method iteration passes flops cpu captured captured_held_out"
    found = report.rows("captured", columns, measured, "part data method", shown=False)
    for (part, data), rows in found.by("part", "data").items():
        head = [f"to {level}::.1e" for level in LEVELS] + ["captured::.4f", "held out::.4f"]
        table = report.table("method", *head, "flops::.1e", "CPU s::.1f", title=data)
        for method, own in rows.by("method").items():
            ends = (own[-1][name] for name in ("captured", "captured_held_out", "flops", "cpu"))
            table.row(method, *(work(rows, method, level) for level in LEVELS), *ends)
        report.say(PARTS[part][1](rows), f"{part}, {data}")
    if {"images", "words"} == set(found.where(part="stochastic").by("data")):
        report.say(claims_on_size(found.where(part="stochastic")), "stochastic, both")
    if "naive" in parts:
        report.say(claims_on_example(), "naive, example")


@dataclass(frozen=True)
class Task:
    """A problem, those who judge what was captured, and what the exact solution has."""

    part: str
    data: str
    problem: ls.CCA
    judges: tuple[Judge, ...]
    exact: tuple[float, ...] = ()

    @classmethod
    def of(cls, part: str, data: str, views: Any, ridge: float, scored: float, form: str) -> Task:
        pairs = [(views.X, views.Y), *([views.held_out] if views.held_out else [])]
        judges = tuple(Judge(*pair, scored, form) for pair in pairs)
        task = cls(part, data, ls.CCA(views.X, views.Y, K, ridge=ridge, center=False), judges)
        answer = exact_solution(task.problem if form == "implicit" else task.shared(), 1e-7)
        totals = [float(judge.correlations(answer.x_weights, answer.y_weights).sum()) for judge in judges]
        return cls(part, data, task.problem, judges, tuple(totals))

    def shared(self) -> ls.CCA:
        return ls.CCA(self.judges[0].moments, k=K, ridge=self.problem.ridge, center=False)

    def points(self, method: str, run: Followed, flops: Any = lambda _, own: own) -> Measured:
        """Shares of the exact totals after some work; without rows held out their share is not a number."""
        for iteration, passes, own, cpu, totals in run.looks[-1 if method in HEURISTICS else 0 :]:
            captured, held_out, *_ = *(a / b for a, b in zip(totals, self.exact, strict=True)), np.nan
            costs = iteration, passes, flops(iteration, own), cpu
            yield self.part, self.data, method, *costs, captured, held_out
        sys.stderr.write(f"{self.data}, {method}: {captured:.4f} after {cpu:.1f} s\n")

    def swept(self, method: str, solver: str, **options: Any) -> Measured:
        return self.points(method, follow(self.problem, solver, self.judges, rng=0, **options))

    def on_grams(self, method: str, solver: str, most: int, start: Any = None, **options: Any) -> Measured:
        """Those of a run on Gram matrices, with the flops of sweeps as a short run counts them."""
        two = {"form": "implicit", "max_iterations": 2, "tol": ENDLESS}
        short = ls.solve(self.problem, solver, rng=0, **two, **options)
        first, second = (float(short.history["flops"][at]) for at in (1, 2))
        options |= {"max_iterations": most, "tol": ENDLESS, **({"test_matrix": start} if start else {})}
        run = follow(self.shared(), solver, self.judges, DUE.__contains__, rng=0, **options)
        return self.points(method, run, lambda iteration, _: first + (iteration - 1) * (second - first))

    def stochastically(self, quick: bool) -> Measured:
        """The default, and what is printed: on images with all that its authors had."""
        epochs = {"epochs": 1.0 if quick else EPOCHS[self.data]}
        authors = {**PLAIN_OPTIONS, **epochs}
        if self.data == "images":
            authors = {**AUTHORS_OPTIONS, "max_iterations": 50 if quick else 4000}
        for method, options in ((STOCHASTIC, epochs), (AS_PRINTED, authors)):
            yield from self.swept(method, STOCHASTIC, due=DUE.__contains__, tol=ENDLESS, **options)


def stochastic(given: argparse.Namespace) -> Measured:
    """Images and words (Figure 4.1)."""
    images, words = datasets.split_halves(given), datasets.next_words(given, 10_000, halves=True)
    size = 0.005 * images.X.shape[0]
    tasks = ("images", images, size, 0.0, "dense"), ("words", words, 1.0, 1.0, "sparse")
    for task in (Task.of("stochastic", *stated) for stated in tasks):
        yield from task.on_grams(BATCH, "appgrad", 20 if given.quick else 2000)
        yield from task.stochastically(given.quick)
        yield from task.swept(OURS, "lobpcg", form="implicit", tol=1e-7)


def heuristics(given: argparse.Namespace) -> Measured:
    """Titles and queries, and the wide pair (Figure 4.2); the thesis has 1200 components, the wide pair fewer here."""
    titles = datasets.Views(*datasets.titles_and_queries(given))
    wide = datasets.wide_words(given, given.rows, given.columns)
    stated = ("titles", titles, 1.0, "sparse", 1200), ("wide", wide, 50.0, "implicit", 300)
    for data, views, ridge, form, most in stated:
        task = Task.of("heuristics", data, views, ridge, ridge, form)
        for method in HEURISTICS:
            more = {"components": 40 if given.quick else most} if method == "rpcca" else {}
            yield from task.swept(method, method, form="implicit", **more)
        yield from task.stochastically(given.quick)
        yield from task.swept(OURS, "lobpcg", form="implicit", tol=1e-4)


NAIVE: dict[str, dict[str, Any]] = {"naive-gradient": {}, "appgrad": {"auxiliary": "start"}}


def naive(given: argparse.Namespace) -> Measured:
    views = datasets.split_halves(given)
    task = Task.of("naive", "images", views, 0.005 * views.X.shape[0], 0.0, "dense")
    exact = exact_solution(task.shared(), 1e-7)
    for place, (solver, more) in product(("random start", "exact start"), NAIVE.items()):
        start = start_at(exact) if place == "exact start" else None
        most = 20 if given.quick else 2000
        yield from task.on_grams(f"{solver}, {place}", solver, most, start, step=0.05, **more)
    yield from task.swept(OURS, "lobpcg", form="implicit", tol=1e-7)


def start_at(answer: Any) -> ls.TestMatrix:
    """A start that is given: what is drawn for X first, then for Y."""
    blocks = cycle([np.asarray(answer.x_weights), np.asarray(answer.y_weights)])

    @dataclass(frozen=True, kw_only=True)
    class Given(ls.TestMatrix):
        def draw(self, rows: int, columns: int, rng: np.random.Generator) -> np.ndarray:
            return next(blocks)[:, :columns]

    return Given()


def work(rows: Rows, method: str, level: float) -> float:
    """Return the flops to capture a share of the training rows; infinite if it is never reached."""
    reached = (row["flops"] for row in rows.where(method=method) if row["captured"] >= level)
    return min(reached, default=np.inf)


def claims_on_size(rows: Rows) -> Iterator[Claim]:
    """Section 4.4.3: of the words there are more."""
    both = [rows.where(data=data) for data in ("images", "words")]
    for method in (AS_PRINTED, STOCHASTIC):
        gains = {}
        for level in (*LOWER, *LEVELS):
            pairs = [(work(one, BATCH, level), work(one, method, level)) for one in both]
            if np.isfinite(pairs).all():
                gains[level] = [a / b for a, b in pairs]
        told = "; ".join(f"to {level}: {b:.2g} against {a:.2g} times" for level, (a, b) in gains.items())
        held = bool(gains) and all(b > a for a, b in gains.values())
        text = f"the larger the data, the more {method} gains (words against images)"
        yield Claim(text, held, told or "no share that all four runs reached")


def claims_on_stochastic(rows: Rows) -> Iterator[Claim]:
    """Section 4.4.3; "nearly all" is 0.9, "much less" at most half."""
    for method in (BATCH, AS_PRINTED, STOCHASTIC, OURS):
        last = rows.where(method=method)[-1]
        captured, place = (last["captured"], last["captured_held_out"]), f"iteration {last['iteration']}"
        text = f"{method} captures nearly all, in sample and out of it"
        told = f"{{}} after {last['flops']:.1e} flops, {place}"
        yield every(text, captured, 0.9, form=".4f", told=told)
    for method in (AS_PRINTED, STOCHASTIC, OURS):
        costs = {level: (work(rows, BATCH, level), work(rows, method, level)) for level in LEVELS}
        known = {level: pair for level, pair in costs.items() if np.isfinite(pair).any()}
        held = bool(known) and all(own <= 0.5 * batch for batch, own in known.values())
        told = "; ".join(f"{at}: {own:.1e} against {batch:.1e} flops" for at, (batch, own) in known.items())
        text = f"{method} captures the same as batch AppGrad with much less work"
        yield Claim(text, held, told or "neither gets there")
    if rows[0]["data"] == "images":
        at = {row["iteration"]: row["captured"] for row in rows.where(method=AS_PRINTED)}
        both = {step: (at[step], theirs) for step, theirs in AUTHORS.items() if step in at}
        off = max((abs(mine - theirs) for mine, theirs in both.values()), default=np.nan)
        told = ", ".join(f"{step}: {mine:.3f} ({theirs:.3f})" for step, (mine, theirs) in both.items())
        yield at_most("the authors' curve within two hundredths", off, 0.02, told)


def claims_on_heuristics(rows: Rows) -> Iterator[Claim]:
    rivals = {name: rows.where(method=name)[-1] for name in HEURISTICS}
    best = max(row["captured"] for row in rivals.values())
    ends = ((name, row["captured"], row["flops"]) for name, row in rivals.items())
    told = ", ".join(f"{name} {captured:.3f} at {flops:.1e} flops" for name, captured, flops in ends)
    for method in (AS_PRINTED, STOCHASTIC, OURS):
        last, cheap = rows.where(method=method)[-1], work(rows, method, best + 1e-10)
        text = f"{method} captures significantly more than NW-CCA, DW-CCA and PCA-CCA"
        figures = f"{last['captured']:.3f} of the exact sum at {last['flops']:.1e} flops; {told}"
        yield Claim(text, last["captured"] >= 1.05 * best, figures)
        text = f"{method} has more than any of them at less work than PCA-CCA takes"
        theirs = rivals["rpcca"]["flops"]
        yield Claim(text, cheap < theirs, f"after {cheap:.1e} flops, PCA-CCA takes {theirs:.1e}")


def claims_on_naive(rows: Rows) -> Iterator[Claim]:
    """Section 4.2 on data."""
    free, ours = (rows.where(method=f"{name}, random start")[-1] for name in NAIVE)
    text = "AppGrad gets farther than the naive gradient in as many steps"
    told = f"{ours['captured']:.4f} and {free['captured']:.4f} after {ours['iteration']} and {free['iteration']} steps"
    yield Claim(text, ours["captured"] > free["captured"], told)
    left, kept = (rows.where(method=f"{name}, exact start") for name in NAIVE)
    told = f"{left[-1]['captured']:.4f} after {left[-1]['iteration']} steps, at least {min(left.of('captured')):.4f}"
    yield Claim("the naive gradient leaves the exact answer", left[-1]["captured"] < 0.99, told)
    lost = 1 - min(kept.of("captured"))
    yield at_most("AppGrad stays at the exact answer", lost, 1e-6, "1 − {value:.1e} at least")
    reached = [row for row in rows.where(method=OURS) if row["captured"] >= 0.999]
    told = f"{reached[0]['passes']:g} passes, {reached[0]['flops']:.1e} flops" if reached else "never"
    yield Claim("lobpcg captures 0.999", bool(reached), told)


def claims_on_example() -> Iterator[Claim]:
    """Propositions 2.1 and 2.2 by Example 4.2.3, which takes no time."""
    X = np.array([[1.0, 5.0], [2.0, -6.0], [3.0, 7.0], [4.0, -8.0]])
    Y = np.array([[9.0, 1.0], [10.0, -1.0], [11.0, -1.0], [12.0, 1.0]])
    problem, turned = ls.CCA(X, Y, 1, center=False), []
    exact = ls.solve(problem, "direct")
    for solver, more in NAIVE.items():
        sines: list[float] = []

        def look(progress: Any, sines: list[float] = sines) -> bool:
            now = np.asarray(progress.current()["x_weights"])
            sines.append(ls.metrics.subspace_distance(np.asarray(exact.x_weights), now))
            return progress.iteration >= 200

        options = {"test_matrix": start_at(exact), "tol": ENDLESS, "step": 0.01, **more}
        ls.solve(problem, ls.get_solver(solver, "cca")(**options), callback=look)
        turned.append(sines)
    free, ours = turned
    told = f"sine of the angle between φ₁ and its successor {free[1]:.2e}, after 200 steps {free[-1]:.2e}"
    yield Claim("a step of the naive gradient from the exact pair leaves it", free[1] > 1e-6, told)
    told = f"at most {{value:.1e}} away in {len(ours) - 1} steps"
    yield at_most("AppGrad stays at the exact pair", max(ours), 1e-8, told)


PARTS: dict[str, tuple[Callable[..., Iterator[Any]], Callable[[Rows], Iterator[Claim]]]] = {
    "stochastic": (stochastic, claims_on_stochastic),
    "heuristics": (heuristics, claims_on_heuristics),
    "naive": (naive, claims_on_naive),
}


SLOW = {"published": 100_000, "nystrom-kcca": 100_000, "rff-kcca": 100_000, "dcca": 10_000}
# Methods that are not given more, for the time that they take.
MOST_ROWS = SLOW | {"kcca-preimage": 1_000, "kcca": 1_000}
GRAD, PUBLISHED, HSIC, NEAR, EXACT = "gradkcca", "published", "scca-hsic", "kcca-preimage", "kcca"
METHODS = (GRAD, PUBLISHED, HSIC, NEAR, EXACT)
DEEP = ("dcca",) if importlib.util.find_spec("torch") else ()

QUADRATIC = ls.kernels.polynomial(2, 0.0)
RELATIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Any]] = {
    "monotone": (np.exp, ls.kernels.linear()),
    "not monotone": (np.square, QUADRATIC),
}
# Both views.
Pair = list[np.ndarray]


def sparse_kernel_cca(report: Report) -> None:
    """All parts; figures that a method does not have are not numbers."""
    parts = chosen(report, *KERNEL_PARTS)
    measured = (row for part in parts for row in KERNEL_PARTS[part][0](report.given))
    columns = "part case method size seed f1::.2f auc::.2f train::.3f test::.3f cpu::.2f sweeps::.0f"
    for part, rows in report.rows("found", columns, measured).by("part").items():
        report.say(KERNEL_PARTS[part][1](rows), part)


def related(relation: Any, n: int, left_out: int, p: int, seed: int) -> tuple[Pair, Pair]:
    """Rows to learn from and rows left out, standardised after the split."""
    rng = np.random.default_rng(seed)
    X, Y = rng.uniform(-1, 1, (n + left_out, p)), rng.uniform(-1, 1, (n + left_out, p))
    Y[:, 0] = relation(X[:, 0] + X[:, 1]) - Y[:, 1] + 0.05 * rng.standard_normal(n + left_out)
    scaled = [(A - A[:n].mean(axis=0)) / A[:n].std(axis=0) for A in (X, Y)]
    return [A[:n] for A in scaled], [A[n:] for A in scaled]


def noise(given: argparse.Namespace) -> Measured:
    """Every relation, share of noise variables, method and seed: 60, 80, 96 and 98 % of the columns are noise."""
    n, seeds = (240, 1) if given.quick else (1000, given.seeds or 5)
    sizes = (5, 10) if given.quick else (5, 10, 50, 100)
    grid = product(RELATIONS.items(), sizes, METHODS, range(seeds))
    for (case, (relation, kernel)), p, method, seed in grid:
        data = related(relation, 2 * n // 3, n - 2 * n // 3, p, seed)
        yield "noise", case, method, p, seed, *judged(method, *data, kernel, seed)


def many_rows(given: argparse.Namespace) -> Measured:
    relation, kernel = RELATIONS["not monotone"]
    methods = *METHODS, "nystrom-kcca", "rff-kcca", *(() if given.quick else DEEP)
    sizes = (200, 400) if given.quick else (1_000, 10_000, 100_000, 1_000_000)
    for n, method in product(sizes, methods):
        if n <= min(given.most, MOST_ROWS.get(method, given.most)):
            data = related(relation, n, 2000, 10, 0)
            yield "rows", "not monotone", method, n, 0, *judged(method, *data, kernel, 0)


def images(given: argparse.Namespace) -> Measured:
    """Every method on the halves of digits; the exact kernel CCA on some of the rows."""
    views = datasets.split_halves(given)
    order = np.random.default_rng(0).permutation(len(views.X))[: 300 if given.quick else given.images]
    train = [np.ascontiguousarray(A.astype(np.float32)[order]) for A in (views.X, views.Y)]
    test = [A.astype(np.float32) for A in views.held_out]
    runs: list[tuple[str, str, Any]] = [
        ("linear CCA", "linear", None),
        (GRAD, "linear", ls.kernels.linear()),
        (GRAD, "quadratic", QUADRATIC),
        (HSIC, "linear", None),
        (EXACT, "rbf, 3000 rows", ls.kernels.rbf(factor=0.5)),
        ("nystrom-kcca", "rbf", None),
        ("rff-kcca", "rbf", None),
        *((name, "nets", None) for name in (() if given.quick else DEEP)),
    ]
    for method, case, kernel in runs:
        rows = [A[:3000] for A in train] if method == EXACT else train
        figures = judged(method, rows, test, kernel, 0, 20 if given.quick else 1000)
        yield "images", case, method, rows[0].shape[1], 0, *figures


def stated(method: str, X: Any, Y: Any, kernel: Any, most: int) -> tuple[Any, str, dict[str, Any]]:
    """The problem that a method solves, the name of the solver, and its options; `most` iterations on images."""
    if method in (HSIC, GRAD, NEAR):
        settings = {"bound_x": ("ratio", 8.0 if most else 1.5)}
        if method == HSIC:
            kernel, settings["objective"] = "linear", "hsic"
        return ls.PreimageCCA(X, Y, 1, kernel, **settings), method, {"max_iterations": most} if most else {}
    if method == "dcca":
        return ls.DeepCCA(X, Y, 1), method, {}
    if method == "linear CCA":
        return ls.CCA(X, Y, 1, ridge=1e-3 * len(X)), "gram", {}
    if method == EXACT:
        sizes = [float(np.mean(np.asarray(kernel.resolved(A).diagonal(A)))) for A in (X, Y)]
        return ls.KernelCCA(X, Y, 1, kernel, ridge=tuple(1e-2 * len(X) * size for size in sizes)), method, {}
    return ls.KernelCCA(X, Y, 1, ls.kernels.rbf(factor=0.5), ridge=1e-4 * len(X)), method, {}


def judged(method: str, train: Pair, test: Pair, kernel: Any, seed: int, most: int = 0) -> tuple[float, ...]:
    """The figures of a method; columns 1 and 2 are the true ones, but on images, where `most` is positive."""
    f1 = auc = tested = np.nan
    if method == PUBLISHED:
        (u, v, trained, sweeps), watch = timed(gradkcca, *train, getattr(kernel, "degree", 1), seed)
        points = [u[:, None], v[:, None]]
    else:
        problem, solver, options = stated(method, *train, kernel, most)
        found, watch = timed(ls.solve, problem, solver, rng=seed, **options)
        points = [found.x_preimages, found.y_preimages] if hasattr(found, "x_preimages") else []
        sweeps, trained, tested = found.passes, found.score(*train).total, found.score(*test).total
    if points and not most:
        sizes = [np.abs(U).max(axis=1) for U in points]
        true = np.arange(len(sizes[0])) < 2
        f1 = np.mean([f1_score(true, size > 0.05 * size.max()) for size in sizes])
        auc = np.mean([roc_auc_score(true, size) for size in sizes])
    return float(f1), float(auc), float(trained), float(tested), watch.cpu, float(sweeps)


def claims_on_noise(rows: Rows) -> Iterator[Claim]:
    """F1, AUC and correlations against the share of noise variables; sizes are columns, 0.9 is an F1 that holds."""
    for case, own in rows.by("case").items():
        found = {
            (method, name): some.medians(name, "size")
            for method, some in own.by("method").items()
            for name in ("f1", "auc", "train", "test")
        }
        for method, name in product((GRAD, PUBLISHED), ("f1", "auc")):
            text = f"the {name.upper()} of gradKCCA ({method}) holds from 60 % to 98 % noise variables"
            yield every(f"{case}: {text}", found[method, name], 0.9)
        larger = "has a larger correlation on rows left out than"
        for text, name, slack, others in (
            ("selects no worse than", "f1", 0.02, (NEAR, HSIC)),
            (larger, "test", 0.005, (NEAR, EXACT)),
        ):
            for other in others:
                text_of = f"{case}: gradKCCA {text} {other}"
                yield below(text_of, found[GRAD, name], found[other, name], -slack)
        near, whole = found[NEAR, "train"], found[EXACT, "train"]
        text = f"{case}: the correlation of KCCA's preimages is below that of its functions"
        claim = below(text, near, whole, -np.inf)
        held = all(near[size] <= whole[size] + 1e-6 for size in near)  # a linear kernel has both alike
        yield Claim(text, held, f"{claim.figures} on the rows learnt from")


def below(text: str, ours: dict[int, float], theirs: dict[int, float], slack: float) -> Claim:
    """A claim that no figure of ours is below theirs by more than the slack."""
    held = all(ours[size] - theirs[size] >= slack for size in ours)
    return Claim(text, held, f"{listed(ours)} against {listed(theirs)}")


def claims_on_rows(rows: Rows) -> Iterator[Claim]:
    """Growth with the number of rows; an exponent of 1.1 is linear."""
    for method in (GRAD, PUBLISHED):
        cpu = rows.where(method=method).medians("cpu", "size")
        growth = float(np.polyfit(np.log(list(cpu)), np.log(list(cpu.values())), 1)[0])
        text = f"the time of gradKCCA ({method}) is linear in the rows"
        yield at_most(text, growth, 1.1, f"exponent {{value:.2f}}; CPU s {listed(cpu)}")
        yield every(f"its F1 ({method}) holds", rows.where(method=method).medians("f1", "size"), 0.9)
    told, faster = [], True
    for size, some in rows.by("size").items():
        seconds = some.medians("cpu", "method")
        own = seconds.pop(GRAD)
        faster = faster and own <= min(seconds.values())
        others = ", ".join(f"{name} {value:.2f}" for name, value in sorted(seconds.items()))
        told.append(f"{size}: {own:.2f}, {others}")
    yield Claim("gradKCCA is the fastest at every number of rows", faster, "; ".join(told))


def claims_on_images(rows: Rows) -> Iterator[Claim]:
    """The first pair on digits, as printed: gradKCCA .952, KNOI .950, RCCA .949, DCCA .943, SCCA-HSIC .934."""
    own, names = max(rows.where(method=GRAD).of("test")), [f"{row['method']} ({row['case']})" for row in rows]
    tests, seconds = (list(zip(names, rows.of(field), strict=True)) for field in ("test", "cpu"))
    yield Claim("gradKCCA has .952 on the test images", own >= 0.952 - 0.005, f"{own:.4f}")
    told = ", ".join(f"{name} {value:.3f}" for name, value in tests)
    yield Claim("gradKCCA has the largest correlation on the test images", own >= max(rows.of("test")), told)
    for theirs, method in ((0.949, "rff-kcca"), (0.943, "dcca"), (0.934, HSIC)):
        for row in rows.where(method=method):
            yield at_most(f"{method} has {theirs}", abs(row["test"] - theirs), 0.005, f"{row['test']:.4f}")
    fastest = min(seconds[1:], key=lambda pair: pair[1])[0]  # but for linear CCA
    told = ", ".join(f"{name} {value:.1f}" for name, value in seconds)
    yield Claim("gradKCCA is the fastest", fastest.startswith(GRAD), f"CPU s: {told}")
    yield Claim("the figures on MediaMill", None, "the data set is not here")


KERNEL_PARTS: dict[str, tuple[Callable[..., Iterator[Any]], Callable[[Rows], Iterator[Claim]]]] = {
    "noise": (noise, claims_on_noise),
    "rows": (many_rows, claims_on_rows),
    "images": (images, claims_on_images),
}

if __name__ == "__main__":
    studies = cca_at_equal_time, cca_convergence, cca_gradients, sparse_kernel_cca
    sizes = {"rows": 300_000, "columns": 100_000, "most": 1_000_000, "images": 20_000}
    sys.exit(run_study(__doc__, *studies, **sizes))
