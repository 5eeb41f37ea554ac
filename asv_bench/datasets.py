"""The data sets of the measuring scripts, read from a folder, or generated in their shape with `--quick`.

The folder is named by `--data` or by the environment variable LINSPEC_DATA and holds

- `mnist/mnist.npz`: X_train, 60000 x 784, uint8, the standard training images row by row;
- `ptb/ptb.npz`: train, 929589 word ids below 10000 of the Penn Treebank training text in the usual
  preprocessing, end of sentence included;
- `homedepot/title_counts.npz`, `homedepot/query_counts.npz`: word counts of 74067 product titles (18608 words) and
  of the queries that led to them (7949 words), `scipy.sparse.save_npz`.

All are public: MNIST as distributed by LeCun, Cortes & Burges, the Penn Treebank words as by Mikolov, the titles and
queries from the Home Depot product search competition.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse


def arguments(description: str) -> argparse.ArgumentParser:
    """A parser with the options that every measuring script has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", default=os.environ.get("LINSPEC_DATA"), help="folder of the data sets")
    parser.add_argument("--quick", action="store_true", help="small generated data of the same kind")
    return parser


def find(given: argparse.Namespace, name: str) -> Path:
    """One file of the data folder; a sentence and exit code 2 where it is missing."""
    if not given.data or not (Path(given.data) / name).is_file():
        sys.stderr.write(
            f"{name} is needed: name the folder that holds it by --data or LINSPEC_DATA, or pass --quick.\n"
        )
        raise SystemExit(2)
    return Path(given.data) / name


def mnist_halves(given: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Left and right halves of the images, pixels in [0, 1]."""
    if given.quick:
        rng = np.random.default_rng(0)
        shared = rng.standard_normal((3000, 60))
        X, Y = (shared @ rng.standard_normal((60, 96)) * 0.1 for _ in range(2))
        return X + 0.5 * rng.standard_normal(X.shape), Y + 0.5 * rng.standard_normal(Y.shape)
    images = np.load(find(given, "mnist/mnist.npz"))["X_train"].reshape(-1, 28, 28) / 255.0
    left, right = images[:, :, :14], images[:, :, 14:]
    return np.ascontiguousarray(left.reshape(-1, 392)), np.ascontiguousarray(right.reshape(-1, 392))


def bigrams(given: argparse.Namespace) -> tuple[Any, Any]:
    """Words and next words as one-hot rows, sparse."""
    if given.quick:
        rng = np.random.default_rng(0)
        words = 300
        moves = rng.dirichlet(np.full(words, 0.02), size=words).cumsum(axis=1)
        ids = np.zeros(20_001, dtype=np.int32)
        draws = rng.random(len(ids))
        for i in range(1, len(ids)):
            ids[i] = min(int(np.searchsorted(moves[ids[i - 1]], draws[i])), words - 1)
    else:
        words, ids = 10_000, np.load(find(given, "ptb/ptb.npz"))["train"].astype(np.int32)
    n = len(ids) - 1

    def one_hot(columns: np.ndarray) -> Any:
        shape = (n, words)
        return scipy.sparse.csr_matrix((np.ones(n), columns, np.arange(n + 1, dtype=np.int32)), shape=shape)

    return one_hot(ids[:-1]), one_hot(ids[1:])


def titles_and_queries(given: argparse.Namespace) -> tuple[Any, Any]:
    """Word counts of titles and of queries, sparse."""
    if given.quick:
        rng = np.random.default_rng(0)
        topics = rng.integers(0, 30, 4000)
        views = []
        for words in (400, 200):
            home = rng.integers(0, 30, words)
            rate = 0.02 + 0.5 * (topics[:, None] == home[None, :]) * rng.random(words)
            views.append(scipy.sparse.csr_matrix((rng.random((4000, words)) < rate).astype(float)))
        return views[0], views[1]
    names = ("homedepot/title_counts.npz", "homedepot/query_counts.npz")
    X, Y = (scipy.sparse.load_npz(find(given, name)).astype(np.float64).tocsr() for name in names)
    return X, Y
