"""The kernel matrices of both views, as solvers and the law multiply with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from linspec import KernelOperator
from linspec.arrays import HostArray
from linspec.errors import InvalidProblem, shown
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
    sweep_cost = 1.0

    def __init__(self, problem: Any, form: str) -> None:
        form = "auto" if form == "implicit" else form
        self._problem = problem
        self.x, self.y = (self._operator(name, form) for name in ("X", "Y"))
        self.home = self.x.home
        self.ridges = problem.ridge
        self._near: list[Nystrom] = []
        self._even: list[Nystrom] | list[None] | None = None

    def _operator(self, name: str, form: str) -> KernelOperator:
        """The kernel matrix of a view."""
        A, kernel = getattr(self._problem, name), getattr(self._problem, f"kernel_{name.lower()}")
        return KernelOperator(A, kernel, center=self._problem.center, form=form, name=name)

    @property
    def setup_cost(self) -> float:
        """The pass that reads the rows of both views; 0 once they are held."""
        return 0.0 if all(op.is_read for op in self.views) else 1.0

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

    def near_again(self, landmarks: Sequence[HostArray], shifts: Sequence[float]) -> list[Nystrom]:
        """Those of an earlier run, from their landmarks, with what that run had learnt of their shifts."""
        self._near = [
            Nystrom(op, ridge, numbers, shift=shift)
            for op, ridge, numbers, shift in zip(self.views, self.ridges, landmarks, shifts, strict=True)
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

    # ---- checkpoints --------------------------------------------------------------------------

    def learnt(self) -> dict[str, Any]:
        """The kernels as given and with all their numbers, and how matrices are kept: for a checkpoint."""
        kernels = [
            {**kernel_learnt(getattr(self._problem, f"kernel_{name}"), op.kernel), "form": op.form}
            for name, op in zip("xy", self.views, strict=True)
        ]
        return {"form": self.form, "views": [], "kernels": kernels}

    def take_up(self, learnt: Mapping[str, Any]) -> None:
        """Go on with what an earlier run had learnt.

        Raises
        ------
        InvalidProblem
            Its kernels were others.
        """
        for name, before in zip("xy", learnt["kernels"], strict=True):
            kernel = kernel_again(f"kernel_{name}", getattr(self._problem, f"kernel_{name}"), before)
            op = self._operator(name.upper(), str(before["form"]))
            op.kernel = kernel
            setattr(self, name, op)

    def ask_for_witnesses(self, before: Mapping[str, float], known: Mapping[str, Any]) -> None:
        """Identify the rows: they are held, and need not be asked for."""

    def witnesses(self, *, read: bool = False) -> dict[str, Any]:
        """What identifies the rows of each view."""
        return {op.name: op.witness for op in self.views}


def kernel_learnt(given: Kernel, own: Kernel) -> dict[str, Any]:
    """A kernel as it was given and with all its numbers: for a checkpoint."""
    return {"given": _numbers(given), "own": _numbers(own)}


def kernel_again(name: str, given: Kernel, learnt: Mapping[str, Any]) -> Kernel:
    """A kernel with the numbers that an earlier run had learnt.

    Raises
    ------
    InvalidProblem
        That run had another kernel.
    """
    check_same(name, _numbers(given), dict(learnt["given"]), given)
    numbers = {field: value for field, value in learnt["own"].items() if field != "kernel"}
    return replace(given, **numbers)


def check_same(name: str, own: Any, before: Any, given: Any) -> None:
    """Refuse a parameter of the problem that is not that of the checkpoint."""
    if own != before:
        raise InvalidProblem(
            f"the checkpoint is that of another run: {name} must be the same; the file has {shown(before)}, got "
            f"{given}. Pass what the run had, or leave start out."
        )


def _numbers(kernel: Kernel) -> dict[str, Any]:
    """The class of a kernel, and those of its fields that are numbers or texts."""
    own = {field.name: getattr(kernel, field.name) for field in fields(kernel)}
    simple = {name: value for name, value in own.items() if isinstance(value, bool | int | float | str)}
    return {"kernel": type(kernel).__name__, **simple}


def rounded_up(passes: float) -> float:
    """Fractions of passes to three digits: what a refusal names is enough."""
    return math.ceil(passes * 1000) / 1000
