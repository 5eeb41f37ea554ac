"""Print how many passes every CCA solver takes to capture shares of the canonical correlations, and in what time.

Run `python docs/evidence/measure_cca.py --data FOLDER`; `--quick` takes small generated data instead. `--sets`,
`--solvers`, `--seeds` and `--cap` choose a part.

Uncentred, k = 20. The proportion captured (PCC) is the sum of the correlations, with the ridge of the problem, within
the spans of the weights of an iteration, over that of the answer. It is computed here from Gram matrices of the whole
data, outside of the time and the passes of the solver. The answer is a run of `lobpcg` with its Gram matrices held and
tolerance 1e-12, of `gram` for pixels; where the sum is known from an independent computation, its distance is printed.

`form`: "implicit" sweeps the data at each step, "auto" is what the solver chooses. Passes include everything before the
iterate. Solvers without iterations are run to their end.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse.linalg
from captured import Judge, follow
from datasets import bigrams, mnist_halves, titles_and_queries
from showing import Report, arguments

import linspec as ls

K = 20
TARGETS = (0.9, 0.99, 0.999, 0.9999, 0.99999)
KNOWN = {"homedepot:1": 18.842335, "ptb:1": 18.696535288289, "mnist:300": 15.322951}
SETS = {
    "homedepot:1": titles_and_queries,
    "homedepot:0.01": titles_and_queries,
    "homedepot:100": titles_and_queries,
    "mnist:300": mnist_halves,
    "ptb:1": bigrams,
    "ptb:0.01": bigrams,
}
SOLVERS: dict[str, tuple[str, dict[str, Any]]] = {
    "lobpcg": ("lobpcg", {}),
    "als": ("als", {}),
    "l-cca": ("l-cca", {"iterations": 40}),
    "g-cca": ("g-cca", {"iterations": 40}),
    "d-cca": ("d-cca", {"tol": 1e-12}),
    "dw-cca": ("dw-cca", {}),
    "nw-cca": ("nw-cca", {}),
    "rpcca": ("rpcca", {"components": 300}),
    "randomized": ("randomized", {}),
    "appgrad": ("appgrad", {}),
    "stochastic-appgrad": ("stochastic-appgrad", {"epochs": 150}),
}


@dataclass
class Reference:
    """The reference by which answers are scored."""

    judge: Judge
    total: float

    @classmethod
    def of(cls, X: Any, Y: Any, ridge: float) -> Reference:
        """Gram matrices of the whole data, and the exact sum."""
        dense = not scipy.sparse.issparse(X)
        judge = Judge(X, Y, ridge, "dense" if dense else "sparse")
        problem = ls.CCA(judge.moments, k=K, ridge=ridge, center=False)
        options = {} if dense else {"tol": 1e-12, "max_iterations": 1500, "oversample": 40}
        answer = ls.solve(problem, "gram" if dense else "lobpcg", rng=1, **options)
        return cls(judge, float(answer.correlations.sum()))


@dataclass
class Outcome:
    """One run: where it met the targets."""

    passes: dict[float, float]
    seconds: dict[float, float]
    best: float
    status: str
    residual: float
    total_passes: float


def followed(
    reference: Reference,
    X: Any,
    Y: Any,
    name: str,
    options: dict[str, Any],
    given: argparse.Namespace,
    seed: int,
) -> Outcome:
    """Solve, and note when which share is captured; scoring is not timed."""
    problem = ls.CCA(X, Y, K, ridge=reference.judge.ridge, center=False)
    fields = {option.name for option in ls.describe(f"cca/{name}").options}
    form = {"form": given.form} if "form" in fields else {}
    cap, most = given.cap if given.form != "auto" else None, max(given.targets) * reference.total
    run = follow(problem, name, (reference.judge,), enough=most, rng=seed, max_passes=cap, **form, **options)
    shares = [(look.totals[0] / reference.total, look) for look in run.looks]
    met = {
        target: next((look for share, look in shares if share >= target), None) for target in given.targets
    }
    s = run.solution
    return Outcome(
        {target: look.passes for target, look in met.items() if look},
        {target: look.cpu for target, look in met.items() if look},
        max(share for share, _ in shares),
        s.status.name,
        s.residual,
        s.passes,
    )


def middle(outcomes: list[Outcome], target: float) -> str:
    """Median (worst) passes, or the best that was reached."""
    found = [outcome.passes.get(target, np.inf) for outcome in outcomes]
    median, worst = float(np.median(found)), max(found)
    if np.isinf(median):
        return "-"
    return f"{median:g}" if len(found) == 1 else f"{median:g} ({'-' if np.isinf(worst) else f'{worst:g}'})"


def seconds_of(outcomes: list[Outcome], target: float) -> float:
    """Median CPU seconds."""
    return float(np.median([outcome.seconds.get(target, np.inf) for outcome in outcomes]))


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="name:ridge")
    parser.add_argument("--solvers", nargs="+", default=list(SOLVERS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--cap", type=float, default=150.0, help="passes at most")
    parser.add_argument("--form", default="implicit", choices=("implicit", "auto"))
    parser.add_argument("--targets", nargs="+", type=float, default=list(TARGETS[:4]))
    parser.add_argument("--oversample", type=int, help="of lobpcg")
    report = Report(parser)
    given = report.given
    for chosen in given.sets:
        source, _, ridge = chosen.partition(":")
        X, Y = next(read for name, read in SETS.items() if name.startswith(source))(given)
        reference = Reference.of(X, Y, float(ridge))
        off = (
            ""
            if given.quick or chosen not in KNOWN
            else f", off the known sum by {reference.total - KNOWN[chosen]:.1e}"
        )
        shares = [f"passes to {target}" for target in given.targets]
        table = report.table(
            *("solver", *shares, "CPU s to .99::.1f", "to .999::.1f", "best PCC::.6f", "passes::g", "status"),
            "residual::.1e",
            title=f"{source}, ridge {ridge}, form {given.form}: sum of {K} correlations {reference.total:.9f}{off}",
        )
        for label in given.solvers:
            name, options = SOLVERS[label]
            if given.oversample is not None and name == "lobpcg":
                options = {**options, "oversample": given.oversample}
            runs = [followed(reference, X, Y, name, options, given, seed) for seed in range(given.seeds)]
            table.row(
                label,
                *(middle(runs, target) for target in given.targets),
                seconds_of(runs, 0.99),
                seconds_of(runs, 0.999),
                min(run.best for run in runs),
                max(run.total_passes for run in runs),
                runs[0].status,
                max(run.residual for run in runs),
            )
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
