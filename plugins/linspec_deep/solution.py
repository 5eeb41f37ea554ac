"""The solution of a deep CCA: two nets, and canonical pairs of their features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

import linspec as ls
from linspec.arrays import Array, HostArray, to_host
from linspec.errors import InvalidProblem
from linspec.families.cca import TwoViewSolution
from linspec.operators import LinearOperator
from linspec.process import count_of
from linspec_deep.nets import Net


@dataclass(frozen=True, kw_only=True, repr=False)
class DeepCCASolution(TwoViewSolution, residual="squared", certified=False, saved_types=(Net,)):
    # The certificate covers the CCA of the features, not the nets.
    """Two nets, and the canonical pairs of their features.

    Attributes
    ----------
    x_net, y_net : Net
        The nets: ``x_net(rows)`` are the k features of rows in NumPy, before the canonical weights.
    x_weights, y_weights : array of shape (k, r), (k, r)
        Canonical weights of the features, of unit length in the metric of their Gram matrix about the means. There are
        r ≤ k pairs, fewer if features depend on each other.
    correlations : numpy.ndarray of shape (r,)
        Canonical correlations of the features on the training rows in decreasing order, float64.
    x_feature_mean, y_feature_mean : numpy.ndarray of shape (k,)
        Means of the features on the training rows, float64.
    rows : int
        The number of training rows.
    """

    center_of: ClassVar[Mapping[str, str]] = {"X": "x_feature_mean", "Y": "y_feature_mean"}

    x_net: Net
    y_net: Net
    x_weights: Array = ls.field(leading=True, shape="k r")
    y_weights: Array = ls.field(leading=True, shape="l r")
    correlations: HostArray = ls.field(value="canonical correlation", at_most=1.0, shape="r")
    x_feature_mean: HostArray = ls.field(shape="k")
    y_feature_mean: HostArray = ls.field(shape="l")
    rows: int

    def _headline(self) -> str:
        total = float(self.correlations.sum())
        found = f"{count_of(len(self.correlations), 'correlation')} of learnt features"
        return f"{found}{self._with_ridge}, sum {total:.6f}"

    def facts(self) -> list[tuple[str, str]]:
        """The sum of the correlations, and the nets."""
        return [*super().facts(), ("nets", f"{self.x_net} and {self.y_net}")]

    @classmethod
    def from_saved_parts(cls, parts: Mapping[str, Any]) -> Self:
        found = super().from_saved_parts(parts)
        for name, net, weights in (("x", found.x_net, found.x_weights), ("y", found.y_net, found.y_weights)):
            if net.sizes[-1] != weights.shape[0]:
                raise InvalidProblem(
                    f"{name}_weights must have a row for each of the {net.sizes[-1]} features of {name}_net; got "
                    f"{weights.shape[0]}."
                )
        return found

    def variates(self, view: str, A: LinearOperator) -> Array:
        """Canonical variates of rows: features by the net, minus their training means, times the weights.

        torch is not needed.
        """
        net, mean, weights = (
            getattr(self, f"{view.lower()}_{what}") for what in ("net", "feature_mean", "weights")
        )
        if A.shape[1] != net.sizes[0]:
            raise InvalidProblem(
                f"{view} must have {net.sizes[0]} columns, as the training rows; got {A.shape[1]}."
            )
        if A.shape[0] == 0:
            raise InvalidProblem(f"{view} must have rows; got shape {A.shape}.")
        W = np.asarray(to_host(weights), dtype=np.float64)
        parts = [
            (net(to_host(block.cut(*ends).dense())) - mean) @ W
            for block in A.in_blocks(view).blocks()
            for ends in pairwise(block.edges(0))
        ]
        return A.home.place(np.concatenate(parts), A.dtype)
