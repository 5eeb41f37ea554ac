"""The solution of a preimage CCA: pairs of points, and the variates of their kernel functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import as_operator, field
from linspec.arrays import Array, HostArray, at_home, to_host
from linspec.errors import InvalidProblem
from linspec.kernels import Kernel
from linspec.process import count_of
from linspec.rows import Moments
from linspec_kernel.preimage.bounds import Bound
from linspec_kernel.preimage.views import PreimageView
from linspec_kernel.solution import FunctionsSolution

SUPPORT = 0.05
"""Share of a point's largest magnitude above which an entry belongs to its support."""


@dataclass(frozen=True, kw_only=True, repr=False)
class PreimageCCASolution(
    FunctionsSolution,
    residual="gradient step",
    objective="sum of the objective",
    adjusted=False,
    saved_types=(Kernel,),
):
    """Pairs of points whose kernel functions are correlated.

    Attributes
    ----------
    x_preimages, y_preimages : array of shape (p, k), (q, k)
        The points u and v of the pairs, in the order in which they were found. Signs that the kernel does not
        determine are such that the largest entry is positive.
    correlations : numpy.ndarray of shape (k,)
        Correlations of the pairs of variates on the training rows, float64. Usually they decrease.
    values : numpy.ndarray of shape (k,)
        Objective that each pair maximises: the correlation or HSIC of its variates, times a share for each of its two
        functions. A share is the length of the variate over the length of the function's (centred) values k(X, u) at
        the training rows. It is 1 for the first pair, and for functions that are not correlated with earlier variates.
    x_weights, y_weights : numpy.ndarray of shape (k, k)
        Upper triangular: the variates are these combinations of k(·, u₁), …, k(·, u_k), less `x_mean` and `y_mean`.
        They are uncorrelated and of unit length on the training rows; the functions themselves correlate.
    x_mean, y_mean : numpy.ndarray of shape (k,) or None
        Means of the variates over the training rows, which `transform` subtracts; None without centring.
    residuals : numpy.ndarray of shape (k,)
        The residual of each pair; the residual of the solution is the largest of these.
    starts : int
        Number of starting points for each pair.
    agreeing : numpy.ndarray of shape (k,)
        For each pair, how many starts led to the best value within 1 %. If few did, more starts may find a better pair.
    kernel_x, kernel_y : Kernel
        The kernels with all their numbers, including scales chosen from the data.
    """

    x_preimages: Array = field(rows_of="X", leading=True)
    y_preimages: Array = field(rows_of="Y", leading=True)
    correlations: HostArray = field(shape="k")
    values: HostArray = field(shape="k")
    residuals: HostArray = field(shape="k")
    x_weights: HostArray = field(shape="k k")
    y_weights: HostArray = field(shape="k k")
    kernel_x: Kernel
    kernel_y: Kernel
    starts: int
    agreeing: HostArray = field(shape="k")
    x_mean: HostArray | None = field(None, shape="k")
    y_mean: HostArray | None = field(None, shape="k")

    def _headline(self) -> str:
        total = float(self.correlations.sum())
        return f"{count_of(len(self.correlations), 'correlation')}, sum {total:.6f}"

    def facts(self) -> list[tuple[str, str]]:
        """The sums, the kernels with all their numbers, and how many columns of each view matter."""
        x, y = (support.sum(axis=0).tolist() for support in self.supports())
        columns = [f"{a}, {b}" for a, b in zip(x, y, strict=True)]
        return [
            ("sum of correlations", f"{float(self.correlations.sum()):.7g}"),
            *super().facts(),
            ("columns of X, of Y", "  ".join(columns)),
            ("starts", str(self.starts)),
            ("kernels", " and ".join(dict.fromkeys([str(self.kernel_x), str(self.kernel_y)]))),
        ]

    @classmethod
    def objective(cls, fields: Mapping[str, Any]) -> float:
        """The sum of the values of all pairs."""
        return float(np.sum(fields["values"]))

    def _per_component(self) -> dict[str, Any]:
        return {
            "correlation": self.correlations,
            "value": self.values,
            "residual": self.residuals,
            "starts that agree": self.agreeing,
        }

    @at_home
    def supports(self, share: float = SUPPORT) -> tuple[HostArray, HostArray]:
        """Columns that matter: masks of the entries of each point above a share of the point's largest entry.

        Parameters
        ----------
        share : float, default 0.05
            From 0 to below 1; 0 gives all entries that are not zero.

        Returns
        -------
        pair of bool numpy.ndarray of shape (p, k), (q, k)
        """
        if not 0 <= share < 1:
            raise InvalidProblem(f"share must be from 0 to below 1; got {share!r}.")
        sizes = [np.abs(np.asarray(to_host(U))) for U in (self.x_preimages, self.y_preimages)]
        x, y = (size > share * size.max(axis=0, initial=0.0) for size in sizes)
        return x, y

    def variates(self, view: str, data: Any) -> Array:
        side, A = view.lower(), as_operator(data, view)
        points = getattr(self, f"{side}_preimages")
        if A.shape[1] != points.shape[0]:
            raise InvalidProblem(
                f"{view} must have {points.shape[0]} columns, as the training rows; got {A.shape[1]}."
            )
        kernel, moments = getattr(self, f"kernel_{side}"), Moments([A.in_blocks(view)], names=[view])
        rows = PreimageView(moments, 0, kernel, Bound("ratio", 1.0), center=False)
        Z = rows.at(np.asarray(to_host(points), dtype=np.float64)).values
        return self.centred(side, Z @ rows.home.place(getattr(self, f"{side}_weights")), A)
