"""Components of largest covariance, one after the other, by deflation of XᵀY alone.

Problem: the weights w of component a are the leading left singular vector of XₐᵀY, where Xₐ is X without its part along
the earlier scores t = Xₐ w. Nobody wants to store or to pass a deflated X.
Method: with S = XᵀX and C = XᵀY, and rotations r that give the scores of the undeflated columns, t = X r,

    r = w − R Pᵀw,   τ = rᵀS r,   p = S r / τ,   q = Cᵀr / τ,   C ← C − τ p qᵀ.

So a component needs S w, one product with X, and C, which has few columns. The coefficients of the first k components
are R Qᵀ for their columns: every number of components is in one run.
Source: Dayal & MacGregor 1997, J. Chemometrics 11:73; Wold, Sjöström &
Eriksson 2001, doi:10.1016/S0169-7439(01)00155-1 (the components, which are those of scikit-learn's PLSRegression).
Where we differ: r is made orthogonal to earlier scores twice. What rounding may have left in C is estimated, so that
components below it are not taken for data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec.arrays import Array, Device, HostArray, to_host
from linspec.cost import DENSE_RATE, FACTOR_RATE, Sizes
from linspec.linalg import EPS, leading_svd

ROUNDING = 10 * EPS
"""Rounding error of a product, relative to the norms of its factors."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Components:
    """The components so far, and what they have left of XᵀY.

    Attributes
    ----------
    C : array of shape (p, q)
        XₐᵀY.
    W, R, P : array of shape (p, a)
        Weights, rotations and loadings of X.
    V, Q : array of shape (q, a)
        Right singular vectors, which are the weights of Y, and the coefficients of Y on the scores.
    tau : numpy.ndarray of shape (a,)
        Squared lengths of the scores.
    covariances : numpy.ndarray of shape (a,)
        σ = ‖Cᵀw‖ of each component.
    lost : numpy.ndarray of shape (a + 1,)
        Estimate of the error of C by rounding, before each component and after the last.
    device : Device
    """

    C: Array
    W: Array
    R: Array
    P: Array
    V: Array
    Q: Array
    tau: HostArray
    covariances: HostArray
    lost: HostArray
    device: Device

    def cancelled(self, squares: Array) -> HostArray:
        """Return the factors by which τ = rᵀS r is less than its terms, where `squares` is the diagonal of S."""
        terms = self.device.column_sums(squares[:, None] * self.R * self.R)
        return to_host(terms) / self.tau

    @classmethod
    def none(cls, C: Array, device: Device) -> Components:
        """No component yet, for C = XᵀY."""
        p, q = C.shape
        lost = ROUNDING * float(np.linalg.norm(device.column_norms(C)))
        on_x, on_y = device.zeros((p, 0)), device.zeros((q, 0))
        return cls(
            C=C,
            W=on_x,
            R=on_x,
            P=on_x,
            V=on_y,
            Q=on_y,
            tau=np.zeros(0),
            covariances=np.zeros(0),
            lost=np.array([lost]),
            device=device,
        )

    def __len__(self) -> int:
        """The number of components."""
        return len(self.tau)

    def next_weights(self) -> tuple[Array, float]:
        """The leading left singular vector of C, orthogonal to earlier weights, of shape (p, 1), and its value."""
        U, sigma, _ = leading_svd(self.C, 1, self.device)
        w = U - self.W @ (self.W.T @ U)
        length = float(self.device.column_norms(w)[0])
        return (w / length if length > 0 else w), float(sigma[0])

    def with_weights(self, w: Array, Sw: Array) -> Components:
        """Return the components with one more, of weights w and S w = `Sw`, both of shape (p, 1).

        The component is not added if its scores, or its part of C, are zero.
        """
        device, C, r, Sr = self.device, self.C, w, Sw
        tau_there = device.asarray(self.tau)
        for _ in range(2):
            c = self.P.T @ r
            r = r - self.R @ c
            Sr = Sr - self.P @ (c * tau_there[:, None])
        tau = float(to_host(r.T @ Sr)[0, 0])
        image = C.T @ w
        sigma = float(device.column_norms(image)[0])
        if not (tau > 0 and sigma > 0):
            return self
        q = C.T @ r / tau
        removed = float(device.column_norms(Sr)[0]) * float(device.column_norms(q)[0])
        columns = {"W": w, "R": r, "P": Sr / tau, "V": image / sigma, "Q": q}
        return replace(
            self,
            C=C - Sr @ q.T,
            **{name: device.concat([getattr(self, name), column]) for name, column in columns.items()},
            tau=np.append(self.tau, tau),
            covariances=np.append(self.covariances, sigma),
            lost=np.append(self.lost, self.lost[-1] + ROUNDING * removed),
        )

    def norm(self) -> float:
        """The largest singular value of C."""
        G = to_host(self.C.T @ self.C if self.C.shape[1] <= self.C.shape[0] else self.C @ self.C.T)
        return float(np.sqrt(max(np.linalg.eigvalsh(G)[-1], 0.0)))

    def misfit(self, w: Array) -> float:
        """How far w is from the leading left singular vectors of C: ‖C Cᵀw − σ₁² w‖ / σ₁, in units of C."""
        C, first = self.C, self.norm()
        if first == 0:
            return 0.0
        return float(self.device.column_norms(C @ (C.T @ w) / first - w * first)[0])

    def arrays(self) -> dict[str, Array]:
        """The arrays, by the names of the fields of an answer."""
        return {
            "x_weights": self.W,
            "x_rotations": self.R,
            "x_loadings": self.P,
            "y_weights": self.V,
            "y_loadings": self.Q,
        }


def deflated(C: Array, product: Any, k: int, device: Device) -> Components:
    """Return up to k components; fewer if C has no more than rounding left. `product` multiplies a vector by S."""
    components = Components.none(C, device)
    while len(components) < k:
        w, sigma = components.next_weights()
        if sigma <= components.lost[-1]:
            break
        more = components.with_weights(w, product(w))
        if len(more) == len(components):
            break
        components = more
    return components


def component_seconds(sizes: Sizes) -> float:
    """Estimated seconds of the decomposition and the deflation of XᵀY for one component, and of its check."""
    side = float(min(sizes.p, sizes.q))
    return 4.0 * sizes.p * sizes.q * side / DENSE_RATE + 8.0 * side**3 / FACTOR_RATE
