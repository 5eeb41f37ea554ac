"""Steps of iterations that receive their products with S: some share a pass, others run in other variables.

Problem: the systems (S + rᵢI) X = Bᵢ of a path have a preconditioner for each ridge, and so an iteration for each. Each
product of S is a pass over the data.
Method: an iteration is a generator. It yields the block that it needs a product of, and receives the product. All that
wait for one are served by the same pass. An iteration in other variables, x = H y, is the same generator for HᵀMH, with
blocks and products that are changed on the way (Saad 2003, Iterative Methods for Sparse Linear Systems, section 9.2).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from linspec.arrays import Array, Home, HostArray


class Step(NamedTuple):
    """One step of an iteration.

    Attributes
    ----------
    X : callable
        Returns the iterates, a list with an array for every ridge. They are not changed later.
    lengths : numpy.ndarray
        Of the columns of the residuals, the first ridge first.
    P : array of shape (p, k)
        What is to be multiplied by S next; without columns at the end.
    residual : callable
        Returns the residual of the least ridge.
    """

    X: Callable[[], list[Array]]
    lengths: HostArray
    P: Array
    residual: Callable[[], Array]


Steps = Generator[Step, Array, None]
"""Yields steps, and receives S P for each."""


class Variables(Protocol):
    """Other variables y for one system M x = b."""

    def forward(self, P: Array) -> Array:
        """Return the block that S multiplies for a block P in the other variables."""

    def back(self, V: Array, SV: Array) -> Array:
        """Return the product in the other variables, from S V for V = `forward(P)`."""

    def answer(self, Y: Array) -> Array:
        """Return x for y."""

    def lengths(self, step: Step) -> HostArray:
        """Return the lengths of the columns of b - M x for a step in the other variables."""


def driven(product: Callable[[Array], Array], steps: Steps) -> Iterator[Step]:
    """Yield the steps of one iteration, which makes its own products; it ends where it needs none.

    Parameters
    ----------
    product : callable
        V -> S V.
    steps : generator of Step
    """
    step = next(steps)
    while True:
        yield step
        if not step.P.shape[1]:
            return
        step = steps.send(product(step.P))


def in_variables(steps: Steps, variables: Variables) -> Steps:
    """Run an iteration for one ridge in other variables.

    Parameters
    ----------
    steps : generator of Step
        In the other variables.
    variables : Variables
    """
    step = next(steps)
    while True:
        V = variables.forward(step.P)
        X = lambda step=step: [variables.answer(step.X()[0])]  # noqa: E731
        SV = yield Step(X, variables.lengths(step), V, step.residual)
        step = steps.send(variables.back(V, SV))


def side_by_side(
    product: Callable[[Array], Array], iterations: Sequence[Steps], waits: Callable[[int, Step], bool]
) -> Iterator[list[Step]]:
    """Yield the steps of some iterations, which share each product; it ends where none needs one.

    Parameters
    ----------
    product : callable
        V -> S V.
    iterations : sequence of generator of Step
    waits : callable
        Takes the number of an iteration and its step; whether it is near enough to wait for others.
    """
    now = [next(steps) for steps in iterations]
    while True:
        yield list(now)
        able = [i for i, step in enumerate(now) if step.P.shape[1]]
        live = [i for i in able if not waits(i, now[i])] or able
        if not live:
            return
        SV = product(Home.of(now[0].P).concat([now[i].P for i in live]))
        edges = np.cumsum([0, *(now[i].P.shape[1] for i in live)]).tolist()
        for i, (a, b) in zip(live, pairwise(edges), strict=True):
            now[i] = iterations[i].send(SV[:, a:b])
