"""Permutation tests and bootstrap intervals of any problem, each in the sharpest way that the problem has.

Problems are solved again on permuted data or drawn rows (`linspec.studies.inference`). Canonical correlations have the
stepwise test of `linspec.families.cca.significance`, and the bootstrap of this file.

Problem: how much would correlations, loadings and weights change with other rows from the same source?
Method: that of `linspec.studies.inference.bootstrap`, with a rotation for each view. In these coordinates the
cross-covariance of a draw is a k x k matrix M, which varies about diag(ρ), and the pairs of the draw are its singular
vectors. No score of a row is computed: for the weights Φ of all rows and W of a draw, with the Gram matrices S of all
rows and S* of the rows drawn,

    inner products ΦᵀSW,    squared lengths diag(WᵀS*W),    loadings (S*W)ⱼᵢ / √(S*ⱼⱼ (WᵀS*W)ᵢᵢ),    (1)

so one pass over each draw tells all.
Source: that of the general bootstrap; Beran & Srivastava 1985, Ann. Statist. 13:95, doi:10.1214/aos/1176346579 (the
bootstrap fails at ties); Fisher 1915, Biometrika 10:507 (the scale t = artanh ρ).
Where we differ: intervals of correlations are those of components on the scale t = artanh ρ. Basic and normal
intervals and BCa do not repair the plain draws (measured).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec.arrays import HostArray, reciprocal, with_device
from linspec.errors import InvalidProblem, UnknownOption, shown
from linspec.families.cca.problem import CCA
from linspec.families.cca.significance import PermutationTest, stepwise_test
from linspec.families.rotation import Rotation
from linspec.registry.options import meaning, parameters_of
from linspec.solving.linear_solution import Loadings, loadings_of
from linspec.solving.problem import Problem
from linspec.solving.solver import Solver
from linspec.studies.inference.bootstrap import (
    FISHER,
    ComponentBootstrap,
    Draws,
    Side,
    drawn_solves,
    weights_on_host,
)
from linspec.studies.inference.permutation import ComponentTest, Rows, permuted_solves
from linspec.studies.inference.regression import (
    DrawnRegressions,
    RegressionBootstrap,
    RegressionTest,
    is_regression,
    regression_test,
)


@with_device
def permutation_test(  # noqa: PLR0913
    problem: Problem[Any],
    solver: str | Solver | None = None,
    *,
    solution: Any = None,
    permutations: Any = 999,
    groups: Any = None,
    blocks: Any = None,
    sign_flips: bool = False,
    weights: str = "counts",
    statistic: str | None = None,
    max_seconds: float = 3600.0,
    rng: Any = None,
    **options: Any,
) -> PermutationTest | ComponentTest | RegressionTest:
    """Test by permutations how many components are more than chance, or which targets a regression predicts.

    A CCA without a `solver` is tested *stepwise*: pair by pair, with the earlier pairs removed. A CCA with a `solver`,
    and any other problem, is *solved again* for each permutation.

    Parameters
    ----------
    problem : CCA, SVD, or Problem of two or more matrices
        Or a regression, by R² of each target and by its coefficients. Stepwise, k, ridge and scale are not used.
    solver : str or Solver, optional
        As for `linspec.solve`; by default "auto" for all problems but CCA.
    solution : CCASolution, optional
        Stepwise: one **fitted to other rows**, whose variates are tested: for a ridge, or where p + q is not below n.
    permutations : int or array of shape (permutations, n), default 999
        How many, or the orders of the rows 0 to n − 1; for m > 2 matrices of shape (permutations, m − 1, n).
    groups, blocks : array of shape (n,), optional
        Labels. Whole groups change places with groups of as many rows: subjects. Rows, or groups, change places within
        their block alone: sites.
    sign_flips : bool, default False
        Rows, or groups, change their signs instead of their places: errors are symmetric, maybe of different sizes.
    weights : {"counts", "survey"}, default "counts"
        Whether sample_weight counts equal rows, or is that of a survey, and stays with the rows of the first matrix.
    statistic : {"wilks", "roy"} or {"largest", "sum", "ranked"}, optional
        Stepwise: "wilks", the default, combines all remaining pairs; "roy" takes the first. Solved again: "largest",
        the default for several matrices, compares each value with the largest of the permuted data; "sum" the sum of
        the values j to k with that of as many permuted ones; "ranked", for one matrix, values of the same rank.
    max_seconds : float, default 3600.0
        The test then ends with the permutations made so far, as after Ctrl-C.
    rng, **options
        Random numbers for the permutations and the solver; solved again, the other arguments of `linspec.solve`.

    Returns
    -------
    PermutationTest, ComponentTest or RegressionTest
        With `values`, `p_values` and `table`.

    Raises
    ------
    InvalidProblem
        If rows cannot be permuted: no values, Moments, rows that are read once, fractional counts, confounds that leave
        no exchangeable rows or belong to some matrices only, or more columns of X and Y together than rows.
    InvalidOption, UnknownOption
        If an argument is invalid, or belongs to the other way.
    MissingCapability, NonFiniteData, NoSuitableSolver, BudgetTooSmall
        If entries cannot be read, are not finite or do not fit, or no permutation was made in time.

    Warns
    -----
    ConvergenceWarning
        If `max_seconds` ended the test, permuted problems have not converged, or 5 % cannot be reached.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.standard_normal((200, 2))
    >>> X, Y = (np.hstack([shared + rng.standard_normal((200, 2)), rng.standard_normal((200, 3))]) for _ in "XY")
    >>> ls.permutation_test(ls.CCA(X, Y), permutations=199, rng=0).components()
    2
    """
    rows = Rows(
        permutations=permutations, groups=groups, blocks=blocks, sign_flips=sign_flips, weights=weights
    )
    if not isinstance(problem, CCA) or solver is not None:
        if solution is not None:
            raise InvalidProblem(
                "solution= is for the stepwise test of a CCA on rows set aside; a test by solving fits all rows of "
                f"{type(problem).__name__} itself; got {shown(solution)}. Leave it out."
            )
        test = regression_test if is_regression(problem) else permuted_solves
        return test(
            problem,
            "auto" if solver is None else solver,
            rows,
            statistic=statistic,
            max_seconds=max_seconds,
            rng=rng,
            options=options,
        )
    if options:
        meant = (
            meaning(next(iter(options)), parameters_of(permutation_test)[0])
            or 'solver="auto" to solve each permutation'
        )
        raise UnknownOption(
            f"permutation_test has no option {next(iter(options))!r} for a CCA without a solver. Pass {meant}, or "
            "leave it out."
        )
    return stepwise_test(
        problem,
        solution=solution,
        rows=rows,
        statistic="wilks" if statistic is None else statistic,
        max_seconds=max_seconds,
        rng=rng,
    )


@with_device
def bootstrap(  # noqa: PLR0913
    problem: Problem[Any],
    solver: str | Solver = "auto",
    *,
    solution: Any = None,
    draws: int = 500,
    level: float = 0.95,
    method: str = "corrected",
    groups: Any = None,
    weights: str = "counts",
    rng: Any = None,
    **options: Any,
) -> Bootstrap | ComponentBootstrap | RegressionBootstrap:
    """Compute intervals of values and weights, of loadings of a CCA, or of R² and coefficients, from drawn rows.

    Parameters
    ----------
    problem : Problem
        Any problem with `sample_weight` whose solution declares column weights and the values of its components: CCA,
        SVD, Discriminant, problems of your own. Or a regression. The data are read many times.
    solver : str or Solver, default "auto"
        As for `linspec.solve`. "auto" chooses once. Solvers with the trait "warm-start" begin at the solution.
    solution : Solution or Rotation, optional
        That of this problem; by default it is computed. Draws are rotated like a Rotation: `weights` are loadings.
    draws : int, default 500
        The number of draws, at least 2. Intervals at 95 % need several hundred.
    level : float, default 0.95
        The coverage of the intervals.
    method : {"corrected", "percentile"}, default "corrected"
        "corrected" subtracts the bias of the sample, which draws have twice, and narrows the gaps between values before
        vectors are compared; coefficients have z standard errors. "percentile" takes percentiles of the draws.
    groups : array of shape (n,), optional
        A label for each row. Whole groups are drawn: families, subjects, sites.
    weights : {"counts", "survey"}, default "counts"
        Whether sample_weight counts equal rows, or is that of a survey: then a row is drawn with its weight.
    rng : None, int or numpy.random.Generator
        Random numbers for the draws and the solver.
    **options
        The solver's options and the other arguments of `linspec.solve`. A larger ``tol`` saves time.

    Returns
    -------
    Bootstrap, ComponentBootstrap or RegressionBootstrap
        A ComponentBootstrap; for a CCA a Bootstrap, which is one and has loadings, too.

    Raises
    ------
    InvalidProblem
        If the problem, its data, weights, `groups` or the solution cannot be drawn from: no values or column weights,
        fractional weights, Moments, rows that are read once.
    InvalidOption
        If `draws`, `level` or `method` is invalid.
    NoSuitableSolver
        If the loadings and weights of all draws do not fit into memory.

    Notes
    -----
    Each draw costs a solve and one pass. If a value is close to its neighbour, the intervals of its vectors are wide
    (`groups` of the result). Where a value of the source is 0, `linspec.permutation_test` tests it.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.standard_normal((300, 1))
    >>> X, Y = shared + rng.standard_normal((300, 4)), shared + rng.standard_normal((300, 3))
    >>> intervals = ls.bootstrap(ls.CCA(X, Y, k=1), draws=50, rng=0)
    >>> low, high = intervals.correlations[:, 0]
    >>> bool(low < (12 / 20) ** 0.5 < high), bool(intervals.bias[0] > 0)
    (True, True)
    >>> ls.bootstrap(ls.SVD(X, k=2), draws=50, rng=0).weights["A"].shape
    (2, 4, 2)
    """
    settings = {"solution": solution, "draws": draws, "level": level, "method": method, "groups": groups}
    settings["weights"] = weights
    kind: Any = (
        DrawnPairs if isinstance(problem, CCA) else DrawnRegressions if is_regression(problem) else Draws
    )
    kind.check(problem, draws)
    if isinstance(solution, Rotation):
        settings["solution"], kind = solution.answer, partial(Draws, rotation=solution)
    return drawn_solves(problem, solver, **settings, rng=rng, options=options, kind=kind)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Bootstrap(ComponentBootstrap):
    """Intervals of the pairs of a solution; the first axis of each array holds lower ends, then upper ends.

    It has the attributes of a ComponentBootstrap, and these:

    Attributes
    ----------
    correlations : numpy.ndarray of shape (2, k)
        Intervals of the i-th largest correlation: `values`.
    x_weights, y_weights : numpy.ndarray of shape (2, p, k), (2, q, k)
        Intervals of the weights: `weights` of "X" and of "Y".
    x_loadings, y_loadings : numpy.ndarray of shape (2, p, k), (2, q, k)
        Intervals of the loadings: `loadings` of "X" and of "Y".
    loadings : dict from str to numpy.ndarray of shape (2, p, k) or (2, q, k)
    solution_loadings : dict from str to numpy.ndarray of shape (p, k) or (q, k)
        By view, "X" and "Y", the loadings of the solution in all rows.
    agreement : numpy.ndarray of shape (k,)
        For each pair, the mean over the draws of |cx + cy| / 2. cx is the cosine between the variate of X in `solution`
        and the variate of X in the draw, and cy is the cosine for Y. The pairs of the draw are rotated, ordered and
        signed as for the intervals of loadings and weights. If the mean is far below 1, the pair is not stable, and
        its intervals are wide. The length of a variate of the draw is that over the rows of the draw, because its
        length over all rows would take one more pass for each draw. So cx and cy are cosines but for a relative error
        of about 1/√n in each draw, and a mean above 1 is returned as 1.
    """

    loadings: Mapping[str, HostArray]
    solution_loadings: Mapping[str, HostArray]

    @property
    def correlations(self) -> HostArray:
        """Intervals of the correlations."""
        return self.values

    @property
    def x_weights(self) -> HostArray:
        """Intervals of the weights of X."""
        return self.weights["X"]

    @property
    def y_weights(self) -> HostArray:
        """Intervals of the weights of Y."""
        return self.weights["Y"]

    @property
    def x_loadings(self) -> HostArray:
        """Intervals of the loadings of X."""
        return self.loadings["X"]

    @property
    def y_loadings(self) -> HostArray:
        """Intervals of the loadings of Y."""
        return self.loadings["Y"]

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
        >>> intervals = ls.bootstrap(ls.CCA(X, Y, k=1), draws=20, rng=0)
        >>> [row["column"] for row in intervals.loadings_table("X", library="")]
        ['age', 'dose']
        """
        return self._table_of_columns(matrix, library, self.solution_loadings, self.loadings)


class DrawnPairs(Draws):
    """The results of the draws so far, rotated to the pairs of all rows."""

    scale = FISHER

    def sides_of_all(self) -> list[Side]:
        self.whole = self._related(self.solution, self.problem.sample_weight)
        return [Side(view.lengths) for view in self.whole]

    def _related(self, solution: Any, w: HostArray | None) -> list[Loadings]:
        """The loadings of both views in rows with weights w, with their products (1); one pass."""
        rows = {"center": bool(self.problem.center), "confounds": self.problem.confounds, "sample_weight": w}
        return loadings_of(self.problem.matrices, [solution.x_weights, solution.y_weights], **rows)

    def rotated(self, solution: Any, w: HostArray) -> list[HostArray]:
        rotations, weights = [], weights_on_host(solution)
        drawn = zip(self.sides, self.whole, self._related(solution, w), weights.items(), strict=True)
        for side, whole, view, (name, W) in drawn:
            blocks = {name: W, "loadings": view.correlations * view.lengths}
            rotations.append(side.add(whole.products.T @ W, view.products.T @ W, blocks))  # (1)
        return rotations

    def vectors(self, M: HostArray) -> list[HostArray]:
        U, _, Vt = np.linalg.svd(M)
        return [U, Vt.transpose(0, 2, 1)]

    def result_of(self, turns: list[HostArray], **fields: Any) -> Bootstrap:
        loadings = {}
        for name, side, turn in zip("XY", self.sides, turns, strict=True):
            over = reciprocal(side.compared(turn)[1])[:, None, :]
            loadings[name] = self.quantiles(
                np.clip(np.array(side.blocks["loadings"]) @ turn * over, -1.0, 1.0)
            )
        whole = {name: view.correlations for name, view in zip("XY", self.whole, strict=True)}
        return Bootstrap(**self.of_weights(turns), loadings=loadings, solution_loadings=whole, **fields)
