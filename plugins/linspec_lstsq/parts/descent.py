"""Gradient descent with exact line search as a kernel (Lu 2015, Algorithms 3 and 13)."""

from __future__ import annotations

from dataclasses import dataclass

from linspec.arrays import Array
from linspec_lstsq.parts.normal_equations import Kernel, Point, System


@dataclass(kw_only=True, eq=False)
class Descent(Point):
    """The iterates x of all columns, and their gradients w, along which the next step goes."""

    X: Array
    W: Array

    @property
    def V(self) -> Array:
        """The gradients."""
        return self.W

    @property
    def x(self) -> Array:
        """The iterates."""
        return self.X

    @property
    def gradient(self) -> Array:
        """The gradients."""
        return self.W


def descent(system: System) -> Kernel:
    """Kernel of steepest descent."""
    home, xp, (x, w) = system.home, system.home.xp, system.at_start
    # A gradient of only rounding has parts in the null space of M, and a step along them is unbounded.
    floor = xp.sum((system.AtB * system.noise) ** 2, axis=0)
    while True:
        AtAw = yield Descent(home=home, X=x, W=w)
        Mw = AtAw + w * system.ridge
        ww, wMw = xp.sum(w * w, axis=0), xp.sum(w * Mw, axis=0)
        safe = (wMw > 0) & (ww > floor)
        s = xp.where(safe, ww / xp.where(safe, wMw, xp.ones_like(wMw)), xp.zeros_like(wMw))  # s = wᵀw / wᵀMw
        x = x + w * s  # x ← x + s w
        w = w - Mw * s  # w ← w − s Mw
