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
- `wine`, `ionosphere`, `optdigits` (X and y), `satimage` (X_train, y_train, X_test, y_test), `usps` (X_train_x1000,
  X_test_x1000, a thousand times the grey values, y_train, y_test), `scene`, `yeast` (X and Y of zeros and ones, _train
  and _test), each as `NAME/NAME.npz` (UCI, Statlog, Mulan).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, NamedTuple

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


def _topical(rows: int, words: int, topics: int, lift: float = 0.1, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Generated word counts, common words first, and the topic of each row, which has words of its own.

    The topics depend on the number of rows only, so that other seeds give other views of them.
    """
    topic, rng = np.random.default_rng(0).integers(0, topics, rows), np.random.default_rng([1, seed])
    device = rng.integers(0, topics, words)
    rate = 0.3 / np.arange(1, words + 1) ** 0.7 + lift * (topic[:, None] == device[None, :])
    return scipy.sparse.csr_matrix(rng.poisson(rate).astype(np.float64)), topic


def _newsgroups(given: argparse.Namespace) -> tuple[Any, np.ndarray, np.ndarray]:
    if given.quick:
        counts, groups = _topical(900, 1500, 20)
        return counts, groups, np.arange(900) >= 600
    counts, meta = _counts(given, "newsgroups20/X.npz"), np.load(find(given, "newsgroups20/meta.npz"))
    return counts, meta["y"].astype(np.int64), meta["is_test"]


def newsgroups(given: argparse.Namespace) -> tuple[Any, np.ndarray]:
    """Words of the training posts, tf-idf, and the groups, one-hot; words of test posts are columns of zeros."""
    counts, groups, held_out = _newsgroups(given)
    return tf_idf(counts[~held_out]), np.eye(20)[groups[~held_out]]


class Classified(NamedTuple):
    """Rows with a class each, to learn from and to be judged by."""

    training: tuple[Any, np.ndarray]
    testing: tuple[Any, np.ndarray]


def _classified(A: Any, labels: np.ndarray, held_out: np.ndarray) -> Classified:
    return Classified((A[~held_out], labels[~held_out]), (A[held_out], labels[held_out]))


def all_newsgroups(given: argparse.Namespace) -> Classified:
    """Words of posts, tf-idf, with the group as class and the test posts held out."""
    counts, groups, held_out = _newsgroups(given)
    return _classified(tf_idf(counts, ~held_out), groups, held_out)


def news_stories(given: argparse.Namespace) -> Any:
    """Words of the training stories of Reuters-21578, tf-idf."""
    return tf_idf(_topical(500, 1500, 12)[0] if given.quick else _counts(given, "reuters21578/X.npz")[:9603])


def titles_and_queries(given: argparse.Namespace) -> tuple[Any, Any]:
    if given.quick:
        return _topical(4000, 500, 40, 0.3)[0], _topical(4000, 300, 40, 0.3, seed=1)[0]
    X, Y = (_counts(given, f"homedepot/{name}_counts.npz") for name in ("title", "query"))
    return X, Y


def relevant_titles(given: argparse.Namespace) -> Classified:
    """Words of titles, of queries, and of both, tf-idf, with the class whether the product's score is above the median.

    Words of both count as often as in the one that has them less often. A fifth of the rows is held out.
    """
    titles, queries = titles_and_queries(given)
    if given.quick:
        titles, queries, pairs = titles[:1200], queries[:1200], (np.arange(300), np.arange(300))
        relevance = np.asarray(titles[:, 5:40].sum(axis=1)).ravel() + np.random.default_rng(0).random(1200)
    else:
        meta = np.load(find(given, "homedepot/meta.npz"))
        relevance = meta["relevance"]
        pairs = np.intersect1d(meta["title_vocab"], meta["query_vocab"], return_indices=True)[1:]
    held_out = np.random.default_rng(0).permutation(len(relevance)) < 0.2 * len(relevance)
    shared = titles[:, pairs[0]].minimum(queries[:, pairs[1]])
    blocks = [tf_idf(counts, ~held_out) for counts in (titles, queries, shared)]
    relevant = (relevance > np.median(relevance)).astype(np.int64)
    return _classified(scipy.sparse.hstack(blocks).tocsr(), relevant, held_out)


def most_frequent(A: Any, without: int, columns: int) -> Any:
    """The most frequent columns after a number of still more frequent ones have been removed."""
    rows = np.asarray((A > 0).sum(axis=0)).ravel()
    order = np.argsort(-rows, kind="stable")[without : without + columns]
    return A[:, np.sort(order)].tocsr()


class Views(NamedTuple):
    """Two views of the same rows, and of rows held out where there are any."""

    X: Any
    Y: Any
    held_out: tuple[Any, Any] | None = None


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


def next_words(given: argparse.Namespace, words: int, *, halves: bool = False) -> Views:
    """Words and the most frequent of those that follow, one-hot; with `halves`, the second half is held out."""
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


def write_planted(path: Path, rows: int, columns: int, *, factors: int = 10, weakest: float = 0.3) -> None:
    """Write float32 rows with shared factors of strengths from 1 to the weakest, and noise, as a file to be mapped."""
    file, rng = np.lib.format.open_memmap(path, "w+", np.float32, (rows, columns)), np.random.default_rng(0)
    loadings = rng.standard_normal((factors, columns), dtype=np.float32)
    loadings *= np.linspace(1.0, weakest, factors, dtype=np.float32)[:, None]
    for start in range(0, rows, 50_000):
        n = min(50_000, rows - start)
        shared = rng.standard_normal((n, factors), dtype=np.float32) @ loadings
        file[start : start + n] = shared + np.float32(2.0) * rng.standard_normal(
            (n, columns), dtype=np.float32
        )
    file.flush()


PROBLEMS: dict[str, Any] = {
    "SVD": lambda k, A: ls.SVD(A, k, center=True),
    "triplets": lambda k, A: ls.SVD(A, k),
    "ridge": lambda _, A, b: ls.LeastSquares(A, b, ridge=1.0),
    "CCA": lambda k, X, Y: ls.CCA(X, Y, k, ridge=1e-3 * X.shape[0]),
    "LDA": lambda _, X, y: ls.Discriminant(X, ls.targets.lda(y), ridge=1.0),
}
"""Problems of the data that `generated` makes, by family."""


def generated(family: str, k: int, n: int, p: int, each: int = 0) -> tuple[Any, ...]:
    """Data for a family: rows with a falling spectrum and noise, or sparse ones with this many entries each.

    Of CCA the second view has three quarters of the columns; k is the number of classes of LDA, of targets of ridge.
    """
    q = 3 * p // 4 if family == "CCA" else 0
    A = _falling(n, p + q) if not each else _skewed(n, p, each)
    if family in ("SVD", "triplets"):
        return (A,)
    if family == "CCA" and each:
        return A, _skewed(n, q, each // 2, seed=1)
    if family == "CCA":
        return np.ascontiguousarray(A[:, :p]), np.ascontiguousarray(A[:, p:])
    rng = np.random.default_rng(1)
    if family == "LDA":
        return A, np.argmax(A @ rng.standard_normal((p, k)), axis=1)
    return A, A @ rng.standard_normal((p, k)) / np.sqrt(p) + rng.standard_normal((n, k))


def _falling(n: int, p: int) -> np.ndarray:
    """The spectrum falls like 1/j."""
    rng, r = np.random.default_rng(0), min(n, p, 50)
    signal = (rng.standard_normal((n, r)) / np.arange(1, r + 1)) @ rng.standard_normal((r, p))
    return signal + 0.1 * rng.standard_normal((n, p))


def _skewed(n: int, p: int, each: int, seed: int = 0) -> Any:
    """Sparse counts, most of them in the first columns, with some topics."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, 10, n).repeat(each)
    columns = np.minimum(rng.zipf(1.3, n * each) - 1, p - 1)
    columns = np.where(rng.random(n * each) < 0.5, (columns + topic * (p // 10)) % p, columns)
    A = scipy.sparse.csr_matrix((np.ones(n * each), columns, np.arange(0, n * each + 1, each)), shape=(n, p))
    A.sum_duplicates()
    A.data = np.log1p(A.data)
    return A


def _mnist(given: argparse.Namespace, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Left and right halves of the images of the training or the test part, pixels in [0, 1]."""
    images = np.load(find(given, "mnist/mnist.npz"))[f"X_{part}"].reshape(-1, 28, 28) / 255.0
    left, right = (np.ascontiguousarray(half) for half in np.split(images, 2, axis=2))
    return left.reshape(len(images), -1), right.reshape(len(images), -1)


def split_halves(given: argparse.Namespace) -> Views:
    """Left and right halves of the training images; the test images are held out."""
    if not given.quick:
        return Views(*_mnist(given, "train"), _mnist(given, "test"))
    X, Y = generated("CCA", 0, 4000, 96)
    return Views(X[:3000], Y[:3000], (X[3000:], Y[3000:]))


def images(given: argparse.Namespace) -> np.ndarray:
    """Training images; those that are generated have a falling spectrum."""
    if not given.quick:
        return np.load(find(given, "mnist/mnist.npz"))["X_train"].reshape(-1, 784) / 255.0
    return 1.0 + generated("SVD", 0, 600, 120)[0]


CLASSES = {"yeast": 14, "scene": 6, "wine": 3, "optdigits": 10, "satimage": 6, "usps": 10, "ionosphere": 2}
# Sets whose rows have any number of labels; the others have classes.
SEVERAL = ("reuters21578", "yeast", "scene")
NORMAL = {"syn1": (100, False), "syn2": (5000, False), "syn3": (100, True), "syn4": (5000, True)}
"""Sets of normal entries: columns, and whether a row may have several of five labels. Sun, Ceran & Ye 2010, Table 1."""


class LabelSet(NamedTuple):
    """Rows, and the class of each (a vector) or the labels of each (a matrix)."""

    name: str
    X: Any
    labels: Any


def label_set(given: argparse.Namespace, name: str) -> LabelSet:
    """One of the dense sets with labels, or of normal entries; nothing is scaled, but for pixels of USPS."""
    if name in NORMAL:
        (p, several), rng = NORMAL[name], np.random.default_rng(list(NORMAL).index(name))
        n, p = (100, p // 10) if given.quick else (1000, p)
        X = rng.standard_normal((n, p))
        return LabelSet(name, X, rng.integers(0, 2, (n, 5)) / 1.0 if several else rng.integers(0, 5, n))
    if given.quick:
        return _imitated(name)
    held = np.load(find(given, f"{name}/{name}.npz"))
    X, y = (_joined(held, part) for part in ("X", "Y" if name in SEVERAL else "y"))
    X = X / 1000.0 if name == "usps" else X.astype(np.float64)
    return LabelSet(name, X, y.astype(np.float64 if name in SEVERAL else np.int64))


def _joined(held: Any, part: str) -> np.ndarray:
    """Training and test rows below each other, whatever they are called."""
    named = [name for name in held.files if name == part or name.startswith(f"{part}_")]
    return np.concatenate([held[name] for name in sorted(named, key=lambda name: "test" in name)])


def _imitated(name: str) -> LabelSet:
    """Make a small set with a constant column and others that go with the labels."""
    kinds = CLASSES[name]
    X, y = generated("LDA", kinds, 20 * kinds, 2 * kinds + 4)
    X[:, -1] = 1.0
    several = np.maximum(np.eye(kinds)[y], np.eye(kinds)[np.roll(y, 1)])
    return LabelSet(name, X, several if name in SEVERAL else y)


def labelled_news(given: argparse.Namespace, name: str) -> LabelSet:
    """Word counts of posts with groups, or of stories with topics; sparse, the words that most rows have first."""
    if given.quick:
        counts, labels = _topical(600, 600, 12)
        if name == "reuters21578":
            other = np.random.default_rng(1).integers(0, 12, 600)
            labels = scipy.sparse.csr_matrix(np.eye(12)[labels] + np.eye(12)[other] > 0).astype(float)
    elif name == "newsgroups20":
        counts, labels, _ = _newsgroups(given)
    else:
        counts, labels = (_counts(given, f"{name}/{part}.npz") for part in "XY")
    order = np.argsort(-np.bincount(counts.indices, minlength=counts.shape[1]), kind="stable")
    return LabelSet(name, counts[:, order], labels)
