"""The normal form of returned vectors: unit length in a metric, fixed signs, and a fixed order."""

from __future__ import annotations

import numpy as np

from linspec.arrays import Array, Home, HostArray, reciprocal, to_host

TIE = 1e-6
"""When signs are fixed, entries count as equally large up to this relative difference."""


def selection_matrix(count: int, order: HostArray) -> HostArray:
    """The matrix T that selects columns of V in a given order: V T = V[:, order].

    Parameters
    ----------
    count : int
        The number of columns of V.
    order : numpy.ndarray of int, shape (m,)

    Returns
    -------
    numpy.ndarray of shape (count, m)
        float64, with a single 1 in each column.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import selection_matrix
    >>> np.array([[5.0, 6.0, 7.0]]) @ selection_matrix(3, np.array([2, 0]))
    array([[7., 5.]])
    """
    T = np.zeros((count, len(order)))
    T[order, np.arange(len(order))] = 1.0
    return T


def signs_of_columns(V: Array, device: Home) -> HostArray:
    """The sign of the largest entry of each column, by which vectors are multiplied to fix their signs.

    If several entries are within a millionth of the largest, the first one counts.

    Parameters
    ----------
    V : array of shape (p, k)
    device : Home

    Returns
    -------
    numpy.ndarray of shape (k,)
        −1 or 1; 1 for a column of zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import signs_of_columns
    >>> from linspec.arrays import HOST
    >>> signs_of_columns(np.array([[1.0, -2.0, 0.0], [-3.0, 2.0, 0.0]]), HOST)
    array([-1., -1.,  1.])
    """
    xp = device.xp
    size = xp.abs(V)
    near = size >= xp.max(size, axis=0)[None, :] * (1 - TIE)
    if device.on_host:
        signs = np.sign(V[near.argmax(axis=0), np.arange(V.shape[1])])
    else:
        first = xp.argmax(xp.astype(near, xp.int8), axis=0)
        index = xp.arange(V.shape[0], device=device.device)
        picked = xp.where(index[:, None] == first[None, :], V, xp.zeros_like(V))
        signs = np.sign(to_host(xp.sum(picked, axis=0)))
    return np.where(signs == 0, 1.0, signs)


def unit_columns(W: Array, device: Home) -> Array:
    """Divide columns by their lengths; a column of zeros stays.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import unit_columns
    >>> from linspec.arrays import HOST
    >>> unit_columns(np.array([[3.0, 0.0], [4.0, 0.0]]), HOST)
    array([[0.6, 0. ],
           [0.8, 0. ]])
    """
    W = device.place(W)
    return W * reciprocal(device.place(device.column_norms(W)))[None, :]


def inner_products(V: Array, W: Array, device: Home) -> HostArray:
    """Compute the inner product of each column of V with the column of W at the same position, on the host.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import inner_products
    >>> from linspec.arrays import HOST
    >>> inner_products(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]), HOST)
    array([1., 4.])
    """
    return to_host(device.column_sums(V * W))


def leading(values: HostArray, k: int, above: float = 0.0) -> HostArray:
    """Return the indices of the k largest values, the largest first; fewer if fewer than k values exceed a bound.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import leading
    >>> leading(np.array([1.0, 3.0, 1e-17, 2.0]), 3, above=1e-15)
    array([1, 3, 0])
    """
    order: HostArray = np.argsort(-values, kind="stable")
    return order[values[order] > above][:k]


def picked(W: Array, order: HostArray, factors: HostArray, device: Home) -> Array:
    """Return columns of W in an order, each multiplied by a factor.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import picked
    >>> from linspec.arrays import HOST
    >>> picked(np.array([[5.0, 6.0, 7.0]]), np.array([2, 0]), np.array([1.0, -1.0]), HOST)
    array([[ 7., -5.]])
    """
    return W @ device.place(selection_matrix(W.shape[1], order) * factors)


def leading_triplets(
    U: Array, V: Array, CV: Array, CtU: Array, k: int, above: float, device: Home
) -> tuple[Array, Array, Array, Array, HostArray]:
    """Arrange pairs of unit vectors as singular triplets of a matrix C: σ = uᵀC v, positive and in decreasing order.

    Parameters
    ----------
    U, V : array of shape (p, m), (q, m)
    CV, CtU : array of shape (p, m), (q, m)
        The products C V and CᵀU.
    k : int
        The largest number of triplets.
    above : float
        Values up to this bound are only rounding, and are left out.
    device : Home

    Returns
    -------
    U, V, CV, CtU : array
        The chosen columns. The largest entry of each u is positive; where uᵀC v was negative, v has changed its sign.
    sigma : numpy.ndarray of shape (at most k,)

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import leading_triplets
    >>> from linspec.arrays import HOST
    >>> C = np.diag([1.0, -3.0])
    >>> U, V, CV, CtU, sigma = leading_triplets(np.eye(2), np.eye(2), C, C.T, 1, 0.0, HOST)
    >>> sigma, V[:, 0]
    (array([3.]), array([ 0., -1.]))
    """
    values = inner_products(U, CV, device)
    order = leading(np.abs(values), k, above)
    flips = signs_of_columns(picked(U, order, np.ones(len(order)), device), device)
    turns = flips * np.sign(values[order])
    U = picked(U, order, flips, device)
    CtU = picked(CtU, order, flips, device)
    V = picked(V, order, turns, device)
    CV = picked(CV, order, turns, device)
    return U, V, CV, CtU, np.abs(values[order])
