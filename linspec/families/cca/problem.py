"""Canonical correlations: the problem; `certificate` judges its answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from linspec.arrays import largest_magnitude
from linspec.families.cca.certificate import certify
from linspec.families.cca.solution import CCASolution
from linspec.iteration import Certificate
from linspec.rows import Moments
from linspec.solving import fields
from linspec.solving.fields import count, flag, matrix
from linspec.solving.problem import Problem


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
        The second view. Each view is multiplied in the dtype of its own data. If one view is float32 and the other
        float64, the solution has the precision of float32. Bools and integers are multiplied in float64 if the other
        view is float64.
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
    Residual: Σ‖ϱᵢ‖² / Σρᵢ. The vector ϱᵢ has the two parts Cψᵢ − ρᵢ Sx φᵢ and Cᵀφᵢ − ρᵢ Sy ψᵢ. ‖ϱᵢ‖² is the squared
    length of the first part in the norm of Sx⁻¹ plus that of the second part in the norm of Sy⁻¹. This is the norm of
    S⁻¹ for the block diagonal matrix S = diag(Sx, Sy).

    Loss: let gᵢ be the gap, the difference between ρᵢ and the largest correlation that was left out. The sum of the
    returned correlations is then smaller than the exact sum by about Σ‖ϱᵢ‖²/(2gᵢ). `linspec.families.cca.certificate`
    explains what is proved.

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

    X: Any = matrix("two views")
    Y: Any = matrix("two views")
    k: Any = count("canonical pairs", optional=True)
    ridge: Any = fields.ridge(
        each=True, help="Added to the diagonals of XᵀX and YᵀY, which are not divided by the number of rows."
    )
    center: bool = flag(True)
    scale: bool = flag(False, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)
    confounds: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "cca"
    proves_completeness: ClassVar[bool] = True
    held_out_scores: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "correlations": "linspec.families.cca.held_out:SumOfCorrelations",
            "tcc": "linspec.families.cca.held_out:TotalCaptured",
        }
    )

    def for_preprocessed(self, moments: Moments, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """The weights to start from; their lengths do not matter, so extremely large or small ones are rescaled."""
        if moments.pre.scale:
            moments.settle()
        found = {}
        for i, name in enumerate(("x_weights", "y_weights")):
            W = moments.operators[i].backend.blocks.place(arrays[name])
            W = moments.fitted[i].unscaled(W) if moments.pre.scale else W
            found[name] = W * 2.0 ** -math.frexp(largest_magnitude(W))[1]
        return found

    def for_data(self, moments: Moments, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        scaled = {}
        for i, name in enumerate(("x_weights", "y_weights")):
            W = arrays[name]
            scaled[name] = moments.fitted[i].scaled(W) if moments.fitted else W
        return {**arrays, **scaled}

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Judge `x_weights` and `y_weights`, and make the solution's fields (`linspec.families.cca.certificate`)."""
        return certify(self, moments, arrays, tol)
