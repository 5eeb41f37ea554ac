"""float32 rows of a device with little float64, multiplied in float64 to judge an answer.

Problem: products of float32 rows are made in float32, and a residual that is computed from them has their rounding. On
other devices the difference is one digit; here float32 is all that an iteration sees, and its answer needs a witness
of higher precision.
Method: the rows are converted block by block as they are multiplied. A device without float64 hands them to the host,
which multiplies them there: no more than a block of rows is copied at a time.
Where we differ: products in float64 could also be assembled from several products in float32 (Ozaki et al. 2012,
doi:10.1007/s11075-011-9478-1), as many as a slow float64 product costs. A few sweeps judge an answer, so the plain
product is kept.
"""

from __future__ import annotations

import copy

import numpy as np

from linspec.arrays import HOST, to_host
from linspec.operators import DenseOperator, LinearOperator, RowOperator
from linspec.operators.adjustment import AdjustedOperator
from linspec.operators.base import Selection
from linspec.sweeps.views import View

DOUBLE = np.dtype(np.float64)


class HostRows(RowOperator):
    """The rows of an operator on a device, which the host reads some at a time and multiplies in float64."""

    home, dtype = HOST, DOUBLE

    def __init__(self, operator: LinearOperator) -> None:
        self.operator, self.shape = operator, operator.shape
        self.rows_together = operator.rows_together

    def _rows(self, selection: Selection) -> LinearOperator:
        rows = self.operator.rows(selection)
        if isinstance(rows, DenseOperator):  # its mean is subtracted in float64
            return DenseOperator(to_host(rows.array), rows.mean, DOUBLE)
        return DenseOperator(to_host(rows.dense()), dtype=DOUBLE)

    def release(self) -> None:
        self.operator.release()


def in_double(views: list[View]) -> list[View] | None:
    """Return views of the same rows with products in float64; None if the rows of one cannot be read on the host.

    They share ledgers and adjustments with the given views.

    Parameters
    ----------
    views : list of View
        Views of one home.
    """
    made = []
    for view in views:
        operator, given = _in_double(view.operator), view.given
        own = given.operator if isinstance(given, AdjustedOperator) else given
        bare = operator if own is view.operator else _in_double(own)
        if operator is None or bare is None:
            return None
        made.append(copy.copy(view))
        made[-1].operator = operator
        made[-1].given = given.on(bare) if isinstance(given, AdjustedOperator) else bare
    return made


def _in_double(A: LinearOperator) -> LinearOperator | None:
    """Return A with products in float64; A itself if its rows are not read by number, None if the host needs them."""
    by_number = A.access == "rows" and A.readable
    if A.home.blocks == A.home:
        return (A.in_dtype(DOUBLE) if by_number else None) or A
    return HostRows(A) if by_number else None
