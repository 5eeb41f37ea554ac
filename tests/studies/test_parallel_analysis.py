"""Principal components beside those of permuted columns, against NumPy, enumeration and planted factors."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from backends import backends

import linspec as ls
from linspec.errors import InvalidProblem
from linspec.studies.inference.rows import with_columns_permuted

RNG = np.random.default_rng
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
        assert [row["component"] for row in test.table()] == [1, 2, 3, 4, 5]
        assert test.table()[0]["p value"] == 0.01  # 1 / (1 + 99): never zero


def test_stored_entries_get_any_rows_equally_often():
    """All 4!/(4 − m)! places of m entries of a column, for few stored entries and for many."""
    for m in (1, 2, 3):
        rows = np.arange(m)
        A = ls.as_operator(scipy.sparse.csr_array((rows + 1.0, (rows, 0 * rows)), shape=(4, 1)))
        generator, found = RNG(0), Counter[tuple[int, ...]]()
        for _ in range(960):
            found[tuple(with_columns_permuted(A, generator).dense()[:, 0])] += 1
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
        found = with_columns_permuted(ls.as_operator(matrix), rng)
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
    fewer = ls.permutation_test(ls.SVD(A[:7], center=True, confounds=Z[:7]), permutations=5, rng=0)
    assert len(fewer.values) == 5  # seven rows less a mean and a confound


def test_weights_are_equal_rows_and_fractions_are_refused():
    A, w = factors(0), RNG(0).integers(0, 3, N)
    problems = ls.SVD(A, 3, center=True, sample_weight=w), ls.SVD(np.repeat(A, w, axis=0), 3, center=True)
    weighted, repeated = (ls.permutation_test(each, "gram", permutations=20, rng=1) for each in problems)
    np.testing.assert_allclose(weighted.drawn, repeated.drawn)
    with pytest.raises(InvalidProblem, match="how many equal rows"):
        ls.permutation_test(ls.SVD(A, k=3, sample_weight=w / 2))
