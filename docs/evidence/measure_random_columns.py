"""Print how many passes random columns beside the targets save conjugate gradients, and what arithmetic they cost.

Run `OPENBLAS_NUM_THREADS=1 python docs/evidence/measure_random_columns.py --data FOLDER`; `--quick` takes small
generated data.

Tf-idf of 11,314 posts x 75,878 words, the first group as the only target, not centred, in memory, swept: ridge 1, and
a path of 50 ridges from 1 to 1000, each to a residual of 1e-8, by `cg` with 0 to 40 random columns, beside
`nystrom-pcg` and `lsqr`. Steps and passes do not depend on the machine.
"""

from __future__ import annotations

import sys

import numpy as np
from datasets import newsgroups
from showing import Claim, Report, arguments
from timing import timed

import linspec as ls

COLUMNS = (0, 5, 10, 20, 40)


def main() -> int:
    """Measure and print."""
    report = Report(arguments(__doc__))
    A, groups = newsgroups(report.given)
    table = report.table(
        "ridges", "solver", "random columns", "steps", "passes", "CPU s::.2f", "residual::.1e"
    )
    found: dict[tuple[int, int], float] = {}
    for ridges in ([1.0], list(np.geomspace(1.0, 1000.0, 50))):
        problem = ls.LeastSquares(A, groups[:, :1], ridge=ridges)
        runs = [("cg", {"form": "implicit", "random_columns": columns}) for columns in COLUMNS]
        for name, options in [
            *runs,
            *([("nystrom-pcg", {"form": "implicit"}), ("lsqr", {})] if len(ridges) == 1 else []),
        ]:
            answer, watch = timed(lambda: ls.solve(problem, name, rng=0, **options))  # noqa: B023
            columns = options.get("random_columns", "")
            table.row(
                len(ridges), name, columns, answer.iterations, answer.passes, watch.cpu, answer.residual
            )
            if name == "cg":
                found[len(ridges), columns] = answer.passes
    saved = found[1, 0] / found[1, 20]
    same = found[50, 20] - found[1, 20]
    report.say(
        [
            Claim("20 random columns save 1.6 times the passes", saved >= 1.6, f"{saved:.2f}", own=True),
            Claim("50 ridges take the passes of one", same <= 0, f"{same:g} more", own=True),
        ]
    )
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
