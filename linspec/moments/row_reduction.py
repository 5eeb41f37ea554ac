"""Reduction of many rows to few by orthogonal transformations, the basis of backward-stable direct methods.

For [X Y] = Q R with orthonormal Q, every inner product of columns is that of the columns of R. So R, with at
most p + q rows, replaces the data, and nothing is squared. The rows are read block by block in one sweep
(sequential TSQR: Demmel, Grigori, Hoemmen & Langou 2012, doi:10.1137/080731992), those of streams slice by slice,
so that memory does not grow with their number. A leading column of ones makes the same transformations centre
the columns.

Where we differ: the first row is subtracted from all rows before the centring. This changes nothing in exact
arithmetic. In floating point, constant columns then vanish exactly and leave no rounding that looks like
rank. Means that are large compared with their spread lose no digits.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from linspec.arrays import Array, Home, HostArray, all_finite, reciprocal, to_host, triangular_factor
from linspec.errors import NonFiniteData
from linspec.operators import (
    DenseOperator,
    LinearOperator,
)
from linspec.operators.adjustment import Adjustment
from linspec.operators.range_of_entries import check_magnitude
from linspec.operators.row_model import PLAIN
from linspec.sweeps.adjusted_rows import AdjustedRows
from linspec.sweeps.finite import explain_non_finite
from linspec.sweeps.first_sweep import Measured, MeasuredPart
from linspec.sweeps.runners import swept
from linspec.sweeps.triangles import Triangle, TrianglePart
from linspec.sweeps.views import View, views_of


def reduce_rows(
    views: Mapping[str, LinearOperator], *, center: bool = False, ridges: tuple[float, ...] = ()
) -> list[Array]:
    """Matrices with few rows and the same inner products of columns as the given ones.

    Parameters
    ----------
    views : mapping from str to LinearOperator
        Readable operators, or streamed ones, by their names in messages; all with the same number of rows.
    center : bool, default False
        Whether to centre the columns.
    ridges : tuple of float, optional
        One ridge for each view. √ridge times the identity is appended to the columns of the view, so the
        ridge enters its Gram matrix and no cross product.

    Returns
    -------
    list of array
        One float64 array of shape (m, p) for each view, all with the same number m of rows, which does not grow
        with n.

    Raises
    ------
    InvalidProblem
        A source of slices has no rows.
    NonFiniteData
        The rows have an entry that is not finite; the message names it.
    SweptOnce
        The rows can be read only once and have been read.

    References
    ----------
    Demmel, Grigori, Hoemmen & Langou 2012, doi:10.1137/080731992.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.moments import reduce_rows
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((1000, 3)), rng.standard_normal((1000, 2))
    >>> Rx, Ry = reduce_rows({"X": ls.as_operator(X), "Y": ls.as_operator(Y)})
    >>> Rx.shape, bool(np.allclose(Rx.T @ Rx, X.T @ X)), bool(np.allclose(Rx.T @ Ry, X.T @ Y))
    ((5, 3), True, True)
    """
    return reduced_rows(views, center=center).with_ridges(ridges)


@dataclass(frozen=True, eq=False)
class ReducedRows:
    """A few rows with the inner products of many.

    Attributes
    ----------
    R : array of shape (m, p)
        The rows of all views side by side, minus their means with centring.
    widths : list of int
        The columns of each view.
    mean : array of shape (p,), or None
        The means that centring has subtracted; None without centring.
    home : Home
    """

    R: Array
    widths: list[int]
    mean: Array | None
    home: Home

    def with_ridges(self, ridges: tuple[float, ...] = ()) -> list[Array]:
        """Rows of each view, after further reduction with the rows of √ridge times the identity."""
        R = self.R
        for extra in _ridge_rows(self.widths, ridges):
            R = triangular_factor(self.home.xp.concat([R, self.home.place(extra)], axis=0))
        return [R[:, a:b] for a, b in self.edges()]

    @property
    def means(self) -> list[Array | None]:
        """The means of each view."""
        return [None if self.mean is None else self.mean[a:b] for a, b in self.edges()]

    def edges(self) -> list[tuple[int, int]]:
        """The first column of each view in R, and the column after its last."""
        return list(pairwise(np.cumsum([0, *self.widths]).tolist()))


def reduced_rows(views: Mapping[str, LinearOperator], *, center: bool = False) -> ReducedRows:
    """Reduce the rows of some views in one sweep, and return them with the means that were subtracted.

    Parameters
    ----------
    views : mapping from str to LinearOperator
        As `reduce_rows` takes them.
    center : bool, default False
        Whether to centre the columns.

    Returns
    -------
    ReducedRows
        `R`, an array of shape (m, p) with the columns of all views side by side; `widths`, the columns of each view;
        `mean`, an array of shape (p,), or None without centring; `means`, the mean of each view; and
        `with_ridges(ridges)`, which returns the result of `reduce_rows`.

    Raises
    ------
    InvalidProblem, NonFiniteData, SweptOnce
        As for `reduce_rows`.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.moments import reduced_rows
    >>> A = np.array([[1.0, 0.0], [3.0, 4.0], [5.0, 2.0]])
    >>> found = reduced_rows({"A": ls.as_operator(A)}, center=True)
    >>> found.mean, found.widths, bool(np.allclose(found.R.T @ found.R, 3 * np.cov(A.T, bias=True)))
    (array([3., 2.]), [2], True)
    """
    return reduced(views_of(list(views.items()), center=center))


def reduced(sides: list[View]) -> ReducedRows:
    """Reduce the rows of some views in one sweep, and count the sweep.

    The means, norms and confound effects of the columns are stored in the adjustments of the views.
    """
    model, home = sides[0].model, sides[0].given.home.blocks
    task = Triangle(home, center=model.center, model=model)
    part = triangle_of(task, sides)
    R, mean = task.finished(part), None
    if part.origin is not None:  # the first row of R belongs to the column of ones: √n and √n times the means
        mean = part.origin + part.R[0, task.taken :] / part.R[0, 0]
    found = ReducedRows(R, [view.operator.shape[1] for view in sides], mean, home)
    return _adjusted(found, task, part, [view.adjustment for view in sides])


def _adjusted(
    found: ReducedRows, task: Triangle, part: TrianglePart, adjustments: list[Adjustment]
) -> ReducedRows:
    """Store means, norms and confound effects in the adjustments, and return the rows times the column factors.

    A are the rows of the views, D the roots of their weights, 1 the column of ones with centring, and B the basis of
    the confounds. The triangle is that of [D 1, D B, D A]. Its first `taken` rows are [F T], where F belongs to the
    columns of ones and confounds, and T to those of A. Then [1 B]ᵀD²A = FᵀT, so the confound effects BᵀD²A need no
    other sweep.
    """
    home, taken = found.home, task.taken
    count = task.model.total(part.rows)
    front, sides = part.R[:taken, :taken], []
    means: list[Array] = []
    for known, (a, b), mean in zip(adjustments, found.edges(), found.means, strict=True):
        beside = None
        if task.model.basis is not None:
            beside = front[:, int(task.center) :].T @ part.R[:taken, taken + a : taken + b]
            beside = beside.T
        squares = home.column_squares(found.R[:, a:b])
        before = squares if beside is None else squares + home.xp.sum(beside**2, axis=1)
        known.learn(home, count, mean=mean, explained=beside, squares=before)
        factor, R = known.factors, found.R[:, a:b]
        if known.kept is not None:  # its direction is orthogonal to all that is subtracted
            R = home.xp.concat([R, known.kept], axis=0)
        sides.append(R if factor is None else R * factor[None, :])
        means += [] if mean is None else [mean if known.shift is None else mean - home.place(known.shift)]
    return replace(found, R=home.concat(sides), mean=home.xp.concat(means) if means else None)


def triangle_of(task: Triangle, sides: list[View]) -> TrianglePart:
    """Compute the triangle of all rows, in memory or streamed, check that it is finite, and count the sweep.

    Raises
    ------
    NonFiniteData
        The rows have an entry that is not finite; the message names it.
    """
    with np.errstate(all="ignore"):  # the check below finds entries that are not finite
        part = _triangle_of(task, sides)
    if not all_finite(part.R):
        raise NonFiniteData(explain_non_finite({view.name: view.operator for view in sides}))
    return part


def _triangle_of(task: Triangle, sides: list[View]) -> TrianglePart:
    shifts = [None if task.center else view.adjustment.shift for view in sides]
    adjusted = AdjustedRows(task, [Adjustment(PLAIN, shift=shift) for shift in shifts])
    for view in sides:
        view.admit(1.0)
    if not any(view.operator.streamed for view in sides):
        for view in sides:
            view.record(0, 0, sweeps=1.0)
        return adjusted.part([view.operator for view in sides])
    sides = [_in_rows(view) for view in sides]
    names = tuple(view.name for view in sides)
    all_, none = (tuple(value for _ in sides) for value in (True, False))

    def check(_: Any, found: MeasuredPart[TrianglePart], gone: bool) -> None:
        """Raise if entries are out of range or not finite, while the slices that show it can still be searched."""
        for view, size in zip(sides, found.sizes, strict=True):
            check_magnitude(view.name, size, complete=not gone)
        if gone and not all_finite(found.part.R):
            raise NonFiniteData(explain_non_finite({view.name: view.operator for view in sides}))

    found = swept(
        Measured(adjusted, names, all_, none, task.model),
        sides,
        sum(view.operator.shape[1] for view in sides),
        model=task.model,
        check=check,
        threads=False,
    )
    for view, size in zip(sides, found.sizes, strict=True):
        check_magnitude(view.name, size)
        view.record(0, 0, sweeps=1.0)
    return found.part


def _in_rows(view: View) -> View:
    """The view, with its entries computed if it gives only products, so that blocks of its rows can be read."""
    A = view.operator
    if A.access != "products":
        return view
    cut = copy.copy(view)
    cut.operator = DenseOperator(A.dense())
    return cut


def reduce_rows_of(problem: Any, run: Any, *, ridges: tuple[float, ...] = ()) -> list[Array]:
    """Apply `reduce_rows` to the matrices of a problem, centred if the problem centres.

    For streamed rows, the moments of the run learn the means and norms of the columns in the same sweep. If the rows
    can be read only once, the moments also hold the reduced rows and compute all later products from them.

    Parameters
    ----------
    problem : Problem
        The problem, as passed to the solver.
    run : Run
    ridges : tuple of float, optional
        One ridge for each matrix.

    Returns
    -------
    list of array
        One float64 array for each matrix, all with the same number of rows.

    Raises
    ------
    InvalidProblem, NonFiniteData, SweptOnce
        As for `reduce_rows`.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.moments import reduce_rows_of
    >>> A = np.random.default_rng(0).standard_normal((1000, 3))
    >>> problem = ls.SVD(A, k=1, center=True)
    >>> run = ls.Run(problem, ls.get_solver("svd/direct")(), "direct")  # what `solve` is given
    >>> (R,) = reduce_rows_of(problem, run)
    >>> R.shape, bool(np.allclose(R.T @ R, 1000 * np.cov(A.T, bias=True)))
    ((3, 3), True)
    """
    if any(A.streamed for A in problem.matrices.values()):
        found: list[Array] = run.moments("implicit").direct.reduced_rows(ridges, hold=problem.sweeps == 1)
        return found
    return reduce_rows(problem.matrices, center=getattr(problem, "center", False), ridges=ridges)


@dataclass(frozen=True, eq=False)
class ColumnBasis:
    """An orthonormal basis of the columns of reduced rows.

    Attributes
    ----------
    U : array of shape (m, r)
        RW, with orthonormal columns.
    W : array of shape (p, r)
        The combinations of the columns of R that give U.
    condition : float
        The ratio of the largest to the smallest singular value that was kept, for columns of R scaled to length 1.
    """

    U: Array
    W: Array
    condition: float

    @property
    def rank(self) -> int:
        """The numerical rank of the columns."""
        return int(self.W.shape[1])


def column_basis(R: Array, cut: float, home: Home) -> ColumnBasis:
    """Compute an orthonormal basis of the columns of R by an SVD of the columns at unit length.

    Parameters
    ----------
    R : array of shape (m, p)
        As `reduce_rows` returns it.
    cut : float
        The basis spans the left singular vectors with singular values above this fraction of the largest: see
        `linspec.algebra.rank_cut`.
    home : Home

    Returns
    -------
    ColumnBasis
        `W`, an array of shape (p, r) with orthonormal `U` = RW of shape (m, r); `rank`, r; `condition`, the ratio of
        the largest to the smallest singular value above the cut, for columns of length 1.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.arrays import HOST
    >>> from linspec.moments import column_basis
    >>> R = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]])  # the second column is twice the first
    >>> basis = column_basis(R, 1e-12, HOST)
    >>> basis.rank, bool(np.allclose(R @ basis.W, basis.U))
    (2, True)
    """
    xp = home.xp
    scale = reciprocal(xp.sqrt(xp.sum(R * R, axis=0)))
    U, s, Vt = xp.linalg.svd(R * scale[None, :], full_matrices=False)
    sizes = to_host(s)
    if not len(sizes) or sizes[0] <= 0:
        return ColumnBasis(U[:, :0], Vt.T[:, :0], 1.0)
    rank = int(np.sum(sizes > cut * sizes[0]))
    W = scale[:, None] * (Vt.T[:, :rank] / s[:rank][None, :])
    return ColumnBasis(U[:, :rank], W, float(sizes[0] / sizes[rank - 1]))


def _ridge_rows(widths: list[int], ridges: tuple[float, ...]) -> list[HostArray]:
    total, start, found = sum(widths), 0, []
    for width, ridge in zip(widths, ridges or (0.0,) * len(widths), strict=True):
        if ridge > 0:
            extra = np.zeros((width, total))
            extra[np.arange(width), start + np.arange(width)] = np.sqrt(ridge)
            found.append(extra)
        start += width
    return found
