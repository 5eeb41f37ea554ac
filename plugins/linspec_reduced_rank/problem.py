"""Reduced-rank regression: the problem and its answer.

Problem: min ‖Y − X B‖² + r ‖B‖² over all B of rank at most k.
Method: with S = XᵀX + rI and C = XᵀY, let the columns of V be k leading eigenvectors of CᵀS⁻¹C, with the eigenvalues
σ². Then B = S⁻¹C V Vᵀ. The columns of W = S⁻¹C V / σ are the k leading eigenvectors of C Cᵀw = σ² S w, WᵀSW = I: the
discriminant directions of X for the targets Y. So B = W diag(σ) Vᵀ with V = CᵀW / σ, and the certificate and the
solvers of `linspec.Discriminant` serve here.
Source: Izenman 1975, doi:10.1016/0047-259X(75)90042-1; Mukherjee & Zhu 2011, doi:10.1002/sam.10138 (ridge).
Where we differ: neither squares C. Both compute B from the full solution S⁻¹C; we compute it from W, whose span the
certificate compares with that of S⁻¹C.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec.arrays import HOST, Array, HostArray, reciprocal
from linspec.families.discriminant import certify, directions_of
from linspec.iteration import Certificate
from linspec.rows import Moments
from linspec.solving import COMPONENT_SCORES, ComponentRegressionSolution


@dataclass(frozen=True, kw_only=True, repr=False)
class ReducedRankRegressionSolution(ComponentRegressionSolution, vector="component", score="R²"):
    """Coefficients of rank k as B = W diag(σ) Vᵀ; the first j components are the answer of rank j.

    Attributes
    ----------
    weights : array of shape (p, k)
        W: `transform` multiplies the columns of X, less their means, by it. WᵀXᵀXW + ridge WᵀW is the identity.
    y_weights : array of shape (m, k)
        V: orthonormal. If the problem scales, it belongs to the scaled columns of Y.
    singular_values : numpy.ndarray of shape (k,)
        σ, in decreasing order: component i lowers ‖Y − XB‖² + ridge ‖B‖² by σᵢ².
    y_loadings : array of shape (m, k)
        V diag(σ), in the units of Y: the coefficients of Y on the scores of `transform`.
    next_singular_value : float
        The next singular value, that of the component k + 1; a lower bound of it where `residual_kind` is not "exact".
        If it is close to the last one, another B of rank k fits nearly as well.
    total_squares : float or None
        ‖Y‖² after means and confounds are subtracted, weighted; of scaled columns if the problem scales. None if the
        rows of Y cannot be read.
    vector : bool
        Whether Y was a vector.
    x_mean, y_mean : array of shape (p,), (m,), or None
        The column means, if the problem centres.
    x_scale, y_scale : array of shape (p,), (m,), or None
        The numbers that the columns were divided by, if the problem scales.
    confound_mean : numpy.ndarray of shape (c,) or None
        The means of the confounds, if the problem has any (0 without centring).
    x_slopes, y_slopes : array of shape (c, p), (c, m), or None
        The slopes of the columns in the confounds.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, B = rng.standard_normal((200, 5)), rng.standard_normal((5, 2)) @ rng.standard_normal((2, 4))
    >>> solution = ls.solve(ls.ReducedRankRegression(X, X @ B, k=2))
    >>> bool(np.allclose(solution.coefficients(), B)), bool(np.isclose(solution.explained.sum(), 1))
    (True, True)
    """

    weights: Array = ls.field(rows_of="X", leading=True)
    y_weights: Array = ls.field(rows_of="Y", leading=True, of_scaled=True)
    singular_values: HostArray = ls.field(value="singular value")
    y_loadings: Array = ls.field(rows_of="Y")
    next_singular_value: float = 0.0
    total_squares: float | None = None
    vector: bool = False

    @property
    def explained(self) -> HostArray | None:
        """The share of ‖Y‖² by which each component lowers ‖Y − XB‖² + ridge ‖B‖², of shape (k,).

        Without a ridge their sum is R² on the training rows. None if ‖Y‖² is not known.
        """
        total = self.total_squares
        return None if total is None else self.singular_values**2 * (1 / total if total > 0 else 0.0)

    def facts(self) -> list[tuple[str, str]]:
        """The sum of the singular values, and the share of all components together, if it is known."""
        shares = self.explained
        together = [] if shares is None else [("explained", f"{float(shares.sum()):.4f} together")]
        return [*super().facts(), *together]

    def _per_component(self) -> dict[str, Any]:
        shares = self.explained
        return super()._per_component() | ({} if shares is None else {"explained": shares})

    def _factors(self) -> tuple[Array, Array]:
        return self.weights, self.y_loadings


@dataclass(frozen=True, eq=False, repr=False)
class ReducedRankRegression(ls.Problem[ReducedRankRegressionSolution]):
    """min ‖Y − X B‖²_F + ridge ‖B‖²_F over all B of rank at most k.

    The columns of Y share k combinations of the columns of X. One answer has the solution of every smaller rank.

    Parameters
    ----------
    X : data of shape (n, p)
    Y : data of shape (n, m), or an array, a series or a list of shape (n,)
        Right-hand sides. Their variances weigh them: with ``scale=True`` all count the same.
    k : int
        The rank, at most the rows and the columns of X and the columns of Y. If XᵀY has a lower numerical rank, fewer
        components are returned.
    ridge : float, default 0.0
        Added to the unnormalised XᵀX. With ridge 0 and dependent columns of X, B is the solution of least norm.
    center : bool, default True
        Whether to fit intercepts, which no ridge shrinks: X and Y are centred. Sparse data stay sparse.
    scale : bool, default False
        Whether to divide each column of X and of Y by its root mean square after means and confounds are subtracted;
        with `center` this is its standard deviation.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column, together with the means if `center`.

    Notes
    -----
    Residual: ‖C CᵀW − S W diag(σ²)‖ / ‖C CᵀW‖ in the norm of S⁻¹, as for `linspec.Discriminant`, with C = XᵀY and
    S = XᵀX + ridge·I. If `residual_kind` is "exact", some exact σ² lies within the residual times ‖σ²‖ of each returned
    one, and no larger component is missing. If a solver claims to have the span of the full solution S⁻¹C, the residual
    is also at least the share of C outside this span.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 30))
    >>> Y = X[:, :2] @ rng.standard_normal((2, 12)) + 0.1 * rng.standard_normal((500, 12))
    >>> problem = ls.ReducedRankRegression(X, Y, k=2, ridge=1.0)
    >>> solution = ls.solve(problem)
    >>> solution.predict(X[:5]).shape, bool(solution.score(X, Y) > 0.97)
    ((5, 12), True)
    """

    X: Any = ls.matrix("data")
    Y: Any = ls.matrix("right-hand sides", like="X", vector=True)
    k: Any = ls.count("components")
    ridge: Any = ls.ridge(
        of=("X",), help="Added to the diagonal of XᵀX, which is not divided by the number of rows."
    )
    center: bool = ls.flag(True, "Fit intercepts, which no ridge shrinks; sparse data stay sparse.")

    name: ClassVar[str] = "reduced-rank-regression"
    found: ClassVar[tuple[str, ...]] = ("weights",)
    factor: ClassVar[None] = None  # of the right-hand sides, which are not products
    held_out_scores: ClassVar[Mapping[str, str]] = COMPONENT_SCORES

    @property
    def width(self) -> int:
        """The number of columns of iterates: one for each right-hand side."""
        return int(self.Y.shape[1])

    @property
    def targets(self) -> int:
        """The number of right-hand sides."""
        return self.width

    resolution = ls.Discriminant.resolution

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Judge `weights` as those of `linspec.Discriminant`, and compute the factors of Y."""
        certificate, known = certify(self, moments, arrays), directions_of(self, moments)
        W = moments.fitted[0].unscaled(known.device.asarray(certificate.fields["weights"]))
        values, device = certificate.fields["eigenvalues"], known.device
        sigma, Vs = np.sqrt(values), known.C.T @ W
        squares, fitted = moments.squares(1), moments.fitted[1]
        loadings = HOST.asarray(fitted.unscaled(Vs))
        explained = (loadings**2).sum(axis=1) + self.ridge * ((HOST.asarray(W) @ loadings.T) ** 2).sum(axis=0)
        fields = {
            name: value for name, value in certificate.fields.items() if name not in ("eigenvalues", "rank")
        }
        fields |= {
            "y_weights": Vs * device.asarray(reciprocal(sigma))[None, :],
            "singular_values": sigma,
            "y_loadings": self.Y.device.asarray(loadings, self.Y.dtype),
            "target_errors": np.maximum(fitted.left - explained, 0.0),
            "next_singular_value": math.sqrt(fields.pop("next")),
            "total_squares": None if squares is None else float(squares.sum()),
            "vector": self.vector,
        }
        return certificate._replace(fields=fields)

    def factors_of_moments(
        self, metric: Any, C: HostArray, ridge: float, k: int
    ) -> tuple[HostArray, HostArray, float]:
        """Return W and V diag(σ) of up to k components, and the condition of XᵀX + ridge·I."""
        root = metric.inverse_root(ridge)
        P, sigma, Vt = np.linalg.svd(root.T @ C, full_matrices=False)
        return root @ P[:, :k], Vt[:k].T * sigma[:k], metric.condition(ridge)
