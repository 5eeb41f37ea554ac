"""The error of predictions for rows that were not fitted, by rows left out and by generalized cross-validation.

Problem: score all ridges of one split from second moments of its training rows and of its held-out rows; or by one
criterion on all rows. With the hat matrix H(r) = A(AᵀA + rI)⁻¹Aᵀ, which maps right-hand sides to fitted values,

    GCV(r) = (1/n) ‖b − H(r) b‖² / ((1/n) (n − s − tr H(r)))²

for the s directions that are subtracted from all rows (the mean, confounds).
Method: AᵀA = UΛUᵀ is decomposed once, and x = U(Λ + r)⁻¹UᵀAᵀB for each ridge. The squared error ‖B − A x‖² on
held-out rows is a quadratic form of their second moments. Where the fit is good its terms are much larger than their
sum, so the sum may be rounding, and its value does not show that. The form is taken about the means of the rows, so
that large means do not enter it; the part of the means is a square by itself. The rounding of the form is at most ε
times the sum of the magnitudes of its terms. In addition, x has an error: the Gram matrix G and AᵀB are known up to
ε‖G‖ and ε‖A‖‖B‖, which moves fitted values A x by at most ε (‖G‖‖x‖ + ‖A‖‖B‖) max √λ/(λ + r), for eigenvalues λ of G.
Errors that may be rounding are recomputed from the rows themselves.

For GCV the same decomposition gives tr H(r) = Σ λ/(λ + r) and the squared errors for every ridge: that of AᵀA, which
one pass computes, or of AAᵀ if there are fewer rows than columns. If both are large, one run solves for all
ridges, and random signs z, which are further right-hand sides of that run, estimate the trace: E zᵀHz = tr H.
Source: Higham 2002, Accuracy and Stability of Numerical Algorithms, sections 3.1 and 20.4,
doi:10.1137/1.9780898718027 (inner products, and normal equations); Golub, Heath & Wahba 1979, Technometrics 21:215,
doi:10.1080/00401706.1979.10489751, equation 2.3; Hutchinson 1990, Commun. Stat. Simul. Comput. 19:433,
doi:10.1080/03610919008812866, and Girard 1989, doi:10.1007/BF01395775 (the random signs).
Where we differ: the bounds leave out factors of the number of rows, as roundings of many rows cancel in part. The model
of GCV's source has no intercept, s = 0. The columns of several right-hand sides count together, and n is the sum of the
weights if rows are weighted. Signs are drawn for weighted rows, and the mean and confounds are subtracted from them as
from right-hand sides, so that the trace of H alone is estimated. An estimated score comes with its standard error: the
standard error of the trace, from the spread of the zᵀHz, times 2 GCV / (n − s − tr H).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import linspec as ls
from linspec import cost
from linspec.arrays import HOST, HostArray, random_generator, reciprocal, to_host
from linspec.errors import ConvergenceWarning, InvalidProblem, NoSuitableSolver, warn
from linspec.linalg import squared_cut
from linspec.operators import as_operator
from linspec.process import machine
from linspec.rows import Moments, Passes, Preprocessing, row_gram
from linspec.solving.on_rows import moments_of
from linspec.solving.solve import solve
from linspec.solving.stating import with_values
from linspec.status import Status
from linspec.studies.held_out.folds import Folds, bytes_held, cells_of, with_orthogonal_confounds
from linspec.studies.held_out.grams import ROUNDING, Grams, Split, share_lost, split_of
from linspec.studies.held_out.scores import (
    LOST,
    Generalized,
    PredictionScore,
    RidgeMetric,
    Rounded,
    RSquared,
)

PROBES = 20
"""Number of random sign vectors that estimate the trace: the standard deviation of the estimate of n − s − tr H is at
most √(2 (n − tr H) / PROBES)."""

MOST = 4000
"""Largest order of a Gram matrix that is decomposed unasked."""

SPENT = 1e-9
"""Degrees of freedom up to this fraction of the row count are treated as none."""


def solved(eigen: RidgeMetric, training: Grams, ridges: Sequence[Any]) -> Iterator[tuple[HostArray, float]]:
    """Yield for each ridge the coefficients x, and a bound of the rounding error of the fitted values A x.

    The error of a training row is the norm of its errors over all right-hand sides. The bound is for the root mean
    square of this norm over the training rows.
    """
    AtB, turned = training["A", "B"], None
    length = float(np.sqrt(np.trace(training["B", "B"])))
    for ridge in ridges:
        if eigen.shares(ridge):
            values, vectors = eigen.pairs
            turned = vectors.T @ AtB if turned is None else turned
            x = vectors @ (turned / (values + ridge)[:, None])
        else:
            norm = eigen.norm(ridge)
            x = norm.solve(AtB)
            x += norm.solve(AtB - training["A", "A"] @ x - ridge * x)  # one refinement
            x = eigen.shortest(x, ridge)
        off = eigen.rounding * eigen.condition(ridge) * length
        yield x, off / float(np.sqrt(training.count)) if off > 0 else 0.0


def squared_error(split: Split, x: HostArray, off: float) -> tuple[float, float]:
    """Compute ‖B − A x‖² of the held-out rows, and a bound of the rounding in it.

    Parameters
    ----------
    split : Split
    x : numpy.ndarray of shape (p, m)
    off : float
        Bound of the rounding in the fitted values of a row.
    """
    # A right-hand side that was constant in training has the factor 0, but its errors count.
    errors = split.images([{"A": -x, "B": np.eye(x.shape[1])}], unscaled=("B",))
    error = float(errors.squares.sum())
    return error, float(errors.lost.sum()) + moved_by(off, error, errors.count)


def moved_by(off: float, error: float, count: float) -> float:
    """Return the largest change of `error`, a sum of squared errors over rows, if the fitted values change.

    `off` is the root mean square of the change over the rows, and `count` the total weight of the rows.
    """
    moved = off * float(np.sqrt(count))
    return moved * (2 * float(np.sqrt(error)) + moved)


class SquaredErrors(PredictionScore):
    """The mean squared error of predictions, over held-out rows (weighted) and right-hand sides."""

    def of_moments(
        self, problem: ls.LeastSquares, split: Split, ridges: Sequence[Any], ks: Sequence[int | None]
    ) -> Rounded:
        held = split.held_out
        total = float(split.spreads["B"].sum())
        m = int(problem.B.shape[1])
        scores, rounding, moved = np.empty((3, len(ridges), 1))
        for i, (x, off) in enumerate(solved(RidgeMetric(problem, split, "A"), split.training, ridges)):
            error, lost = squared_error(split, x, off)
            scores[i], rounding[i] = self.of_errors(error, total, held.count, m), share_lost(lost, error)
            moved[i] = off
        return Rounded(scores, rounding, moved)

    def generalized(
        self,
        problem: Any,
        ridges: Sequence[Any],
        form: str,
        solver: Any,
        rng: Any,
        options: dict[str, Any],
    ) -> Generalized:
        """Score by an eigendecomposition, with form "auto" of an order up to `MOST`, or by random signs."""
        way, reason = _way(problem, form)
        if way == "dense":
            return _of_columns(problem, ridges, reason, again=form != "dense")
        if way == "rows":
            return _of_rows(problem, ridges, reason)
        return _of_signs(problem, ridges, solver, {"rng": rng, **options}, reason, random_generator(rng))


class Explained(RSquared, SquaredErrors):
    """R², with the right-hand sides about their means over the held-out rows."""


def _way(problem: ls.LeastSquares, form: str) -> tuple[str, str]:
    """Return "rows" or "dense", whose Gram matrix is decomposed, or "solve", and the reason as text."""
    (n, p), memory = problem.A.shape, min(machine.available_memory(), problem.A.device.free_memory()) / 2
    again = problem.readings > 1
    way = "rows" if again and (n < p or problem.A.access == "products") else "dense"
    order = n if way == "rows" else p
    needed = bytes_held(order, _everything(1))
    text = f"a Gram matrix of order {order} takes {cost.human_bytes(needed)} of {cost.human_bytes(memory)}"
    if form == "dense" and needed > memory:
        raise NoSuitableSolver(f'generalized cross-validation: {text}. Pass form="solve".')
    small = form == "auto" and needed <= memory and (order <= MOST or not again)
    way = way if small or form == "dense" else "solve"
    return way, f"{way}: {text}."


# ---- exact ----------------------------------------------------------------------------------------------------------


def _everything(rows: int) -> Folds:
    every = np.arange(rows)
    return Folds(rows, ((every, every),), (every,), ((0,),), ((0,),))


def _of_columns(
    problem: ls.LeastSquares, ridges: Sequence[float], reason: str, *, again: bool
) -> Generalized:
    """Score the ridges by an eigendecomposition of AᵀA, which is computed in one pass.

    If `again` is True and the estimated rounding error of some squared error ‖B − A x‖² is above the fraction LOST, a
    second pass computes the squared errors of all ridges from the rows. They replace the squared errors whose rounding
    error is above LOST.
    """
    rows = int(min(A.shape[0] for A in problem.matrices.values()))
    problem = with_orthogonal_confounds(problem)
    _, total, passes = cells_of(problem, _everything(rows))
    split = split_of(problem, total, total)
    eigen = RidgeMetric(problem, split, "A")
    freedom = total.count - (total.rows - split.rank)
    x, moved = zip(*solved(eigen, split.training, ridges), strict=True)
    errors, shares = np.array([squared_error(split, *pair) for pair in zip(x, moved, strict=True)]).T
    lost = np.array(
        [np.inf if split.hides else share_lost(*pair) for pair in zip(shares, errors, strict=True)]
    )
    passes, one_pass = passes + split.reread, True
    if again and problem.readings > 1 and max(lost) > LOST:
        moments = moments_of(problem, Passes())
        B, read = _preprocessed_targets(moments), [0.0] * len(x)
        for some, fits in _fits(moments, np.stack(x), B.shape[0]):
            for i, fit in zip(some, fits, strict=True):
                read[i] = float(((B - fit) ** 2).sum())
        passes, one_pass = passes + moments.passes.count, False
        for i in np.flatnonzero(lost > LOST).tolist():
            errors[i], lost[i] = read[i], share_lost(moved_by(moved[i], read[i], total.count), read[i])
    scores = np.empty(len(ridges))
    for i, ridge in enumerate(ridges):
        scores[i] = _score(errors[i], freedom - _trace(eigen, ridge), total.count) / int(problem.B.shape[1])
    return Generalized(scores, None, passes, one_pass, reason, lost)


def _trace(eigen: RidgeMetric, ridge: float) -> float:
    """tr (S + r I)⁻¹ S; for small r computed as rank S − r tr (S + r I)⁻¹."""
    if eigen.shares(ridge):
        return float(np.sum(eigen.pairs[0] / (eigen.pairs[0] + ridge)))
    norm = eigen.norm(ridge)
    return norm.rank - ridge * float(np.sum(norm.N**2))


def _of_rows(problem: ls.LeastSquares, ridges: Sequence[float], reason: str) -> Generalized:
    """Score the ridges by AAᵀ = UΛUᵀ, for data with fewer rows than columns.

    The squared error is the sum of bᵀ f(K) b over the right-hand sides b, with K = AAᵀ and f(λ) = (r/(λ + r))². For
    eigenvalues λ and μ of K the derivative of f(K), by which rounding in K is magnified, has the divided differences
    f[λ, μ] = (f(λ) − f(μ)) / (λ − μ) as factors. They are −(g h² + g² h)/r with g = r/(λ + r) and h = r/(μ + r).
    """
    count, freedom = _freedom(problem)
    moments = moments_of(problem, Passes())
    K = to_host(row_gram(moments))
    values, U = np.linalg.eigh((K + K.T) / 2)
    live = values > squared_cut(problem.A.H) * values.max(initial=0.0)
    values = values[live]
    U = U[:, live]
    B = _preprocessed_targets(moments)
    along = U.T @ B
    beyond = float(((B - U @ along) ** 2).sum())
    rounding = moved_by(ROUNDING * float(np.linalg.norm(B)), beyond, 1.0)
    largest = float(np.max(values, initial=0.0))
    scores, lost = np.empty((2, len(ridges)))
    for i, ridge in enumerate(ridges):
        g = ridge / (values + ridge)
        error = beyond + float(((g[:, None] * along) ** 2).sum())
        scores[i] = _score(error, freedom - float((values / (values + ridge)).sum()), count) / B.shape[1]
        lost[i] = share_lost(rounding, error) + (2 * ROUNDING * largest / ridge if ridge > 0 else 0.0)
    return Generalized(scores, None, moments.passes.count, False, reason, lost)


def _score(error: float, free: float, count: float) -> float:
    return count * error / free**2 if free > SPENT * count else np.inf


# ---- estimated ------------------------------------------------------------------------------------------------------


def _of_signs(
    problem: ls.LeastSquares,
    ridges: Sequence[float],
    solver: Any,
    options: dict[str, Any],
    reason: str,
    generator: np.random.Generator,
) -> Generalized:
    """Score the ridges by one run that solves for all ridges.

    Vectors of random signs are further right-hand sides of this run; they estimate the trace of the hat matrix.
    """
    count, freedom = _freedom(problem)
    B = _right_hand_sides(problem)
    n, m = B.shape
    signs = generator.choice([-1.0, 1.0], size=(n, PROBES))
    w = problem.sample_weight
    weighted = signs if w is None else signs * reciprocal(np.sqrt(w))[:, None]  # the problem multiplies by √w
    device = problem.A.device
    block = as_operator(device.asarray(np.hstack([B, weighted]), problem.A.dtype))
    run = problem.with_matrices({"B": block}).with_numbers(ridge=tuple(ridges))
    run = with_values(run, vector=False, column_names={})
    solution = solve(run, solver, **options)
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if not solution.converged:
        warn(
            f"generalized cross-validation: {solution.solver} has not converged ({solution.status.name}): "
            f"{solution.message}",
            ConvergenceWarning,
        )
    moments = moments_of(problem, Passes())
    B, x = _preprocessed_targets(moments), HOST.asarray(solution.x)
    if moments.pre.scale:
        moments.fit(0)
        x = np.stack([moments.fitted[0].unscaled(columns) for columns in x])
    scores, errors = np.empty(len(ridges)), np.zeros(len(ridges))
    for some, fits in _fits(moments, x, n):
        for i, fit in zip(some, fits, strict=True):
            traces = (signs * fit[:, m:]).sum(axis=0)
            free = freedom - float(traces.mean())
            scores[i] = _score(float(np.sum((B - fit[:, :m]) ** 2)), free, count) / m
            spread = float(np.std(traces, ddof=1)) / np.sqrt(PROBES)
            errors[i] = 2 * scores[i] * spread / free if np.isfinite(scores[i]) else np.nan
    return Generalized(scores, errors, solution.passes + moments.passes.count + 1.0, False, reason)


def _fits(moments: Moments, x: HostArray, n: int) -> Iterator[tuple[range, list[HostArray]]]:
    """Yield ridges and their fitted values, with as many ridges per pass as memory permits."""
    count, _, columns = x.shape
    A, device = moments.operator(), moments.device
    most = int(max(1, min(cost.spare_bytes(), cost.spare_bytes(device)) // (16 * n * columns)))
    for first in range(0, count, most):
        some = range(first, min(first + most, count))
        fits = HOST.asarray(A.matmat(device.asarray(np.concatenate(x[some.start : some.stop], axis=1))))
        yield some, [fits[:, j * columns : (j + 1) * columns] for j in range(len(some))]


# ---- rows -----------------------------------------------------------------------------------------------------------


def _freedom(problem: ls.LeastSquares) -> tuple[float, float]:
    """The total row weight n, and the degrees of freedom n − s for s directions subtracted from the rows."""
    w = problem.sample_weight
    count = float(problem.B.shape[0] if w is None else w.sum())
    if not np.isfinite(count):
        raise InvalidProblem(
            "the number of rows of a stream is not known beforehand. Pass slices of known length."
        )
    pre = Preprocessing.of(center=bool(problem.center), weights=w, confounds=problem.confounds)
    return count, count - pre.directions


def _preprocessed_targets(moments: Moments) -> HostArray:
    """√D B without its means and what confounds explain, on the host."""
    B, device = moments.operators[1], moments.operators[1].device.blocks
    return to_host(moments.operator(1).matmat(device.eye(B.shape[1]))).astype(np.float64)


def _right_hand_sides(problem: ls.LeastSquares) -> HostArray:
    """B in float64 on the host."""
    B = problem.B
    dense = B.dense() if B.readable else B.matmat(B.device.blocks.eye(B.shape[1]))
    return np.asarray(to_host(dense), dtype=np.float64)
