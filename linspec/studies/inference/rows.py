"""Rows in another order, rows that are drawn, and rows from which confounds are removed, of any problem.

Problem: a permutation test pairs the rows of several matrices at random, and a bootstrap draws rows. Data in files
should not be read again for each of several hundred solves.
Method: data that are not in memory, and fit, are read once. Means are subtracted and columns scaled once, which
permutations do not change. Weights must be integers; a row of weight 3 is three equal rows. Residuals of confounds
are not exchangeable: n rows of rank n − s. So all matrices are multiplied by Qᵀ for a matrix Q with orthonormal
columns that are orthogonal to the constant and the confounds, and the n − s rows of the products are permuted (Huh &
Jhun 2001, Commun. Stat. Theory Methods 30:2023, doi:10.1081/STA-100106060). Qᵀ is the last n − s rows of s
Householder reflections. Gram and cross matrices of these rows are those of the residuals.

Problem: the components of one matrix, such as principal components, have values larger than zero in data without any
structure, too. How large are they then?
Method: parallel analysis by permutation. The entries of each column are permuted over the rows, each column in an order
of its own. Means and lengths of the columns stay, and nothing relates the columns any more. Sparse data stay sparse:
the stored entries of a column get random rows, all different, since zeros are exchangeable as other entries are.
Source: Horn 1965, Psychometrika 30:179, doi:10.1007/BF02289447; Buja & Eyuboglu 1992, Multivariate Behav. Res.
27:509, doi:10.1207/s15327906mbr2704_2.
Where we differ: Horn draws normal numbers; permutations keep the distribution of each column.
"""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import scipy.sparse

from linspec.arrays import Array, HostArray, column_magnitudes, reciprocal, to_host
from linspec.blocks.units import check_sizes
from linspec.errors import InvalidProblem, MissingCapability
from linspec.operators import LinearOperator, as_operator
from linspec.operators.base import chosen_rows
from linspec.process import machine
from linspec.rows import EXPLAINED, Preprocessing, check_products
from linspec.solving.problem import Problem
from linspec.solving.select import check_fits
from linspec.solving.stating import with_values
from linspec.studies.held_out.folds import entries_of_labels

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


def frequencies(problem: Problem[Any], purpose: str) -> HostArray | None:
    """Check that the weights of the problem are integers, and return them (or None)."""
    w: HostArray | None = problem.sample_weight
    if w is not None and (w != np.round(w)).any():
        at = int(np.argmax(w != np.round(w)))
        raise InvalidProblem(
            f"{purpose}, so sample_weight must say how many equal rows each stands for; got {w[at]:g} for row {at}. "
            "Round the weights, or leave them out."
        )
    return w


def with_equal_rows(problem: P, function: str) -> P:
    """Return the problem without weights, with each row repeated as often as it counts."""
    w = frequencies(problem, f"{function} permutes rows")
    if w is None:
        return problem
    for name, A in problem.matrices.items():
        if A.access != "rows":
            raise MissingCapability(
                f"{function} repeats rows as often as they count, which needs row slices; got {A!r} for {name}. Pass "
                "an array, a sparse matrix or a file."
            )
    if 8 * w.sum() > machine.available_memory():
        raise InvalidProblem(
            f"{function} repeats rows as often as they count, and {w.sum():g} rows do not fit into memory. Divide "
            "sample_weight by what the weights have in common."
        )
    twin = problem.on_rows(np.repeat(np.arange(len(w)), w.astype(np.intp)))
    return with_values(twin, sample_weight=None)


# ---- permutations ---------------------------------------------------------------------------------


def permuted(problem: Problem[Any], generator: np.random.Generator) -> Problem[Any]:
    """Return the problem with matrices by chance, each as its field declares.

    The rows of every matrix but the first get a random order, each matrix its own; or the entries of each column do,
    each column its own.
    """
    matrices = {}
    for i, (name, A) in enumerate(problem.matrices.items()):
        if problem.stated.permutes_columns(name):
            matrices[name] = with_columns_permuted(A, generator)
        elif i > 0:
            matrices[name] = chosen_rows(A, generator.permutation(A.shape[0]))
    return problem.with_matrices(matrices)


def on_images(problem: Problem[Any], function: str) -> Problem[Any]:
    """Return a problem with the same component values, whose matrices need no adjustment by the solver.

    Means and confounds are subtracted from the columns, and columns are scaled, once. Permutations of the rows change
    neither means nor scales, so permuted problems need not compute them again.

    With confounds each matrix is replaced by a dense matrix of n − s rows, its product with Qᵀ (see the header). Here s
    is the rank of the confounds, together with the constant if the problem centres. Without confounds, dense float64
    matrices in memory are copied and adjusted. The problem itself is returned, without confounds, if some matrix is not
    such a matrix, nothing is centred or scaled, or solutions have no column means for some of the matrices.

    Raises
    ------
    InvalidProblem
        Confounds are removed from some of the matrices only.
    MissingCapability, NonFiniteData, NoSuitableSolver
        Entries cannot be read, are not finite, or do not fit into memory.
    """
    Z = problem.confounds
    if Z is None and not _are_dense(problem):
        return problem
    layout, field_of = problem.solution.layout, problem.stated.field_of
    fixed = [name for name in problem.matrices if field_of(name) not in layout.means]
    if fixed and Z is None:
        return problem
    if fixed:
        raise InvalidProblem(
            f"{function} permutes what confounds leave of all matrices, and this problem removes nothing from "
            f"{fixed[0]}; got confounds. Subtract their effect from all matrices beforehand, or leave them out."
        )
    if Z is not None:
        _check_images_fit(problem, function)
    vectors, images = reflections(problem), {}
    for name, A in problem.matrices.items():
        W, squares, left = reflected(name, A, vectors, centred=bool(problem.center))
        factors = A.device.blocks.xp.astype(left, W.dtype)  # columns that the confounds explain become zero
        if problem.scale and field_of(name) in layout.scaled:
            factors = factors * reciprocal(A.device.blocks.xp.sqrt(squares / A.shape[0]))
        images[name] = as_operator(W * factors[None, :], name).with_names_of(A)
    twin = problem.with_matrices(images)
    return with_values(twin, center=False, scale=False, confounds=None, row_names=None)


def _are_dense(problem: Problem[Any]) -> bool:
    """Whether the problem centres or scales columns, and all its matrices are dense, in memory and of float64."""
    if not (problem.center or problem.scale):
        return False
    matrices = problem.matrices.values()
    adjusts = any(field.name == "sample_weight" for field in dataclasses.fields(problem))  # type: ignore[arg-type]  # it is one
    return adjusts and all(
        A.resident and A.readable and not A.sparse and A.dtype == np.float64 for A in matrices
    )


def reflections(problem: Problem[Any]) -> list[HostArray]:
    """Return the unit vectors v of s Householder reflections I − 2vvᵀ; none without confounds.

    The product of the reflections maps the span of the confounds, and of the constant if the problem centres, to the
    span of the first s unit vectors.
    """
    Z = problem.confounds
    if Z is None:
        return []
    L, vectors = Preprocessing.of(center=bool(problem.center), confounds=Z).taken(len(Z)), []
    for j in range(L.shape[1]):
        v = np.concatenate([np.zeros(j), L[j:, j]])
        v[j] += np.copysign(np.linalg.norm(v), v[j])
        v /= np.linalg.norm(v)
        L = L - np.outer(2 * v, v @ L)
        vectors.append(v)
    return vectors


def reflected(
    name: str, A: LinearOperator, vectors: list[HostArray], *, centred: bool
) -> tuple[Array, Array, Array]:
    """Return Qᵀ A: A after s Householder reflections, without the first s of its n rows.

    Parameters
    ----------
    name : str
        The name of the matrix, for errors.
    A : LinearOperator of shape (n, p)
    vectors : list of numpy.ndarray of shape (n,)
        The unit vectors of the reflections, from `reflections`. Without any, all rows are returned.
    centred : bool
        Whether the column means are subtracted first.

    Returns
    -------
    QtA : array of shape (n - s, p)
    squares : array of shape (p,)
        The squared lengths of the columns of Qᵀ A.
    left : array of shape (p,), of bool
        False for a column that the confounds explain: only rounding of it is left.

    Raises
    ------
    NonFiniteData, DataOutOfRange
        An entry of A is not finite, or all are too small or too large to be squared.
    """
    device = A.device.blocks
    xp = device.xp
    W = device.asarray(A.dense())
    check_sizes(name, to_host(column_magnitudes(W)))
    with np.errstate(all="ignore"):  # entries that are not finite show in the squares
        if centred:  # subtract the first row before the mean: a constant column is then exactly zero
            W = W - W[:1, :]
            W = W - xp.mean(W, axis=0)[None, :]
        before = xp.sum(W * W, axis=0)
        for vector in vectors:
            v = device.asarray(vector)
            W = W - (2 * v)[:, None] * (v @ W)[None, :]
        W = W[len(vectors) :, :]
        squares = xp.sum(W * W, axis=0)
    check_products(squares, A.in_blocks(name), name)
    return W, squares, squares > EXPLAINED * before


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


def group_numbers(groups: Any, n: float) -> HostArray | None:
    """Number the groups from 0, and return the number of each row's group; None without groups."""
    if groups is None:
        return None
    labels = entries_of_labels(groups, "groups")
    if labels.shape != (n,):
        raise InvalidProblem(
            f"groups must have shape ({n:g},), a label for each row; got {tuple(labels.shape)}."
        )
    names, numbers = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        raise InvalidProblem("groups must have at least two labels; got one, so there is nothing to draw.")
    return np.asarray(numbers)


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


def check_entries(name: str, A: LinearOperator) -> None:
    """Raise an error if entries of A cannot be permuted."""
    if A.access != "rows" or (A.sparse and not A.device.on_host):
        raise MissingCapability(
            f"permutation_test permutes the entries of each column of {name}, which must be rows in memory, and sparse "
            f"ones of SciPy; got {A!r}. Pass an array, a sparse matrix or a file."
        )


def with_columns_permuted(A: LinearOperator, generator: np.random.Generator) -> LinearOperator:
    """Return the matrix with the entries of each column in a random order, each column in its own."""
    held = A.rows(slice(0, A.shape[0]))
    if scipy.sparse.issparse(held.stored_array):
        return as_operator(_sparse(held.stored_array, generator))
    n, p = A.shape
    orders = generator.permuted(np.tile(np.arange(n), (p, 1)), axis=1).T
    xp, device = A.device.xp, A.device.native
    return as_operator(xp.take_along_axis(held.dense(), xp.asarray(orders, device=device), axis=0))


def _sparse(matrix: Any, generator: np.random.Generator) -> Any:
    columns = scipy.sparse.csc_array(matrix, copy=True)
    columns.sum_duplicates()  # two stored numbers of one entry move together
    n, rows, edges = columns.shape[0], np.empty(columns.nnz, dtype=np.intp), columns.indptr
    for a, b in pairwise(edges.tolist()):
        rows[a:b] = generator.choice(n, b - a, replace=False)
    return scipy.sparse.csc_array((columns.data, rows, columns.indptr), shape=columns.shape).tocsr()
