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
costs one product M = UᵀPᵀV; every step uses blocks of it, and Wilks' statistics of all steps are principal minors of
[[I, M], [Mᵀ, I]]. Dependent columns are cut by rank. If only means are subtracted, this commutes
with permutations. The residuals of confounds are not exchangeable: n rows of rank n − s. So the views are multiplied by
Qᵀ for a matrix Q with orthonormal columns that are orthogonal to the constant and the confounds, and the n − s rows of
the products are permuted (Huh & Jhun 2001, Commun. Stat. Theory Methods 30:2023, doi:10.1081/STA-100106060; Winkler et
al., section 2.5). Qᵀ is the last n − s rows of s Householder reflections.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from linspec.arrays import Array, Home, HostArray, random_generator, reciprocal, to_host
from linspec.errors import ConvergenceWarning, InvalidOption, InvalidProblem, MissingCapability, warn
from linspec.families.cca.problem import CCA
from linspec.families.cca.solution import CCASolution
from linspec.linalg.small_matrices import rank_cut, whitening
from linspec.operators import LinearOperator, as_operator
from linspec.process.interrupts import NothingYet, Request
from linspec.process.plurals import count_of
from linspec.solving.checks import check_count
from linspec.solving.select import check_fits
from linspec.solving.solve import solve
from linspec.solving.solver import Solver
from linspec.studies.inference.permutation import (
    TIE,
    Tested,
    checked_seconds,
    made_in_time,
    sums_from,
    warn_of_time,
)
from linspec.studies.inference.rows import on_images, permuted, reflected, reflections, with_equal_rows
from linspec.workers import brought_here

__all__ = ["PermutationTest", "check_problem", "null_correlations", "stepwise_test"]

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
    U, V, rho, home = _variates(problem, X, Y)
    generator, n, stop = random_generator(rng), U.shape[0], Request()
    with np.errstate(divide="ignore"):  # a correlation of 1 has an infinite statistic
        observed = sums_from(-np.log1p(-(rho**2))) if statistic == "wilks" else rho**2
    exceeded = np.zeros(len(rho))

    def permute(_: int) -> None:
        if len(rho):
            order = home.xp.asarray(generator.permutation(n), device=home.device)
            M = to_host(home.xp.take(U, order, axis=0).T @ V)
            exceeded[:] += STATISTICS[statistic](M, projected) >= observed * (1 - TIE)

    slow = (
        f"the bases of {X.shape[1]} + {Y.shape[1]} columns in {n} rows take longer. Pass fewer columns, or set rows "
        "aside and test a solution on them (solution=)"
    )
    made = made_in_time(permute, permutations, stop, max_seconds, until, slow)
    if not stop.made:
        warn_of_time(made, permutations, max_seconds)
    uncorrected = (1 + exceeded) / (1 + made)
    return PermutationTest(
        values=rho,
        p_values=np.maximum.accumulate(uncorrected),
        uncorrected=uncorrected,
        statistics=np.exp(-observed) if statistic == "wilks" else observed,
        statistic=statistic,
        permutations=made,
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
    images = on_images(with_equal_rows(problem, "null_correlations"), "null_correlations")
    generator = random_generator(rng)
    found, stop = np.zeros((permutations, problem.k)), Request()

    def permute(number: int) -> None:
        correlations = solve(permuted(images, generator), solver, rng=generator, **options).correlations
        if stop.made:  # the result of an interrupted solve does not count
            raise NothingYet
        found[number, : len(correlations)] = correlations

    made = made_in_time(permute, permutations, stop, math.inf, math.inf, "")
    if made < permutations:
        warn(
            f"null_correlations: Ctrl-C ended it after {made} of {count_of(permutations, 'permutation')}.",
            ConvergenceWarning,
        )
    return found[:made].copy()


# ---- the variates ----------------------------------------------------------------------------------


def _variates(problem: CCA, X: Any, Y: Any) -> tuple[Array, Array, HostArray, Home]:
    """Orthonormal bases of both column spaces, with the canonical variates first, and the correlations."""
    views = {"X": as_operator(X, "X"), "Y": as_operator(Y, "Y")}
    for name, A in views.items():
        if not A.readable:
            raise MissingCapability(
                f"the entries of {name} cannot be read; got {A!r}. Test a solution on rows that it was not fitted to "
                "(solution=)."
            )
    home = views["X"].home.blocks
    needed = 8.0 * 4 * views["X"].shape[0] * sum(A.shape[1] for A in views.values())
    remedy = "Set rows aside and test a solution on them (solution=)."
    check_fits(needed, "orthonormal bases of both views", remedy, home.free_memory)
    vectors = reflections(problem)
    Ux, Uy = (_basis(name, A, vectors, centred=bool(problem.center)) for name, A in views.items())
    dimensions = Ux.shape[0] - (problem.center and not vectors)
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
    return Ux @ home.place(P), Uy @ home.place(Qt.T), np.clip(rho, 0.0, 1.0), home


def _basis(name: str, A: LinearOperator, vectors: list[HostArray], *, centred: bool) -> Array:
    """An orthonormal basis of the columns of a view, after centring, or after reflections (`reflected`).

    The columns are scaled to length 1. The basis spans their left singular vectors whose singular values are above the
    fraction `rank_cut` of the largest.
    """
    home = A.home.blocks
    W, squares, left = reflected(name, A, vectors, centred=centred)
    scales = reciprocal(home.xp.sqrt(squares)) * home.xp.astype(left, W.dtype)
    Q, R = home.xp.linalg.qr(W * scales[None, :], mode="reduced")
    U, s, _ = np.linalg.svd(to_host(R), full_matrices=False)
    rank = int(np.sum(s > rank_cut(A.shape, A.rounded_dtype) * s[0])) if s[0] > 0 else 0
    return Q @ home.place(np.ascontiguousarray(U[:, :rank]))


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
    numerators for all k are principal minors of one matrix, I − MMᵀ. Without `projected`, Λ is the minor of
    [[I, M], [Mᵀ, I]] with the rows and columns from k on of both views.
    """
    (p, q), K = M.shape, min(M.shape)
    steps = np.arange(K)
    if projected:
        below = _crossing_logs(M)
        whole = _leading_minors((np.eye(p) - M @ M.T)[::-1, ::-1])[p - 1 - steps]
        logs = np.where(np.isneginf(below), np.nan, whole - np.where(np.isneginf(below), 0.0, below))
    else:  # first variates without a partner in the other view, then the pairs from the last to the first
        H = np.block([[np.eye(p), M], [M.T, np.eye(q)]])
        order = [*range(K, p), *range(p + K, p + q), *np.stack([steps, p + steps], axis=1)[::-1].flat]
        logs = _leading_minors(H[np.ix_(order, order)])[p + q - 1 - 2 * steps]
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
        kept = np.concatenate([rows[half], columns[half]])
        A, C = R[np.ix_(common, common)], R[np.ix_(common, kept)]
        log = _log_dets(A)
        if np.isneginf(log):  # a correlation of 1 to rounding
            halves.append(np.full(len(rows[half]), log))
        else:
            halves.append(log + _of_steps(R[np.ix_(kept, kept)] - C.T @ np.linalg.solve(A, C)))
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


def _roy(M: HostArray, projected: bool) -> HostArray:
    """Roy's largest root, the square of the largest correlation, at every step."""
    found = np.zeros(min(M.shape))
    for k in range(len(found)):
        B, A = M[k:, k:], M[k:, :k]
        turned = whitening(np.eye(len(A)) - A @ A.T).T @ B if projected and k else B
        found[k] = np.linalg.norm(turned, 2) ** 2 if turned.size else 0.0
    return found


STATISTICS = {"wilks": _wilks, "roy": _roy}
