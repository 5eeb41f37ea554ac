"""The data sets of the experiments, read from a folder, or generated in their shape with `--quick`.

The folder is named by `--data` or by the environment variable LINSPEC_DATA. All sets are public:

- `newsgroups20/X.npz`, `newsgroups20/meta.npz`: word counts of 18846 posts (75878 words), `scipy.sparse.save_npz`, and
  `y`, the group of each, and `is_test`, whether it is one of the 7532 that are usually held out ("bydate");
- `homedepot/title_counts.npz`, `homedepot/query_counts.npz`, `homedepot/meta.npz`: word counts of 74067 product titles
  (18608 words) and of the queries that led to them (7949 words), and `relevance` of the product for the query, 1 to 3,
  with the words, `title_vocab` and `query_vocab` (Home Depot product search competition);
- `mnist/mnist.npz`: X_train, 60000 x 784, uint8, the standard training images row by row.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

HELD_OUT = 0.2
"""Share of the rows of homedepot that are held out."""


@dataclass(frozen=True)
class Labelled:
    """Rows with a class each, some of them held out."""

    A: Any
    labels: np.ndarray
    held_out: np.ndarray

    @property
    def training(self) -> tuple[Any, np.ndarray]:
        """Rows to learn from."""
        return self.A[~self.held_out], self.labels[~self.held_out]

    @property
    def testing(self) -> tuple[Any, np.ndarray]:
        """Rows to be judged by."""
        return self.A[self.held_out], self.labels[self.held_out]


def arguments(description: str) -> argparse.ArgumentParser:
    """A parser with the options that every experiment on real data has."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--data", default=os.environ.get("LINSPEC_DATA"), help="folder of the data sets")
    parser.add_argument(
        "--quick", action="store_true", help="small generated data of the same shape: seconds"
    )
    return parser


def find(given: argparse.Namespace, name: str) -> Path:
    """One file of the data folder; a sentence and exit code 2 where it is missing."""
    if not given.data or not (Path(given.data) / name).is_file():
        sys.stderr.write(
            f"{name} is needed: name the folder that holds it by --data or LINSPEC_DATA, or pass --quick.\n"
        )
        raise SystemExit(2)
    return Path(given.data) / name


def tfidf(counts: Any, training: np.ndarray) -> Any:
    """Counts times ln((1 + n)/(1 + rows that have the word)) + 1, n and rows among the training ones; unit rows."""
    counts = scipy.sparse.csr_matrix(counts, dtype=np.float64)
    having = np.bincount(counts[training].indices, minlength=counts.shape[1])
    A = counts @ scipy.sparse.diags_array(np.log((1 + np.sum(training)) / (1 + having)) + 1)
    length = np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).ravel())
    return scipy.sparse.csr_matrix(scipy.sparse.diags_array(1 / np.where(length > 0, length, 1.0)) @ A)


def newsgroups(given: argparse.Namespace) -> Labelled:
    """Words of posts, tf-idf, with the group as class and the test posts held out."""
    if given.quick:
        rng = np.random.default_rng(0)
        groups, home = rng.integers(0, 20, 900), rng.integers(0, 20, 1500)
        rate = 0.3 / np.arange(1, 1501) ** 0.7 + 0.05 * (groups[:, None] == home[None, :])
        counts, held_out = scipy.sparse.csr_matrix(rng.poisson(rate)), np.arange(900) >= 600
    else:
        counts = scipy.sparse.load_npz(find(given, "newsgroups20/X.npz")).tocsr()
        meta = np.load(find(given, "newsgroups20/meta.npz"))
        groups, held_out = meta["y"].astype(np.int64), meta["is_test"]
    return Labelled(tfidf(counts, ~held_out), groups, held_out)


def homedepot(given: argparse.Namespace) -> Labelled:
    """Titles, queries and the words that both have, whether the product is relevant, a fifth of the rows held out.

    Three blocks of columns, tf-idf with unit rows each: words of the title, words of the query, and words of both,
    counted as often as the one that has them less often. A product is called relevant for the query where
    its score is above the median of all.
    """
    if given.quick:
        rng = np.random.default_rng(0)
        topics, asked = rng.integers(0, 20, 1200), rng.integers(0, 20, 1200)
        asked = np.where(rng.random(1200) < 0.5, topics, asked)
        home = rng.integers(0, 20, 300)
        titles, queries = (
            scipy.sparse.csr_matrix(
                (rng.random((1200, 300)) < 0.02 + 0.3 * (t[:, None] == home)).astype(float)
            )
            for t in (topics, asked)
        )
        relevance = (topics == asked) + rng.random(1200)
        pairs = np.arange(300), np.arange(300)
    else:
        names = ("homedepot/title_counts.npz", "homedepot/query_counts.npz")
        titles, queries = (scipy.sparse.load_npz(find(given, name)).tocsr() for name in names)
        meta = np.load(find(given, "homedepot/meta.npz"))
        relevance = meta["relevance"]
        pairs = np.intersect1d(meta["title_vocab"], meta["query_vocab"], return_indices=True)[1:]
    held_out = np.random.default_rng(0).permutation(len(relevance)) < HELD_OUT * len(relevance)
    shared = titles[:, pairs[0]].minimum(queries[:, pairs[1]])
    blocks = [tfidf(counts, ~held_out) for counts in (titles, queries, shared)]
    relevant = (relevance > np.median(relevance)).astype(np.int64)
    return Labelled(scipy.sparse.csr_matrix(scipy.sparse.hstack(blocks)), relevant, held_out)


def titles(given: argparse.Namespace) -> Any:
    """Word counts of product titles, sparse."""
    if given.quick:
        rng = np.random.default_rng(0)
        topics, home = rng.integers(0, 30, 1000), rng.integers(0, 30, 400)
        rate = 0.02 + 0.5 * (topics[:, None] == home[None, :]) * rng.random(400)
        return scipy.sparse.csr_matrix((rng.random((1000, 400)) < rate).astype(float))
    return scipy.sparse.load_npz(find(given, "homedepot/title_counts.npz")).tocsr().astype(np.float64)


def mnist(given: argparse.Namespace) -> np.ndarray:
    """Images, pixels in [0, 1]."""
    if given.quick:
        rng = np.random.default_rng(0)
        return 1.0 + rng.standard_normal((600, 60)) @ (
            np.arange(1, 61.0)[:, None] ** -1 * rng.random((60, 120))
        )
    images: np.ndarray = np.load(find(given, "mnist/mnist.npz"))["X_train"].reshape(-1, 784) / 255.0
    return images
