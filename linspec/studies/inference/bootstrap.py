"""Bootstrap intervals of the values and weights of the components of any problem on rows.

Problem: how much would the values and weights of an answer change with other rows from the same source?
Method: n of the n rows are drawn with replacement, and each draw is solved. A draw is a vector of counts, which is
passed to the problem as `sample_weight`, so the data are not copied. The scores that the weights of a draw give to
all rows, of all matrices together, are rotated to the scores of the answer (orthogonal Procrustes rotation R). In
these coordinates the draw is the symmetric k x k matrix M = R diag(values) Rᵀ. Its eigenvectors are the components of
the draw in the order of their values, and their signs are matched to the answer.
Source: Efron & Tibshirani 1993, An Introduction to the Bootstrap, chapter 13 (percentiles) and section 10.2 (bias);
Milan & Whittaker 1995, J. R. Stat. Soc. C 44:31 (signs, order and rotation of bootstrapped singular vectors); Field &
Welsh 2007, J. R. Stat. Soc. B 69:369 (groups).
Where we differ: vectors that are only rotated onto those of all rows, as is usual, vary too little. In a simulation of
covariances with 60 and 300 rows, their intervals of 95 % covered weights in 31 to 94 %, those with matched signs in 76
to 96 %. So the gaps between neighbouring values are reduced by the share of noise: before the eigenvectors are
computed, the values minus values with these gaps are subtracted from the diagonal of M. These intervals covered weights
in 87 to 96 %.

Problem: values of samples are too large, and those of draws are too large once more. An interval of values needs both
the bias and how uncertain the bias is.
Method: on a scale t of the values s, the interval is t − b ± z·e, with the mean b of the differences between the draws
and t. The bias of a sample falls as the value rises, about as c/s, so a corrected value varies more than s does:

    e² = (d / (1 − β))² + Σ g² / 2,    β = b (ds/dt) / s ≤ 1/2,                                  (1)

with the standard deviation d of the draws, and for each neighbour the half g of what noise has added to the gap.
Source: that of the general bootstrap; Lawley 1959, Biometrika 46:59 (the bias of canonical correlations).
Where we differ: (1) is ours. At 90 % it covered the first three values of CCA in 84 to 97 %, of PLS in 74 to 96 % and
of SVD in 84 to 90 % of 500 sets of 60 to 200 rows; percentiles covered correlations in 0 to 92 %
(`docs/evidence/measure_resampling.py` prints them). Values that are 0, or last of several equal ones, are covered less.

Problem: two values of a sample are further apart than those of the source, because noise separates them. Draws from
the sample have its gap, so they rotate less within the plane of both vectors than the sample has rotated.
Method: in the coordinates of the components of all rows, a draw is a k x k matrix M that varies about the diagonal
matrix of the values. The singular values of a 2 x 2 matrix with a positive determinant satisfy (s₁ − s₂)² = (M₁₁ −
M₂₂)² + (M₁₂ + M₂₁)², and the eigenvalues of a symmetric one do so as well. Hence the expected square of the gap of a
sample is the squared gap of the source plus v, the sum of the variances of M₁₁ − M₂₂ and M₁₂ + M₂₁, which is
estimated from the draws. If two values are equal, g² is about exponential with mean v, since both terms have mean 0
and equal variances: exp(−g²/v) is the p-value of a tie.
Source: Hall, Lee, Park & Paul 2009, Bernoulli 15:380, doi:10.3150/08-BEJ154 (tied eigenvalues are made equal before
the draws). Where we differ: they decide by a test which are tied; we reduce every gap by the share of noise.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from linspec.arrays import HostArray, random_generator, reciprocal, to_host
from linspec.errors import (
    ConvergenceWarning,
    InvalidOption,
    InvalidProblem,
    shown,
    warn,
)
from linspec.process.interrupts import NothingYet, Request, first_interrupt, repeated
from linspec.process.plurals import count_of
from linspec.solving.checks import check_choice, check_count, check_fraction
from linspec.solving.linear_solution import as_several
from linspec.solving.problem import Problem
from linspec.solving.select import chosen_solver, has_trait
from linspec.solving.solution import weights_by_matrix
from linspec.solving.solve import solve
from linspec.solving.solver import Solver
from linspec.solving.stating import with_values
from linspec.solving.tables import Summary, table_of_columns, table_of_components
from linspec.studies.held_out.scores import auxiliary
from linspec.studies.inference.exchange import group_numbers
from linspec.studies.inference.permutation import check_has_values, values_of
from linspec.studies.inference.rows import (
    WEIGHTS,
    check_rows_are_known,
    drawn_counts,
    frequencies,
    loaded,
)
from linspec.workers import brought_here

METHODS = ("corrected", "percentile")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Bootstrapped(ABC):
    """What all bootstraps say; `values`, of a derived class, holds lower ends, then upper ends.

    Attributes
    ----------
    solution : Solution
        The solution for all rows.
    bias : numpy.ndarray of shape (k,)
        The mean of the value over the draws minus the value of all rows. It estimates the bias of the values of
        samples.
    errors : numpy.ndarray of shape (k,)
        The standard error of each value: the standard deviation of the i-th largest value over the draws.
    drawn : numpy.ndarray of shape (draws, k)
        The values of each draw, decreasing; 0 for components that a draw lacks.
    level : float
    method : {"corrected", "percentile"}
    draws : int
        The number of draws; fewer than requested after Ctrl-C.
    unconverged : int
        The number of draws whose solutions have not converged; they are used as well.
    interrupted : bool
        Whether Ctrl-C ended the bootstrap early.
    """

    solution: Any
    bias: HostArray
    errors: HostArray
    drawn: HostArray
    level: float
    method: str
    draws: int
    unconverged: int = 0
    interrupted: bool = False

    @abstractmethod
    def table(self, *, library: str | None = None) -> Any:
        """A table with a row for each value."""

    def remarks(self) -> list[tuple[str, str]]:
        """What is printed above the table."""
        return []

    def __repr__(self) -> str:
        title = (
            f"<{type(self).__name__} of {count_of(self.draws, 'draw')}{', interrupted' * self.interrupted}, "
            f"{self.method}, {100 * self.level:g} %>"
        )
        return repr(Summary(self.table(library=""), title, self.remarks()))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ComponentBootstrap(Bootstrapped):
    """Intervals of the values and weights of an answer; the first axis holds lower ends, then upper ends.

    Attributes
    ----------
    solution, bias, errors, drawn, level, method, draws, unconverged, interrupted
        As in `Bootstrapped`.
    values : numpy.ndarray of shape (2, k)
        For each component, the interval of its value: the number that solutions declare for each component by
        ``linspec.field(value=...)``, such as a singular value. The i-th component has the i-th largest value.
    weights : dict from str to numpy.ndarray of shape (2, p, k)
        By matrix, intervals of the weights of its columns.
    weight_errors : dict from str to numpy.ndarray of shape (p, k)
        By matrix, the standard errors of the weights.
    gaps : numpy.ndarray of shape (k - 1,)
        Estimated differences between neighbouring values of the source; 0 if noise explains the whole difference.
    ties : numpy.ndarray of shape (k - 1,)
        For each two neighbours, the p-value of the hypothesis that their values are equal in the source.
    agreement : numpy.ndarray of shape (k,)
        For each component, the mean over the draws of the absolute cosine between two vectors of scores of all rows:
        those of the i-th component of `solution`, and those of the i-th component of the draw. Components of a draw
        are ordered by their values, as for the intervals of weights. If the mean is far below 1, the component is not
        stable, and its intervals are wide.
    """

    values: HostArray
    weights: Mapping[str, HostArray]
    weight_errors: Mapping[str, HostArray]
    gaps: HostArray
    ties: HostArray
    agreement: HostArray

    def groups(self, alpha: float = 0.05) -> tuple[tuple[int, ...], ...]:
        """Group the components, counted from 0, into sets of neighbours whose values may be equal.

        The rows determine the span of such a set, but not the individual components in it.

        Parameters
        ----------
        alpha : float, default 0.05
            Two neighbours are separated if their p-value in `ties` is at most this.

        Raises
        ------
        InvalidOption
            If `alpha` is not between 0 and 1.
        """
        check_fraction("alpha", alpha)
        runs = np.split(np.arange(self.drawn.shape[1]), np.flatnonzero(self.ties <= alpha) + 1)
        return tuple(tuple(run.tolist()) for run in runs if len(run))

    def table(self, *, library: str | None = None) -> Any:
        """Make a table with a row for each component: value, lower and upper end, bias, standard error, agreement.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `Solution.weights_table`.
        """
        low, high = self.values
        columns = {self.solution.layout.value_label: values_of(self.solution), "lower": low, "upper": high}
        columns |= {"bias": self.bias, "standard error": self.errors, "agreement": self.agreement}
        return table_of_components(self.solution, columns, library)

    def weights_table(self, matrix: str = "", *, library: str | None = None) -> Any:
        """Make a table with a row for each column of a matrix: weights, their intervals and standard errors.

        Parameters
        ----------
        matrix, library
            As for `Solution.weights_table`.

        Raises
        ------
        InvalidOption
            There is no such matrix or library.
        """
        estimates = weights_on_host(self.solution)
        return self._table_of_columns(matrix, library, estimates, self.weights, self.weight_errors)

    def _table_of_columns(
        self,
        matrix: str,
        library: str | None,
        estimates: Mapping[str, HostArray],
        ends: Mapping[str, HostArray],
        errors: Mapping[str, HostArray] | None = None,
    ) -> Any:
        """Make a table with a row for each column of a matrix: for each vector the number, its interval and error."""
        matrix = next(iter(ends)) if not matrix and len(ends) == 1 else matrix
        if matrix not in ends:
            raise InvalidOption(f"matrix must be one of {', '.join(map(repr, ends))}; got {shown(matrix)}.")
        low, high = ends[matrix]
        parts = {"": estimates[matrix], " lower": low, " upper": high}
        parts |= {} if errors is None else {" standard error": errors[matrix]}
        vector = self.solution.layout.vector
        columns = {
            f"{vector}{i + 1}{part}": numbers[:, i]
            for i in range(low.shape[1])
            for part, numbers in parts.items()
        }
        return table_of_columns(self.solution, matrix, columns, library)

    def remarks(self) -> list[tuple[str, str]]:
        layout = self.solution.layout
        return [
            (
                f"{layout.vector}s {run[0] + 1} to {run[-1] + 1}",
                f"their {layout.value_label}s may be equal: only their span is determined",
            )
            for run in self.groups()
            if len(run) > 1
        ]


@dataclass
class Side:
    """Matrices whose scores are rotated together: what is collected of the draws, rotated to the scores of all rows.

    Attributes
    ----------
    lengths : numpy.ndarray of shape (k,)
        The lengths of the scores of all rows.
    cosines : list of numpy.ndarray of shape (k, k)
        The inner products of these scores with those of each draw.
    grams : list of numpy.ndarray of shape (k, k)
        The inner products of the scores of each draw with each other.
    blocks : dict of str to list of numpy.ndarray of shape (p, k)
        Other numbers of each draw that turn with its scores, such as the weights of each matrix.
    """

    lengths: HostArray
    cosines: list[HostArray] = field(default_factory=list)
    grams: list[HostArray] = field(default_factory=list)
    blocks: dict[str, list[HostArray]] = field(default_factory=dict)

    def add(self, T: HostArray, gram: HostArray, blocks: Mapping[str, HostArray]) -> HostArray:
        """Add a draw, with the inner products T of its scores with those of all rows; return its rotation R."""
        R = nearest_rotation(T)
        self.cosines.append(T @ R.T)
        self.grams.append(R @ gram @ R.T)
        for name, block in blocks.items():
            self.blocks.setdefault(name, []).append(block @ R.T)
        return R

    def compared(self, turns: HostArray) -> tuple[HostArray, HostArray]:
        """The cosines of scores of all rows and those of each draw times `turns`, and the lengths of the latter."""
        squares = np.sum(turns * (np.array(self.grams) @ turns), axis=1)
        lengths = np.sqrt(np.maximum(squares, 0.0))
        products = np.einsum("dij,dji->di", np.array(self.cosines), turns)
        return products * reciprocal(lengths * self.lengths), lengths


class Scale(NamedTuple):
    """A scale t of values, on which they vary about equally: t(s), s(t) and ds/dt at s."""

    of: Callable[[HostArray], HostArray]
    back: Callable[[HostArray], HostArray]
    slope: Callable[[HostArray], HostArray]


LARGEST = 1 - 1e-15
"""The largest correlation whose artanh is computed; larger ones are set to this."""

PLAIN = Scale(np.asarray, np.asarray, np.ones_like)
"""The values themselves."""

FISHER = Scale(lambda s: np.arctanh(np.clip(s, 0.0, LARGEST)), np.tanh, lambda s: 1 - s**2)
"""t = artanh s, for correlations."""


def corrected_ends(
    values: HostArray, drawn: HostArray, level: float, scale: Scale, gaps: HostArray | None = None
) -> HostArray:
    """The ends of corrected intervals of values by (1), with the gaps of the source between neighbours."""
    t, draws = scale.of(values), scale.of(drawn)
    b = draws.mean(axis=0) - t
    center = np.maximum(t - b, 0.0)
    beta = np.clip(b * scale.slope(scale.back(center)) * reciprocal(scale.back(center)), 0.0, 0.5)  # (1)
    squares = (draws.std(axis=0, ddof=1) / (1 - beta)) ** 2
    if gaps is not None and len(gaps):
        middle = (values[1:] + values[:-1]) / 2
        halves = (-np.diff(values) - gaps) / 2 * reciprocal(scale.slope(middle))
        squares[1:] += halves**2 / 2
        squares[:-1] += halves**2 / 2
    half = ndtri((1 + level) / 2) * np.sqrt(squares)
    return np.asarray(scale.back(np.maximum([t - b - half, t - b + half], 0.0)))


class Drawn(ABC):
    """The results of the draws so far; `warm` says whether the solution is a start for the draws."""

    warm = True

    def __init__(
        self,
        problem: Problem[Any],
        solution: Any,
        weights: HostArray,
        level: float,
        method: str,
        rotation: Any = None,
    ) -> None:
        self.problem, self.solution, self.level, self.method = problem, solution, level, method
        self.count = self.unconverged = 0
        self.weights, self.rotation = weights, rotation
        self.begun()

    @classmethod
    @abstractmethod
    def check(cls, problem: Problem[Any], draws: int) -> None:
        """Refuse a problem of which there is nothing to compare."""

    @abstractmethod
    def begun(self) -> None:
        """Prepare for the first draw."""

    @abstractmethod
    def kept(self, solution: Any, w: HostArray) -> None:
        """Keep what is compared of one more draw, whose rows have the weights `w`."""

    @abstractmethod
    def result(self, *, interrupted: bool) -> Any:
        """Compute the intervals."""

    def add(self, solution: Any, w: HostArray) -> None:
        """Add the solution of one more draw."""
        self.kept(solution, w)
        self.count += 1
        self.unconverged += not solution.converged

    def quantiles(self, drawn: HostArray) -> HostArray:
        """The plain percentiles of the draws."""
        return np.asarray(np.quantile(drawn, [(1 - self.level) / 2, (1 + self.level) / 2], axis=0))

    def normal(self, values: HostArray, drawn: HostArray) -> HostArray:
        """The values less and plus as many standard errors as the normal distribution has for the level."""
        half = ndtri((1 + self.level) / 2) * drawn.std(axis=0, ddof=1)
        return np.array([values - half, values + half])

    def of_all(self, *, interrupted: bool) -> dict[str, Any]:
        """What all results say."""
        return {
            "solution": self.solution if self.rotation is None else self.rotation.loaded,
            "level": self.level,
            "method": self.method,
            "draws": self.count,
            "unconverged": self.unconverged,
            "interrupted": interrupted,
        }


class Draws(Drawn):
    """The results of the draws so far, rotated to the components of all rows."""

    scale = PLAIN

    @classmethod
    def check(cls, problem: Problem[Any], draws: int) -> None:
        check_has_values(problem, "bootstrap")
        if "sample_weight" not in getattr(problem, "__dataclass_fields__", ()):
            raise InvalidProblem(
                f"bootstrap passes draws of rows as sample_weight; {type(problem).__name__} has none, because its rows "
                "are not adjusted. Use linspec.permutation_test or linspec.cross_validate."
            )
        if not problem.solution.layout.weights or not callable(getattr(problem.solution, "transform", None)):
            raise InvalidProblem(
                f"bootstrap compares weights by the scores that they give to rows; {problem.solution.__name__}, the "
                f"answer of {type(problem).__name__}, has none. Derive it from linspec.LinearSolution, and declare the "
                "weights: linspec.field(rows_of=..., leading=True)."
            )

    def begun(self) -> None:
        self.k = len(values_of(self.solution))
        k = getattr(self.problem, self.problem.stated.count or "", None) or self.k
        if self.k > k:
            raise InvalidProblem(
                f"solution must have no more than the {k} components that draws have; got {self.k}. Leave it out to "
                "have it computed."
            )
        self.warm = self.k > 0
        self.values: list[HostArray] = []
        self.components: list[int] = []  # the number of components of each draw, at most k
        self.crossings: list[HostArray] = []  # the matrices M
        self.sides = self.sides_of_all()

    def sides_of_all(self) -> list[Side]:
        """The sides, without a draw."""
        scores = self._scores(self.solution)
        weights = [self.problem.weights_of(name) for name in weights_by_matrix(self.solution)]
        ones = np.ones(len(scores) // len(weights))
        self.row_weights = np.concatenate([ones if w is None else w for w in weights])[:, None]
        self.scores = scores * self.row_weights  # ready for inner products
        return [Side(np.sqrt(np.sum(scores * self.scores, axis=0)))]

    def _scores(self, solution: Any) -> HostArray:
        """The scores of all rows of the matrices with weights, one matrix below the other."""
        rows = [self.problem.matrices[name] for name in weights_by_matrix(solution)]
        scores = as_several(solution.transform(*rows, **auxiliary(self.problem)))
        parts = [np.asarray(to_host(brought_here(part)), dtype=np.float64) for part in scores]
        return np.concatenate(parts)[:, : self.k]

    def rotated(self, solution: Any, w: HostArray) -> list[HostArray]:
        """Add a draw to each side, by the scores that its weights give to all rows; return their rotations."""
        V = self._scores(solution)
        blocks = {name: W[:, : self.k] for name, W in weights_on_host(solution).items()}
        return [self.sides[0].add(self.scores.T @ V, V.T @ (V * self.row_weights), blocks)]

    def kept(self, solution: Any, w: HostArray) -> None:
        values, rotations = values_of(solution)[: self.k], self.rotated(solution, w)
        self.crossings.append((rotations[0] * values) @ rotations[-1].T)
        self.components.append(len(values))
        self.values.append(np.pad(values, (0, self.k - len(values))))

    def result(self, *, interrupted: bool) -> ComponentBootstrap:
        drawn = np.array(self.values)
        values = values_of(self.solution)
        M = np.array(self.crossings)
        gaps, ties = gaps_of(values, M)
        corrected, counts = self.method == "corrected", np.array(self.components)
        if corrected:
            M = M - (counts == self.k)[:, None, None] * np.diag(excess_of(values, gaps))
        present = (np.arange(self.k) < counts[:, None])[:, None, :]  # a draw may lack components: zero
        turns = [turn * present for turn in self.vectors(M)]
        cosines = sum(side.compared(turn)[0] for side, turn in zip(self.sides, turns, strict=True))
        signs = np.where(cosines < 0, -1.0, 1.0)[:, None, :]
        cosines = np.abs(cosines) / len(turns)
        turns = [turn * signs for turn in turns]
        return self.result_of(
            turns,
            values=self.interval(values, drawn, gaps) if corrected else self.quantiles(drawn),
            bias=drawn.mean(axis=0) - values,
            errors=drawn.std(axis=0, ddof=1),
            drawn=drawn,
            gaps=gaps,
            ties=ties,
            agreement=np.minimum(cosines.mean(axis=0), 1.0),
            **self.of_all(interrupted=interrupted),
        )

    def vectors(self, M: HostArray) -> list[HostArray]:
        """The vectors of the matrices M for each side, in the order of decreasing values."""
        return [np.linalg.eigh(M)[1][:, :, ::-1]]

    def result_of(self, turns: list[HostArray], **fields: Any) -> ComponentBootstrap:
        """Make the result, with the intervals of what turns with the scores."""
        return ComponentBootstrap(**self.of_weights(turns), **fields)

    def of_weights(self, turns: list[HostArray]) -> dict[str, Any]:
        """The intervals and standard errors of the weights, or of rotated loadings."""
        turns = turns if self.rotation is None else [self.rotation.turns(self)]
        weights = {
            name: np.array(blocks) @ turn
            for side, turn in zip(self.sides, turns, strict=True)
            for name, blocks in side.blocks.items()
            if name in self.problem.matrices
        }
        return {
            "weights": {name: self.quantiles(block) for name, block in weights.items()},
            "weight_errors": {name: block.std(axis=0, ddof=1) for name, block in weights.items()},
        }

    def interval(self, values: HostArray, drawn: HostArray, gaps: HostArray) -> HostArray:
        """Corrected intervals, within the range that the values may have."""
        most = self.solution.layout.at_most
        ends = corrected_ends(values, drawn, self.level, self.scale, gaps)
        return np.asarray(np.clip(ends, 0.0, math.inf if most is None else most))


def drawn_solves(  # noqa: PLR0913  # the arguments of linspec.bootstrap
    problem: Problem[Any],
    solver: str | Solver,
    *,
    solution: Any,
    draws: int,
    level: float,
    method: str,
    groups: Any,
    weights: str,
    rng: Any,
    options: dict[str, Any],
    kind: Callable[..., Drawn],
) -> Any:
    """Compute intervals by solving a problem on drawn rows; `linspec.bootstrap` explains it."""
    check_rows_are_known(problem, "bootstrap draws rows")
    check_count("draws", draws, 2)
    check_fraction("level", level)
    check_choice("method", method, METHODS)
    check_choice("weights", weights, WEIGHTS)
    problem.check_labels({"groups": groups})
    problem = loaded(problem)
    n = next(iter(problem.matrices.values())).shape[0]
    stated = np.ones(n) if problem.sample_weight is None else problem.sample_weight
    counted, each, numbers = stated, np.ones(n), group_numbers(groups, n, weights=stated)
    if weights == "survey":  # a row is drawn with its weight
        counted, each = (stated > 0).astype(np.float64), stated
    else:
        frequencies(problem, "bootstrap draws rows")
    generator = random_generator(rng)
    solver, options = chosen_solver(problem, solver, options)
    if solution is None:
        solution = solve(problem, solver, rng=generator, **options)
    check_solution(solution, problem)
    matrices = list(problem.matrices)
    into, stop = kind(problem, solution, stated, level, method), Request()
    if has_trait(problem, solver, "warm-start") and into.warm:
        options = {"start": solution, **options}

    def draw(_: int) -> None:
        w = each * drawn_counts(generator, counted, numbers)
        while not all(np.any(with_values(problem, sample_weight=w).weights_of(name)) for name in matrices):
            w = each * drawn_counts(generator, counted, numbers)  # some matrix had none of these rows
        # groups of other sizes: values may grow with the number of rows
        w = np.asarray(w * (float(stated.sum()) / w.sum()))
        drawn = solve(with_values(problem, sample_weight=w), solver, rng=generator, **options)
        if stop.made:  # the result of an interrupted solve does not count
            raise NothingYet
        into.add(drawn, w)

    with first_interrupt(stop.make), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        repeated(draw, draws, stop)
    if into.count < 2:
        raise NothingYet
    result = into.result(interrupted=into.count < draws)
    if into.unconverged:
        warn(
            f"bootstrap: {into.unconverged} of {into.count} draws have not converged; they count as they are. Raise "
            "max_iterations, loosen tol, or choose a direct solver.",
            ConvergenceWarning,
        )
    return result


def weights_on_host(solution: Any) -> dict[str, HostArray]:
    """Return the weights by matrix, on the host in float64, with a row for each column of the matrix."""
    weights = {}
    for name, (W, axis) in weights_by_matrix(solution).items():
        host = np.asarray(to_host(W), dtype=np.float64)
        weights[name] = host.T if axis else host
    return weights


# ---- arguments ------------------------------------------------------------------------------------


def check_solution(solution: Any, problem: Problem[Any]) -> None:
    """Raise if a given solution is not one of this problem, by its class and the sizes of its weights."""
    if not isinstance(solution, problem.solution):
        raise InvalidProblem(
            f"solution must be a {problem.solution.__name__}; got {type(solution).__name__}. Leave it out to have it "
            "computed."
        )
    sizes = {name: len(W) for name, W in weights_on_host(solution).items()}
    columns = {name: problem.matrices[name].shape[1] for name in sizes if name in problem.matrices}
    if sizes != columns:
        raise InvalidProblem(f"solution must be of the columns of the problem, {columns}; got {sizes}.")
    ridge: Any = getattr(problem, problem.stated.ridge or "", None)
    means = [getattr(solution, name) is not None for name in problem.solution.layout.means.values()]
    if not np.array_equal(solution.ridge, ridge) or (means and means[0] != bool(problem.center)):
        raise InvalidProblem(
            f"solution must have the ridge of the problem, {ridge}, and center={problem.center}; got the ridge "
            f"{solution.ridge}{' and no means' * (not any(means))}. Leave it out to have it computed."
        )


def nearest_rotation(T: HostArray) -> HostArray:
    """The orthogonal polar factor of T, which solves the orthogonal Procrustes problem."""
    U, _, Vt = np.linalg.svd(T, full_matrices=False)
    return np.asarray(U @ Vt)


def gaps_of(values: HostArray, crossings: HostArray) -> tuple[HostArray, HostArray]:
    """Estimate the gaps between neighbouring values of the source, and the p-values of ties.

    Parameters
    ----------
    values : numpy.ndarray of shape (k,)
        The values of all rows, decreasing.
    crossings : numpy.ndarray of shape (draws, k, k)
        The matrices M of the draws.

    Returns
    -------
    numpy.ndarray of shape (k - 1,), numpy.ndarray of shape (k - 1,)
    """
    i = np.arange(len(values) - 1)
    split = crossings[:, i, i] - crossings[:, i + 1, i + 1]
    turned = crossings[:, i, i + 1] + crossings[:, i + 1, i]
    v = np.var(split, axis=0) + np.var(turned, axis=0)
    squares = np.diff(values) ** 2
    ties = np.exp(-np.divide(squares, v, out=np.where(squares > 0, np.inf, 0.0), where=v > 0))
    return np.sqrt(np.maximum(squares - v, 0.0)), ties


def excess_of(values: HostArray, gaps: HostArray) -> HostArray:
    """Return the differences values − ρ̃, which are subtracted from the diagonals of the matrices M of the draws.

    ρ̃ are decreasing numbers with the given gaps between neighbours. Their mean is the mean of the values.
    """
    gains = np.append(np.cumsum((-np.diff(values) - gaps)[::-1])[::-1], 0.0)
    return np.asarray(gains - gains.mean())
