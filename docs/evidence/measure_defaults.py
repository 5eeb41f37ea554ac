"""Print what linspec's own choices are worth: the solver that "auto" takes, and the random columns of `cg`.

    OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_defaults.py regret|columns [--quick] [--data FOLDER]

regret: the processor time of the solver that "auto" chooses, called by its name, over that of the best by name, at one
tolerance, on 45 shapes (`--only TEXT` takes those with it in their names; `--quick` the smallest, once). Solvers take
turns. Each runs three times, once where a run takes seconds, and its least time counts. The best is sought among all
solvers but demonstrations, those with an approximate answer, and those that state more than 20 times the time of the
chosen one; only a converged answer takes part.

columns: passes that random columns beside the targets save conjugate gradients. Tf-idf of 11,314 posts x 75,878 words,
the first group as the only target, not centred: ridge 1, and a path of 50 ridges from 1 to 1000, each to a residual of
1e-8, by `cg` with 0 to 40 random columns, beside `nystrom-pcg` and `lsqr`.
"""

from __future__ import annotations

import statistics
import sys
from functools import partial
from typing import Any

import numpy as np
from datasets import PROBLEMS, generated, newsgroups
from showing import Claim, Report, arguments, at_most
from timing import alternate, timed

import linspec as ls
from linspec.solving.select import estimated

# How many times the time of the chosen one a solver may state, seconds of a run that is not repeated, and of any.
HOPELESS, LONG, MOST = 20.0, 1.0, 10.0
SHAPES = """
SVD 3 200 10; SVD 10 2000 200; SVD 10 20000 100; SVD 5 1000 1000; SVD 5 300 5000; SVD 10 3000 1500
SVD 10 20000 2000 10; SVD 10 5000 20000 40; SVD 5 50000 300 5
ridge 1 200 10; ridge 1 20000 100; ridge 1 3000 1500; ridge 1 500 5000
ridge 1 20000 2000 10; ridge 1 5000 20000 40; ridge 1 50000 300 5
CCA 3 200 10; CCA 10 5000 200; CCA 5 3000 600; CCA 5 20000 300; CCA 5 20000 2000 10; CCA 5 10000 6000 10
LDA 3 200 10; LDA 10 5000 300; LDA 5 500 5000; LDA 10 3000 1500; LDA 20 10000 5000 20
SVD 4 100000 50; SVD 30 2000 50000 60; ridge 1 100000 8000 12; CCA 8 100000 3000 4; LDA 6 3000 30000 50
SVD 6 8000 400; SVD 8 600 600; triplets 15 30000 4000 20; SVD 20 1500 12000 30
ridge 20 1200 800 20; ridge 1 3000 2000 20; ridge 20 30000 2500 15; ridge 5 100000 40; ridge 1 2500 2500
CCA 4 1500 2000; CCA 6 40000 80; LDA 4 30000 60; LDA 12 1000 2500 30
"""
"""Family, k, targets or classes, rows, columns, and entries of sparse rows."""


def candidates(problem: Any) -> list[str]:
    """The solvers that aim at the answer itself, in a time that they can state."""
    found, sizes = [], problem.sizes()
    least = estimated(problem, "auto", sizes)[1]
    for name in ls.solvers(problem):
        traits = ls.describe(f"{problem.name}/{name}").traits
        stated = estimated(problem, name, sizes)[1]
        known = stated is not None and least is not None
        hopeless = known and stated.seconds > max(LONG, HOPELESS * least.seconds)
        if not {"approximate", "demonstration"} & set(traits) and not hopeless:
            found.append(name)
    return found


def converged(problem: Any, name: str) -> Any:
    """The answer of a solver, which has to converge."""
    limits = {"rng": 0, "max_seconds": MOST}
    try:
        answer = ls.solve(problem, name, tol=problem.default_tol, **limits)
    except TypeError:  # it has no tolerance
        answer = ls.solve(problem, name, **limits)
    if not answer.converged:
        raise ValueError(answer.status.name)
    return answer


def regret(report: Report) -> None:
    head = "seconds::.3g", "best by name", "seconds::.3g", "regret::.2f", "the others"
    table, regrets = report.table("problem", '"auto"', *head), []
    for shape in SHAPES.replace("\n", "; ").strip("; ").split("; "):
        family, *sizes = shape.split()
        small = sizes[1] == "200"
        if (report.given.quick and not small) or report.given.only not in shape:
            continue
        k, *rest = map(int, sizes)
        problem = PROBLEMS[family](k, *generated(family, k, *rest))
        chosen = ls.select(problem).name
        ls.solve(problem, chosen, rng=0)  # imports and first touches
        calls = {name: partial(converged, problem, name) for name in candidates(problem)}
        turns = alternate(calls, 1 if report.given.quick else (20 if small else 3), enough=LONG)
        least = {name: min(taken.cpu) for name, taken in turns.items() if not taken.said}
        order = sorted(least, key=least.__getitem__)
        regrets.append(least.get(chosen, np.inf) / least[order[0]])
        others = ", ".join(f"{name} {least[name]:.3g}" for name in order)
        table.row(shape, chosen, least.get(chosen), order[0], least[order[0]], regrets[-1], others)
    middle, worst = statistics.median(regrets), max(regrets)
    text = 'the regret of "auto" is at most 1.05 in the median and 1.6 at worst'
    told = f"{middle:.2f} and {worst:.2f} on {len(regrets)} shapes"
    report.say([Claim(text, middle <= 1.05 and worst <= 1.6, told, own=True)])


def columns(report: Report) -> None:
    A, groups = newsgroups(report.given)
    head = "ridges", "solver", "random columns", "steps", "passes", "CPU s::.2f", "residual::.1e"
    table, found = report.table(*head), {}
    for ridges in ([1.0], list(np.geomspace(1.0, 1000.0, 50))):
        problem = ls.LeastSquares(A, groups[:, :1], ridge=ridges)
        runs = [("cg", {"form": "implicit", "random_columns": beside}) for beside in (0, 5, 10, 20, 40)]
        if len(ridges) == 1:
            runs += [("nystrom-pcg", {"form": "implicit"}), ("lsqr", {})]
        for name, options in runs:
            answer, watch = timed(ls.solve, problem, name, rng=0, **options)
            beside = options.get("random_columns", "")
            costs = answer.iterations, answer.passes, watch.cpu
            table.row(len(ridges), name, beside, *costs, answer.residual)
            found[len(ridges), name, beside] = answer.passes
    saved, more = found[1, "cg", 0] / found[1, "cg", 20], found[50, "cg", 20] - found[1, "cg", 20]
    text = "20 random columns save 1.6 times the passes"
    report.say([Claim(text, saved >= 1.6, f"{saved:.2f}", own=True)])
    report.say([at_most("50 ridges take the passes of one", more, 0, "{value:g} more", own=True)])


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("part", choices=("regret", "columns"), help="what is chosen")
    parser.add_argument("--only", default="", help="shapes of regret that have this text")
    report = Report(parser)
    (regret if report.given.part == "regret" else columns)(report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
