"""How many canonical correlations there are: by permutation of the rows, and what chance alone gives.

Problem: canonical correlations of samples are never zero, and with many columns they are large. Say which are more than
rows put together at random would show.
Method: `permutation_test` is stepwise. At step i the pairs before it are removed, the remaining canonical variates of
X are permuted, and the canonical correlations between them and those of Y are computed anew; Wilks' statistic of
these (or the largest of them, Roy's) is compared with that of the data. As a pair cannot be there where an earlier
one is not, its p-value is the largest of those up to it (closure). `null_correlations` is for data of which only some
pairs can be had: the correlations that a solver finds when the rows of Y are permuted.
Source: Winkler, Renaud, Smith & Nichols 2020, NeuroImage 220, 117065, doi:10.1016/j.neuroimage.2020.117065.
Where we differ: the variates that remain in the data hold nothing of the pairs removed; permuted, they do, as any n
numbers would, and correlate less for it. With few rows and strong pairs the published test so finds one too many more
often than it says (measured at 5 %: 8 % with 40 rows, 10 and 8 columns and a pair of .9, 14 % with 30 rows, 10 and 10
columns and pairs of .99 and .95). Here what permuted variates of X share with removed variates of Y is taken out of
them again: 5 % and 3 %. That is the null distribution of Gaussian rows where the pairs removed are near 1, and on the
safe side where they are not. ``projected=False`` is as published. All variates are kept as orthonormal bases of the two
column spaces, of which permuting rows leaves orthonormal ones: a permutation costs one product M = UᵀPᵀV, of which
every step sees blocks, and the leading minors of one Cholesky factor are Wilks' statistics of all steps. Columns that
depend on others are cut by rank. Only means are taken out, which commutes with permutations, so rows stay exchangeable
without the semi-orthogonal basis that other nuisance variables call for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import cost, machine
from linspec.arrays import Array, Home, HostArray, random_generator, reciprocal, to_host
from linspec.block_algebra import rank_cut, whitening
from linspec.errors import (
    ConvergenceWarning,
    InvalidOption,
    InvalidProblem,
    MissingCapability,
    NonFiniteData,
    NoSuitableSolver,
    warn,
)
from linspec.families.cca.problem import CCA
from linspec.families.cca.solution import CCASolution
from linspec.interrupts import HowItEnded, Request, first_interrupt, had_nothing, nothing_yet, remember
from linspec.operators import LinearOperator, as_operator
from linspec.solver import ALWAYS_AVAILABLE, Solver, solve
from linspec.sweeps.finite import explain_non_finite

__all__ = ["PermutationTest", "null_correlations", "permutation_test"]

STATISTICS = ("wilks", "roy")

TIE = 1e-9
"""Relative difference of two statistics below which they are equal: permutations of equal rows are ties."""


@dataclass(frozen=True, eq=False)
class PermutationTest:
    """Which canonical correlations are more than chance; K is the lower rank of the two views.

    Attributes
    ----------
    correlations : numpy.ndarray of shape (K,)
        All canonical correlations of the rows tested, without a ridge, in decreasing order.
    p_values : numpy.ndarray of shape (K,)
        For each, the chance of a false finding here or before: never decreasing. At least 1 / (permutations + 1).
    uncorrected : numpy.ndarray of shape (K,)
        The same for each step by itself, before the closure.
    statistics : numpy.ndarray of shape (K,)
        Of the data at each step: Wilks' Λ, the product of 1 − ρ² over the pairs left (small is much), or Roy's largest
        root ρ².
    statistic : {"wilks", "roy"}
    permutations : int
        Beside the data as they are: fewer than were asked for where Ctrl-C ended the test.
    interrupted : bool
        Whether it did.
    """

    correlations: HostArray
    p_values: HostArray
    uncorrected: HostArray
    statistics: HostArray
    statistic: str
    permutations: int
    interrupted: bool = HowItEnded(False)  # type: ignore[assignment]  # a descriptor

    def components(self, alpha: float = 0.05) -> int:
        """How many leading pairs have a p-value of at most `alpha`.

        Parameters
        ----------
        alpha : float, default 0.05
            The chance of one pair too many that is put up with.

        Raises
        ------
        InvalidOption
            When `alpha` is not between 0 and 1.
        """
        if not 0 < alpha < 1:
            raise InvalidOption(f"alpha must be between 0 and 1; got {alpha!r}.")
        return int(np.sum(self.p_values <= alpha))

    def __repr__(self) -> str:
        return (
            f"<PermutationTest by {self.statistic}, {self.permutations} permutations"
            f"{', interrupted' * self.interrupted}: {self.components()} of "
            f"{len(self.p_values)} pairs at 5 %, p {np.array2string(self.p_values[:5], precision=3)}>"
        )


def permutation_test(
    problem: CCA,
    *,
    solution: CCASolution | None = None,
    permutations: int = 999,
    statistic: str = "wilks",
    projected: bool = True,
    rng: Any = None,
) -> PermutationTest:
    """Test how many canonical correlations there are, by permuting rows.

    Parameters
    ----------
    problem : CCA
        Its data and centring count, with p + q less than n, or any p and q with a `solution`. All pairs are tested,
        without a ridge, whatever its k and ridge. Without centring, means that both views have stay in every
        permutation.
    solution : CCASolution, optional
        Test its variates of the rows of the problem in place of the columns themselves. **The rows must not be those
        that it was fitted to**: those are as correlated as the solver could make them, permuted ones are not. This is
        the test for data too wide for the other one, at the price of the rows set aside, and for solutions with a
        ridge. It tells how many pairs the spans of the variates share beyond chance.
    permutations : int, default 999
        The least p-value is 1 / (permutations + 1).
    statistic : {"wilks", "roy"}, default "wilks"
        Wilks' Λ gathers all pairs that are left, and is the one for many weak ones; Roy's largest root looks at the
        first of them alone, and costs a singular value decomposition a step more.
    projected : bool, default True
        Take what permuted variates share with the pairs removed out of them. False: the test as published, which
        finds too many with few rows and strong pairs.
    rng : None, int or numpy.random.Generator

    Returns
    -------
    PermutationTest

    Raises
    ------
    InvalidProblem
        What is no CCA, or no more rows than the columns span: then the views share directions whatever the order of the
        rows.
    InvalidOption
        For `permutations` and `statistic`.
    MissingCapability, NonFiniteData
        Entries that cannot be read, or are not finite.
    NoSuitableSolver
        When orthonormal bases of both views do not fit into memory.

    Notes
    -----
    Rows must be exchangeable: not ordered in time, nor of few families. The data are read once, as a dense float64
    matrix a view. Each permutation takes 2npq operations for one product and, for the statistics of all K = min(p, q)
    steps, p²(p + q) + K⁴/12.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.standard_normal((200, 2))
    >>> X = np.hstack([shared, rng.standard_normal((200, 4))])
    >>> Y = np.hstack([shared + rng.standard_normal((200, 2)), rng.standard_normal((200, 3))])
    >>> ls.permutation_test(ls.CCA(X, Y), permutations=199, rng=0).components()
    2
    """
    _check_problem(problem, "permutation_test")
    _check_permutations(permutations)
    if statistic not in STATISTICS:
        raise InvalidOption(f"statistic must be one of {', '.join(STATISTICS)}; got {statistic!r}.")
    X, Y = (problem.X, problem.Y) if solution is None else solution.transform(problem.X, problem.Y)
    U, V, rho, home = _variates(X, Y, center=problem.center)
    generator = random_generator(rng)
    n, steps = U.shape[0], len(rho)
    of_product = {"wilks": _wilks, "roy": _roy}[statistic]
    with np.errstate(divide="ignore"):  # a correlation of 1 has an infinite statistic
        logs = -np.log1p(-(rho**2))
    observed = np.cumsum(logs[::-1])[::-1] if statistic == "wilks" else rho**2
    exceeded, made = np.zeros(steps), 0
    stop = Request()
    with first_interrupt(stop.make):
        while made < permutations and not stop.made:
            if steps:
                order = home.xp.asarray(generator.permutation(n), device=home.device)
                M = to_host(home.xp.take(U, order, axis=0).T @ V)
                exceeded += of_product(M, projected) >= observed * (1 - TIE)
            made += 1
    if not made:
        raise nothing_yet()
    uncorrected = (1 + exceeded) / (1 + made)
    test = PermutationTest(
        correlations=rho,
        p_values=np.maximum.accumulate(uncorrected),
        uncorrected=uncorrected,
        statistics=np.exp(-observed) if statistic == "wilks" else observed,
        statistic=statistic,
        permutations=made,
        interrupted=stop.made,
    )
    if stop.made:
        remember(test)
    return test


def null_correlations(
    problem: CCA, solver: str | Solver = "auto", *, permutations: int = 1, rng: Any = None, **options: Any
) -> HostArray:
    """The canonical correlations that are left when the rows of Y are permuted: what chance alone gives.

    Parameters
    ----------
    problem : CCA
        Its ridge, centring and k count.
    solver : str or Solver, default "auto"
        As for `linspec.solve`.
    permutations : int, default 1
        Problems to solve. They differ little on large data.
    rng : None, int or numpy.random.Generator
        For the permutations and the solver.
    **options
        The solver's options and the other arguments of `linspec.solve`.

    Returns
    -------
    numpy.ndarray of shape (permutations, k)
        Decreasing along rows; with fewer rows, and a ConvergenceWarning, where Ctrl-C ended it. The largest are a level
        for `CCASolution.supported`, or to look at beside the correlations found: those that are no larger are what so
        many columns show on so many rows anyway.

    Raises
    ------
    MissingCapability
        When Y has no row slices, so that its rows cannot be permuted.
    InvalidProblem, InvalidOption
        What is no CCA, or no number of permutations.

    Notes
    -----
    Each permutation costs a solve, and memory for the permuted rows of Y. All pairs are set beside the correlations
    of data that have none, without the removal of earlier pairs that `permutation_test` makes, so later pairs are held
    to a slightly higher level than need be.

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
    _check_problem(problem, "null_correlations")
    _check_permutations(permutations)
    if not problem.Y.sliceable:
        raise MissingCapability(
            f"null_correlations permutes the rows of Y, which needs row slices; got {problem.Y!r}. Pass an "
            "array, a sparse matrix or a file, or permute the rows where they come from."
        )
    generator = random_generator(rng)
    found, made = np.zeros((permutations, problem.k)), 0
    stop = Request()
    with first_interrupt(stop.make):
        for row in found:
            Y = problem.Y.rows(generator.permutation(problem.Y.shape[0]))
            permuted = CCA(problem.X, Y, problem.k, ridge=problem.ridge, center=problem.center)
            try:
                correlations = solve(permuted, solver, rng=generator, **options).correlations
            except KeyboardInterrupt as interrupt:
                if not had_nothing(interrupt):
                    raise
                break
            if stop.made:  # of a solve that came to no end
                break
            row[: len(correlations)] = correlations
            made += 1
    if not made:
        raise nothing_yet()
    if made < permutations:
        found = found[:made].copy()
        warn(
            f"null_correlations: Ctrl-C ended it after {made} of {permutations} permutations.",
            ConvergenceWarning,
        )
        remember(found, read=True)
    return found


# ---- the variates ----------------------------------------------------------------------------------


def _variates(X: Any, Y: Any, *, center: bool) -> tuple[Array, Array, HostArray, Home]:
    """Orthonormal bases of both column spaces whose first columns are the canonical variates; the correlations."""
    views = {"X": as_operator(X, "X"), "Y": as_operator(Y, "Y")}
    _check_memory(views)
    (Ux, Uy), home = [_basis(name, A, center=center) for name, A in views.items()], views["X"].home.blocks
    rows, ranks = Ux.shape[0], (Ux.shape[1], Uy.shape[1])
    shared = sum(ranks) - (rows - center)
    if shared > 0 and min(ranks) > 0:
        raise InvalidProblem(
            f"the columns of X span {ranks[0]} dimensions and those of Y {ranks[1]}, and {rows} rows have "
            f"{rows - center}: whatever the order of the rows, {shared} correlations are 1 and nothing can be tested. "
            "Set rows aside and test a solution on them (solution=), or pass fewer columns: principal components, say."
        )
    P, rho, Qt = np.linalg.svd(to_host(Ux.T @ Uy))
    return Ux @ home.place(P), Uy @ home.place(Qt.T), np.clip(rho, 0.0, 1.0), home


def _basis(name: str, A: LinearOperator, *, center: bool) -> Array:
    """An orthonormal basis of the columns, their means taken out; of columns scaled alike, with a cut in rank."""
    home = A.home.blocks
    xp = home.xp
    W = home.place(A.dense())
    with np.errstate(all="ignore"):  # what is not finite is found in the lengths
        if center:  # about the first row first: a constant column is then exactly zero
            W = W - W[:1, :]
            W = W - xp.mean(W, axis=0)[None, :]
        lengths = xp.sqrt(xp.sum(W * W, axis=0))
    if not np.isfinite(to_host(lengths)).all():
        raise NonFiniteData(explain_non_finite({name: A}))
    Q, R = xp.linalg.qr(W * reciprocal(lengths)[None, :], mode="reduced")
    U, s, _ = np.linalg.svd(to_host(R), full_matrices=False)
    rank = int(np.sum(s > rank_cut(A.shape, A.dtype) * s[0])) if s[0] > 0 else 0
    return Q @ home.place(np.ascontiguousarray(U[:, :rank]))


def _check_memory(views: dict[str, LinearOperator]) -> None:
    """Refuse bases that would not fit, and entries that cannot be read."""
    for name, A in views.items():
        if not A.readable:
            raise MissingCapability(
                f"the entries of {name} cannot be read; got {A!r}. Test a solution on rows that it was not fitted to "
                "(solution=)."
            )
    n = next(iter(views.values())).shape[0]
    needed = 8.0 * 4 * n * sum(A.shape[1] for A in views.values())
    available = machine.available_memory() if needed > ALWAYS_AVAILABLE else needed
    if needed > available:
        raise NoSuitableSolver(
            f"orthonormal bases of both views would take {cost.human_bytes(needed)} of memory; "
            f"{cost.human_bytes(available)} are available. Set rows aside and test a solution on them (solution=)."
        )


def _check_problem(problem: Any, function: str) -> None:
    if not isinstance(problem, CCA):
        raise InvalidProblem(
            f"{function} takes a linspec.CCA; got {type(problem).__name__}. Pass linspec.CCA(X, Y, k)."
        )


def _check_permutations(permutations: Any) -> None:
    if isinstance(permutations, bool) or not isinstance(permutations, int | np.integer) or permutations < 1:
        raise InvalidOption(f"permutations must be an integer >= 1; got {permutations!r}.")


# ---- the statistics --------------------------------------------------------------------------------


def _wilks(M: HostArray, projected: bool) -> HostArray:
    """−log Λ at every step, of M = UᵀV for a permuted basis U.

    At step k the variates left are Uₖ and Vₖ, their product Mₖ = M[k:, k:], and Λ = det(I − MₖᵀMₖ). Without what it
    shares with the removed V[:, :k], by A = M[k:, :k], Uₖ has the Gram matrix I − AAᵀ, and Λ = det(I − AAᵀ − MₖMₖᵀ) /
    det(I − AAᵀ), of which the numerators of all k are leading minors of one matrix.
    """
    logs = _projected_logs(M) if projected else _dropped_logs(M)
    return np.nan_to_num(-logs, nan=np.inf, posinf=np.inf)


def _projected_logs(M: HostArray) -> HostArray:
    steps = range(min(M.shape))
    above = _minors(np.eye(len(M)) - M @ M.T, list(reversed(range(len(M)))))
    if above is None:  # a correlation of 1 to rounding
        whole = np.array([_log_unshared(M[k:, :]) for k in steps])
    else:
        whole = above[len(M) - 1 - np.arange(len(steps))]
    with np.errstate(invalid="ignore"):
        found: HostArray = whole - np.array([_log_unshared(M[k:, :k]) for k in steps])
    return found


def _dropped_logs(M: HostArray) -> HostArray:
    """With the pairs in reverse order, [[I, Mₖ], [Mₖᵀ, I]] are leading blocks of one matrix, too."""
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
    """Logarithms of all leading minors in an order; None where S is not positive definite."""
    try:
        L = np.linalg.cholesky(S[np.ix_(order, order)])
    except np.linalg.LinAlgError:
        return None
    return 2 * np.cumsum(np.log(np.diag(L)))


def _log_unshared(B: HostArray) -> float:
    """log det(I − BᵀB)."""
    B = B if B.shape[0] >= B.shape[1] else B.T
    sign, log = np.linalg.slogdet(np.eye(B.shape[1]) - B.T @ B)
    return float(log) if sign > 0 else -np.inf


def _roy(M: HostArray, projected: bool) -> HostArray:
    """The squared largest correlation at every step."""
    found = np.zeros(min(M.shape))
    for k in range(len(found)):
        B, A = M[k:, k:], M[k:, :k]
        turned = whitening(np.eye(len(A)) - A @ A.T).T @ B if projected and k else B
        found[k] = np.linalg.norm(turned, 2) ** 2 if turned.size else 0.0
    return found
