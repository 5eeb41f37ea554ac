"""Print how far linspec's LDA subspaces are from scikit-learn's, without a ridge.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_lda_agreement.py --data FOLDER`; `--quick` takes small generated
data. All rows, as they are published, and z-scored without constant columns. Figures are
`linspec.metrics.subspace_distance`, the sine of the largest angle between the spans of the weights and of `scalings_`
of LinearDiscriminantAnalysis; scikit-learn's two solvers are compared with each other as well. A solver of scikit-learn
that refuses is printed as it says it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from datasets import arguments, labelled
from least_squares_law import print_head, print_row
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import linspec as ls

SETS = ("wine", "optdigits", "satimage", "usps")


def main() -> None:
    """Measure and print."""
    parser = arguments(main.__doc__ or "")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--seeds", type=int, default=5, help="of two-stage; the worst is printed (5)")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print_head(
        "data", "n x p, classes", "directions", "direct, svd", "two-stage, svd", "direct, eigen",
        "two-stage, eigen", "svd, eigen", "status",
    )  # fmt: skip
    for name in given.sets:
        for title, X, y in versions(given, name):
            print_row([title, f"{X.shape[0]} x {X.shape[1]}, {len(set(y))}", *row(X, y, given.seeds)])


def versions(given: Any, name: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """As published, and z-scored without constant columns."""
    X, y = labelled(given, name)
    yield name, X, y
    X = X[:, X.std(axis=0) > 0]
    yield f"{name}, z-scored", (X - X.mean(axis=0)) / X.std(axis=0), y


def row(X: np.ndarray, y: np.ndarray, seeds: int) -> list[str]:
    """Distances."""
    theirs = {solver: scikit_learn(X, y, solver) for solver in ("svd", "eigen")}
    problem = ls.Discriminant(X, ls.targets.lda(y))
    direct = ls.solve(problem, "direct")
    staged = [ls.solve(problem, "two-stage", rng=seed) for seed in range(seeds)]
    cells = [str(direct.weights.shape[1])]
    for other in theirs.values():
        cells.append(apart([direct.weights], other))
        cells.append(apart([solution.weights for solution in staged], other))
    both = theirs["svd"] if isinstance(theirs["svd"], str) else apart([theirs["svd"]], theirs["eigen"])
    states = {direct.status.name, *(solution.status.name for solution in staged)}
    return [*cells, both, ", ".join(sorted(states))]


def scikit_learn(X: np.ndarray, y: np.ndarray, solver: str) -> np.ndarray | str:
    """Their directions, or what they say."""
    try:
        model = LinearDiscriminantAnalysis(solver=solver, tol=1e-10).fit(X, y)
    except (ValueError, np.linalg.LinAlgError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:70]}"
    return np.asarray(model.scalings_[:, : len(model.classes_) - 1])


def apart(weights: list[np.ndarray], other: np.ndarray | str) -> str:
    """The worst distance from the other's, or what the other said."""
    if isinstance(other, str):
        return other
    return f"{max(ls.metrics.subspace_distance(W, other) for W in weights):.1e}"


if __name__ == "__main__":
    main()
