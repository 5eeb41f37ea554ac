"""The base class of problems whose matrices are those of kernels: precomputed values, rows and range."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self, TypeVar

from linspec import Problem, Solution
from linspec.arrays import HostArray
from linspec.errors import InvalidProblem
from linspec.kernels import Kernel, check_square

S_co = TypeVar("S_co", bound=Solution, covariant=True)


class OfKernels(Problem[S_co], adjusts_rows=False):
    """Base class of problems with a kernel for each matrix of features."""

    @property
    @abstractmethod
    def kernels(self) -> dict[str, Kernel]:
        """The kernels by the name of the matrix."""

    def check_squares(self) -> None:
        """Raise unless each matrix with a precomputed kernel holds the values of all pairs of rows."""
        for name, kernel in self.kernels.items():
            check_square(kernel, self.matrices[name], name)

    @property
    def limits(self) -> dict[str, int]:
        """Largest k as the value of a dict with one entry, whose key names the reason of the limit.

        It is n − 1 for centred functions of n rows, otherwise n.
        """
        n, center = min(A.shape[0] for A in self.matrices.values()), getattr(self, "center", False)
        return {"rows, centred" if center else "rows": max(n - center, 1)}

    def on_rows(self, numbers: HostArray) -> Self:
        """Return a copy on some rows; raises if a kernel is precomputed, since its columns belong to the rows, too."""
        names = [name for name, kernel in self.kernels.items() if kernel.precomputed]
        if names:
            raise InvalidProblem(
                f"rows of a precomputed kernel cannot be held out: its columns belong to them, too. Pass the values "
                f"for the training rows as {' and '.join(names)}, and those of other rows with the training rows to be "
                "scored."
            )
        return super().on_rows(numbers)
