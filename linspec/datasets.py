"""Data with a known truth: wide sparse pairs of views that share planted topics.

Problem: wide sparse pairs of views, with correlations that are clearly larger than chance; few such data can be
downloaded.
Method: a pair of views simulates words of texts. Each row has a topic, the same in both views. Some of its words are
drawn from the topic. The others are drawn from all words, with frequencies that follow a power law.
Source: the pairs are our own, shaped like the URL features of Lu 2015, Fast linear algorithms for machine learning
(thesis, University of Pennsylvania), section 3.5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import HostArray, random_generator
from linspec.errors import InvalidProblem

__all__ = ["WordViews", "planted_word_views"]


POWER, OFFSET = 1.1, 50.0
"""The frequency of a word of rank r is proportional to (r + OFFSET)^(-POWER)."""

TOPICAL = 0.1
"""The fraction of the words of a view that belong to topics; the most frequent hundredth of all words never do."""

FEWEST = 20
"""Smallest number of columns that a view must have for each topic.

`TOPICAL` of all columns belong to topics, so that each topic has at least two columns.
"""

ROWS_AT_ONCE = 2**14
"""Number of rows that are drawn together."""


@dataclass(frozen=True, eq=False)
class WordViews:
    """Two sparse views that share topics, made by `planted_word_views`.

    Attributes
    ----------
    X : scipy.sparse.csr_matrix of shape (n, p)
        Words of each row, indices sorted.
    Y : scipy.sparse.csr_matrix of shape (n, q)
    topics : numpy.ndarray of shape (n,)
        The topic of each row, which the views share.

    Examples
    --------
    >>> import linspec as ls
    >>> views = ls.datasets.planted_word_views(0, n=100, p=80, q=60, shared=3)
    >>> type(views).__name__, views.X.shape, views.Y.shape, views.topics.shape
    ('WordViews', (100, 80), (100, 60), (100,))
    """

    X: Any
    Y: Any
    topics: HostArray


def planted_word_views(  # noqa: PLR0913 (sizes and kinds, each with a default)
    seed: Any = None,
    *,
    n: int = 300_000,
    p: int = 100_000,
    q: int = 100_000,
    per_row: int = 60,
    shared: int = 40,
    strength: tuple[float, float] = (0.35, 0.15),
    counts: bool = False,
    dtype: Any = np.float64,
) -> WordViews:
    """Two wide sparse views with words of the same texts, which share only their topics.

    Every row has one of `shared` topics, and all topics are equally frequent. With a probability that is the
    strength of the topic, a word of the row belongs to the topic; otherwise it is any word. The frequencies
    of words follow a power law. Given the topics, the views are independent.

    Without centring there are `shared` large correlations: one belongs to the column means, and shared - 1 to the
    differences between topics. With centring only these shared - 1 are large. All other correlations are due to chance.
    With the defaults, a ridge of 50 and no centring, the twentieth correlation is above 0.8. After a permutation of the
    rows of one view it is below 0.6.

    Parameters
    ----------
    seed : None, int or numpy.random.Generator
        The same seed and arguments give the same views, in float32 and in float64.
    n, p, q : int, default 300000, 100000 and 100000
        Rows, and columns of the two views.
    per_row : int, default 60
        Words drawn for each row. A word drawn twice is stored once, so rows have somewhat fewer entries.
    shared : int, default 40
        The number of topics. A view needs at least twenty columns for each.
    strength : pair of floats, default (0.35, 0.15)
        The fraction of the words of a row that come from its topic, for the first topic and the last. Between
        them it decreases linearly. Weaker topics have smaller correlations.
    counts : bool, default False
        Whether entries count how often a word was drawn; if not, all are 1.
    dtype : float64 or float32

    Returns
    -------
    WordViews

    Raises
    ------
    InvalidProblem
        For arguments out of range.

    Examples
    --------
    >>> import linspec
    >>> views = linspec.datasets.planted_word_views(0, n=2000, p=300, q=200, shared=5)
    >>> solution = linspec.solve(linspec.CCA(views.X, views.Y, 6, ridge=50.0, center=False), "gram")
    >>> [bool(rho > 0.7) for rho in solution.correlations]
    [True, True, True, True, True, False]
    """
    if min(n, per_row, shared) < 1 or min(p, q) < FEWEST * shared:
        raise InvalidProblem(
            f"views of words need n, per_row and shared of at least 1, and {FEWEST} columns for each topic shared; "
            f"got n={n}, p={p}, q={q}, per_row={per_row}, shared={shared}. Ask for fewer topics, or more columns."
        )
    first, last = strength
    if not 1 >= first >= last >= 0:
        raise InvalidProblem(
            f"strength must be fractions of a row's words, 1 ≥ first ≥ last ≥ 0; got {strength}."
        )
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InvalidProblem(f"dtype must be float32 or float64; got {np.dtype(dtype)}.")
    rng = random_generator(seed, "seed")
    topics = rng.integers(0, shared, n)
    shares = np.linspace(first, last, shared)[topics]
    X, Y = (_words(rng, topics, shares, shared, columns, per_row, counts, dtype) for columns in (p, q))
    return WordViews(X, Y, topics)


def _words(
    rng: np.random.Generator,
    topics: HostArray,
    shares: HostArray,
    shared: int,
    columns: int,
    per_row: int,
    counts: bool,
    dtype: Any,
) -> Any:
    """Draw one view: words by rank, and then a random permutation of the columns."""
    frequency = (np.arange(columns) + OFFSET) ** -POWER
    column_of = rng.permutation(columns).astype(np.int32)
    size = max(2, int(TOPICAL * columns / shared))
    rare = np.arange(columns // 100, columns)
    topical = np.sort(rng.permutation(rare)[: shared * size].reshape(shared, size), axis=1)
    general = _cumulated(frequency)
    special = _cumulated(frequency[topical]) + np.arange(shared)[:, None]
    parts = []
    for start in range(0, len(topics), ROWS_AT_ONCE):
        topic, share = (part[start : start + ROWS_AT_ONCE, None] for part in (topics, shares))
        drawn, chosen = rng.random((2, len(topic), per_row))
        ranks = np.searchsorted(general, drawn, side="right")
        of_topic = chosen < share
        drawn, topic = drawn[of_topic], np.broadcast_to(topic, of_topic.shape)[of_topic]
        place = np.searchsorted(special.ravel(), topic + drawn, side="right")
        # Rounding of topic + drawn must not give the next topic.
        ranks[of_topic] = topical.ravel()[np.minimum(place, (topic + 1) * size - 1)]
        words = column_of[ranks]
        starts = np.arange(0, ranks.size + 1, per_row)
        part = scipy.sparse.csr_matrix(
            (np.ones(words.size, dtype), words.ravel(), starts), shape=(len(words), columns)
        )
        part.sum_duplicates()
        parts.append(part)
    view = scipy.sparse.vstack(parts, format="csr")
    if not counts:
        view.data[:] = 1
    return view


def _cumulated(frequency: HostArray) -> HostArray:
    """Cumulative probabilities along the last axis; the last one is exactly 1."""
    total: HostArray = np.cumsum(frequency, axis=-1)
    return total / total[..., -1:]
