"""The kernel matrices of the views of a problem, as solvers and certificates multiply with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from linspec import KernelOperator, LinearOperator
from linspec.arrays import HostArray
from linspec.features import FeatureMap
from linspec.kernels import Kernel
from linspec.rows import Passes
from linspec_kernel.nystrom import Nystrom


class KernelMoments:
    """Kernel matrices of the views of a problem, their Nyström approximations, and the count of their passes.

    A product with a matrix is a pass, whether the matrix is held or not. Passes of two views are one pass together.

    Parameters
    ----------
    problem : Problem
        Its property `kernels` has the kernel of each view by the name of the matrix.
    passes : Passes
        It sets aside the passes of the certificate.

    Attributes
    ----------
    operators : list of KernelOperator
        Centred if the problem centres, weighted if it has weights.
    maps : list of FeatureMap or None
        For each view the features that functions are made of; None: kernel functions.
    home : Home
        Home of float64 blocks.
    read : list of float
        How often each view was read or multiplied; a pass is one over all views.
    """

    def __init__(self, problem: Any, passes: Passes) -> None:
        self.names, self.passes, self.read = tuple(problem.kernels), passes, [0.0] * len(problem.matrices)
        self.ridges = getattr(problem, problem.stated.ridge)
        self.operators = [
            KernelOperator(
                getattr(problem, name),
                kernel,
                center=problem.center,
                name=name,
                weights=problem.sample_weight,
                begins=partial(self.take, i),
            )
            for i, (name, kernel) in enumerate(problem.kernels.items())
        ]
        self.open = [not kernel.is_resolved for kernel in problem.kernels.values()]
        self.maps: list[FeatureMap | None] = [None for _ in self.names]
        self.home = self.operators[0].home
        self.nearest: list[Nystrom] | list[None] = [None for _ in self.names]
        passes.reserved += problem.certificate_products

    def take(self, i: int, columns: float, share: float, flops: float) -> None:
        """Count a pass over one view, or a share of one, before it begins."""
        read = [one + share * (i == j) for j, one in enumerate(self.read)]
        self.passes.take(max(read) - max(self.read))
        self.read = read
        self.passes.columns += columns
        self.passes.flops += flops

    def settle(
        self, rng: Any = None, arrays: Mapping[str, Any] | None = None, form: str = ""
    ) -> tuple[Kernel, ...]:
        """Read the rows of all views at the first call, and return the kernels with all parameters as numbers.

        Parameters
        ----------
        rng : numpy.random.Generator, optional
            It draws the rows from which scales are computed that nobody gives.
        arrays : mapping of str to array, optional
            Those of an iterate, with the scales that `learnt` has added.
        form : {"auto", "held", "tiled"}, optional
            Form of the kernel matrices.
        """
        for op, name in zip(self.operators, self.names, strict=True):
            numbers = (arrays or {}).get(f"{name.lower()}_kernel")
            if numbers is not None and not op.kernel.is_resolved:
                op.kernel = with_numbers(op.kernel, numbers)
            op.asked = form or op.asked
        return tuple(op.settle(rng) for op in self.operators)

    def learnt(self) -> dict[str, HostArray]:
        """The parameters of kernels that rows have given, as arrays that belong to every iterate."""
        return {
            f"{name.lower()}_kernel": as_numbers(op.kernel)
            for op, name, chosen in zip(self.operators, self.names, self.open, strict=True)
            if chosen
        }

    def features(self, i: int) -> LinearOperator | None:
        """The features of the rows of a view, whose reading is counted now; None for kernel functions."""
        features = self.maps[i]
        if features is None:
            return None
        self.take(i, 0.0, 1.0, 0.0)
        return features(self.operators[i].data)

    def near(self, landmarks: Iterable[HostArray], rng: Any) -> list[Nystrom]:
        """Nyström approximations of both kernel matrices from landmarks."""
        found = [
            Nystrom(op, ridge, numbers, rng)
            for op, ridge, numbers in zip(self.operators, self.ridges, landmarks, strict=True)
        ]
        self.nearest = found
        return found


class Fitted:
    """Feature map of a view, fitted to the training rows.

    Attributes
    ----------
    map : FeatureMap
    """

    def __init__(self, map: FeatureMap, kernel: Kernel) -> None:  # noqa: A002  # the name of the attribute
        self.map = map
        self.kernel = kernel

    def __repr__(self) -> str:
        return f"{type(self.map).__name__}({self.map.inputs} -> {self.map.columns}, {self.kernel})"


def as_numbers(kernel: Kernel) -> HostArray:
    """The fields of a kernel that are numbers: an array of two rows, whether each field is one, and its value."""
    values = [getattr(kernel, field.name) for field in fields(kernel)]
    given = [isinstance(value, int | float) for value in values]
    return np.array([given, [float(v) if is_one else 0.0 for v, is_one in zip(values, given, strict=True)]])


def with_numbers(kernel: Kernel, numbers: HostArray) -> Kernel:
    """The kernel with the numbers that `as_numbers` has returned of another one of its class."""
    new = {
        field.name: float(value)
        for field, is_one, value in zip(fields(kernel), *np.asarray(numbers), strict=True)
        if is_one and value != getattr(kernel, field.name)
    }
    return replace(kernel, **new)
