"""The kernel matrices of both views, as solvers and the law multiply with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from linspec import KernelOperator
from linspec.errors import InvalidProblem
from linspec.kernels import Kernel
from linspec_kernel.nystrom import LOOKED_AT, PROBED, Nystrom, default_landmarks


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
        self.ridges = problem.ridge
        self._near: list[Nystrom] = []
        self._even: list[Nystrom] | list[None] | None = None

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

    def near(self, m: int, rng: Any) -> list[Nystrom]:
        """Approximations of both kernel matrices from m landmarks, drawn with equal probabilities."""
        n = self.x.shape[0]
        self._near = [
            Nystrom(op, ridge, np.sort(rng.choice(n, m, replace=False)), rng, PROBED)
            for op, ridge in zip(self.views, self.ridges, strict=True)
        ]
        return self._near

    def nearest(self) -> list[Nystrom] | list[None]:
        """Those that the solver has made; or from landmarks at even distances, where those are fewer or none.

        None, where the landmarks have no kernel values.
        """
        n = self.x.shape[0]
        if self._near and len(self._near[0].numbers) >= default_landmarks(n):
            return self._near
        if self._even is None:
            even = np.unique(np.linspace(0, n - 1, default_landmarks(n)).astype(np.intp))
            try:
                self._even = [
                    Nystrom(op, ridge, even, np.random.default_rng(0), LOOKED_AT)
                    for op, ridge in zip(self.views, self.ridges, strict=True)
                ]
            except InvalidProblem:
                self._even = [None, None]
        return self._even


def rounded_up(passes: float) -> float:
    """Fractions of passes to three digits: what a refusal names is enough."""
    return math.ceil(passes * 1000) / 1000
