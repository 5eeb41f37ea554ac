"""The kernel matrices of both views, as solvers and the law multiply with them."""

from __future__ import annotations

import math
from typing import Any

from linspec import KernelOperator
from linspec.kernels import Kernel


class KernelMoments:
    """What `run.moments` gives to solvers of kernel problems.

    Parameters
    ----------
    problem : KernelCCA
    form : {"auto", "held", "tiled", "implicit"}
        That of the kernel matrices; "implicit" is "auto".

    Attributes
    ----------
    x, y : KernelOperator
        Centred where the problem centres. A product takes a pass, whether the matrix is held or not.
    home : Home
        Of float64 blocks.
    """

    held = spent = False  # every product with a kernel matrix is counted
    form = "implicit"
    sweep_cost = setup_cost = 1.0

    def __init__(self, problem: Any, form: str) -> None:
        form = "auto" if form == "implicit" else form
        self.x, self.y = (
            KernelOperator(A, kernel, center=problem.center, form=form, name=name)
            for name, A, kernel in (("X", problem.X, problem.kernel_x), ("Y", problem.Y, problem.kernel_y))
        )
        self.home = self.x.home

    @property
    def views(self) -> tuple[KernelOperator, KernelOperator]:
        """Both."""
        return self.x, self.y

    def settle(self, rng: Any, kernels: tuple[Kernel, Kernel] | None = None) -> tuple[Kernel, Kernel]:
        """Read the rows of both views, and take scales that are not given from them, or from these kernels."""
        for op, kernel in zip(self.views, kernels or (), strict=False):
            if not op.kernel.is_resolved:
                op.kernel = kernel
        return self.x.settle(rng), self.y.settle(rng)


def rounded_up(passes: float) -> float:
    """Fractions of passes to three digits: what a refusal names is enough."""
    return math.ceil(passes * 1000) / 1000
