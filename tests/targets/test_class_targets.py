"""Targets of class labels that lie in blocks are those of the same labels in memory, and stay where the labels are."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import InvalidProblem, LinspecError, UnsupportedData
from linspec.targets.of_blocks import class_targets
from linspec.workers import BlockOperator, InProcess

RNG = np.random.default_rng(0)
N, P = 600, 7
CUTS = [0, 100, 100, 350, N]
LETTERS = np.array(["a", "bb", "ccc"])[RNG.integers(0, 3, N)]
X = RNG.standard_normal((N, P)) + 2.0 * (LETTERS[:, None] == "bb") * RNG.standard_normal(P)
CENSUS = {
    "strings": LETTERS,
    "integers": RNG.integers(-2, 3, N),
    "floats": np.where(RNG.random(N) < 0.2, np.nan, RNG.integers(0, 4, N)),
    "objects": np.array([None if u < 0.3 else text for u, text in zip(RNG.random(N), LETTERS, strict=True)]),
    "sorted": np.repeat(["x", "y", "z"], N // 3),  # no block knows all classes
    "booleans": RNG.random(N) < 0.4,
}


def cut(rows):
    return [rows[a:b] for a, b in pairwise(CUTS)]


def targets(blocks, unlabelled=(), sample_weight=None):
    engine = InProcess()
    return class_targets(engine, engine.hold(blocks), unlabelled, sample_weight)


def entries(H):
    """All of H, by a product with the identity."""
    return H.matmat(np.eye(H.shape[1]))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", CENSUS)
def test_targets_are_those_of_labels_in_memory(kind, weighted):
    y = CENSUS[kind]
    often = RNG.integers(0, 3, N).astype(float) if weighted else None
    here = ls.targets.lda(y, sample_weight=often)
    H = targets(cut(y), sample_weight=often)
    np.testing.assert_allclose(entries(H), here.toarray(), rtol=1e-14)
    assert H.classes[0].tolist() == here.classes[0].tolist()
    np.testing.assert_allclose(H.classes[1], here.classes[1])


def test_entries_that_mean_no_class_and_classes_without_weight_have_no_column():
    y = CENSUS["strings"]
    np.testing.assert_allclose(
        entries(targets(cut(y), "ccc")), ls.targets.lda(y, unlabelled="ccc").toarray(), rtol=1e-14
    )
    weights = (y != "a").astype(float)
    here = ls.targets.lda(y, sample_weight=weights)
    np.testing.assert_allclose(entries(targets(cut(y), sample_weight=weights)), here.toarray(), rtol=1e-14)


@pytest.mark.parametrize("form", [np.array, scipy.sparse.csr_array, scipy.sparse.csc_array])
def test_indicator_matrices_in_blocks(form):
    Z = np.eye(5)[RNG.integers(0, 4, N)] * (RNG.random(N) < 0.9)[:, None]  # the last class has no row
    H = targets([form(block) for block in cut(Z)])
    np.testing.assert_allclose(entries(H), ls.targets.lda(Z), rtol=1e-14)
    assert H.classes[0].tolist() == [0, 1, 2, 3]


def test_a_block_of_floats_has_the_classes_of_one_of_integers():
    first, *others = cut(CENSUS["integers"])
    H = targets([first, *(block.astype(float) for block in others)])
    np.testing.assert_allclose(entries(H), ls.targets.lda(CENSUS["integers"]).toarray(), rtol=1e-14)


@pytest.mark.parametrize("solver", ["two-stage", "direct", "gram"])
def test_a_classifier_of_rows_in_blocks_predicts_like_one_in_memory(solver):
    if f"discriminant/{solver}" not in ls.solvers():
        pytest.skip(f"no solver {solver}")
    there = ls.solve(ls.Discriminant(BlockOperator(cut(X)), targets(cut(LETTERS)), 2, ridge=0.1), solver)
    here = ls.solve(ls.Discriminant(X, ls.targets.lda(LETTERS), 2, ridge=0.1), solver)
    np.testing.assert_allclose(there.eigenvalues, here.eigenvalues, rtol=1e-8)
    assert there.predict(X).tolist() == here.predict(X).tolist()


@pytest.mark.parametrize(
    ("blocks", "error", "said"),
    [
        ([np.array(["a", "b"]), np.array([1, 2])], UnsupportedData, "all numbers or all strings"),
        ([np.array([1, 1]), np.array([1, 1])], InvalidProblem, "two classes; got 1"),
        ([np.array([np.nan]), np.array([np.nan])], InvalidProblem, "two classes; got 0"),
        ([np.array([1, 2]), np.array([1.5])], InvalidProblem, "block 1 of the labels.* whole numbers"),
        ([np.array([1, 2]), np.array([np.inf])], InvalidProblem, "block 1 of the labels.* finite"),
        ([np.eye(2), np.array([[1.0, 1.0]])], InvalidProblem, "block 1 of the labels.* at most one label"),
        ([np.array([[1.0, 3.0]])], InvalidProblem, "zeros and ones; got 3"),
        ([np.zeros((2, 2, 2))], LinspecError, "block 0 of the labels"),
    ],
)
def test_labels_that_name_no_classes_are_refused(blocks, error, said):
    with pytest.raises(error, match=said):
        targets(blocks)
