"""Which rows may change places in a permutation test, and matrices whose rows have changed places or signs.

Problem: a permutation test compares an answer with those of rows in other orders, which are as likely as the order
seen if no matrix is related to another one. Not all orders are: runs of one subject are alike, and sites differ.
Method: rows belong to units, which move as a whole, each row to the same position in another unit. A unit takes the
place of a unit of as many rows in the same block. Without groups each row is a unit, and without blocks all rows are
one block. A unit may change its sign instead, if errors are symmetric about zero. Or the user lists orders. Rows of
weight 0 belong to no unit.

Problem: the components of one matrix, such as principal components, have values larger than zero in data without any
structure, too. How large are they then?
Method: parallel analysis. The entries of each column are permuted over the rows, or change their signs, each column by
itself. Lengths of the columns stay, and nothing relates the columns any more. Sparse data stay sparse: the stored
entries of a column get random rows, all different, since zeros are exchangeable as other entries are.
Source: Winkler, Webster, Vidaurre, Nichols & Smith 2015, NeuroImage 123:253, doi:10.1016/j.neuroimage.2015.05.092
(blocks, whole and within; signs); Horn 1965, Psychometrika 30:179, doi:10.1007/BF02289447; Buja & Eyuboglu 1992,
Multivariate Behav. Res. 27:509, doi:10.1207/s15327906mbr2704_2; Hong, Sheng & Dobriban 2020, arXiv:2012.02985 (signs).
Where we differ: Horn draws normal numbers; permutations keep the distribution of each column.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import gammaln

from linspec.arrays import Array, Device, HostArray, reciprocal
from linspec.errors import InvalidOption, InvalidProblem, MissingCapability
from linspec.frames import entries_of_labels
from linspec.operators import LinearOperator, as_operator
from linspec.operators.base import chosen_rows
from linspec.solving.problem import Problem

Draw = tuple[HostArray, HostArray | None]
"""Rows that have changed places: row i of the result is row `order[i]`, times `signs[i]` unless they are None."""


@dataclass(frozen=True, eq=False)
class Exchange:
    """The ways in which rows change places.

    Attributes
    ----------
    count : int
        The number of rows.
    units : tuple of numpy.ndarray of shape (number of units, rows of a unit)
        Numbers of rows. Each array has units that may take each other's place.
    flips : bool
        Whether units change their signs, and not their places.
    orders : numpy.ndarray of shape (permutations, orders, count) or None
        Listed orders, one for each matrix after the first.
    basis : numpy.ndarray of shape (count, s) or None
        Orthonormal columns, the means and confounds, whose effect is subtracted again after signs have changed.
    """

    count: int
    units: tuple[HostArray, ...]
    flips: bool = False
    orders: HostArray | None = None
    basis: HostArray | None = None

    @classmethod
    def free(cls, count: int, *, flips: bool = False) -> Exchange:
        """All rows may change places, or signs."""
        return cls(count, (np.arange(count)[:, None],), flips)

    @classmethod
    def of(
        cls,
        n: int,
        groups: Any,
        blocks: Any,
        *,
        flips: bool,
        orders: HostArray | None,
        weights: HostArray | None = None,
    ) -> Exchange:
        """Check labels of groups and blocks, and listed orders of n rows; rows of weight 0 stay where they are.

        Raises
        ------
        InvalidProblem
            Labels or orders do not fit the rows, a group is in several blocks, or no unit has a place to go to.
        InvalidOption
            Arguments exclude each other.
        """
        listed = orders is not None and (flips or groups is not None or blocks is not None)
        if listed or (flips and blocks is not None):
            raise InvalidOption(
                "permutations= lists orders of the rows, and takes no groups, blocks or sign_flips beside it; signs "
                "change in no blocks, but in groups=; got two of them. Leave one out."
            )
        if orders is not None:
            return cls(n, (np.arange(n)[:, None],), orders=_checked(orders, n))
        counted = np.arange(n) if weights is None else np.flatnonzero(weights)
        within = group_numbers(blocks, n, "blocks", weights)
        within = np.zeros(n, dtype=np.intp) if within is None else within
        units = group_numbers(groups, n, weights=weights)
        alike: dict[tuple[int, int], list[HostArray]] = {}
        for rows in () if units is None else _rows_of(units, counted):
            block = within[rows]
            if np.ptp(block) > 0:
                raise InvalidProblem(
                    f"groups move as a whole within blocks; got the group of row {rows[0]} in several blocks. Give all "
                    "rows of a group the same block."
                )
            alike.setdefault((int(np.max(block)), len(rows)), []).append(rows)
        sets = tuple(np.array(some) for some in alike.values())
        if units is None:
            sets = tuple(rows[:, None] for rows in _rows_of(within, counted))
        if not flips and all(len(some) == 1 for some in sets):
            raise InvalidProblem(
                "no two groups of one block have the same number of rows (a row without groups= is a group), so none "
                "can take the place of another. Leave out rows to make sizes equal, or pass fewer blocks."
            )
        return cls(n, sets, flips)

    @property
    def is_free(self) -> bool:
        """Whether each row may take any place, in no listed order."""
        return self.orders is None and self.units[0].shape == (self.count, 1)

    @property
    def log_count(self) -> float:
        """The logarithm of the number of different results."""
        sizes = np.array([len(some) for some in self.units], dtype=np.float64)
        return float(np.sum(sizes * np.log(2) if self.flips else gammaln(sizes + 1)))

    def repeated(self, counts: HostArray | None) -> Exchange:
        """The exchange of rows that are repeated so often; None for rows that are not."""
        if counts is None:
            return self
        if not self.is_free:
            raise InvalidProblem(
                "weights that count equal rows make units of different sizes, which have no place to go to; got them "
                'beside groups, blocks or listed orders. Repeat the rows and their labels, or pass weights="survey".'
            )
        return Exchange.free(int(counts.sum()), flips=self.flips)

    def draws(self, generator: np.random.Generator, number: int, several: int) -> list[Draw]:
        """The places or signs of permutation `number`, independent for `several` matrices."""
        if self.orders is not None:
            return [(order, None) for order in self.orders[number]]
        return [self._drawn(generator) for _ in range(several)]

    def _drawn(self, generator: np.random.Generator) -> Draw:
        order = np.arange(self.count)
        signs = np.ones(self.count) if self.flips else None
        for some in self.units:
            if signs is not None:
                signs[some] = generator.choice((-1.0, 1.0), len(some))[:, None]
            else:
                order[some] = some[generator.permutation(len(some))]
        return order, signs

    def without_basis(self, W: Array, device: Device) -> Array:
        """The rows without means and confounds, which come back when signs change."""
        L = None if self.basis is None else device.asarray(self.basis)
        return W if L is None else W - L @ (L.T @ W)

    def keeps(self, basis: HostArray) -> bool:
        """Whether the span of orthonormal columns is the same after each of some draws, or each listed order."""
        generator, tries = np.random.default_rng(0), TRIES if self.orders is None else len(self.orders)
        draws = (draw for number in range(tries) for draw in self.draws(generator, number, 1))
        moved = (basis[order] for order, _ in draws)
        return all(np.abs(M - basis @ (basis.T @ M)).max() <= SAME for M in moved)


TRIES = 30
"""So many random draws keep a span by chance, if not all draws do, with a probability of at most 2⁻³⁰."""

SAME = 1e-9
"""Largest entry of the part of a unit vector that counts as rounding."""


def _checked(orders: Any, n: int) -> HostArray:
    """Listed orders of n rows as an array with three dimensions."""
    try:
        listed = np.asarray(orders)
    except ValueError:  # rows of different lengths
        listed = np.asarray(orders, dtype=object)
    several = listed[:, None, :] if listed.ndim == len("mn") else listed
    fits = several.ndim == len("mon") and several.shape[2] == n and len(listed) and listed.dtype.kind in "iu"
    if not fits or (np.sort(several, axis=2) != np.arange(n)).any():
        raise InvalidProblem(
            f"permutations must be a number, or integers of shape (permutations, {n}), with each row from 0 to {n - 1} "
            f"once in each order; got {listed.shape} of {listed.dtype}, or some row twice. Count rows from 0."
        )
    return several


def group_numbers(
    groups: Any, n: float, name: str = "groups", weights: HostArray | None = None
) -> HostArray | None:
    """Number the groups of rows that count from 0, and return the number of each row; None without groups."""
    if groups is None:
        return None
    labels = entries_of_labels(groups, name, n)
    names = np.unique(labels if weights is None else labels[weights > 0])
    if len(names) < 2:
        raise InvalidProblem(
            f"{name} must have at least two labels of rows that count; got one. Pass more labels, or leave "
            "them out."
        )
    return np.minimum(np.searchsorted(names, labels), len(names) - 1)  # a row that does not count: any number


def _rows_of(numbers: HostArray, counted: HostArray) -> list[HostArray]:
    """The rows that count of each group, in order."""
    numbers = numbers[counted]
    ends = np.cumsum(np.bincount(numbers))[:-1]
    return np.split(counted[np.argsort(numbers, kind="stable")], ends)


# ---- matrices ---------------------------------------------------------------------------------------


def permuted(
    problem: Problem[Any], exchange: Exchange, generator: np.random.Generator, number: int = 0
) -> Problem[Any]:
    """Return the problem with matrices by chance, each as its field declares.

    The rows of every matrix but the first change places or signs, each matrix by itself; or the entries of each column
    do, each column by itself.
    """
    matrices, draws = {}, iter(exchange.draws(generator, number, len(problem.matrices) - 1))
    for i, (name, A) in enumerate(problem.matrices.items()):
        if problem.stated.permutes_columns(name):
            matrices[name] = with_columns_permuted(A, exchange, generator)
        elif i > 0:
            order, signs = next(draws)
            matrices[name] = chosen_rows(A, order) if signs is None else _signed(A, signs[:, None], exchange)
    return problem.with_matrices(matrices)


def _signed(A: LinearOperator, signs: HostArray, exchange: Exchange) -> LinearOperator:
    """The matrix with other signs, less means and confounds again, which are not what they were; lengths stay."""
    device, xp = A.device.blocks, A.device.blocks.xp
    W = device.asarray(A.dense())
    squares = xp.sum(W * W, axis=0)
    W = exchange.without_basis(W * device.asarray(signs), device)
    lengths = xp.sqrt(squares * reciprocal(xp.sum(W * W, axis=0)))
    return as_operator(W * lengths[None, :])


def of_columns(problem: Problem[Any]) -> list[str]:
    """The matrices of which the entries of each column are permuted."""
    return [name for name in problem.matrices if problem.stated.permutes_columns(name)]


def check_can_move(problem: Problem[Any], exchange: Exchange) -> None:
    """Raise if matrices cannot change places or signs as asked."""
    columns, others = of_columns(problem), len(problem.matrices) - 1
    if exchange.orders is not None and (columns or exchange.orders.shape[1] != others):
        raise InvalidProblem(
            f"permutations must list an order for each of {others} matrices after the first: shape (permutations, "
            f"{others}, {exchange.count}); got {exchange.orders.shape[1]} for each permutation. Of a single matrix "
            "each column has an order of its own: pass a number of permutations."
        )
    for name, A in problem.matrices.items():
        if name in columns and (A.access != "rows" or (A.sparse and not A.device.on_host)):
            raise MissingCapability(
                f"permutation_test permutes the entries of each column of {name}, which must be rows in memory, and "
                f"sparse ones of SciPy; got {A!r}. Pass an array, a sparse matrix or a file."
            )
        if exchange.flips and (A.sparse or not A.readable):
            raise MissingCapability(
                f"sign_flips needs dense rows, because means are subtracted first; got {A!r} for {name}. Permute rows, "
                f"or pass a dense array."
            )


def with_columns_permuted(
    A: LinearOperator, exchange: Exchange, generator: np.random.Generator
) -> LinearOperator:
    """Return the matrix with the entries of each column in other places or with other signs, each column by itself."""
    held, (n, p) = A.rows(slice(0, A.shape[0])), A.shape
    sparse = scipy.sparse.issparse(held.stored_array)
    if exchange.is_free and not exchange.flips:
        if sparse:
            columns = scipy.sparse.csc_array(held.stored_array, copy=True)
            columns.sum_duplicates()  # two stored numbers of one entry move together
            rows, edges = np.empty(columns.nnz, dtype=np.intp), columns.indptr
            for a, b in pairwise(edges.tolist()):
                rows[a:b] = generator.choice(n, b - a, replace=False)
            return as_operator(scipy.sparse.csc_array((columns.data, rows, edges), shape=A.shape).tocsr())
        orders = generator.permuted(np.tile(np.arange(n), (p, 1)), axis=1).T
    else:
        draws = exchange.draws(generator, 0, p)
        if exchange.flips:
            signs = np.column_stack([signs for _, signs in draws if signs is not None])
            return _signed(held, signs, exchange)
        orders = np.column_stack([order for order, _ in draws])
        if sparse:
            entries = scipy.sparse.coo_array(held.stored_array)
            i, j = entries.coords
            places = np.argsort(orders, axis=0)[i, j]
            return as_operator(scipy.sparse.csr_array((entries.data, (places, j)), shape=entries.shape))
    xp, device = A.device.xp, A.device.native
    return as_operator(xp.take_along_axis(held.dense(), xp.asarray(orders, device=device), axis=0))
