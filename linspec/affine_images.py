"""Affine images of rows: what a solution makes of rows, usually of rows that were not fitted.

Problem: scores, variates, predictions and reconstructions are all (A − 1 meanᵀ) V + 1 offsetᵀ for a thin V, and the
rows A may be of any kind.
Method: one product with the data. The means are subtracted as the operator does it best: from entries, or from the
product of rows that are sparse. Rows that come slice by slice are multiplied slice by slice.
"""

from __future__ import annotations

from typing import Any

from linspec.arrays import Array
from linspec.errors import InvalidProblem
from linspec.operators import as_operator
from linspec.sweeps.images import Images

__all__ = ["affine_images"]


def affine_images(
    data: Any,
    V: Array,
    name: str,
    *,
    mean: Array | None = None,
    offset: Array | None = None,
    expected: str = "columns of the training data",
) -> Array:
    """(A − 1 meanᵀ) V + 1 offsetᵀ for the rows A.

    Parameters
    ----------
    data : data of shape (n, p)
        Anything `linspec.as_operator` takes, slices of rows included.
    V : array of shape (p, k)
    name : str
        The name of the data in messages.
    mean : array of shape (p,), optional
        Subtracted from the rows.
    offset : array of shape (k,), optional
        Added to the products.
    expected : str, default "columns of the training data"
        What the p columns of the data are, in messages.

    Returns
    -------
    array of shape (n, k)
        In the library, on the device and in the working dtype of the data.

    Raises
    ------
    InvalidProblem
        When the data do not have a column for each row of V.
    """
    A = as_operator(data, name)
    if A.shape[1] != V.shape[0]:
        raise InvalidProblem(f"{name} must have the {V.shape[0]} {expected}; got {A.shape[1]}.")
    W = A.home.blocks.place(V)
    m = None if mean is None else A.home.blocks.place(mean)
    task, products = Images(W, m), None
    for block in A.blocks() if A.streamed else (A,):
        products = task.part([block], into=products)
    pieces = products or []
    found = pieces[0] if len(pieces) == 1 else A.home.xp.concat(pieces, axis=0)
    return found if offset is None else found + A.home.place(offset, A.dtype)[None, :]
