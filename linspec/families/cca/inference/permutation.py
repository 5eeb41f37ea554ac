"""Permutation test of the number of canonical correlations, and correlations of randomly paired rows.

Problem: canonical correlations of samples are never zero, and with many columns they are large. Which of them are
larger than the correlations of rows paired at random?
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
pairs are near 1, and conservative if they are not. ``projected=False`` is the published test. All variates are kept as
orthonormal bases of the two column spaces, which stay orthonormal under permutations of the rows. So a permutation
costs one product M = UᵀPᵀV; every step uses blocks of it, and the leading minors of one Cholesky factor are Wilks'
statistics of all steps. Dependent columns are cut by rank. If only means are subtracted, this commutes
with permutations. The residuals of confounds are not exchangeable: n rows of rank n − s. So the views are multiplied by
Qᵀ for a matrix Q with orthonormal columns that are orthogonal to the constant and the confounds, and the n − s rows of
the products are permuted (Huh & Jhun 2001, Commun. Stat. Theory Methods 30:2023, doi:10.1081/STA-100106060; Winkler et
al., section 2.5). Qᵀ is the last n − s rows of s Householder reflections.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from linspec.algebra.small_matrices import rank_cut, whitening
from linspec.arrays import HOST, Array, Home, HostArray, random_generator, reciprocal, to_host
from linspec.errors import (
    BudgetTooSmall,
    ConvergenceWarning,
    InvalidOption,
    InvalidProblem,
    MissingCapability,
    warn,
)
from linspec.families.cca.problem import CCA
from linspec.families.cca.solution import CCASolution
from linspec.moments.ways import settle
from linspec.operators import AdjustedOperator, DenseOperator, LinearOperator, as_operator
from linspec.operators.largest_entry import magnitude_of
from linspec.operators.range_of_entries import check_magnitude
from linspec.operators.row_model import row_model
from linspec.process.interrupts import NothingYet, Request, first_interrupt, repeated
from linspec.process.plurals import count_of
from linspec.registry.keywords import hinted
from linspec.solving.checks import check_count
from linspec.solving.select import check_fits
from linspec.solving.solve import solve_on_host
from linspec.solving.solver import Solver
from linspec.solving.tables import table_of_components
from linspec.studies.inference.p_values import p_values_in_words
from linspec.studies.inference.permutation import (
    TIE,
    checked_seconds,
    leading_components,
    sums_from,
    warn_of_time,
)
from linspec.studies.inference.rows import reflected, reflections, with_equal_rows
from linspec.sweeps.blocks import brought_here

__all__ = ["PermutationTest", "check_problem", "null_correlations", "stepwise_test"]

STATISTICS = ("wilks", "roy")

FEW_STEPS, LEAST_BLOCK, LARGEST_BLOCK = 160, 16, 256
"""Number of steps above which `_crossing_logs` computes its logarithms for a whole block of steps at once; smallest and
largest number of steps in a block."""


@dataclass(frozen=True, eq=False)
class PermutationTest:
    """Canonical correlations with p-values by permutation; K is the smaller rank of the two views.

    Attributes
    ----------
    correlations : numpy.ndarray of shape (K,)
        All canonical correlations of the rows tested, without a ridge, in decreasing order.
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

    correlations: HostArray
    p_values: HostArray
    uncorrected: HostArray
    statistics: HostArray
    statistic: str
    permutations: int
    interrupted: bool = False
    frame_library: str = ""
    layout: ClassVar = CCASolution.layout

    @property
    def values(self) -> HostArray:
        """The correlations, by the name that the tests of all problems have."""
        return self.correlations

    def components(self, alpha: float = 0.05) -> int:
        """The number of leading pairs with a p-value of at most `alpha`.

        Parameters
        ----------
        alpha : float, default 0.05
            The accepted probability of one pair too many.

        Raises
        ------
        InvalidOption
            If `alpha` is not between 0 and 1.
        """
        return leading_components(self.p_values, alpha)

    def table(self, *, library: str | None = None) -> Any:
        """Make a table with a row for each pair: correlation, p-value, and the p-value before the closure.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `Solution.weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            K rows, numbered from 1.

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
        >>> X = np.random.default_rng(0).standard_normal((40, 2))
        >>> row = ls.permutation_test(ls.CCA(X, X[:, :1]), permutations=9, rng=0).table()[0]
        >>> list(row), row["p value"]
        (['component', 'canonical correlation', 'p value', 'uncorrected'], 0.1)
        """
        columns = {
            self.layout.value_label: self.correlations,
            "p value": self.p_values,
            "uncorrected": self.uncorrected,
        }
        return table_of_components(self, columns, library)

    def __repr__(self) -> str:
        return (
            f"<PermutationTest by {self.statistic}, {count_of(self.permutations, 'permutation')}"
            f"{', interrupted' * self.interrupted}: {self.components()} of "
            f"{count_of(len(self.p_values), 'pair')} at 5 %, p {p_values_in_words(self.p_values)}>"
        )


def stepwise_test(
    problem: CCA,
    *,
    solution: CCASolution | None,
    permutations: int,
    statistic: str,
    projected: bool,
    max_seconds: float,
    rng: Any,
) -> PermutationTest:
    """Test by permuting rows how many canonical correlations there are; `linspec.permutation_test` explains it."""
    until = time.perf_counter() + checked_seconds(max_seconds)
    check_count("permutations", permutations, 1)
    if statistic not in STATISTICS:
        raise InvalidOption(f"statistic must be one of {', '.join(STATISTICS)}; got {statistic!r}.")
    problem = with_equal_rows(problem, "permutation_test")
    X, Y = problem.X, problem.Y
    if solution is not None:
        taken = problem.confounds if solution.confound_mean is not None else None
        X, Y = map(brought_here, solution.transform(X, Y, confounds=taken))
    U, V, rho, home = _variates(X, Y, center=problem.center, confounds=problem.confounds)
    generator = random_generator(rng)
    n, steps = U.shape[0], len(rho)
    of_product = {"wilks": _wilks, "roy": _roy}[statistic]
    with np.errstate(divide="ignore"):  # a correlation of 1 has an infinite statistic
        logs = -np.log1p(-(rho**2))
    observed = sums_from(logs) if statistic == "wilks" else rho**2
    exceeded, stop = np.zeros(steps), Request()

    def permute(_: int) -> None:
        if steps:
            order = home.xp.asarray(generator.permutation(n), device=home.device)
            M = to_host(home.xp.take(U, order, axis=0).T @ V)
            exceeded[:] += of_product(M, projected) >= observed * (1 - TIE)

    with first_interrupt(stop.make):
        made = repeated(permute, permutations, stop, until=until)
    if not made and not stop.made:
        raise BudgetTooSmall(
            f"max_seconds={max_seconds:g} were over before a permutation was made: the bases of {X.shape[1]} + "
            f"{Y.shape[1]} columns in {n} rows take longer. Raise max_seconds, pass fewer columns, or set rows aside "
            "and test a solution on them (solution=)."
        )
    if not made:
        raise NothingYet
    uncorrected = (1 + exceeded) / (1 + made)
    test = PermutationTest(
        correlations=rho,
        p_values=np.maximum.accumulate(uncorrected),
        uncorrected=uncorrected,
        statistics=np.exp(-observed) if statistic == "wilks" else observed,
        statistic=statistic,
        permutations=made,
        interrupted=stop.made,
        frame_library=problem.frame_library,
    )
    if not stop.made:
        warn_of_time(made, permutations, max_seconds)
    return test


@hinted
def null_correlations(
    problem: CCA, solver: str | Solver = "auto", *, permutations: int = 1, rng: Any = None, **options: Any
) -> HostArray:
    """Compute canonical correlations after the rows of Y are permuted, which are due to chance alone.

    Parameters
    ----------
    problem : CCA
        Its ridge, centring, scale, confounds and k are used. Weights must be integers. With confounds, the residuals
        of Y are permuted.
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
    if problem.Y.access != "rows":
        raise MissingCapability(
            f"null_correlations permutes the rows of Y, which needs row slices; got {problem.Y!r}. Pass an "
            "array, a sparse matrix or a file, or permute the rows where they come from."
        )
    problem = with_equal_rows(problem, "null_correlations")
    rows = _residual_rows(problem)
    generator = random_generator(rng)
    found, stop = np.zeros((permutations, problem.k)), Request()

    def permute(number: int) -> None:
        Y = rows.rows(generator.permutation(problem.Y.shape[0]))
        permuted = CCA(
            problem.X,
            Y,
            problem.k,
            ridge=problem.ridge,
            center=problem.center,
            scale=problem.scale,
            confounds=problem.confounds,
        )
        correlations = solve_on_host(permuted, solver, rng=generator, **options).correlations
        if stop.made:  # the result of an interrupted solve does not count
            raise NothingYet
        found[number, : len(correlations)] = correlations

    with first_interrupt(stop.make):
        made = repeated(permute, permutations, stop)
    if not made:
        raise NothingYet
    if made < permutations:
        found = found[:made].copy()
        warn(
            f"null_correlations: Ctrl-C ended it after {made} of {count_of(permutations, 'permutation')}.",
            ConvergenceWarning,
        )
    return found


# ---- the variates ----------------------------------------------------------------------------------


def _residual_rows(problem: CCA) -> LinearOperator:
    """Y, or its residuals after confounds are subtracted, which are permuted in place of Y."""
    if problem.confounds is None:
        return problem.Y  # type: ignore[no-any-return]
    model = row_model(center=problem.center, weights=None, confounds=problem.confounds)
    return AdjustedOperator(problem.Y, model, settle)


def _variates(
    X: Any, Y: Any, *, center: bool, confounds: HostArray | None
) -> tuple[Array, Array, HostArray, Home]:
    """Orthonormal bases of both column spaces, with the canonical variates first, and the correlations."""
    views = {"X": as_operator(X, "X"), "Y": as_operator(Y, "Y")}
    _check_memory(views)
    vectors: list[HostArray] = []
    if confounds is not None:
        model = row_model(center=center, weights=None, confounds=confounds)
        vectors = reflections(model.taken_of(0, len(confounds), HOST))
    bases = [_basis(name, A, center=center, vectors=vectors) for name, A in views.items()]
    (Ux, Uy), home, center = bases, views["X"].home.blocks, center and confounds is None
    rows, ranks = Ux.shape[0], (Ux.shape[1], Uy.shape[1])
    shared = sum(ranks) - (rows - center)
    if shared > 0 and min(ranks) > 0:
        raise InvalidProblem(
            f"the columns of X span {ranks[0]} dimensions and those of Y {ranks[1]}, and {rows} rows have "
            f"{rows - center}: in any order of the rows, {shared} correlations are 1, so there is nothing to test. "
            "Set rows aside and test a solution on them (solution=), or pass fewer columns, such as principal "
            "components."
        )
    P, rho, Qt = np.linalg.svd(to_host(Ux.T @ Uy))
    return Ux @ home.place(P), Uy @ home.place(Qt.T), np.clip(rho, 0.0, 1.0), home


def _basis(name: str, A: LinearOperator, *, center: bool, vectors: list[HostArray]) -> Array:
    """An orthonormal basis of the columns of a view, after centring and after confounds are removed.

    `vectors` holds the unit vectors of s Householder reflections. They map the s columns that are to be removed,
    the confounds and (with centring) the constant, to the first s rows. These rows are then dropped, so n − s rows
    are left. The columns are scaled to length 1. The basis spans their left singular vectors whose singular values are
    above the fraction `rank_cut` of the largest.
    """
    home = A.home.blocks
    xp = home.xp
    read = DenseOperator(home.place(A.dense())).with_names_of(A)
    check_magnitude(name, magnitude_of(read), ridge=False)
    W, squares, left = reflected(name, read, vectors, centred=center)
    scales = reciprocal(xp.sqrt(squares)) * xp.astype(left, W.dtype)
    Q, R = xp.linalg.qr(W * scales[None, :], mode="reduced")
    U, s, _ = np.linalg.svd(to_host(R), full_matrices=False)
    rank = int(np.sum(s > rank_cut(A.shape, A.rounded_dtype) * s[0])) if s[0] > 0 else 0
    return Q @ home.place(np.ascontiguousarray(U[:, :rank]))


def _check_memory(views: dict[str, LinearOperator]) -> None:
    """Raise if entries cannot be read, or if orthonormal bases of both views do not fit into memory."""
    for name, A in views.items():
        if not A.readable:
            raise MissingCapability(
                f"the entries of {name} cannot be read; got {A!r}. Test a solution on rows that it was not fitted to "
                "(solution=)."
            )
    n = next(iter(views.values())).shape[0]
    needed = 8.0 * 4 * n * sum(A.shape[1] for A in views.values())
    remedy = "Set rows aside and test a solution on them (solution=)."
    free = next(iter(views.values())).home.blocks.free_memory
    check_fits(needed, "orthonormal bases of both views", remedy, free)


def check_problem(problem: Any, function: str) -> None:
    """Raise if the problem is not a CCA."""
    if not isinstance(problem, CCA):
        raise InvalidProblem(
            f"{function} takes a linspec.CCA; got {type(problem).__name__}. Pass linspec.CCA(X, Y, k)."
        )


# ---- the statistics --------------------------------------------------------------------------------


def _wilks(M: HostArray, projected: bool) -> HostArray:
    """−log Λ at every step k = 0, 1, …, from M = UᵀV.

    U is the orthonormal basis of the variates of X with permuted rows, V is the basis of the variates of Y. At step k
    the first k columns of both are removed. Uₖ = U[:, k:] and Vₖ = V[:, k:] remain, with UₖᵀVₖ = Mₖ = M[k:, k:], and
    Λ = det(I − MₖᵀMₖ). With `projected`, the projection of Uₖ on the removed columns V[:, :k] is subtracted from Uₖ.
    The Gram matrix of the difference is I − AAᵀ for A = M[k:, :k], and Λ = det(I − AAᵀ − MₖMₖᵀ) / det(I − AAᵀ). The
    numerators for all k are principal minors of one matrix, I − MMᵀ.
    """
    logs = _projected_logs(M) if projected else _dropped_logs(M)
    return np.nan_to_num(-logs, nan=np.inf, posinf=np.inf)


def _projected_logs(M: HostArray) -> HostArray:
    """Log Λ at every step, with the projection on removed pairs subtracted."""
    steps = range(min(M.shape))
    above = _minors(np.eye(len(M)) - M @ M.T, list(reversed(range(len(M)))))
    if above is None:  # a correlation of 1 to rounding
        whole = np.array([_log_unshared(M[k:, :]) for k in steps])
    else:
        whole = above[len(M) - 1 - np.arange(len(steps))]
    with np.errstate(invalid="ignore"):
        found: HostArray = whole - _crossing_logs(M)
    return found


def _crossing_logs(M: HostArray) -> HostArray:
    """log det(I − AₖᵀAₖ) of the blocks Aₖ = M[k:, :k], for all steps k.

    Each determinant is a principal minor of [[I, M], [Mᵀ, I]]. The minor of step k has the indices of the rows k, …
    of M and of the columns 0, …, k − 1 of M. The minors of the steps a, …, b − 1 have the rows b, … and the
    columns 0, …, a − 1 in common. These common rows and columns are eliminated once, by a Cholesky factor of order a.
    What remains for each step is a minor of order b − a of the Schur complement. So a block of steps takes about
    K³ operations, while all K steps one by one would take K⁴/12.
    """
    K = min(M.shape)
    if K <= FEW_STEPS:  # one by one is faster
        return np.array([_log_unshared(M[k:, :k]) for k in range(K)])
    return np.concatenate([np.zeros(0), *(_logs_of_block(M, a, b) for a, b in _blocks_of_steps(K))])


def _blocks_of_steps(K: int) -> list[tuple[int, int]]:
    """The first step of each block, and the step after its last."""
    size = min(max(K // 16, LEAST_BLOCK), LARGEST_BLOCK)
    return [(a, min(a + size, K)) for a in range(0, K, size)]


def _logs_of_block(M: HostArray, a: int, b: int) -> HostArray:
    """The logarithms of `_crossing_logs` for the steps a, …, b − 1."""
    B, C, m = M[b:, :a], M[b:, a:b], b - a
    try:
        L = np.linalg.cholesky(np.eye(a) - B.T @ B)
    except np.linalg.LinAlgError:  # a correlation of 1 to rounding
        return np.array([_log_unshared(M[k:, :k]) for k in range(a, b)])
    common = 2 * np.sum(np.log(np.diag(L)))
    Z = scipy.linalg.solve_triangular(L, np.hstack([M[a:b, :a].T, -B.T @ C]), lower=True)
    R = np.eye(2 * m) - Z.T @ Z
    R[:m, m:] += M[a:b, a:b]
    R[m:, :m] += M[a:b, a:b].T
    R[m:, m:] -= C.T @ C
    found = np.empty(m)
    for t in range(m):  # rows a + t, …, b − 1 and columns a, …, a + t − 1
        sign, log = np.linalg.slogdet(R[t : m + t, t : m + t])
        found[t] = common + log if sign > 0 else -np.inf
    return found


def _dropped_logs(M: HostArray) -> HostArray:
    """Log Λ at every step without projection: the logarithm of the determinant of [[I, Mₖ], [Mₖᵀ, I]].

    The rows and columns of [[I, M], [Mᵀ, I]] are put into another order: first those of variates without a partner in
    the other view, then the pairs from the last to the first. In this order [[I, Mₖ], [Mₖᵀ, I]] is a leading block for
    every k, so one Cholesky factor gives all determinants.
    """
    (p, q), K = M.shape, min(M.shape)
    H = np.eye(p + q)
    H[:p, p:], H[p:, :p] = M, M.T
    order = [*range(K, p), *range(p + K, p + q)]
    for i in reversed(range(K)):
        order += [i, p + i]
    minors = _minors(H, order)
    if minors is None:
        return np.array([_log_unshared(M[k:, k:]) for k in range(K)])
    found: HostArray = minors[p + q - 1 - 2 * np.arange(K)]
    return found


def _minors(S: HostArray, order: list[int]) -> HostArray | None:
    """Logarithms of all leading principal minors of S[order, order], which has the rows and columns of S in this order.

    None if S is not positive definite.
    """
    try:
        L = np.linalg.cholesky(S[np.ix_(order, order)])
    except np.linalg.LinAlgError:
        return None
    return 2 * np.cumsum(np.log(np.diag(L)))


def _log_unshared(B: HostArray) -> float:
    """log det(I − BᵀB); −∞ if the determinant is not positive."""
    B = B if B.shape[0] >= B.shape[1] else B.T
    sign, log = np.linalg.slogdet(np.eye(B.shape[1]) - B.T @ B)
    return float(log) if sign > 0 else -np.inf


def _roy(M: HostArray, projected: bool) -> HostArray:
    """Roy's largest root, the square of the largest correlation, at every step."""
    found = np.zeros(min(M.shape))
    for k in range(len(found)):
        B, A = M[k:, k:], M[k:, :k]
        turned = whitening(np.eye(len(A)) - A @ A.T).T @ B if projected and k else B
        found[k] = np.linalg.norm(turned, 2) ** 2 if turned.size else 0.0
    return found
