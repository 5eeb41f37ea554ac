"""What an answer has: singular triplets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from linspec.arrays import LEAST_SQUARE, Array, HostArray
from linspec.solution import Solution


@dataclass(frozen=True, kw_only=True, repr=False)
class SVDSolution(Solution):
    """Leading singular triplets.

    Attributes
    ----------
    S : numpy.ndarray of shape (k,)
        Singular values in decreasing order, float64.
    Vh : array of shape (k, p)
        Right singular vectors as rows.
    U : array of shape (n, k) or None
        Left singular vectors where the problem asked for them.
    mean : array of shape (p,) or None
        Column means, where the problem centres.
    rows : int
        Rows of the data.
    total_squares : float or None
        The sum of the squares of all singular values: of all entries of the data, about their column means where the
        problem centres. It comes with the sweeps that are made anyway. None for operators that are known only by
        their products, of which it would take one with each column of the identity; where it is known otherwise,
        divide ``S**2`` by it. 0 or infinite where data are so small or so large that it is no number.
    total_norm : float or None
        Its square root, the Frobenius norm of the data: a number wherever the entries are.
    """

    weight_fields: ClassVar[tuple[str, ...]] = ("Vh", "U", "mean")
    value_field: ClassVar[str] = "S"
    value_label: ClassVar[str] = "singular value"

    S: HostArray
    Vh: Array
    U: Array | None = None
    mean: Array | None = None
    rows: int
    total_squares: float | None = None
    total_norm: float | None = None

    @property
    def explained_variance_ratio(self) -> HostArray | None:
        """The share of each component in `total_squares`, shape (k,); None where that is not known.

        Of a centred problem the share in the variance, as ``PCA`` of scikit-learn has it. Without centring the share
        in the sum of squares about zero: ``TruncatedSVD`` of scikit-learn divides variances about the means there,
        although the means are still in the components, and its shares need neither fall nor add up to one.
        """
        if self.total_squares is None:
            return None
        if self.total_norm and not LEAST_SQUARE < self.total_squares < math.inf:
            return np.square(self.S / self.total_norm)
        share: HostArray = self.S**2 / self.total_squares if self.total_squares > 0 else 0.0 * self.S
        return share

    @property
    def explained_variance(self) -> HostArray | None:
        """The variance of the data along each row of `Vh`, S²/(rows − 1), shape (k,); None without centring."""
        if self.mean is None:
            return None
        with np.errstate(over="ignore", under="ignore"):
            variance: HostArray = self.S**2 / max(self.rows - 1, 1)
        return variance

    @property
    def total_variance(self) -> float | None:
        """The sum of the variances of all columns; None without centring, or where `total_squares` is None."""
        if self.mean is None or self.total_squares is None:
            return None
        return self.total_squares / max(self.rows - 1, 1)

    def _headline(self) -> str:
        return f"S {np.array2string(self.S[:3], precision=4)}"
