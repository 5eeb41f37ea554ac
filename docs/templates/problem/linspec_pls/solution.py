"""The solution of a problem: singular triplets of XᵀY."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec.arrays import Array, HostArray
from linspec.errors import InvalidProblem


@dataclass(frozen=True, kw_only=True, repr=False)
class PLSSolution(ls.Solution):
    """Leading singular triplets of XᵀY.

    Attributes
    ----------
    x_weights, y_weights : array of shape (p, k), (q, k)
        Singular vectors, of unit length.
    singular_values : numpy.ndarray of shape (k,)
        In decreasing order, float64: the cross products of X x_weights with Y y_weights.
    x_mean, y_mean : array or None
        Column means, if the problem centres.
    """

    weight_fields: ClassVar[tuple[str, ...]] = ("x_weights", "y_weights", "x_mean", "y_mean")
    value_field: ClassVar[str] = "singular_values"
    value_label: ClassVar[str] = "singular value"

    x_weights: Array
    y_weights: Array
    singular_values: HostArray
    x_mean: Array | None = None
    y_mean: Array | None = None

    def transform(self, X: Any = None, Y: Any = None) -> Any:
        """Scores of rows: the data times the weights, after the training means are subtracted.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q), optional
            Anything that `linspec.as_operator` takes.

        Returns
        -------
        array of shape (n, k), or a pair of them when both are given
        """
        views = (("X", X, self.x_weights, self.x_mean), ("Y", Y, self.y_weights, self.y_mean))
        found = [scores(name, data, *fitted) for name, data, *fitted in views if data is not None]
        if not found:
            raise InvalidProblem("transform needs X, Y or both; got neither.")
        return found[0] if len(found) == 1 else tuple(found)

    def _headline(self) -> str:
        return f"singular values {np.array2string(self.singular_values[:3], precision=4)}"


def scores(name: str, data: Any, weights: Array, mean: Array | None) -> Array:
    """Rows times weights, in the library of the data."""
    A = ls.as_operator(data, name)
    if mean is not None:
        A = A.centered(A.home.blocks.place(mean))
    return A.matmat(A.home.blocks.place(weights))
