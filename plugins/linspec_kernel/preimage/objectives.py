"""Objectives of two variates: their correlation, or their dependence (HSIC).

Problem: the value of two variates (columns with n rows), and its derivative by each of them; many pairs at once.
Method: the correlation is the cosine of the variates. HSIC, the Hilbert-Schmidt independence criterion, is
‖ΦᵀHΨ‖²_F/(n − 1)² for features Φ and Ψ of Gaussian kernels exp(−(s − t)²/2), where s and t are variates over their root
mean square. The features are √(2hφ(jh)) (cos jhs, sin jhs), j = 1, 2, …, with the normal density φ: by the trapezoid
rule their inner products are the Gaussian kernel, less a constant that H removes, up to exp(−(2π/h − d)²/2) at the
distance d. With 28 frequencies that is below 1e-7 for variates that differ by 25 standard deviations; 8 frequencies
leave errors of some thousandths. It takes O(n) operations, where a kernel matrix takes O(n²).
Source: Gretton, Bousquet, Smola & Schölkopf 2005, ALT, doi:10.1007/11564089_7; the trapezoid rule, Trefethen &
Weideman 2014, SIAM Rev. 56(3), doi:10.1137/130932132.
Where we differ: variates are divided by their own root mean square, and not by a median of distances, which would take
O(n²); the derivative goes through that division.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from linspec.arrays import HOST, Array, Device, HostArray, reciprocal, to_host
from linspec.rows import equal_slices

FEATURES, ROUGH_FEATURES = 56, 8
"""Numbers of features of a variate, two for each frequency: to compute values, and (fewer) to rank many pairs."""

REACH = 5.6
"""Last frequency, where the normal density is 1e-7 of its peak. With 28 frequencies the step is 0.2."""

APART = 8.0
"""Distance of two values, in standard deviations, for which `quadrature` balances its two errors: those of a finite
step, and of no frequencies beyond the last."""

ROWS, DEVICE_ROWS = 512, 1 << 18
"""Number of rows whose features are computed at once: on the host the features of these rows stay in the cache."""


Rule = tuple[float, int]
"""The step and the number of frequencies of a quadrature."""


class Objective:
    """The correlation of two variates; base class of functions of two variates that do not depend on their lengths.

    A derived class computes them for variates of root mean square 1.

    Attributes
    ----------
    name : str
        Name of the objective, as `PreimageCCA` takes it.
    width : int
        Columns that `of_all` computes from each variate.
    """

    name: ClassVar[str] = "correlation"
    width: ClassVar[int] = 1

    def of_all(self, P: Array, Q: Array, device: Device) -> HostArray:
        """Objective for all pairs of columns of P and Q, possibly approximate; used to rank pairs.

        Parameters
        ----------
        P, Q : array of shape (n, a), (n, b)

        Returns
        -------
        numpy.ndarray of shape (a, b)
        """
        return self._of_all(_scaled(P, device)[0], _scaled(Q, device)[0], device)

    def values(self, P: Array, Q: Array, device: Device) -> HostArray:
        """Objective for column j of P and column j of Q, for every j.

        Parameters
        ----------
        P, Q : array of shape (n, m)
            Variates, centred where the problem centres; columns may be zero.
        device : Device

        Returns
        -------
        numpy.ndarray of shape (m,)
            0 for columns of zeros.
        """
        return self._values(_scaled(P, device)[0], _scaled(Q, device)[0], device)

    def slopes(self, P: Array, Q: Array, device: Device) -> tuple[Array, Array]:
        """Derivatives of the values with respect to the variates.

        Parameters
        ----------
        P, Q : array of shape (n, m)

        Returns
        -------
        pair of arrays of shape (n, m)
            Zero for columns of zeros.
        """
        scaled = (_scaled(P, device), _scaled(Q, device))
        n = max(P.shape[0], 1)
        slopes = self._slopes(scaled[0][0], scaled[1][0], device)
        x, y = (
            (S - Z * (device.xp.sum(S * Z, axis=0) / n)) * inverse
            for S, (Z, inverse) in zip(slopes, scaled, strict=True)
        )
        return x, y

    def _of_all(self, Z: Array, W: Array, device: Device) -> HostArray:
        """`of_all` for variates of root mean square 1."""
        return to_host(Z.T @ W) / max(int(Z.shape[0]), 1)

    def _values(self, Z: Array, W: Array, device: Device) -> HostArray:
        """`values` for variates of root mean square 1."""
        cosines: HostArray = to_host(device.xp.sum(Z * W, axis=0)) / max(Z.shape[0], 1)
        return np.clip(cosines, -1.0, 1.0)

    def _slopes(self, Z: Array, W: Array, device: Device) -> tuple[Array, Array]:
        """Derivatives of these with respect to the variates of root mean square 1."""
        n = max(Z.shape[0], 1)
        return W / n, Z / n


class HSIC(Objective):
    """The Hilbert-Schmidt independence criterion of two variates, with Gaussian kernels of unit width.

    Parameters
    ----------
    features : int, default 56
        Features of each variate, an even number.
    """

    name: ClassVar[str] = "hsic"
    width: ClassVar[int] = ROUGH_FEATURES

    def __init__(self, features: int = FEATURES) -> None:
        self.rule = quadrature(features)

    def _of_all(self, Z: Array, W: Array, device: Device) -> HostArray:
        M = _covariances(Z, W, device, quadrature(ROUGH_FEATURES))[0]
        blocks = M.reshape(Z.shape[1], self.width, W.shape[1], self.width)
        sums: HostArray = np.sum(blocks**2, axis=(1, 3))
        return sums / max(int(Z.shape[0]) - 1, 1) ** 2

    def _values(self, Z: Array, W: Array, device: Device) -> HostArray:
        sums = [np.sum(_covariances(*pair, device, self.rule)[0] ** 2) for pair in _pairs(Z, W)]
        return np.asarray(sums, dtype=np.float64) / max(int(Z.shape[0]) - 1, 1) ** 2

    def _slopes(self, Z: Array, W: Array, device: Device) -> tuple[Array, Array]:
        slopes = [self._slope(*pair, device) for pair in _pairs(Z, W)]
        unit = 1.0 / max(Z.shape[0] - 1, 1) ** 2
        x, y = (device.concat(list(columns)) * unit for columns in zip(*slopes, strict=True))
        return x, y

    def _slope(self, z: Array, w: Array, device: Device) -> tuple[Array, Array]:
        """Derivatives of the sum of squared covariances of features of two variates, each n x 1."""
        (M, weights, means), m = _covariances(z, w, device, self.rule), self.rule[1]
        # The derivative of the wave cos jhz is −jh sin jhz, that of sin jhz is jh cos jhz; C has their factors.
        C = M * weights * weights[:, None]
        tall = np.tile(_roots(self.rule)[0], 2)[:, None]
        factors, slopes = [], ([], [])  # type: ignore[var-annotated]
        for by, mean in ((tall * C, means[1]), (tall * C.T, means[0])):
            factors.append((device.asarray(by), device.asarray((by @ mean)[:, None])))
        for E, G in _features(z, w, device, self.rule):
            for into, features, opposite, (by, shift) in zip(slopes, (E, G), (G, E), factors, strict=True):
                T = by @ opposite - shift
                into.append(
                    2 * device.xp.sum(features[:m, :] * T[m:, :] - features[m:, :] * T[:m, :], axis=0)
                )
        x, y = (device.xp.concat(parts, axis=0)[:, None] for parts in slopes)
        return x, y


def quadrature(features: int) -> Rule:
    """Return the step h and the number of frequencies.

    The last frequency is REACH, or the lower one for which the two errors that `APART` describes are equal.
    """
    count = features // 2
    # 2π/h − APART = count · h
    meeting = (math.sqrt(APART**2 + 8 * math.pi * count) - APART) / (2 * count)
    return min(REACH / count, meeting), count


OBJECTIVES: dict[str, Objective] = {objective.name: objective for objective in (Objective(), HSIC())}
"""The objectives by name."""


def _covariances(
    Z: Array, W: Array, device: Device, rule: Rule
) -> tuple[HostArray, HostArray, tuple[HostArray, HostArray]]:
    """Covariances of all features of n x a and n x b variates, times n, computed from blocks of rows.

    The D features of a variate are weighted waves: D/2 cosines and D/2 sines. The covariances have the shape
    (a D, b D). The weights of the D waves, and the means of the waves of X and of Y, follow.
    """
    n, xp = Z.shape[0], device.xp
    D = 2 * rule[1]
    a = D * Z.shape[1]
    b = D * W.shape[1]
    products = device.zeros((a, b))
    sums = (device.zeros((a,)), device.zeros((b,)))
    for E, G in _features(Z, W, device, rule):
        products = products + E @ G.T
        sums = (sums[0] + xp.sum(E, axis=1), sums[1] + xp.sum(G, axis=1))
    x, y = (HOST.asarray(total) for total in sums)
    M = HOST.asarray(products) - np.outer(x, y) / n
    weights = np.tile(_roots(rule)[1], 2)
    M *= np.outer(np.tile(weights, Z.shape[1]), np.tile(weights, W.shape[1]))
    return M, weights, (x / n, y / n)


def _waves(Z: Array, device: Device, rule: Rule) -> Array:
    """Cosines and sines of jhz, j = 1, 2, …, as rows, variate after variate, by addition theorems."""
    (step, count), xp, waves = rule, device.xp, []
    for j in range(Z.shape[1]):
        cos = xp.cos(step * Z[:, j])[None, :]
        sin = xp.sin(step * Z[:, j])[None, :]
        while (known := cos.shape[0]) < count:
            more = min(known, count - known)
            C = cos[-1:, :]
            S = sin[-1:, :]
            c = cos[:more, :]
            s = sin[:more, :]
            cos = xp.concat([cos, c * C - s * S], axis=0)
            sin = xp.concat([sin, s * C + c * S], axis=0)
        waves += [cos, sin]
    return xp.concat(waves, axis=0)


def _features(Z: Array, W: Array, device: Device, rule: Rule) -> Iterator[tuple[Array, Array]]:
    """Waves of both views, for some rows at a time."""
    for rows in equal_slices(Z.shape[0], ROWS if device.on_host else DEVICE_ROWS):
        yield _waves(Z[rows, :], device, rule), _waves(W[rows, :], device, rule)


def _pairs(Z: Array, W: Array) -> list[tuple[Array, Array]]:
    """Columns with the same number."""
    return [(Z[:, j : j + 1], W[:, j : j + 1]) for j in range(Z.shape[1])]


def _roots(rule: Rule) -> tuple[HostArray, HostArray]:
    """Frequencies jh, and the square roots √(2hφ(jh)) of their weights."""
    step, count = rule
    w = step * np.arange(1, count + 1)
    return w, np.sqrt(2 * step * np.exp(-(w**2) / 2) / math.sqrt(2 * math.pi))


def _scaled(V: Array, device: Device) -> tuple[Array, Array]:
    """Columns over their root mean squares, and the inverses of these; zero if one is zero or has no inverse."""
    inverse = device.asarray(reciprocal(device.column_norms(V) / math.sqrt(max(V.shape[0], 1))))
    return V * inverse, inverse
