"""Bootstrap intervals of canonical correlations, loadings and weights.

Problem: how far would correlations, loadings and weights be from these with other rows from the same source?
Method: rows are drawn with replacement, so often as there are rows, and each draw is solved. A draw is a vector of
counts, which the problem takes as `sample_weight`: the data are not copied. Solvers that can begin at the answer for
all rows. Pairs of a draw may come in another order and with other signs. They are matched to the pairs of all rows by
the cosines between their variates on all rows, averaged over both views: the assignment with the largest sum of
absolute values (Kuhn 1955), and then the signs. Correlations are not matched: the i-th of a draw is its i-th largest.
Source: Efron & Tibshirani 1993, An Introduction to the Bootstrap, chapter 13 (percentiles) and section 10.2 (bias);
Field & Welsh 2007, J. R. Stat. Soc. B 69:369 (groups).
Where we differ: sample correlations are too large, those of a draw are so once more, and the interval of percentiles
counts the bias twice: with 20 rows for each column it covers correlations in 24 % to 97 % of data sets, not 95 %. So by
default the interval of a correlation is t − b ± z·e on the scale t = artanh ρ, with the bias b and the root mean
square e of the differences between the draws and t. The mean square is the variance plus b²: the bias is an estimate
too, and a corrected correlation varies more than the plain one. Intervals of loadings and weights are percentiles;
reflecting or shifting them covers less (measured).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
from scipy.special import ndtri

from linspec import cost, machine
from linspec.arrays import HostArray, is_array, random_generator, to_host
from linspec.errors import ConvergenceWarning, InvalidOption, InvalidProblem, NoSuitableSolver, warn
from linspec.families.cca.problem import CCA
from linspec.families.cca.significance import frequencies
from linspec.families.cca.solution import CCASolution
from linspec.families.cca.variates import Structure, structure
from linspec.families.ridge_path import begins_at_an_answer, chosen_solver
from linspec.interrupts import HowItEnded, Request, first_interrupt, had_nothing, nothing_yet, remember
from linspec.solver import ALWAYS_AVAILABLE, Solver, solve

__all__ = ["Bootstrap", "bootstrap"]

METHODS = ("corrected", "percentile")

LARGEST = 1 - 1e-15
"""Of a correlation whose artanh is taken."""


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Intervals of the pairs of a solution; each interval has its lower ends first, then its upper ends.

    Attributes
    ----------
    solution : CCASolution
        Of all rows.
    correlations : numpy.ndarray of shape (2, k)
        Intervals of the i-th largest correlation.
    bias : numpy.ndarray of shape (k,)
        The mean over the draws less the correlation of all rows: about what sample correlations are too large by.
    x_loadings, y_loadings : numpy.ndarray of shape (2, p, k), (2, q, k)
        Intervals of the loadings.
    x_weights, y_weights : numpy.ndarray of shape (2, p, k), (2, q, k)
        Intervals of the weights.
    drawn : numpy.ndarray of shape (draws, k)
        The correlations of each draw, decreasing. 0 for pairs that a draw does not have.
    agreement : numpy.ndarray of shape (k,)
        The mean absolute cosine between a pair and its match in the draws. If it is far below 1, the pair is no
        stable direction, and intervals of its loadings and weights say nothing.
    moved : numpy.ndarray of shape (k,)
        The share of draws in which the match of a pair has another place.
    level : float
    method : {"corrected", "percentile"}
    draws : int
        Draws that were solved. If Ctrl-C ended it, there are fewer than requested.
    unconverged : int
        Draws whose solutions have not converged; they count all the same.
    interrupted : bool
        Whether Ctrl-C ended it.
    """

    solution: CCASolution
    correlations: HostArray
    bias: HostArray
    x_loadings: HostArray
    y_loadings: HostArray
    x_weights: HostArray
    y_weights: HostArray
    drawn: HostArray
    agreement: HostArray
    moved: HostArray
    level: float
    method: str
    draws: int
    unconverged: int = 0
    interrupted: bool = HowItEnded(False)  # type: ignore[assignment]  # a descriptor

    def __repr__(self) -> str:
        lines = [f"<Bootstrap of {self.draws} draws{', interrupted' * self.interrupted}, {self.method}"]
        for i, rho in enumerate(self.solution.correlations):
            low, high = self.correlations[:, i]
            lines.append(
                f"  {rho:.4f}, {100 * self.level:g} % from {low:.4f} to {high:.4f}, bias {self.bias[i]:+.4f}, "
                f"agreement {self.agreement[i]:.2f}"
            )
        return "\n".join(lines) + ">"


def bootstrap(
    problem: CCA,
    solver: str | Solver = "auto",
    *,
    solution: CCASolution | None = None,
    draws: int = 500,
    level: float = 0.95,
    method: str = "corrected",
    groups: Any = None,
    rng: Any = None,
    **options: Any,
) -> Bootstrap:
    """Intervals of correlations, loadings and weights, from rows that are drawn with replacement.

    Parameters
    ----------
    problem : CCA
        All of it is used. Weights must be whole numbers, and count rows. The data are read many times.
    solver : str or Solver, default "auto"
        As for `linspec.solve`. "auto" chooses once. Solvers with the trait "warm-start" begin at the solution.
    solution : CCASolution, optional
        Of this problem. It is computed if it is left out.
    draws : int, default 500
        At least 2. The ends of an interval of 95 % need some hundreds.
    level : float, default 0.95
        The coverage of the intervals.
    method : {"corrected", "percentile"}, default "corrected"
        For the correlations. "corrected" takes the bias of sample correlations (`Bootstrap.bias`) out, which
        "percentile" counts twice. Intervals of loadings and weights are percentiles.
    groups : array of shape (n,), optional
        A label for each row. Whole groups are drawn: families, subjects, sites. Rows of one group need not be
        independent of each other.
    rng : None, int or numpy.random.Generator
        For the draws and the solver.
    **options
        The solver's options and the other arguments of `linspec.solve`. A larger ``tol`` saves time.

    Returns
    -------
    Bootstrap

    Raises
    ------
    InvalidProblem
        If the problem is no CCA or has Moments for its data, if its weights are fractions, if the rows can be read
        once only, or if groups do not fit.
    InvalidOption
        For `draws`, `level` and `method`.
    NoSuitableSolver
        If the loadings and weights of all draws do not fit into memory.

    Notes
    -----
    Each draw costs a solve and one sweep for the loadings. The intervals belong to the problem as it is, with its
    ridge. A correlation of the source that is 0, or equal to the next one, is at the edge of what a bootstrap can do:
    whether there is a pair at all is a question for `linspec.permutation_test`.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.standard_normal((300, 1))
    >>> X, Y = shared + rng.standard_normal((300, 4)), shared + rng.standard_normal((300, 3))
    >>> found = ls.bootstrap(ls.CCA(X, Y, k=1), draws=50, rng=0)
    >>> low, high = found.correlations[:, 0]
    >>> bool(low < (12 / 20) ** 0.5 < high), bool(found.bias[0] > 0)
    (True, True)
    """
    _check(problem, draws, level, method)
    counted = frequencies(problem, "bootstrap draws rows")
    numbers = _group_numbers(groups, problem.X.shape[0])
    generator = random_generator(rng)
    solver, options = chosen_solver(problem, solver, options)
    if solution is None:
        solution = solve(problem, solver, rng=generator, **options)
    _check_memory(problem, solution, draws)
    if begins_at_an_answer(problem, solver) and len(solution.correlations):
        options = {"start": solution, **options}
    whole = structure(problem.X, problem.Y, _weights(solution), **_rows(problem, counted))
    total = problem.X.shape[0] if counted is None else float(counted.sum())
    made, unconverged, stop = _Draws(solution, whole, total), 0, Request()
    with first_interrupt(stop.make), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(draws):
            w = _drawn_counts(generator, problem.X.shape[0], counted, numbers)
            try:
                found = solve(_with_counts(problem, w), solver, rng=generator, **options)
            except KeyboardInterrupt as interrupt:
                if not had_nothing(interrupt):
                    raise
                break
            if stop.made:  # the result of an interrupted solve does not count
                break
            unconverged += not found.converged
            made.add(found, structure(problem.X, problem.Y, _weights(found), **_rows(problem, w)), w.sum())
    if made.count < 2:
        raise nothing_yet()
    result = made.result(level, method, unconverged=unconverged, interrupted=made.count < draws)
    if unconverged:
        warn(
            f"bootstrap: {unconverged} of {made.count} draws have not converged; they count as they are. Raise "
            'max_iterations, loosen tol, or choose "gram" or "direct".',
            ConvergenceWarning,
        )
    if result.interrupted:
        remember(result)
    return result


class _Draws:
    """The draws so far, matched to the pairs of all rows."""

    def __init__(self, solution: CCASolution, whole: Structure, rows: float) -> None:
        self.solution, self.whole, self.rows = solution, whole, rows
        self.k = len(solution.correlations)
        self.correlations: list[HostArray] = []
        self.cosines: list[HostArray] = []
        self.places: list[HostArray] = []
        self.fields: dict[str, list[HostArray]] = {}

    @property
    def count(self) -> int:
        return len(self.correlations)

    def add(self, found: CCASolution, structured: Structure, rows: float) -> None:
        """One more draw of so many rows."""
        weights = [to_host(W).astype(np.float64) for W in _weights(found)]
        order, signs, cosines = self._matched(weights, structured)
        place = np.zeros((found.correlations.shape[0], self.k))
        place[order, np.arange(len(order))] = signs  # columns without a match stay zero
        rho = np.zeros(self.k)
        rho[: len(found.correlations)] = found.correlations[: self.k]
        self.correlations.append(rho)
        self.cosines.append(np.pad(cosines, (0, self.k - len(cosines))))
        self.places.append(
            np.pad(order != np.arange(len(order)), (0, self.k - len(order)), constant_values=True)
        )
        to_all = np.sqrt(rows / self.rows)  # weights of unit variates are shorter, the more rows there are
        for name, arrays, factor in (("weights", weights, to_all), ("loadings", structured.loadings, 1.0)):
            for side, A in zip("xy", arrays, strict=True):
                self.fields.setdefault(f"{side}_{name}", []).append(factor * (A @ place))

    def _matched(
        self, weights: list[HostArray], structured: Structure
    ) -> tuple[HostArray, HostArray, HostArray]:
        """For each pair of all rows the place of its match, the sign and the cosine."""
        M = np.zeros((self.k, weights[0].shape[1]))
        for i, W in enumerate(weights):
            length = structured.lengths[i]
            M += 0.5 * self.whole.cosines(i, W) / np.where(length > 0, length, np.inf)
        _, order = scipy.optimize.linear_sum_assignment(-np.abs(M))
        if len(order) < self.k:  # a draw with fewer pairs: the first keep their places
            order = np.arange(len(order))
        chosen = M[np.arange(len(order)), order]
        return order, np.where(chosen < 0, -1.0, 1.0), np.abs(chosen)

    def result(self, level: float, method: str, *, unconverged: int, interrupted: bool) -> Bootstrap:
        """The intervals."""
        drawn, rho = np.array(self.correlations), self.solution.correlations
        tails = [(1 - level) / 2, (1 + level) / 2]
        intervals = {name: np.quantile(np.array(A), tails, axis=0) for name, A in self.fields.items()}
        percentile = method == "percentile"
        of_rho = np.quantile(drawn, tails, axis=0) if percentile else _corrected(drawn, rho, level)
        return Bootstrap(
            solution=self.solution,
            correlations=of_rho,
            bias=drawn.mean(axis=0) - rho,
            drawn=drawn,
            agreement=np.minimum(np.mean(self.cosines, axis=0), 1.0),
            moved=np.mean(self.places, axis=0),
            level=level,
            method=method,
            draws=self.count,
            unconverged=unconverged,
            interrupted=interrupted,
            **intervals,
        )


def _corrected(drawn: HostArray, rho: HostArray, level: float) -> HostArray:
    """t − b ± z·e on the scale t = artanh ρ."""
    t, draws = (np.arctanh(np.clip(a, 0.0, LARGEST)) for a in (rho, drawn))
    center = 2 * t - draws.mean(axis=0)
    half = ndtri((1 + level) / 2) * np.sqrt(np.mean((draws - t) ** 2, axis=0))
    return np.asarray(np.tanh(np.maximum([center - half, center + half], 0.0)))


# ---- the draws -------------------------------------------------------------------------------------


def _drawn_counts(
    generator: np.random.Generator, n: int, counted: HostArray | None, numbers: HostArray | None
) -> HostArray:
    """How often each row is drawn."""
    if numbers is not None:
        count = int(numbers.max()) + 1
        w = generator.multinomial(count, np.full(count, 1 / count))[numbers].astype(np.float64)
        w = w if counted is None else w * counted
        return w if w.any() else _drawn_counts(generator, n, counted, numbers)
    total = n if counted is None else int(counted.sum())
    share = np.full(n, 1 / n) if counted is None else counted / total
    return generator.multinomial(total, share).astype(np.float64)


def _with_counts(problem: CCA, w: HostArray) -> CCA:
    twin = problem.with_matrices({})
    object.__setattr__(twin, "sample_weight", w)
    return twin


def _rows(problem: CCA, w: HostArray | None) -> dict[str, Any]:
    return {"center": bool(problem.center), "confounds": problem.confounds, "sample_weight": w}


def _weights(solution: CCASolution) -> tuple[Any, Any]:
    return solution.x_weights, solution.y_weights


def _group_numbers(groups: Any, n: float) -> HostArray | None:
    """A number for each row from 0 to the number of groups less one."""
    if groups is None:
        return None
    labels = to_host(groups) if is_array(groups) else np.asarray(groups)
    if labels.shape != (n,):
        raise InvalidProblem(
            f"groups must have shape ({n:g},), a label for each row; got {tuple(labels.shape)}."
        )
    names, numbers = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        raise InvalidProblem("groups must have at least two labels; got one, so there is nothing to draw.")
    return np.asarray(numbers)


def _check(problem: Any, draws: Any, level: Any, method: Any) -> None:
    if not isinstance(problem, CCA):
        raise InvalidProblem(
            f"bootstrap takes a linspec.CCA; got {type(problem).__name__}. Pass linspec.CCA(X, Y, k)."
        )
    if problem.shared is not None:
        raise InvalidProblem("bootstrap draws rows; got moments, which have none. Pass the data themselves.")
    if min(A.sweeps for A in problem.matrices.values()) == 1 or not np.isfinite(problem.X.shape[0]):
        raise InvalidProblem(
            "bootstrap reads the rows many times and must know how many there are; got rows that come slice by slice. "
            "Pass an array, a sparse matrix or a file."
        )
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 2:
        raise InvalidOption(f"draws must be an integer >= 2; got {draws!r}.")
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise InvalidOption(f"level must be between 0 and 1; got {level!r}.")
    if method not in METHODS:
        raise InvalidOption(f"method must be one of {', '.join(METHODS)}; got {method!r}.")


def _check_memory(problem: CCA, solution: CCASolution, draws: int) -> None:
    """Refuse draws whose loadings and weights would not fit; quantiles need all of them, and a copy."""
    columns = problem.X.shape[1] + problem.Y.shape[1]
    needed = 8.0 * 2 * 2 * draws * columns * len(solution.correlations)
    available = machine.available_memory() if needed > ALWAYS_AVAILABLE else needed
    if needed > available:
        raise NoSuitableSolver(
            f"loadings and weights of {draws} draws would take {cost.human_bytes(needed)} of memory; "
            f"{cost.human_bytes(available)} are available. Ask for fewer draws or pairs."
        )
