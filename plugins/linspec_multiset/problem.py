"""Multiset canonical correlations: the problem, its answer and the entry of its law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec.algebra import InverseNorm
from linspec.arrays import Array, HostArray
from linspec.errors import InvalidProblem
from linspec.solving import DEFAULT_TERMS, Terms
from linspec_multiset.law import judged


@dataclass(frozen=True, kw_only=True, repr=False)
class MultisetCCASolution(ls.LinearSolution, vector="component"):
    """Weights of each view, and the eigenvalues of the components.

    Attributes
    ----------
    weights : tuple of array of shape (pᵢ, k)
        One array for each view. Together they have unit length in the metric of the problem: Σ ωᵢ Wᵢᵀ(XᵢᵀXᵢ + rᵢI)Wᵢ
        is the identity.
    eigenvalues : numpy.ndarray of shape (k,)
        λ, decreasing. At most Σωᵢ, where all views agree. With weights of 1, a component that only one view has gets 1,
        and two views get 1 + ρ for the canonical correlation ρ.
    """

    weights: tuple[Array, ...] = ls.field(rows_of="views", leading=True)
    eigenvalues: HostArray = ls.field(value="eigenvalue")


def _sizes(problem: Any) -> Mapping[str, int]:
    """Return the sizes that k must not exceed."""
    views = problem.views
    return {
        "rows": min(A.shape[0] for A in views),
        "columns of all views together": sum(A.shape[1] for A in views),
    }


@dataclass(frozen=True, eq=False, repr=False)
class MultisetCCA(ls.Problem[MultisetCCASolution]):
    """The k directions of each of several views on which the views agree most (MAXVAR, generalised CCA).

    The leading solutions of A w = λ B w. With Cᵢⱼ = XᵢᵀXⱼ, Sᵢ = Cᵢᵢ + rᵢI and view weights ωᵢ, A has the blocks
    ωᵢωⱼ Cᵢⱼ, and ωᵢ²Sᵢ on its diagonal; B has the blocks ωᵢSᵢ on its diagonal, and zeros elsewhere.

    Parameters
    ----------
    views : list of data of shape (n, pᵢ), or Moments
        Two or more views. Anything `linspec.as_operator` accepts, in any mixture, with equally many rows.
    k : int
        The number of components, at most n and Σpᵢ.
    ridge : float or sequence of float, default 0.0
        Added to the unnormalised XᵢᵀXᵢ; a number for each view, or one for all.
    center : bool, default True
        Whether to subtract column means; sparse data stay sparse.
    view_weights : sequence of float, optional
        ωᵢ > 0, how much each view counts; by default 1. Without a ridge, a view of weight 2 counts as two equal views.

    Notes
    -----
    Residual: the largest ‖A w − λ B w‖ of a component in the norm of B⁻¹, divided by λ₁. Some exact eigenvalue lies
    within the residual times λ₁ of each returned one. The norm is exact if `residual_kind` is "exact". It is that of
    a preconditioner if it is "preconditioned": too small where columns nearly depend on each other.

    With ridge 0, λ are the eigenvalues of Σωᵢ Xᵢ(XᵢᵀXᵢ)⁺Xᵢᵀ. The scores Σωᵢ Xᵢwᵢ are its eigenvectors: the variables
    that are closest to all views (Carroll 1968). For any ridge the same w maximise Σ ωᵢωⱼ wᵢᵀCᵢⱼwⱼ over i ≠ j plus
    Σ ωᵢ²wᵢᵀSᵢwᵢ under Σ ωᵢwᵢᵀSᵢwᵢ = 1 (Kettenring 1971). For two views of weight 1 this is CCA with the same ridges.

    References
    ----------
    Carroll 1968, Proc. 76th Annual Convention of the APA 3, 227-228; Kettenring 1971, Biometrika 58(3), 433-451.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> common = rng.standard_normal((500, 1))
    >>> views = [common @ np.ones((1, p)) + rng.standard_normal((500, p)) for p in (3, 4, 5)]
    >>> problem = ls.MultisetCCA(views, k=2)
    >>> solution = ls.solve(problem)
    >>> solution.eigenvalues.round(1)
    array([2.6, 1.2])
    >>> [W.shape for W in solution.weights]
    [(3, 2), (4, 2), (5, 2)]
    """

    views: Any = ls.views()
    k: Any = ls.count("components", limits=_sizes)
    ridge: Any = ls.ridge(each=True, help="Added to the diagonal of each XᵢᵀXᵢ.")
    center: bool = ls.flag(True)
    view_weights: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "multiset-cca"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.views) == 1:
            raise InvalidProblem(
                "views must be at least two; got one. For a single matrix solve linspec.SVD."
            )
        object.__setattr__(self, "view_weights", _checked_weights(self.view_weights, len(self.views)))

    def conclude(  # type: ignore[override]
        self,
        moments: ls.Moments,
        terms: Terms = DEFAULT_TERMS,
        *,
        weights: Sequence[Array],
        norms: Sequence[InverseNorm] | None = None,
        residuals: Sequence[Array] | None = None,
    ) -> Any:
        """Compute the components within the span of the weights, their residual, and what may be missing.

        Parameters
        ----------
        moments : Moments
        terms : Terms
        weights : sequence of array of shape (pᵢ, m)
            A block for each view; column j of all of them is one vector.
        norms : sequence of InverseNorm, optional
            The norm of Sᵢ⁻¹ for each view, as far as the solver knows it. Exact norms replace it where Gram matrices
            are held, or are cheap to compute in the sweep of the weights.
        residuals : sequence of array of shape (pᵢ, m), optional
            The parts of A w − λ B w that the solver has. With them an estimated norm is sharper.

        Returns
        -------
        Conclusion
            The fields of a `MultisetCCASolution` with at most k components, its residual, and findings.
        """
        return judged(self, moments, terms, weights, norms, residuals)


def _checked_weights(given: Any, count: int) -> tuple[float, ...]:
    """Return the weights of the views as numbers; 1 for each by default."""
    if given is None:
        return (1.0,) * count
    try:
        weights = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        weights = np.zeros(0)
    if weights.shape != (count,) or not np.all(np.isfinite(weights) & (weights > 0)):
        raise InvalidProblem(
            f"view_weights must be a positive number for each of the {count} views; got {given!r}. Leave a view out "
            "that should not count."
        )
    return tuple(float(weight) for weight in weights)
