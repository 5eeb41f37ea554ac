"""Training and held-out rows of each split, and the cells: sets of rows whose unions are these sets.

Problem: splits are given by a number of folds, by labels, by pairs of row numbers or by a splitter of scikit-learn,
and the moments of all training and held-out sets should be computed in one pass.
Method: rows that are on the same side in every split form a cell. Each training set and each held-out set is a union of
cells, so the moments of the cells are enough (`linspec.rows.cells`), and those of unions are merged. k folds give k
cells, and k splits of a growing time series k + 1.
Where we differ: random splits may have as many cells as rows. If there are more than `CELLS_A_SPLIT` cells per split,
each training set and each held-out set becomes one cell, and cells overlap. Subtracting the moments of the fold from
those of all rows would take fewer merges, but loses all digits by which the fold is larger than the other rows. So no
moments are subtracted here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate, chain
from typing import Any

import numpy as np

from linspec.arrays import HostArray, is_array, random_generator, to_host
from linspec.errors import InvalidOption, InvalidProblem, shown
from linspec.frames import entries_of_labels, is_series
from linspec.registry.options import is_number
from linspec.rows import Cell, Moments, Preprocessing
from linspec.solving.checks import check_row_slices
from linspec.solving.stating import with_values

CELLS_A_SPLIT = 2
"""Largest useful ratio of the number of cells to the number of splits.

If there are more cells, the training set and the held-out set of each split are used as cells instead."""

SIDES = "training", "held-out"
"""The sides of a split, in the order in which `Folds.splits` has them."""

NEVER = -1
"""The label of rows that are in every training set, as in scikit-learn's PredefinedSplit."""


@dataclass(frozen=True, eq=False)
class Folds:
    """Splits of n rows into training rows and held-out rows.

    Attributes
    ----------
    rows : int
        The number of rows.
    splits : tuple of (numpy.ndarray, numpy.ndarray)
        Per split, the numbers of the training rows and of the held-out rows, in increasing order.
    cells : tuple of numpy.ndarray
        Sets of row numbers, in increasing order.
    training, held_out : tuple of tuple of int
        Per split, the indices of the cells whose union is the training or the held-out set.
    """

    rows: int
    splits: tuple[tuple[HostArray, HostArray], ...]
    cells: tuple[HostArray, ...]
    training: tuple[tuple[int, ...], ...]
    held_out: tuple[tuple[int, ...], ...]

    @property
    def complements(self) -> bool:
        """Whether split i holds out cell i and fits all other cells.

        If so, the moments of each training set follow from those of the cells before and after cell i.
        """
        count = len(self.cells)
        one_by_one = self.held_out == tuple((i,) for i in range(count))
        return one_by_one and all(len(training) == count - 1 for training in self.training)

    def check_counted(self, weights: HostArray | None, of: str = "", sides: Sequence[str] = SIDES) -> None:
        """Refuse splits of which a side has no row of positive weight.

        Parameters
        ----------
        weights : numpy.ndarray of shape (n,), or None
            The weights of the rows; 0 for absent ones.
        of : str, optional
            The matrix that has these weights, for the message.
        sides : sequence of str, default ("training", "held-out")
            The sides to check.

        Raises
        ------
        InvalidProblem
            Some side has no such row.
        """
        for number, split in enumerate(self.splits):
            for name, rows in zip(SIDES, split, strict=True):
                if weights is not None and name in sides and not weights[rows].any():
                    what = f"are all absent from {of}, or" if of else "all"
                    raise InvalidProblem(
                        f"the {name} rows of split {number} {what} have weight 0. Ask for fewer folds, or other labels."
                    )


def folds_of(splitter: Any, rows: float, *, y: Any = None, groups: Any = None, rng: Any = None) -> Folds:
    """Compute the splits of n rows by a splitter, and their cells.

    Parameters
    ----------
    splitter : int, array or series of n labels, object with a method split, or iterable of pairs of row numbers
    rows : int or infinity
        The number of rows; infinity for a stream whose rows have not been counted.
    y : array of shape (n,), optional
        Passed to ``splitter.split`` as y.
    groups : array of shape (n,), optional
        The group of each row; rows of one group are on the same side of every split.
    rng : None, int or numpy.random.Generator
        Shuffles the rows if the splitter is a number of folds.

    Raises
    ------
    InvalidOption
        If the splitter has none of these types.
    InvalidProblem
        If there are no splits; if a side of a split is empty, or has row numbers out of range or twice; or if labels or
        groups do not have one entry for each row, or one is missing.

    Examples
    --------
    >>> from linspec.studies import folds_of
    >>> folds = folds_of([0, 1, 1, 0], rows=4)
    >>> [(training.tolist(), held_out.tolist()) for training, held_out in folds.splits]
    [([1, 2], [0, 3]), ([0, 3], [1, 2])]
    """
    labels = _labels(splitter, rows)
    named = None if groups is None else entries_of_labels(groups, "groups", rows)
    n: Any = min([rows, *(len(array) for array in (labels, named) if array is not None)])
    if n == math.inf:
        raise InvalidProblem(
            "the number of rows of a stream is not known, so they cannot be split beforehand. Pass an array with the "
            "fold label of each row: splitter=np.arange(n) % 5."
        )
    if is_number(splitter, int):
        labels = _drawn(int(splitter), n, named, rng)
    if labels is None:
        pairs = _pairs(splitter, n, y, named)
    elif named is not None and not is_number(splitter, int):
        raise InvalidOption(
            "groups are kept together by a number of folds or a splitter; got fold labels as well. Leave groups out."
        )
    else:
        pairs = _by_label(labels)
    splits = tuple(_checked(pair, n, number) for number, pair in enumerate(pairs))
    if not splits:
        raise InvalidProblem("a splitter must give at least one split; got none. Pass splitter=5.")
    return _with_cells(n, splits)


def _labels(splitter: Any, n: float) -> HostArray | None:
    """The splitter as an array of fold labels; None if it is a splitter of another type."""
    listed = isinstance(splitter, list | tuple | range) and not any(_is_pair(item) for item in splitter)
    if listed or is_series(splitter) or (is_array(splitter) and splitter.ndim == 1):
        return entries_of_labels(splitter, "fold labels", n)
    return None


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple | list) and len(item) == 2


def _drawn(folds: int, n: int, groups: HostArray | None, rng: Any) -> HostArray:
    """Draw a fold label for each row; with groups, all rows of a group get one label."""
    numbers = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    most = int(numbers.max(initial=-1)) + 1
    if not 2 <= folds <= most:
        what = "rows" if groups is None else "groups"
        raise InvalidProblem(f"folds must be between 2 and the number of {what}, {most}; got {folds}.")
    return random_generator(rng).permutation(np.arange(most) % folds)[numbers]


def _pairs(splitter: Any, n: int, y: Any, groups: HostArray | None) -> Iterable[Any]:
    if callable(getattr(splitter, "split", None)) and not isinstance(splitter, str):
        return splitter.split(np.zeros((n, 1)), y, groups)
    if isinstance(splitter, Iterable) and not isinstance(splitter, str | bytes | dict):
        return splitter
    raise InvalidOption(
        "splitter must be a number of folds, an array of fold labels, an object with a method split(X, y, groups), or "
        f"pairs of row numbers; got {shown(splitter)}. Pass splitter=5."
    )


def _by_label(labels: HostArray) -> Iterable[tuple[HostArray, HostArray]]:
    every = np.unique(labels)
    names = every[every != NEVER]
    if len(every) < 2:
        raise InvalidProblem(
            f"fold labels must have at least two different values; got {len(every)}. Pass splitter=5."
        )
    return [(np.flatnonzero(labels != name), np.flatnonzero(labels == name)) for name in names]


def _checked(pair: Any, n: int, number: int) -> tuple[HostArray, HostArray]:
    if not _is_pair(pair):
        raise InvalidOption(
            f"a split must be a pair (training rows, held-out rows); got {shown(pair)} as split {number}."
        )
    sides = []
    for rows, name in zip(pair, SIDES, strict=True):
        array = to_host(rows)
        array = np.flatnonzero(array) if array.dtype == bool and array.shape == (n,) else array
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise InvalidOption(f"split {number} must name its {name} rows by numbers; got {shown(rows)}.")
        if not array.size:
            raise InvalidProblem(f"split {number} has no {name} rows. Ask for fewer folds, or other labels.")
        sides.append(np.sort(array).astype(np.int64))
    named = np.sort(np.concatenate(sides))
    if named[0] < 0 or named[-1] >= n or np.any(named[1:] == named[:-1]):
        raise InvalidProblem(
            f"split {number} must name rows from 0 to {n - 1}, each on one side and once. Rows that count more often "
            "have a sample_weight."
        )
    return sides[0], sides[1]


def _with_cells(n: int, splits: Sequence[tuple[HostArray, HostArray]]) -> Folds:
    """Compute the largest cells such that every training set and every held-out set is a union of cells.

    If there are too many cells (`CELLS_A_SPLIT`), the training sets and held-out sets are used as cells.
    """
    codes = np.zeros(n, dtype=np.int64)
    for training, held_out in splits:
        codes = 3 * codes
        codes[training] += 1
        codes[held_out] += 2
        present = np.bincount(codes) > 0
        codes = (np.cumsum(present) - 1)[codes]  # from 0, without gaps
        if present.sum() > CELLS_A_SPLIT * len(splits) + 1:
            sides = [side for split in splits for side in split]
            pairs = [((2 * i,), (2 * i + 1,)) for i in range(len(splits))]
            return Folds(n, tuple(splits), tuple(sides), *zip(*pairs, strict=True))
    met = [[np.flatnonzero(np.bincount(codes[rows])).tolist() for rows in split] for split in splits]
    fitted, held = zip(*met, strict=True)
    order = dict.fromkeys(chain(*held, *fitted))  # so cell i of k folds is fold i
    cells = tuple(np.flatnonzero(codes == code) for code in order)
    number = {code: i for i, code in enumerate(order)}
    unions = (tuple(tuple(sorted(number[code] for code in some)) for some in side) for side in (fitted, held))
    return Folds(n, tuple(splits), cells, *unions)


def bytes_held(columns: int, folds: Folds) -> float:
    """Bytes of memory for the moments of all cells and for merging them."""
    return 8.0 * columns**2 * (2 * len(folds.cells) + 6)


def training_and_held_out(cells: Sequence[Cell], folds: Folds) -> Iterator[tuple[Cell, Cell]]:
    """Yield, for each split, the moments of its training rows and of its held-out rows, merged from those of cells.

    Parameters
    ----------
    cells : sequence of Cell
        Those of the folds, from `cells_of`.
    folds : Folds
        The result of `folds_of`.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.studies import cells_of, folds_of, training_and_held_out
    >>> A, folds = np.arange(6.0)[:, None], folds_of([0, 0, 1, 1, 2, 2], rows=6)
    >>> cells, _, _ = cells_of(ls.SVD(A, 1), folds)
    >>> pairs = training_and_held_out(cells, folds)
    >>> [(training.origin + training.mean, held_out.count) for training, held_out in pairs]
    [(array([3.5]), 2.0), (array([2.5]), 2.0), (array([1.5]), 2.0)]
    """
    if folds.complements and len(cells) > 2:
        behind = [
            [total] for total in accumulate(reversed(cells[1:]), lambda total, cell: cell.merged(total))
        ]
        before: list[Cell] = []  # the union of the cells so far; none at first
        for cell, after in zip(cells, [*reversed(behind), []], strict=True):
            yield reduce(Cell.merged, [*before, *after]), cell
            before = [reduce(Cell.merged, [*before, cell])]
        return
    for training, held_out in zip(folds.training, folds.held_out, strict=True):
        yield (
            reduce(Cell.merged, (cells[i] for i in training)),
            reduce(Cell.merged, (cells[i] for i in held_out)),
        )


def with_orthogonal_confounds(problem: Any) -> Any:
    """Return the problem, as `given` of a problem with confounds that span the same and are orthonormal over all rows.

    Gram matrices square the condition number of confounds, and hide what large means leave of them.
    """
    if problem.confounds is None:
        return problem
    pre = Preprocessing.of(
        center=bool(problem.center), weights=problem.sample_weight, confounds=problem.confounds
    )
    return with_values(problem, confounds=pre.B, given=problem)


def cells_of(
    problem: Any, folds: Folds, *, diagonal: bool = False, moments: Moments | None = None
) -> tuple[list[Cell], Cell, float]:
    """Compute the moments of every cell of rows, and of all rows, usually in one pass over the matrices of a problem.

    Parameters
    ----------
    problem : Problem
        Its matrices, `sample_weight` and `confounds` are used.
    folds : Folds
    diagonal : bool, default False
        Whether products of the last matrix with itself are left out, but for squares: for very many columns.
    moments : Moments, optional
        Those of the rows of a solver, which count the pass; confounds are then their basis. By default the matrices
        are read apart.

    Returns
    -------
    cells : list of Cell
        Columns are those of the matrices and then of the confounds; those of a matrix beside follow the confounds.
    whole : Cell
        The moments of all rows.
    passes : float
        The passes that this took.

    Raises
    ------
    MissingCapability
        A matrix is known only by its products.
    InvalidProblem
        The data have another number of rows.
    DataOutOfRange
        Entries are out of the range in which no product over- or underflows.
    NonFiniteData
        An entry is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.studies import cells_of, folds_of
    >>> problem = ls.SVD(np.array([[1.0], [3.0], [5.0]]), 1)
    >>> (first, second), whole, passes = cells_of(problem, folds_of([0, 0, 1], rows=3))
    >>> first.count, first.origin + first.mean, first.gram, whole.gram
    (2.0, array([2.]), array([[2.]]), array([[8.]]))
    """
    check_row_slices(problem, "cross-validation takes rows apart")
    if moments is None:
        rows = [A.in_blocks(name) for name, A in problem.matrices.items()]
        pre = Preprocessing.of(center=True, weights=problem.sample_weight)
        moments = Moments(rows, replace(pre, B=problem.confounds), names=tuple(problem.matrices))
    partition = (np.bincount(np.concatenate(folds.cells), minlength=folds.rows) == 1).all()
    every = [] if partition else [np.arange(folds.rows)]
    cells = moments.cells([*folds.cells, *every], folds.rows, diagonal=diagonal)
    whole = reduce(Cell.merged, cells) if partition else cells.pop()
    return cells, whole, moments.passes.count
