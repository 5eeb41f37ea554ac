"""Regression on components of largest covariance: the problem, its answer and its certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec import Status
from linspec.arrays import HOST, Array, Device, HostArray, reciprocal, to_host
from linspec.iteration import Certificate
from linspec.linalg import inner_products, ratio, signs_of_columns, unit_columns
from linspec.rows import Moments
from linspec.solving import (
    COMPONENT_SCORES,
    ComponentRegressionSolution,
    fewer_than_asked,
    table_of_columns,
)
from linspec_pls.regression.components import ROUNDING, Components, deflated


@dataclass(frozen=True, kw_only=True, repr=False)
class PLSRegressionSolution(ComponentRegressionSolution, vector="component", score="R²"):
    """Components of X with the largest covariance with Y, and the coefficients of Y on them.

    Attributes
    ----------
    x_rotations : array of shape (p, k)
        R: `transform` multiplies the columns of X, less their means, by it, and gives scores T that are orthogonal on
        the training rows.
    y_weights : array of shape (q, k)
        Right singular vectors, of length 1.
    x_weights : array of shape (p, k)
        W: left singular vectors, orthonormal; they belong to deflated columns. If the problem scales, they and
        `y_weights` belong to the scaled columns.
    x_loadings, y_loadings : array of shape (p, k), (q, k)
        P and Q: the coefficients of the columns of X and of Y on the scores.
    covariances : numpy.ndarray of shape (k,)
        The singular values to which `x_weights` and `y_weights` belong. They need not decrease.
    x_explained, y_explained : numpy.ndarray of shape (k,) or None
        The share of ‖X‖² and of ‖Y‖² that each component explains in the training rows, after means, confounds and
        scales; None where the rows cannot be read.
    vector : bool
        Whether Y was a vector.
    x_mean, y_mean : array of shape (p,), (q,), or None
        The column means, if the problem centres.
    x_scale, y_scale : array of shape (p,), (q,), or None
        The numbers that the columns were divided by, if the problem scales.
    confound_mean : numpy.ndarray of shape (c,) or None
        The means of the confounds, if the problem has any (0 without centring).
    x_slopes, y_slopes : array of shape (c, p), (c, q), or None
        The slopes of the columns in the confounds.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> solution = ls.solve(ls.PLSRegression(X, X[:, 0], k=3))
    >>> solution.coefficients().round(6) + 0.0
    array([1., 0., 0.])
    >>> solution.coefficients(1).shape
    (3,)
    """

    x_rotations: Array = ls.field(rows_of="X", leading=True)
    y_weights: Array = ls.field(rows_of="Y", leading=True, of_scaled=True)
    x_weights: Array = ls.field(shape="X k", on_device=True)
    x_loadings: Array = ls.field(rows_of="X")
    y_loadings: Array = ls.field(rows_of="Y")
    covariances: HostArray = ls.field(shape="k")
    x_explained: HostArray | None = ls.field(None, shape="k")
    y_explained: HostArray | None = ls.field(None, shape="k")
    vector: bool = False

    def _headline(self) -> str:
        return f"{self.x_rotations.shape[1]} components"

    def _per_component(self) -> dict[str, Any]:
        shares = {"X explained": self.x_explained, "Y explained": self.y_explained}
        known = {name: share for name, share in shares.items() if share is not None}
        return {"covariance": self.covariances, **known}

    @property
    def vip(self) -> HostArray:
        """The importance of each column of X in the projection, of shape (p,); NaN where shares of Y are not known.

        √(p Σ wₐ² eₐ / Σ eₐ) over the components, with the weights wₐ of the column in `x_weights` and the shares eₐ of
        `y_explained` (Wold, Sjöström & Eriksson 2001). The mean of the squares over all columns is 1.
        """
        squares = to_host(self.x_weights) ** 2
        if self.y_explained is None:
            return np.full(len(squares), np.nan)
        shares = self.y_explained * reciprocal(self.y_explained.sum())
        return np.asarray(np.sqrt(len(squares) * (squares @ shares)))

    def vip_table(self, *, library: str | None = None) -> Any:
        """Make a table of `vip`, with the names of the columns of X.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A row for each column, with the column "VIP".
        """
        return table_of_columns(self, "X", {"VIP": self.vip}, library)

    def _factors(self) -> tuple[Array, Array]:
        return self.x_rotations, self.y_loadings


DIGITS = 1e-6
"""A finding is reported if the rounding error of XₐᵀY before the last component, relative to its σ, is above this."""


@dataclass(frozen=True, eq=False, repr=False)
class PLSRegression(ls.Problem[PLSRegressionSolution]):
    """Regression of Y on the first k components of X, chosen one after the other by their covariance with Y.

    The weights w of a component are the leading left singular vector of XₐᵀY, where Xₐ is X without its part along
    earlier scores. The answer has the coefficients for every number of components up to k.

    Parameters
    ----------
    X : data of shape (n, p)
    Y : data of shape (n, q), or an array, a series or a list of shape (n,)
        Right-hand sides. p times q numbers are held.
    k : int
        The number of components, at most the rows and the columns of X. Fewer are returned if they explain all of Y
        that X can explain.
    center : bool, default True
        Whether to fit an intercept: X and Y are centred. Sparse data stay sparse.
    scale : bool, default False
        Whether to divide each column of X and of Y by its root mean square after means and confounds are subtracted;
        with `center` this is its standard deviation.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column, together with the means if `center`.

    Notes
    -----
    Residual: the largest ‖Cₐ Cₐᵀw − σ² w‖ / σ over the components, divided by ‖XᵀY‖, where Cₐ = XₐᵀY is deflated by the
    returned components, and σ is its norm; 1 if components are missing.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 20)) + 0.01 * rng.standard_normal((200, 20))
    >>> y = X @ np.ones(20)
    >>> problem = ls.PLSRegression(X, y, k=3)
    >>> solution = ls.solve(problem)
    >>> solution.predict(X[:5]).shape, bool(solution.score(X, y) > 0.999)
    ((5,), True)
    """

    X: Any = ls.matrix("data")
    Y: Any = ls.matrix("right-hand sides", like="X", vector=True)
    k: Any = ls.count(
        "components",
        limits=lambda problem: dict(zip(("rows", "columns of X"), problem.X.shape, strict=True)),
    )
    center: bool = ls.flag(True, "Fit an intercept; sparse data stay sparse.")

    name: ClassVar[str] = "pls-regression"
    tolerance: ClassVar[float] = 1e-8
    held_out_scores: ClassVar[Mapping[str, str]] = COMPONENT_SCORES

    @property
    def certificate_products(self) -> float:
        """The passes of the certificate: one with all weights, and one for XᵀY if the solver has not made it."""
        return 2

    def factors_of_moments(
        self, metric: Any, C: HostArray, ridge: Any, k: int
    ) -> tuple[HostArray, HostArray, float]:
        """Return the rotations and the loadings of Y of up to k components; lengths of short scores cancel."""
        components = deflated(C, lambda w: metric.S @ w, k, HOST)
        return components.R, components.Q, float(np.max(components.cancelled(np.diag(metric.S)), initial=1.0))

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Deflate XᵀY by the weights of a solver, measure each against the deflated matrix, and make the answer."""
        C = moments.cross()
        device = Device.of(C)
        W = unit_columns(arrays["x_weights"], device)
        W = W * device.asarray(signs_of_columns(W, device))[None, :]
        V = unit_columns(C.T @ W, device)
        (XtXW, _), (_, YtYV) = moments.products(W, V)
        lengths = [
            inner_products(A, device.asarray(M), device).max(initial=0.0) for A, M in ((W, XtXW), (V, YtYV))
        ]
        least = moments.noise * float(np.sqrt(np.prod(np.maximum(lengths, 0.0))))

        components = Components.none(C, device)
        size, gaps = components.norm(), [0.0]
        for i in range(min(int(W.shape[1]), self.k)):
            w = W[:, i : i + 1]
            more = components.with_weights(w, XtXW[:, i : i + 1])
            if len(more) == len(components) or more.covariances[-1] <= max(least, components.lost[-1]):
                break
            gaps.append(components.misfit(w))
            components = more
        if len(components) < self.k and components.norm() > max(least, components.lost[-1]):
            gaps.append(size)  # of a component that is missing
        what = "components with a covariance above rounding"
        notes = fewer_than_asked(
            len(components), self.k, what, least / components.covariances[0] if len(components) else 0.0
        )
        off = components.lost[: len(components)] / components.covariances
        if moments.holds:
            off = off + ROUNDING * components.cancelled(device.asarray(moments.squares()))
        lost: tuple[tuple[Status, str], ...] = ()
        if (off > DIGITS).any():
            first = int(np.argmax(off > DIGITS))
            text = f"Earlier components leave so little of XᵀY, or of X, that component {first + 1} may have an error "
            text += f"of {off[first]:.0e}, which the residual does not show. Ask for fewer components."
            lost = ((Status.ILL_CONDITIONED, text),)
        factors = components.arrays() | {
            "x_rotations": moments.fitted[0].scaled(components.R),
            "x_loadings": moments.fitted[0].unscaled(components.P),
            "y_loadings": moments.fitted[1].unscaled(components.Q),
        }
        explained = HOST.asarray(factors["y_loadings"]) ** 2 @ components.tau
        totals = [moments.squares(i) for i in (0, 1)]
        shares = [
            None if total is None else components.tau * HOST.asarray(M * M).sum(axis=0) / total.sum()
            for total, M in zip(totals, (components.P, components.Q), strict=True)
        ]
        fields = {
            **{name: self.X.device.asarray(A, self.X.dtype) for name, A in factors.items()},
            "covariances": components.covariances,
            "x_explained": shares[0],
            "y_explained": shares[1],
            "target_errors": np.maximum(moments.fitted[1].left - explained, 0.0),
            "vector": self.vector,
        }
        return Certificate(
            ratio(float(max(gaps)), size),
            notes + lost,
            fields,
            "from-gram" if moments.holds else "recomputed",
            lost=bool(lost),
        )
