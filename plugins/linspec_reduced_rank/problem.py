"""Reduced-rank regression: the problem, its answer and its law.

Problem: min ‖Y − X B‖² + r ‖B‖² over all B of rank at most k.
Method: with S = XᵀX + rI and C = XᵀY, let the columns of V be k leading eigenvectors of CᵀS⁻¹C, with the eigenvalues
σ². Then B = S⁻¹C V Vᵀ. The columns of W = S⁻¹C V / σ are the k leading eigenvectors of C Cᵀw = σ² S w, WᵀSW = I: the
discriminant directions of X for the targets Y. So B = W diag(σ) Vᵀ with V = CᵀW / σ, and the law and the solvers of
`linspec.Discriminant` serve here.
Source: Izenman 1975, doi:10.1016/0047-259X(75)90042-1; Mukherjee & Zhu 2011, doi:10.1002/sam.10138 (ridge).
Where we differ: neither squares C. Both compute B from the full solution S⁻¹C; we compute it from W, whose span the
certificate compares with that of S⁻¹C.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec import Status
from linspec.algebra import unit_columns
from linspec.arrays import Array, HostArray, reciprocal, to_host
from linspec.cost import DENSE_RATE, FACTOR_RATE
from linspec.solving import (
    COMPONENT_SCORES,
    DEFAULT_TERMS,
    ComponentRegressionSolution,
    Terms,
)

DIRECTIONS = "directions in which the columns of X vary with the targets"
"""The words of `linspec.Discriminant` for components."""

PROBES = 20
"""Combinations of right-hand sides beyond k that are searched for components that a solver has missed."""

TOLERATED = 10.0
"""A component counts as missing if an eigenvalue is larger than the returned one by this multiple of the tolerance or
of the residual, whichever is larger, times the largest."""


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
    next_singular_value : float or None
        A lower bound of the next singular value, that of the component k + 1: 0 if none was found, None if the budget
        had no pass to look for it. If it is close to the last one, another B of rank k fits nearly as well.
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
    next_singular_value: float | None = None
    total_squares: float | None = None
    vector: bool = False
    x_mean: Array | None = None
    y_mean: Array | None = None
    x_scale: Array | None = None
    y_scale: Array | None = None
    confound_mean: HostArray | None = None
    x_slopes: Array | None = None
    y_slopes: Array | None = None

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
    Residual: ‖C CᵀW − S W diag(σ²)‖ / ‖C CᵀW‖, as for `linspec.Discriminant`, with C = XᵀY and S = XᵀX + ridge·I. If
    `residual_kind` is "exact", lengths are those of S⁻¹, and some exact σ² lies within the residual times ‖σ²‖ of each
    returned one. If a solver claims to have the span of the full solution S⁻¹C, the residual is also at least the share
    of C outside this span: then no larger component is missing. For other solvers, the eigenvalues within the returned
    directions and some probes beside them show whether one is.

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
    scale: bool = ls.flag(False, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)
    confounds: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "reduced-rank-regression"
    held_out_scores: ClassVar[Mapping[str, str]] = COMPONENT_SCORES

    @property
    def width(self) -> int:
        """The number of columns of iterates: one for each right-hand side."""
        return int(self.Y.shape[1])

    @property
    def certificate_products(self) -> float:
        """The products of the law, those of `linspec.Discriminant`; one more if the budget allows it."""
        return 2 if self.single else 1

    def directions(self) -> ls.Discriminant:
        """Return the problem of the columns of W, for the matrices of a run: the right-hand sides are the targets."""
        found = ls.Discriminant(self.X, self.Y, self.k, self.ridge, center=bool(self.center))
        object.__setattr__(found, "shared", self.shared)
        return found

    def conclude(  # type: ignore[override]  # each law names the arrays that it takes
        self,
        moments: ls.Moments,
        terms: Terms = DEFAULT_TERMS,
        *,
        weights: Array,
        eigenvalues: HostArray | None = None,
        rank: int | None = None,
        inverse: Any = None,
        complete: bool = False,
        lost: bool = False,
    ) -> ls.Conclusion:
        """Judge directions as `linspec.Discriminant.conclude` does, and compute the factors of Y.

        Parameters
        ----------
        moments : Moments
        terms : Terms
        weights : array of shape (p, j)
            A block whose span has the directions.
        eigenvalues, rank, inverse, complete, lost
            As for `linspec.Discriminant.conclude`.
        """
        directions, home = self.directions(), moments.home
        judged = directions.conclude(
            moments,
            terms,
            weights=weights,
            eigenvalues=eigenvalues,
            rank=rank,
            inverse=inverse,
            complete=complete,
            lost=lost,
        )
        W, values = home.place(judged.fields["weights"]), judged.fields["eigenvalues"]
        found = self._found_beside(directions, moments, terms, weights if complete else W, inverse, complete)
        missing = self._missing(values, found, max(terms.tol, judged.residual, self.noise(moments)))
        sigma = np.sqrt(values)
        Vs, squares = moments.cross().T @ W, moments.columns.known_diagonals()
        conclusion = self.concluded(
            moments,
            judged.residual,
            missing=DIRECTIONS,
            kind=judged.kind,
            lost=judged.lost or bool(missing),
            weights=W,
            y_weights=Vs * home.place(reciprocal(sigma))[None, :],
            singular_values=sigma,
            y_loadings=self.Y.home.place(Vs, self.Y.dtype),
            next_singular_value=None if found is None else math.sqrt(float(found[self.k :].max(initial=0.0))),
            total_squares=None if squares is None else float(to_host(home.xp.sum(squares[1]))),
            vector=self.vector,
        )
        findings = dict.fromkeys((*missing, *judged.findings, *conclusion.findings))
        return replace(conclusion, findings=tuple(findings))

    def _found_beside(
        self,
        directions: ls.Discriminant,
        moments: ls.Moments,
        terms: Terms,
        block: Array,
        inverse: Any,
        complete: bool,
    ) -> HostArray | None:
        """Return the k + 1 leading eigenvalues within a span, which are never above the exact ones.

        The span is that of `block` if it should contain all directions (`complete`). Otherwise it is that of `block`
        and of probes beside it: S⁻¹CΩ, or CΩ if S⁻¹ is not known. None if the budget has no passes for the product.
        """
        home, C, (m, count) = moments.home, moments.cross(), (self.width, self.k + PROBES)
        if home.norm(C) <= directions.rounding(moments):
            return np.zeros(0)
        reduced = hasattr(inverse, "product")
        if not reduced and terms.passes_left < moments.cost.sweep:
            return None
        C = inverse.within(C) if reduced else C
        if not complete:
            Omega = np.eye(m) if m <= count else np.random.default_rng(count).standard_normal((m, count))
            probes = C @ home.place(Omega)
            probes = inverse.solve(probes) if hasattr(inverse, "solve") else probes
            block = home.concat([block, unit_columns(probes, home)])
        image = (inverse.product(block) if reduced else moments.gram(block)) + block * self.ridge
        more = directions.with_numbers(k=self.k + 1)
        found: HostArray = more.within_span(block, image, C, moments, inverse if reduced else None)[1]
        return found

    def _missing(
        self, values: HostArray, found: HostArray | None, tol: float
    ) -> tuple[tuple[Status, str], ...]:
        """Return a finding if eigenvalues that were found are larger than the returned ones."""
        known, larger = np.zeros((2, self.k))
        known[: len(values)] = values
        if found is not None:
            larger[: len(found)] = found[: self.k]
        gap = float(np.max(larger - known))
        if gap <= TOLERATED * tol * larger[0]:
            return ()
        text = f"A component is missing: σ² of another one is larger by at least {gap:.1e}. "
        return ((Status.INCOMPLETE, text + 'Choose "direct" or "two-stage".'),)

    def factors_of_moments(
        self, metric: Any, C: HostArray, ridge: float, k: int
    ) -> tuple[HostArray, HostArray, float]:
        """Return W and V diag(σ) of up to k components, and the condition of XᵀX + ridge·I."""
        root = metric.inverse_root(ridge)
        P, sigma, Vt = np.linalg.svd(root.T @ C, full_matrices=False)
        return root @ P[:, :k], Vt[:k].T * sigma[:k], metric.condition(ridge)

    def seconds_of_factors(self, ridges: int) -> float:
        """Estimate the seconds of one eigendecomposition of XᵀX, and of a thin decomposition for each ridge."""
        p, m = float(self.X.shape[1]), float(self.Y.shape[1])
        thin = 4 * p**2 * m / DENSE_RATE + 20 * p * m * min(p, m) / FACTOR_RATE
        return float(4 * p**3 / FACTOR_RATE + ridges * thin)
