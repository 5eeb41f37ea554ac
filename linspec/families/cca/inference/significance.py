"""Significance of canonical correlations by their distributions for normal rows.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import chdtrc, fdtrc, gammaincc

from linspec.arrays import HostArray, at_home
from linspec.errors import InvalidOption, InvalidProblem, MissingCapability
from linspec.families.cca.inference.permutation import PermutationTest, check_problem
from linspec.families.cca.problem import CCA
from linspec.families.cca.solution import CCASolution
from linspec.rows import Preprocessing
from linspec.solving.solve import solve
from linspec.solving.tables import table_of_components
from linspec.status import Status
from linspec.studies.inference.bootstrap import check_solution
from linspec.studies.inference.permutation import leading_components, p_in_words, sums_from
from linspec.studies.inference.rows import frequencies

__all__ = ["Approximation", "Significance", "significance"]

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
        if by not in NAMES:
            raise InvalidOption(f"by must be one of {', '.join(NAMES)}; got {by!r}.")
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
        >>> row = ls.significance(ls.CCA(X[:, :2], X[:, 2:])).table()[0]
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
        cells = {"pair": [str(j + 1) for j in range(len(self.correlations))]}
        for head, column in {"correlation": self.correlations, **self._columns()}.items():
            cells[head] = [
                p_in_words(value, digits=5) if head.startswith("p ") else f"{value:.5g}" for value in column
            ]
        rows = [tuple(cells), *zip(*cells.values(), strict=True)]
        return "\n".join("".join(f"{text:>12}" for text in row) for row in rows)


@at_home
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
    return _tests(rho, p, q, df, permutation=permutation, frame_library=problem.frame_library)


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


def _tests(rho: HostArray, p: int, q: int, df: float, **beside: Any) -> Significance:
    """Compute all tests; the hypothesis at index j = 0, 1, … is that at most j correlations are not zero."""
    j = np.arange(len(rho))
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
            **beside,
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
    m = (abs(p - q) - 1) / 2
    N = (df - p - q - 1) / 2
    free, error = s * (2 * m + s + 1), s * (2 * N + s + 1)
    return _f(V, error / free * V / (s - V), free, error)


def _hotelling_lawley(U: HostArray, p: Any, q: Any, df: Any) -> Approximation:
    """McKeon's F for the Hotelling-Lawley trace U, or Pillai's F if there are too few rows."""
    s = np.minimum(p, q)
    m = (abs(p - q) - 1) / 2
    N = (df - p - q - 1) / 2
    few = N <= 1
    enough = np.where(few, 2.0, N)
    b = (p + 2 * enough) * (q + 2 * enough) / (2 * (2 * enough + 1) * (enough - 1))
    error = np.where(few, 2 * (s * N + 1), 4 + (p * q + 2) / (b - 1))
    free = np.where(few, s * (2 * m + s + 1), p * q)
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
