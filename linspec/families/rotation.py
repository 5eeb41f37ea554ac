"""Rotations of components to simple structure: varimax, promax, and rotations to a target.

Problem: the span of k components is known, and a user wants axes in it that are easy to name: each with a few large
loadings. For the p x k loadings L find T with ΛT = LT of the largest variance of squared loadings,

    Q(T) = Σⱼ (Σᵢ λᵢⱼ⁴ − (Σᵢ λᵢⱼ²)² / p),    TᵀT = I.    (1)

Method: rotations of two columns x and y at a time, by the angle φ to the maximum of (1) in their plane. For the complex
numbers w = (x + iy)² the criterion in the plane is a constant plus Re(c exp(−4iφ)) / 4, so

    4φ = arg c,    c = Σ w² − (Σ w)² / p.    (2)

Kaiser divides the rows of L by their lengths first. Promax aims at the powers H = λ|λ|^(m−1) of varimax loadings:

    U = (ΛᵀΛ)⁻¹ΛᵀH, with columns in such units that diag((UᵀU)⁻¹) = 1: scores have variance 1.    (3)

An orthogonal rotation to a target H is the polar factor of LᵀH.
The loadings L of an SVD are V S / √(n − 1), whose scores have variance 1. Rotated scores are these times (Tᵀ)⁻¹.
Source: Kaiser 1958, Psychometrika 23:187, doi:10.1007/BF02289233 (varimax); Hendrickson & White 1964, Br. J. Stat.
Psychol. 17:65, doi:10.1111/j.2044-8317.1964.tb00244.x (promax); Schönemann 1966, Psychometrika 31:1,
doi:10.1007/BF02289451 (target); Jackson 1991, A User's Guide to Principal Components, chapter 8 (the scaling).
Where we differ: the residual is the largest angle of (2) in the last sweep over all planes, in radians. The skew part
of ΛᵀdQ/dΛ has the entries Im c, so it is 0 where the derivative of (1) is. In a plane where (1) is smallest the angle
is π/4: R's `varimax`, which iterates until the derivative is 0, may stay there. (1) may have other maxima, and no
residual tells whether they are larger. The bootstrap begins each draw at the rotation of all rows, which keeps order
and signs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from linspec.arrays import HostArray, host_dtype, reciprocal, to_host, with_device
from linspec.errors import InvalidProblem, MissingCapability
from linspec.families.svd.problem import SVDSolution
from linspec.linalg import ratio
from linspec.solving.checks import check_choice, check_flag, finite_block
from linspec.studies.inference.bootstrap import nearest_rotation

TOL, SWEEPS, FLAT = 1e-10, 500, 1e-14
"""The residual of a rotation that has converged, the most sweeps, and the share of (1) that is rounding in a plane."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Rotation:
    """Rotated loadings, and scores of rows that belong to them.

    Attributes
    ----------
    loadings : numpy.ndarray of shape (p, k)
        L T.
    rotation : numpy.ndarray of shape (k, k)
        T.
    correlations : numpy.ndarray of shape (k, k)
        Those of rotated scores, (TᵀT)⁻¹; the identity if T is orthogonal.
    explained_variance : numpy.ndarray of shape (k,)
        What each component adds to the variance that all explain together, which no rotation changes: without
        correlations the sum of its squared loadings.
    residual : float
        The largest angle, in radians, by which a rotation of two components would still increase the criterion of
        varimax. Of a rotation to a target, the relative residual of the equations of a stationary point.
    converged : bool
        Whether the residual is at most 1e-10.
    answer, settings
        The arguments of `linspec.rotate`.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.kron(np.eye(2), np.ones((20, 3))) + np.random.default_rng(0).standard_normal((40, 6)) / 9
    >>> rotated = ls.rotate(ls.solve(ls.SVD(A, k=2, center=True)), "promax")
    >>> rotated.transform(A).shape, rotated.converged
    ((40, 2), True)
    """

    loadings: HostArray = field(repr=False)
    rotation: HostArray
    correlations: HostArray
    explained_variance: HostArray
    residual: float
    converged: bool
    answer: Any = field(repr=False)
    settings: dict[str, Any] = field(repr=False)

    def _turned(self, power: int, turn: HostArray) -> Any:
        """The answer with VD^power times a matrix in the place of its weights V, for the deviations D of scores."""
        if not isinstance(self.answer, SVDSolution):
            raise MissingCapability("loadings alone have no rows and names. Rotate an answer of linspec.SVD.")
        turn = turn.T * _deviations(self.answer, self.answer.S) ** power
        placed = self.answer.device.asarray(turn, host_dtype(self.answer.Vh))
        return replace(self.answer, Vh=placed @ self.answer.Vh)

    @property
    def loaded(self) -> Any:
        """The answer with rotated loadings in the place of weights, for tables."""
        return self._turned(1, self.rotation)

    def loadings_table(self, **library: Any) -> Any:
        """Make a table of rotated loadings with the names of the columns; see `Solution.weights_table`."""
        return self.loaded.weights_table(**library)

    def transform(self, A: Any, **confounds: Any) -> Any:
        """Compute the rotated scores of rows; see `LinearSolution.transform`."""
        return self._turned(-1, self.rotation @ self.correlations).transform(A, **confounds)

    def turns(self, draws: Any) -> HostArray:
        """The matrices that turn the weights of each draw of a bootstrap to rotated loadings.

        Each begins at the rotation of all rows.
        """
        starts = _deviations(self.answer, np.array(draws.crossings)) @ nearest_rotation(self.rotation)
        loadings = np.array(draws.sides[0].blocks["A"]) @ starts
        return starts @ np.array([rotate(L, **self.settings).rotation for L in loadings])


@with_device
def rotate(answer: Any, method: Any = "varimax", *, normalize: bool = True) -> Rotation:
    """Rotate principal components, or other loadings, to simple structure or to a target.

    Parameters
    ----------
    answer : SVDSolution, or array of shape (p, k)
        The loadings of an SVD are L = V S / √(n − 1), and its scores have variance 1: standardised components. An array
        has loadings of other kinds, such as weights or structure correlations of a CCA, those of both views one below
        the other.
    method : {"varimax", "promax"} or array of shape (p, k), default "varimax"
        Varimax is an orthogonal rotation. Scores of promax, with the power 4, are correlated. An array is a target,
        which the rotated loadings are brought close to by an orthogonal rotation.
    normalize : bool, default True
        Whether varimax, also that of promax, divides the rows of L by their lengths (Kaiser).

    Returns
    -------
    Rotation
        With loadings, explained variance, and `transform`. ``linspec.bootstrap(problem, solution=rotation)`` computes
        intervals of the rotated loadings.

    Raises
    ------
    InvalidProblem
        The loadings or the target are no finite matrix, or their shapes differ; or loadings for promax depend on each
        other.
    InvalidOption
        There is no such method.

    Notes
    -----
    Components have the order and the signs to which the rotation leads from those of the answer, as in R.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.kron(np.eye(2), np.ones((20, 3))) + np.random.default_rng(0).standard_normal((40, 6)) / 9
    >>> rotated = ls.rotate(ls.solve(ls.SVD(A, k=2)))
    >>> np.abs(rotated.loadings).round(1)
    array([[0.7, 0. ],
           [0.7, 0. ],
           [0.7, 0. ],
           [0. , 0.7],
           [0. , 0.7],
           [0. , 0.7]])
    """
    check_flag("normalize", normalize)
    components = isinstance(answer, SVDSolution)
    L = to_host(
        answer.Vh.T
        if components
        else finite_block(answer, "loadings (an array, or an answer of linspec.SVD)")
    )
    L = L * (_deviations(answer, answer.S) if components else [1.0])
    if isinstance(method, str):
        check_choice("method", method, ("varimax", "promax"))
        T, residual = _varimax(L, normalize)
        if method == "promax":
            Z = L @ T
            sizes = reciprocal(np.abs(Z).max(axis=0))
            Z = Z * sizes
            U, _, rank, _ = np.linalg.lstsq(Z, Z * np.abs(Z) ** 3)  # (3)
            if rank < len(T):
                raise InvalidProblem(
                    f"promax needs loadings that do not depend on each other; got rank {rank} of {len(T)} components. "
                    "Ask for fewer, or for varimax."
                )
            U = sizes[:, None] * U
            T = T @ U * np.linalg.norm(np.linalg.inv(U), axis=1)
    else:
        H = to_host(finite_block(method, "the target"))
        if H.shape != L.shape:
            raise InvalidProblem(f"the target must have the shape of the loadings, {L.shape}; got {H.shape}.")
        T = nearest_rotation(L.T @ H)
        M = T.T @ L.T @ H
        residual = ratio(abs(M - M.T).max(), M.trace())
    Z = L @ T
    back = np.linalg.inv(T)
    correlations = back @ back.T
    return Rotation(
        loadings=Z,
        rotation=T,
        correlations=correlations,
        explained_variance=np.diag(correlations @ Z.T @ Z),
        residual=residual,
        converged=residual <= TOL,
        answer=answer,
        settings={"method": method, "normalize": normalize},
    )


def _deviations(answer: SVDSolution, values: HostArray) -> HostArray:
    """Standard deviations from singular values; without centring the roots of mean squares."""
    return values / np.sqrt(max(answer.rows - (answer.mean is not None), 1))


def _varimax(L: HostArray, normalize: bool) -> tuple[HostArray, float]:
    """The rotation of varimax, and the largest angle of the last sweep."""
    lengths = np.hypot.reduce(L, axis=1 if normalize else None, keepdims=True)
    both = np.hstack([(L * reciprocal(lengths)).T, np.eye(L.shape[1])])  # columns lie in memory one by one
    for _ in range(SWEEPS):
        residual = 0.0
        for i, j in combinations(range(L.shape[1]), 2):
            z = both[i] + 1j * both[j]
            w = z[: len(L)] ** 2
            c = w @ (w - np.mean(w))
            angle = np.angle(c) / 4 * (abs(c) > FLAT * np.linalg.norm(w) ** 2)  # (2)
            z *= np.exp(-1j * angle)
            both[i] = z.real
            both[j] = z.imag
            residual = max(residual, float(abs(angle)))
        if residual <= TOL:
            break
    return both[:, len(L) :].T, residual
