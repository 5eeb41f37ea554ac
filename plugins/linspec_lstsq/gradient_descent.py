"""Gradient descent with exact line search.

Problem: min ‖A x − B‖² + r ‖x‖².
Method: with w = AᵀB − Mx, M = AᵀA + rI, and separately for every column

    s = wᵀw / wᵀMw                  (1)
    x ← x + s w                     (2)
    w ← w − s Mw                    (3)

Each step multiplies the gap of the objective by at most ((d₁² − d_p²) / (d₁² + d_p² + 2r))², where d₁ and d_p are the
largest and smallest singular values of A (Kantorovich).
Source: Lu 2015, Fast linear algorithms for machine learning (thesis), Algorithms 3 and 13.
Where we differ: (3) saves the product of a gradient that is computed. Rounding makes it drift; where the certificate
has computed a larger residual, the iteration begins again at its iterate (`linspec.iteration.solved_by_ridge`). A
column stops when its gradient is rounding. All ridges of a path share each pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import linspec as ls
from linspec import form_option
from linspec.arrays import Array, Device
from linspec.iteration import Context, Iterate
from linspec.linalg import EPS, Step, Steps
from linspec.rows import Moments
from linspec_lstsq.normal_system import EXPECTED, Begin, ByProducts


@dataclass(frozen=True, kw_only=True)
class GradientDescent(ByProducts):
    """Gradient descent with exact line search (Lu 2015, Algorithms 3 and 13)."""

    form: str = form_option()

    def iterate(
        self, problem: ls.LeastSquares, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield the iterates of all ridges."""
        moments.expect(EXPECTED, problem.width, self.form)
        device = moments.device
        (AtB, _) = moments.products(None, device.eye(problem.B.shape[1]))[1]
        yield from self.solved(problem, moments, context, start, AtB, self.prepared(moments, 0, 0.0, context))

    def prepared(self, moments: Moments, i: int, ridge: float, context: Context) -> Begin:
        """Steps of gradient descent."""
        return lambda ridge, G: gd_steps(G, ridge)


def gd_steps(G: Array, ridge: float = 0.0) -> Steps:
    """Steps for M x = G with M = S + r I, from products with S: (1), (2), (3)."""
    device, x, w = Device.of(G), 0.0 * G, G
    xp, floor = device.xp, EPS**2 * device.xp.sum(G * G, axis=0)
    while True:
        Sw = yield Step(lambda x=x: [x], device.column_norms(w), w, lambda w=w: w)  # type: ignore[misc]
        Mw = Sw + ridge * w
        ww = xp.sum(w * w, axis=0)
        wMw = xp.sum(w * Mw, axis=0)
        live = (wMw > 0) & (ww > floor)  # along what is only rounding, steps have no bound
        s = xp.where(live, ww / xp.where(live, wMw, xp.ones_like(wMw)), xp.zeros_like(wMw))[None, :]  # (1)
        x, w = x + s * w, w - s * Mw  # (2), (3)
