"""A copy of the rows in float32, so that the products of an iteration read half as many bytes.

Problem: a sweep over float64 rows is bound by memory bandwidth, and an iteration far from convergence does not need
sixteen digits. float32 throughout is no remedy: computed correlations exceed the exact ones by the rounding of their
products, and the residual that checks them has the same rounding.
Method: only the products of the iteration use the copy. The residuals that check the solution are computed from the
original data, and so is the last Rayleigh-Ritz step, so that a sum of correlations or squared singular values is at
most the exact one.
Source: Higham & Mary 2022, doi:10.1017/S0962492922000022, for the division of labour: cheap steps, precise residuals.
Where we differ: dense rows are copied after means, weights and confounds have been applied, so they lose no digits
to a mean that is large compared with the spread. Sparse rows are copied as they are stored; their indices are shared.
Rows that are computed when they are read, such as features of a kernel, are computed once for the copy.
"""

from __future__ import annotations

import numpy as np

from linspec.arrays import all_finite, cast, to_host
from linspec.cost import human_bytes
from linspec.errors import UnsupportedData
from linspec.operators import CountedOperator, DenseOperator, LinearOperator, MappedOperator, SparseOperator
from linspec.operators.foreign import CupySparseOperator
from linspec.operators.row_blocks import row_blocks
from linspec.sweeps.views import View

SINGLE = np.dtype(np.float32)

SPARSE = SparseOperator, CupySparseOperator

NEGLIGIBLE_BYTES = 2**24
"""Size of a copy that fits into any memory: to query the free memory takes longer than to make the copy."""


def check_copyable(view: View) -> None:
    """Raise, before anything is read, if no float32 copy of the rows can be held in memory.

    Raises
    ------
    UnsupportedData
        No copy can be made of these rows: see `obstacle`.
    """
    kind = obstacle(view)
    if kind:
        raise UnsupportedData(
            f'sweeps="float32" copies {view.name} into memory, which must be a dense array, features of rows, or a '
            f'sparse matrix without weights, confounds and scale; got {kind}. Leave sweeps at "float64".'
        )


def obstacle(view: View) -> str:
    """Return the kind of rows of which no float32 copy can be held in memory; "" if a copy can be made.

    A copy can be made of a dense array in memory; of a sparse matrix in memory without weights, confounds and scale;
    and of dense rows that are computed when they are read, such as features of a kernel, if the copy takes at most half
    of the free memory.
    """
    A = view.operator
    if isinstance(A, SPARSE):
        return "" if _is_plain(view) else "sparse rows with weights, confounds or a scale"
    if isinstance(A, DenseOperator) and not isinstance(A, MappedOperator):
        return ""
    made = A.access == "rows" and A.readable and not (A.sparse or A.streamed or isinstance(A, MappedOperator))
    size = SINGLE.itemsize * A.shape[0] * A.shape[1]
    if made and (size <= NEGLIGIBLE_BYTES or size <= A.home.free_memory() // 2):
        return ""
    return f"{view.given!r}, whose copy takes {human_bytes(size)}" if made else repr(view.given)


def in_single(views: list[View]) -> list[View]:
    """Copy the rows of some views to float32, once the adjustments are known; each copy counts as one sweep.

    Parameters
    ----------
    views : list of View
        Views that `check_copyable` accepts.
    """
    # Dense rows are copied without their means; next to sparse rows, which keep theirs, both are centred by products.
    center = any(isinstance(view.operator, SPARSE) for view in views) and views[0].model.center
    return [_copied(view, center) for view in views]


def _copied(view: View, center: bool) -> View:
    sparse = isinstance(view.operator, SPARSE)
    view.admit(1.0)
    rows = _sparse_copy(view) if sparse else _dense_copy(view)
    view.record(0, 0, sweeps=1.0)
    copied = View(view.name, CountedOperator(rows, view.ledger), center=center)
    known, given, home = copied.adjustment, view.adjustment, rows.home.blocks
    if sparse:
        known.shift = given.shift
    mean = given.mean if sparse or not center else home.zeros((rows.shape[1],))
    known.learn(home, view.total, mean=mean, squares=given.squares)
    copied.estimated = view.estimated
    return copied


def _is_plain(view: View) -> bool:
    """Whether nothing but a constant row is subtracted from the rows."""
    return view.model.is_plain and not view.adjustment.changes_products


def _sparse_copy(view: View) -> LinearOperator:
    if isinstance(view.operator, CupySparseOperator):
        narrow = CupySparseOperator(view.operator.matrix, SINGLE, checked=True)
        _check_fits(all_finite(narrow.matrix.data), view)
        return narrow
    A = view.operator.matrix
    with np.errstate(over="ignore"):
        data = A.data.astype(SINGLE)
    _check_fits(bool(np.isfinite(data).all()), view)
    copied = SparseOperator(type(A)((data, A.indices, A.indptr), shape=A.shape), checked=True)
    # Sums in float32 over the rows of a transposed copy are too inaccurate for a solution, but not for an iteration.
    copied.worth_transposing = view.operator.worth_transposing
    return copied


def _dense_copy(view: View) -> LinearOperator:
    """Copy the adjusted rows to float32, so that means and confounds are subtracted before the rounding."""
    A, home = view.operator, view.operator.home
    copied = home.zeros(A.shape, SINGLE)
    for rows in row_blocks(A.shape[0], A.row_bytes, home):
        with np.errstate(over="ignore"):
            copied[rows, :] = cast(view.adjustment.applied(A.rows(rows), rows.start).dense(), SINGLE)
        _check_fits(bool(to_host(home.xp.all(home.xp.isfinite(copied[rows, :])))), view)
        A.release()
    return DenseOperator(copied)


def _check_fits(finite: bool, view: View) -> None:
    if not finite:
        raise UnsupportedData(
            f'sweeps="float32" needs entries below {float(np.finfo(SINGLE).max):.1e}; {view.name} has larger ones, or '
            'some that are not finite. Scale its columns, or leave sweeps at "float64".'
        )
