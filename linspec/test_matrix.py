"""The contract of test matrices: draw the random block that a sketch starts from.

Problem: randomized methods multiply the data with a random matrix, whose distribution decides cost and
guarantee.
Method: one method, which draws on the host from a NumPy generator.
Source: the sketching operators of the randomized-algorithms libraries.
Where we differ: drawing on the host makes a seed mean the same matrix for every array library and device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from linspec.options import validate

if TYPE_CHECKING:
    import numpy as np

    from linspec.arrays import HostArray

__all__ = ["TestMatrix"]


@dataclass(frozen=True, kw_only=True)
class TestMatrix(ABC):
    """Base class of test matrices; its fields are its options.

    An implementation promises a matrix that depends on nothing but its options, the shape and the generator's
    state.

    Examples
    --------
    The simplest implementation, random signs:

    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> from linspec import TestMatrix
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Signs(TestMatrix):
    ...     def draw(self, rows, columns, rng):
    ...         return rng.choice([-1.0, 1.0], size=(rows, columns))
    >>> Signs().draw(2, 3, np.random.default_rng(0)).shape
    (2, 3)
    """

    __test__: ClassVar[bool] = False  # the name must not make pytest collect it

    def __post_init__(self) -> None:
        validate(self)

    @abstractmethod
    def draw(self, rows: int, columns: int, rng: np.random.Generator) -> HostArray:
        """Draw a matrix.

        Parameters
        ----------
        rows, columns : int
            Its shape.
        rng : numpy.random.Generator
            Where the random numbers come from; equal states give equal matrices.

        Returns
        -------
        ndarray, shape (rows, columns)
            On the host, float64.
        """
