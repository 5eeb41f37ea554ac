"""Targets for discriminant analysis, from class labels in distributed blocks.

Problem: `linspec.targets.lda` needs all classes and their sizes before it can form one row of H, and the labels are on
the workers that hold the rows of X.
Method: every block of labels is converted once, on its worker, to the numbers of its own classes. The classes and
their sizes are merged by a tree and fetched; no vector with n entries is fetched. Each block then becomes rows of H.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import HostArray, is_array, to_host
from linspec.errors import InvalidOption, InvalidProblem, UnsupportedData, called
from linspec.operators.row_model import weights_and_confounds
from linspec.operators.sparse import checked_rows, is_scipy_sparse
from linspec.sweeps.blocks.engine import Call, Engine, Handle
from linspec.sweeps.blocks.operator import BlockOperator
from linspec.targets.class_vectors import as_array, named_entries, numbered_if_any

Numbered = tuple[HostArray, HostArray]
"""For one block: the index of the class of each row (-1 without a class), and the classes of the block."""

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
    often: HostArray | None


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
    number = Number(named_entries(unlabelled))
    blocks = engine.map(number, [Call(i, (handle,)) for i, handle in enumerate(handles)])
    heights = engine.fetch_once(engine.map(_height, [Call(i, (block,)) for i, block in enumerate(blocks)]))
    weights, _ = weights_and_confounds(sample_weight, None, sum(heights))
    given: list[tuple[Handle, ...]] = [(block,) for block in blocks]
    if weights is not None:
        cut = [weights[a:b] for a, b in pairwise([0, *accumulate(heights)])]
        given = [
            (block, beside)
            for block, beside in zip(blocks, engine.together(blocks, engine.hold(cut)), strict=True)
        ]
    names, sizes = engine.reduce(_counted, [Call(i, values) for i, values in enumerate(given)], _united)
    names, sizes = names[sizes > 0], sizes[sizes > 0]
    if len(names) < 2:
        raise InvalidProblem(
            f"lda needs rows of at least two classes; got {len(names)}. Check `unlabelled`, or pass more rows."
        )
    rows = engine.map(RowsOfTargets(names, sizes), [Call(i, (block,)) for i, block in enumerate(blocks)])
    H = BlockClassTargets(rows, engine, name="H")
    H.classes, H.often = (names, sizes), weights
    return H


@dataclass(frozen=True)
class Number:
    """Work that converts a block of labels to class indices and the classes of the block.

    Parameters
    ----------
    named : frozenset
        Entries that mean "no class".
    """

    named: frozenset[Any]

    def __call__(self, number: int, given: Any) -> Numbered:
        """Convert one block; messages name the block by `number`."""
        with called(f"block {number} of the labels"):
            labels = as_array(given)
            if is_scipy_sparse(labels) or (is_array(labels) and labels.ndim == 2):
                return self._of_indicators(labels)
            if not is_array(labels) or labels.ndim != 1:
                raise UnsupportedData(
                    "data must be a vector of classes or a matrix with a column for each label; got "
                    f"{type(given).__name__}. Convert the blocks."
                )
            return numbered_if_any(to_host(labels), self.named)

    def _of_indicators(self, labels: Any) -> Numbered:
        if self.named:
            raise InvalidOption(
                "unlabelled names entries of a class vector; got it with a label matrix. A row of zeros there is a row "
                "without labels."
            )
        rows = scipy.sparse.csr_array(checked_rows(labels) if is_scipy_sparse(labels) else labels, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        strange = rows.data[rows.data != 1]
        if len(strange):
            raise InvalidProblem(
                f"lda takes class vectors, or matrices of zeros and ones; got {strange[0]:g} in a matrix. A column of "
                "class numbers is a class vector: pass one dimension."
            )
        held = np.diff(rows.indptr)
        if held.max(initial=0) > 1:
            raise InvalidProblem(
                f"lda takes at most one label for each row; got {held.max()} in row {held.argmax()} of the block. For "
                "rows with several labels pass the label matrix itself as H, which is what opls makes of it."
            )
        numbers = np.full(rows.shape[0], -1, dtype=np.int64)
        numbers[held == 1] = rows.indices
        return numbers, np.arange(rows.shape[1])


def _height(_number: int, block: Numbered) -> int:
    return len(block[0])


def _counted(_number: int, block: Numbered, weights: HostArray | None = None) -> Sizes:
    """Return the classes of a block, and their sizes within the block."""
    numbers, names = block
    there = numbers >= 0
    rows = None if weights is None else weights[there]
    return names, np.bincount(numbers[there], rows, minlength=len(names)).astype(np.float64)


def _united(_number: int, *found: Sizes) -> Sizes:
    """Merge the classes of several blocks, sorted, and add up their sizes."""
    known = [(names, sizes) for names, sizes in found if len(names)]
    if not known:
        return found[0]
    kinds = {"numbers" if names.dtype.kind in "biuf" else names.dtype.kind for names, _ in known}
    if len(kinds) > 1:
        raise UnsupportedData(
            "classes must be all numbers or all strings; got some of both in different blocks of the labels. Name each "
            "class by a string, and a missing one by None."
        )
    names, where = np.unique(np.concatenate([names for names, _ in known]), return_inverse=True)
    return names, np.bincount(where, np.concatenate([sizes for _, sizes in known]), minlength=len(names))


@dataclass(frozen=True)
class RowsOfTargets:
    """Work that converts a block of labels to rows of H: each has 1/√(size of its class) in the column of the class.

    Parameters
    ----------
    names, sizes : numpy.ndarray of shape (c,)
        All classes, sorted, and the sizes of the classes.
    """

    names: HostArray
    sizes: HostArray

    def __call__(self, _number: int, block: Numbered) -> Any:
        """The rows of H for one block."""
        numbers, own = block
        columns = np.minimum(np.searchsorted(self.names, own), len(self.names) - 1)
        columns = np.where(self.names[columns] == own, columns, -1)  # a class whose rows all have weight 0
        columns = np.append(columns, -1)[numbers]  # rows without a class take the last one
        there = columns >= 0
        starts = np.concatenate([[0], np.cumsum(there)])
        entries = 1.0 / np.sqrt(self.sizes[columns[there]])
        return scipy.sparse.csr_array(
            (entries, columns[there], starts), shape=(len(numbers), len(self.names))
        )
