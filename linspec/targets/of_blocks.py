"""Targets for discriminant analysis, from class labels in distributed blocks.

Problem: `linspec.targets.lda` needs all classes and their sizes before it can form one row of H, and the labels are on
the workers that hold the rows of X.
Method: every block of labels is converted once, on its worker, to the numbers of its own classes. The classes and
their sizes are merged by a tree and fetched; no vector with n entries is fetched. Each block then becomes rows of H.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from linspec.arrays import Home, HostArray, is_array
from linspec.errors import InvalidProblem, UnsupportedData, called
from linspec.operators.sparse import is_scipy_sparse
from linspec.operators.weights import weights_and_confounds
from linspec.targets.labels import Codes, as_array, coded, named_entries, one_hot
from linspec.workers.engine import Call, Engine, Handle
from linspec.workers.operator import BlockOperator

Sizes = tuple[HostArray, HostArray]
"""Classes, and for each class the number of its rows or the sum of their weights."""


class BlockClassTargets(BlockOperator):
    """The target matrix H of labels in blocks, with the classes of its columns.

    Attributes
    ----------
    classes : (numpy.ndarray of shape (c,), numpy.ndarray of shape (c,))
        The classes as passed (column numbers if a label matrix was passed), and for each class the number of its rows
        or the sum of their weights.
    often : numpy.ndarray of shape (n,) or None
        The weights of the rows.
    """

    classes: Sizes
    often: Any


def class_targets(
    engine: Engine,
    handles: Sequence[Handle],
    unlabelled: Any,
    sample_weight: Any,
) -> BlockClassTargets:
    """The targets of `linspec.targets.lda`; each block of rows of H is on the worker that holds its block of labels.

    Parameters
    ----------
    engine : Engine
    handles : sequence
        Handles of the blocks of a class vector, or of an indicator matrix, in the order of the rows.
    unlabelled : value or collection of values
        Entries of a class vector that mean "no class".
    sample_weight : array of shape (n,), or None
        How often each row counts.
    """

    def map_blocks(work: Any, *handles_of: Sequence[Handle]) -> Sequence[Handle]:
        return engine.map(work, [Call(i, each) for i, each in enumerate(zip(*handles_of, strict=True))])

    blocks = map_blocks(partial(_coded, named_entries(unlabelled)), handles)
    heights = engine.fetch_once(map_blocks(_height, blocks))
    weights, _ = weights_and_confounds(sample_weight, None, sum(heights))
    counts: list[tuple[Handle, ...]] = [(block,) for block in blocks]
    if weights is not None:
        cut = [weights[a:b] for a, b in pairwise([0, *accumulate(heights)])]
        counts = list(zip(blocks, engine.hold(cut), strict=True))
    calls = [Call(i, each) for i, each in enumerate(counts)]
    classes = with_rows(engine.reduce(counted, calls, _united), 2)
    H = BlockClassTargets(map_blocks(partial(rows_of, classes), blocks), engine, name="H")
    H.classes, H.often = classes, weights
    return H


def _coded(named: frozenset[Any], number: int, given: Any) -> Codes:
    """Convert one block of labels; messages name the block by `number`."""
    with called(f"block {number} of the labels"):
        labels = as_array(given)
        if not (is_array(labels) or is_scipy_sparse(labels)) or labels.ndim not in (1, 2):
            raise UnsupportedData(
                "data must be a vector of classes or a matrix with a column for each label; got "
                f"{type(given).__name__}. Convert the blocks."
            )
        return coded(labels, named, some=False)


def _height(_number: int, block: Codes) -> int:
    return len(block[0])


def counted(_number: int, block: Codes, weights: HostArray | None = None) -> Sizes:
    """Return the classes of a block, and their sizes within the block."""
    codes, names = block
    return names, np.bincount(codes + 1, weights, minlength=len(names) + 1)[1:].astype(np.float64)


def with_rows(classes: Sizes, least: int) -> Sizes:
    """The classes that some row has, and their sizes; raise if there are fewer than `least`, which is 1 or 2."""
    names, sizes = classes
    there = sizes > 0
    if there.sum() < least:
        raise InvalidProblem(
            f"lda needs rows of at least {'two classes' if least > 1 else 'one class'}; got {there.sum()}. Check "
            "`unlabelled`, or pass more rows."
        )
    return names[there], sizes[there]


def _united(_number: int, *parts: Sizes) -> Sizes:
    """Merge the classes of several blocks, sorted, and add up their sizes."""
    known = [(names, sizes) for names, sizes in parts if len(names)]
    if not known:
        return parts[0]
    kinds = {"numbers" if names.dtype.kind in "biuf" else names.dtype.kind for names, _ in known}
    if len(kinds) > 1:
        raise UnsupportedData(
            "classes must be all numbers or all strings; got some of both in different blocks of the labels. Name each "
            "class by a string, and a missing one by None."
        )
    names, where = np.unique(np.concatenate([names for names, _ in known]), return_inverse=True)
    return names, np.bincount(where, np.concatenate([sizes for _, sizes in known]), minlength=len(names))


def rows_of(of: Sizes, _number: int, block: Codes, home: Home | None = None) -> Any:
    """The rows of H for one block: each has 1/√(size of its class) in the column of the class; dense at a `home`."""
    (names, sizes), (codes, classes) = of, block
    columns = np.minimum(np.searchsorted(names, classes), len(names) - 1)
    columns = np.where(names[columns] == classes, columns, -1)  # a class whose rows all have weight 0
    return one_hot(np.append(columns, -1)[codes], 1.0 / np.sqrt(sizes), home)  # the last one is for no class
