"""Sparse components by alternation from several starts: the best weights of each view in turn, with the others held.

Problem: those of `linspec_pls.sparse.problem`.
Method: for each component, and for each start v,

    u ← the best weights for C v,   v ← the best weights for Cᵀu,                      (1)

where C has lost earlier components; of one matrix v ← the best weights for AᵀA v. No value falls. "pmd" has soft
thresholds for (1), "admm" solves a convex problem each time (`linspec_pls.sparse.half_steps`). The starts are the
leading singular vectors of C, from subspace iteration with a random block, and vectors of an earlier answer. All starts
are columns of one block, which has ROUGH steps; then the best goes on until it violates no condition.
What is held: "pmd" holds XᵀY, or of one matrix AᵀA, where that saves passes and fits; else a step is a pass over each
view. So sparse rows stay sparse, and of wide data no square matrix is formed. "admm" holds all Gram matrices.
Source: Witten, Tibshirani & Hastie 2009, doi:10.1093/biostatistics/kxp008, Algorithms 1 to 3; Suo, Minden, Nelson,
Tibshirani & Saunders 2017, arXiv:1705.10865, Algorithm 1.
Where we differ: they have one start, the leading singular vector, and a fixed number of steps.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from linspec import form_option, limit_option, option, tol_option
from linspec.arrays import HOST, HostArray, reciprocal, to_host
from linspec.cost import FACTOR_RATE, Estimate, Sizes, gram_seconds, sweeps_estimate
from linspec.errors import OutOfMemory
from linspec.iteration import Context, Iterate
from linspec.linalg import orthonormal
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_pls.sparse.half_steps import MetricSteps, UnitSteps
from linspec_pls.sparse.problem import Component

POWERS, ROUGH, STILL = 8, 15, 50
"""Steps of the subspace iteration, steps of all starts, and steps without a rise of the value after which one ends."""

RISES = 1e-15
"""A smaller relative change of a value is none."""

COPIES = 6
"""Square matrices of all columns that "admm" holds at most."""

EXPECTED = 100
"""Expected products with each view."""

ENDED = "The search had not ended: components are missing, or other starts may have larger values."

Onto = Callable[[int, HostArray], HostArray]
"""The products onto a side of weights of the other one."""


@dataclass(frozen=True, kw_only=True)
class Alternating(Solver):
    """What the solvers share."""

    repeats: int = option(5, "starts of each component", at_least=1)
    tol: float | None = tol_option()
    max_iterations: int = limit_option(20_000)
    form: str = form_option()

    @abstractmethod
    def begun(self, problem: Any, moments: Moments) -> tuple[Onto, list[Any], list[HostArray]]:
        """Products in units of the columns, the half steps of each side, and the lengths of the columns."""

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the components so far and the best start of the next one, after each step."""
        onto, steps, lengths = self.begun(problem, moments)
        units = [reciprocal(d) for d in lengths]
        given = None if start is None else to_host(start[problem.solved[-1]]) * lengths[-1][:, None]
        components: list[Component] = []
        worst = 0.0

        def arrays(listed: Sequence[Component]) -> dict[str, HostArray]:
            blocks = [np.array([one.weights[i] for one in listed]) for i in range(len(units))]
            named = zip(problem.solved, blocks, units, strict=True)
            return {name: (T.reshape(len(listed), -1) * unit).T for name, T, unit in named}

        while len(components) < problem.k:
            climb = Climb(problem, onto, steps, list(components))
            climb.begin(self.repeats, len(lengths[-1]), context, given)
            while climb.live and not climb.ended(context.tol):
                residual = max(worst, climb.residual)
                yield Iterate(residual, partial(arrays, [*components, climb.component]), doubt=ENDED)
                climb.step()
            if not climb.live:
                break
            worst = max(worst, climb.residual)
            components.append(climb.component)
        yield Iterate(worst, partial(arrays, list(components)))

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of products with the starts."""
        return sweeps_estimate(replace(sizes, k=cls.repeats), EXPECTED * sizes.k)


class Climb:
    """The ascent of one component from several starts.

    Parameters
    ----------
    problem : Sparse
    onto : callable
        Products with the rows, in units of the columns.
    steps : list of UnitSteps or MetricSteps
        The half steps of each side.
    earlier : list of Component
    """

    def __init__(self, problem: Any, onto: Onto, steps: Sequence[Any], earlier: Sequence[Component]) -> None:
        self.problem, self.onto, self.steps, self.earlier = problem, onto, steps, earlier
        self.W: list[Any] = [None] * len(steps)
        self.A: list[Any] = [None] * len(steps)
        self.taken, self.still, self.value, self.best = 0, 0, 0.0, 0

    def pull(self, side: int, T: HostArray) -> HostArray:
        """The products onto a side of weights T of the other one, without earlier components."""
        product = self.onto(side, self.problem.before(T, self.earlier))
        return np.asarray(self.problem.after(side, product, T, self.earlier))

    def begin(self, count: int, columns: int, context: Context, given: HostArray | None) -> None:
        """Take a step from leading singular vectors, and from the vector of an earlier answer."""
        T = context.rng.standard_normal((columns, min(count, columns)))
        for _ in range(POWERS):
            for side in range(len(self.steps)):
                T = orthonormal(self.pull(side, T))[0]
        self.A[0] = self.pull(0, T)
        T = T @ np.linalg.svd(self.A[0], full_matrices=False)[2].T
        j = len(self.earlier)
        if given is not None and j < given.shape[1]:
            T = np.column_stack([T, given[:, j]])
        self.A[0] = self.pull(0, T)
        if T.shape[1]:
            self.step()

    def step(self) -> None:
        """Take the best weights of each side in turn (1)."""
        for i, half in enumerate(self.steps):
            self.A[i] = self.pull(i, self.W[i - 1]) if i else self.A[0]
            self.W[i] = half.best(self.A[i], self.W[i])
        self.A[0] = self.pull(0, self.W[-1])
        values = np.sum(self.W[0] * self.A[0], axis=0)
        self.best, self.taken = int(np.argmax(values)), self.taken + 1
        self.still = 0 if values[self.best] > self.value * (1 + RISES) else self.still + 1
        self.value = float(values[self.best])
        if self.taken == ROUGH:
            self.A, self.W = ([block[:, [self.best]] for block in blocks] for blocks in (self.A, self.W))
            self.best = 0

    @property
    def live(self) -> bool:
        """Whether there is a component."""
        return self.value > 0

    def ended(self, tol: float) -> bool:
        """Whether the best start is at the tolerance, or stands still."""
        return self.taken >= ROUGH and (self.residual <= tol or self.still >= STILL)

    @property
    def residual(self) -> float:
        """The largest violation of a side by the best start."""
        component, a = self.component, [A[:, self.best] for A in self.A]
        parts = zip(self.steps, a, component.weights, component.images, strict=True)
        return max(half.penalty.violation(*vectors) for half, *vectors in parts)

    @property
    def component(self) -> Component:
        """The best start."""
        weights = [W[:, self.best] for W in self.W]
        images = [half.image(t) for half, t in zip(self.steps, weights, strict=True)]
        return Component(weights, images, self.value)


@dataclass(frozen=True, kw_only=True)
class PMD(Alternating):
    """The penalized matrix decomposition from several starts (Witten, Tibshirani & Hastie 2009)."""

    def begun(self, problem: Any, moments: Moments) -> tuple[Onto, list[Any], list[HostArray]]:
        """Products with XᵀY, or AᵀA, held or not."""
        devices = [A.device.blocks for A in moments.operators]
        form = moments.cheapest_form(EXPECTED, self.repeats) if self.form == "auto" else self.form
        if moments.once or (form != "implicit" and len(devices) == 1) or form == "sparse":
            moments.expect(EXPECTED, self.repeats, "dense" if form == "implicit" else form)
        C = moments.cross() if len(devices) > 1 and form == "dense" else None

        def onto(side: int, T: HostArray) -> HostArray:
            other = devices[side - 1].asarray(T)
            if len(devices) == 1:
                return to_host(moments.gram_product(other))
            if C is not None:
                return to_host((C.T if side else C) @ other)
            products = moments.products(*([other, None] if side else [None, other]), onto=(side,))
            return to_host(products[1 - side][side])

        steps = [UnitSteps(penalty) for penalty in problem.penalties]
        return onto, steps, [np.ones(p) for p in moments.widths]


@dataclass(frozen=True, kw_only=True)
class ADMM(Alternating):
    """Alternating convex problems by ADMM (Suo, Minden, Nelson, Tibshirani & Saunders 2017)."""

    def begun(self, problem: Any, moments: Moments) -> tuple[Onto, list[Any], list[HostArray]]:
        """Products with Gram matrices in units of the columns."""
        needed, free = 8.0 * COPIES * sum(moments.widths) ** 2, HOST.free_memory()
        if needed > free:
            raise OutOfMemory(
                f"sparse-cca holds the Gram matrices of {sum(moments.widths)} columns and their eigenvectors, which "
                f"take {needed / 1e9:.3g} GB; got {free / 1e9:.3g} GB. linspec.SparsePLS takes more columns."
            )
        (XtX, C), (_, YtY) = ([to_host(block) for block in row] for row in moments.gram())
        lengths, steps = [], []
        for G, ridge, penalty in zip((XtX, YtY), problem.ridge, problem.penalties, strict=True):
            d = np.sqrt(G.diagonal() + ridge)
            unit = reciprocal(d)
            lengths.append(d)
            steps.append(MetricSteps(penalty, unit[:, None] * (G + ridge * np.eye(len(d))) * unit))
        K = reciprocal(lengths[0])[:, None] * C * reciprocal(lengths[1])
        return (lambda side, T: (K.T if side else K) @ T), steps, lengths

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of Gram matrices, their eigenvectors, and steps with these."""
        columns = float(sizes.p + sizes.q)
        seconds = gram_seconds(sizes) + (10.0 * columns**3 + EXPECTED * sizes.k * columns**2) / FACTOR_RATE
        return Estimate(seconds, 8.0 * COPIES * columns**2, "Gram matrices and half steps")
