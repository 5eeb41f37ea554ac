"""The kernel matrices of the views of a problem, as solvers and certificates multiply with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from linspec import KernelOperator
from linspec.arrays import HostArray
from linspec.errors import BrokenPlugin, InvalidProblem
from linspec.kernels import Kernel
from linspec_kernel.nystrom import LOOKED_AT, PROBED, Nystrom, default_landmarks


class Costs(NamedTuple):
    """Numbers of passes over the data.

    Attributes
    ----------
    sweep : float
        Passes of each product.
    setup : float
        Passes that are needed once, before the first product.
    """

    sweep: float
    setup: float


class KernelMatrices:
    """Kernel matrices of the views of a problem: the moments of a kernel problem.

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

    held = False  # every product with a kernel matrix is counted
    form = "implicit"

    def __init__(self, problem: Any, form: str) -> None:
        form = "auto" if form == "implicit" else form
        self._problem = problem
        self.views = tuple(self.operator(name, form) for name in problem.kernels)
        self.home = self.views[0].home

    def operator(self, name: str, form: str) -> KernelOperator:
        """Operator of the kernel matrix of a view."""
        problem = self._problem
        return KernelOperator(
            getattr(problem, name),
            problem.kernels[name],
            center=problem.center,
            form=form,
            name=name,
            weights=problem.sample_weight,
        )

    @property
    def cost(self) -> Costs:
        """Passes of each product (`sweep`, 1), and passes needed before the first product (`setup`).

        `setup` is 1, for reading the rows, until the rows of all views are in memory; then it is 0.
        """
        return Costs(sweep=1.0, setup=0.0 if all(op.is_read for op in self.views) else 1.0)

    @property
    def bookkeeping(self) -> KernelBooks:
        """What a run asks of these moments."""
        return KernelBooks(self._problem, self)

    def settle(self, rng: Any, kernels: Sequence[Kernel] | None = None) -> tuple[Kernel, ...]:
        """Read the rows of all views, complete the kernels, and return them with all parameters as numbers.

        A scale that the problem does not give is taken from `kernels`. By default it is computed from the rows.
        """
        for op, kernel in zip(self.views, kernels or (), strict=False):
            if not op.kernel.is_resolved:
                op.kernel = kernel
        return tuple(op.settle(rng) for op in self.views)

    def check_settled(self) -> None:
        """Raise if the scale of a kernel is still to be computed, so that the law would judge by another kernel.

        Raises
        ------
        BrokenPlugin
        """
        if not all(op.kernel.is_resolved for op in self.views):
            raise BrokenPlugin(
                f"a solver of {self._problem.name} must call run.moments(...).settle(run.rng) before it finishes: the "
                "scale of a kernel is still to be taken from the rows."
            )


class KernelMoments(KernelMatrices):
    """Kernel matrices of two views, and their Nyström approximations.

    Parameters
    ----------
    problem : KernelCCA
    form : str
    """

    def __init__(self, problem: Any, form: str) -> None:
        super().__init__(problem, form)
        self.ridges = problem.ridge
        self._near: list[Nystrom] = []
        self._even: list[Nystrom] | list[None] | None = None

    @property
    def x(self) -> KernelOperator:
        """Kernel matrix of X."""
        return self.views[0]

    @property
    def y(self) -> KernelOperator:
        """Kernel matrix of Y."""
        return self.views[1]

    def near(self, m: int, rng: Any) -> list[Nystrom]:
        """Nyström approximations of both kernel matrices from m landmarks, drawn with equal probabilities."""
        n = self.x.shape[0]
        self._near = [
            Nystrom(op, ridge, np.sort(rng.choice(n, m, replace=False)), rng, PROBED)
            for op, ridge in zip(self.views, self.ridges, strict=True)
        ]
        return self._near

    def near_again(self, landmarks: Sequence[HostArray], shifts: Sequence[float]) -> list[Nystrom]:
        """Rebuild the Nyström approximations of an earlier run from its landmarks and its shifts d."""
        self._near = [
            Nystrom(op, ridge, numbers, shift=shift)
            for op, ridge, numbers, shift in zip(self.views, self.ridges, landmarks, shifts, strict=True)
        ]
        return self._near

    def nearest(self) -> list[Nystrom] | list[None]:
        """Nyström approximations for the certificate: those of the solver if they have `default_landmarks(n)` or more.

        Otherwise they are built from evenly spaced landmarks; (None, None) if these have no valid kernel values.
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


class KernelBooks:
    """What a run asks of kernel matrices: rows are held, and their products are never contradictory."""

    spent = False
    contradictions = ()

    def __init__(self, problem: Any, moments: KernelMatrices) -> None:
        self._problem, self._moments = problem, moments

    def learnt(self) -> dict[str, Any]:
        """The scales of kernels, which may have been chosen from drawn rows, and the forms of the matrices."""
        return {"kernels": [{**numbers_of(op.kernel), "form": op.form} for op in self._moments.views]}

    def take_up(self, learnt: Mapping[str, Any]) -> None:
        """Restore the kernels and the forms of an earlier run."""
        found = []
        for (name, given), before in zip(self._problem.kernels.items(), learnt["kernels"], strict=True):
            op = self._moments.operator(name, str(before["form"]))
            op.kernel = replace(given, **{key: value for key, value in before.items() if key != "form"})
            found.append(op)
        self._moments.views = tuple(found)


def numbers_of(kernel: Kernel) -> dict[str, Any]:
    """The fields of a kernel that are numbers or texts."""
    own = {field.name: getattr(kernel, field.name) for field in fields(kernel)}
    return {name: value for name, value in own.items() if isinstance(value, bool | int | float | str)}


def rounded_up(passes: float) -> float:
    """Round a number of passes upwards to three decimal places, which are enough for messages."""
    return math.ceil(passes * 1000) / 1000
