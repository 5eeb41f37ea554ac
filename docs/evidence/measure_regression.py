"""Print what every least-squares solver does on real data, beside scikit-learn, SciPy and NumPy.

Run `python docs/evidence/measure_regression.py --data FOLDER`; `--quick` takes small generated data. `--sets` chooses
among uci, unscaled, newsgroups and dense, `--names` among the UCI sets, `--solvers` among linspec's, `--rivals` among
the others.

uci: keggundirected, protein, kin40k, pol, gas with standardised columns, those without spread left out, ridge 1e-6 n,
1e-2 n and n. unscaled: the same as they are, default tolerances throughout. newsgroups: 11314 posts x 75878 words,
tf-idf, 20 one-hot targets, not centred, ridge 0.01, 1, 100. dense: generated, 500,000 x 500 (2 GB), 5 targets,
ridge 1e-2 n.

residual: max over columns of ‖Aᵀ(b − A x) − r x‖ / ‖Aᵀb‖, computed here from the data, as are f and f*. Rivals that
iterate appear twice: with their default tolerance, and with the largest tolerance, to half a decade, that brings
the residual to 1e-8, where linspec stops by default. over linspec: seconds over those of "auto" (of the fastest
solver on newsgroups), the median and the worst of the ratios of paired runs, for methods that reached 1e-8 only.
Methods under a second run several rounds, all of them once a round; the figure is the median. Seconds are those of the
processor. Exit status 1 where linspec takes more than is asked.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from datasets import UCI, newsgroups, standardized, tall_dense, uci_regression
from least_squares_law import above, objective, reference, residual
from scipy.sparse import linalg
from showing import Claim, Report, arguments
from sklearn.linear_model import Ridge
from timing import Turns, alternate

import linspec as ls

TARGET = 1e-8
"""The residual at which methods are compared."""

SLACK = 1.05
"""How far above the target a residual may come out and still count: the last digits are rounding."""

EPOCH = 4
"""Sweeps that one epoch of stochastic steps takes the time of."""

HEAD = (
    "method", "setting", "residual::.1e", "(f − f*)/f*::.1e", "passes", "CPU s::.4g", "status", "over linspec::.2f",
    "worst::.2f",
)  # fmt: skip

OTHER_PROBLEM = "solves another problem by design: the leading components only"

LEFT_OUT: dict[str, dict[str, str]] = {
    "uci": {"linspec pcr": OTHER_PROBLEM},
    "unscaled": {"linspec pcr": OTHER_PROBLEM},
    "newsgroups": {
        "linspec pcr": OTHER_PROBLEM,
        "linspec sketch-precondition": "made for tall dense data; these are wide and sparse",
        "scikit-learn svd": "takes no sparse data",
        "numpy lstsq": "takes no sparse data",
    },
    "dense": {
        "linspec pcr": OTHER_PROBLEM,
        "scikit-learn svd": "ten times the operations of cholesky, and a second 2 GB",
        "numpy lstsq": "ten times the operations of a Gram matrix, and a second 2 GB",
    },
}


@dataclass(frozen=True)
class Case:
    """One problem with its least value."""

    set: str
    name: str
    A: Any
    B: np.ndarray
    ridge: float
    label: str
    best: np.ndarray
    cap: float

    @property
    def columns(self) -> int:
        return 1 if self.B.ndim == 1 else self.B.shape[1]


@dataclass
class Outcome:
    """The result of one method at one setting."""

    method: str
    setting: str
    run: Callable[[], Any] | None = None
    x: Any = None
    passes: str = ""
    status: str = ""
    turns: Turns = field(default_factory=Turns)
    residual: float = math.nan

    @property
    def time(self) -> float:
        """Median seconds of the processor; the first run is a warm-up where there are others."""
        return self.turns.median if self.turns.cpu else math.nan

    @property
    def reached(self) -> bool:
        return self.residual <= SLACK * TARGET

    @property
    def own(self) -> bool:
        return self.method.startswith("linspec")


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", default=list(LEFT_OUT), choices=list(LEFT_OUT))
    parser.add_argument("--names", nargs="+", choices=UCI, help="UCI sets; all of them by default")
    parser.add_argument("--ridges", nargs="+", type=float, default=[0.01, 1.0, 100.0], help="of newsgroups")
    parser.add_argument("--solvers", nargs="+", help="solvers of linspec; all of them by default")
    parser.add_argument("--rivals", nargs="+", choices=list(RIVALS), help="all of them by default")
    parser.add_argument("--rounds", type=int, help="rounds at most; 15, quick 3, by default")
    parser.add_argument("--max-seconds", type=float, help="wall time of one solve; a default for each set")
    report = Report(parser)
    left_out(report.given)
    for case in cases(report.given):
        outcomes = measure(case, report.given)
        show(report, case, outcomes)
        report.say(asked(case, outcomes), f"{case.name}, ridge {case.label}")
    return report.end()


def left_out(given: argparse.Namespace) -> None:
    """Say which methods do not run, and why."""
    for name in given.sets:
        reasons = "; ".join(f"{method} ({reason})" for method, reason in LEFT_OUT[name].items())
        print(f"Left out of {name}: {reasons}.")
    print()


def cases(given: argparse.Namespace) -> Iterator[Case]:
    """The problems, one at a time: each may be large."""
    for chosen in given.sets:
        if chosen in {"uci", "unscaled"}:
            for name in given.names or (UCI[:2] if given.quick else UCI):
                A, B = uci_regression(given, name)
                A, B = standardized(A, B) if chosen == "uci" else (A, B)
                for share in (1e-6, 1e-2, 1.0):
                    yield case(given, chosen, name, A, B, share * len(B), f"{share:g} n", 10.0)
        elif chosen == "newsgroups":
            A, B = newsgroups(given)
            for ridge in given.ridges:
                yield case(given, chosen, chosen, A, B, ridge, f"{ridge:g}", 120.0)
        else:
            A, B = tall_dense(given)
            yield case(given, chosen, chosen, A, B, 1e-2 * len(B), "0.01 n", 120.0)


def case(
    given: argparse.Namespace, chosen: str, name: str, A: Any, B: Any, ridge: float, label: str, cap: float
) -> Case:
    """A problem with its reference and the wall time that a solve may take."""
    cap = given.max_seconds or (1.0 if given.quick else cap)
    return Case(chosen, name, A, B, ridge, label, reference(A, B, ridge), cap)


# ---- running ------------------------------------------------------------------------------------------------


def measure(case: Case, given: argparse.Namespace) -> list[Outcome]:
    """All methods once, then in rounds."""
    outcomes = [own(case, name) for name in ("auto", *(given.solvers or ls.solvers("least-squares")))]
    outcomes += [outcome for name in given.rivals or RIVALS for outcome in rival(case, name)]
    outcomes = [outcome for outcome in outcomes if outcome.method not in LEFT_OUT[case.set]]
    for outcome in outcomes:
        if not outcome.turns.cpu:
            attempt(case, outcome)
    able = {number: outcome.run for number, outcome in enumerate(outcomes) if outcome.run is not None}
    turns = alternate(able, given.rounds or (3 if given.quick else 15), enough=1.0, warm=True)
    for number, found in turns.items():
        if found.cpu:
            outcomes[number].turns = found
    return outcomes


def attempt(case: Case, outcome: Outcome) -> None:
    """Run a method for the first time, and judge its answer."""
    assert outcome.run is not None
    outcome.turns = alternate({"": outcome.run}, 1)[""]
    if outcome.turns.said:
        outcome.run, outcome.status = None, outcome.turns.said
        return
    outcome.x, outcome.passes, outcome.status = outcome.turns.answer
    if outcome.x is not None:
        outcome.residual = residual(case.A, case.B, outcome.x, case.ridge)


def own(case: Case, name: str) -> Outcome:
    """One solver of linspec with its default options."""
    chosen = choice(case) if name == "auto" else name

    def run() -> Any:
        problem = ls.LeastSquares(case.A, case.B, ridge=case.ridge)
        if f"linspec {chosen}" in LEFT_OUT[case.set]:
            return None, "", f"not run: chooses {chosen}, which is left out"
        s = ls.solve(problem, name, rng=0, max_seconds=case.cap)
        return s.x, f"{s.passes:g}", s.status.name + (f" by {s.solver}" if name == "auto" else "")

    return Outcome(f"linspec {name}", "default", run)


def choice(case: Case) -> str:
    """Return the solver that "auto" chooses; "" if it refuses, which the run itself will report."""
    try:
        return str(ls.select(ls.LeastSquares(case.A, case.B, ridge=case.ridge)).name)
    except ls.errors.LinspecError:
        return ""


# ---- rivals -------------------------------------------------------------------------------------------------


def by_ridge(solver: str, case: Case, tol: float | None, limit: int) -> Any:
    """scikit-learn."""
    limit = max(1, limit // EPOCH) if solver == "sag" else limit
    options: dict[str, Any] = {} if tol is None else {"tol": tol, "max_iter": limit}
    if solver == "sag" and tol is None:
        options = {"max_iter": min(1000, limit)}  # 1000 is its default
    model = Ridge(
        alpha=case.ridge, fit_intercept=False, copy_X=False, solver=solver, random_state=0, **options
    )
    model.fit(case.A, case.B)
    count = 0 if model.n_iter_ is None else int(np.max(model.n_iter_))
    ending = counted(count, options.get("max_iter", math.inf)) if count else ""
    return np.atleast_2d(model.coef_).T, "", ending


def by_columns(function: Any, case: Case, tol: float | None, limit: int) -> Any:
    """SciPy, which takes one right-hand side at a time."""
    names = {linalg.lsqr: ("iter_lim", 2), linalg.lsmr: ("maxiter", 2)}
    limit_name, place = names[function]
    options = {} if tol is None else {"atol": tol, "btol": tol, "conlim": 0.0, limit_name: limit}
    B = case.B.reshape(len(case.B), -1)
    found = [function(case.A, b, damp=math.sqrt(case.ridge), **options) for b in B.T]
    count = max(one[place] for one in found)
    return np.stack([one[0] for one in found], axis=1), "", counted(count, limit if options else math.inf)


def counted(count: int, limit: float) -> str:
    """Iterations of the column that took most, and whether the wall time set them."""
    return f"{count} iterations" + (", at the limit" if count >= limit else "")


def by_numpy(case: Case, *_: Any) -> Any:
    """The ridge enters as rows; there is no tolerance."""
    p = case.A.shape[1]
    zeros = np.zeros((p, *case.B.shape[1:]))
    A, B = np.vstack([case.A, math.sqrt(case.ridge) * np.eye(p)]), np.concatenate([case.B, zeros])
    return np.linalg.lstsq(A, B, rcond=None)[0], "", ""


RIVALS: dict[str, tuple[Callable[..., Any], bool]] = {
    "scikit-learn cholesky": (partial(by_ridge, "cholesky"), False),
    "scikit-learn svd": (partial(by_ridge, "svd"), False),
    "scikit-learn lsqr": (partial(by_ridge, "lsqr"), True),
    "scikit-learn sparse_cg": (partial(by_ridge, "sparse_cg"), True),
    "scikit-learn sag": (partial(by_ridge, "sag"), True),
    "scipy lsqr": (partial(by_columns, linalg.lsqr), True),
    "scipy lsmr": (partial(by_columns, linalg.lsmr), True),
    "numpy lstsq": (by_numpy, False),
}
"""How each is called, and whether it iterates."""


def rival(case: Case, name: str) -> Iterator[Outcome]:
    """A rival with its defaults, and with the cheapest tolerance that reaches the target."""
    if name in LEFT_OUT[case.set]:
        return
    function, iterates = RIVALS[name]
    limit = iterations_within(case)
    first = Outcome(name, "default", partial(function, case, None, limit))
    yield first
    if iterates and case.set != "unscaled":
        attempt(case, first)
        if first.run is not None:
            yield tightened(case, first, function, limit)


def tightened(case: Case, first: Outcome, function: Callable[..., Any], limit: int) -> Outcome:
    """The largest tolerance, to half a decade, that reaches the target.

    The residual falls about as the tolerance does, so each trial says where the next one should be.
    """
    loose, tight, best = 6.0 if "scipy" in first.method else 4.0, math.inf, None
    exponent = 2.0 if first.reached else loose + halves(first.residual / TARGET)
    loose = 1.0 if first.reached else loose
    while tight - loose > 0.5:
        trial = Outcome(
            first.method, f"tol {10**-exponent:.1e}", partial(function, case, 10**-exponent, limit)
        )
        attempt(case, trial)
        if trial.reached:
            tight, best = exponent, trial
            exponent = max(loose + 0.5, tight - max(0.5, halves(TARGET / trial.residual) - 0.5))
            continue
        loose = max(loose, exponent)
        if best is None and (
            exponent >= 16 or max(trial.turns.clock, default=math.inf) > case.cap or trial.run is None
        ):
            trial.setting, trial.run = f"not reached, {trial.setting}", None
            return trial
        exponent = min(16.0, exponent + halves(trial.residual / TARGET)) if best is None else tight - 0.5
    assert best is not None
    return best


def halves(ratio: float) -> float:
    """Decades, rounded up to halves; at least one half, and at most three decades at a time."""
    return min(3.0, max(0.5, math.ceil(2 * math.log10(ratio)) / 2)) if ratio > 0 else 0.5


def iterations_within(case: Case) -> int:
    """Iterations of one product with A and one with Aᵀ that the wall time allows for each column."""
    u, v = np.ones(case.A.shape[0]), np.ones(case.A.shape[1])
    turns = alternate({"": lambda: (case.A @ v, case.A.T @ u)}, 3)[""]
    return max(10, int(case.cap / (sum(turns.clock) / 3) / case.columns))


# ---- printing -----------------------------------------------------------------------------------------------


def yardstick(case: Case, outcomes: list[Outcome]) -> Outcome | None:
    """Return the outcome with which others are compared: "auto", on newsgroups the fastest of linspec's."""
    able = [outcome for outcome in outcomes if outcome.own and outcome.reached]
    if case.set == "newsgroups":
        return min(able, key=lambda outcome: outcome.time, default=None)
    return next((outcome for outcome in able if outcome.method == "linspec auto"), None)


def show(report: Report, case: Case, outcomes: list[Outcome]) -> None:
    """The rows of one problem."""
    least = objective(case.A, case.B, case.best, case.ridge)
    stick = yardstick(case, outcomes)
    name = f"{case.name}, unscaled" if case.set == "unscaled" else case.name
    table = report.table(*HEAD, title=f"{name}, ridge {case.label}")
    for outcome in outcomes:
        loss = None if outcome.x is None else above(case.A, outcome.x, case.best, case.ridge) / least
        ratio = outcome.turns.over(stick.turns) if stick and outcome.reached else ("", "")
        figures = outcome.residual, loss, outcome.passes, outcome.time, outcome.status
        table.row(outcome.method, outcome.setting, *figures, *ratio)


def asked(case: Case, outcomes: list[Outcome]) -> Iterator[Claim]:
    """Yield the requirements, and whether they are met."""
    if case.set == "unscaled":
        least = objective(case.A, case.B, case.best, case.ridge)
        own, rivals = (
            {
                o.method: above(case.A, o.x, case.best, case.ridge) / least
                for o in outcomes
                if o.x is not None
                and (o.method == "linspec auto" if ours else RIVALS.get(o.method, (None, 0))[1])
            }
            for ours in (True, False)
        )
        told = ", ".join(f"{name} {loss:.2%}" for name, loss in rivals.items())
        worst = max(own.values(), default=math.inf)
        text = "linspec is no more above the least value than the best rival that iterates, or 1e-8"
        bound = max(1e-8, min(rivals.values(), default=math.inf))
        yield Claim(text, worst <= bound, f"{worst:.1e}; {told}", own=True)
        return
    stick = yardstick(case, outcomes)
    rivals_ = [outcome for outcome in outcomes if not outcome.own and outcome.reached]
    text, most = ASKED[case.set]
    if stick is None or not rivals_:
        who = "rival" if stick else "solver of linspec"
        yield Claim(text, None, f"no {who} reached {TARGET:g}", own=True)
        return
    best = min(rivals_, key=lambda outcome: outcome.time)
    median, worst = stick.turns.over(best.turns)
    held = median <= most or (case.set == "uci" and stick.time <= most * best.time + 1e-3)
    figures = f"{stick.method} {stick.time:.4g} s, {best.method} {best.time:.4g} s"
    yield Claim(text, held, f"{figures}; {median:.2f} times in the median, {worst:.2f} at worst", own=True)


ASKED = {
    "newsgroups": ("linspec takes at most a third of the time of the fastest rival", 1 / 3),
    "uci": ("linspec takes at most 1.2 times the time of the fastest rival, or 1 ms more", 1.2),
    "dense": ("linspec takes at most 1.2 times the time of the fastest rival", 1.2),
}
"""Requirements on the time of linspec, relative to the fastest rival that reaches the target."""


if __name__ == "__main__":
    sys.exit(main())
