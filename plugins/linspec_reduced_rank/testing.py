"""The exact answer and the law of reduced-rank regression, by NumPy, from the full least-squares solution.

The directions are judged by the oracle of discriminants, which decomposes X. The coefficients are judged by their
definition: the fit of the full solution, with the ridge as additional rows, projected on its leading right singular
vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from linspec.testing import ROUNDING, Case, Law, ProblemTesting, Reading, as_host, testing_of


def cases() -> Sequence[Case]:
    """Make the cases of discriminants that ask for a number of directions, with the targets as right-hand sides.

    One is left out: it mixes float32 and float64, and here the arrays of Y have the dtype of Y.
    """
    return tuple(
        replace(
            each,
            problem="reduced-rank-regression",
            arrays={"X": each.arrays["X"], "Y": each.arrays["H"]},
            truth={},
        )
        for each in testing_of("discriminant").cases()
        if each.parameters["k"] is not None and each.name != "float32-data"
    )


def _as_directions(case: Case) -> Case:
    """Return the case as one of discriminants."""
    arrays = {"X": case.arrays["X"], "H": case.arrays["Y"]}
    return replace(case, problem="discriminant", arrays=arrays, truth={})


class _Directions:
    """The arrays of an answer under the names of an answer of discriminants."""

    def __init__(self, solution: Any) -> None:
        self.weights = solution.weights
        self.eigenvalues = np.asarray(solution.singular_values) ** 2
        self.residual_kind = solution.residual_kind


class ReducedRankOracle:
    """The exact coefficients of a case, and the law of given directions."""

    def __init__(self, case: Case, reading: Reading) -> None:
        self.directions = testing_of("discriminant").oracle(_as_directions(case), reading)
        self.k, self.count = self.directions.k, self.directions.count
        self.attainable = self.directions.attainable

    def law(self, solution: Any) -> Law:
        """Recompute the residual of the directions."""
        found: Law = self.directions.law(_Directions(solution))
        return found

    def errors(self, solution: Any) -> list[str]:
        """Describe errors of the answer that are larger than its own residual explains."""
        exact = self.directions
        found: list[str] = exact.errors(_Directions(solution))
        if found or not self.count:
            return found
        V, loadings = as_host(solution.y_weights), as_host(solution.y_loadings)
        sigma, W = np.asarray(solution.singular_values), as_host(solution.weights)
        own = exact.H.T @ (exact.X @ W)
        room = ROUNDING * exact.unit * exact.condition * exact.targets
        for name, given, true in (
            ("y_weights times singular_values", V * sigma, own),
            ("y_loadings", loadings, own),
        ):
            if not (off := float(np.abs(given - true).max())) <= room:
                found.append(
                    f"{name} must be Yᵀ X weights; they are wrong by {off:.2g}, with room for {room:.2g}"
                )
        law = self.law(solution)
        error = (law.residual + law.floor) * float(np.linalg.norm(sigma)) ** 2 / exact.least**0.5 + room
        # ‖Y − XB‖² + r‖B‖² is least for the exact B, where it is ‖Y‖² − Σσ².
        B = as_host(solution.coefficients()).reshape(exact.X.shape[1], -1)
        value = np.linalg.norm(exact.H - exact.X @ B) ** 2 + exact.ridge * np.linalg.norm(B) ** 2
        least = np.linalg.norm(exact.H) ** 2 - exact.eigenvalues.sum()
        room = 10 * (error + room) * exact.targets
        if not value - least <= room:
            found.append(
                f"the objective is above its least value by {value - least:.2g}, with room for {room:.2g}"
            )
        return found


def shapes(case: Case, solution: Any) -> Mapping[str, tuple[int, ...]]:
    """The shapes of the arrays of an answer."""
    (_, p), (_, m) = (A.shape for A in case.arrays.values())
    k = len(solution.singular_values)
    return {"weights": (p, k), "y_weights": (m, k), "y_loadings": (m, k)}


def _moved(case: Case, factor: float, seed: int) -> Case:
    """Return the case in other coordinates, as those of discriminants are moved."""
    moved = testing_of("discriminant").moved(_as_directions(case), factor, seed)
    return replace(case, arrays={"X": moved.arrays["X"], "Y": moved.arrays["H"]}, parameters=moved.parameters)


TESTING = ProblemTesting(
    cases=cases,
    oracle=ReducedRankOracle,
    shapes=shapes,
    moved=_moved,
    residual_kinds=ProblemTesting.residual_kinds | {"exact"},
)
"""The conformance tests of solvers of reduced-rank regression."""
