"""What counts as zero: products that are only rounding of the entries."""

from __future__ import annotations

from linspec.arrays import Array, to_host
from linspec.rows import Moments

NULL = 8
"""A product counts as zero if none of its columns is longer than so many roundings of the entries."""


def vanish(moments: Moments, V: Array, largest: float, *, adjoint: bool = False) -> bool:
    """Whether A V, or Aᵀ V, is only rounding beside the largest singular value; one pass."""
    A = moments.operator()
    image = A.rmatmat(V) if adjoint else A.matmat(V)
    lengths = to_host(moments.operators[0].backend.blocks.column_norms(image))
    return bool((lengths <= NULL * moments.least_value() * largest).all())
