"""What a problem scores on rows that were not fitted, and the factorisations that its ridges share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linspec import cost
from linspec.algebra.small_matrices import EPS
from linspec.algebra.whitener import Whitener, squared_cut
from linspec.arrays import HOST, HostArray, to_host
from linspec.errors import MissingCapability
from linspec.operators import LinearOperator
from linspec.process.forks import cached_property
from linspec.studies.held_out.grams import Split
from linspec.sweeps.blocks import brought_here

LOST = 1e-3
"""A score of which rounding may be a larger share than this means nothing."""

GAP = 1e8
"""Eigenvalues below rounding are zero, if the largest is at most this many times the least of the others."""

SAFE = 1e-6
"""A ridge below this fraction of the largest eigenvalue is factorised by itself, with the columns scaled first."""


@dataclass(frozen=True, eq=False)
class Generalized:
    """What generalized cross-validation says.

    Attributes
    ----------
    scores : numpy.ndarray of shape (ridges,)
        Infinite where no degree of freedom is left.
    errors : numpy.ndarray of shape (ridges,) or None
        The standard errors of scores that are estimates; None for exact ones.
    passes : float
    one_pass : bool
        Whether one sweep gathered second moments.
    reason : str
        The figures on which the choice of the method rests.
    rounding : numpy.ndarray of shape (ridges,) or None
        As of `Rounded`.
    """

    scores: HostArray
    errors: HostArray | None
    passes: float
    one_pass: bool
    reason: str
    rounding: HostArray | None = None


class Rounded(NamedTuple):
    """Scores, and how much of each is rounding.

    Attributes
    ----------
    scores : numpy.ndarray of shape (ridges, ks)
    rounding : numpy.ndarray of shape (ridges, ks)
        An estimate of the error that terms which cancel, and the condition of Gram matrices, cause; relative to the
        score. Infinite where the moments do not determine it.
    moved : numpy.ndarray of shape (ridges, ks), optional
        How far the rounding of Gram matrices moves the answers for the training rows, as `rounding_of_solutions` takes
        it: solvers may use Gram matrices as well.
    """

    scores: HostArray
    rounding: HostArray
    moved: HostArray | None = None


class HeldOutScore(ABC):
    """A number that says how well an answer fits rows that were not fitted.

    A problem names its scores in `Problem.held_out_scores`. A score that is a function of second moments defines
    `of_moments`, and takes part in cross-validation in one pass. Every score defines `of_solution`.

    Attributes
    ----------
    label : str
        What tables call it.
    higher : bool
        Whether higher scores are better.
    together : bool
        Whether `of_solutions` reads the held-out rows once for all solutions.
    reads_again : bool
        Whether scores of moments that are rounding are replaced by those of solutions, where rows can be read again.

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
    together: ClassVar[bool] = False
    reads_again: ClassVar[bool] = False

    @abstractmethod
    def of_solution(self, problem: Any, solution: Any, ks: Sequence[int | None]) -> HostArray:
        """The scores of a solution, and of the leading part of it for each k.

        Parameters
        ----------
        problem : Problem
            On the held-out rows, with their weights and confounds.
        solution : Solution
            Of the training rows, with the largest k.
        ks : sequence of int or None

        Returns
        -------
        numpy.ndarray of shape (len(ks),)
        """

    def of_solutions(self, problem: Any, solutions: Sequence[Any], ks: Sequence[int | None]) -> HostArray:
        """The scores of the solutions for several ridges, shape (len(solutions), len(ks)), one after the other."""
        return np.asarray([self.of_solution(problem, solution, ks) for solution in solutions])

    def rounding_of_solutions(self, problem: Any, solutions: Sequence[Any], moved: HostArray) -> HostArray:
        """How much of the scores of solutions is rounding, relative to them. Scores with `reads_again` are asked.

        Parameters
        ----------
        problem : Problem
            On the held-out rows.
        solutions : sequence of Solution
        moved : numpy.ndarray of shape (len(solutions), ks)
            As of `Rounded`.

        Returns
        -------
        numpy.ndarray of shape (len(solutions), ks)
        """
        raise NotImplementedError

    def of_moments(
        self, problem: Any, split: Split, ridges: Sequence[Any], ks: Sequence[int | None]
    ) -> HostArray | Rounded:
        """The scores of all ridges and k of one split, from second moments alone.

        Parameters
        ----------
        problem : Problem
        split : Split
        ridges : sequence
            Each as the problem holds it.
        ks : sequence of int or None

        Returns
        -------
        numpy.ndarray of shape (len(ridges), len(ks)), or Rounded
        """
        raise NotImplementedError

    def generalized(
        self,
        problem: Any,
        ridges: Sequence[Any],
        form: str,
        solver: Any,
        rng: Any,
        options: dict[str, Any],
    ) -> Generalized:
        """The scores of generalized cross-validation, for all rows.

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

    def seconds_of_split(self, problem: Any, ridges: int) -> float:
        """The estimated seconds of `of_moments` for so many ridges, but for merging the moments.

        By default an eigendecomposition of the Gram matrix of each matrix in which the problem has a ridge or looks for
        vectors (`Problem.means`), and for each ridge two products with it of as many columns as the problem has.
        """
        widths = [float(problem.matrices[name].shape[1]) for name in problem.means]
        decomposed = sum(cost.EIGEN * p**3 for p in widths) / cost.FACTOR_RATE
        return decomposed + ridges * sum(4 * p**2 for p in widths) * int(problem.width) / cost.DENSE_RATE

    @property
    def by_moments(self) -> bool:
        """Whether the score is a function of second moments."""
        return type(self).of_moments is not HeldOutScore.of_moments


class Metric:
    """S + ridge·I for several ridges: one eigendecomposition S = UΛUᵀ, of which every ridge makes a factor.

    The eigendecomposition knows eigenvalues up to the rounding of the largest one. A ridge far below that one gets a
    factor of its own (`linspec.algebra.whitener.Whitener`), whose columns are scaled first and whose rank is decided.

    Parameters
    ----------
    S : numpy.ndarray of shape (p, p)
    operator : LinearOperator
        The matrix that it is of: its shape and dtype say what is rounding.
    spread : numpy.ndarray of shape (p, p), optional
        The same about the means, where S is about zero.
    """

    def __init__(self, S: HostArray, operator: LinearOperator, spread: HostArray | None = None) -> None:
        self.S, self.cut, self.spread = S, squared_cut(operator), spread
        self._whiteners: dict[float, Whitener] = {}

    @cached_property
    def _pairs(self) -> tuple[HostArray, HostArray]:
        values, vectors = np.linalg.eigh(self.S)
        return np.maximum(values, 0.0), vectors

    @cached_property
    def largest(self) -> float:
        """The largest eigenvalue, at least, within the order of the matrix."""
        return float(np.max(np.sum(np.abs(self.S), axis=0), initial=0.0))

    def shares(self, ridge: float) -> bool:
        """Whether the eigendecomposition serves for this ridge."""
        return ridge > SAFE * self.largest

    @property
    def vectors(self) -> HostArray:
        """U."""
        return self._pairs[1]

    @property
    def values(self) -> HostArray:
        """Λ, none below zero."""
        return self._pairs[0]

    def whitener(self, ridge: float) -> Whitener:
        """The factor of a ridge of its own."""
        if ridge not in self._whiteners:
            self._whiteners = {ridge: Whitener(self.S, ridge, self.cut, HOST)}
        return self._whiteners[ridge]

    def condition(self, ridge: float) -> float:
        """How much the inverse of S + ridge·I amplifies roundings of S.

        Infinite where directions of the columns are lost in S: eigenvalues that fall to the rounding of the largest one
        without a gap, or means that hide how the columns vary.
        """
        if self.shares(ridge):
            return (self.largest + ridge) / ridge
        factor = self.whitener(ridge)
        if factor.cut is not None:
            if factor.condition > GAP:
                return math.inf
            if self.spread is not None and factor.rank < Whitener(self.spread, ridge, self.cut, HOST).rank:
                return math.inf
        return factor.condition

    def inverse_root(self, ridge: float) -> HostArray:
        """B of shape (p, r) with B Bᵀ the (pseudo-)inverse of S + ridge·I, and Bᵀ(S + ridge·I)B = I."""
        if self.shares(ridge):
            return self.vectors / np.sqrt(self.values + ridge)
        factor = self.whitener(ridge)
        return np.asarray(factor.solve_adjoint(np.eye(factor.rank)))


def still(squares: HostArray, means: HostArray, count: float, rows: int) -> HostArray:
    """Which variates do not vary about their own means beyond rounding."""
    found: HostArray = squares - count * means**2 <= max(rows, 16) * EPS * squares
    return found


def weighted_rows(block: Any, problem: Any) -> tuple[HostArray, HostArray]:
    """Rows in float64 on the host and the weight of each, of a problem on these rows."""
    rows = np.asarray(to_host(brought_here(block)), dtype=np.float64)
    w = problem.sample_weight
    return rows, np.ones(len(rows)) if w is None else w
