"""gradKCCA as its authors have it, for one pair and the linear or the quadratic kernel, for comparison.

Problem: points u and v with |u|₁ ≤ 1 and |v|₁ ≤ 1 that maximise the correlation of k(X, u) and k(Y, v).
Method: from eight random points with entries from 0 to 1, one after the other, u moves and then v. A step has the
length of the gradient, halved until the correlation gains 1e-4 of itself, and is projected onto the ball. A start ends
when a turn changes the correlation by less than 1e-8 of the sum of both values. The best start is returned.
Source: Uurtio, Bhadra & Rousu 2019, ICML, PMLR 97, Algorithm 1, with the line search of the authors' program.
Where we differ: the functions of both views are centred in the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

STARTS = 8

GAIN, CHANGE, SHORTEST = 1e-4, 1e-8, 1e-13
"""The share of the value that a step must gain, the last relative change, and the least step."""

MOST_TURNS = 10_000
"""Limit of the turns of all starts together."""


@dataclass(frozen=True)
class Point:
    """A point of one view, the products of the rows with it, and its centred function over the function's length."""

    u: np.ndarray
    products: np.ndarray
    unit: np.ndarray
    length: float


class View:
    """Rows, and the degree of the kernel ⟨x, u⟩ᵈ.

    Attributes
    ----------
    sweeps : int
        Products with the rows or their transpose so far.
    """

    def __init__(self, rows: np.ndarray, degree: int) -> None:
        self.rows, self.degree, self.sweeps = rows, degree, 0

    def at(self, u: np.ndarray) -> Point:
        """The function of a point."""
        self.sweeps += 1
        products = self.rows @ u
        values = products**self.degree
        values = values - values.mean()
        length = float(np.linalg.norm(values))
        return Point(u, products, values / length if length > 0 else values, length)

    def gradient(self, point: Point, other: np.ndarray, rho: float) -> np.ndarray:
        """The gradient of the correlation with another function, in the point."""
        self.sweeps += 1
        if point.length == 0:
            return np.zeros_like(point.u)
        slope = (other - rho * point.unit) / point.length
        return self.rows.T @ (slope * self.degree * point.products ** (self.degree - 1))


def onto_ball(u: np.ndarray) -> np.ndarray:
    """The nearest point with |u|₁ ≤ 1."""
    sizes = np.sort(np.abs(u))[::-1]
    sums = np.cumsum(sizes) - 1.0
    if sums[-1] <= 0:
        return u
    kept = np.flatnonzero(sizes * np.arange(1, len(u) + 1) > sums)[-1]
    return np.sign(u) * np.maximum(np.abs(u) - sums[kept] / (kept + 1), 0.0)


def moved(view: View, point: Point, other: np.ndarray, rho: float) -> tuple[Point, float]:
    """The point a step further, and the correlation there, if a step gains enough; otherwise as before."""
    gradient = view.gradient(point, other, rho)
    step = float(np.linalg.norm(gradient))
    while step >= SHORTEST:
        tried = view.at(onto_ball(point.u + step * gradient))
        value = float(tried.unit @ other)
        if value > rho + GAIN * abs(rho):
            return tried, value
        step /= 2
    return point, rho


def published(
    X: np.ndarray, Y: np.ndarray, degree: int, seed: int
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Points u and v, their correlation, and how often the view that was read more often was read."""
    rng = np.random.default_rng(seed)
    views = View(X, degree), View(Y, degree)
    starts = [rng.uniform(0.0, 1.0, (A.shape[1], STARTS)) for A in (X, Y)]
    best: tuple[float, np.ndarray, np.ndarray] | None = None
    turns = 0
    for r in range(STARTS):
        x, y = (view.at(onto_ball(U[:, r])) for view, U in zip(views, starts, strict=True))
        rho, change = float(x.unit @ y.unit), 1.0
        while change > CHANGE and turns < MOST_TURNS:
            before, turns = rho, turns + 1
            x, rho = moved(views[0], x, y.unit, rho)
            y, rho = moved(views[1], y, x.unit, rho)
            total = abs(rho + before)
            change = abs(rho - before) / total if total > 0 else 0.0
        if best is None or rho > best[0]:
            best = rho, x.u, y.u
    assert best is not None
    return best[1], best[2], best[0], float(max(view.sweeps for view in views))


def correlation_of_others(
    train: list[np.ndarray], test: list[np.ndarray], points: tuple[np.ndarray, np.ndarray], degree: int
) -> float:
    """Correlation of the functions of two points at other rows, about their means at the training rows."""
    x, y = (
        (B @ u) ** degree - ((A @ u) ** degree).mean() for A, B, u in zip(train, test, points, strict=True)
    )
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))
