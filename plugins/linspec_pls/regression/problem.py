"""Regression on components of largest covariance: the problem and its law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec import Status
from linspec.algebra import inner_products, ratio, signs_of_columns, unit_columns
from linspec.arrays import HOST, Array, HostArray
from linspec.cost import DENSE_RATE
from linspec.solving import COMPONENT_SCORES, DEFAULT_TERMS, Terms, fewer_than_asked
from linspec_pls.regression.components import ROUNDING, Components, component_seconds, deflated
from linspec_pls.regression.solution import PLSRegressionSolution

DIGITS = 1e-6
"""A finding is reported if the rounding error of XₐᵀY before the last component, relative to its σ, is above this."""


def sizes_of_x(problem: Any) -> Mapping[str, int]:
    """The sizes that the number of components must not exceed."""
    n, p = problem.X.shape
    return {"the rows of X": n, "the columns of X": p}


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
    k: Any = ls.count("components", limits=sizes_of_x)
    center: bool = ls.flag(True, "Fit an intercept; sparse data stay sparse.")
    scale: bool = ls.flag(False, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)
    confounds: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "pls-regression"
    tolerance: ClassVar[float] = 1e-8
    held_out_scores: ClassVar[Mapping[str, str]] = COMPONENT_SCORES

    @property
    def certificate_products(self) -> float:
        """The products of the law: one sweep with all weights, and one for XᵀY if the solver has not made it."""
        return 2

    def factors_of_moments(
        self, metric: Any, C: HostArray, ridge: Any, k: int
    ) -> tuple[HostArray, HostArray, float]:
        """Return the rotations and the loadings of Y of up to k components; lengths of short scores cancel."""
        found = deflated(C, lambda w: metric.S @ w, k, HOST)
        return found.R, found.Q, float(np.max(found.cancelled(np.diag(metric.S)), initial=1.0))

    def seconds_of_factors(self, ridges: int) -> float:
        """Estimate the seconds of one deflation for each ridge."""
        sizes = self.sizes()
        each = 4.0 * float(sizes.p) ** 2 / DENSE_RATE + component_seconds(sizes)
        return float(ridges * sizes.k) * each

    def conclude(  # type: ignore[override]  # each law names the arrays that it takes
        self, moments: ls.Moments, terms: Terms = DEFAULT_TERMS, *, x_weights: Array
    ) -> ls.Conclusion:
        """Deflate XᵀY by the weights of a solver, measure each against the deflated matrix, and make the answer."""
        home, C = moments.home, moments.cross()
        W = unit_columns(x_weights, home)
        W = W * home.place(signs_of_columns(W, home))[None, :]
        XtXW, _, CtW, YtYV = moments.products(W, unit_columns(C.T @ W, home))
        V = unit_columns(CtW, home)
        lengths = [inner_products(A, M, home).max(initial=0.0) for A, M in ((W, XtXW), (V, YtYV))]
        least = self.noise(moments) * float(np.sqrt(np.prod(np.maximum(lengths, 0.0))))

        found = Components.none(C, home)
        size, gaps = found.norm(), [0.0]
        for i in range(min(int(W.shape[1]), self.k)):
            w = W[:, i : i + 1]
            more = found.with_weights(w, XtXW[:, i : i + 1])
            if len(more) == len(found) or more.covariances[-1] <= max(least, found.lost[-1]):
                break
            gaps.append(found.misfit(w))
            found = more
        if len(found) < self.k and found.norm() > max(least, found.lost[-1]):
            gaps.append(size)  # of a component that is missing
        findings = fewer_than_asked(len(found), self.k, "components with a covariance above rounding")
        squared = moments.columns.known_diagonals() if moments.held else None
        findings += rounding_of_components(found, squared)
        arrays = {name: self.X.home.place(V, self.X.dtype) for name, V in found.arrays().items()}
        return self.concluded(
            moments,
            ratio(float(max(gaps)), size),
            findings=findings,
            covariances=found.covariances,
            vector=self.vector,
            lost=any(status is Status.ILL_CONDITIONED for status, _ in findings),
            **arrays,
        )


def rounding_of_components(found: Components, diagonals: Any) -> tuple[tuple[Status, str], ...]:
    """Return a finding if the error of a component may be above `DIGITS`, because deflation has lost digits.

    `diagonals` has the squared lengths of the columns of X and of Y, or is None.
    """
    shares = found.lost[: len(found)] / found.covariances
    if diagonals is not None:
        shares = shares + ROUNDING * found.cancelled(diagonals[0])
    if not (shares > DIGITS).any():
        return ()
    first = int(np.argmax(shares > DIGITS))
    text = f"Earlier components leave so little of XᵀY, or of X, that component {first + 1} may have an error of "
    text += f"{shares[first]:.0e}, which the residual does not show. Ask for fewer components."
    return ((Status.ILL_CONDITIONED, text),)
