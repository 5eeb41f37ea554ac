"""Permutation tests and bootstrap intervals by solving again, against enumeration, loops by hand, and CCA's own."""

from __future__ import annotations

import itertools
import signal
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import linspec as ls
from linspec.errors import (
    BudgetTooSmall,
    ConvergenceWarning,
    InvalidOption,
    InvalidProblem,
    MissingCapability,
    UnknownOption,
)
from linspec.studies.inference.bootstrap import drawn_solves
from tests.studies.paired_problems import MCA, Agreement, Dense, Gram, related

RNG = np.random.default_rng


def covariances(X, Y, k):
    """Singular values of the centred cross product, by NumPy."""
    return np.linalg.svd((X - X.mean(axis=0)).T @ (Y - Y.mean(axis=0)), compute_uv=False)[:k]


def p_values(observed, chance):
    """(r + 1)/(n + 1) for sums of values from each component on, and as many leading values of each permutation."""
    k = len(observed)
    found = [
        (1 + sum(row[: k - j].sum() >= observed[j:].sum() * (1 - 1e-9) for row in chance)) / (1 + len(chance))
        for j in range(k)
    ]
    return np.array(found)


# ---- permutation tests ------------------------------------------------------------------------------


def test_the_test_is_a_loop_over_permutations_by_hand():
    X, Y = related(40, (5, 4), (1.0,), 0)
    test = ls.permutation_test(MCA(X, Y, k=3), Gram(), permutations=30, statistic="sum", rng=7)
    generator = RNG(7)
    chance = np.array([covariances(X, Y[generator.permutation(40)], 3) for _ in range(30)])
    np.testing.assert_allclose(test.values, covariances(X, Y, 3))
    np.testing.assert_allclose(test.drawn, chance)
    uncorrected = p_values(covariances(X, Y, 3), chance)
    np.testing.assert_array_equal(test.uncorrected, uncorrected)
    np.testing.assert_array_equal(test.p_values, np.maximum.accumulate(uncorrected))
    largest = ls.permutation_test(MCA(X, Y, k=3), Gram(), permutations=30, rng=7)
    by_hand = [(1 + np.sum(chance[:, 0] >= value)) / 31 for value in test.values]
    np.testing.assert_array_equal(largest.uncorrected, by_hand)


@pytest.mark.slow(keep=0)
def test_the_p_value_is_that_of_all_permutations():
    """All 120 orders of five rows can be enumerated: a random sample of them agrees."""
    X, Y = related(5, (2, 2), (1.5,), 3)
    chance = [covariances(X, Y[list(order)], 1) for order in itertools.permutations(range(5))]
    exact = np.mean([values[0] >= covariances(X, Y, 1)[0] * (1 - 1e-9) for values in chance])
    test = ls.permutation_test(MCA(X, Y, k=1), Gram(), permutations=2000, rng=0)
    assert test.p_values[0] == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 2000) + 1 / 2000)


def test_three_views_are_permuted_each_in_its_own_order():
    views = related(30, (4, 3, 3), (1.0,), 1)
    test = ls.permutation_test(Agreement(views, 2, ridge=1.0), Dense(), permutations=20, rng=5)
    generator = RNG(5)
    for drawn in test.drawn:
        orders = [np.arange(30), generator.permutation(30), generator.permutation(30)]
        problem = Agreement([V[order] for V, order in zip(views, orders, strict=True)], 2, ridge=1.0)
        np.testing.assert_allclose(drawn, ls.solve(problem, Dense()).eigenvalues)


def test_planted_components_are_found_and_no_more():
    views = related(100, (6, 5, 4), (1.5, 1.2), 2)
    for problem, solver in (
        (MCA(*views[:2], k=4), Gram()),
        (Agreement(views, 4, ridge=1.0), Dense()),
        (ls.CCA(*views[:2], k=4, ridge=5.0), "gram"),
    ):
        assert ls.permutation_test(problem, solver, permutations=99, rng=0).components() == 2


@pytest.mark.parametrize("strengths", [(), (1.5,)], ids=["nothing", "one"])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.slow(keep=0)
def test_one_component_too_many_is_rare(strengths, count):
    """The share of 200 data sets with one too many is 5 %, or less after a real one (four standard errors above)."""
    found = 0
    for seed in range(200):
        views = related(20, (3, 2, 2)[:count], strengths, seed)
        problem, solver = (
            (MCA(*views, k=2), Gram()) if count == 2 else (Agreement(views, 2, ridge=1.0), Dense())
        )
        test = ls.permutation_test(problem, solver, permutations=19, rng=seed)
        found += test.uncorrected[len(strengths)] <= 0.05
    assert found <= 10 + 4 * np.sqrt(200 * 0.05 * 0.95)
    assert strengths or found >= 1


@pytest.mark.slow(keep=0)
def test_what_confounds_share_is_not_found():
    """Both views depend on the confounds alone: with confounds, 5 % of the tests find something."""
    found = {True: 0, False: 0}
    for seed in range(60):
        rng = RNG(seed)
        Z = rng.standard_normal((25, 2))
        X, Y = (Z @ rng.standard_normal((2, 3)) + rng.standard_normal((25, 3)) for _ in range(2))
        for given in found:
            problem = MCA(X, Y, k=1, **({"confounds": Z} if given else {}))
            found[given] += (
                ls.permutation_test(problem, Gram(), permutations=19, rng=seed).p_values[0] <= 0.05
            )
    assert found[True] <= 3 + 4 * np.sqrt(60 * 0.05 * 0.95)
    assert found[False] >= 40


def test_constant_columns_and_large_means_change_nothing():
    X, Y = related(40, (4, 3), (1.0,), 23)
    far = np.hstack([X + 1e6, np.full((40, 1), 0.1)])
    a, b = (ls.permutation_test(MCA(V, Y, k=2), Gram(), permutations=10, rng=0) for V in (X, far))
    np.testing.assert_allclose(a.drawn, b.drawn, rtol=1e-8)
    np.testing.assert_allclose(a.values, b.values, rtol=1e-8)


def test_weights_are_repeated_rows():
    X, Y = related(20, (3, 3), (1.0,), 5)
    w = RNG(5).integers(0, 3, 20)
    R = np.repeat(np.arange(20), w)
    weighted, repeated = (
        ls.permutation_test(problem, Gram(), permutations=20, rng=0)
        for problem in (MCA(X, Y, k=2, sample_weight=w), MCA(X[R], Y[R], k=2))
    )
    np.testing.assert_array_equal(weighted.p_values, repeated.p_values)
    with pytest.raises(InvalidProblem, match=r"got 0\.5 for row 0"):
        ls.permutation_test(MCA(X, Y, k=2, sample_weight=np.full(20, 0.5)), Gram())


def test_classes_are_permuted():
    """Labels of three groups: as good as the loop that permutes labels."""
    rng = RNG(7)
    y = np.arange(30) % 3
    X = rng.standard_normal((30, 4)) + np.eye(3, 4)[y]
    test = ls.permutation_test(
        ls.Discriminant(X, ls.targets.lda(y), ridge=1.0), "direct", permutations=10, rng=3
    )
    generator = RNG(3)
    for drawn in test.drawn:
        permuted = ls.Discriminant(X, ls.targets.lda(y[generator.permutation(30)]), ridge=1.0)
        np.testing.assert_allclose(drawn, ls.solve(permuted, "direct").eigenvalues[: len(drawn)], rtol=1e-6)


def test_what_cannot_be_tested_is_refused():
    X, Y = related(20, (3, 3), (1.0,), 8)
    problem = MCA(X, Y, k=2)
    slices = (X[i : i + 5] for i in range(0, 20, 5))
    for given, says in {
        ls.LeastSquares(X, Y): "LeastSquaresSolution, the answer of LeastSquares, declares none",
        MCA(ls.Moments(X, Y, center=True), k=2): "got moments, which have none",
        MCA(slices, Y, k=2): "slice by slice",
        ls.Discriminant(X, ls.targets.opls(Y), confounds=X[:, 0]): "removes nothing from H; got confounds",
    }.items():
        with pytest.raises(InvalidProblem, match=says):
            ls.permutation_test(given)
    with pytest.raises(MissingCapability, match="needs row slices"):
        ls.permutation_test(MCA(X, scipy.sparse.linalg.aslinearoperator(Y), k=2))
    with pytest.raises(InvalidProblem, match="Leave it out"):
        ls.permutation_test(problem, solution=ls.solve(problem, Gram()))
    with pytest.raises(InvalidOption, match="one of largest, sum for permuted rows; got 'wilks'"):
        ls.permutation_test(problem, Gram(), statistic="wilks")
    with pytest.raises(UnknownOption, match="has no option 'form' for a CCA without a solver"):
        ls.permutation_test(ls.CCA(X, Y, 2), form="dense")
    with pytest.raises(BudgetTooSmall, match="one solve took"):
        ls.permutation_test(problem, Gram(), max_seconds=1e-9)


def test_solutions_that_have_not_converged_are_counted():
    X, Y = related(30, (6, 5), (), 10)
    with pytest.warns(ConvergenceWarning) as said:
        test = ls.permutation_test(ls.CCA(X, Y, 2), "als", permutations=3, max_iterations=1, tol=1e-14, rng=0)
    assert test.unconverged == 3
    assert "3 of 3 permutations have not converged" in str(said[-1].message)


# ---- bootstrap --------------------------------------------------------------------------------------


def test_a_draw_is_the_problem_on_the_rows_drawn():
    """By hand: repeated rows, NumPy's singular vectors, signs matched to those of all rows."""
    X, Y = related(60, (4, 3), (2.0,), 12)
    found = ls.bootstrap(MCA(X, Y, k=1), Gram(), draws=20, method="percentile", rng=4)
    generator, values, vectors = RNG(4), [], []
    for _ in range(20):
        rows = np.repeat(np.arange(60), generator.multinomial(60, np.full(60, 1 / 60)))
        U, s, _ = np.linalg.svd(
            (X[rows] - X[rows].mean(axis=0)).T @ (Y[rows] - Y[rows].mean(axis=0)), full_matrices=False
        )
        values.append(s[:1])
        vectors.append(U[:, :1] * np.sign(found.solution.x_weights[:, 0] @ U[:, 0]))
    np.testing.assert_allclose(found.drawn, values)
    np.testing.assert_allclose(found.values, np.quantile(values, [0.025, 0.975], axis=0))
    np.testing.assert_allclose(found.errors, np.std(values, axis=0, ddof=1))
    np.testing.assert_allclose(found.weights["X"], np.quantile(vectors, [0.025, 0.975], axis=0))
    np.testing.assert_allclose(found.weight_errors["X"], np.std(vectors, axis=0, ddof=1))


def general(problem, method, draws, seed):
    return drawn_solves(
        problem,
        "gram",
        solution=None,
        draws=draws,
        level=0.95,
        method=method,
        groups=None,
        rng=seed,
        options={},
    )


def test_of_a_cca_it_is_the_bootstrap_of_correlations():
    """On the same draws: the same correlations, ties and percentiles of weights."""
    X, Y = related(80, (5, 4), (2.0, 1.0), 13)
    problem = ls.CCA(X, Y, k=2)
    own, ours = (
        ls.bootstrap(problem, "gram", draws=60, method="percentile", rng=3),
        general(problem, "percentile", 60, 3),
    )
    np.testing.assert_array_equal(own.drawn, ours.drawn)
    np.testing.assert_array_equal(own.correlations, ours.values)
    np.testing.assert_array_equal(own.bias, ours.bias)
    np.testing.assert_allclose(own.x_weights, ours.weights["X"], atol=1e-12)
    np.testing.assert_allclose(own.y_weights, ours.weights["Y"], atol=1e-12)
    np.testing.assert_allclose(own.gaps, ours.gaps, rtol=0.1)  # one rotation for both views, and one for each


def test_a_problem_without_gaps_is_a_group():
    """Equal values: the rows determine the span, and intervals of both vectors are as wide as the span."""
    X, Y = related(400, (4, 4), (1.5, 1.5), 14)
    found = ls.bootstrap(MCA(X, Y, k=2), Gram(), draws=60, rng=0)
    assert found.groups() == ((0, 1),)
    assert "pairs 1 to 2  their singular values may be equal" in repr(found)
    apart = ls.bootstrap(MCA(*related(400, (4, 4), (3.0, 1.0), 14), k=2), Gram(), draws=60, rng=0)
    assert apart.groups() == ((0,), (1,))
    assert (apart.agreement > 0.95).all()
    assert (found.agreement < apart.agreement).all()


def test_of_one_matrix_the_intervals_hold_the_singular_values():
    """The singular values of n rows of known covariance, √n times the standard deviations, but for their errors."""
    A = RNG(16).standard_normal((500, 4)) * [5.0, 3.0, 2.0, 1.0]
    found = ls.bootstrap(ls.SVD(A, k=3, center=True), draws=100, rng=0)
    low, high = found.values
    assert (low <= np.sqrt(500) * np.array([5.0, 3.0, 2.0])).all()
    assert (high >= np.sqrt(500) * np.array([5.0, 3.0, 2.0])).all()
    signs = np.sign(np.diag(found.solution.Vh[:, :3]))
    np.testing.assert_allclose(found.weights["A"].mean(axis=0), np.eye(4, 3) * signs, atol=0.1)
    np.testing.assert_allclose(found.errors, np.array([5, 3, 2]) * np.sqrt(1 / 2), rtol=0.3)  # of √χ²


def test_what_cannot_be_drawn_is_refused():
    X, Y = related(20, (3, 3), (1.0,), 19)
    problem = MCA(X, Y, k=2)
    for given, says in {
        ls.LeastSquares(X, Y): "declares none",
        ls.get_problem("kernel-cca")(
            X, Y, k=1, ridge=1.0
        ): "KernelCCA has none, because its rows are not adjusted",
        MCA(ls.Moments(X, Y, center=True), k=2): "got moments, which have none",
        MCA((X[i : i + 5] for i in (0, 5, 10, 15)), Y, k=2): "slice by slice",
        MCA(X, Y, k=2, sample_weight=np.full(20, 0.5)): r"got 0\.5 for row 0",
    }.items():
        with pytest.raises(InvalidProblem, match=says):
            ls.bootstrap(given)
    with pytest.raises(InvalidProblem, match="takes a problem such as"):
        ls.bootstrap(X)  # type: ignore[arg-type]
    with pytest.raises(InvalidProblem, match="solution must be a MCASolution; got SVDSolution"):
        ls.bootstrap(problem, Gram(), solution=ls.solve(ls.SVD(X, 1)))
    with pytest.raises(InvalidProblem, match="solution must be of the columns of the problem"):
        ls.bootstrap(problem, Gram(), solution=ls.solve(MCA(X[:, :2], Y, k=1), Gram()))
    with pytest.raises(InvalidOption, match="draws must be an integer >= 2"):
        ls.bootstrap(problem, Gram(), draws=1)
    with pytest.raises(InvalidOption, match="method must be one of"):
        ls.bootstrap(problem, Gram(), method="bca")


# ---- arrays of other libraries, and Ctrl-C -----------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Interrupted(Gram):
    """Presses Ctrl-C while it solves for the fifth time."""

    calls: ClassVar[list[int]] = []

    def iterate(self, problem, moments, context, start):
        self.calls.append(1)
        if len(self.calls) == 5:
            signal.raise_signal(signal.SIGINT)
        return super().iterate(problem, moments, context, start)


@pytest.mark.parametrize("function", ["permutation_test", "bootstrap"])
def test_ctrl_c_returns_what_there_is(function, ctrl_c):
    """The fifth solve does not count, nor the first, of all rows; permutations solve that on centred rows again."""
    X, Y = related(30, (3, 3), (1.0,), 22)
    Interrupted.calls.clear()
    call = getattr(ls, function)
    found = call(MCA(X, Y, k=2), Interrupted(), rng=0)
    assert found.interrupted
    count = {"permutations": 2} if function == "permutation_test" else {"draws": 3}
    assert len(found.drawn) == next(iter(count.values()))
    np.testing.assert_array_equal(found.drawn, call(MCA(X, Y, k=2), Gram(), rng=0, **count).drawn)
