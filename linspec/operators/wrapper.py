"""Base class of operators around another operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec.operators.base import LinearOperator


class Wrapper(LinearOperator):
    """An operator around another operator, with the same shape, home and ways of access.

    Parameters
    ----------
    operator : LinearOperator
    """

    def __init__(self, operator: LinearOperator) -> None:
        self.operator = operator
        self.dtype, self.home = operator.dtype, operator.home
        self.access, self.readable, self.sweeps = operator.access, operator.readable, operator.sweeps
        self.sparse, self.resident = operator.sparse, operator.resident
        self.buffer_bytes, self.decoded_bytes = operator.buffer_bytes, operator.decoded_bytes

    @property
    def shape(self) -> Any:  # type: ignore[override]  # the rows of a stream are known later
        """(n, p)."""
        return self.operator.shape

    @property
    def gathers(self) -> bool:
        return self.operator.gathers

    @property
    def nnz(self) -> int:
        return self.operator.nnz

    @property
    def row_bytes(self) -> int:
        return self.operator.row_bytes

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        return self.operator.stored_dtype

    def release(self) -> None:
        self.operator.release()
