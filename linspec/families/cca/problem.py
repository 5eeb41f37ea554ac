"""Canonical correlations: the problem; its law is in `linspec.families.cca.law.judging`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from linspec.arrays import (
    Array,
    HostArray,
    largest_magnitude,
    to_host,
)
from linspec.errors import InvalidProblem, shown
from linspec.families.cca.law.evidence import NO_EVIDENCE, Evidence
from linspec.families.cca.law.judging import judged
from linspec.families.cca.solution import CCASolution
from linspec.moments.moments import Moments
from linspec.solving.checks import (
    check_home,
    check_k,
    check_ridge,
    check_rows,
    finite_array,
    largest_k,
    of_pairs,
)
from linspec.solving.conclusion import DEFAULT_TERMS, Conclusion, Terms, without_answer
from linspec.solving.problem import Problem, shared_moments
from linspec.solving.solution import Solution

LONGEST = 250
"""Binary exponent (of either sign) beyond which weights cannot belong to data in the permitted range."""


@dataclass(frozen=True, eq=False, repr=False)
class CCA(Problem[CCASolution]):
    """The k leading canonical pairs of two views.

    With Sx = XᵀX + ridge·I, Sy likewise and C = XᵀY: the k leading singular values of
    Sx^(-1/2) C Sy^(-1/2) are the correlations, and the weights have unit length in Sx and Sy.

    Parameters
    ----------
    X : data of shape (n, p), or Moments
        Anything that `linspec.as_operator` accepts. Moments of two views replace both X and Y.
    Y : data of shape (n, q)
        The second view. Each view is multiplied in the dtype of its own data, and the narrower dtype determines the
        precision. If one view is float64, bools and integers in the other are multiplied in float64.
    k : int, optional
        The number of pairs, at most min(n, p, q). The default is min(n, p, q) if that is at most 4096. If the
        numerical ranks of the views are lower, fewer pairs are returned.
    ridge : float or pair of floats, default 0.0
        The ridges, which are added to the unnormalised Gram matrices of X and Y. A penalty λ on XᵀX/n is a
        ridge of nλ.
    center : bool, default True
        Whether to centre the columns; sparse data stay sparse.
    scale : bool, default False
        Whether to divide each column by its root mean square after means and confounds are subtracted; with `center`
        this is its standard deviation.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column of both views, together with the means if
        `center`. Sparse data stay sparse.

    Notes
    -----
    Residual: Σ‖ϱᵢ‖² / Σρᵢ with ϱᵢ = (Cψᵢ − ρᵢ Sx φᵢ, Cᵀφᵢ − ρᵢ Sy ψᵢ) in the norm of S⁻¹, S = diag(Sx, Sy) as
    block matrices. With a gap gᵢ between ρᵢ and the left-out correlations, the relative loss in the sum of
    the correlations is about Σ‖ϱᵢ‖²/2gᵢ over Σρᵢ. `linspec.families.cca.law.judging` explains the computation of
    the norm and the certificate.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.standard_normal((1000, 2)) * [2.0, 1.0]
    >>> X = shared @ rng.standard_normal((2, 20)) + rng.standard_normal((1000, 20))
    >>> Y = shared @ rng.standard_normal((2, 15)) + rng.standard_normal((1000, 15))
    >>> problem = ls.CCA(X, Y, k=2, ridge=1.0)
    >>> solution = ls.solve(problem)
    >>> solution.correlations.round(3)
    array([0.988, 0.919])
    >>> solution.status
    <Status.CONVERGED: 'The residual of the returned arrays is at or below the tolerance.'>
    """

    X: Any
    Y: Any = None
    k: Any = None
    ridge: Any = 0.0
    center: bool = True
    scale: bool = field(default=False, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)
    confounds: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "cca"
    tolerance: ClassVar[float] = 1e-6
    proves_completeness: ClassVar[bool] = True
    solution: ClassVar[type[Solution]] = CCASolution
    means: ClassVar[Mapping[str, str]] = MappingProxyType({"X": "x_mean", "Y": "y_mean"})
    scaled: ClassVar[Mapping[str, str]] = MappingProxyType({"X": "x_weights", "Y": "y_weights"})
    regressed: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {"X": ("x_from_x", "x_from_y"), "Y": ("y_from_x", "y_from_y")}
    )
    matrix_names: ClassVar[tuple[str, ...]] = ("X", "Y")
    held_out_scores: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "correlations": "linspec.families.cca.held_out:SumOfCorrelations",
            "tcc": "linspec.families.cca.held_out:TotalCaptured",
        }
    )

    every: ClassVar[bool] = False  # whether k follows from the sizes

    def __post_init__(self) -> None:
        shared = shared_moments(self, self.X, self.center)
        if shared is not None and shared.Y is None:
            raise InvalidProblem("CCA needs moments of two views; got moments of one. Pass Moments(X, Y).")
        if shared is None and self.Y is None:
            raise InvalidProblem(f"CCA needs two views; got no Y. Call CCA(X, Y, k).{of_pairs(self.X)}")
        X = self.adopt("X", shared.X if shared else self.X)
        Y = self.adopt("Y", shared.Y if shared else self.Y)
        check_home("X", X, "Y", Y)
        if shared is None:
            for name, A, other in (("X", X, Y), ("Y", Y, X)):
                if (
                    A.stored_dtype.kind in "biu"
                ):  # bools and integers are exact; floats keep their own precision
                    self.promote(name, other.dtype)
        self.adopt_rows()
        object.__setattr__(self, "every", self.k is None)
        self.check_sizes()
        object.__setattr__(self, "ridge", self.checked_ridge(self.ridge))

    def checked_ridge(self, ridge: Any) -> tuple[float, float]:
        """Check a ridge, one number for both views or a pair, and return a pair."""
        pair = ridge if isinstance(ridge, tuple | list) else (ridge, ridge)
        if len(pair) != 2:
            raise InvalidProblem(f"ridge must be a number or a pair; got {len(pair)} numbers.")
        return check_ridge(pair[0]), check_ridge(pair[1])

    def check_sizes(self) -> None:
        """Check that X and Y have the same number of rows, and that k is at most the smallest size."""
        (n, p), (m, q) = self.X.shape, self.Y.shape
        check_rows("X", self.X, "Y", self.Y)
        sizes = {"rows": min(n, m), "columns of X": p, "columns of Y": q}
        object.__setattr__(self, "k", largest_k(sizes) if self.every else check_k(self.k, sizes))

    @property
    def certificate_products(self) -> int:
        """1; for float32 weights 2: one product for the rotation, and one for the residual after rounding."""
        return 2 if self.single else 1

    def start(self, given: Any) -> dict[str, Array]:
        """Check the weights of an earlier solution, finite and with the same number of columns, and return them."""
        found = {}
        for name, A in (("x_weights", self.X), ("y_weights", self.Y)):
            W = given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)
            W = None if W is None else finite_array(W, f"the {name} of start")
            shape = None if W is None else tuple(W.shape)
            if shape is None or len(shape) != 2 or shape[0] != A.shape[1] or shape[1] < 1:
                raise InvalidProblem(
                    f"start must have {name} of shape ({A.shape[1]}, m); got "
                    f"{shown(given) if shape is None else shape}. Pass a solution of CCA on the same columns."
                )
            found[name] = A.home.blocks.place(W)
        if found["x_weights"].shape[1] != found["y_weights"].shape[1]:
            raise InvalidProblem("the weights of start must have equally many columns for both views.")
        return found

    def as_solved(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """The weights to start from; their lengths do not matter, so extremely large or small ones are rescaled."""
        found = super().as_solved(start)
        for name, W in found.items():
            exponent = math.frexp(largest_magnitude(W))[1]
            if abs(exponent) > LONGEST:
                found[name] = W * 2.0 ** max(min(-exponent, 1000), -1000)
        return found

    def unregularised(self) -> dict[str, float]:
        """The ridges of both views."""
        return {"X": self.ridge[0], "Y": self.ridge[1]}

    def moments(self, form: str, expect: tuple[int, int]) -> Moments:
        """The moments of X and Y."""
        return self.shared or Moments(self.X, self.Y, center=self.center, form=form, expect=expect)

    def conclude(  # type: ignore[override]
        self,
        moments: Moments,
        terms: Terms = DEFAULT_TERMS,
        *,
        x_weights: Array,
        y_weights: Array,
        correlations: HostArray | None = None,
        ranks: tuple[int, int] | None = None,
        evidence: Evidence = NO_EVIDENCE,
    ) -> Conclusion:
        """Scale to unit length, rotate to canonical pairs unless correlations are passed, and apply the law."""
        weights = [moments.home.place(x_weights), moments.home.place(y_weights)]
        found = judged(self, moments, terms, weights, correlations, ranks, evidence)
        found = dataclasses.replace(found, findings=(*found.findings, *self.lost_to_centring(moments)))
        if not weights[0].shape[1] and not moments.bookkeeping.spent and not self._is_uncorrelated(moments):
            return without_answer(found, "the columns of X and Y are correlated")
        return found

    def _is_uncorrelated(self, moments: Moments) -> bool:
        """Whether XᵀY is zero up to rounding."""
        if moments.columns.vanishes(0) or moments.columns.vanishes(1):
            return True
        home = moments.home
        squares = [
            float(to_host(home.xp.sum(d))) + moments.columns.subtracted_from_products(i)
            for i, d in enumerate(moments.diagonal())
        ]
        unit = 10 * math.sqrt(self.X.shape[1] + self.Y.shape[1]) * float(np.finfo(self.dtype).eps)
        return home.norm(moments.products(cross=True).cross) <= unit * math.sqrt(squares[0] * squares[1])
