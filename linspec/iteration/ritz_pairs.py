"""Iterates of LOBPCG on a pencil, in the norm in which its residuals are measured.

Problem: canonical correlations of two and of several views iterate alike; they differ in what they make of residuals.
Method: the residuals ϱ of the pairs (`linspec.linalg.lobpcg_steps`), measured in S⁻¹, become directions S⁻¹ϱ of the
subspaces, as exact as the norm is. Pairs far below the tolerance stay in the subspaces, and need no more products.
From a start the iteration goes on until the pair after the last, which comes from random columns, is near: a larger one
that the start lacks would have come before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from linspec.arrays import Array, Device, HostArray, to_host
from linspec.certificates.metric import Metric
from linspec.iteration.loop import Context, Iterate
from linspec.linalg.lobpcg import RitzBlocks

PROGRESS, PATIENCE = 0.9, 25
"""Within PATIENCE steps the residual must fall below PROGRESS times its least value: else it is rounding."""

NEAR = 0.1
"""The pair after the last is near if its residual is this part of the last value."""

DOUBT = "The run ended before its random columns could show that the start lacks no leading {}."


def ritz_iterates(  # noqa: PLR0913 (what problems differ in)
    steps: Generator[RitzBlocks, Sequence[Array] | None, None],
    metrics: Sequence[Metric],
    context: Context,
    k: int,
    judged: Callable[[RitzBlocks, HostArray], tuple[float, HostArray]],
    arrays: Callable[[RitzBlocks], Mapping[str, Any]],
    *,
    begun: bool,
    what: str,
    shares: Sequence[float] | None = None,
) -> Iterator[Iterate]:
    """Yield the Ritz pairs within subspaces that grow.

    Parameters
    ----------
    steps : generator
        `lobpcg_steps`.
    metrics : sequence of Metric
        The norm of Sᵢ⁻¹ for each view.
    context : Context
    k : int
    judged : callable
        Takes the pairs and ‖ϱ‖² of each; returns the residual, and which pairs need more directions.
    arrays : callable
        Takes the pairs; returns those of the answer.
    begun : bool
        Whether the first block has the columns of a start.
    what : str
        The name of a pair.
    shares : sequence of float, optional
        The multiples of Sᵢ that stand in the pencil; by default 1.
    """
    ritz, least, since = next(steps), math.inf, 0
    ones = shares or [1.0 for _ in metrics]
    while True:
        y = [metric.dual(R) for metric, R in zip(metrics, ritz.residuals, strict=True)]
        device = Device.of(y[0])
        parts = zip(metrics, y, ones, strict=True)
        squares: HostArray = to_host(
            sum(device.column_sums(part * part) * (metric.up**2 / share) for metric, part, share in parts)
        )
        residual, live = judged(ritz, squares)
        known = not begun or ritz.exhausted or residual > context.tol
        searched = known or bool((squares[k : k + 1] <= (NEAR * ritz.values[k - 1 : k]) ** 2).all())
        doubt = "" if searched else DOUBT.format(what)
        yield Iterate(residual, partial(arrays, ritz), ritz.exhausted, doubt)
        least, since = (residual, 0) if residual < PROGRESS * least else (least, since + 1)
        if ritz.exhausted or since > PATIENCE:
            return
        if not live.all():
            numbers = device.xp.asarray(np.flatnonzero(live), device=device.native)
            y = [device.xp.take(part, numbers, axis=1) for part in y]
        ritz = steps.send([metric.lift(part) for metric, part in zip(metrics, y, strict=True)])
