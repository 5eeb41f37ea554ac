"""The data sets of the measuring scripts, read from a folder, or generated in their shape with `--quick`.

The folder is named by `--data` or by the environment variable LINSPEC_DATA and holds

- `mnist/mnist.npz`: X_train, 60000 x 784, uint8, the standard training images row by row;
- `ptb/ptb.npz`: train, 929589 word ids below 10000 of the Penn Treebank training text in the usual
  preprocessing, end of sentence included;
- `homedepot/title_counts.npz`, `homedepot/query_counts.npz`: word counts of 74067 product titles (18608 words) and
  of the queries that led to them (7949 words), `scipy.sparse.save_npz`.

Photographs and small digits come with scikit-learn. The others are public: MNIST as distributed by LeCun, Cortes &
Burges, the Penn Treebank words as by Mikolov, the titles and queries from the Home Depot product search competition.
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


def patch_halves(given: argparse.Namespace, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Left and right halves of 20,000 grey 32 x 32 patches of scikit-learn's two photographs, pixels in [0, 1]."""
    from sklearn.datasets import load_sample_images

    count, size = (1500, 8) if given.quick else (20_000, 32)
    grey = np.stack([image.mean(axis=2) / 255.0 for image in load_sample_images().images])
    rng = np.random.default_rng(seed)
    which = rng.integers(0, len(grey), count)
    down, across = (rng.integers(0, extent - size + 1, count) for extent in grey.shape[1:])
    steps = np.arange(size)
    patches = grey[
        which[:, None, None], (down[:, None] + steps)[:, :, None], (across[:, None] + steps)[:, None, :]
    ]
    return tuple(np.ascontiguousarray(half.reshape(count, -1)) for half in np.split(patches, 2, axis=2))


def digits_halves(_: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Left and right halves of scikit-learn's 1797 digits of 8 x 8 pixels, which are from 0 to 16."""
    from sklearn.datasets import load_digits

    images = load_digits().images
    return tuple(np.ascontiguousarray(half.reshape(len(images), -1)) for half in np.split(images, 2, axis=2))


def clustered(
    gap: float, given: argparse.Namespace, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two generated views with identities for Gram matrices, and their correlations, 200 of them alike behind the k-th.

    The first 20 fall from 0.9 to 0.8, the 200 after them from 0.8 - gap by a millionth each, the others from 0.5 to 0.
    """
    k, cluster, p, n = (5, 20, 60, 400) if given.quick else (20, 200, 400, 4000)
    rho = np.concatenate(
        [
            np.linspace(0.9, 0.8, k),
            0.8 - gap - 1e-6 * np.arange(cluster),
            np.linspace(0.5, 0, p - k - cluster),
        ]
    )
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((n, 2 * p)))[0]
    turns = [np.linalg.qr(rng.standard_normal((p, p)))[0] for _ in range(2)]
    Y = basis[:, :p] * rho + basis[:, p:] * np.sqrt(1 - rho**2)
    return basis[:, :p] @ turns[0], Y @ turns[1], rho


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


UCI = ("keggundirected", "protein", "kin40k", "pol", "gas")
"""Regression sets from 2565 x 128 to 63608 x 27."""


def uci_regression(given: argparse.Namespace, name: str) -> tuple[np.ndarray, np.ndarray]:
    """One regression set as it is, float64.

    The small ones that `--quick` generates have correlated columns of very different sizes, one of them constant.
    """
    if given.quick:
        rng = np.random.default_rng(UCI.index(name))
        n, p = 1500 + 300 * UCI.index(name), 12 + 4 * UCI.index(name)
        X = rng.standard_normal((n, p // 2)) @ rng.standard_normal((p // 2, p))
        X = (X + 0.1 * rng.standard_normal((n, p))) * np.logspace(-1, 4, p)
        y = (X / np.logspace(-1, 4, p)) @ rng.standard_normal(p) + rng.standard_normal(n)
        X[:, 3] = 2.0
        return X, y
    held = np.load(find(given, f"uci_regression/{name}.npz"))
    return held["X"].astype(np.float64), held["y"].astype(np.float64)


def standardized(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns of mean 0 and deviation 1; those without spread are left out."""
    spread = X.std(axis=0)
    there = spread > 1e-12 * np.abs(X).max(axis=0)
    X = np.ascontiguousarray((X[:, there] - X[:, there].mean(axis=0)) / spread[there])
    return X, (y - y.mean()) / y.std()


def newsgroups(given: argparse.Namespace) -> tuple[Any, np.ndarray]:
    """Words of the training posts, tf-idf, and the groups, one-hot.

    A count is multiplied by ln((1 + n)/(1 + rows that have the word)) + 1, then rows get unit length. Words that
    only the test posts have remain as columns of zeros.
    """
    if given.quick:
        rng = np.random.default_rng(0)
        groups = rng.integers(0, 20, 600)
        home = rng.integers(0, 20, 3000)
        rate = 0.3 / np.arange(1, 3001) ** 0.7 + 0.03 * (groups[:, None] == home[None, :])
        counts = scipy.sparse.csr_matrix(rng.poisson(rate).astype(np.float64))
    else:
        counts = scipy.sparse.load_npz(find(given, "newsgroups20/X.npz")).tocsr()[:11314].astype(np.float64)
        groups = np.load(find(given, "newsgroups20/meta.npz"))["y"][:11314]
    return tf_idf(counts), np.eye(20)[groups]


def news_stories(given: argparse.Namespace) -> Any:
    """Words of the training stories of Reuters-21578, tf-idf as for the newsgroups."""
    if given.quick:
        rng = np.random.default_rng(1)
        rate = 0.2 / np.arange(1, 1501) ** 0.8 + 0.05 * (
            rng.integers(0, 12, 500)[:, None] == np.arange(1500) % 12
        )
        return tf_idf(scipy.sparse.csr_matrix(rng.poisson(rate).astype(np.float64)))
    return tf_idf(scipy.sparse.load_npz(find(given, "reuters21578/X.npz")).tocsr()[:9603].astype(np.float64))


def images(given: argparse.Namespace) -> np.ndarray:
    """Training images, pixels in [0, 1]."""
    if given.quick:
        return np.hstack(mnist_halves(given))
    return np.load(find(given, "mnist/mnist.npz"))["X_train"].reshape(-1, 784) / 255.0


def tf_idf(counts: Any) -> Any:
    """Counts times the logarithm of how rare a word is, rows of unit length."""
    n = counts.shape[0]
    weights = np.log((1 + n) / (1 + np.bincount(counts.indices, minlength=counts.shape[1]))) + 1
    A = counts @ scipy.sparse.diags_array(weights)
    length = np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).ravel())
    return scipy.sparse.csr_matrix(scipy.sparse.diags_array(1 / np.where(length > 0, length, 1.0)) @ A)


def tall_dense(given: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Generated: 500,000 x 500 normal entries, column sizes from 1 to 1/100, and 5 noisy targets."""
    n, p = (6_000, 60) if given.quick else (500_000, 500)
    rng = np.random.default_rng(0)
    A = np.empty((n, p))
    rng.standard_normal(out=A)
    A *= np.logspace(0, -2, p)
    return A, A @ rng.standard_normal((p, 5)) + rng.standard_normal((n, 5))


# ---- data with labels ------------------------------------------------------------------------------

LABELLED = {
    "newsgroups20": (600, 900, 20),
    "reuters21578": (500, 800, 30),
    "delicious": (1500, 60, 150),
    "yeast": (600, 40, 14),
    "scene": (500, 80, 6),
    "wine": (178, 13, 3),
    "optdigits": (800, 64, 10),
    "satimage": (700, 36, 6),
    "usps": (900, 100, 10),
    "mnist": (1000, 196, 10),
}
"""Sets with labels: rows, columns and labels of what `--quick` generates in their place."""

TEXTS = ("newsgroups20", "reuters21578")
SEVERAL = ("reuters21578", "delicious", "yeast", "scene")
"""Sets whose rows have any number of labels; the others have classes."""


def labelled(given: argparse.Namespace, name: str) -> tuple[Any, Any]:
    """All rows of one set, float64, and its labels: a class vector, or a sparse matrix of zeros and ones.

    Texts are tf-idf weights of all their rows; stories without a topic are kept. Of delicious and of the digits of
    MNIST the training rows are taken. Nothing is scaled, but for pixels of MNIST and USPS, which are as published.
    """
    if given.quick:
        return _generated(name)
    if name in TEXTS:
        counts = scipy.sparse.load_npz(find(given, f"{name}/X.npz")).tocsr().astype(np.float64)
        if name == "newsgroups20":
            return tf_idf(counts), np.load(find(given, f"{name}/meta.npz"))["y"]
        return tf_idf(counts), scipy.sparse.load_npz(find(given, f"{name}/Y.npz")).tocsr().astype(np.float64)
    if name == "delicious":
        X, Y = (scipy.sparse.load_npz(find(given, f"{name}/{part}_train.npz")) for part in "XY")
        return X.tocsr().astype(np.float64), Y.tocsr().astype(np.float64)
    held = np.load(find(given, f"{name}/{name}.npz"))
    if name == "mnist":
        return held["X_train"].reshape(-1, 784) / 255.0, held["y_train"]
    X, y = (_joined(held, part) for part in ("X", "Y" if name in SEVERAL else "y"))
    X = X / 1000.0 if name == "usps" else X.astype(np.float64)
    return X, scipy.sparse.csr_matrix(y.astype(np.float64)) if name in SEVERAL else y


def _joined(held: Any, part: str) -> np.ndarray:
    """Training and test rows below each other, whatever they are called."""
    names = sorted(
        (name for name in held.files if name == part or name.startswith(f"{part}_")),
        key=lambda n: "test" in n,
    )
    return np.concatenate([held[name] for name in names])


def _generated(name: str) -> tuple[Any, Any]:
    """Small data of the kind of one set: columns that go with labels, sparse where the set is sparse."""
    n, p, labels = LABELLED[name]
    rng = np.random.default_rng(list(LABELLED).index(name))
    classes = rng.integers(0, labels, n)
    classes[:labels] = np.arange(labels)
    given = np.eye(labels)[classes]
    if name in SEVERAL:
        given = np.maximum(given, rng.random((n, labels)) < 1.5 / labels)
        given[rng.random(n) < (0.15 if name == "reuters21578" else 0.0)] = 0.0
    loads = rng.standard_normal((labels, p)) * (rng.random((labels, p)) < 0.2)
    if name in TEXTS:
        rate = 0.3 / np.arange(1, p + 1) ** 0.7 + 0.05 * given @ np.abs(loads)
        X: Any = tf_idf(scipy.sparse.csr_matrix(rng.poisson(rate).astype(np.float64)))
    else:
        mixed = rng.standard_normal((n, p)) @ (
            rng.standard_normal((p, p)) * np.geomspace(1, 0.03, p)[:, None]
        )
        X = given @ loads + mixed / np.sqrt(p) + 0.1 * rng.standard_normal((n, p)) + 1.0
        X = scipy.sparse.csr_matrix(X * (X > 2.5)) if name == "delicious" else X
    return X, scipy.sparse.csr_matrix(given) if name in SEVERAL else classes
