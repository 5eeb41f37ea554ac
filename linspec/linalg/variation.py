"""Whether a column varies over some rows, and R², which only columns that vary have.

Problem: a column with one value in all counted rows has squares about its mean that are rounding, and not 0: R² of such
a target is any number, such as 1 or -1e28.
Method: the values of the first counted row are subtracted before the means are taken, so that equal values leave
exactly 0. A column varies if its squares about its mean are above the rounding of its entries. Rows of weight 0 do not
count.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec.arrays import HostArray

ENTRIES = (2.0**-46) ** 2
"""Largest fraction of the squares of a column that rounding of its entries may leave after subtractions."""


def varies(about: Any, size: Any) -> HostArray:
    """Mask of the columns whose squares about their means are more than rounding of their entries, or not finite.

    Parameters
    ----------
    about : array of shape (q,)
        The sums of squares about the means over some rows.
    size : array of shape (q,)
        The sums of squares about zero over the same rows; or more, if larger numbers were rounded on the way.

    Examples
    --------
    >>> from linspec.linalg import varies
    >>> varies([0.0, 1e-30, 1e-10], [1.0, 1.0, 1.0])
    array([False, False,  True])
    """
    return (np.asarray(about) > ENTRIES * np.asarray(size)) | ~np.isfinite(about)


def squares_about_means(Y: HostArray, weights: HostArray | None = None) -> HostArray:
    """The squares of columns about their means over the rows; exactly 0 for a column that does not vary over them.

    Parameters
    ----------
    Y : numpy.ndarray of shape (n, q)
        The entries in their own units: not multiplied by roots of weights.
    weights : numpy.ndarray of shape (n,), optional
        Rows of weight 0 do not count. Without any row that counts, no column varies.

    Returns
    -------
    numpy.ndarray of shape (q,)

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import squares_about_means
    >>> squares_about_means(np.array([[0.1, 1.0], [0.1, 2.0], [0.1, 3.0], [7.0, 9.0]]), np.array([1, 1, 1, 0]))
    array([0., 2.])
    """
    w = np.ones(len(Y)) if weights is None else np.asarray(weights, dtype=np.float64)
    counted = np.flatnonzero(w > 0)
    rows, w = np.asarray(Y, dtype=np.float64)[counted], w[counted]
    if not len(rows):
        return np.zeros(rows.shape[1])
    size = w @ rows**2
    gaps = rows - rows[0]
    about = w @ (gaps - w @ gaps / w.sum()) ** 2
    return np.where(varies(about, size), about, 0.0)


def r_squared(errors: Any, about: Any) -> HostArray:
    """R² = 1 - errors / about; NaN where `about` is 0, because the target does not vary.

    Parameters
    ----------
    errors : array of shape (q,) or float
        The squared errors of predictions, summed over rows.
    about : array of shape (q,) or float
        The squares of the targets about their means, as `squares_about_means` gives them.

    Examples
    --------
    >>> from linspec.linalg import r_squared
    >>> r_squared([1.0, 1.0], [4.0, 0.0])
    array([0.75,  nan])
    """
    errors = np.asarray(errors, dtype=np.float64)
    about = np.asarray(about, dtype=np.float64)
    return 1 - errors / np.where(about > 0, about, np.nan)
