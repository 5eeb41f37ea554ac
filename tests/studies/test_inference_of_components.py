"""Permutation tests, parallel analysis and bootstrap intervals by solving again, against loops by hand."""

from __future__ import annotations

import math
import signal
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
import scipy.stats
from backends import backends

import linspec as ls
from linspec.errors import (
    BudgetTooSmall,
    ConvergenceWarning,
    InvalidProblem,
    MissingCapability,
    UnknownOption,
)
from linspec.studies.inference.exchange import Exchange, with_columns_permuted
from tests.studies.paired_problems import MCA, Gram, related

RNG = np.random.default_rng


def covariances(X, Y, k):
    """Singular values of the centred cross product, by NumPy."""
    return np.linalg.svd((X - X.mean(axis=0)).T @ (Y - Y.mean(axis=0)), compute_uv=False)[:k]


def p_values(observed, chance):
    """(r + 1)/(n + 1) for sums of values from each component on, and as many leading values of each permutation."""
    tails = [(observed[j:].sum(), chance[:, : len(observed) - j].sum(axis=1)) for j in range(len(observed))]
    return np.array([(1 + np.sum(drawn >= tail * (1 - 1e-9))) / (1 + len(chance)) for tail, drawn in tails])


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


def test_three_views_are_permuted_each_in_its_own_order():
    views = related(30, (4, 3, 3), (1.0,), 1)
    test = ls.permutation_test(ls.MultisetCCA(views, 2, ridge=1.0), "gram", permutations=20, rng=5)
    generator = RNG(5)
    for drawn in test.drawn:
        orders = [np.arange(30), generator.permutation(30), generator.permutation(30)]
        problem = ls.MultisetCCA([V[order] for V, order in zip(views, orders, strict=True)], 2, ridge=1.0)
        np.testing.assert_allclose(drawn, ls.solve(problem, "gram").eigenvalues)


def test_what_confounds_share_is_not_found():
    """Both views depend on the confound alone, and then on one more variable."""
    rng = RNG(0)
    Z, more = rng.standard_normal((2, 60, 1))
    X, Y = (3 * Z @ rng.standard_normal((1, 3)) + rng.standard_normal((60, 3)) for _ in range(2))
    for shared, given, count in ((0, {}, 1), (0, {"confounds": Z}, 0), (more, {"confounds": Z}, 1)):
        problem = MCA(X + shared, Y + shared, k=3, **given)
        assert ls.permutation_test(problem, Gram(), permutations=99, rng=0).components() == count


def test_classes_are_permuted():
    """Labels of three groups: as good as the loop that permutes labels."""
    y, generator = np.arange(30) % 3, RNG(3)
    X = RNG(7).standard_normal((30, 4)) + np.eye(3, 4)[y]
    problem = ls.Discriminant(X, ls.targets.lda(y), ridge=1.0)
    for drawn in ls.permutation_test(problem, "direct", permutations=19, rng=3).drawn:
        permuted = ls.Discriminant(X, ls.targets.lda(y[generator.permutation(30)]), ridge=1.0)
        np.testing.assert_allclose(drawn, ls.solve(permuted, "direct").eigenvalues[: len(drawn)], rtol=1e-6)


def test_what_cannot_be_tested_is_refused():
    X, Y = related(20, (3, 3), (1.0,), 8)
    problem, products = MCA(X, Y, k=2), MCA(X, scipy.sparse.linalg.aslinearoperator(Y), k=2)
    with_confounds = ls.Discriminant(X, ls.targets.opls(Y), confounds=X[:, 0])
    for of, named, error, says in (
        (MCA(ls.Moments(X, Y, center=True), k=2), {}, InvalidProblem, "got moments, which have none"),
        (with_confounds, {}, InvalidProblem, "removes nothing from H; got confounds"),
        (products, {}, MissingCapability, "needs row slices"),
        (problem, {"solution": ls.solve(problem, Gram())}, InvalidProblem, "Leave it out"),
        (ls.CCA(X, Y, 2), {"form": "dense"}, UnknownOption, "no option 'form' for a CCA without a solver"),
        (problem, {"solver": Gram(), "max_seconds": 1e-9}, BudgetTooSmall, "one solve took"),
    ):
        with pytest.raises(error, match=says):
            ls.permutation_test(of, **named)


def test_solutions_that_have_not_converged_are_counted():
    X, Y = related(30, (6, 5), (), 10)
    with pytest.warns(ConvergenceWarning) as said:
        test = ls.permutation_test(
            ls.CCA(X, Y, 2), "als", permutations=19, max_iterations=1, tol=1e-14, rng=0
        )
    assert test.unconverged == 18
    assert "18 of 19 permutations have not converged" in str(said[-1].message)


def test_a_draw_is_the_problem_on_the_rows_drawn():
    """By hand: repeated rows, NumPy's singular vectors, signs matched to those of all rows."""
    X, Y = related(60, (4, 3), (2.0,), 12)
    found = ls.bootstrap(MCA(X, Y, k=1), Gram(), draws=20, method="percentile", rng=4)
    generator, values, vectors = RNG(4), [], []
    for _ in range(20):
        rows = np.repeat(np.arange(60), generator.multinomial(60, np.full(60, 1 / 60)))
        A, B = (V[rows] - V[rows].mean(axis=0) for V in (X, Y))
        U, s, _ = np.linalg.svd(A.T @ B, full_matrices=False)
        values.append(s[:1])
        vectors.append(U[:, :1] * np.sign(found.solution.x_weights[:, 0] @ U[:, 0]))
    for drawn, ends, errors in (
        (values, found.values, found.errors),
        (vectors, found.weights["X"], found.weight_errors["X"]),
    ):
        np.testing.assert_allclose(ends, np.quantile(drawn, [0.025, 0.975], axis=0))
        np.testing.assert_allclose(errors, np.std(drawn, axis=0, ddof=1))
    np.testing.assert_allclose(found.drawn, values)


def test_what_cannot_be_drawn_is_refused():
    X, Y = related(20, (3, 3), (1.0,), 19)
    problem, other = MCA(X, Y, k=2), ls.solve(MCA(X[:, :2], Y, k=1), Gram())
    for of, named, error, says in (
        (ls.KernelCCA(X, Y, k=1, ridge=1.0), {}, InvalidProblem, "because its rows are not adjusted"),
        (problem, {"solution": ls.solve(ls.SVD(X, 1))}, InvalidProblem, "a MCASolution; got SVDSolution"),
        (problem, {"solution": other}, InvalidProblem, "solution must be of the columns of the problem"),
        (
            ls.SVD(X, 1),
            {"solution": ls.solve(ls.SVD(X, 2))},
            InvalidProblem,
            "than the 1 components that draws have",
        ),
        (
            ls.SVD(X, 1),
            {"solution": ls.rotate(ls.solve(ls.SVD(X, 2)))},
            InvalidProblem,
            "got 2. Leave it out",
        ),
    ):
        with pytest.raises(error, match=says):
            ls.bootstrap(of, **named, **({"solver": Gram()} if isinstance(of, MCA) else {}))


@dataclass(frozen=True, kw_only=True)
class Interrupted(Gram):
    """Presses Ctrl-C while it solves for the fifth time."""

    calls: ClassVar[list[int]] = []

    def iterate(self, problem, moments, context, start):
        self.calls.append(1)
        if len(self.calls) == 5:
            signal.raise_signal(signal.SIGINT)
        return super().iterate(problem, moments, context, start)


@pytest.mark.parametrize(("function", "whole"), [("permutation_test", 2), ("bootstrap", 3)])
def test_ctrl_c_returns_what_there_is(function, whole, ctrl_c):
    """The fifth solve does not count, nor the first, of all rows; permutations solve that on centred rows again."""
    X, Y = related(30, (3, 3), (1.0,), 22)
    Interrupted.calls.clear()
    call, name = getattr(ls, function), "permutations" if function == "permutation_test" else "draws"
    found = call(MCA(X, Y, k=2), Interrupted(), rng=0)
    assert found.interrupted
    assert len(found.drawn) == whole
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of so few permutations
        again = call(MCA(X, Y, k=2), Gram(), rng=0, **{name: whole})
    np.testing.assert_array_equal(found.drawn, again.drawn)


# ---- parallel ----------------------------------------------------------------------------------


N, P = 60, 8


def factors(seed: int, strengths: tuple[float, ...] = (2.0, 1.2)) -> Any:
    """Rows with one factor for each strength, in three columns each, in noise."""
    rng = RNG(seed)
    A = rng.standard_normal((N, P))
    for i, strength in enumerate(strengths):
        A[:, 3 * i : 3 * i + 3] += strength * rng.standard_normal((N, 1))
    return A


def singular_values(A: Any) -> Any:
    """Singular values of the centred matrix, by NumPy."""
    return np.linalg.svd(A - A.mean(axis=0), compute_uv=False)


@pytest.mark.parametrize(
    "backend",
    [b for b in backends() if b.is_array and not b.sparse and not b.missing()],
    ids=lambda b: b.name,
)
def test_the_test_is_parallel_analysis_by_hand(backend):
    """The values of permuted columns, and p-values (r + 1)/(n + 1) by rank, each at least the one before."""
    A = factors(0).astype(np.float64 if backend.float64 else np.float32)
    generator, drawn = RNG(5), []
    for _ in range(40):
        orders = generator.permuted(np.tile(np.arange(N), (P, 1)), axis=1)
        drawn.append(singular_values(np.column_stack([A[order, j] for j, order in enumerate(orders)]))[:4])
    values = singular_values(A)[:4]
    p_values = (1 + np.sum(np.array(drawn) >= values, axis=0)) / 41
    test = ls.permutation_test(ls.SVD(backend.wrap(A), k=4, center=True), "gram", permutations=40, rng=5)
    np.testing.assert_allclose(test.drawn, drawn, rtol=1e-6)
    np.testing.assert_allclose(test.values, values, rtol=1e-6)
    np.testing.assert_array_equal(test.p_values, np.maximum.accumulate(p_values))


def test_planted_factors_are_found_and_named_by_number():
    A = factors(1)
    for data in (A, scipy.sparse.csr_array(A), (100 * A).round().astype(np.int32), A.astype(np.float32)):
        test = ls.permutation_test(ls.SVD(data, k=5, center=True, scale=True), permutations=99, rng=0)
        assert test.components() == 2
        assert [row["component"] for row in test.table(library="")] == [1, 2, 3, 4, 5]
        assert test.table(library="")[0]["p value"] == 0.01  # 1 / (1 + 99): never zero


def test_stored_entries_get_any_rows_equally_often():
    """All 4!/(4 − m)! places of m entries of a column, for few stored entries and for many."""
    for m in (1, 2, 3):
        rows = np.arange(m)
        A = ls.as_operator(scipy.sparse.csr_array((rows + 1.0, (rows, 0 * rows)), shape=(4, 1)))
        generator, found = RNG(0), Counter[tuple[int, ...]]()
        for _ in range(960):
            found[tuple(with_columns_permuted(A, Exchange.free(A.shape[0]), generator).dense()[:, 0])] += 1
        assert len(found) == math.perm(4, m)
        assert scipy.stats.chisquare(list(found.values())).pvalue > 1e-3


def test_permuted_sparse_columns_keep_their_entries_and_stay_sparse():
    rng = RNG(0)
    A = scipy.sparse.random_array((50, 30), density=0.3, rng=rng).tolil()
    A[:, 0], A[:, 1] = 1.0 + np.arange(50)[:, None], 0
    A = A.tocsr()
    twice = scipy.sparse.csr_array(  # each entry is stored as two numbers that add up
        (np.repeat(A.data / 2, 2), np.repeat(A.indices, 2), 2 * A.indptr), shape=A.shape
    )
    for matrix in (A, twice):
        found = with_columns_permuted(ls.as_operator(matrix), Exchange.free(matrix.shape[0]), rng)
        assert found.sparse
        assert found.nnz == A.nnz
        np.testing.assert_array_equal(np.sort(found.dense(), axis=0), np.sort(A.toarray(), axis=0))
        assert (found.dense() != A.toarray()).any(axis=0)[2:].all()


def test_what_confounds_explain_is_no_component():
    """All columns follow one confound: without it a component is found, with it none."""
    rng = RNG(4)
    Z = rng.standard_normal((40, 1))
    A = Z + rng.standard_normal((40, 6))
    for given, count in (({}, 1), ({"confounds": Z}, 0)):
        test = ls.permutation_test(ls.SVD(A, k=2, center=True, **given), permutations=99, rng=0)
        assert test.components() == count
    fewer = ls.permutation_test(ls.SVD(A[:7], center=True, confounds=Z[:7]), permutations=19, rng=0)
    assert len(fewer.values) == 5  # seven rows less a mean and a confound


def test_weights_are_equal_rows_and_fractions_are_refused():
    A, w = factors(0), RNG(0).integers(0, 3, N)
    problems = ls.SVD(A, 3, center=True, sample_weight=w), ls.SVD(np.repeat(A, w, axis=0), 3, center=True)
    weighted, repeated = (ls.permutation_test(each, "gram", permutations=20, rng=1) for each in problems)
    np.testing.assert_allclose(weighted.drawn, repeated.drawn)
    with pytest.raises(InvalidProblem, match="how many equal rows"):
        ls.permutation_test(ls.SVD(A, k=3, sample_weight=w / 2))
