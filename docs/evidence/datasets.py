"""The data of all scripts here: real sets read from one folder, or small ones generated in their place.

The folder is named by `--data` or by the environment variable LINSPEC_DATA; `--quick` generates data of the same kind,
on which figures mean nothing. All sets are public; texts and counts are kept by `scipy.sparse.save_npz`:

- `mnist/mnist.npz`: X_train, 60000 x 784, X_test, 10000 x 784, uint8, the standard images row by row, and y_train
  (LeCun, Cortes & Burges);
- `ptb/ptb.npz`: train, 929589 word ids below 10000 of the Penn Treebank training text in the usual preprocessing, end
  of sentence included (Mikolov);
- `homedepot/title_counts.npz`, `query_counts.npz`, `meta.npz`: word counts of 74067 product titles (18608 words) and of
  the queries that led to them (7949 words), and `relevance` of the product for the query, 1 to 3, with the words,
  `title_vocab` and `query_vocab` (Home Depot product search competition);
- `newsgroups20/X.npz`, `meta.npz`: word counts of 18846 posts (75878 words), and `y`, the group of each, and `is_test`,
  whether it is one of the last 7532, which are usually held out ("bydate");
- `reuters21578/X.npz`, `Y.npz`: word counts of 12902 stories, 9603 of them for training, and their 118 topics;
- `delicious/X_train.npz`, `Y_train.npz`: 12920 x 500, 983 labels (Mulan);
- `uci_regression/NAME.npz`: X and y of keggundirected, protein, kin40k, pol, gas (UCI);
- `wine`, `ionosphere`, `optdigits` (X and y), `satimage` (X_train, y_train, X_test, y_test), `usps` (X_train_x1000,
  X_test_x1000, a thousand times the grey values, y_train, y_test), `scene`, `yeast` (X and Y of zeros and ones, _train
  and _test), each as `NAME/NAME.npz` (UCI, Statlog, Mulan).

Photographs and small digits come with scikit-learn.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import linspec as ls


def find(given: argparse.Namespace, name: str) -> Path:
    """One file of the data folder; a sentence and exit code 2 where it is missing."""
    if not given.data or not (Path(given.data) / name).is_file():
        sys.stderr.write(
            f"{name} is needed: name the folder that holds it by --data or LINSPEC_DATA, or pass --quick.\n"
        )
        raise SystemExit(2)
    return Path(given.data) / name


def _counts(given: argparse.Namespace, name: str) -> Any:
    return scipy.sparse.load_npz(find(given, name)).tocsr().astype(np.float64)


def tf_idf(counts: Any, training: Any = slice(None)) -> Any:
    """Counts times ln((1 + n)/(1 + rows that have the word)) + 1, n and rows among the training ones; unit rows."""
    rows = counts[training]
    weights = np.log((1 + rows.shape[0]) / (1 + np.bincount(rows.indices, minlength=counts.shape[1]))) + 1
    A = counts @ scipy.sparse.diags_array(weights)
    length = np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).ravel())
    return scipy.sparse.csr_matrix(scipy.sparse.diags_array(1 / np.where(length > 0, length, 1.0)) @ A)


def standardized(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns of mean 0 and deviation 1; those without spread are left out."""
    spread = X.std(axis=0)
    there = spread > 1e-12 * np.abs(X).max(axis=0)
    X = np.ascontiguousarray((X[:, there] - X[:, there].mean(axis=0)) / spread[there])
    return X, (y - y.mean()) / y.std()


# ---- texts -----------------------------------------------------------------------------------------


def _posts(rows: int, words: int, topics: int, lift: float) -> tuple[Any, np.ndarray]:
    """Generated word counts, common words first, and the topic of each row, which has words of its own."""
    rng = np.random.default_rng(0)
    groups, home = rng.integers(0, topics, rows), rng.integers(0, topics, words)
    rate = 0.3 / np.arange(1, words + 1) ** 0.7 + lift * (groups[:, None] == home[None, :])
    return scipy.sparse.csr_matrix(rng.poisson(rate).astype(np.float64)), groups


def _newsgroups(given: argparse.Namespace) -> tuple[Any, np.ndarray, np.ndarray]:
    """Counts, groups, and which rows are held out."""
    counts, meta = _counts(given, "newsgroups20/X.npz"), np.load(find(given, "newsgroups20/meta.npz"))
    return counts, meta["y"].astype(np.int64), meta["is_test"]


def newsgroup_counts(given: argparse.Namespace) -> tuple[Any, np.ndarray]:
    """Words of the training posts, counted, and the groups, one-hot; words of test posts are columns of zeros."""
    if given.quick:
        counts, groups = _posts(600, 3000, 20, 0.03)
    else:
        counts, groups, held_out = _newsgroups(given)
        counts, groups = counts[~held_out], groups[~held_out]
    return counts, np.eye(20)[groups]


def newsgroups(given: argparse.Namespace) -> tuple[Any, np.ndarray]:
    """Words of the training posts, tf-idf, and the groups, one-hot."""
    counts, groups = newsgroup_counts(given)
    return tf_idf(counts), groups


@dataclass(frozen=True)
class Classified:
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


def all_newsgroups(given: argparse.Namespace) -> Classified:
    """Words of posts, tf-idf, with the group as class and the test posts held out."""
    if given.quick:
        (counts, groups), held_out = _posts(900, 1500, 20, 0.05), np.arange(900) >= 600
    else:
        counts, groups, held_out = _newsgroups(given)
    return Classified(tf_idf(counts, ~held_out), groups, held_out)


def news_stories(given: argparse.Namespace) -> Any:
    """Words of the training stories of Reuters-21578, tf-idf."""
    if given.quick:
        rng = np.random.default_rng(1)
        own = rng.integers(0, 12, 500)[:, None] == np.arange(1500) % 12
        rate = 0.2 / np.arange(1, 1501) ** 0.8 + 0.05 * own
        return tf_idf(scipy.sparse.csr_matrix(rng.poisson(rate).astype(np.float64)))
    return tf_idf(_counts(given, "reuters21578/X.npz")[:9603])


HELD_OUT = 0.2
"""Share of the rows of `relevant_titles` that are held out."""


def generated_text(given: argparse.Namespace) -> Any:
    """tf-idf of generated text, 25,000 x 48,000: Zipf's frequencies, and a third of the words by topic."""
    rows, words, length, topics = (800, 2000, 40, 8) if given.quick else (25_000, 48_000, 130, 40)
    rng = np.random.default_rng(0)
    share = 1 / (np.arange(1, words + 1) + 2.7)
    row = np.repeat(np.arange(rows), rng.poisson(length, rows))
    word = np.searchsorted(np.cumsum(share / share.sum()), rng.random(len(row)))
    own, home = rng.random(len(row)) < 1 / 3, rng.integers(0, topics, rows)[row]
    names = np.stack([rng.permutation(words) for _ in range(topics)])
    word = np.where(own, names[home, word], word)
    counts = scipy.sparse.csr_matrix((np.ones(len(row)), (row, word)), shape=(rows, words))
    return tf_idf(counts)


def relevant_titles(given: argparse.Namespace) -> Classified:
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
        chances = (0.02 + 0.3 * (t[:, None] == home) for t in (topics, asked))
        titles, queries = (scipy.sparse.csr_matrix((rng.random(p.shape) < p).astype(float)) for p in chances)
        relevance = (topics == asked) + rng.random(1200)
        pairs = np.arange(300), np.arange(300)
    else:
        titles, queries = titles_and_queries(given)
        meta = np.load(find(given, "homedepot/meta.npz"))
        relevance = meta["relevance"]
        pairs = np.intersect1d(meta["title_vocab"], meta["query_vocab"], return_indices=True)[1:]
    held_out = np.random.default_rng(0).permutation(len(relevance)) < HELD_OUT * len(relevance)
    shared = titles[:, pairs[0]].minimum(queries[:, pairs[1]])
    blocks = [tf_idf(counts, ~held_out) for counts in (titles, queries, shared)]
    relevant = (relevance > np.median(relevance)).astype(np.int64)
    return Classified(scipy.sparse.csr_matrix(scipy.sparse.hstack(blocks)), relevant, held_out)


# ---- pairs of views --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Views:
    """Two views of the same rows, and of rows held out where there are any."""

    X: Any
    Y: Any
    held_out: tuple[Any, Any] | None = None


def _searches(rows: int, sizes: tuple[int, ...], topics: int, base: Any, lift: float) -> list[Any]:
    """Generated zeros and ones: words that come up with a chance of their own, and more often with their topic."""
    rng = np.random.default_rng(0)
    asked, views = rng.integers(0, topics, rows), []
    for words in sizes:
        home = rng.integers(0, topics, words)
        rate = base(np.arange(words)) + lift * (asked[:, None] == home[None, :]) * rng.random(words)
        views.append(scipy.sparse.csr_matrix((rng.random((rows, words)) < rate).astype(float)))
    return views


def titles_and_queries(given: argparse.Namespace, *, common: bool = False) -> tuple[Any, Any]:
    """Word counts of titles and of queries, sparse; generated ones have common words if asked."""
    if not given.quick:
        X, Y = (_counts(given, f"homedepot/{name}_counts.npz") for name in ("title", "query"))
    elif common:
        X, Y = _searches(4000, (500, 300), 40, lambda j: 0.005 + 0.3 / (1 + j) ** 0.8, 0.3)
    else:
        X, Y = _searches(4000, (400, 200), 30, lambda _: 0.02, 0.5)
    return X, Y


def titles(given: argparse.Namespace) -> Any:
    """Word counts of product titles, sparse."""
    if given.quick:
        return _searches(1000, (400,), 30, lambda _: 0.02, 0.5)[0]
    return _counts(given, "homedepot/title_counts.npz")


def most_frequent(A: Any, without: int, columns: int) -> Any:
    """The most frequent columns after a number of still more frequent ones have been removed."""
    rows = np.asarray((A > 0).sum(axis=0)).ravel()
    order = np.argsort(-rows, kind="stable")[without : without + columns]
    return A[:, np.sort(order)].tocsr()


def _text(given: argparse.Namespace) -> tuple[np.ndarray, int]:
    """Word ids, and how many words there are; those that are generated depend on the word before."""
    if not given.quick:
        return np.load(find(given, "ptb/ptb.npz"))["train"].astype(np.int32), 10_000
    rng, words = np.random.default_rng(0), 300
    moves = rng.dirichlet(np.full(words, 0.02), size=words).cumsum(axis=1)
    ids = np.zeros(20_001, dtype=np.int32)
    draws = rng.random(len(ids))
    for i in range(1, len(ids)):
        ids[i] = min(int(np.searchsorted(moves[ids[i - 1]], draws[i])), words - 1)
    return ids, words


def _one_hot(columns: np.ndarray, size: int) -> Any:
    n = len(columns)
    return scipy.sparse.csr_matrix((np.ones(n), columns, np.arange(n + 1, dtype=np.int32)), shape=(n, size))


def bigrams(given: argparse.Namespace) -> tuple[Any, Any]:
    """Words and next words as one-hot rows, sparse."""
    ids, words = _text(given)
    return _one_hot(ids[:-1], words), _one_hot(ids[1:], words)


def next_words(given: argparse.Namespace, words: int, *, halves: bool = False) -> Views:
    """Words and the words that follow, one-hot; of those that follow the most frequent ones only, with their rows.

    With `halves`, the second half of the text is held out.
    """
    ids, size = _text(given)
    first, second = ids[:-1], ids[1:]
    place = np.full(size, -1, dtype=np.int32)
    frequent = np.argsort(-np.bincount(second, minlength=size), kind="stable")[:words]
    place[frequent] = np.arange(len(frequent))
    kept = place[second] >= 0
    X, Y = _one_hot(first[kept], size), _one_hot(place[second[kept]], len(frequent))
    if not halves:
        return Views(X, Y)
    middle = X.shape[0] // 2
    return Views(X[:middle], Y[:middle], (X[middle:], Y[middle:]))


def wide_words(given: argparse.Namespace, rows: int, columns: int) -> Views:
    """Generated: words of texts that share topics, 60 a row."""
    rows, columns, shared = (2000, 800, 30) if given.quick else (rows, columns, 40)
    views = ls.datasets.planted_word_views(0, n=rows, p=columns, q=columns, shared=shared)
    return Views(views.X, views.Y)


def correlated_rows(
    rng: np.random.Generator, n: int, p: int, q: int, rho: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Generated: normal rows whose columns have these correlations, pair by pair."""
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, q))
    for i, r in enumerate(rho):
        Y[:, i] = r * X[:, i] + np.sqrt(1 - r**2) * Y[:, i]
    return X, Y


def planted_blocks(
    rows: int,
    columns: int,
    *,
    factors: int = 10,
    weakest: float = 0.3,
    noise: float = 2.0,
    size: int = 100_000,
) -> Iterator[tuple[int, np.ndarray]]:
    """Generated: float32 rows with shared factors of strengths from 1 to the weakest, and noise, block by block."""
    rng = np.random.default_rng(0)
    loadings = rng.standard_normal((factors, columns), dtype=np.float32)
    loadings *= np.linspace(1.0, weakest, factors, dtype=np.float32)[:, None]
    for start in range(0, rows, size):
        n = min(size, rows - start)
        shared = rng.standard_normal((n, factors), dtype=np.float32)
        yield (
            start,
            shared @ loadings + np.float32(noise) * rng.standard_normal((n, columns), dtype=np.float32),
        )


def write_planted(path: Path, rows: int, columns: int, *, offset: float = 0.0, **settings: Any) -> None:
    """Write the rows of `planted_blocks` into a file that can be mapped."""
    file = np.lib.format.open_memmap(path, "w+", np.float32, (rows, columns))
    for start, block in planted_blocks(rows, columns, **settings):
        file[start : start + len(block)] = block + np.float32(offset)
    file.flush()


def clustered(
    gap: float, given: argparse.Namespace, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two generated views with identities for Gram matrices, and their correlations, 200 of them alike behind the k-th.

    The first 20 fall from 0.9 to 0.8, the 200 after them from 0.8 - gap by a millionth each, the others from 0.5 to 0.
    """
    k, cluster, p, n = (5, 20, 60, 400) if given.quick else (20, 200, 400, 4000)
    parts = (
        np.linspace(0.9, 0.8, k),
        0.8 - gap - 1e-6 * np.arange(cluster),
        np.linspace(0.5, 0, p - k - cluster),
    )
    rho = np.concatenate(parts)
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((n, 2 * p)))[0]
    turns = [np.linalg.qr(rng.standard_normal((p, p)))[0] for _ in range(2)]
    Y = basis[:, :p] * rho + basis[:, p:] * np.sqrt(1 - rho**2)
    return basis[:, :p] @ turns[0], Y @ turns[1], rho


# ---- images ----------------------------------------------------------------------------------------


def _halves(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Left and right halves of images, a row each."""
    left, right = (np.ascontiguousarray(half) for half in np.split(images, 2, axis=2))
    return left.reshape(len(images), -1), right.reshape(len(images), -1)


def _mnist(given: argparse.Namespace, part: str) -> np.ndarray:
    """Images of the training or the test part, pixels in [0, 1]."""
    images: np.ndarray = np.load(find(given, "mnist/mnist.npz"))[f"X_{part}"].reshape(-1, 28, 28) / 255.0
    return images


def mnist_halves(given: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Left and right halves of the training images, pixels in [0, 1]."""
    if given.quick:
        rng = np.random.default_rng(0)
        shared = rng.standard_normal((3000, 60))
        X, Y = (shared @ rng.standard_normal((60, 96)) * 0.1 for _ in range(2))
        return X + 0.5 * rng.standard_normal(X.shape), Y + 0.5 * rng.standard_normal(Y.shape)
    return _halves(_mnist(given, "train"))


def test_halves(given: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Left and right halves of the test images."""
    return _halves(_mnist(given, "test"))


def split_halves(given: argparse.Namespace) -> Views:
    """Left and right halves of images; the usual test images are held out."""
    if given.quick:
        rng = np.random.default_rng(0)
        shared = np.abs(rng.standard_normal((4000, 60)))
        X, Y = (
            shared @ rng.standard_normal((60, 96)) * 0.1 + 0.5 * rng.standard_normal((4000, 96)) for _ in "XY"
        )
        return Views(X[:3000], Y[:3000], (X[3000:], Y[3000:]))
    return Views(*mnist_halves(given), test_halves(given))


def images(given: argparse.Namespace) -> np.ndarray:
    """Training images, pixels in [0, 1]."""
    return np.hstack(mnist_halves(given)) if given.quick else _mnist(given, "train").reshape(-1, 784)


def smooth_images(given: argparse.Namespace) -> np.ndarray:
    """Training images; those that are generated have a falling spectrum."""
    if not given.quick:
        return images(given)
    rng = np.random.default_rng(0)
    return 1.0 + rng.standard_normal((600, 60)) @ (np.arange(1, 61.0)[:, None] ** -1 * rng.random((60, 120)))


def patch_halves(given: argparse.Namespace, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Left and right halves of 20,000 grey 32 x 32 patches of scikit-learn's two photographs, pixels in [0, 1]."""
    from sklearn.datasets import load_sample_images

    count, size = (1500, 8) if given.quick else (20_000, 32)
    grey = np.stack([image.mean(axis=2) / 255.0 for image in load_sample_images().images])
    rng = np.random.default_rng(seed)
    which = rng.integers(0, len(grey), count)
    down, across = (rng.integers(0, extent - size + 1, count) for extent in grey.shape[1:])
    steps = np.arange(size)
    return _halves(
        grey[which[:, None, None], (down[:, None] + steps)[:, :, None], (across[:, None] + steps)[:, None, :]]
    )


def digits_halves(_: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Left and right halves of scikit-learn's 1797 digits of 8 x 8 pixels, which are from 0 to 16."""
    from sklearn.datasets import load_digits

    return _halves(load_digits().images)


# ---- regression ------------------------------------------------------------------------------------

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
    "ionosphere": (351, 34, 2),
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
        counts, labels = _labelled_counts(given, name)
        return tf_idf(counts), labels
    if name == "delicious":
        X, Y = (_counts(given, f"{name}/{part}_train.npz") for part in "XY")
        return X, Y
    held = np.load(find(given, f"{name}/{name}.npz"))
    if name == "mnist":
        return held["X_train"].reshape(-1, 784) / 255.0, held["y_train"]
    X, y = (_joined(held, part) for part in ("X", "Y" if name in SEVERAL else "y"))
    X = X / 1000.0 if name == "usps" else X.astype(np.float64)
    return X, scipy.sparse.csr_matrix(y.astype(np.float64)) if name in SEVERAL else y


def _labelled_counts(given: argparse.Namespace, name: str) -> tuple[Any, Any]:
    """Word counts of all posts or stories, and their groups or topics."""
    if name == "newsgroups20":
        return _newsgroups(given)[:2]
    X, Y = (_counts(given, f"{name}/{part}.npz") for part in "XY")
    return X, Y


def _joined(held: Any, part: str) -> np.ndarray:
    """Training and test rows below each other, whatever they are called."""
    named = [name for name in held.files if name == part or name.startswith(f"{part}_")]
    return np.concatenate([held[name] for name in sorted(named, key=lambda name: "test" in name)])


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


@dataclass(frozen=True)
class LabelSet:
    """Rows, and the class of each (a vector) or the labels of each (a matrix)."""

    name: str
    X: Any
    labels: Any


NORMAL = {"syn1": (100, False), "syn2": (5000, False), "syn3": (100, True), "syn4": (5000, True)}
"""Sets of normal entries: columns, and whether a row may have several of five labels. Sun, Ceran & Ye 2010, Table 1."""


def label_set(given: argparse.Namespace, name: str) -> LabelSet:
    """One of the dense sets with labels, or of normal entries; their labels are an array."""
    if name in NORMAL:
        (p, several), rng = NORMAL[name], np.random.default_rng(list(NORMAL).index(name))
        n, p = (100, p // 10) if given.quick else (1000, p)
        X = rng.standard_normal((n, p))
        return LabelSet(name, X, rng.integers(0, 2, (n, 5)) / 1.0 if several else rng.integers(0, 5, n))
    X, labels = _imitated(name) if given.quick else labelled(given, name)
    return LabelSet(name, X, labels.toarray() if name in SEVERAL else labels.astype(np.int64))


def _imitated(name: str) -> tuple[np.ndarray, Any]:
    """Make a small set with correlated columns, a constant one, and columns that depend on the labels."""
    kinds = LABELLED[name][2]
    rng = np.random.default_rng(kinds)
    n, p = 20 * kinds, 2 * kinds + 4
    Y = (
        rng.random((n, kinds)) < 0.3
        if name in SEVERAL
        else rng.integers(0, kinds, n)[:, None] == np.arange(kinds)
    )
    X = rng.standard_normal((n, p)) @ (rng.standard_normal((p, p)) / np.arange(1, p + 1)[:, None])
    X[:, :kinds] += Y
    X[:, -1] = 1.0
    return X, scipy.sparse.csr_matrix(Y / 1.0) if name in SEVERAL else Y.argmax(axis=1)


def labelled_news(given: argparse.Namespace, name: str) -> LabelSet:
    """Word counts of posts with groups, or of stories with topics; sparse, the words that most rows have first."""
    if given.quick:
        counts, labels = _posts(600, 600, 12, 0.1)
        if name == "reuters21578":
            other = np.random.default_rng(1).integers(0, 12, 600)
            labels = scipy.sparse.csr_matrix(np.eye(12)[labels] + np.eye(12)[other] > 0).astype(float)
    else:
        counts, labels = _labelled_counts(given, name)
    order = np.argsort(-np.bincount(counts.indices, minlength=counts.shape[1]), kind="stable")
    return LabelSet(name, counts[:, order], labels)
