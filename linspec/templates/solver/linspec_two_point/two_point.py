"""Gradient descent whose steps come one iteration late.

Problem: min ‖A x − B‖² + r ‖x‖².
Method: Barzilai & Borwein (1988). With M = AᵀA + rI and g = AᵀB − M x, steepest descent takes the step gᵀg / gᵀMg.
Here every step is the one that steepest descent would have taken an iteration earlier. That breaks its zigzag:
the residual rises now and then, and is soon far below.
Where we differ: each right-hand side has its own step.
"""

from dataclasses import dataclass
from functools import partial

from linspec import limit_option, tol_option
from linspec.arrays import Device, to_host
from linspec.iteration import Iterate
from linspec.solving import Solver


@dataclass(frozen=True, kw_only=True)
class TwoPoint(Solver):
    """Gradient descent with the step of the iteration before (Barzilai & Borwein 1988)."""

    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(2000)

    def iterate(self, problem, moments, context, start):
        moments.expect(200, problem.width)
        AtB = moments.cross()
        device, xp, late = Device.of(AtB), Device.of(AtB).xp, None
        x = 0.0 * AtB if start is None else device.asarray(start["x"])
        g = AtB if start is None else AtB - moments.gram_product(x) - problem.ridge * x
        while True:
            yield Iterate(relative(xp, g, AtB), partial(dict, x=x))
            Mg = moments.gram_product(g) + problem.ridge * g
            gMg = xp.sum(g * Mg, axis=0)
            step = xp.sum(g * g, axis=0) / xp.where(gMg > 0, gMg, xp.ones_like(gMg))  # g = 0 stands still
            late = step if late is None else late
            x, g, late = x + late * g, g - late * Mg, step


def relative(xp, g, AtB):
    """The residual of least squares: the largest ‖g‖ / ‖AᵀB‖ of a right-hand side."""
    squares = to_host(xp.stack([xp.sum(g * g, axis=0), xp.sum(AtB * AtB, axis=0)]))
    return max((a / b for a, b in squares.T if b > 0), default=0.0) ** 0.5
