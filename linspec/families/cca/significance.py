"""Which canonical correlations are more than chance: by their distributions for normal rows, and by permutations.

Problem: which canonical correlations are larger than expected by chance? Answer it without permutations.
Method: a sequence of hypotheses, "the correlations from the j-th on are zero", for j = 1, …, K = min(p, q). With
squared sample correlations r², the statistics of the j-th hypothesis are, over i ≥ j, Wilks' Λ = ∏(1 − rᵢ²), Pillai's
trace Σ rᵢ², the Hotelling-Lawley trace Σ rᵢ²/(1 − rᵢ²) and Roy's root rⱼ²/(1 − rⱼ²). Their distributions for normal
rows are approximated by F distributions, that of Λ also by a chi-square distribution. With ν = n − 1 − c degrees of
freedom (the mean and c confounds are subtracted), the j-th hypothesis uses the approximation of the first one with
p − j + 1 and q − j + 1 columns and ν − j + 1 degrees of freedom.
Source: Rao 1973, Linear Statistical Inference and Its Applications, section 8c.5 (Λ to F); Bartlett 1941, Biometrika
32:29, doi:10.1093/biomet/32.1.29, and Mardia, Kent & Bibby 1979, Multivariate Analysis, section 10.2.3 (Λ to
chi-square, and the sequence); Pillai 1955, Ann. Math. Stat. 26:117, doi:10.1214/aoms/1177728599; McKeon 1974,
Biometrika 61:381, doi:10.1093/biomet/61.2.381 (Hotelling-Lawley); Johnstone 2009, Ann. Appl. Stat. 3:1616,
doi:10.1214/08-AOAS220 (the logarithm of Roy's root is nearly Tracy-Widom), with the gamma distribution of Chiani 2014,
J. Multivar. Anal. 129:69, doi:10.1016/j.jmva.2014.04.002.
Where we differ: McKeon's F needs (ν − p − q − 1)/2 > 1, otherwise its parameters are negative; below that we use
Pillai's F for the Hotelling-Lawley trace. The F of Roy's root, which other programs print, only gives a lower bound of
the p-value, which is useless for many columns: the p-value comes from the Tracy-Widom distribution. A pair cannot
exist without the earlier ones, so `components` uses the largest p-value up to each step.

The same question by permutations: which of them are larger than the correlations of rows paired at random?
Method: the test is stepwise (`stepwise_test`). At step i the pairs before it are removed, the remaining variates of
X are permuted, and the canonical correlations between the permuted variates and the variates of Y are computed anew;
Wilks' statistic of these correlations (or Roy's, the largest of them) is compared with the statistic of the data. A
pair cannot exist without the earlier ones, so the p-value of a pair is the largest p-value up to this pair (closure).
`null_correlations` is for data too large to compute all pairs: it returns the correlations that a solver finds when the
rows of Y are permuted.
Source: Winkler, Renaud, Smith & Nichols 2020, NeuroImage 220, 117065, doi:10.1016/j.neuroimage.2020.117065.
Where we differ: the remaining variates of the data are orthogonal to the removed pairs. Permuted variates are not, like
any vector of n numbers, and therefore correlate less. With few rows and strong pairs the published test thus finds
one pair too many more often than its level (measured at 5 %: 8 % with 40 rows, 10 and 8 columns and a pair of .9, 14 %
with 30 rows, 10 and 10 columns and pairs of .99 and .95). Here the projection of permuted variates of X on removed
variates of Y is subtracted again: 5 % and 3 %. This is the null distribution of Gaussian rows if the removed
pairs are near 1, and conservative if they are not. All variates are kept as
orthonormal bases of the two column spaces, which stay orthonormal under permutations of the rows. So a permutation
costs one product M = UᵀPᵀV; every step uses blocks of it, and Wilks' statistics of all steps are principal minors of
[[I, M], [Mᵀ, I]]. Dependent columns are cut by rank. If only means are subtracted, this commutes
with permutations. The residuals of confounds are not exchangeable: n rows of rank n − s. So the views are multiplied by
Qᵀ for a matrix Q with orthonormal columns that are orthogonal to the constant and the confounds, and the n − s rows of
the products are permuted (Huh & Jhun 2001, Commun. Stat. Theory Methods 30:2023, doi:10.1081/STA-100106060; Winkler et
al., section 2.5). Qᵀ is the last n − s rows of s Householder reflections. If signs change, they are those of residuals,
and the variates lose the constant and the confounds again and are made orthonormal.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import chdtrc, fdtrc, gammaincc

import linspec as ls
from linspec.arrays import Array, Device, HostArray, random_generator, reciprocal, to_host, with_device
from linspec.errors import ConvergenceWarning, InvalidProblem, MissingCapability, shown, warn
from linspec.families.cca.problem import CCA, CCASolution
from linspec.linalg.small_matrices import rank_cut, whitening
from linspec.operators import LinearOperator, as_operator
from linspec.process.interrupts import Request
from linspec.rows import Preprocessing
from linspec.solving.checks import check_choice, check_count
from linspec.solving.linear_solution import LinearSolution
from linspec.solving.select import check_fits
from linspec.solving.solve import solve
from linspec.solving.solver import Solver
from linspec.solving.tables import Summary, table_of_components
from linspec.status import Status
from linspec.studies.inference.bootstrap import check_solution
from linspec.studies.inference.exchange import Exchange
from linspec.studies.inference.permutation import (
    TIE,
    Rows,
    SolvedAgain,
    Tested,
    checked_seconds,
    leading_components,
    made_in_time,
    sums_from,
)
from linspec.studies.inference.rows import (
    Removal,
    check_rows_are_known,
    frequencies,
    on_images,
    reflected,
    removal_of,
    with_equal_rows,
)
from linspec.workers import brought_here

NAMES = ("wilks", "bartlett", "pillai", "hotelling_lawley", "tracy_widom")
"""Attributes of `Significance` whose p-values `Significance.components` accepts.

`roy` is not among them, because its p-values are only lower bounds.
"""

GAMMA = (46.446, 0.186054, 9.84801)
"""Shape, scale and shift of the gamma distribution that approximates the Tracy-Widom distribution of order 1."""


@dataclass(frozen=True, eq=False)
class Approximation:
    """One statistic for each hypothesis, with its approximate distribution.

    Attributes
    ----------
    values : numpy.ndarray of shape (K,)
        Wilks' Λ, Pillai's trace, the Hotelling-Lawley trace, or Roy's root r²/(1 − r²).
    statistics : numpy.ndarray of shape (K,)
        The F or chi-square statistic; for Roy's root by Tracy-Widom its centred and scaled logarithm.
    df : numpy.ndarray of shape (K,)
        Degrees of freedom, for F those of the numerator.
    df_error : numpy.ndarray of shape (K,) or None
        Degrees of freedom of the denominator of F, which may be fractions. None for chi-square.
    p_values : numpy.ndarray of shape (K,)
        The p-value of each hypothesis by itself.
    """

    values: HostArray
    statistics: HostArray
    df: HostArray
    df_error: HostArray | None
    p_values: HostArray


@dataclass(frozen=True, eq=False)
class Significance:
    """Table of tests of canonical correlations; its j-th row tests that the j-th and all later ones are zero.

    Attributes
    ----------
    correlations : numpy.ndarray of shape (K,)
        All K = min(p, q) canonical correlations.
    df : float
        ν = n − 1 − c: the rows minus 1 for the mean, if the problem centres, minus the number c of confounds.
    wilks : Approximation
        Wilks' Λ by Rao's F, which is exact if p − j + 1 or q − j + 1 is 1 or 2.
    bartlett : Approximation
        Wilks' Λ by Bartlett's chi-square.
    pillai, hotelling_lawley : Approximation
        The Pillai and Hotelling-Lawley traces, by F.
    roy : Approximation
        Roy's root, by the F that other programs print. It ignores that the combinations were chosen to correlate, so
        its p-values are lower bounds. Use `tracy_widom`.
    tracy_widom : Approximation
        Roy's root by the Tracy-Widom distribution: log(root), centred and scaled. It has no degrees of freedom (NaN).
    permutation : PermutationTest or None
        The permutation test passed for comparison.
    frame_library : str
        The library of the first frame among the data, in which tables are made; "" if there was none.
    """

    correlations: HostArray
    df: float
    wilks: Approximation
    bartlett: Approximation
    pillai: Approximation
    hotelling_lawley: Approximation
    roy: Approximation
    tracy_widom: Approximation
    permutation: PermutationTest | None = None
    frame_library: str = ""
    layout: ClassVar = CCASolution.layout

    def components(self, alpha: float = 0.05, by: str = "wilks") -> int:
        """The number of leading pairs whose hypotheses are all rejected.

        Parameters
        ----------
        alpha : float, default 0.05
            The accepted probability of one pair too many.
        by : {"wilks", "bartlett", "pillai", "hotelling_lawley", "tracy_widom"}, default "wilks"

        Raises
        ------
        InvalidOption
            If `alpha` is not between 0 and 1, or `by` is not one of the statistics.
        """
        check_choice("by", by, NAMES)
        return leading_components(getattr(self, by).p_values, alpha)

    def table(self, *, library: str | None = None) -> Any:
        """Make a table with a row for each pair: correlation, Wilks' Λ with its F, and the p-values of all tests.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `Solution.weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            K rows, numbered from 1, with the columns that are printed.

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
        >>> X = np.random.default_rng(0).standard_normal((40, 3))
        >>> row = ls.significance(ls.CCA(X[:, :2], X[:, 2:])).table(library="")[0]
        >>> list(row)[:5]
        ['component', 'canonical correlation', 'Wilks', 'F', 'df']
        """
        columns = {self.layout.value_label: self.correlations, **self._columns()}
        return table_of_components(self, columns, library)

    def _columns(self) -> dict[str, HostArray]:
        """Wilks' Λ with its F statistic and degrees of freedom, and the p-values of all tests, by their heads."""
        w = self.wilks
        heads = ("p Rao", "p Bartlett", "p Pillai", "p Hotelling", "p Roy TW")
        columns: dict[str, Any] = {"Wilks": w.values, "F": w.statistics, "df": w.df, "df error": w.df_error}
        columns |= {head: getattr(self, name).p_values for head, name in zip(heads, NAMES, strict=True)}
        return columns if self.permutation is None else {**columns, "p permuted": self.permutation.p_values}

    def __repr__(self) -> str:
        return repr(Summary(self.table(library=""), "<Significance>", ()))


@with_device
def significance(
    problem: CCA, *, solution: CCASolution | None = None, permutation: PermutationTest | None = None
) -> Significance:
    """Test which canonical correlations are zero, by the approximate distributions of normal rows.

    Parameters
    ----------
    problem : CCA
        With ridge 0, views of full rank, and more than p + q + 1 + c rows for c confounds. Weights must be
        integers, which count rows. Its k and scale are not used: all pairs are tested.
    solution : CCASolution, optional
        A solution of this problem with all min(p, q) pairs; by default it is computed.
    permutation : PermutationTest, optional
        A test of the same problem by `linspec.permutation_test`, for comparison in the table.

    Returns
    -------
    Significance

    Raises
    ------
    InvalidProblem
        If one of these conditions fails. The message suggests `linspec.permutation_test`.

    Notes
    -----
    The p-values hold for independent rows that are normal in one view given the other. Only the correlations and the
    sizes are used, so they cost no more than the solution. `linspec.permutation_test` does not need normal rows.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.standard_normal((200, 2))
    >>> X = np.hstack([shared, rng.standard_normal((200, 4))])
    >>> Y = np.hstack([shared + rng.standard_normal((200, 2)), rng.standard_normal((200, 3))])
    >>> ls.significance(ls.CCA(X, Y)).components()
    2
    """
    check_problem(problem, "significance")
    p, q = problem.X.shape[1], problem.Y.shape[1]
    if any(problem.ridge):
        raise _refused(f"ridge 0; got {problem.ridge}")
    w = frequencies(problem, "significance counts rows")
    if min(p, q) > problem.X.shape[0]:
        raise _refused(f"more rows than p + q; got {problem.X.shape[0]}")
    if solution is None:
        solution = solve(problem.with_numbers(k=min(p, q)))
    _check(solution, problem)
    pre = Preprocessing.of(center=bool(problem.center), weights=w, confounds=problem.confounds)
    df = float(problem.X.shape[0] if w is None else w.sum()) - pre.directions
    if not np.isfinite(df) or df <= p + q:
        raise _refused(
            f"more than p + q = {p + q} rows, beside one for the means and one for each confound; got {df:g}"
        )
    if permutation is not None and len(permutation.correlations) != min(p, q):
        raise InvalidProblem(
            f"permutation must be a test of all {min(p, q)} pairs of this problem; got {len(permutation.correlations)}."
        )
    rho = np.asarray(solution.correlations, dtype=np.float64)
    j = np.arange(len(rho))  # the hypothesis is that at most j correlations are not zero
    with np.errstate(divide="ignore", invalid="ignore"):  # a correlation of 1 has infinite statistics
        squares = rho**2
        roots = squares / (1 - squares)
        logs = sums_from(np.log1p(-squares))
        of_roots = np.nan_to_num(sums_from(roots), nan=np.inf, posinf=np.inf)
        sizes = p - j, q - j, df - j
        return Significance(
            correlations=rho,
            df=df,
            wilks=_rao(logs, *sizes),
            bartlett=_bartlett(logs, *sizes),
            pillai=_pillai(sums_from(squares), *sizes),
            hotelling_lawley=_hotelling_lawley(of_roots, *sizes),
            roy=_roy(roots, *sizes),
            tracy_widom=_tracy_widom(roots, *sizes),
            permutation=permutation,
            frame_library=problem.frame_library,
        )


def _refused(needed: str) -> InvalidProblem:
    return InvalidProblem(
        f"the distributions of canonical correlations need {needed}; use linspec.permutation_test, which does not, "
        "with a solution= and rows set aside where the data are wide or there is a ridge."
    )


def _check(solution: CCASolution, problem: CCA) -> None:
    """Refuse a solution that has not all pairs of views of full rank."""
    check_solution(solution, problem)
    widths = (problem.X.shape[1], problem.Y.shape[1])
    ranks = tuple(solution.ranks or ())
    if ranks not in ((), widths) or solution.status is Status.RANK_DEFICIENT:
        refused = _refused(f"views of full rank {widths[0]} and {widths[1]}; got {ranks or 'a lower one'}")
        raise InvalidProblem(f"{refused} Of the views the solution says: {solution.message}")
    if len(solution.correlations) < min(widths):
        raise _refused(f"all {min(widths)} pairs; got {len(solution.correlations)}")
    if not solution.converged:
        raise MissingCapability(
            f"significance needs a solution that has converged; got {solution.status.name}: {solution.message} Solve "
            'it with "direct".'
        )


def _f(values: HostArray, F: HostArray, df: Any, df_error: Any) -> Approximation:
    F, df, df_error = (np.asarray(a, dtype=np.float64) for a in (F, df, df_error))
    return Approximation(values, F, df, df_error, np.where(np.isinf(F), 0.0, fdtrc(df, df_error, F)))


def _rao(logs: HostArray, p: Any, q: Any, df: Any) -> Approximation:
    """Rao's F for Wilks' Λ: (1 − Λ^(1/t)) / Λ^(1/t) times the ratio of the degrees of freedom."""
    more = p**2 + q**2 - 5
    t = np.sqrt(np.where(more > 0, (p**2 * q**2 - 4) / np.where(more > 0, more, 1), 1.0))
    df_error = (df - (p + q + 1) / 2) * t - p * q / 2 + 1
    return _f(np.exp(logs), np.expm1(-logs / t) * df_error / (p * q), p * q, df_error)


def _bartlett(logs: HostArray, p: Any, q: Any, df: Any) -> Approximation:
    """Bartlett's −(ν − (p + q + 1)/2) log Λ, chi-square with pq degrees of freedom."""
    squares = -(df - (p + q + 1) / 2) * logs
    freedom = np.asarray(p * q, dtype=np.float64)
    return Approximation(np.exp(logs), squares, freedom, None, chdtrc(freedom, squares))


def _pillai(V: HostArray, p: Any, q: Any, df: Any) -> Approximation:
    """Pillai's F for the trace V = Σ r²."""
    s = np.minimum(p, q)
    free = p * q
    error = s * (df - np.maximum(p, q))
    return _f(V, error / free * V / (s - V), free, error)


def _hotelling_lawley(U: HostArray, p: Any, q: Any, df: Any) -> Approximation:
    """McKeon's F for the Hotelling-Lawley trace U, or Pillai's F if there are too few rows."""
    s = np.minimum(p, q)
    N = (df - p - q - 1) / 2
    few = N <= 1
    enough = np.where(few, 2.0, N)
    b = (p + 2 * enough) * (q + 2 * enough) / (2 * (2 * enough + 1) * (enough - 1))
    error = np.where(few, 2 * (s * N + 1), 4 + (p * q + 2) / (b - 1))
    free = p * q
    F = np.where(few, error * U / (s * free), error / free * U * 2 * enough / (error - 2))
    return _f(U, F, free, error)


def _roy(roots: HostArray, p: Any, q: Any, df: Any) -> Approximation:
    """F of Roy's root, as if one combination of the columns of the narrower view were fixed beforehand.

    It is the F of the regression of this combination on all columns of the wider view.
    """
    free = np.maximum(p, q)
    error = df - free
    return _f(roots, roots * error / free, free, error)


def _tracy_widom(roots: HostArray, p: Any, q: Any, df: Any) -> Approximation:
    """(log(root) − μ)/σ by the Tracy-Widom distribution, with μ and σ from the angles γ and φ (Johnstone 2009)."""
    gamma, phi = (
        2 * np.arcsin(np.sqrt((size - 0.5) / (df - 1))) for size in (np.minimum(p, q), np.maximum(p, q))
    )
    mu = 2 * np.log(np.tan((phi + gamma) / 2))
    sigma = np.cbrt(16 / (df - 1) ** 2 / (np.sin(phi + gamma) ** 2 * np.sin(phi) * np.sin(gamma)))
    s = (np.log(roots) - mu) / sigma
    shape, scale, shift = GAMMA
    none = np.full(len(roots), np.nan)
    return Approximation(roots, s, none, None, gammaincc(shape, np.maximum(s + shift, 0.0) / scale))


FEW_STEPS = 32
"""So many steps have their minors computed one by one: halving them further takes longer."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PermutationTest(Tested):
    """Canonical correlations with p-values by permutation; K is the smaller rank of the two views.

    Attributes
    ----------
    correlations : numpy.ndarray of shape (K,)
        All canonical correlations of the rows tested, without a ridge, in decreasing order; `values` is the same.
    p_values : numpy.ndarray of shape (K,)
        For each pair, the probability of a false finding at or before it. They never decrease and are at least
        1 / (permutations + 1).
    uncorrected : numpy.ndarray of shape (K,)
        The p-value of each step by itself, before the closure.
    statistics : numpy.ndarray of shape (K,)
        The statistic of the data at each step: Wilks' Λ, the product of 1 − ρ² over the remaining pairs (small values
        are significant), or Roy's largest root ρ².
    statistic : {"wilks", "roy"}
    permutations : int
        The number of permutations, not counting the original order; smaller than requested if Ctrl-C or
        `max_seconds` ended the test.
    interrupted : bool
        Whether Ctrl-C ended the test.
    frame_library : str
        The library of the first frame among the data, in which tables are made; "" if there was none.
    """

    frame_library: str = ""
    layout: ClassVar = CCASolution.layout

    @property
    def correlations(self) -> HostArray:
        """The correlations."""
        return self.values


def stepwise_test(
    problem: CCA,
    *,
    solution: CCASolution | None,
    rows: Rows,
    statistic: str,
    max_seconds: float,
    rng: Any,
) -> PermutationTest:
    """Test by permuting rows how many canonical correlations there are; `linspec.permutation_test` explains it."""
    until = time.perf_counter() + checked_seconds(max_seconds)
    check_choice("statistic", statistic, STATISTICS)
    if solution is not None:  # whose variates take the places of the views, of which they read the rows once
        if not isinstance(solution, LinearSolution):
            raise InvalidProblem(
                f"solution must be a CCASolution; got {shown(solution)}. Fit one to other rows."
            )
        taken = problem.confounds if solution.confound_mean is not None else None
        variates = map(brought_here, solution.transform(problem.X, problem.Y, confounds=taken))
        problem = problem.with_matrices(
            {name: as_operator(part, name) for name, part in zip("XY", variates, strict=True)}
        )
    check_rows_are_known(problem, "permutation_test permutes rows")
    problem, exchange, permutations = rows.exchange_of(problem)
    if problem.sample_weight is not None:  # weights that count rows are repeated rows now
        raise InvalidProblem(
            "the stepwise test of a CCA takes no weights of a survey, because variates change places with them; "
            'got sample_weight. Pass solver="auto": each permutation is solved, and weights stay with the rows of X.'
        )
    removal, exchange = removal_of(problem, exchange, "permutation_test")
    U, V, rho, device = _variates(problem, removal)
    generator, stop = random_generator(rng), Request()
    with np.errstate(divide="ignore"):  # a correlation of 1 has an infinite statistic
        observed = sums_from(-np.log1p(-(rho**2))) if statistic == "wilks" else rho**2
    exceeded = np.zeros(len(rho))

    def permute(number: int) -> None:
        if len(rho):
            ((order, signs),) = exchange.draws(generator, number, 1)
            moved = device.xp.take(U, device.xp.asarray(order, device=device.native), axis=0)
            if signs is not None:
                rest = exchange.without_basis(moved * device.asarray(signs)[:, None], device)
                moved = device.xp.linalg.qr(rest, mode="reduced")[0]
            M = to_host(moved.T @ V)
            exceeded[:] += STATISTICS[statistic](M) >= observed * (1 - TIE)

    slow = (
        f"the bases of {problem.X.shape[1]} + {problem.Y.shape[1]} columns of {U.shape[0]} rows take longer. Pass "
        "fewer columns, or set rows aside and test a solution on them (solution=)"
    )
    count = made_in_time(permute, permutations, stop, max_seconds, until, slow)
    uncorrected = (1 + exceeded) / (1 + count)
    return PermutationTest(
        values=rho,
        p_values=np.maximum.accumulate(uncorrected),
        uncorrected=uncorrected,
        statistics=np.exp(-observed) if statistic == "wilks" else observed,
        statistic=statistic,
        permutations=count,
        interrupted=stop.made,
        frame_library=problem.frame_library,
    )


def null_correlations(
    problem: CCA, solver: str | Solver = "auto", *, permutations: int = 1, rng: Any = None, **options: Any
) -> HostArray:
    """Compute canonical correlations after the rows of Y are permuted, which are due to chance alone.

    Parameters
    ----------
    problem : CCA
        Its ridge, centring, scale, confounds and k are used. Weights must be integers. Confounds are removed from both
        views first, as by `permutation_test`.
    solver : str or Solver, default "auto"
        As for `linspec.solve`.
    permutations : int, default 1
        The number of problems to solve. On large data their solutions differ little.
    rng : None, int or numpy.random.Generator
        Random numbers for the permutations and the solver.
    **options
        The solver's options and the other arguments of `linspec.solve`.

    Returns
    -------
    numpy.ndarray of shape (permutations, k)
        Row i holds the correlations for permutation i, in decreasing order. After Ctrl-C there are fewer rows, and a
        ConvergenceWarning. Pass the maximum of the array to `CCASolution.supported` as `level`: unrelated columns reach
        a correlation of this size by chance on the same number of rows.

    Raises
    ------
    MissingCapability
        If the rows of Y cannot be selected, and so cannot be permuted.
    InvalidProblem, InvalidOption
        If the problem is not a CCA, if its weights are not integers, or if `permutations` is not a positive integer.

    Notes
    -----
    Each permutation costs a solve, and memory for the permuted rows of Y. The maximum is one level for all pairs of the
    data, the first and the later ones. `permutation_test` instead removes the earlier pairs before it tests a later
    one. Without this step, the level for later pairs is slightly higher than necessary.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.standard_normal((300, 2))
    >>> X = np.hstack([shared, rng.standard_normal((300, 40))])
    >>> Y = np.hstack([shared + rng.standard_normal((300, 2)), rng.standard_normal((300, 30))])
    >>> problem = ls.CCA(X, Y, k=5, ridge=1.0)
    >>> ls.solve(problem).supported(ls.null_correlations(problem, rng=0).max())
    2
    """
    check_problem(problem, "null_correlations")
    check_count("permutations", permutations, 1)
    problem = with_equal_rows(problem, "null_correlations")
    free = Exchange.free(int(problem.X.shape[0]))
    images, exchange = on_images(problem, free, "null_correlations")
    again = SolvedAgain(images, exchange, solver, options, rng)
    drawn = again.values((permutations, problem.k))
    if again.stop.made:
        warn(
            f"null_correlations: Ctrl-C ended it after {len(drawn)} of {permutations} permutations.",
            ConvergenceWarning,
        )
    return drawn


# ---- the variates ----------------------------------------------------------------------------------


def _variates(problem: CCA, removal: Removal) -> tuple[Array, Array, HostArray, Device]:
    """Orthonormal bases of both column spaces, with the canonical variates first, and the correlations."""
    views = problem.matrices
    for name, A in views.items():
        if not A.readable:
            raise MissingCapability(
                f"the entries of {name} cannot be read; got {A!r}. Test a solution on rows that it was not fitted to "
                "(solution=)."
            )
    device = views["X"].device.blocks
    needed = 8.0 * 4 * views["X"].shape[0] * sum(A.shape[1] for A in views.values())
    check_fits(
        needed,
        "orthonormal bases of both views",
        "Set rows aside and test a solution on them (solution=).",
        device.free_memory,
    )
    Ux, Uy = (_basis(name, A, removal, centred=bool(problem.center)) for name, A in views.items())
    dimensions = Ux.shape[0] - (
        len(removal.vectors) if removal.stay else problem.center and not removal.vectors
    )
    ranks = (Ux.shape[1], Uy.shape[1])
    shared = sum(ranks) - dimensions
    if shared > 0 and min(ranks) > 0:
        raise InvalidProblem(
            f"the columns of X span {ranks[0]} dimensions and those of Y {ranks[1]}, and {Ux.shape[0]} rows have "
            f"{dimensions}: in any order of the rows, {shared} correlations are 1, so there is nothing to test. "
            "Set rows aside and test a solution on them (solution=), or pass fewer columns, such as principal "
            "components."
        )
    P, rho, Qt = np.linalg.svd(to_host(Ux.T @ Uy))
    return Ux @ device.asarray(P), Uy @ device.asarray(Qt.T), np.clip(rho, 0.0, 1.0), device


def _basis(name: str, A: LinearOperator, removal: Removal, *, centred: bool) -> Array:
    """An orthonormal basis of the columns of a view, after means and confounds are removed.

    The columns are scaled to length 1. The basis spans their left singular vectors whose singular values are above the
    fraction `rank_cut` of the largest.
    """
    device = A.device.blocks
    W, squares, left = reflected(name, A, removal, centred=centred)
    scales = reciprocal(device.xp.sqrt(squares)) * device.xp.astype(left, W.dtype)
    Q, R = device.xp.linalg.qr(W * scales[None, :], mode="reduced")
    U, s, _ = np.linalg.svd(to_host(R), full_matrices=False)
    rank = int(np.sum(s > rank_cut(A.shape, A.rounded_dtype) * s[0])) if s[0] > 0 else 0
    return Q @ device.asarray(np.ascontiguousarray(U[:, :rank]))


def check_problem(problem: ls.CCA, function: str) -> None:
    """Raise if the problem is not a CCA."""
    if not isinstance(problem, CCA):
        raise InvalidProblem(
            f"{function} takes a linspec.CCA; got {type(problem).__name__}. Pass linspec.CCA(X, Y, k)."
        )


# ---- the statistics --------------------------------------------------------------------------------


def _wilks(M: HostArray) -> HostArray:
    """−log Λ at every step k = 0, 1, …, from M = UᵀV.

    U is the orthonormal basis of the variates of X with permuted rows, V is the basis of the variates of Y. At step k
    the first k columns of both are removed. Uₖ = U[:, k:] and Vₖ = V[:, k:] remain, with UₖᵀVₖ = Mₖ = M[k:, k:], and
    the projection of Uₖ on the removed columns V[:, :k] is subtracted from Uₖ. The Gram matrix of the difference is
    I − AAᵀ for A = M[k:, :k], and Λ = det(I − AAᵀ − MₖMₖᵀ) / det(I − AAᵀ). The numerators for all k are principal
    minors of one matrix, I − MMᵀ.
    """
    p, steps, below = len(M), np.arange(min(M.shape)), _crossing_logs(M)
    whole = _leading_minors((np.eye(p) - M @ M.T)[::-1, ::-1])[p - 1 - steps]
    logs = np.where(np.isneginf(below), np.nan, whole - np.where(np.isneginf(below), 0.0, below))
    return np.nan_to_num(-logs, nan=np.inf, posinf=np.inf)


def _crossing_logs(M: HostArray) -> HostArray:
    """log det(I − AₖᵀAₖ) of the blocks Aₖ = M[k:, :k], for all steps k.

    Each determinant is a principal minor of [[I, M], [Mᵀ, I]], with the rows k, … of M and the columns 0, …, k − 1 of
    M. Rows beyond the last step are in all minors, and are eliminated first.
    """
    K = min(M.shape)
    B = M[K:, :K]
    return _of_steps(np.block([[np.eye(K), M[:K, :K]], [M[:K, :K].T, np.eye(K) - B.T @ B]]))


def _of_steps(R: HostArray) -> HostArray:
    """The logarithms of the minors of R, of order 2m, with the rows t, …, m − 1 and m, …, m + t − 1, for all t < m.

    The first half of the steps has the second half of the former rows in common, the second half of the steps the first
    half of the latter rows. They are eliminated once for the half, so all steps together take about m³ operations.
    """
    m = len(R) // 2
    if m <= FEW_STEPS:
        return _log_dets(np.array([R[t : m + t, t : m + t] for t in range(m)]).reshape(m, m, m))
    rows, columns = np.arange(m), np.arange(m, 2 * m)
    first, second, halves = slice(0, m // 2), slice(m // 2, m), []
    for half, common in ((first, rows[second]), (second, columns[first])):
        outer = np.concatenate([rows[half], columns[half]])
        A = R[np.ix_(common, common)]
        C = R[np.ix_(common, outer)]
        log = _log_dets(A)
        if np.isneginf(log):  # a correlation of 1 to rounding
            halves.append(np.full(len(rows[half]), log))
        else:
            halves.append(log + _of_steps(R[np.ix_(outer, outer)] - C.T @ np.linalg.solve(A, C)))
    return np.concatenate(halves)


def _leading_minors(S: HostArray) -> HostArray:
    """Logarithms of all leading principal minors of S, by one Cholesky factor; −∞ for those that are not positive."""
    try:
        return 2 * np.cumsum(np.log(np.diag(np.linalg.cholesky(S))))
    except np.linalg.LinAlgError:  # a correlation of 1 to rounding
        return np.array([_log_dets(S[:m, :m]) for m in range(1, len(S) + 1)])


def _log_dets(S: HostArray) -> HostArray:
    """Logarithms of determinants; −∞ for those that are not positive."""
    signs, logs = np.linalg.slogdet(S)
    return np.where(signs > 0, logs, -np.inf)


def _largest_root(M: HostArray) -> HostArray:
    """Roy's largest root, the square of the largest correlation, at every step."""
    roots = np.zeros(min(M.shape))
    for k in range(len(roots)):
        A = M[k:, :k]
        turned = whitening(np.eye(len(A)) - A @ A.T).T @ M[k:, k:]
        roots[k] = np.linalg.norm(turned, 2) ** 2 if turned.size else 0.0
    return roots


STATISTICS = {"wilks": _wilks, "roy": _largest_root}
