"""Gradient descent whose steps come one iteration late.

Problem: min ‖A x − B‖² + r ‖x‖².
Method: Barzilai & Borwein (1988). With M = AᵀA + rI and g = AᵀB − M x, steepest descent takes the step gᵀg / gᵀMg.
Here every step is the one that steepest descent would have taken an iteration earlier. That breaks its zigzag:
the residual rises now and then, and is soon far below.
Where we differ: each right-hand side has its own step.
"""

from dataclasses import dataclass

from linspec import Iterate, IterativeSolver, limit_option, tol_option
from linspec.arrays import to_host


@dataclass(frozen=True, kw_only=True)
class TwoPoint(IterativeSolver):
    """Gradient descent with the step of the iteration before (Barzilai & Borwein 1988)."""

    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(2000)

    def iterates(self, problem, run, state=None):
        moments = run.moments()
        xp = moments.home.xp
        if state is None:  # a new run
            AtB = moments.cross()
            state = {"x": 0.0 * AtB, "g": AtB, "late": None, "AtB": AtB}
        x, g, late, AtB = (state[name] for name in ("x", "g", "late", "AtB"))
        while True:
            yield Iterate(relative(xp, g, AtB), x=x, state={"g": g, "late": late, "AtB": AtB})
            Mg = moments.gram(g) + problem.ridge * g
            gMg = xp.sum(g * Mg, axis=0)
            step = xp.sum(g * g, axis=0) / xp.where(gMg > 0, gMg, xp.ones_like(gMg))  # g = 0 stands still
            late = step if late is None else late
            x, g, late = x + late * g, g - late * Mg, step


def relative(xp, g, AtB):
    """The residual of least squares: the largest ‖g‖ / ‖AᵀB‖ of a right-hand side."""
    squares = to_host(xp.stack([xp.sum(g * g, axis=0), xp.sum(AtB * AtB, axis=0)]))
    return max((a / b for a, b in squares.T if b > 0), default=0.0) ** 0.5
