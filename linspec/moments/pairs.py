"""Blocks of several views with their products.

Problem: an iteration on blocks of columns of several views needs the products of these blocks again and again.
Method: one sweep computes S V and C V for new blocks V. To rotate or scale the columns of V costs no other sweep,
because the products are transformed in the same way. So a `Basis` is a block with its products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from linspec.arrays import Array
from linspec.moments.moments import Moments


@dataclass(frozen=True, eq=False)
class Basis:
    """Columns V of one view with their products.

    Attributes
    ----------
    V : array of shape (p, k)
    SV : array of shape (p, k)
        S V with S = XᵀX + ridge·I.
    CV : tuple of array or None
        For each view j the product XⱼᵀX V; None for the view itself.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.moments import Basis
    >>> basis = Basis(np.eye(2), 3 * np.eye(2), (None, np.ones((1, 2))))
    >>> turned = basis @ np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> turned.V[0], turned[:1].CV[1]
    (array([0., 1.]), array([[1.]]))
    """

    V: Array
    SV: Array
    CV: tuple[Array | None, ...]

    def __matmul__(self, T: Array) -> Basis:
        """Return the basis V T with its products."""
        return Basis(self.V @ T, self.SV @ T, tuple(None if P is None else P @ T for P in self.CV))

    def __getitem__(self, columns: slice) -> Basis:
        """Return the basis of a range of columns."""
        CV = tuple(None if P is None else P[:, columns] for P in self.CV)
        return Basis(self.V[:, columns], self.SV[:, columns], CV)


def multiplied(
    moments: Moments, ridges: Sequence[float], blocks: Sequence[Array | None]
) -> tuple[Basis | None, ...]:
    """Multiply blocks of the views in one sweep, and return them with their products.

    Parameters
    ----------
    moments : Moments
        The moments of all views.
    ridges : sequence of float
    blocks : sequence of array of shape (pᵢ, k), or None
        One for each view; for None no products are computed.

    Returns
    -------
    tuple of Basis or None

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.moments import multiplied
    >>> X, Y = np.eye(3)[:, :2], np.ones((3, 1))
    >>> basis, _ = multiplied(ls.Moments(X, Y), (0.5, 0.0), (np.eye(2), None))
    >>> basis.SV, basis.CV[1]
    (array([[1.5, 0. ],
           [0. , 1.5]]), array([[1., 1.]]))
    """
    products, m = moments.products(*blocks), len(blocks)
    found: list[Basis | None] = []
    for i, (V, ridge) in enumerate(zip(blocks, ridges, strict=True)):
        if V is None:
            found.append(None)
            continue
        CV = tuple(None if j == i else products[j * m + i] for j in range(m))
        found.append(Basis(V, products[i * m + i] + V * ridge, CV))
    return tuple(found)
