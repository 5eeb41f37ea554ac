"""Scores on held-out rows: their base class, those of predictions, and those of problems that name none.

Gram matrices are factorised once for all ridges.

Problem: several problems predict targets, and score the predictions by sums of squares of the same two kinds.
Method: a family computes, from moments or from the rows, the squared errors and the squares of the held-out targets
about their means. Either score follows from the two.

Predictions by components are scored for all ridges and k of one split from moments. The problem computes factors R and
Q for each ridge from the training moments; the coefficients of the first k components are their first k columns, R Qᵀ.
The squared error on held-out rows is tr(YᵀY) − 2 tr(QRᵀXᵀY) + tr(RᵀXᵀX R QᵀQ): a component adds one column to Rᵀ[XᵀY]
and to RᵀXᵀX R. Where a fit is good the terms cancel. So each error has a bound of its rounding: of the terms, and of
the inverse of training moments.

Problem: a problem of one's own should be cross-validated without a class of scores.
Method: where answers have a method `score`, it is called for the first k components of the answer, for each k: the
fields whose declared axes count components are cut. Answers with weights of two or more matrices give scores to the
rows of each, one block for each matrix, and the i-th columns belong together. They are also scored by the
correlations of these columns on the held-out rows, with their signs, summed over components and over pairs of
matrices.
Where we differ: a sum of products of paired scores would measure the covariance that an answer captures. But it
depends on the lengths of the weights: where these are scaled by a metric with a ridge, it falls as the ridge grows,
whether the fit to new rows is better or not. For agreement of three views (MAXVAR, 100 rows, 90 columns) and ridges
from 1 to 1e4 it fell from 0.018 to 0.004 on new rows, while the correlations rose from 4.60 to 5.08 of 6 at ridge
1000. Correlations do not depend on the lengths. A problem whose objective is another one defines `score`.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linspec.arrays import HostArray, is_array, reciprocal, to_host
from linspec.certificates import Metric
from linspec.errors import InvalidProblem, LinspecError, MissingCapability
from linspec.linalg.small_matrices import EPS
from linspec.linalg.variation import r_squared, squares_about_means
from linspec.operators import LinearOperator, as_operator
from linspec.solving.checks import as_columns, check_rows
from linspec.solving.fields import each_part
from linspec.solving.new_rows import NewRows
from linspec.solving.problem import Problem
from linspec.solving.solution import weights_by_matrix
from linspec.studies.held_out.grams import ROUNDING, Split, norm_of, share_lost
from linspec.studies.inference.rows import with_equal_rows
from linspec.workers import brought_here

Ks = Sequence[int | None]
"""Values of k; None stands for all components, or for a problem without a k."""

LOST = 1e-3
"""A score counts as meaningless if its relative rounding error is above this."""

GAP = 1e8
"""Eigenvalues below the rounding error count as zero if the other eigenvalues have at most this condition number."""

SAFE = 1e-6
"""For a ridge up to this fraction of the largest eigenvalue of S, `RidgeMetric` factorises S + ridge·I apart.

For larger ridges the eigendecomposition of S is accurate enough."""


@dataclass(frozen=True, eq=False)
class Generalized:
    """The scores of generalized cross-validation.

    Attributes
    ----------
    scores : numpy.ndarray of shape (ridges,)
        The scores; infinite if no degree of freedom is left.
    errors : numpy.ndarray of shape (ridges,) or None
        The standard errors of estimated scores; None for exact ones.
    readings : float
    one_pass : bool
        Whether the scores come from second moments computed in one pass.
    reason : str
        The cost estimates by which the method was chosen.
    rounding : numpy.ndarray of shape (ridges,) or None
        As in `Rounded`.
    """

    scores: HostArray
    errors: HostArray | None
    passes: float
    one_pass: bool
    reason: str
    rounding: HostArray | None = None


class Rounded(NamedTuple):
    """Scores with an estimate of their rounding errors.

    Attributes
    ----------
    scores : numpy.ndarray of shape (ridges, ks)
    rounding : numpy.ndarray of shape (ridges, ks)
        The estimated error caused by cancellation and by the condition of Gram matrices, relative to the score.
        Infinite if the moments do not determine the score.
    moved : numpy.ndarray of shape (ridges, ks), optional
        What `rounding_of_solutions` is passed where scores are recomputed from solutions. For least squares: a bound of
        the error of fitted values caused by rounding of Gram matrices, as root mean square over the training rows, in
        the units of the right-hand sides, because solvers may use Gram matrices, too.
    """

    scores: HostArray
    rounding: HostArray
    moved: HostArray | None = None


class HeldOutScore(ABC):
    """Base class of scores that measure how well a solution fits held-out rows.

    A problem lists its scores in `Problem.held_out_scores`. A score that is a function of second moments defines
    `of_moments`, so that cross-validation takes one pass. Every score defines `of_solution`.

    Attributes
    ----------
    label : str
        The name of the score in tables.
    higher : bool
        Whether higher scores are better.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> class LargestCorrelation(ls.HeldOutScore):
    ...     label = "largest correlation"
    ...     def of_solution(self, problem, solution, ks):
    ...         best = max(solution.score(problem.X, problem.Y).correlations)
    ...         return np.full(len(ks), best)
    >>> LargestCorrelation().higher
    True
    """

    label: ClassVar[str]
    higher: ClassVar[bool] = True

    @abstractmethod
    def of_solution(self, problem: Problem[Any], solution: Any, ks: Ks) -> HostArray:
        """Score the leading k components of a solution, for each k in `ks`.

        Parameters
        ----------
        problem : Problem
            The problem on the held-out rows, with their weights and confounds.
        solution : Solution
            The solution for the training rows, with the largest k.
        ks : sequence of int or None
            An entry None means the whole solution, such as that of a problem without a k.

        Returns
        -------
        numpy.ndarray of shape (len(ks),)
        """

    def rounding_of_solutions(
        self, problem: Problem[Any], solutions: Sequence[Any], moved: HostArray
    ) -> HostArray:
        """Estimate the relative rounding errors of the scores of solutions that replace those from moments.

        By default they are 0. Solutions whose status says that digits are lost are marked without this method.

        Parameters
        ----------
        problem : Problem
            The problem on the held-out rows.
        solutions : sequence of Solution
        moved : numpy.ndarray of shape (len(solutions), ks)
            As in `Rounded`.

        Returns
        -------
        numpy.ndarray of shape (len(solutions), ks)
        """
        return np.zeros_like(moved)

    def of_moments(self, problem: Any, split: Split, ridges: Sequence[Any], ks: Ks) -> HostArray | Rounded:
        """Compute the scores of all ridges and k of one split from second moments only.

        Parameters
        ----------
        problem : Problem
        split : Split
        ridges : sequence
            Ridges in the form in which the problem stores them.
        ks : sequence of int or None

        Returns
        -------
        numpy.ndarray of shape (len(ridges), len(ks)), or Rounded
        """
        raise NotImplementedError

    def generalized(
        self,
        problem: Problem[Any],
        ridges: Sequence[Any],
        form: str,
        solver: Any,
        rng: Any,
        options: dict[str, Any],
    ) -> Generalized:
        """Compute the scores of generalized cross-validation for all rows.

        Parameters
        ----------
        problem : Problem
        ridges : sequence
        form, solver, rng, options
            As for `linspec.cross_validate`.
        """
        raise MissingCapability(
            f'generalized cross-validation is for least squares; got {type(problem).__name__}. Pass method="folds".'
        )

    @property
    def by_moments(self) -> bool:
        """Whether the score is a function of second moments."""
        return type(self).of_moments is not HeldOutScore.of_moments


class RidgeMetric:
    """S + ridge·I for several ridges, factorised by one eigendecomposition S = UΛUᵀ.

    The errors of all computed eigenvalues are relative to the largest eigenvalue. For a ridge far below it, S +
    ridge·I is factorised separately (`linspec.certificates.Metric`), with scaled columns and a rank decision.

    S is the Gram matrix of the matrix `name` over the training rows of a split. The shape and dtype of the matrix
    determine the size of rounding errors.
    """

    def __init__(self, problem: Problem[Any], split: Split, name: str) -> None:
        self.split, self.name, self.rounding = split, name, split.rounding
        self.S, self.A = split.training[name, name], problem.matrices[name]
        self._norms: dict[float, Metric] = {}

    @cached_property
    def pairs(self) -> tuple[HostArray, HostArray]:
        """The eigenvalues Λ, with negative values set to zero, and the matrix U of eigenvectors."""
        values, vectors = np.linalg.eigh(self.S)
        return np.maximum(values, 0.0), vectors

    @cached_property
    def largest(self) -> float:
        """Upper bound of the largest eigenvalue: the largest absolute column sum."""
        return float(np.max(np.sum(np.abs(self.S), axis=0), initial=0.0))

    def shares(self, ridge: float) -> bool:
        """Whether the common eigendecomposition is accurate enough for this ridge."""
        return ridge > SAFE * self.largest

    def norm(self, ridge: float) -> Metric:
        """The norm of (S + ridge·I)⁻¹; only that for the last ridge is kept."""
        if ridge not in self._norms:
            self._norms = {ridge: norm_of(self.A, self.S, ridge)}
        return self._norms[ridge]

    def shortest(self, x: HostArray, ridge: float) -> HostArray:
        """The part of coefficients in the range of S: without a ridge, the shortest with the same fitted values."""
        return x if ridge != 0 else self.norm(ridge).shortest(x)

    def condition(self, ridge: float) -> float:
        """Factor by which the inverse of S + ridge·I amplifies the rounding errors of S.

        The factor is infinite in three cases, if eigenvalues were omitted as rounding errors. First, if the condition
        number of the other eigenvalues is above GAP: then no gap separates zero eigenvalues from small ones. Second, if
        S has a lower rank than `spread`: then the columns vary less than the rounding errors of their large means.
        Third, if the rows have omitted directions that are longer than rounding, or cannot be read again.
        """
        if self.shares(ridge):
            return (self.largest + ridge) / ridge
        norm = self.norm(ridge)
        condition = 1 / norm.least**2
        hidden = norm.null.shape[1] > 0 and (condition > GAP or self.split.lacks_directions(self.name, norm))
        return math.inf if hidden else condition

    def inverse_root(self, ridge: float) -> HostArray:
        """B of shape (p, r) with B Bᵀ the (pseudo-)inverse of S + ridge·I, and Bᵀ(S + ridge·I)B = I."""
        if self.shares(ridge):
            values, vectors = self.pairs
            return vectors / np.sqrt(values + ridge)
        return np.asarray(self.norm(ridge).N)


FEWEST = 2
"""The smallest number of counted rows that have a correlation."""


def still(squares: HostArray, means: HostArray, count: float, rows: int, eps: float = EPS) -> HostArray:
    """Mask of the variates, rounded to `eps`, that are constant up to rounding, and not 0: none has a correlation."""
    rounding = max(max(rows, 16) * EPS, 16 * eps**2)
    return np.asarray((squares > 0) & (squares - count * means**2 <= rounding * squares))


def auxiliary(problem: Problem[Any]) -> dict[str, Any]:
    """The confounds of a problem, if it has any, as an argument of `score` and `transform` of its solutions."""
    return {} if problem.confounds is None else {"confounds": problem.confounds}


def weighted_rows(block: Any, problem: Problem[Any], name: str = "") -> tuple[HostArray, HostArray]:
    """Return rows in float64 on the host, and the weights that the problem gives them (ones without weights).

    With `name` the weights are those of the rows of this matrix.
    """
    rows = np.asarray(to_host(brought_here(block)), dtype=np.float64)
    w = problem.weights_of(name) if name else problem.sample_weight
    return rows, np.ones(len(rows)) if w is None else w


class PredictionScore(HeldOutScore):
    """The mean squared error of predictions, over held-out rows (weighted) and targets."""

    label = "mean squared error"
    higher = False

    def of_solution(self, problem: Problem[Any], solution: Any, ks: Ks) -> HostArray:
        """Score every k of a solution on held-out rows."""
        scores = []
        for Y, errors, w in errors_of_rows(problem, solution, ks):
            error = float(np.sum(w @ errors**2))
            total = float(np.sum(squares_about_means(Y, w)))
            scores.append(self.of_errors(error, total, float(w.sum()), Y.shape[1]))
        return np.array(scores)

    def rounding_of_solutions(
        self, problem: Problem[Any], solutions: Sequence[Any], moved: HostArray
    ) -> HostArray:
        """Estimate the rounding of squared errors by that of targets and of predictions of their size."""
        rounding = np.empty_like(moved)
        for i, solution in enumerate(solutions):
            Y, errors, w = next(errors_of_rows(problem, solution))
            level = getattr(solution, "intercept", None)  # what large means of X cancel
            size = 0.0 if level is None else np.linalg.norm(to_host(level))
            off = ROUNDING * np.sqrt(np.sum(w @ Y**2)) + (ROUNDING * size + moved[i]) * np.sqrt(w.sum())
            length = np.sqrt(np.sum(w @ errors**2))
            rounding[i] = share_lost(off * (2 * length + off), np.full(len(off), length**2))
        return rounding

    def of_errors(self, error: float, total: float, count: float, columns: int) -> float:
        """Compute the score.

        Parameters
        ----------
        error, total : float
            The squared errors, and the squares of the targets about their means, summed over rows and targets.
        count : float
            The number of rows, or the sum of their weights.
        columns : int
            The number of targets.
        """
        return error / (count * columns)


class RSquared(PredictionScore):
    """R²: 1 minus the ratio of the squared errors to the squares of the held-out targets about their means."""

    label = "R²"
    higher = True

    def of_errors(self, error: float, total: float, count: float, columns: int) -> float:
        return float(r_squared(error, total))


class SquaredErrors(PredictionScore):
    """The mean squared error of predictions, over held-out rows (weighted) and right-hand sides.

    The problem has the matrices X and Y and a method
    ``factors_of_moments(metric, C, ridge, k)``, with the `RidgeMetric` of XᵀX and C = XᵀY, NumPy arrays of the
    training rows: R of shape (p, m), Q of shape (q, m) with m at most k, and the factor by which the computation of R
    magnifies the rounding of moments.
    """

    def of_moments(self, problem: Any, split: Split, ridges: Sequence[Any], ks: Ks) -> Rounded:
        """Score every ridge and k of one split."""
        training, held = split.training, split.held_out
        metric, most = RidgeMetric(problem, split, "X"), max(k or 0 for k in ks)
        units = reciprocal(split.factors("Y"))  # errors are in the units of Y
        # also of targets that were constant in training
        unscaled = float(np.sum(split.unscaled_squares("Y")))
        total = float(split.spreads["Y"].sum())
        columns = int(problem.Y.shape[1])
        scores, rounding = np.empty((2, len(ridges), len(ks)))
        for i, ridge in enumerate(ridges):
            R, Q, magnified = problem.factors_of_moments(metric, training["X", "Y"], ridge, most)
            R = metric.shortest(R, ridge)
            Q = Q * units[:, None]
            cross = (R.T @ (held["X", "Y"] * units)) * Q.T
            between = (R.T @ (held["X", "X"] @ R)) * (Q.T @ Q)
            for j, k in enumerate(ks):
                m = slice(0, k)
                error = max(float(unscaled - 2 * cross[m].sum() + between[m, m].sum()), 0.0)
                terms = unscaled + 2 * float(np.abs(cross[m]).sum()) + float(np.abs(between[m, m]).sum())
                scores[i, j] = self.of_errors(error, total, held.count, columns)
                rounding[i, j] = share_lost(split.rounding * terms, error) + split.rounding * magnified
        return Rounded(scores, rounding)


class Explained(RSquared, SquaredErrors):
    """R², with the targets about their means over the held-out rows."""


def errors_of_rows(
    problem: Problem[Any], solution: Any, ks: Ks = (None,)
) -> Iterator[tuple[HostArray, HostArray, HostArray]]:
    """Yield, for each k, the targets, the errors of their predictions, and the weight of each row.

    Parameters
    ----------
    problem : Problem
        With two matrices, of which the second one has the targets.
    solution : Solution
    ks : sequence of int or None
        Numbers of components by which the solution predicts; None for all, or if it has no components.
    """
    X, targets = problem.matrices.values()
    Y = np.asarray(to_host(targets.dense()), dtype=np.float64)
    for k in ks:
        some = {} if k is None else {"k": min(k, int(solution._factors()[0].shape[1]))}
        predicted, w = weighted_rows(solution.predict(X, confounds=problem.confounds, **some), problem)
        yield Y, Y - np.reshape(predicted, Y.shape), w


FAINT = 16 * EPS
"""Largest squares of the weights of a component, relative to those of others in the same matrix, that are rounding."""

ROUNDED = 16
"""Scores within so many roundings of the products that they come from are rounding."""


def default_scores(problem: Problem[Any]) -> dict[str, HeldOutScore]:
    """Return by name the scores of held-out rows of a problem whose class lists none; the first is the default.

    "score" is among them if solutions of the problem have a method `score`, and "correlations" if `is_paired` is True.
    """
    cls = problem.solution
    scores: dict[str, HeldOutScore] = {}
    if callable(getattr(cls, "score", None)):
        scores["score"] = OwnScore(cls.layout.score)
    if is_paired(problem):
        scores["correlations"] = PairedCorrelations()
    return scores


def is_paired(problem: Problem[Any]) -> bool:
    """Whether solutions have column weights for two or more matrices, and a method `transform`.

    Then `transform` gives each row one vector of component scores for each of these matrices.
    """
    weighted = [
        name for name in problem.matrices if problem.stated.field_of(name) in problem.solution.layout.weights
    ]
    return len(weighted) > 1 and callable(getattr(problem.solution, "transform", None))


class OwnScore(HeldOutScore):
    """The number that the method `score` of a solution returns for held-out rows, for its first k components.

    If `score` returns an object with an attribute `total`, such as the CCAScore of a CCA, the number is this attribute.

    Parameters
    ----------
    label : str
        The name of the score.
    """

    def __init__(self, label: str) -> None:
        self.label = label  # type: ignore[misc]  # of this problem

    def of_solution(self, problem: Problem[Any], solution: Any, ks: Ks) -> HostArray:
        if "sample_weight" not in inspect.signature(solution.score).parameters:
            problem = with_equal_rows(problem, f"{type(solution).__name__}.score takes no weights, so it")
        named = {"confounds": problem.confounds, "sample_weight": problem.sample_weight}
        named = {name: value for name, value in named.items() if value is not None}
        scores = [first_components(solution, k).score(*problem.matrices.values(), **named) for k in ks]
        return np.array([number_of(score) for score in scores])


class PairedCorrelations(HeldOutScore):
    """The correlations of paired scores, with their signs, summed over components and over pairs of matrices."""

    label = "sum of correlations"

    def of_solution(self, problem: Problem[Any], solution: Any, ks: Ks) -> HostArray:
        names = list(weights_by_matrix(solution))
        scores = solution.transform(*(problem.matrices[name] for name in names), **auxiliary(problem))
        blocks = [weighted_rows(S, problem, name) for S, name in zip(scores, names, strict=True)]
        correlations = paired_correlations(solution, blocks, centred=bool(problem.center))
        return np.array([float(correlations[:k].sum()) for k in ks])


def paired_correlations(
    solution: Any, blocks: Sequence[tuple[HostArray, HostArray]], *, centred: bool
) -> HostArray:
    """Return for each component i the sum, over all pairs of matrices, of the correlation of their i-th scores.

    The scores are the component scores of the rows. Their correlations are about the means of the training rows, not
    about the means of these rows. A component whose scores are 0 in some matrix has correlation 0 there.
    Pairs of matrices that share fewer than two rows are left out: the sum is that of the other pairs, times the number
    of all pairs over theirs.

    Parameters
    ----------
    solution : Solution
        The answer that gave the scores.
    blocks : sequence of (numpy.ndarray of shape (n, k), numpy.ndarray of shape (n,))
        For each matrix, the component scores of its rows, and the weights of these. The means of the training rows are
        already subtracted. A correlation is that of the rows whose weights are positive for both matrices.
    centred : bool
        Whether the problem centres. If so, a component whose scores are constant over these rows has no correlation.

    Returns
    -------
    numpy.ndarray of shape (k,)
        NaN for a component without a correlation, and for all of them if no pair of matrices shares two rows.
    """
    named = zip(weights_by_matrix(solution), blocks, strict=True)
    blocks = [(_beyond_rounding(solution, name, S, w), w) for name, (S, w) in named]
    pairs = list(combinations(blocks, 2))
    sums, known = np.zeros(blocks[0][0].shape[1]), 0
    for (P, a), (Q, b) in pairs:
        w = np.sqrt(a * b)
        if np.count_nonzero(w) >= FEWEST:
            sums = sums + w @ (_units(P, w, centred=centred) * _units(Q, w, centred=centred))
            known += 1
    return sums * (len(pairs) / known) if known else np.full(len(sums), np.nan)


def _units(S: HostArray, w: HostArray, *, centred: bool) -> HostArray:
    """Scale scores to weighted length 1, and with `centred` scores that are constant to NaN."""
    squares = w @ (S * S)
    count = float(w.sum())
    rows = int(np.count_nonzero(w))
    lengths = reciprocal(np.sqrt(squares))
    if centred:
        lengths[still(squares, w @ S / count, count, rows) & (lengths > 0)] = np.nan
    return np.asarray(S * lengths)


def _beyond_rounding(solution: Any, name: str, S: HostArray, w: HostArray) -> HostArray:
    """Scores of the rows of a matrix: 0 where weights are rounding, or only rounding is left of what they multiply."""
    V, axis = weights_by_matrix(solution)[name]
    V = to_host(V).T if axis else to_host(V)
    mean = NewRows.of(solution, name).mean
    lengths = np.sum(np.square(V, dtype=np.float64), axis=0)
    unit = w @ (S * S) * reciprocal(lengths)
    about = 0.0 if mean is None else w.sum() * float(np.sum(np.square(to_host(mean), dtype=np.float64)))
    least = len(V) * (ROUNDED * float(np.finfo(V.dtype).eps)) ** 2 * (unit.max(initial=0.0) + about)
    return np.where((unit > least) & (lengths > FAINT * lengths.max(initial=0.0)), S, 0.0)


def number_of(score: Any) -> float:
    """Return the number of what a method `score` returns; NaN for correlations of rows that say nothing about them."""
    if hasattr(score, "correlations"):
        return float(score.total) if score.rows >= FEWEST and score.total else math.nan
    return float(getattr(score, "total", score))


def rows_to_score(
    problem: Problem[Any],
    matrices: Mapping[str, Any],
    what: str,
    unit: str,
    error: type[LinspecError],
    fixed: Container[str],
) -> dict[str, LinearOperator]:
    """Return new rows of each matrix as operators, checked: those of the matrices `fixed` must have their columns."""
    rows = {
        name: as_operator(as_columns(data, name), f"the {what} rows of {name}")
        for name, data in matrices.items()
    }
    for name, A in rows.items():
        columns = problem.matrices[name].shape[1]
        if A.shape[1] != columns and name in fixed:
            raise InvalidProblem(f"the {what} rows of {name} must have {columns} columns; got {A.shape[1]}.")
        if A.readings == 1:
            raise error(
                f"the {what} rows of {name} are read once for each {unit}; got an iterator. Pass a callable that "
                "returns a fresh one."
            )
    (first, A), *rest = rows.items()
    for name, B in rest:
        check_rows(f"the {what} rows of {first}", A, f"those of {name}", B)
    return rows


def score_of_rows(solution: Any, matrices: Sequence[Any]) -> Any:
    """Score an answer on rows by its method `score`, or by the correlations of paired scores if it has none."""
    if callable(getattr(solution, "score", None)):
        return solution.score(*matrices)
    scores = [np.asarray(to_host(brought_here(S)), dtype=np.float64) for S in solution.transform(*matrices)]
    centred = any(getattr(solution, name) is not None for name in solution.layout.means.values())
    blocks = [(S, np.ones(len(S))) for S in scores]
    return float(paired_correlations(solution, blocks, centred=centred).sum())


def first_components(solution: Any, k: int | None) -> Any:
    """Return a solution with its first k components only; the solution itself if k is None.

    An array of the solution is cut along each axis that its field declares as "k" (`shape` of `linspec.field`).
    """
    if k is None:
        return solution

    def cut(axes: str, part: Any) -> Any:
        for letters in map(str.split, axes.split("|")):
            if is_array(part) and part.ndim == len(letters) and "k" in letters:
                return part[tuple(slice(k) if letter == "k" else slice(None) for letter in letters)]
        return part

    fields = {
        name: each_part(getattr(solution, name), partial(cut, axes))
        for name, axes in solution.layout.shapes.items()
    }
    return dataclasses.replace(solution, **fields)
