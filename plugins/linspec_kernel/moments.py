"""The kernel matrices of the views of a problem, as solvers and certificates multiply with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from linspec import KernelOperator
from linspec.arrays import HostArray
from linspec.errors import InvalidProblem
from linspec.kernels import Kernel
from linspec_kernel.nystrom import LOOKED_AT, PROBED, Nystrom, default_landmarks


class KernelMatrices:
    """Kernel matrices of the views of a problem: the moments of a kernel problem, and what a run asks of them.

    Parameters
    ----------
    problem : Problem
        Its property `kernels` has the kernel of each view by the name of the matrix.
    form : {"auto", "held", "tiled", "implicit"}
        Form of the kernel matrices; "implicit" is "auto".

    Attributes
    ----------
    views : tuple of KernelOperator
        Centred if the problem centres, weighted if it has weights. A product counts as one pass, whether the matrix is
        held or not.
    home : Home
        Home of float64 blocks.
    """

    held = spent = False  # every product is counted, and rows can be read again
    form = "implicit"
    contradictions = ()
    cost = SimpleNamespace(sweep=1.0, setup=0.0)

    def __init__(self, problem: Any, form: str = "auto") -> None:
        self.views: Any = tuple(self.view(problem, name, form) for name in problem.kernels)
        self.home = self.views[0].home

    def view(self, problem: Any, name: str, form: str) -> Any:
        """Operator of the kernel matrix of a view."""
        return KernelOperator(
            getattr(problem, name),
            problem.kernels[name],
            center=problem.center,
            form="auto" if form == "implicit" else form,
            name=name,
            weights=problem.sample_weight,
        )

    @property
    def bookkeeping(self) -> KernelMatrices:
        """What a run asks of these moments: `spent`, `contradictions`, `learnt` and `take_up`."""
        return self

    def settle(self, rng: Any, kernels: Sequence[Kernel] | None = None) -> tuple[Kernel, ...]:
        """Read the rows of all views, complete the kernels, and return them with all parameters as numbers.

        A scale that the problem does not give is taken from `kernels`. By default it is computed from the rows.
        """
        for view, kernel in zip(self.views, kernels or (), strict=False):
            if not view.kernel.is_resolved:
                view.kernel = kernel
        return tuple(view.settle(rng) for view in self.views)

    def learnt(self) -> dict[str, Any]:
        """The kernels, whose scales may have been chosen from drawn rows."""
        return {"kernels": [numbers_of(view.kernel) for view in self.views]}

    def take_up(self, learnt: Mapping[str, Any]) -> None:
        """Restore the kernels of an earlier run."""
        for view, before in zip(self.views, learnt["kernels"], strict=True):
            view.kernel = replace(view.kernel, **before)


class KernelMoments(KernelMatrices):
    """Kernel matrices of two views, and their Nyström approximations."""

    def __init__(self, problem: Any, form: str) -> None:
        super().__init__(problem, form)
        self.ridges = problem.ridge
        self._near: list[Nystrom] = []
        self._even: list[Nystrom] | list[None] = []

    def near(
        self, landmarks: Iterable[HostArray], rng: Any = None, shifts: Sequence[float | None] = (None, None)
    ) -> list[Nystrom]:
        """Nyström approximations of both kernel matrices from landmarks, and from the shifts d of an earlier run."""
        self._near = [
            Nystrom(op, ridge, numbers, rng, PROBED, shift)
            for op, ridge, numbers, shift in zip(self.views, self.ridges, landmarks, shifts, strict=True)
        ]
        return self._near

    def nearest(self) -> list[Nystrom] | list[None]:
        """Nyström approximations for the certificate: those of the solver if they have `default_landmarks(n)` or more.

        Otherwise they are built from evenly spaced landmarks; (None, None) if these have no valid kernel values.
        """
        n = self.views[0].shape[0]
        if self._near and len(self._near[0].numbers) >= default_landmarks(n):
            return self._near
        if not self._even:
            even = np.unique(np.linspace(0, n - 1, default_landmarks(n)).astype(np.intp))
            try:
                self._even = [
                    Nystrom(op, ridge, even, np.random.default_rng(0), LOOKED_AT)
                    for op, ridge in zip(self.views, self.ridges, strict=True)
                ]
            except InvalidProblem:
                self._even = [None, None]
        return self._even


def numbers_of(kernel: Kernel) -> dict[str, Any]:
    """The fields of a kernel that are numbers or texts."""
    parts = {field.name: getattr(kernel, field.name) for field in fields(kernel)}
    return {name: value for name, value in parts.items() if isinstance(value, bool | int | float | str)}
