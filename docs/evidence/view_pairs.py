"""The pairs of views of the experiments, read from a folder, or generated in their shape with `--quick`.

The folder is named by `--data` or by the environment variable LINSPEC_DATA. All sets are public:

- `ptb/ptb.npz`: train, 929589 word ids below 10000 of the Penn Treebank training text in the usual preprocessing, end
  of sentence included;
- `homedepot/title_counts.npz`, `homedepot/query_counts.npz`: word counts of 74067 product titles (18608 words) and of
  the queries that led to them (7949 words), `scipy.sparse.save_npz` (Home Depot product search competition);
- `mnist/mnist.npz`: X_train, 60000 x 784, and X_test, 10000 x 784, uint8, the standard images row by row.

The widest pair is always generated, by `linspec.datasets.planted_word_views`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from real_data import find

import linspec as ls


@dataclass(frozen=True)
class Views:
    """Two views of the same rows, and of rows held out where there are any."""

    X: Any
    Y: Any
    held_out: tuple[Any, Any] | None = None


def next_words(given: argparse.Namespace, words: int, *, halves: bool = False) -> Views:
    """Words and the words that follow, one-hot; of those that follow the most frequent ones only, with their rows.

    With `halves`, the second half of the text is held out.
    """
    ids, size = (_babble(), 300) if given.quick else (np.load(find(given, "ptb/ptb.npz"))["train"], 10_000)
    first, second = ids[:-1].astype(np.int64), ids[1:].astype(np.int64)
    place = np.full(size, -1)
    frequent = np.argsort(-np.bincount(second, minlength=size), kind="stable")[:words]
    place[frequent] = np.arange(len(frequent))
    kept = place[second] >= 0
    first, second = first[kept], place[second[kept]]
    X, Y = _one_hot(first, size), _one_hot(second, len(frequent))
    if not halves:
        return Views(X, Y)
    middle = X.shape[0] // 2
    return Views(X[:middle], Y[:middle], (X[middle:], Y[middle:]))


def _babble() -> np.ndarray:
    """A text whose words depend on the word before."""
    rng = np.random.default_rng(0)
    moves = rng.dirichlet(np.full(300, 0.02), size=300).cumsum(axis=1)
    ids = np.zeros(20_001, dtype=np.int64)
    draws = rng.random(len(ids))
    for i in range(1, len(ids)):
        ids[i] = min(int(np.searchsorted(moves[ids[i - 1]], draws[i])), 299)
    return ids


def _one_hot(columns: np.ndarray, size: int) -> Any:
    n = len(columns)
    return scipy.sparse.csr_matrix((np.ones(n), columns, np.arange(n + 1)), shape=(n, size))


def titles_and_queries(given: argparse.Namespace) -> Views:
    """Word counts of titles and of queries, sparse."""
    if given.quick:
        rng = np.random.default_rng(0)
        topics, views = rng.integers(0, 40, 4000), []
        for words in (500, 300):
            home = rng.integers(0, 40, words)
            common = 0.3 / (1 + np.arange(words)) ** 0.8
            rate = 0.005 + common + 0.3 * (topics[:, None] == home[None, :]) * rng.random(words)
            views.append(scipy.sparse.csr_matrix((rng.random((4000, words)) < rate).astype(float)))
        return Views(*views)
    names = ("homedepot/title_counts.npz", "homedepot/query_counts.npz")
    X, Y = (scipy.sparse.load_npz(find(given, name)).astype(np.float64).tocsr() for name in names)
    return Views(X, Y)


def cut(A: Any, without: int, columns: int) -> Any:
    """The most frequent columns after so many still more frequent ones have been removed."""
    rows = np.asarray((A > 0).sum(axis=0)).ravel()
    order = np.argsort(-rows, kind="stable")[without : without + columns]
    return A[:, np.sort(order)].tocsr()


def image_halves(given: argparse.Namespace) -> Views:
    """Left and right halves of images, pixels in [0, 1]; the usual test images are held out."""
    if given.quick:
        rng = np.random.default_rng(0)
        shared = np.abs(rng.standard_normal((4000, 60)))
        pair = [
            shared @ rng.standard_normal((60, 96)) * 0.1 + 0.5 * rng.standard_normal((4000, 96)) for _ in "XY"
        ]
        return Views(pair[0][:3000], pair[1][:3000], (pair[0][3000:], pair[1][3000:]))
    held = np.load(find(given, "mnist/mnist.npz"))
    pairs = []
    for name in ("X_train", "X_test"):
        images = held[name].reshape(-1, 28, 28) / 255.0
        pairs.append([np.ascontiguousarray(half).reshape(-1, 392) for half in np.split(images, 2, axis=2)])
    return Views(*pairs[0], (pairs[1][0], pairs[1][1]))


def wide(given: argparse.Namespace, rows: int, columns: int) -> Views:
    """Generated: words of texts that share topics, 60 a row."""
    rows, columns = (2000, 800) if given.quick else (rows, columns)
    shared = 30 if given.quick else 40
    views = ls.datasets.planted_word_views(0, n=rows, p=columns, q=columns, shared=shared)
    return Views(views.X, views.Y)
