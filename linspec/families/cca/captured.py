"""The correlation captured by given weights, in total (`tcc`), relative to a reference (`pcc`), and pair by pair."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from linspec.algebra.small_matrices import EPS, canonical_rotation, whitening
from linspec.arrays import Array, HostArray, host_dtype, to_host
from linspec.errors import InvalidProblem
from linspec.families.cca.problem import CCA
from linspec.families.cca.solution import CCASolution
from linspec.families.cca.variates import cosines
from linspec.moments.moments import Moments
from linspec.operators import as_operator
from linspec.solving.adjusting import adjusted
from linspec.solving.checks import finite_array, finite_block

__all__ = ["correlations", "pcc", "tcc"]


def tcc(X: Any, Y: Any, x_weights: Any, y_weights: Any, *, ridge: Any = 0.0, center: Any = False) -> float:
    """Compute the total correlation captured: the sum of the canonical correlations of XΦ and YΨ.

    Let Sx = XᵀX + rx·I, Sy = YᵀY + ry·I and C = XᵀY. The score is the sum of the singular values of
    (ΦᵀSxΦ)^(-1/2) ΦᵀCΨ (ΨᵀSyΨ)^(-1/2). This is the largest sum of the correlations of column i of XΦA with column i
    of YΨB, over all matrices A and B for which ΦA is orthonormal in Sx and ΨB is orthonormal in Sy. The score is
    between 0 and k.

    Parameters
    ----------
    X : data of shape (n, p), or Moments
        Anything `linspec.as_operator` accepts. Moments of two views replace both of them; Y is then None.
    Y : data of shape (n, q)
    x_weights, y_weights : array of shape (p, k), (q, k)
        Φ and Ψ; a one-dimensional array is one column. Linearly dependent columns add nothing.
    ridge : float or pair of floats, default 0.0
        The ridges rx and ry of the score. With 0, the score is a sum of ordinary correlations. The exact solution of
        a CCA with ridges (rx, ry) has the largest score with these ridges; with other ridges, other weights may
        have a larger score.
    center : bool or pair of arrays, default False
        Whether to subtract the column means. A pair of arrays is subtracted instead of the means of these rows: score
        new rows with ``center=(solution.x_mean, solution.y_mean)``.

    Returns
    -------
    float

    Raises
    ------
    InvalidProblem
        If shapes do not fit or a ridge is negative.
    NonFiniteData
        If the weights or the data contain NaN or infinity.

    Notes
    -----
    The score takes one sweep over the data, and one more if ``center=True`` and the means are still unknown.

    Directions that are only rounding add nothing to the score. To find them, the columns of XΦ (and of YΨ) are scaled
    to length 1, where lengths are measured by Sx (by Sy). A combination of the scaled columns with a unit vector of
    coefficients is neglected if its squared length is at most k·u times the largest such squared length. u is
    1.2e-7 for float32 data and 2.2e-16 for float64 data, but 1.4e-14 for float64 data with float32 weights.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((200, 6)), rng.standard_normal((200, 5))
    >>> Y[:, 0] += X[:, 0]
    >>> found = ls.solve(ls.CCA(X, Y, k=2, center=False))
    >>> total = ls.metrics.tcc(X, Y, found.x_weights, found.y_weights)
    >>> bool(np.isclose(total, found.correlations.sum()))
    True
    """
    problem = _problem(X, Y, ridge, center)
    pair = _weights(problem, x_weights, y_weights, ("x_weights", "y_weights"))
    return float(_Swept(problem, [pair]).canonical(0).sum())


def pcc(
    X: Any,
    Y: Any,
    x_weights: Any,
    y_weights: Any,
    reference: Any,
    *,
    ridge: Any = 0.0,
    center: Any = False,
) -> float:
    """Compute the proportion of correlation captured: `tcc` divided by `tcc` of reference weights on the same rows.

    Parameters
    ----------
    X, Y, x_weights, y_weights, ridge, center
        As for `tcc`.
    reference : CCASolution or pair of arrays
        Usually the exact solution of CCA(X, Y), or its weights of shapes (p, k') and (q, k').

    Returns
    -------
    float
        1 if the weights capture as much as the reference. More than 1 is possible if the reference does not maximise
        this score: on other rows, or with another ridge than that of its problem.

    Raises
    ------
    InvalidProblem
        As for `tcc`; also if `tcc` of the reference is 0 on these rows.
    NonFiniteData
        As for `tcc`.

    Notes
    -----
    Both scores come from the same sweep.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((200, 6)), rng.standard_normal((200, 5))
    >>> Y[:, 0] += X[:, 0]
    >>> found = ls.solve(ls.CCA(X, Y, k=2, center=False))
    >>> exact = found.x_weights, found.y_weights
    >>> round(ls.metrics.pcc(X, Y, *exact, exact), 6)
    1.0
    """
    if isinstance(reference, CCASolution):
        reference = (reference.x_weights, reference.y_weights)
    if not isinstance(reference, tuple | list) or len(reference) != 2:
        raise InvalidProblem(
            "reference must be a CCASolution or a pair (x_weights, y_weights); got "
            f"{type(reference).__name__}."
        )
    problem = _problem(X, Y, ridge, center)
    swept = _Swept(
        problem,
        [
            _weights(problem, x_weights, y_weights, ("x_weights", "y_weights")),
            _weights(problem, reference[0], reference[1], ("reference x_weights", "reference y_weights")),
        ],
    )
    captured, best = (float(swept.canonical(which).sum()) for which in (0, 1))
    if best == 0:
        raise InvalidProblem(
            "the reference captures no correlation on these rows, so a proportion of it is not defined. Pass "
            "the weights of a solver that finds some."
        )
    return captured / best


def correlations(
    X: Any, Y: Any, x_weights: Any, y_weights: Any, *, ridge: Any = 0.0, center: Any = False
) -> HostArray:
    """Compute the correlation of each pair of columns, φᵢᵀCψᵢ / √(φᵢᵀSxφᵢ · ψᵢᵀSyψᵢ), without rotation.

    Unlike `tcc` it depends on the rotation of the columns, so it measures each component by itself.

    Parameters
    ----------
    X, Y, x_weights, y_weights, ridge, center
        As for `tcc`.

    Returns
    -------
    numpy.ndarray of shape (k,)
        In the order of the columns, between -1 and 1; 0 if a column of XΦ or YΨ is zero.

    Raises
    ------
    InvalidProblem, NonFiniteData
        As for `tcc`.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((200, 6)), rng.standard_normal((200, 5))
    >>> Y[:, 0] += X[:, 0]
    >>> found = ls.solve(ls.CCA(X, Y, k=2, center=False))
    >>> held = ls.metrics.correlations(X, Y, found.x_weights, found.y_weights)
    >>> bool(np.allclose(held, found.correlations))
    True
    """
    problem = _problem(X, Y, ridge, center)
    pair = _weights(problem, x_weights, y_weights, ("x_weights", "y_weights"))
    return _Swept(problem, [pair]).componentwise()


class _Swept:
    """Products of the weights of several pairs (Φ, Ψ) with the matrices Sx, Sy and C of a problem, from one sweep.

    `arrays` holds Φ, SxΦ, Ψ, SyΨ and CΨ. In each of them, the columns of all pairs are side by side. `slices` holds the
    range of the columns of each pair.
    """

    def __init__(self, problem: CCA, pairs: list[tuple[Array, Array]]) -> None:
        widths = [phi.shape[1] for phi, _ in pairs]
        moments = problem.moments("implicit", (1, sum(widths)))
        self.home = moments.home
        phi, psi = (self.home.concat([self.home.place(pair[side]) for pair in pairs]) for side in (0, 1))
        Sphi, Cpsi, _, Spsi = moments.products(phi, psi)
        rx, ry = problem.ridge
        self.arrays = (phi, Sphi + phi * rx, psi, Spsi + psi * ry, Cpsi)
        edges = np.cumsum([0, *widths]).tolist()
        self.slices = [slice(a, b) for a, b in pairwise(edges)]
        # Products with float32 rows have float32 accuracy; the rounding of weights is squared in squared lengths.
        rounded = max(float(np.finfo(host_dtype(W)).eps) for pair in pairs for W in pair)
        self.cut = max(EPS, rounded**2, float(np.finfo(problem.dtype).eps))

    def canonical(self, which: int) -> HostArray:
        """Canonical correlations of XΦ and YΨ for the pair of blocks with this index."""
        cut = self.cut
        phi, Sphi, psi, Spsi, Cpsi = (V[:, self.slices[which]] for V in self.arrays)
        Tx, Ty = (self.home.place(whitening(to_host(V.T @ SV), cut)) for V, SV in ((phi, Sphi), (psi, Spsi)))
        phi, Sphi, psi, Spsi, Cpsi = phi @ Tx, Sphi @ Tx, psi @ Ty, Spsi @ Ty, Cpsi @ Ty
        if 0 in (phi.shape[1], psi.shape[1]):
            return np.zeros(0)
        Gx, C, Gy = (to_host(G) for G in (phi.T @ Sphi, phi.T @ Cpsi, psi.T @ Spsi))
        return canonical_rotation(Gx, C, Gy, min(C.shape))[1]

    def componentwise(self) -> HostArray:
        """Correlations of each column of XΦ with the same column of YΨ, in one array for the columns of all pairs."""
        xp = self.home.xp
        phi, Sphi, psi, Spsi, Cpsi = self.arrays
        sums = [xp.sum(A * B, axis=0) for A, B in ((phi, Sphi), (psi, Spsi), (phi, Cpsi))]
        xx, yy, xy = to_host(xp.stack(sums))
        return cosines(xx, yy, xy)


def _problem(X: Any, Y: Any, ridge: Any, center: Any) -> CCA:
    """Make the CCA with k = 1 whose products with Sx, Sy and C give the scores.

    If `center` is a pair of arrays, they are subtracted from the columns of X and Y in place of the means of these
    rows. `CCA` checks shapes, devices and the ridge; this function checks the pair.
    """
    if not isinstance(center, tuple | list):
        made: CCA = adjusted(CCA(X, Y, k=1, ridge=ridge, center=bool(center)))
        return made
    if isinstance(X, Moments) or len(center) != 2:
        raise InvalidProblem(
            "center must be True, False or, for data that are not Moments, a pair (x_mean, y_mean); got "
            f"{len(center)} arrays for {type(X).__name__}."
        )
    views = []
    for name, data, mean in zip("XY", (X, Y), center, strict=True):
        A = as_operator(data, name)
        mean = finite_array(mean, f"the mean of {name}")
        if tuple(mean.shape) != (A.shape[1],):
            raise InvalidProblem(
                f"the mean of {name} must have shape ({A.shape[1]},); got {tuple(mean.shape)}."
            )
        views.append(A.centered(A.home.blocks.place(mean)).with_names_of(A))
    return CCA(views[0], views[1], k=1, ridge=ridge, center=False)


def _weights(problem: CCA, phi: Any, psi: Any, names: tuple[str, str]) -> tuple[Array, Array]:
    """Check that both blocks of weights fit the data and each other; return them as two-dimensional arrays."""
    phi, psi = finite_block(phi, names[0]), finite_block(psi, names[1])
    for W, A, name, view in zip((phi, psi), (problem.X, problem.Y), names, "XY", strict=True):
        if W.shape[0] != A.shape[1]:
            raise InvalidProblem(
                f"{name} must have a row for each of the {A.shape[1]} columns of {view}; got shape "
                f"{tuple(W.shape)}."
            )
    if phi.shape[1] != psi.shape[1]:
        raise InvalidProblem(
            f"{names[0]} and {names[1]} must have equally many columns; got {phi.shape[1]} and "
            f"{psi.shape[1]}. Pass equally many of both."
        )
    return phi, psi
