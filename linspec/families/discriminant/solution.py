"""The solution of a discriminant problem: directions and eigenvalues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from linspec.affine_images import affine_images
from linspec.arrays import Array, HostArray
from linspec.solution import Solution


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscriminantSolution(Solution):
    """Discriminant directions.

    Attributes
    ----------
    weights : array of shape (p, k)
        Of unit length in the metric of M = XᵀX + ridge·I, and orthogonal in it: WᵀMW = I.
    eigenvalues : numpy.ndarray of shape (k,)
        In decreasing order, float64. Their sum is the part of the targets that the directions explain. If the targets
        have orthonormal columns (CCA, and LDA if every row has a class), each eigenvalue lies between 0 and 1. It is
        then a squared canonical correlation of data and labels, with the ridge on the side of the data.
    mean : array of shape (p,) or None
        Column means of X, if the problem centres.
    rank : int or None
        The numerical rank of X, if the solver determines it.
    """

    weight_fields: ClassVar[tuple[str, ...]] = ("weights", "mean")
    value_field: ClassVar[str] = "eigenvalues"
    value_label: ClassVar[str] = "eigenvalue"

    weights: Array
    eigenvalues: HostArray
    mean: Array | None = None
    rank: int | None = None

    def _headline(self) -> str:
        return f"{len(self.eigenvalues)} eigenvalues, sum {float(self.eigenvalues.sum()):.6g}"

    def transform(self, X: Any) -> Array:
        """The rows in the subspace: X times the weights, after the training means are subtracted.

        Parameters
        ----------
        X : data of shape (n, p)
            Any kind of data that `linspec.as_operator` takes; sparse rows stay sparse.

        Returns
        -------
        array of shape (n, k)
        """
        return affine_images(X, self.weights, "X", mean=self.mean)
