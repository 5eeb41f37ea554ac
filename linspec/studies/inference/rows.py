"""Rows that are drawn, and rows from which means and confounds are removed before they change places, of any problem.

Problem: a permutation test pairs the rows of several matrices at random, and a bootstrap draws rows. Data in files
should not be read again for each of several hundred solves.
Method: data that are not in memory, and fit, are read once. Means are subtracted and columns scaled once, which
permutations do not change. Weights count equal rows: a row of weight 3 is three rows. Weights of a survey stay with the
rows of the first matrix; a draw takes rows, and multiplies their weights.

Problem: what confounds leave of rows is not exchangeable as the rows were: n rows have rank n − s.
Method: three cases. First, if the span of the constant and the confounds is the same after every exchange, residuals
change places as rows do: confounds that are constant within blocks, say. Second, if all rows may change places, the
matrices are multiplied by Qᵀ for a matrix Q with orthonormal columns that are orthogonal to the constant and the
confounds, and the n − s rows of the products change places (Huh & Jhun). Third, if whole groups of one size change
places, and confounds are constant within groups, the same is done with groups for rows, at each position in the groups
by itself. Everything else is refused. Qᵀ is the last n − s rows of s Householder reflections. Qᵀ spreads the s rows
that go over all that stay, so it is not for signs, which are for rows of different sizes: residuals change their signs,
and what the constant and the confounds explain of them then is subtracted again (Freedman & Lane).
Source: Huh & Jhun 2001, Commun. Stat. Theory Methods 30:2023, doi:10.1081/STA-100106060; Freedman & Lane 1983, J. Bus.
Econ. Stat. 1:292, doi:10.1080/07350015.1983.10509354.
Where we differ: the third case, which subtracts the effects of the confounds at each position.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from linspec.arrays import Array, HostArray, column_magnitudes, reciprocal, to_host
from linspec.blocks.units import check_sizes
from linspec.errors import InvalidProblem, MissingCapability
from linspec.operators import LinearOperator, as_operator
from linspec.process import machine
from linspec.rows import EXPLAINED, Preprocessing, check_products
from linspec.solving.checks import check_row_slices
from linspec.solving.problem import Problem
from linspec.solving.select import check_fits
from linspec.solving.stating import with_values
from linspec.studies.inference.exchange import SAME, Exchange

P = TypeVar("P", bound=Problem[Any])


# ---- data and weights -----------------------------------------------------------------------------


def check_rows_are_known(problem: Problem[Any], purpose: str) -> None:
    """Raise if a problem has no rows of known number that can be read several times.

    Parameters
    ----------
    problem : Problem
    purpose : str
        The beginning of the message: "bootstrap draws rows".
    """
    if problem.shared is not None:
        raise InvalidProblem(f"{purpose}; got moments, which have none. Pass the data themselves.")
    problem.check_rows_came(purpose)
    matrices = problem.matrices.values()
    if min(A.readings for A in matrices) == 1 or any(math.isinf(A.shape[0]) for A in matrices):
        raise InvalidProblem(
            f"{purpose} and reads them many times, so it must know how many there are; got rows that come slice by "
            "slice. Pass an array, a sparse matrix or a file."
        )


def loaded(problem: Problem[Any]) -> Problem[Any]:
    """Return the problem with the matrices of files in memory, if half of the available memory is enough for them."""
    outside = {
        name: A
        for name, A in problem.matrices.items()
        if A.readable and not A.resident and A.access in ("rows", "slices")
    }
    needed = sum(A.row_bytes * A.shape[0] for A in outside.values())
    if not outside or needed > machine.available_memory() / 2:
        return problem
    return problem.with_matrices(
        {name: as_operator(_read(A), name).with_names_of(A) for name, A in outside.items()}
    )


def _read(A: LinearOperator) -> Any:
    """Read the entries of A; sparse rows stay sparse."""
    sparse = A.sparse and A.access == "rows"
    W = A.rows(slice(0, A.shape[0])).stored_array if sparse else A.dense()
    return np.array(W) if isinstance(W, np.ndarray) else W  # no map of a file


WEIGHTS = ("counts", "survey")
"""What weights of rows mean: so many equal rows, or so many others that a row of a survey stands for."""


def frequencies(problem: Problem[Any], purpose: str) -> HostArray | None:
    """Check that the weights of the problem are integers, and return them (or None)."""
    w: HostArray | None = problem.sample_weight
    if w is not None and (w != np.round(w)).any():
        at = int(np.argmax(w != np.round(w)))
        raise InvalidProblem(
            f"{purpose}, so sample_weight must say how many equal rows each stands for; got {w[at]:g} for row {at}. "
            'Round the weights, leave them out, or for those of a survey pass weights="survey" to '
            "linspec.bootstrap and linspec.permutation_test."
        )
    return w


def with_equal_rows(problem: P, function: str) -> P:
    """Return the problem without weights, with each row repeated as often as it counts."""
    w = frequencies(problem, f"{function} permutes rows")
    if w is None:
        return problem
    check_row_slices(problem, f"{function} repeats rows as often as they count")
    if 8 * w.sum() > machine.available_memory():
        raise InvalidProblem(
            f"{function} repeats rows as often as they count, and {w.sum():g} rows do not fit into memory. Divide "
            "sample_weight by what the weights have in common."
        )
    twin = problem.on_rows(np.repeat(np.arange(len(w)), w.astype(np.intp)))
    return with_values(twin, sample_weight=None)


# ---- means and confounds ---------------------------------------------------------------------------------


class Removal(NamedTuple):
    """How means and confounds are removed from the rows of a matrix, before these change places.

    Attributes
    ----------
    vectors : list of numpy.ndarray of shape (n,)
        Unit vectors v of s Householder reflections I − 2vvᵀ, which map the span of the confounds, and of the constant
        if the problem centres, to the span of the first s unit vectors. Without any, means alone are subtracted.
    groups : numpy.ndarray of shape (number of groups, rows of a group), or None
        The rows of groups; the reflections are of groups then.
    stay : bool
        Whether there are n rows of residuals afterwards, and not n − s rows.
    """

    vectors: list[HostArray]
    groups: HostArray | None = None
    stay: bool = False


def removal_of(problem: Problem[Any], exchange: Exchange, function: str) -> tuple[Removal, Exchange]:
    """Return how means and confounds are removed, and how the rows that are left change places.

    Raises
    ------
    InvalidProblem
        What confounds leave is not exchangeable.
    """
    Z = problem.confounds
    if Z is None and not (exchange.flips and problem.center):
        return Removal([]), exchange
    n = exchange.count
    L = Preprocessing.of(center=bool(problem.center), confounds=Z).taken(n)
    if exchange.flips or exchange.keeps(L):
        return Removal(reflections(L), stay=True), replace(exchange, basis=L if exchange.flips else None)
    s, groups = L.shape[1], exchange.units[0]
    size = groups.shape[1]
    alike = exchange.orders is None and len(exchange.units) == 1
    if not alike or np.ptp(L[groups], axis=1).max() > SAME:
        raise InvalidProblem(
            f"{function}: what confounds leave of the rows is exchangeable in these ways only if confounds have the "
            "same values wherever rows change places, or groups have one size, and confounds one value in each group; "
            "got others. Subtract their effect beforehand, or leave them out."
        )
    if len(groups) - s < len("ab"):
        raise InvalidProblem(
            f"{function}: confounds and means explain {s} of {len(groups)} rows or groups, so fewer than two are left "
            "to change places. Pass fewer confounds, or more rows."
        )
    left = np.arange((len(groups) - s) * size).reshape(-1, size)
    of_groups = L[groups[:, 0]] * np.sqrt(size)
    return Removal(reflections(of_groups), groups), Exchange(left.size, (left,))


def on_images(problem: Problem[Any], exchange: Exchange, function: str) -> tuple[Problem[Any], Exchange]:
    """Return a problem with the same component values, whose matrices need no adjustment, and its exchange.

    Means and confounds are subtracted from the columns, and columns are scaled, once. Permutations of the rows change
    neither means nor scales, so permuted problems need not compute them again.

    With confounds, or signs that change beside means, each matrix is replaced by a dense one (`Removal`). Otherwise
    dense float64 matrices in memory are copied and adjusted. The problem itself is returned if some matrix is not such
    a matrix, nothing is centred or scaled, or solutions have no column means for some of the matrices.

    Raises
    ------
    InvalidProblem
        Confounds are removed from some of the matrices only, or what they leave is not exchangeable.
    MissingCapability, NonFiniteData, NoSuitableSolver
        Entries cannot be read, are not finite, or do not fit into memory.
    """
    if problem.sample_weight is not None:  # of a survey
        if problem.confounds is not None or exchange.flips:
            raise InvalidProblem(
                f"{function}: what means and confounds with weights leave is not exchangeable; got weights of a survey "
                "beside confounds or sign_flips. Leave out one of them."
            )
        return problem, exchange
    removal, exchange = removal_of(problem, exchange, function)
    layout, field_of = problem.solution.layout, problem.stated.field_of
    fixed = [name for name in problem.matrices if field_of(name) not in layout.means]
    if fixed and removal.vectors:
        raise InvalidProblem(
            f"{function} permutes what confounds leave of all matrices, or changes signs of rows less their means, and "
            f"this problem removes nothing from {fixed[0]}; got {'sign_flips' if exchange.flips else 'confounds'}. "
            "Subtract their effect from all matrices beforehand, or leave them out."
        )
    if fixed or not (removal.vectors or _are_dense(problem)):
        return problem, exchange
    if removal.vectors:
        _check_images_fit(problem, function)
        if not removal.stay:
            problem.check_held()
    images = {}
    for name, A in problem.matrices.items():
        W, squares, left = reflected(name, A, removal, centred=bool(problem.center))
        factors = A.device.blocks.xp.astype(left, W.dtype)  # columns that the confounds explain become zero
        if problem.scale and field_of(name) in layout.scaled:
            factors = factors * reciprocal(A.device.blocks.xp.sqrt(squares / A.shape[0]))
        images[name] = as_operator(W * factors[None, :], name).with_names_of(A)
    twin = problem.with_matrices(images)
    return with_values(twin, center=False, scale=False, confounds=None, row_names=None), exchange


def _are_dense(problem: Problem[Any]) -> bool:
    """Whether the problem centres or scales columns, and all its matrices are dense arrays of float64 in memory."""
    matrices = problem.matrices.values()
    adjusts = any(field.name == "sample_weight" for field in dataclasses.fields(problem))  # type: ignore[arg-type]  # it is one
    return (
        bool(problem.center or problem.scale)
        and adjusts
        and all(
            A.resident and A.stored_array is not None and not A.sparse and A.dtype == np.float64
            for A in matrices
        )
    )


def reflections(basis: HostArray) -> list[HostArray]:
    """Return the unit vectors of reflections that map the span of orthonormal columns to the first unit vectors."""
    L, vectors = basis, []
    for j in range(L.shape[1]):
        v = np.concatenate([np.zeros(j), L[j:, j]])
        v[j] += np.copysign(np.linalg.norm(v), v[j])
        v /= np.linalg.norm(v)
        L = L - np.outer(2 * v, v @ L)
        vectors.append(v)
    return vectors


def reflected(name: str, A: LinearOperator, removal: Removal, *, centred: bool) -> tuple[Array, Array, Array]:
    """Return what is left of a matrix without means and confounds.

    Parameters
    ----------
    name : str
        The name of the matrix, for errors.
    A : LinearOperator of shape (n, p)
    removal : Removal
    centred : bool
        Whether the column means are subtracted first.

    Returns
    -------
    rest : array of shape (m, p)
        QᵀA, or the residuals.
    squares : array of shape (p,)
        The squared lengths of its columns.
    left : array of shape (p,), of bool
        False for a column that the confounds explain: only rounding of it is left.

    Raises
    ------
    NonFiniteData, DataOutOfRange
        An entry of A is not finite, or all are too small or too large to be squared.
    """
    device, vectors = A.device.blocks, removal.vectors
    xp = device.xp
    W = device.asarray(A.dense())
    check_sizes(name, to_host(column_magnitudes(W)))
    with np.errstate(all="ignore"):  # entries that are not finite show in the squares
        if centred:  # subtract the first row before the mean: a constant column is then exactly zero
            W = W - W[:1, :]
            W = W - xp.mean(W, axis=0)[None, :]
        before = xp.sum(W * W, axis=0)
        if removal.groups is not None:  # a row for each group, with the columns of each position
            order = xp.asarray(removal.groups.ravel(), device=A.device.native)
            W = xp.reshape(xp.take(W, order, axis=0), (len(removal.groups), -1))
        for vector in vectors:
            W = _mirrored(W, device.asarray(vector))
        s = len(vectors)
        if removal.stay:
            W = xp.concat([xp.zeros_like(W[:s, :]), W[s:, :]])
            for vector in reversed(vectors):
                W = _mirrored(W, device.asarray(vector))
        else:
            W = xp.reshape(W[s:, :], (-1, A.shape[1]))
        squares = xp.sum(W * W, axis=0)
    check_products(squares, A.in_blocks(name), name)
    return W, squares, squares > EXPLAINED * before


def _mirrored(W: Array, v: Array) -> Array:
    """(I − 2vvᵀ) W."""
    return W - (2 * v)[:, None] * (v @ W)[None, :]


def _check_images_fit(problem: Problem[Any], function: str) -> None:
    """Raise if the entries of a matrix cannot be read, or dense copies of all matrices do not fit into memory."""
    for name, A in problem.matrices.items():
        if not A.readable:
            raise MissingCapability(
                f"{function} removes confounds from the entries of {name}, which cannot be read; got {A!r}. Pass an "
                "array, a sparse matrix or a file."
            )
    needed = sum(8.0 * 3 * float(A.shape[0]) * A.shape[1] for A in problem.matrices.values())
    check_fits(needed, "what confounds leave of the matrices", "Pass fewer rows or columns.")


# ---- draws ----------------------------------------------------------------------------------------


def drawn_counts(generator: np.random.Generator, counted: HostArray, numbers: HostArray | None) -> HostArray:
    """Draw rows or groups with replacement, and return how often each row is drawn.

    Parameters
    ----------
    generator : numpy.random.Generator
    counted : numpy.ndarray of shape (n,)
        How many equal rows each row stands for.
    numbers : numpy.ndarray of shape (n,) or None
        The numbers of the groups that are drawn as a whole, from `group_numbers`.
    """
    if numbers is not None:
        count = int(numbers.max()) + 1
        w = counted * generator.multinomial(count, np.full(count, 1 / count))[numbers]
        return w if w.any() else drawn_counts(generator, counted, numbers)
    total = int(counted.sum())
    return generator.multinomial(total, counted / total).astype(np.float64)
