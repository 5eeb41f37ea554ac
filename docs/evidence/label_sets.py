"""The data with classes or labels of the two-stage experiments, read from a folder, or generated with `--quick`.

The folder is named by `--data` or by the environment variable LINSPEC_DATA. All sets are public:

- `wine/wine.npz` (178 x 13), `ionosphere/ionosphere.npz` (351 x 34), `optdigits/optdigits.npz` (5620 x 64): X, and y,
  the class of each row (UCI machine learning repository);
- `satimage/satimage.npz` (6435 x 36): X_train, y_train, X_test, y_test (UCI, Statlog);
- `usps/usps.npz` (9298 x 256): X_train_x1000, X_test_x1000, a thousand times the grey values, y_train, y_test;
- `scene/scene.npz` (2407 x 294, 6 labels), `yeast/yeast.npz` (2417 x 103, 14 labels): X_train, X_test, and Y_train,
  Y_test of zeros and ones (Mulan);
- `newsgroups20/X.npz`, `newsgroups20/meta.npz`: word counts of 18846 posts, `scipy.sparse.save_npz`, and y, the group
  of each;
- `reuters21578/X.npz`, `reuters21578/Y.npz`: word counts of 12902 stories and their 118 topics, both by `save_npz`.

Training and test rows are put together. Nothing is scaled.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from real_data import find

from linspec import targets

TARGETS: dict[str, Callable[[Any], Any]] = {
    "LDA": targets.lda,
    "CCA": targets.cca,
    "OPLS": targets.opls,
    "HSL clique": partial(targets.hsl, laplacian="clique"),
    "HSL star": partial(targets.hsl, laplacian="star"),
    "HSL Zhou": partial(targets.hsl, laplacian="zhou"),
}
"""What labels become, by technique."""

MULTI_LABEL = tuple(name for name in TARGETS if name != "LDA")

GENERATED = {"syn1": (100, False), "syn2": (5000, False), "syn3": (100, True), "syn4": (5000, True)}
"""Columns, and whether a row may have several labels: Table 1 of the source."""

CLASSES = {"wine": 3, "satimage": 6, "ionosphere": 2, "optdigits": 10, "usps": 10}
LABELS = {"scene": 6, "yeast": 14}

ROWS, GENERATED_LABELS, QUICK_WIDTH = 1000, 5, 0.1
"""Of generated data; the share of it that `--quick` takes of the rows and of the columns."""


@dataclass(frozen=True)
class LabelSet:
    """Rows, and the class of each (a vector) or the labels of each (a matrix)."""

    name: str
    X: Any
    labels: Any

    @property
    def techniques(self) -> tuple[str, ...]:
        """What is done with it in the source, and the third Laplacian."""
        return MULTI_LABEL if self.labels.ndim == 2 else ("LDA",)


def labelled(given: argparse.Namespace, name: str) -> LabelSet:
    """One of the dense sets."""
    if name in GENERATED:
        return LabelSet(name, *_generated(name, QUICK_WIDTH if given.quick else 1.0))
    if given.quick:
        return LabelSet(name, *_imitated(name))
    held = np.load(find(given, f"{name}/{name}.npz"))
    if name in LABELS:
        return LabelSet(name, _both(held, "X_{}"), _both(held, "Y_{}"))
    if name == "usps":
        return LabelSet(name, _both(held, "X_{}_x1000") / 1000, _both(held, "y_{}").astype(np.int64))
    if name == "satimage":
        return LabelSet(name, _both(held, "X_{}"), _both(held, "y_{}").astype(np.int64))
    return LabelSet(name, held["X"].astype(np.float64), held["y"].astype(np.int64))


def _both(held: Any, pattern: str) -> np.ndarray:
    return np.concatenate([held[pattern.format(part)] for part in ("train", "test")]).astype(np.float64)


def _generated(name: str, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Normal entries and labels at random."""
    (p, several), rng = GENERATED[name], np.random.default_rng(list(GENERATED).index(name))
    n, p = round(ROWS * share), round(p * share)
    X = rng.standard_normal((n, p))
    if several:
        return X, rng.integers(0, 2, (n, GENERATED_LABELS)).astype(np.float64)
    return X, rng.integers(0, GENERATED_LABELS, n)


def _imitated(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A small set with correlated columns, a constant one, and columns that tell of the labels."""
    kinds = CLASSES.get(name) or LABELS[name]
    rng = np.random.default_rng(kinds)
    n, p = 20 * kinds, 2 * kinds + 4
    Y = (
        rng.random((n, kinds)) < 0.3
        if name in LABELS
        else rng.integers(0, kinds, n)[:, None] == np.arange(kinds)
    )
    X = rng.standard_normal((n, p)) @ (rng.standard_normal((p, p)) / np.arange(1, p + 1)[:, None])
    X[:, :kinds] += Y
    X[:, -1] = 1.0
    return X, Y.astype(np.float64) if name in LABELS else Y.argmax(axis=1)


def news(given: argparse.Namespace, name: str) -> LabelSet:
    """Word counts of posts with groups, or of stories with topics; sparse, the words that most rows have first."""
    if given.quick:
        rng = np.random.default_rng(0)
        groups, home = rng.integers(0, 12, 600), rng.integers(0, 12, 600)
        rate = 0.3 / np.arange(1, 601) ** 0.7 + 0.1 * (groups[:, None] == home[None, :])
        counts, labels = scipy.sparse.csr_matrix(rng.poisson(rate)), groups
        if name == "reuters21578":
            labels = scipy.sparse.csr_matrix(
                np.eye(12)[groups] + np.eye(12)[rng.integers(0, 12, 600)] > 0
            ).astype(float)
    elif name == "reuters21578":
        counts, labels = (scipy.sparse.load_npz(find(given, f"{name}/{part}.npz")).tocsr() for part in "XY")
        labels = labels.astype(np.float64)
    else:
        counts = scipy.sparse.load_npz(find(given, f"{name}/X.npz")).tocsr()
        labels = np.load(find(given, f"{name}/meta.npz"))["y"].astype(np.int64)
    order = np.argsort(-np.bincount(counts.indices, minlength=counts.shape[1]), kind="stable")
    return LabelSet(name, counts[:, order], labels)
