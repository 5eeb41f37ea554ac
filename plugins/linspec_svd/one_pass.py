"""What is said of answers from a single pass: residuals that random columns estimate, and digits that squaring loses.

Rows that were read once leave nothing to judge by. Ten random columns Z take part in the pass: for r = AᵀAv - σ²v,
‖Zᵀr‖²/10 estimates ‖r‖², since Z is independent of the sketch. Each residual is met within a factor of about two.
"""

from __future__ import annotations

import numpy as np

from linspec import Status
from linspec.arrays import Array, HostArray, to_host
from linspec.iteration import Context
from linspec.process import count_of
from linspec.rows import Moments

PROBES = 10
"""Random columns from which residuals are estimated."""

LOST = 1e-10
"""Largest relative error eps (σ₁/σ_k)² of a subspace from squares that is not reported; for float32 data 100 eps."""

ANEW = "Pass a callable that returns the slices anew."

ENDED = "A sketch of {columns} in one pass, without further data to check it: estimated residual about "
ENDED += "{residual:.0e} (from {probes} random columns in the same sweep). "
ENDED += "Pass a callable that returns the slices anew: then the answer is judged, and can be improved to a tolerance."


class Probes:
    """Random columns that take part in a pass; draw those of the method first."""

    def __init__(self, moments: Moments, context: Context) -> None:
        self.place = moments.operators[0].backend.blocks
        self.Z = self.place.place(context.rng.standard_normal((moments.widths[0], PROBES)))

    def beside(self, V: Array) -> Array:
        """V and the random columns."""
        return self.place.concat([V, self.Z])

    def note(self, context: Context, columns: int, AtAZ: Array, V: Array, S: HostArray) -> None:
        """Say what residual the random columns estimate."""
        gaps = to_host(AtAZ.T @ V) - to_host(self.Z.T @ V) * S**2
        residual = float(np.sqrt((gaps**2).sum(axis=0).max() / PROBES) / S[0] ** 2) if len(S) else 0.0
        text = ENDED.format(columns=count_of(columns, "column"), residual=residual, probes=PROBES)
        context.note(Status.APPROXIMATE, text)


def say_what_is_lost(moments: Moments, context: Context, S: HostArray, how: str, remedy: str) -> None:
    """Say that squaring has lost digits of the smallest directions, if it has."""
    unit = float(np.finfo(moments.operators[0].dtype).eps)
    lost = unit * float(S[0] / S[-1]) ** 2 if len(S) else 0.0
    if lost > max(LOST, 100 * unit):
        text = (
            f"The singular values asked for fall to {S[-1] / S[0]:.0e} of the largest: {how}, the smallest "
        )
        context.note(Status.ILL_CONDITIONED, f"{text}directions are off by about {lost:.0e}. {remedy}")
