"""The door for data: from what users have to rows in blocks, or to products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from linspec._new.operators.base import Rows
from linspec._new.operators.dense import Dense
from linspec._new.operators.device_sparse import DeviceSparse
from linspec._new.operators.products import ByProducts
from linspec._new.operators.slices import Slices
from linspec._new.operators.sparse import Sparse
from linspec.arrays import check_bare, is_array, plain_array
from linspec.errors import UnsupportedData

__all__ = ["as_operator"]


def as_operator(data: Any, name: str = "data") -> Rows:
    """Return data as rows in blocks; a matrix that is known by its products is one block.

    Parameters
    ----------
    data : array, sparse matrix, callable, iterator, or object with matmat and rmatmat
        A callable returns slices of rows each time it is called; an iterator of slices can be read once.
    name : str, default "data"
        The name in messages.

    Returns
    -------
    Rows

    Raises
    ------
    UnsupportedData
        The data are none of these, have a mask or a unit, or are not real numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec._new.operators.opening import as_operator
    >>> as_operator(np.ones((3, 2))).shape
    (3, 2)
    """
    if isinstance(data, Rows):
        return data
    if scipy.sparse.issparse(data):
        return Sparse(data, name)
    if type(data).__module__.startswith("cupyx.scipy.sparse"):  # CuPy itself is not imported here
        return DeviceSparse(data, name)
    check_bare(data, name)
    if is_array(data):
        return Dense(plain_array(data, name), name)
    if hasattr(data, "matmat"):
        return ByProducts(data, name)
    if callable(data) or isinstance(data, Iterator):
        return Slices(data, as_operator, name)
    if isinstance(data, list | tuple):
        return Dense(np.asarray(data), name)
    raise UnsupportedData(
        f"{name} must be an array, a SciPy sparse matrix, slices of rows, or an object with matmat and rmatmat; got "
        f"{type(data).__name__}. Convert it with numpy.asarray."
    )
