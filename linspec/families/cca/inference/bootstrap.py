"""Bootstrap intervals of canonical correlations, loadings and weights.

Problem: how much would correlations, loadings and weights change with other rows from the same source?
Method: n of the n rows are drawn with replacement, and each draw is solved. A draw is a vector of counts,
which is passed to the problem as `sample_weight`, so the data are not copied. Solvers with a warm start begin at the
solution for all rows. Each draw is rotated to the pairs of all rows by an orthogonal Procrustes rotation of each view.
In these coordinates its cross-covariance is a k x k matrix M, which varies about diag(ρ). The pairs of the draw are the
singular vectors of M. Their signs are matched to the pairs of all rows, and they are ordered by their correlations.
Source: Efron & Tibshirani 1993, An Introduction to the Bootstrap, chapter 13 (percentiles) and section 10.2 (bias);
Field & Welsh 2007, J. R. Stat. Soc. B 69:369 (groups); Milan & Whittaker 1995, J. R. Stat. Soc. C 44:31
(signs, order and rotation of bootstrapped singular vectors); Beran & Srivastava 1985, Ann. Statist. 13:95,
doi:10.1214/aos/1176346579 (the bootstrap fails at ties); Hall, Lee, Park & Paul 2009, Bernoulli 15:380,
doi:10.3150/08-BEJ154 (a bootstrap whose tied eigenvalues are made equal first).
Where we differ, correlations: sample correlations are too large, those of a draw are too large once more, and the
interval of percentiles contains the bias twice. So by default the interval of a correlation is t − b ± z·e on the scale
t = artanh ρ, with the bias b and the root mean square e of the differences between the draws and t. The mean square is
the variance plus b²: the bias is an estimate too, and a corrected correlation varies more than the plain one.
Where we differ, loadings and weights: two correlations of a sample are further apart than those of the source, because
noise separates them. Draws from the sample have its gap, so they rotate less within the plane of both pairs than the
sample has rotated, and their percentiles are too narrow. Matching the pairs of a draw by similarity, or rotating them
onto the pairs of all rows, makes them narrower still. So we estimate the gap without this bias. The singular values of
a 2 x 2 matrix with a positive determinant satisfy (s₁ − s₂)² = (M₁₁ − M₂₂)² + (M₁₂ + M₂₁)². Hence the expected square
of the gap of a sample is the squared gap of the source plus v, the sum of the variances of M₁₁ − M₂₂ and M₁₂ + M₂₁,
which is estimated from the draws. The gap g of neighbours is replaced by √max(g² − v, 0): diag(ρ − ρ̃) is subtracted
from M, with the correlations ρ̃ that have these gaps, and the pairs of the draw are the singular vectors of the
difference. Then percentiles are taken.
Hall et al. decide by a test which eigenvalues are tied; we need no level, and reduce every gap by the share of noise.
If two correlations are equal, g² is about exponential with mean v, since both terms have mean 0 and equal variances:
exp(−g²/v) is the p-value of a tie. Basic and normal intervals and BCa do not repair the plain draws (measured).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtri

from linspec.arrays import HostArray, random_generator, reciprocal, to_host
from linspec.families.cca.problem import CCA
from linspec.families.cca.solution import CCASolution
from linspec.moments.loadings import Structure, structure
from linspec.process.plurals import count_of
from linspec.solving.checks import check_fraction
from linspec.solving.select import check_fits, chosen_solver, has_trait
from linspec.solving.solve import solve_on_host
from linspec.solving.solver import Solver
from linspec.studies.inference.bootstrap import check_draws, solve_draws, weights_on_host
from linspec.studies.inference.gaps import excess_of, gaps_of, groups_of, nearest_rotation
from linspec.studies.inference.intervals import (
    OfColumns,
    table_of_column_intervals,
    table_of_value_intervals,
)
from linspec.studies.inference.rows import (
    drawn_counts,
    frequencies,
    group_numbers,
)

__all__ = ["Bootstrap", "bootstrapped_pairs"]

LARGEST = 1 - 1e-15
"""The largest correlation whose artanh is computed; larger ones are set to this."""


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Intervals of the pairs of a solution; the first axis of each array holds lower ends, then upper ends.

    Attributes
    ----------
    solution : CCASolution
        The solution for all rows.
    correlations : numpy.ndarray of shape (2, k)
        Intervals of the i-th largest correlation.
    bias : numpy.ndarray of shape (k,)
        The mean over the draws minus the correlation of all rows; it estimates the bias of sample correlations.
    x_loadings, y_loadings : numpy.ndarray of shape (2, p, k), (2, q, k)
        Intervals of the loadings.
    x_weights, y_weights : numpy.ndarray of shape (2, p, k), (2, q, k)
        Intervals of the weights.
    solution_loadings : dict from str to numpy.ndarray of shape (p, k) or (q, k)
        By view, "X" and "Y", the loadings of the solution in all rows.
    drawn : numpy.ndarray of shape (draws, k)
        The correlations of each draw, decreasing; 0 for pairs that a draw lacks.
    gaps : numpy.ndarray of shape (k - 1,)
        Estimated differences between neighbouring correlations in the source of the rows; entry i is for the pairs i
        and i + 1. They are smaller than the differences between the correlations of `solution`, because noise
        increases the differences in a sample. 0 if noise explains the whole difference.
    ties : numpy.ndarray of shape (k - 1,)
        For each two neighbours, the p-value of the hypothesis that their correlations are equal in the source.
    agreement : numpy.ndarray of shape (k,)
        For each pair, the mean over the draws of |cx + cy| / 2. cx is the cosine between the variate of X in `solution`
        and the variate of X in the draw, and cy is the cosine for Y. The pairs of the draw are rotated, ordered and
        signed as for the intervals of loadings and weights. If the mean is far below 1, the pair is not stable, and
        its intervals are wide. The length of a variate of the draw is that over the rows of the draw, because its
        length over all rows would take one more sweep for each draw. So cx and cy are cosines but for a relative error
        of about 1/√n in each draw, and a mean above 1 is returned as 1.
    level : float
    method : {"corrected", "percentile"}
    draws : int
        The number of draws; fewer than requested after Ctrl-C.
    unconverged : int
        The number of draws whose solutions have not converged; they are used as well.
    interrupted : bool
        Whether Ctrl-C ended the bootstrap early.
    """

    solution: CCASolution
    correlations: HostArray
    bias: HostArray
    x_loadings: HostArray
    y_loadings: HostArray
    x_weights: HostArray
    y_weights: HostArray
    solution_loadings: Mapping[str, HostArray]
    drawn: HostArray
    gaps: HostArray
    ties: HostArray
    agreement: HostArray
    level: float
    method: str
    draws: int
    unconverged: int = 0
    interrupted: bool = False

    def groups(self, alpha: float = 0.05) -> tuple[tuple[int, ...], ...]:
        """Group the pairs, counted from 0, into sets of neighbours whose correlations may be equal.

        The rows determine the span of the pairs in such a set, but not the individual pairs. The pairs of the draws are
        rotated by any angle within this span. So the interval of a loading or weight covers nearly all values that
        such rotations give it.

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
        return groups_of(self.ties, len(self.solution.correlations), alpha)

    def table(self, *, library: str | None = None) -> Any:
        """Make a table with a row for each pair: correlation, lower and upper end, bias, standard error, agreement.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `Solution.weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            k rows, numbered from 1.

        Raises
        ------
        InvalidOption
            There is no such library.
        MissingPackage
            The library is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> rng = np.random.default_rng(0)
        >>> X, Y = rng.standard_normal((100, 3)), rng.standard_normal((100, 2))
        >>> Y[:, 0] += X[:, 0]
        >>> found = ls.bootstrap(ls.CCA(X, Y, k=1), draws=20, rng=0)
        >>> list(found.table()[0])[:4]
        ['component', 'canonical correlation', 'lower', 'upper']
        """
        return table_of_value_intervals(
            self.solution,
            self.solution.correlations,
            self.correlations,
            bias=self.bias,
            errors=self.drawn.std(axis=0, ddof=1),
            agreement=self.agreement,
            library=library,
        )

    def loadings_table(self, matrix: str = "", *, library: str | None = None) -> Any:
        """Make a table with a row for each column of a view: its loadings and their intervals.

        Parameters
        ----------
        matrix : {"X", "Y"}
            The view.
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `Solution.weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            p or q rows with the names of the columns. For each pair there are three columns: "pair1", "pair1 lower" and
            "pair1 upper".

        Raises
        ------
        InvalidOption
            There is no such view or library.
        MissingPackage
            The library is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> rng = np.random.default_rng(0)
        >>> X, Y = ls.labelled(rng.standard_normal((100, 2)), columns=["age", "dose"]), rng.standard_normal((100, 2))
        >>> found = ls.bootstrap(ls.CCA(X, Y, k=1), draws=20, rng=0)
        >>> [row["column"] for row in found.loadings_table("X")]
        ['age', 'dose']
        """
        ends = {"X": self.x_loadings, "Y": self.y_loadings}
        known = {view: OfColumns(self.solution_loadings[view], ends[view]) for view in ends}
        return table_of_column_intervals(self.solution, matrix, known, library)

    def weights_table(self, matrix: str = "", *, library: str | None = None) -> Any:
        """Make a table with a row for each column of a view: its weights and their intervals.

        Parameters
        ----------
        matrix, library
            As for `loadings_table`, like the result and the errors.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> rng = np.random.default_rng(0)
        >>> X, Y = rng.standard_normal((100, 2)), rng.standard_normal((100, 2))
        >>> found = ls.bootstrap(ls.CCA(X, Y, k=1), draws=20, rng=0)
        >>> list(found.weights_table("Y")[0])
        ['column', 'pair1', 'pair1 lower', 'pair1 upper']
        """
        estimates = weights_on_host(self.solution)
        ends = {"X": self.x_weights, "Y": self.y_weights}
        known = {view: OfColumns(estimates[view], ends[view]) for view in ends}
        return table_of_column_intervals(self.solution, matrix, known, library)

    def __repr__(self) -> str:
        lines = [
            f"<Bootstrap of {count_of(self.draws, 'draw')}{', interrupted' * self.interrupted}, {self.method}"
        ]
        for i, rho in enumerate(self.solution.correlations):
            low, high = self.correlations[:, i]
            lines.append(
                f"  {rho:.4f}, {100 * self.level:g} % from {low:.4f} to {high:.4f}, bias {self.bias[i]:+.4f}, "
                f"agreement {self.agreement[i]:.2f}"
            )
        for run in self.groups():
            if len(run) > 1:
                p = " and ".join(f"{self.ties[i]:.2f}" for i in run[:-1])
                lines.append(
                    f"  pairs {run[0] + 1} to {run[-1] + 1}: their correlations may be equal (p {p}); these rows "
                    "determine the span of the pairs, not each pair"
                )
        k = len(self.solution.correlations)
        if 0 < k < min(self.solution.x_weights.shape[0], self.solution.y_weights.shape[0]):
            lines.append(
                f"  pair {k} is the last one asked for: its gap to the next is unknown, and if it is small, intervals "
                "of its loadings and weights are too narrow"
            )
        return "\n".join(lines) + ">"


def bootstrapped_pairs(  # noqa: PLR0913  # the arguments of linspec.bootstrap
    problem: CCA,
    solver: str | Solver,
    *,
    solution: CCASolution | None,
    draws: int,
    level: float,
    method: str,
    groups: Any,
    rng: Any,
    options: dict[str, Any],
) -> Bootstrap:
    """Compute intervals of correlations, loadings and weights; `linspec.bootstrap` explains it."""
    check_draws(problem, draws, level, method)
    counted = frequencies(problem, "bootstrap draws rows")
    problem.check_labels({"groups": groups})
    numbers = group_numbers(groups, problem.X.shape[0])
    generator = random_generator(rng)
    solver, options = chosen_solver(problem, solver, options)
    if solution is None:
        solution = solve_on_host(problem, solver, rng=generator, **options)
    _check_memory(problem, solution, draws)
    if has_trait(problem, solver, "warm-start") and len(solution.correlations):
        options = {"start": solution, **options}
    whole = structure(problem.X, problem.Y, _weights(solution), **_rows(problem, counted))
    total = problem.X.shape[0] if counted is None else float(counted.sum())
    result: Bootstrap = solve_draws(
        problem,
        solver,
        options,
        generator=generator,
        counts=partial(drawn_counts, generator, problem.X.shape[0], counted, numbers),
        draws=draws,
        into=_Draws(problem, solution, whole, total, level, method),
        remedy='choose "gram" or "direct"',
    )
    return result


class _Draws:
    """The results of the draws so far, rotated to the pairs of all rows."""

    def __init__(
        self, problem: CCA, solution: CCASolution, whole: Structure, rows: float, level: float, method: str
    ) -> None:
        self.problem, self.solution, self.whole, self.rows = problem, solution, whole, rows
        self.level, self.method, self.count = level, method, 0
        self.k = len(solution.correlations)
        self.correlations: list[HostArray] = []
        self.unconverged = 0
        self.pairs: list[int] = []  # the number of pairs of each draw, at most k
        self.crossings: list[HostArray] = []  # the matrices M
        self.views = _View(), _View()

    def add(self, found: CCASolution, w: HostArray) -> None:
        """Add the solution of one more draw, whose rows have the weights `w`."""
        structured = structure(self.problem.X, self.problem.Y, _weights(found), **_rows(self.problem, w))
        to_all = np.sqrt(w.sum() / self.rows)  # weights of unit variates shrink with the number of rows
        rotations = []
        for i, (W, view) in enumerate(zip(_weights(found), self.views, strict=True)):
            W = to_host(W).astype(np.float64)
            R = nearest_rotation(self.whole.products(i, W))
            view.weights.append(to_all * (W @ R.T))
            view.products.append((structured.loadings[i] * structured.lengths[i]) @ R.T)
            view.grams.append(R @ structured.products(i, W) @ R.T)
            view.cosines.append(self.whole.cosines(i, W) @ R.T)
            rotations.append(R)
        rho = found.correlations
        self.count += 1
        self.unconverged += not found.converged
        self.crossings.append((rotations[0] * rho) @ rotations[1].T)
        self.pairs.append(min(len(rho), self.k))
        self.correlations.append(np.pad(rho[: self.k], (0, max(self.k - len(rho), 0))))

    def result(self, *, interrupted: bool) -> Bootstrap:
        """Compute the intervals."""
        level, method = self.level, self.method
        drawn, rho, M = np.array(self.correlations), self.solution.correlations, np.array(self.crossings)
        gaps, ties = gaps_of(rho, M)
        corrected = method == "corrected"
        tails = [(1 - level) / 2, (1 + level) / 2]
        pairs = np.array(self.pairs)
        if corrected:
            M = M - (pairs == self.k)[:, None, None] * np.diag(excess_of(rho, gaps))
        U, _, Vt = np.linalg.svd(M)
        present = (np.arange(self.k) < pairs[:, None])[:, None, :]  # a draw may lack pairs: they stay zero
        turns = U * present, Vt.transpose(0, 2, 1) * present
        x, y = (view.cosines_after(turn) for view, turn in zip(self.views, turns, strict=True))
        signs = np.where(x + y < 0, -1.0, 1.0)[:, None, :]
        fields = {}
        for side, view, turn in zip("xy", self.views, turns, strict=True):
            view.turn(turn * signs)
            fields[f"{side}_weights"] = np.quantile(np.array(view.weights), tails, axis=0)
            fields[f"{side}_loadings"] = np.quantile(np.array(view.products), tails, axis=0)
        return Bootstrap(
            solution=self.solution,
            correlations=_corrected(drawn, rho, level) if corrected else np.quantile(drawn, tails, axis=0),
            bias=drawn.mean(axis=0) - rho,
            solution_loadings=dict(zip("XY", self.whole.loadings, strict=True)),
            drawn=drawn,
            gaps=gaps,
            ties=ties,
            agreement=np.minimum(np.mean(np.abs(x + y) / 2, axis=0), 1.0),
            level=level,
            method=method,
            draws=self.count,
            unconverged=self.unconverged,
            interrupted=interrupted,
            **fields,
        )


class _View:
    """Results of the draws for one view, one entry for each draw, rotated to the pairs of all rows."""

    def __init__(self) -> None:
        self.weights: list[HostArray] = []
        self.products: list[HostArray] = []  # of unit columns with variates
        self.grams: list[HostArray] = []  # of the variates
        self.cosines: list[HostArray] = []  # variates of all rows, at unit length, with those of the draw

    def lengths(self, turns: HostArray) -> HostArray:
        """Lengths of the variates after multiplication by `turns`, over the rows of each draw; shape (draws, k).

        `turns`, of shape (draws, k, k), holds for each draw the matrix that maps its Procrustes-rotated variates to the
        variates of its pairs. The columns of pairs that a draw lacks are zero.
        """
        squares = np.sum(turns * (np.array(self.grams) @ turns), axis=1)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))

    def cosines_after(self, turns: HostArray) -> HostArray:
        """Cosines between variates of all rows and variates of the draws after multiplication by `turns`.

        Entry (d, i) is for the i-th variate of the solution for all rows and the i-th variate of draw d, after the
        variates of the draw were multiplied by its matrix in `turns` (see `lengths`). The inner products are over all
        rows, the lengths of a draw's variates over the rows of the draw.
        """
        found = np.einsum("dij,dji->di", np.array(self.cosines), turns)
        return np.asarray(found * reciprocal(self.lengths(turns)))

    def turn(self, turns: HostArray) -> None:
        """Multiply `weights` and `products` of each draw by its matrix in `turns`, in place.

        `products` holds the inner products of columns of length 1 with the variates of the draw. They are divided by
        the lengths of the variates and so become loadings.
        """
        for i, (turn, length) in enumerate(zip(turns, self.lengths(turns), strict=True)):
            self.weights[i] = self.weights[i] @ turn
            self.products[i] = np.clip(self.products[i] @ turn * reciprocal(length), -1.0, 1.0)


def _corrected(drawn: HostArray, rho: HostArray, level: float) -> HostArray:
    """Corrected intervals: t − b ± z·e on the scale t = artanh ρ, transformed back."""
    t, draws = (np.arctanh(np.clip(a, 0.0, LARGEST)) for a in (rho, drawn))
    center = 2 * t - draws.mean(axis=0)
    half = ndtri((1 + level) / 2) * np.sqrt(np.mean((draws - t) ** 2, axis=0))
    return np.asarray(np.tanh(np.maximum([center - half, center + half], 0.0)))


# ---- the draws -------------------------------------------------------------------------------------


def _rows(problem: CCA, w: HostArray | None) -> dict[str, Any]:
    return {"center": bool(problem.center), "confounds": problem.confounds, "sample_weight": w}


def _weights(solution: CCASolution) -> tuple[Any, Any]:
    return solution.x_weights, solution.y_weights


def _check_memory(problem: CCA, solution: CCASolution, draws: int) -> None:
    """Raise if loadings and weights of all draws, and the copy that quantiles need, do not fit into memory."""
    columns = problem.X.shape[1] + problem.Y.shape[1]
    needed = 8.0 * 2 * 2 * draws * columns * len(solution.correlations)
    check_fits(needed, f"loadings and weights of {draws} draws", "Ask for fewer draws or pairs.")
