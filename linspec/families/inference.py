"""Permutation tests and bootstrap intervals of any problem, each in the sharpest way that the problem has.

`linspec.families.cca.inference` has the ways of canonical correlations; other problems are solved again on permuted or
drawn rows (`linspec.studies.inference`).
"""

from __future__ import annotations

from typing import Any

from linspec.arrays import at_home
from linspec.errors import InvalidOption, InvalidProblem, UnknownOption, shown
from linspec.families.cca.inference.bootstrap import Bootstrap, bootstrapped_pairs
from linspec.families.cca.inference.permutation import PermutationTest, stepwise_test
from linspec.families.cca.problem import CCA
from linspec.registry.keywords import hinted
from linspec.solving.problem import Problem
from linspec.solving.solver import Solver
from linspec.studies.inference.bootstrap import ComponentBootstrap, drawn_solves
from linspec.studies.inference.permutation import ComponentTest, permuted_solves

__all__ = ["bootstrap", "permutation_test"]


@at_home
@hinted
def permutation_test(
    problem: Problem[Any],
    solver: str | Solver | None = None,
    *,
    solution: Any = None,
    permutations: int = 999,
    statistic: str | None = None,
    projected: bool = True,
    max_seconds: float = 3600.0,
    rng: Any = None,
    **options: Any,
) -> PermutationTest | ComponentTest:
    """Test by permuting rows how many components several matrices share: canonical correlations, covariances.

    A CCA is tested stepwise, from one decomposition of its views. Any other problem of two or more matrices whose
    answer declares the values of its components is solved again for each permutation, and so is a CCA if a `solver` is
    passed.

    Parameters
    ----------
    problem : CCA, or Problem of two or more matrices
        A CCA without a `solver`: its data, centring and confounds are used. p + q must be less than n, unless a
        `solution` is passed. Its k, ridge and scale are not used: all pairs are tested, without a ridge. Without
        centring, nonzero means of both views correlate in every permutation. Other problems: k, ridge, scale and all
        other fields are used. Weights must be integers: the number of equal rows that each row stands for.
    solver : str or Solver, optional
        As for `linspec.solve`, with "auto" as the default for all problems but CCA. "auto" chooses once.
    solution : CCASolution, optional
        For a CCA without a `solver`: test its variates on the rows of the problem instead of the columns themselves.
        **It must have been fitted to other rows**: the solver maximised the correlation of the fitted rows, which
        permuted rows cannot match. Use this form of the test for solutions with a ridge, and for data too wide for the
        form without a solution; it needs rows set aside. The result is the number of pairs that the variates share
        beyond chance.
    permutations : int, default 999
        The number of permutations; the smallest p-value is 1 / (permutations + 1).
    statistic : {"wilks", "roy"} or {"largest", "sum"}, optional
        Stepwise: "wilks", the default, combines all remaining pairs, which suits many weak pairs. Roy's largest root
        uses only the first remaining pair, and costs one more singular value decomposition for each step. By solving:
        "largest", the default, compares the value of a component with the largest value of the permuted rows. "sum"
        compares the sum of the values from the component on with the sum of as many leading values of the permuted
        rows, which suits many weak components and depends on k.
    projected : bool, default True
        Stepwise: whether to subtract from permuted variates their projection on the removed pairs. False is the
        published test, which finds too many pairs if rows are few and pairs are strong.
    max_seconds : float, default 3600.0
        A time limit: the test then ends with the permutations made so far, and a ConvergenceWarning. Ctrl-C ends it
        early, too.
    rng : None, int or numpy.random.Generator
        Random numbers for the permutations and the solver.
    **options
        The solver's options and the other arguments of `linspec.solve`; for a CCA only with a `solver`.

    Returns
    -------
    PermutationTest or ComponentTest
        The second for tests by solving. Both have `values`, `p_values` and `components`.

    Raises
    ------
    InvalidProblem
        If the problem has one matrix, or its answers declare no values; if the data are Moments, or rows that can be
        read once; if weights are not integers; if confounds are removed from some of the matrices only. Stepwise, also
        if it has no more rows than the columns have dimensions: then the views share directions in any order.
    InvalidOption, UnknownOption
        If `permutations`, `statistic` or `max_seconds` is invalid, or an option belongs to the other way.
    MissingCapability, NonFiniteData
        If rows or entries cannot be read, or are not finite.
    NoSuitableSolver
        If orthonormal bases of both views, or the residuals of confounds, do not fit into memory.
    BudgetTooSmall
        If `max_seconds` have passed before the first permutation is made.

    Warns
    -----
    ConvergenceWarning
        If `max_seconds` ended the test, or permuted problems have not converged.

    Notes
    -----
    Rows must be exchangeable: not ordered in time, and not from a few families.

    Stepwise: the data are read once, as a dense float64 matrix for each view. Each permutation takes 2npq operations
    for one product, and for Wilks' statistics of all K = min(p, q) steps about p²q + p³/3 and six times pK². Roy's take
    about K⁴.

    By solving: the rows of every matrix but the first are permuted, each matrix in its own order, so the hypothesis for
    the first component is that no two matrices are related. Files are read once if their rows fit into memory. Earlier
    components are not removed from the permuted rows, so later p-values are conservative: beside a strong component a
    weak one of covariances may stay hidden. Where you know how the problem removes a component, remove it from the
    matrices, and test the rest. Confounds are removed as by Huh & Jhun (2001), with the entries as dense matrices.

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
    >>> classes = ls.Discriminant(X, ls.targets.lda(np.arange(200) % 3))
    >>> ls.permutation_test(classes, permutations=99, rng=0).components()  # classes by number tell nothing
    0
    """
    if not isinstance(problem, CCA) or solver is not None:
        _refuse_solution(problem, solution)
        if not projected:
            raise InvalidOption(
                "projected=False is for the stepwise test of a CCA; a test by solving removes no pairs. Leave it out."
            )
        return permuted_solves(
            problem,
            "auto" if solver is None else solver,
            permutations=permutations,
            statistic="largest" if statistic is None else statistic,
            max_seconds=max_seconds,
            rng=rng,
            options=options,
        )
    if options:
        raise UnknownOption(
            f"permutation_test has no option {next(iter(options))!r} for a CCA without a solver, because nothing is "
            'solved. Leave it out, or pass solver="auto".'
        )
    return stepwise_test(
        problem,
        solution=solution,
        permutations=permutations,
        statistic="wilks" if statistic is None else statistic,
        projected=projected,
        max_seconds=max_seconds,
        rng=rng,
    )


def _refuse_solution(problem: Any, solution: Any) -> None:
    if solution is not None:
        raise InvalidProblem(
            "solution= is for the stepwise test of a CCA on rows set aside; a test by solving fits all rows of "
            f"{type(problem).__name__} itself; got {shown(solution)}. Leave it out."
        )


@at_home
@hinted
def bootstrap(
    problem: Problem[Any],
    solver: str | Solver = "auto",
    *,
    solution: Any = None,
    draws: int = 500,
    level: float = 0.95,
    method: str = "corrected",
    groups: Any = None,
    rng: Any = None,
    **options: Any,
) -> Bootstrap | ComponentBootstrap:
    """Compute intervals of values and weights, for a CCA also of loadings, from rows drawn with replacement.

    Parameters
    ----------
    problem : Problem
        Any problem with `sample_weight` whose answer declares weights and the values of its components: CCA, SVD,
        Discriminant, problems of your own. Its ridge, centring, scale and confounds are used. Weights must be
        integers, which count rows. Targets of a Discriminant are used as given. The data are read many times; files,
        except for a CCA, once if their rows fit into memory.
    solver : str or Solver, default "auto"
        As for `linspec.solve`. "auto" chooses once. Solvers with the trait "warm-start" begin at the solution.
    solution : Solution, optional
        The solution of this problem; by default it is computed.
    draws : int, default 500
        The number of draws, at least 2. Intervals at 95 % need several hundred.
    level : float, default 0.95
        The coverage of the intervals.
    method : {"corrected", "percentile"}, default "corrected"
        "corrected" removes the bias of the values of samples (`bias`), which percentiles contain twice, and the bias of
        the gaps between them, which makes percentiles of loadings and weights too narrow. "percentile" takes plain
        percentiles of the draws, for comparison.
    groups : array of shape (n,), optional
        A label for each row. Whole groups are drawn: families, subjects, sites. Rows within a group may depend on each
        other.
    rng : None, int or numpy.random.Generator
        Random numbers for the draws and the solver.
    **options
        The solver's options and the other arguments of `linspec.solve`. A larger ``tol`` saves time.

    Returns
    -------
    Bootstrap or ComponentBootstrap
        The first for a CCA.

    Raises
    ------
    InvalidProblem
        If answers of the problem have no values or weights, or its rows no weights; if the data are Moments, or rows
        that can be read only once; if weights are not integers; if groups or the solution do not fit.
    InvalidOption
        If `draws`, `level` or `method` is invalid.
    NoSuitableSolver
        If the loadings and weights of all draws do not fit into memory.

    Notes
    -----
    Each draw costs a solve and one sweep, for the loadings or scores. The intervals belong to the problem with its
    ridge. Loadings and weights of the i-th component belong to the i-th largest value of the source. If that is close
    to the next one, their intervals are wide (method `groups` of the result). The gap between the last component and
    the next one is unknown: compute one more than you interpret. If a value of the source is 0, a bootstrap shows
    little about it; `linspec.permutation_test` tests whether there is a component.

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
    >>> ls.bootstrap(ls.SVD(X, k=2), draws=50, rng=0).weights["A"].shape
    (2, 4, 2)
    """
    settings = {"solution": solution, "draws": draws, "level": level, "method": method, "groups": groups}
    if isinstance(problem, CCA):
        return bootstrapped_pairs(problem, solver, **settings, rng=rng, options=options)
    return drawn_solves(problem, solver, **settings, rng=rng, options=options)
