"""The contract of test matrices: the random block that a sketch starts from.

Problem: randomized methods multiply the data by a random matrix. Its distribution determines the cost and the
guarantee.
Method: one matrix has two forms. `draw` returns its entries, for methods that iterate on the block.
`operator` returns an object that multiplies data and need not store them. An implementation defines the form
that suits it better.
Source: the sketching operators of the randomized-algorithms libraries.
Where we differ: random numbers come from a NumPy generator on the host, so a seed means the same matrix for
every array library and device. Entries always have variance one, so the scale of a random projection is the
same for all test matrices.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from linspec.registry.options import validate

if TYPE_CHECKING:
    import numpy as np

    from linspec.arrays import HostArray
    from linspec.operators import Sketch


@dataclass(frozen=True, kw_only=True)
class TestMatrix(ABC):  # noqa: B024 (either method may be the one defined)
    """Base class of test matrices; its fields are its options.

    An implementation defines `draw` or `operator`, or both, and promises

    - a matrix that depends only on its options, the shape and the generator's state, and is the same in both
      forms;
    - entries with mean zero and variance one, and uncorrelated entries within a column, so that E ΩΩᵀ = l I for l
      columns. Divided by √l the matrix preserves squared lengths in expectation: see `linspec.project`.

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
        cls = type(self)
        if cls.draw is TestMatrix.draw and cls.operator is TestMatrix.operator:
            raise TypeError(f"{cls.__name__} defines neither draw nor operator; define one of them.")
        validate(self)

    def draw(self, rows: int, columns: int, rng: np.random.Generator) -> HostArray:
        """Draw a matrix.

        Parameters
        ----------
        rows, columns : int
            Its shape.
        rng : numpy.random.Generator
            The source of the random numbers; equal states give equal matrices.

        Returns
        -------
        ndarray, shape (rows, columns)
            On the host, float64.
        """
        return self.operator(rows, columns, rng).dense()

    def operator(self, rows: int, columns: int, rng: np.random.Generator) -> Sketch:
        """Make the matrix that `draw` would draw, as an operator.

        Parameters
        ----------
        rows, columns : int
            Its shape.
        rng : numpy.random.Generator
            The source of the random numbers. It is used before this method returns, and not kept.

        Returns
        -------
        linspec.operators.Sketch, shape (rows, columns)
            `Omega.dense()` has the entries, and `Omega.sketch(A)` is A Ω. By default it holds the entries.
        """
        from linspec.operators import HeldSketch

        return HeldSketch(rows, columns, [(slice(0, columns), self.draw(rows, columns, rng))])
