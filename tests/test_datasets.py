"""Pairs of views of words: what they promise of entries, frequencies and correlations, by definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linspec.datasets import planted_word_views
from linspec.errors import InvalidProblem


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": 119, "q": 160, "shared": 6}, "20 columns for each topic"),
        ({"p": 800, "q": 800, "strength": (0.1, 0.3)}, "1 ≥ first ≥ last ≥ 0"),
    ],
)
def test_bad_arguments_are_refused_in_words(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        planted_word_views(n=40, **options)


SMALL = {"n": 3000, "p": 240, "q": 160, "shared": 6, "per_row": 30}


def ridge_correlations(X: Any, Y: Any, ridge: float) -> np.ndarray:
    """Singular values of Sx^(-1/2) C Sy^(-1/2), by Cholesky factors of the dense Gram matrices."""
    X, Y = X.toarray(), Y.toarray()
    Lx, Ly = (np.linalg.cholesky(A.T @ A + ridge * np.eye(A.shape[1])) for A in (X, Y))
    return np.linalg.svd(np.linalg.solve(Lx, np.linalg.solve(Ly, Y.T @ X).T), compute_uv=False)


def test_views_of_words_have_the_shape_and_the_entries_asked_for() -> None:
    views, often = (planted_word_views(0, **SMALL, counts=counts) for counts in (False, True))
    assert (views.X.shape, views.Y.shape, views.topics.shape) == ((3000, 240), (3000, 160), (3000,))
    for view in (views.X, views.Y):
        view.check_format(full_check=True)
        assert view.has_canonical_format
        assert (view.format, view.indices.dtype) == ("csr", np.int32)
        lengths = np.diff(view.indptr)
        assert np.all((lengths > 0) & (lengths <= 30))
        assert np.all(view.data == 1)
    assert set(views.topics) == set(range(6))
    single = planted_word_views(np.random.default_rng(0), **SMALL, dtype=np.float32)  # of the same seed
    assert single.X.dtype == np.float32
    for again in (often, single):
        np.testing.assert_array_equal(views.X.indices, again.X.indices)
    np.testing.assert_array_equal(np.asarray(often.Y.sum(axis=1)).ravel(), 30)
    assert often.X.data.max() > 1


def test_frequencies_fall_like_a_power() -> None:
    """Without topics in them: the expected frequencies are (rank + 50)^-1.1, up to a factor."""
    views = planted_word_views(0, n=40_000, p=2000, q=20, shared=1, per_row=5, strength=(0, 0), counts=True)
    found = np.sort(np.asarray(views.X.sum(axis=0)).ravel())[::-1]
    expected = (np.arange(2000) + 50.0) ** -1.1
    expected *= found.sum() / expected.sum()
    for ranks in (slice(0, 20), slice(20, 200), slice(200, 2000)):
        assert abs(found[ranks].sum() - expected[ranks].sum()) < 5 * np.sqrt(expected[ranks].sum())


def test_as_many_correlations_stand_out_as_there_are_topics() -> None:
    """One of them, uncentred, is that of the means, which permuting the rows of one view leaves."""
    views = planted_word_views(0, **SMALL)
    rho = ridge_correlations(views.X, views.Y, 20.0)
    chance = ridge_correlations(views.X, views.Y[np.random.default_rng(1).permutation(3000)], 20.0)
    assert chance[1] < 0.5 < 0.65 < rho[5]
    assert rho[6] < 0.5 < chance[0]
    assert rho[6] < 1.05 * chance[1]
