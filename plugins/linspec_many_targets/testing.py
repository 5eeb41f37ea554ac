"""Cases with exact answers, and the law of many targets, by explicit fits of rows with NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from linspec.arrays import HostArray, reciprocal
from linspec.testing import ROUNDING, Case, Law, ProblemTesting, Reading, as_host, precision, shift_of

FOLDS = 3
RIDGES = (1.0, 10.0, 100.0)
WEIGHTS = ((0.5, 0.5), (0.9, 0.1))


def less_means(A: HostArray, center: bool, of: HostArray | None = None) -> HostArray:
    """Subtract the column means of A, or of other rows; a column of which only rounding is left becomes zero."""
    rows = A if of is None else of
    if not center:
        return A
    left = rows - rows.mean(axis=0)
    still = np.linalg.norm(left, axis=0) <= 1e-13 * np.linalg.norm(rows, axis=0)
    found: HostArray = (A - rows.mean(axis=0)) * ~still
    return found


def fit(X: HostArray, Y: HostArray, ridge: float, gamma: HostArray) -> HostArray:
    """Return the coefficients of scaled columns, by the singular values of X D."""
    d = np.sqrt(gamma)
    U, s, Vt = np.linalg.svd(X * d, full_matrices=False)
    found: HostArray = d[:, None] * (Vt.T @ ((s / (s**2 + ridge))[:, None] * (U.T @ Y)))
    return found


def held_out_scores(
    X: HostArray, Y: HostArray, folds: int, ridges: Sequence[float], gammas: HostArray, center: bool
) -> HostArray:
    """Return the mean R² of each setting, ridge and target over folds of successive rows."""
    found = np.zeros((len(gammas), len(ridges), Y.shape[1]))
    for rows in np.array_split(np.arange(len(X)), folds):
        A, B, C, D = np.delete(X, rows, axis=0), np.delete(Y, rows, axis=0), X[rows], Y[rows]
        about = np.sum((D - D.mean(axis=0)) ** 2, axis=0)
        for i, gamma in enumerate(gammas):
            for j, ridge in enumerate(ridges):
                W = fit(less_means(A, center), B - B.mean(axis=0) * center, ridge, gamma)
                errors = D - B.mean(axis=0) * center - less_means(C, center, A) @ W
                found[i, j] += (1 - np.sum(errors**2, axis=0) / about) / folds
    return found


def case(
    name: str,
    n: int,
    p: int,
    m: int,
    *,
    ridges: Sequence[float] = RIDGES,
    weights: Any = WEIGHTS,
    center: bool = True,
) -> Case:
    """Make a case: noise with targets that depend on the first half of the columns, which are the first band."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) + rng.standard_normal(p)
    Y = X[:, : -(-p // 2)] @ rng.standard_normal((-(-p // 2), m)) + 2 * rng.standard_normal((n, m))
    bands = [int(2 * j >= p) for j in range(p)] if len(weights[0]) > 1 else [0] * p
    parameters = {
        "ridges": tuple(ridges),
        "bands": bands,
        "band_weights": [list(row) for row in weights],
        "splitter": FOLDS,
        "center": center,
    }
    gammas = np.array(weights)[:, bands]
    truth = {"scores": held_out_scores(X, Y, FOLDS, ridges, gammas, center)}
    return Case(
        name=name, problem="ridge-many-targets", arrays={"X": X, "Y": Y}, parameters=parameters, truth=truth
    )


def with_columns(base: Case, name: str, change: Mapping[str, Any]) -> Case:
    """Return a case with other values in some columns: {"Y": {0: 3.0}}."""
    arrays = {key: A.copy() for key, A in base.arrays.items()}
    for key, columns in change.items():
        for column, values in columns.items():
            arrays[key][:, column] = values
    return replace(base, name=name, arrays=arrays, truth={})


def cases() -> Sequence[Case]:
    """Make the cases on which every solver is tested."""
    tall = case("tall", 60, 8, 4)
    moved = {name: A + 1e4 * A.std(axis=0) for name, A in tall.arrays.items()}
    return (
        tall,
        case("wide", 24, 30, 5),
        case("wide-many-targets", 12, 30, 40),
        case("many-targets", 60, 8, 50),
        case("one-band", 60, 8, 4, weights=((1.0,),)),
        case("one-candidate", 60, 8, 4, ridges=(3.0,), weights=((0.3, 0.7),)),
        case("band-left-out", 60, 8, 4, weights=((1.0, 0.0), (0.0, 1.0))),
        case("one-column", 40, 1, 3, weights=((1.0,),)),
        case("one-target", 60, 8, 1),
        case("no-centring", 60, 8, 4, center=False),
        case("two-rows-a-fold", 6, 3, 2),
        with_columns(tall, "zero-columns", {"X": {1: 0.0, 6: 0.0}, "Y": {2: 0.0}}),
        with_columns(tall, "constant-columns", {"X": {1: 3.0, 6: 0.1}}),
        with_columns(tall, "constant-target", {"Y": {1: 0.1}}),
        with_columns(tall, "equal-columns", {"X": {1: tall.main[:, 0], 5: tall.main[:, 4]}}),
        replace(tall, name="offset", arrays=moved, dense_offset=True, truth={}),
        tall.with_arrays(lambda A: A.astype(np.float32), "float32"),
        case("wide", 24, 30, 5).with_arrays(lambda A: A.astype(np.float32), "float32-wide"),
        tall.with_arrays(lambda A: np.rint(100 * A / np.abs(A).max()).astype(np.int8), "int8"),
        tall.with_arrays(lambda A: A * 1e12, "large-units"),
        tall.with_arrays(lambda A: A * 1e-12, "small-units"),
    )


class ManyTargetsOracle:
    """The law of a case, and the exact coefficients for the ridges and weights that an answer has chosen."""

    def __init__(self, case: Case, reading: Reading) -> None:
        arrays = [A.astype(np.float64) for A in case.arrays.values()]
        center = bool(case.parameters["center"])
        self.unit = reading.rounding(precision(case), max(map(shift_of, arrays)) if center else 1.0)
        self.X, self.Y = (less_means(A, center) for A in arrays)
        self.bands = np.asarray(case.parameters["bands"])
        self.settings = np.asarray(case.parameters["band_weights"])
        self.ridges = np.asarray(case.parameters["ridges"])
        self.truth = case.truth.get("scores")
        self.k = self.Y.shape[1]

    def _scaled(self, solution: Any) -> tuple[HostArray, HostArray, HostArray]:
        """Return D for each target, D⁻¹w, and the ridges of an answer."""
        gammas = np.maximum(as_host(solution.band_weights), 0.0).T[self.bands]
        W = as_host(solution.weights)
        if solution.mixing is not None:
            W = gammas * (W @ as_host(solution.mixing))
        d = np.sqrt(gammas)
        return d, W * np.where(d > 0, reciprocal(d), 1.0), as_host(solution.ridges)

    def _sizes(self, d: HostArray) -> tuple[HostArray, HostArray]:
        """Return ‖D Xᵀy‖ of each target, and what rounding leaves of it."""
        size = np.linalg.norm(d * (self.X.T @ self.Y), axis=0)
        return size, float(np.linalg.norm(self.X)) * d.max(axis=0) * np.linalg.norm(self.Y, axis=0)

    @property
    def attainable(self) -> float:
        """The residual that rounding alone may leave, for the worst candidate."""
        worst = 0.0
        for gamma in self.settings:
            d = np.repeat(np.sqrt(gamma)[self.bands][:, None], self.k, axis=1)
            W = fit(self.X, self.Y, float(self.ridges.min()), gamma[self.bands])
            worst = max(worst, self._floor(d, W * np.where(d > 0, reciprocal(d), 1.0)))
        return worst

    def _floor(self, d: HostArray, z: HostArray) -> float:
        (size, noise), norm = self._sizes(d), float(np.linalg.norm(self.X)) * d.max(axis=0)
        live = size > 10 * self.unit * noise
        parts = (norm**2 * np.linalg.norm(z, axis=0) + noise)[live]
        return ROUNDING * self.unit * float((parts / size[live]).max(initial=0.0))

    def law(self, solution: Any) -> Law:
        """The largest ‖D Xᵀ(y − X w) − r D⁻¹w‖ / ‖D Xᵀy‖ of a target."""
        d, z, ridges = self._scaled(solution)
        gap = np.linalg.norm(d * (self.X.T @ (self.Y - self.X @ (d * z))) - ridges * z, axis=0)
        size, noise = self._sizes(d)
        live = size > 10 * self.unit * noise
        if (gap[noise == 0] > 0).any():  # of a target without a band, or without any entry
            return Law(np.inf, 0.0)
        return Law(float((gap[live] / size[live]).max(initial=0.0)), self._floor(d, z))

    def errors(self, solution: Any) -> list[str]:
        """Describe coefficients that are not those of what was chosen, and choices that are not the best."""
        rows = len(self.X) if solution.mixing is not None else self.k
        if tuple(solution.weights.shape) != (self.X.shape[1], rows):
            return [f"weights must have shape {(self.X.shape[1], rows)}; got {tuple(solution.weights.shape)}"]
        d, z, ridges = self._scaled(solution)
        (size, noise), norm, found = self._sizes(d), float(np.linalg.norm(self.X)) * d.max(axis=0), []
        for t, ridge in enumerate(ridges):
            exact = fit(self.X, self.Y[:, [t]], ridge, d[:, t] ** 2)[:, 0]
            s = np.linalg.svd(self.X * d[:, t], compute_uv=False)
            least = (float(s[-1]) ** 2 if len(self.X) >= len(d) else 0.0) + ridge
            rounding = ROUNDING * self.unit * (norm[t] ** 2 * np.linalg.norm(z[:, t]) + noise[t])
            allowed = d[:, t].max() * (float(solution.residual) * size[t] + rounding) / least
            off = float(np.linalg.norm(d[:, t] * z[:, t] - exact))
            if not off <= allowed:
                found.append(
                    f"target {t} differs from the exact coefficients by {off:.2g}; explained: {allowed:.2g}"
                )
        return found + self._choice(solution)

    def _choice(self, solution: Any) -> list[str]:
        """Describe scores that are not those of explicit fits, and choices with less than the best score."""
        if self.truth is None:
            return []
        found = []
        for t, (ridge, gamma) in enumerate(
            zip(as_host(solution.ridges), as_host(solution.band_weights), strict=True)
        ):
            i = int(np.argmin(np.linalg.norm(self.settings - gamma, axis=1)))
            own = self.truth[i, int(np.argmin(np.abs(self.ridges - ridge))), t]
            if not abs(float(solution.scores[t]) - own) <= 1e-8 * (1 + abs(own)):
                found.append(
                    f"scores[{t}] must be the held-out R² {own:.6g}; got {float(solution.scores[t]):.6g}"
                )
            if not own >= self.truth[:, :, t].max() - 1e-8:
                found.append(
                    f"target {t} has a better candidate, with R² {self.truth[:, :, t].max():.6g} for {own:.6g}"
                )
        return found


def shapes(case: Case, solution: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays of an answer."""
    (n, p), m = case.main.shape, case.arrays["Y"].shape[1]
    bands = len(case.parameters["band_weights"][0])
    found = {"ridges": (m,), "scores": (m,), "band_weights": (m, bands), "band_of": (p,)}
    found |= {"weights": (p, m)} if solution.mixing is None else {"weights": (p, n), "mixing": (n, m)}
    return found | ({"x_mean": (p,), "y_mean": (m,)} if case.parameters["center"] else {})


TESTING = ProblemTesting(cases=cases, oracle=ManyTargetsOracle, shapes=shapes, companions=frozenset({"Y"}))
"""The conformance tests of solvers of ridge regression of many targets."""
