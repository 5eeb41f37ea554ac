"""Canonical correlations of learnt features: the problem, its answer and its certificate.

Problem: two nets f and g with k features each, such that the sum of the canonical correlations of f(X) and g(Y) is
large. No method finds the best nets, and the distance of given nets from the best is unknown.
Law: it covers the features alone. The correlations are those of the exact canonical correlation analysis of the
features of all training rows, by the nets of a solver, evaluated in float64. The residual is that of
the equations of this small analysis. It says nothing about other nets, so no answer has converged: the status is
`Status.APPROXIMATE` if a solver ends by its own rule.
Source: Andrew, Arora, Bilmes & Livescu 2013, ICML, PMLR 28(3), for the problem.
Where we differ: they report the correlation of the outputs of the nets with their regularised covariances; here the end
has no regularisation, and features that depend on others are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec.arrays import HOST, Array, HostArray, to_host
from linspec.errors import InvalidProblem
from linspec.families.cca import TwoViewSolution
from linspec.iteration import Certificate
from linspec.linalg import ratio, signs_of_columns, whitening_above_noise
from linspec.operators import LinearOperator
from linspec.process import count_of
from linspec.rows import Moments, equal_slices, rows_at_once
from linspec.solving import fewer_than_asked
from linspec_deep.nets import Net, counted_rows


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
        correlations = f"{count_of(len(self.correlations), 'correlation')} of learnt features"
        return f"{correlations}{self._with_ridge}, sum {total:.6f}"

    def facts(self) -> list[tuple[str, str]]:
        """The sum of the correlations, and the nets."""
        return [*super().facts(), ("nets", f"{self.x_net} and {self.y_net}")]

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
        W = np.asarray(to_host(weights), dtype=np.float64)
        parts = [
            (net(to_host(block.cut(*ends).dense())) - mean) @ W
            for block in A.in_blocks(view).blocks()
            for ends in pairwise(block.edges(0))
        ]
        return A.device.asarray(np.concatenate(parts), A.dtype)


DEPENDENT = 1e-10
"""Relative variance up to which a combination of features is left out, because it is only rounding.

For features fⱼ on the training rows and coefficients vⱼ, the sum of squares of Σ vⱼfⱼ about its mean is compared with
Σ vⱼ²‖fⱼ‖², where ‖fⱼ‖² is the sum of the squares of feature j about zero. If the largest of these ratios exceeds 1,
the limit is this fraction of the largest ratio."""


@dataclass(frozen=True, eq=False, repr=False)
class DeepCCA(ls.Problem[DeepCCASolution], adjusts_rows=False):
    """Features of two views, by two nets, with large canonical correlations.

    Parameters
    ----------
    X : data of shape (n, p)
        Anything that `linspec.as_operator` takes and whose entries can be read: arrays, sparse matrices, files.
    Y : data of shape (n, q)
        The second view.
    k : int
        The number of features of each net, and of pairs: at most n. It may be larger than p and q.

    Notes
    -----
    Residual: Σ‖ϱᵢ‖² / Σρᵢ, computed for the exact CCA of the learnt features of the training rows. The k + k features
    are centred, and there is no ridge. ρᵢ is the canonical correlation of pair i. ϱᵢ is the error of pair i in the
    equations of CCA, in the norm that `linspec.CCA` defines. The residual does not measure the quality of the nets, and
    no answer is marked as converged.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> z = rng.standard_normal((500, 1))
    >>> X = np.hstack([z, rng.standard_normal((500, 3))])
    >>> Y = np.hstack([z**2, rng.standard_normal((500, 3))])
    >>> problem = ls.DeepCCA(X, Y, k=1)
    """

    X: Any = ls.matrix("two views", once=False)
    Y: Any = ls.matrix("two views", once=False)
    k: int = ls.count(
        "pairs of features", limits=lambda problem: {"rows": min(problem.X.shape[0], problem.Y.shape[0])}
    )

    name: ClassVar[str] = "deep-cca"

    def for_data(self, moments: Moments, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """The nets, which are all that users see of an iterate."""
        return {name: Net.of(arrays[name]) for name in ("x_net", "y_net")}

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Compute features of all rows in one pass by `x_net` and `y_net`, and their exact canonical correlations."""
        x_net, y_net = self.for_data(moments, arrays).values()
        n, mean, G = _feature_moments(moments, (x_net, y_net))
        k = x_net.sizes[-1]
        Sx = G[:k, :k]
        C = G[:k, k:]
        Sy = G[k:, k:]
        squares = np.diag(G) + n * mean**2
        Ux, Uy = (
            whitening_above_noise(S, np.diag(H), DEPENDENT, least=1.0)
            for S, H in ((Sx, squares[:k]), (Sy, squares[k:]))
        )
        P, rho, Qt = np.linalg.svd(Ux.T @ C @ Uy, full_matrices=False)
        rho = np.clip(rho, 0.0, 1.0)
        turns = [Ux @ P[:, : len(rho)], Uy @ Qt[: len(rho)].T]
        flips = signs_of_columns(turns[0], HOST)
        # Weights rounded to the dtype of the data, as they are returned; the residual is that of these.
        weights = [A.device.asarray(W * flips, A.dtype) for A, W in zip((self.X, self.Y), turns, strict=True)]
        phi, psi = (np.asarray(to_host(W), dtype=np.float64) for W in weights)
        defects = Ux.T @ (C @ psi - (Sx @ phi) * rho), Uy.T @ (C.T @ phi - (Sy @ psi) * rho)
        residuals = sum((D**2).sum(axis=0) for D in defects)
        fields: dict[str, Any] = {
            "x_weights": weights[0],
            "y_weights": weights[1],
            "correlations": rho,
            "x_feature_mean": mean[:k],
            "y_feature_mean": mean[k:],
            "x_net": x_net,
            "y_net": y_net,
            "rows": n,
        }
        text = (
            f"The correlations are those of the exact CCA of the learnt features on the {n} training rows, and the "
            "residual is that of this CCA alone: better nets may exist, and on new rows the correlations are lower "
            "(solution.score)."
        )
        fewer = fewer_than_asked(len(rho), self.k, "features that vary independently of the others")
        notes = (*fewer, (ls.Status.APPROXIMATE, text))
        return Certificate(ratio(float(np.sum(residuals)), float(rho.sum())), notes, fields)


def _feature_moments(moments: Moments, nets: tuple[Net, Net]) -> tuple[int, HostArray, HostArray]:
    """Number of rows, means of the features of both nets, and their Gram matrix about the means."""
    n = int(moments.operators[0].shape[0])
    size = min(map(rows_at_once, moments.operators))
    first = sums = np.zeros(sum(net.sizes[-1] for net in nets))
    G = np.zeros((len(sums), len(sums)))
    for some in equal_slices(n, size):
        numbers = np.arange(some.start, some.stop)
        F = np.hstack([net(counted_rows(moments, numbers, i, net.sizes)) for i, net in enumerate(nets)])
        if some.start == 0:
            first = F.mean(axis=0)  # sums about a mean of some rows lose no digits
        F = F - first
        sums = sums + F.sum(axis=0)
        G = G + F.T @ F
    return n, first + sums / n, G - np.outer(sums, sums) / n
